"""What a change does to a stack that is deployed, by the engine's own events, and how a stack has drifted."""
