"""What the lab builds, from pinned sources, and keeps in a cache."""
