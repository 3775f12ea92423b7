"""Where llama-server puts layers, experts and windows, against its own source
(github.com/ggml-org/llama.cpp src/llama-model.cpp, src/llama-kv-cache-iswa.cpp)."""

from pathlib import Path
from typing import Any

import pytest

from config.checkpoint.model_spec import find_model
from engines.llama_cpp.memory import Device, GgufRequest, device_need, gguf_request
from engines.plan import Plan
from planner import FitRequest
from tests.unit.planner.asking import GIB, codes, plan, texts
from tests.unit.planner.checkpoints import write_gguf

_MIB = 2**20
_LAYER = {"attn_q.weight": 2 * _MIB, "ffn_gate_exps.weight": 10 * _MIB, "ffn_up_exps.weight": 10 * _MIB}
_OUTSIDE = {"token_embd.weight": 6 * _MIB, "output.weight": 8 * _MIB}


def _kimi(**settings: Any) -> Plan:
    return plan("kimi-k2.5-gguf", engine="llama.cpp", max_model_len=98_304, **{"gpus_per_node": 4, **settings})


def _held(directory: Path, *extra: str, gpus: int = 2, **fields: int) -> list[Device]:
    """What each GPU holds of a file of seven layers, the first without experts."""
    layers = {f"blk.{layer}.{name}": size for layer in range(7) for name, size in _LAYER.items()}
    dense = {name: size for name, size in layers.items() if not (name.startswith("blk.0.") and "exps" in name)}
    write_gguf(directory / "tiny.gguf", fields={"block_count": 7, **fields}, tensors=dense | _OUTSIDE)
    return list(_request(directory, extra, gpus).held)


def _request(directory: Path, extra: tuple[str, ...], gpus: int) -> GgufRequest:
    request = FitRequest(model=str(directory), gpu="h200", gpus_per_node=gpus, extra_args=extra)
    model = find_model(str(directory))
    resolved = gguf_request(request, model, model.staged_bytes)
    assert resolved is not None
    return resolved


def _mib(devices: list[Device]) -> list[float]:
    return [device.weights / _MIB for device in devices]


def test_layers_are_counted_by_their_tensors_and_the_embedding_stays_in_host_memory(tmp_path: Path) -> None:
    """Seven layers and the output are eight: four and four. Layers have 22 MiB, the first 2, the output 8."""
    assert _mib(_held(tmp_path)) == [2 + 3 * 22, 3 * 22 + 8]


def test_without_an_output_the_last_gpu_has_a_copy_of_the_embedding(tmp_path: Path) -> None:
    tensors = {"blk.0.attn_q.weight": 2 * _MIB, "blk.1.attn_q.weight": 2 * _MIB, "token_embd.weight": 6 * _MIB}
    write_gguf(tmp_path / "tiny.gguf", tensors=tensors)
    assert _mib(list(_request(tmp_path, (), 3).held)) == [2, 2, 6]


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (("--tensor-split", "1,0"), [2 + 6 * 22 + 8, 0]),
        (("-ts", "3,1"), [2 + 5 * 22, 22 + 8]),
        (("--n-cpu-moe", "2"), [2 + 2 + 2 * 22, 3 * 22 + 8]),
        (("-ncmoe", "100"), [4 * 2, 3 * 2 + 8]),
        (("-ot", r"blk\.[0-3]\.ffn_up_exps=CPU"), [2 + 3 * 12, 3 * 22 + 8]),
        (("--override-tensor", "exps=CPU"), [4 * 2, 3 * 2 + 8]),
    ],
)
def test_arguments_that_place_tensors_are_counted_for_each_gpu(
    tmp_path: Path, extra: tuple[str, ...], expected: list[float]
) -> None:
    assert _mib(_held(tmp_path, *extra)) == expected


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        (("--tensor-split", "1,x"), "argument_not_read"),
        (("--tensor-split", "0,0"), "argument_not_read"),
        (("--tensor-split", "1,1,1,1,1"), "argument_not_read"),
        (("-ncmoe", "all"), "argument_not_read"),
        (("-ot", "exps"), "argument_not_read"),
        (("-ot", "(=CPU"), "argument_not_read"),
        (("-ot", "exps=CUDA1"), "argument_not_counted"),
        (("--split-mode", "row"), "argument_not_counted"),
    ],
)
def test_places_that_cannot_be_read_are_refused_and_others_leave_the_verdict_open(
    extra: tuple[str, ...], code: str
) -> None:
    planned = _kimi(extra_args=extra)
    assert code in codes(planned)
    assert extra[1] in texts(planned) or extra[0] in texts(planned)


def test_eight_layers_of_experts_are_more_than_an_eighth_of_the_file() -> None:
    """60 of 61 layers of Kimi-K2.5 have experts: 17.06 of 1,026.4 billion parameters each. Eight of them are 76.9 GiB
    of 621 GB, and an eighth of the file 72.3."""
    planned = plan("kimi-k2.5-gguf-q4", "h100", engine="llama.cpp", max_model_len=8192)
    assert planned.per_gpu is not None
    assert planned.per_gpu.weights_gib == pytest.approx(76.9, abs=0.4)


def test_everything_on_one_gpu_does_not_fit_it() -> None:
    """374.8 GB are 349 GiB, and an H200 has 140."""
    planned = _kimi(extra_args=("--tensor-split", "1,0,0,0"))
    assert codes(planned) == {"weights_do_not_fit"}
    assert "348" in texts(planned)


def test_a_pattern_for_the_experts_is_counted_like_the_setting() -> None:
    host = {"host_memory_bytes": 2**40, "gpus_per_node": 1}
    setting = _kimi(**host, expert_offload=True)
    pattern = _kimi(**host, extra_args=("-ot", ".ffn_.*_exps.=CPU"))
    assert (setting.verdict, pattern.verdict) == ("fits", "fits")
    assert setting.per_gpu == pattern.per_gpu
    assert setting.host.memory_bytes == pattern.host.memory_bytes
    some = _kimi(**host, extra_args=("--n-cpu-moe", "50"))
    assert some.per_gpu is not None
    assert some.per_gpu.weights_gib is not None
    assert setting.per_gpu is not None
    assert some.per_gpu.weights_gib > (setting.per_gpu.weights_gib or 0)


_GEMMA = {
    "block_count": 62,
    "embedding_length": 5376,
    "feed_forward_length": 21_504,
    "attention.head_count": 32,
    "attention.head_count_kv": 16,
    "attention.key_length": 128,
    "attention.value_length": 128,
    "attention.sliding_window": 1024,
    "context_length": 131_072,
}


def test_windows_are_kept_for_a_window_and_a_batch(tmp_path: Path) -> None:
    """Gemma-3-27B: ten of 62 layers see 131,072 tokens, the others 1,024 and a batch of 512; 8,192 B for each token."""
    write_gguf(tmp_path / "gemma.gguf", architecture="gemma3", fields=_GEMMA)
    windows = device_need(_request(tmp_path, (), 1), 131_072).cache
    assert windows == (10 * 131_072 + 52 * 1536) * 8192
    assert windows / GIB == pytest.approx(10.6, abs=0.05)
    assert device_need(_request(tmp_path, ("--swa-full",), 1), 131_072).cache == 62 * 131_072 * 8192


def test_windows_of_an_architecture_that_is_not_known_leave_the_verdict_open(tmp_path: Path) -> None:
    write_gguf(tmp_path / "other.gguf", architecture="novel", fields=_GEMMA)
    planned = plan(str(tmp_path), engine="llama.cpp", gpus_per_node=1, max_model_len=4096)
    assert planned.verdict == "unknown"
    assert "sliding windows" in texts(planned)


def test_a_file_that_ends_before_its_last_tensor_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "short.gguf"
    write_gguf(path, tensors={"blk.0.attn_q.weight": _MIB, "output.weight": _MIB})
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 3 * _MIB // 2)
    planned = plan(str(tmp_path), engine="llama.cpp", gpus_per_node=1)
    assert "ends before its last tensor" in texts(planned)
