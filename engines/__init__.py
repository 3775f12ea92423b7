"""Inference engines: memory, rules, arguments and process of each. Does not import Pulumi."""
