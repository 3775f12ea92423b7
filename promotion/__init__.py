"""Whether a release proved itself: what the engine's own records say of the stack that ran it before.

`history` reads the records, `proof` judges them, `admission` is what the program asks before it makes a resource.
"""
