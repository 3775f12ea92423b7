"""The command line: what it prints, and how it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from planner import fit
from planner.__main__ import main
from planner.report.picture import picture
from planner.stack_request import request_of_named_stack

_PROGRAM = Path(__file__).parents[3]
_KIMI = ("fit", "--model", "kimi-k2.5")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((*_KIMI, "--gpu", "h200", "--nodes", "1", "--gpus-per-node", "8"), 0),
        ((*_KIMI, "--gpu", "h200", "--nodes", "1", "--gpus-per-node", "4"), 1),
        ((*_KIMI, "--gpu", "h100", "--nodes", "2", "--tp", "8", "--pp", "2", "--max-model-len", "262144"), 0),
        ((*_KIMI, "--gpu", "h100", "--gpus-per-node", "8", "--max-model-len", "262144"), 1),
        ((*_KIMI, "--gpu", "h200", "--quantization", "fp8"), 1),
        (("fit", "--model", "nvidia/Kimi-K2.5-NVFP4", "--gpu", "b200", "--gpus-per-node", "4"), 0),
        (("fit", "--model", "nvidia/Kimi-K2.5-NVFP4", "--gpu", "h200", "--gpus-per-node", "4"), 1),
        (("fit", "--model", "kimi-k3", "--gpu", "b300"), 3),
        (("fit", "--model", "acme/unknown", "--gpu", "h200"), 3),
        ((*_KIMI, "--gpu", "h201"), 2),
        ((*_KIMI, "--gpu", "h200", "--nodes", "-1"), 2),
        (("fit", "--gpu", "h200"), 2),
        (("show", "no-such-model"), 2),
        (("show", "kimi-k2.5"), 0),
        (("show",), 0),
        (("recommend", "--gpu", "h200"), 0),
        (("recommend", "--quality", "frontier", "--budget", "1"), 1),
        (("recommend", "--gpu", "h201"), 2),
        (("recommend", "--budget", "nan"), 2),
        (("recommend", "--nodes", "0"), 2),
        ((*_KIMI, "--gpu", "h200", "--svg", "/no/such/directory/plan.svg"), 2),
        ((*_KIMI, "--gpu", "h200", "--available-kv-gib", "nan"), 2),
        ((*_KIMI, "--gpu", "h200", "--usd-per-gpu-hour", "-1"), 2),
        ((*_KIMI, "--gpu", "h200", "--driver", "newest"), 2),
        ((*_KIMI, "--gpu", "h200", "--instance-type", "p5.48xlarge"), 2),
        (("fit", "--stack", ""), 2),
    ],
)
def test_the_exit_status_says_the_verdict(
    arguments: tuple[str, ...], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == status
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--usd-per-gpu-hour", "-3"), "--usd-per-gpu-hour: -3.0 is not valid: expected dollars, 0 or more"),
        (("--usd-per-gpu-hour", "inf"), "--usd-per-gpu-hour: inf is not valid: expected dollars, 0 or more"),
        (("--usd-per-gpu-hour", "nan"), "--usd-per-gpu-hour: nan is not valid: expected dollars, 0 or more"),
        (("--block-size", "7"), "--block-size: 7 is not valid: expected a multiple of 16, as vLLM's kernels take"),
        (("--block-size", "0"), "--block-size: 0 is not valid: expected a whole number of at least 1"),
        (("--driver", "xx"), "--driver: 'xx' is not valid: expected a version such as 580.95.05 or 580"),
        (("--tp", "0"), "--tp: 0 is not valid: expected a whole number of at least 1"),
        (("--dcp", "-1"), "--dcp: -1 is not valid: expected a whole number of at least 1"),
        (("--engine-version", "new"), "--engine-version: 'new' is not valid: expected a release such as 0.33.0"),
    ],
)
@pytest.mark.parametrize("command", [("fit",), ("fit", "--json"), ("explain",)])
def test_a_value_that_means_nothing_is_named_with_its_option(
    command: tuple[str, ...], arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main((*command, "--model", "kimi-k2.5", "--gpu", "h200", *arguments)) == 2
    printed = capsys.readouterr()
    assert printed.err == f"planner: {said}\n"
    assert printed.out == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--budget", "nan"), "--budget: nan is not valid: expected dollars of at least 0"),
        (("--budget", "-1"), "--budget: -1.0 is not valid: expected dollars of at least 0"),
        (("--gpu", "h200", "--nodes", "0"), "--nodes: 0 is not valid: expected a whole number of at least 1"),
        (("--gpu", "h200", "--usd-per-gpu-hour", "inf"), "--usd-per-gpu-hour: inf is not valid: expected dollars"),
        (("--nodes", "2"), "--nodes: 2 requires --gpu"),
        (("--gpus-per-node", "4"), "--gpus-per-node: 4 requires --gpu"),
        (("--model", "kimi-k2.4"), "model 'kimi-k2.4' is not in the catalogue: expected one of kimi-k2.6, kimi-k2.5"),
        (
            ("--model", "moonshotai/Kimi-K25"),
            "model 'moonshotai/kimi-k25' is not in the catalogue: expected one of moonshotai/Kimi-K2.5, moonshotai/",
        ),
        (("--model", "someone/own"), "model 'someone/own' is not in the catalogue\n"),
    ],
)
def test_an_invalid_query_is_named_with_its_option(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("recommend", *arguments)) == 2
    assert capsys.readouterr().err.startswith(f"planner: {said}")


def test_an_empty_model_is_a_missing_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("fit", "--model", "", "--gpu", "h200")) == 2
    assert "--model is missing" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("fit", "--no-such-option"), ("frobnicate",), (*_KIMI, "--engine", "trt")])
def test_an_option_that_does_not_exist_ends_with_2(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    main((*arguments, "--json"))
    printed: dict[str, object] = json.loads(capsys.readouterr().out)
    return printed


def test_given_the_cache_it_answers_with_the_tokens_that_the_engine_prints(capsys: pytest.CaptureFixture[str]) -> None:
    cache = ("--kv-cache-dtype", "bfloat16", "--block-size", "64", "--available-kv-gib", "46.80")
    asked = (*_KIMI, "--gpu", "h200", "--tp", "8", *cache)
    assert _json(capsys, *asked)["kv_tokens"] == [715_072, 715_072]
    assert _json(capsys, *asked, "--dcp", "8")["kv_tokens"] == [5_720_576, 5_720_576]


def test_given_the_cache_it_names_block_and_attention_backend(capsys: pytest.CaptureFixture[str]) -> None:
    main((*_KIMI, "--gpu", "h200", "--kv-cache-dtype", "fp8", "--available-kv-gib", "46.80"))
    assert "in blocks of 64 (FLASHMLA)" in capsys.readouterr().out
    main((*_KIMI, "--gpu", "h200", "--block-size", "128", "--available-kv-gib", "46.80"))
    assert "in blocks of 128 (FLASH_ATTN_MLA)" in capsys.readouterr().out


def test_the_summary_names_bytes_per_token_and_draws_a_bar_per_stage(capsys: pytest.CaptureFixture[str]) -> None:
    main((*_KIMI, "--gpu", "h200"))
    assert "70,272 B per token" in capsys.readouterr().out
    main((*_KIMI, "--gpu", "h100", "--nodes", "2", "--mm-encoder-tp-mode", "data"))
    printed = capsys.readouterr().out
    assert "GPU 0-7 " in printed
    assert "GPU 8-15 " in printed
    assert "weights 36.45/35.4" in printed


def test_a_refused_plan_shows_where_the_gpu_ends(capsys: pytest.CaptureFixture[str]) -> None:
    main((*_KIMI, "--gpu", "h200", "--gpus-per-node", "4"))
    printed = capsys.readouterr().out
    assert printed.startswith("rejected: kimi-k2.5 on 4 H200")
    assert "█|▓" in printed
    assert "8 H200" in printed


def test_all_bad_values_come_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    main((*_KIMI, "--gpu", "h201", "--nodes", "0", "--gpu-memory-utilization", "3"))
    printed = capsys.readouterr().err
    for words in ("--gpu: GPU 'h201'", "--nodes: 0 is not valid", "--gpu-memory-utilization: 3.0 is not valid"):
        assert words in printed


def test_the_picture_is_svg_with_the_same_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.svg"
    main((*_KIMI, "--gpu", "h100", "--nodes", "2", "--svg", str(file)))
    root = ElementTree.fromstring(file.read_text())  # noqa: S314 - written by the planner a line above
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "GPU 0-7" in texts
    assert "GPU 8-15" in texts
    titles = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any(title.startswith("weights 35.78") for title in titles)
    capsys.readouterr()


def test_the_picture_in_the_documents_is_what_the_planner_draws() -> None:
    request = request_of_named_stack("h200", _PROGRAM)
    drawn = (_PROGRAM / "docs/h200-plan.svg").read_text()
    assert drawn == picture(request, fit(request)), "run: python -m planner fit --stack h200 --svg docs/h200-plan.svg"


def test_what_the_readme_quotes_is_what_the_planner_prints(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (_PROGRAM / "README.md").read_text()
    command, *quoted = readme.split("$ .venv/bin/python -m planner ", 1)[1].split("```", 1)[0].strip().splitlines()
    main(tuple(command.removesuffix("(shortened)").split()))
    printed = " ".join(capsys.readouterr().out.split())
    assert [line for line in quoted if " ".join(line.split()) not in printed] == []


def test_the_context_of_llama_cpp_is_divided_among_its_slots(capsys: pytest.CaptureFixture[str]) -> None:
    """The stack says 98,304 tokens for 8 slots."""
    main(("fit", "--stack", "h200-gguf"))
    assert "12,288 tokens per request, maximum concurrency 8; the longest" in capsys.readouterr().out


def test_explain_has_a_formula_and_a_source_for_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    main(("explain", "--model", "kimi-k2.5", "--gpu", "h200"))
    printed = capsys.readouterr().out
    for words in (
        "ceil(139.8 GiB x 0.92) = 128.62 GiB",
        "61 layers x (512 + 64)",
        "routed_experts        66.45 GiB",
        "request_memory",
        "verdict: fits",
    ):
        assert words in printed
    main(("explain", "--model", "kimi-k2.5-gguf", "--gpu", "h200", "--gpus-per-node", "4"))
    assert "llama.cpp" in capsys.readouterr().out


def test_show_adds_up_to_the_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    main(("show", "kimi-k2.5"))
    printed = capsys.readouterr().out
    assert "570,760,888,320" in printed
    assert "= 595.15 GB = 554.27 GiB" in printed


def test_a_stack_is_read_from_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("fit", "--stack", "h200", "--json")) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["layout"]["tp"] == 8
    assert main(("fit", "--stack", "no-such-stack")) == 2
    assert main(("fit", "--stack", "../h200")) == 2
    assert "stack name: '../h200' cannot name a Service" in capsys.readouterr().err
    assert main(("fit", "--stack", "h200", "--gpu", "h100")) == 2
    assert "leave out --gpu" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_box_drawing_gets_the_figures_all_the_same(encoding: str) -> None:
    command = [sys.executable, "-m", "planner", *_KIMI, "--gpu", "h200"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, cwd=_PROGRAM, env=environment, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert b"budget 128.62 GiB: weights 71.19" in done.stdout


def test_a_reader_that_stops_reading_is_no_fault() -> None:
    command = f"{sys.executable} -m planner recommend --gpu h200 | true"
    done = subprocess.run(["sh", "-c", command], cwd=_PROGRAM, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""


def test_a_plan_needs_neither_pydantic_nor_pulumi_nor_a_network() -> None:
    code = (
        "import sys, planner, planner.__main__\n"
        "planner.fit(planner.FitRequest(model='kimi-k2.5', gpu='h200'))\n"
        "print(sorted({'pydantic', 'pulumi', 'httpx2', 'huggingface_hub', 'yaml', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
