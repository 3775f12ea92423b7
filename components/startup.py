"""Import first: raises the garbage collector's threshold, because collection took a fifth of the import time."""

import gc

gc.set_threshold(200_000)
