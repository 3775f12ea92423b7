"""What AWS refuses: `refusals.toml` has the code, the message and the source of each refusal."""

import tomllib
from functools import cache
from pathlib import Path
from typing import NoReturn

from moto.core.exceptions import ServiceException

TABLE = Path(__file__).parent / "refusals.toml"


class Refused(ServiceException):
    """A request that AWS refuses. moto answers it in the protocol of the service."""

    def __init__(self, name: str, code: str, message: str) -> None:
        super().__init__(code, message)
        self.name = name


@cache
def refusals() -> dict[str, dict[str, str]]:
    """Returns all refusals by name."""
    return tomllib.loads(TABLE.read_text())


def reason(name: str, /, **values: object) -> str:
    """Returns the message of a refusal."""
    return refusals()[name]["message"].format(**values)


def refuse(name: str, /, **values: object) -> NoReturn:
    """Raises the refusal `name`. `values` fill its message."""
    raise Refused(name, refusals()[name]["code"], reason(name, **values))
