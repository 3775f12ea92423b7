"""`python -m tests.oracle ENGINE [PATTERN] [--missing]`: builds the pairs with the code of vLLM (`vllm`) or SGLang
(`sglang`) and writes its answers to `tests/data/oracle`.

With a pattern, only the pairs whose key it matches are built; with `--missing`, only those without an answer. The
others keep what the file says.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Any

from tests.oracle.environment import make_environment
from tests.oracle.judges import JUDGES, Judge
from tests.oracle.pairs import GIB, Pair, read_configs, read_pairs, write_checkpoint, write_lines


def main(arguments: list[str]) -> int:
    """Builds pairs and writes the file as they are answered. Returns 1 where an engine's process ends before that."""
    name, *words = arguments
    judge = JUDGES[name]
    results = Results(judge)
    pattern = re.compile(next((word for word in words if word != "--missing"), ""))
    known = results.keys if "--missing" in words else set()
    asked = [pair for pair in read_pairs(judge.pairs) if pattern.search(pair.key) and pair.key not in known]
    by_gpu = [list(group) for _, group in groupby(sorted(asked, key=lambda pair: pair.gpu), lambda pair: pair.gpu)]
    python = make_environment(judge)
    with tempfile.TemporaryDirectory(prefix="oracle-") as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
        answered = sum(pool.map(lambda group: _build(python, group, Path(scratch), results), by_gpu))
    print(f"{answered} of {len(asked)} pairs answered: {judge.results}", file=sys.stderr)
    return 0 if answered == len(asked) else 1


class Results:
    """The file of results: what is answered now, and for the other pairs what it says already."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        path = judge.results
        before = json.loads(path.read_text(encoding="utf-8"))["results"] if path.exists() else []
        self._known = {entry["key"]: entry for entry in before}
        self._lock = Lock()

    @property
    def keys(self) -> set[str]:
        """The pairs that have an answer."""
        return set(self._known)

    def add(self, answer: dict[str, Any]) -> None:
        """Takes an answer and writes the file."""
        with self._lock:
            self._known[answer["key"]] = answer
            kept = [self._known[pair.key] for pair in read_pairs(self.judge.pairs) if pair.key in self._known]
            head = {"about": self.judge.about, "engine": self.judge.project, "release": self.judge.release}
            write_lines(self.judge.results, head, "results", kept)


def _build(python: Path, pairs: list[Pair], scratch: Path, results: Results) -> int:
    """Builds the pairs of one kind of GPU. Returns how many were answered."""
    answered = 0
    for answer in _answers(python, pairs, scratch, results.judge):
        results.add(answer)
        answered += 1
    return answered


def _answers(python: Path, pairs: list[Pair], scratch: Path, judge: Judge) -> Iterator[dict[str, Any]]:
    """The answers for pairs of one kind of GPU, from a process of their own."""
    gpu, configs = pairs[0].gpu, read_configs()
    command = [str(python), "-m", f"tests.oracle.{judge.project}", gpu]
    log = Path(tempfile.gettempdir()) / f"oracle-{judge.project}-{gpu}.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=_environment(judge, scratch),
            cwd=Path(__file__).parents[2],
        ) as process,
    ):
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a process without pipes")
        for pair in pairs:
            print(json.dumps(_question(pair, configs, scratch)), file=process.stdin, flush=True)
            line = process.stdout.readline()
            if not line:
                print(f"{gpu}: the engine's process ended at {pair.key}: see {log}", file=sys.stderr)
                return
            answer = json.loads(line)
            print(_shown(pair, answer), file=sys.stderr, flush=True)
            answer.pop("seconds", None)
            yield asdict(pair) | answer
        process.stdin.close()


def _question(pair: Pair, configs: dict[str, dict[str, Any]], scratch: Path) -> dict[str, Any]:
    def written(repository: str) -> str:
        return str(write_checkpoint(configs[repository], scratch / repository.replace("/", "--")))

    arguments = dict(pair.arguments)
    if pair.draft is not None:
        arguments["speculative_config"] = {**arguments["speculative_config"], "model": written(pair.draft)}
    return {
        "key": pair.key,
        "directory": written(pair.model),
        "arguments": arguments,
        "ranks": pair.stages,
        "kv_bytes": int(pair.kv_gib * GIB),
    }


def _shown(pair: Pair, answer: dict[str, Any]) -> str:
    """One line about an answer."""
    if "error" in answer:
        return f"{pair.key}: {answer['error']}"
    said = [f"{stage['loaded'] / GIB:.3f} GiB" if stage["loaded"] else "not processed" for stage in answer["stages"]]
    tokens = answer["cache"].get("tokens", answer["cache"].get("error"))
    return f"{pair.key}: {', '.join(said)}; {tokens} tokens; {answer['seconds']} s"


def _environment(judge: Judge, scratch: Path) -> dict[str, str]:
    """No GPU, no network, nothing of the user's, and Triton kept although no driver is active."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(scratch),
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",
        **{name: value.format(scratch=scratch) for name, value in judge.environment.items()},
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
