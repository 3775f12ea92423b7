"""The stager, piece by piece."""
