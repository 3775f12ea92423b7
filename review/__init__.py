"""What a change means for people who serve models: the report of a pull request, and promotion from stack to stack.

Only `review.deployed` runs Pulumi and asks a cluster; only `review.github` uses GitHub.
"""
