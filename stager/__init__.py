"""The stager: brings the weights of one repository at one revision onto a volume, verified, and never twice.

It travels in a ConfigMap and runs in a pod of its own, so it is one flat package that imports nothing else of
heavylift. `python -m stager --help` shows its subcommands; `verify.py` also runs as a file.
"""
