"""Benchmarks, one `make bench-…` each; what they gave is in `docs/benchmarks.md`."""
