"""The engines whose own code judges the planner: where each one's environment, pairs and results are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.oracle.pairs import DATA


@dataclass(frozen=True, slots=True)
class Judge:
    """One engine."""

    project: str
    """Its wheel, and the package of `tests.oracle` that runs inside its environment."""
    about: str
    """What the file of its results says of itself."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that its process gets; `{scratch}` stands for a directory."""

    @property
    def requirements(self) -> Path:
        """What its environment holds beside its wheel."""
        return Path(__file__).parent / self.project / "requirements.txt"

    @property
    def release(self) -> str:
        """The release that judges: named in a comment line of the requirements."""
        start = f"# {self.project}=="
        lines = self.requirements.read_text(encoding="utf-8").splitlines()
        return next(line for line in lines if line.startswith(start)).removeprefix(start)

    @property
    def pairs(self) -> Path:
        """What it is asked."""
        return DATA / f"{self.project}-pairs.json"

    @property
    def results(self) -> Path:
        """What it answered."""
        return DATA / f"{self.project}-{self.release}.json"


VLLM = Judge(
    project="vllm",
    about=(
        "What vLLM's own code says of each pair, a line a pair; made by `make oracle`. Bytes are per GPU: `created` by "
        "the model's class, `loaded` after its weights are processed (what the log calls model loading), for the first "
        "rank of each pipeline stage. `cache`: the tokens that kv_gib hold."
    ),
    environment={
        "VLLM_CACHE_ROOT": "{scratch}/vllm",
        "VLLM_HAS_FLASHINFER_CUBIN": "1",
        "VLLM_LOGGING_LEVEL": "CRITICAL",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_PLUGINS": "",
    },
)

SGLANG = Judge(
    project="sglang",
    about=(
        "What SGLang's own code says of each pair, a line a pair; made by `make oracle-sglang`. Bytes are per GPU: "
        "`created` by the model's class, `loaded` after its weights are processed, for the first rank of each pipeline "
        "stage. `cache`: the bytes of a token there, and the tokens that kv_gib hold. `fraction`: the share of memory "
        "that it takes by default."
    ),
)

JUDGES = {judge.project: judge for judge in (VLLM, SGLANG)}
"""By the name of the project."""
