"""Rules that engines share: each is a function that yields findings."""
