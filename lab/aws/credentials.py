"""The credentials of the lab's AWS. They look like AWS' and open nothing but the lab's own servers."""

ACCOUNT = "123456789012"
"""The account that moto has if the access key says no other."""
USER = "heavylift"
ACCESS_KEY = "AKIAHEAVYLIFTLABUSER"
SECRET_KEY = "heavylift-lab-secret-of-no-account"  # noqa: S105 - of servers that only this machine reaches
