"""What a rule is: a name, a level, and a function from resources to violations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from policy.resources import Resource


@dataclass(frozen=True)
class Violation:
    """One sentence that says what is wrong and what to do. It never has a value that may be secret."""

    sentence: str
    resource: Resource


Check = Callable[[Sequence[Resource], Mapping[str, Any]], Iterable[Violation]]
"""From the resources of a stack and the rule's own settings to its violations."""


@dataclass(frozen=True)
class Rule:
    """One policy of the pack."""

    name: str
    description: str
    check: Check
    is_mandatory: bool = True
    """Whether a violation stops `pulumi up`. Else it is a warning. A configuration file may set another level."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """JSON schema of each setting."""

    def violations(self, resources: Sequence[Resource], settings: Mapping[str, Any] | None = None) -> list[Violation]:
        """One violation for each distinct sentence, in the order of the resources."""
        found: dict[str, Violation] = {}
        for violation in self.check(resources, settings or {}):
            found.setdefault(violation.sentence, violation)
        return list(found.values())
