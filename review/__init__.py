"""What a change means for people who serve models: the report of a pull request, and promotion from stack to stack.

Imports planner, config and stager. No Pulumi, no cluster; only `review.github` uses the network.
"""
