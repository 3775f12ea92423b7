"""The hub's responses: API, files and wheel index."""
