"""The credentials of the lab's AWS. They look like AWS' and open nothing but the lab's own servers."""

USER = "heavylift"
ACCESS_KEY = "AKIAHEAVYLIFTLABUSER"
SECRET_KEY = "heavylift-lab-secret-of-no-account"  # noqa: S105 - of servers that only this machine reaches
