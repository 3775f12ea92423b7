"""Imported before anything else: looking for garbage while modules load was a fifth of the time that loading takes."""

import gc

gc.set_threshold(200_000)
