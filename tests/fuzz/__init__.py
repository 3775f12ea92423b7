"""Fuzzers: programs that run the stager with random faults, for a given number of rounds."""
