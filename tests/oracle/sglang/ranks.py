"""Process groups without processes: SGLang lays out the ranks as always, and a fake world carries no message."""

from __future__ import annotations

from typing import Any

import sglang.srt.distributed.parallel_state as state
import torch
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.oracle.engine.gpu import Handle

_COMMUNICATORS = (
    *("pynccl_comm", "pymscclpp_comm", "ca_comm", "qr_comm", "pcie_ipc_comm", "torch_symm_mem_comm"),
    *("hpu_communicator", "xpu_communicator", "npu_communicator", "mq_broadcaster"),
)


def install() -> None:
    """Replaces how SGLang makes a group of ranks."""
    state.GroupCoordinator.__init__ = _make_group


def become(arguments: Any, rank: int) -> None:
    """Makes this process one rank of the layout that the published arguments give."""
    from sglang.srt.layers.dp_attention import initialize_dp_attention

    world = arguments.tp_size * arguments.pp_size
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    state.init_distributed_environment(world, rank, local_rank=0, backend="fake")
    state.initialize_model_parallel(backend="fake")
    initialize_dp_attention(server_args=arguments)


def _make_group(
    self: Any, group_ranks: list[list[int]], local_rank: int, *args: Any, group_name: str | None = None, **kwargs: Any
) -> None:
    self.unique_name = state._get_unique_name(group_name or "anonymous")
    state._register_group(self)
    self.rank = torch.distributed.get_rank()
    self.local_rank = local_rank
    self.ranks = next(ranks for ranks in group_ranks if self.rank in ranks)
    self.world_size, self.rank_in_group = len(self.ranks), self.ranks.index(self.rank)
    self.cpu_group = self.device_group = torch.distributed.group.WORLD
    self.device, self.device_module = torch.device("meta"), Handle()
    self.local_size, self._fi_workspace_hint = 0, None
    self.use_pynccl = self.use_mscclpp = self.use_custom_allreduce = self.use_torch_symm_mem_all_reduce = False
    self.use_message_queue_broadcaster = self.use_hpu_communicator = self.use_xpu_communicator = False
    for name in _COMMUNICATORS:
        setattr(self, name, None)
