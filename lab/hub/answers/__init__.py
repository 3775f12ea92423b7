"""How the hub answers: its API, files and the wheel index."""
