"""Configuration: the models of a stack file, and the catalogue of models, GPUs and engines."""
