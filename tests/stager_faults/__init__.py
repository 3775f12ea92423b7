"""The stager against real servers that misbehave and real signals, on this machine and without a cluster."""
