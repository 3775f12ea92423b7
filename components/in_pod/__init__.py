"""Programs that run in pods with the standard library only, and how ConfigMaps carry them."""
