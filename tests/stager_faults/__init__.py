"""Runs the stager against real servers with faults and with real signals, on this machine, without a cluster."""
