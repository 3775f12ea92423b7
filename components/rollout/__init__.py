"""The wait for a server: what its pods report, and when to give up."""
