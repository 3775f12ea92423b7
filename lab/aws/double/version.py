"""The version of pulumi-aws that the double stands for."""

VERSION = "7.51.1"
