"""A Pulumi policy pack for people who review stacks that serve models: `pulumi preview --policy-pack policy`.

The rules are plain functions over the resources of a stack. They read what the components register, so they also hold
for programs of other people. Imports nothing of ours.
"""
