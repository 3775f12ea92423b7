"""What the program reads from a cluster before it creates anything."""
