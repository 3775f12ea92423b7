"""A component package: one component, which makes one ConfigMap."""

from typing import TypedDict

import pulumi
from pulumi.provider.experimental import component_provider_host
from pulumi_kubernetes.core.v1 import ConfigMap


class GreetingArgs(TypedDict):
    """The arguments of `Greeting`."""

    text: pulumi.Input[str]
    """What the ConfigMap says."""


class Greeting(pulumi.ComponentResource):
    """A ConfigMap with a text."""

    config_map: pulumi.Output[str]
    """The name of the ConfigMap."""

    def __init__(self, name: str, args: GreetingArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("greeting:index:Greeting", name, {}, opts)
        inner = pulumi.ResourceOptions(parent=self)
        made = ConfigMap(name, metadata={"namespace": "default"}, data={"text": args["text"]}, opts=inner)
        self.config_map = made.metadata.apply(lambda metadata: str(metadata.name))
        self.register_outputs({"config_map": self.config_map})


if __name__ == "__main__":
    component_provider_host(name="greeting", components=[Greeting])
