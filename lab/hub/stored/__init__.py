"""The hub's repositories, with their revisions and files."""
