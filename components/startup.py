"""Import first: stops garbage collection while modules are imported, which took a tenth of a program's CPU time.

Imports make hundreds of thousands of objects that stay. `imported` starts collection again and leaves these out.
"""

import gc

gc.disable()


def imported() -> None:
    """Starts garbage collection. Objects made so far are never searched, also when the program ends."""
    gc.freeze()
    gc.set_threshold(200_000)
    gc.enable()
