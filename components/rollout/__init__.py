"""Waits for staging Jobs and servers: reads pod status, reports progress, and decides when to fail."""
