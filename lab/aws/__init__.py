"""AWS in the lab: servers that stand in for AWS' APIs, and a provider double in the place of pulumi-aws.

`server` is moto, with the calls that heavylift uses and moto lacks, and with refusals that AWS has and moto has not.
`double` speaks the engine's protocol on one side and boto3 on the other. Nothing here reaches AWS. The page is
docs/lab.md.
"""
