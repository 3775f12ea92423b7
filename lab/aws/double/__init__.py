"""The provider double: it stands in the place of pulumi-aws, whose provider cannot be built in the lab.

On one side it speaks the engine's protocol, on the other boto3, so that botocore checks every parameter against
AWS' own service models. `fields.toml` says which arguments it knows, and whether their change updates or replaces a
resource. Kinds, arguments and functions that it does not know are refused by name.
"""
