"""What the hub serves: repositories, their revisions and files."""
