"""The one exception of the lab: a message for the person at the keyboard, never a traceback."""


class LabError(Exception):
    """Something the user can mend: what is missing or wrong, where to look, what to do."""
