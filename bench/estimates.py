"""Asks aiconfigurator for the published speeds that the planner is judged by, for the errors side by side.

`make aiconfigurator` makes an environment with it in `~/.cache/heavylift`, and writes
`config/data/aiconfigurator_speeds.json`; `make accuracy` compares. About ten minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from config.catalogue import DATA
from planner.speed.calibration import Observation
from planner.speed.points import kept_back, observations

RELEASE = "0.12.0"
_INSIDE = Path(__file__).with_name("estimates_inside.py")
_FILE = DATA / "aiconfigurator_speeds.json"
_MODELS = {
    "deepseek-r1": "deepseek-ai/DeepSeek-R1",
    "deepseek-r1-0528": "deepseek-ai/DeepSeek-R1",
    "deepseek-v3.1": "deepseek-ai/DeepSeek-V3",
    "deepseek-v3.1-nvfp4": "nvidia/DeepSeek-V3.1-NVFP4",
    "gpt-oss-120b": "openai/gpt-oss-120b",
    "kimi-k2.5": "moonshotai/Kimi-K2.5",
    "kimi-k2.5-nvfp4": "nvidia/Kimi-K2.5-NVFP4",
    "llama-3.1-70b": "meta-llama/Meta-Llama-3.1-70B",
    "llama-3.1-70b-instruct-fp8": "nvidia/Llama-3.1-70B-Instruct-FP8",
    "llama-3.1-8b": "meta-llama/Meta-Llama-3.1-8B",
    "minimax-m2.5": "MiniMaxAI/MiniMax-M2.5",
    "minimax-m2.5-nvfp4": "nvidia/MiniMax-M2.5-NVFP4",
    "minimax-m2.7": "MiniMaxAI/MiniMax-M2.7",
    "qwen3-235b-a22b": "Qwen/Qwen3-235B-A22B",
    "qwen3-235b-a22b-fp8": "Qwen/Qwen3-235B-A22B-FP8",
    "qwen3-32b-fp8": "Qwen/Qwen3-32B-FP8",
    "qwen3-8b": "Qwen/Qwen3-8B",
    "qwen3-coder-480b-a35b": "Qwen/Qwen3-Coder-480B-A35B-Instruct",
}
"""Names of checkpoints whose configuration aiconfigurator has."""
_SYSTEMS = {
    "a100-80gb": "a100_sxm",
    "b200": "b200_sxm",
    "b300": "b300_sxm",
    "gb300": "gb300",
    "h100": "h100_sxm",
    "h200": "h200_sxm",
}
_BACKENDS = {"tensorrt-llm": "trtllm"}
"""Backends that it names otherwise."""


def main() -> int:
    """Asks for every point, and writes the answers. Returns 1 if aiconfigurator cannot be installed or run."""
    points = [each for each in (*observations(), *kept_back()) if _is_covered(each)]
    questions = json.dumps([_question(each) for each in points])
    try:
        python = _environment()
        told = subprocess.run([str(python), str(_INSIDE)], input=questions, capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        print(f"aiconfigurator {RELEASE}: {error.stderr or error}", file=sys.stderr)
        return 1
    answers = json.loads(told.stdout)
    lines = [f'  "{each.point.id}": {json.dumps(found)}' for each, found in zip(points, answers, strict=True)]
    about = f"Estimates of aiconfigurator {RELEASE} for published_speeds.json, made by `make aiconfigurator`."
    _FILE.write_text(f'{{\n "about": "{about}",\n "estimates": {{\n' + ",\n".join(lines) + "\n }\n}\n")
    known = sum("tpot_ms" in found for found in answers)
    print(f"{known} of {len(observations()) + len(kept_back())} points answered: {_FILE}")
    return 0


def _is_covered(each: Observation) -> bool:
    return each.point.checkpoint in _MODELS and each.point.gpu in _SYSTEMS


def _question(each: Observation) -> dict[str, Any]:
    """The arguments of aiconfigurator's `cli_estimate`."""
    point = each.point
    question = {
        "model_path": _MODELS[point.checkpoint or ""],
        "system_name": _SYSTEMS[point.gpu or ""],
        "backend_name": _BACKENDS.get(point.engine or "", point.engine),
        "isl": max(1, round(point.prompt_tokens or 1)),
        "osl": max(2, round(each.features.answer_tokens)),
        "batch_size": point.users,
        "tp_size": point.tp,
    }
    if each.features.experts:
        spread = point.expert_parallel
        question |= {"moe_tp_size": 1 if spread else point.tp, "moe_ep_size": point.tp if spread else 1}
    return question | ({"gemm_quant_mode": point.quantization} if point.quantization else {})


def _environment() -> Path:
    """The interpreter of an environment with aiconfigurator, made first if it is not there."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = base / "heavylift" / f"aiconfigurator-{RELEASE}"
    python = directory / "bin" / "python"
    if not (directory / ".ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(directory)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", f"aiconfigurator=={RELEASE}"]
        subprocess.run(install, check=True, capture_output=True, text=True)
        (directory / ".ready").touch()
    return python


if __name__ == "__main__":
    sys.exit(main())
