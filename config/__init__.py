"""What a stack may say, and what the world is like: the stack file's models, and the catalogue of facts."""
