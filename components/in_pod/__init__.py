"""Programs that run in pods, each a single standard-library file."""
