"""The lab's only exception: its message goes to the user, without a traceback."""


class LabError(Exception):
    """A fault that the user can fix. The message says what is missing or wrong, where to look and what to do."""
