"""Process groups without processes: vLLM lays out the ranks as always, and a fake world carries no message."""

from __future__ import annotations

from typing import Any

import torch
import vllm.distributed.parallel_state as state
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.oracle.engine.gpu import Handle


def install() -> None:
    """Replaces how vLLM makes a group of ranks."""
    state.GroupCoordinator.__init__ = _make_group


def become(rank: int, parallel: Any) -> None:
    """Makes this process one rank of a layout, within `set_current_vllm_config`."""
    world = parallel.world_size_across_dp
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    state._NODE_COUNT = 1
    state._WORLD = state.GroupCoordinator([list(range(world))], 0, "fake")
    state.initialize_model_parallel(
        parallel.tensor_parallel_size,
        parallel.pipeline_parallel_size,
        parallel.prefill_context_parallel_size,
        parallel.decode_context_parallel_size,
        backend="fake",
    )


def _make_group(
    self: Any,
    group_ranks: list[list[int]],
    local_rank: int,
    torch_distributed_backend: str,
    *args: Any,
    group_name: str | None = None,
    use_all2all: bool = False,
    **kwargs: Any,
) -> None:
    self.unique_name = state._get_unique_name(group_name or "anonymous")
    state._register_group(self)
    self.rank = torch.distributed.get_rank()
    self.local_rank = self.device_index = local_rank
    self.group_ranks = group_ranks
    self.ranks = next(ranks for ranks in group_ranks if self.rank in ranks)
    self.world_size, self.rank_in_group = len(self.ranks), self.ranks.index(self.rank)
    self.cpu_group = self.device_group = torch.distributed.group.WORLD
    self.device, self.torch_distributed_backend = torch.device("meta"), "fake"
    self.device_communicator = self.mq_broadcaster = None
    self.use_device_communicator, self.use_cpu_custom_send_recv, self.use_custom_op_call = False, False, True
    if use_all2all:
        manager: Any = Handle()
        self.device_communicator = Handle()
        self.device_communicator.all2all_manager = manager
        manager.world_size = manager.dp_world_size = self.world_size
        manager.rank = manager.dp_rank = self.rank_in_group
        manager.max_sms_used = lambda: None
