"""Fully sharded data parallelism (FSDP2): sharding, reductions over ranks, and full or per-rank state dicts.

Gradients are summed, not averaged, over ranks: every loss is already divided by the totals of all ranks (``stepping``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn import Module

from fathom.core.errors import InvalidField

Number = TypeVar("Number", int, float)


def shard(network: Module, model: Module, mesh: DeviceMesh | None = None, *, offload: bool = False) -> None:
    """Shard ``network``'s parameters over the ranks of ``mesh`` (all by default), one FSDP unit per layer of ``model``.

    With ``offload`` parameters, gradients and the optimiser's moments stay in the memory of the CPU, and a layer's
    parameters come to the device while it is computed. A no-op on a single rank without either. Call on all ranks with
    equal parameters. Everything in ``network`` that needs parameters must run inside its forward. Raises
    ``InvalidField("trainer.cpu_offload")`` without a process group.
    """
    if offload and not distributed.is_initialized():
        raise InvalidField("trainer.cpu_offload", "needs ranks on Ray: trainer.use_ray=true or trainer.world_size")
    if mesh is None and (world() == 1 and not offload):
        return
    if mesh is None:
        mesh = init_device_mesh(device_kind(), (world(),))
    # Pinned memory is for copies to a device; without one there is nothing to pin for.
    policy = CPUOffloadPolicy(pin_memory=device_kind() == "cuda") if offload else OffloadPolicy()
    # Layer by layer, from the inside: while one is computed, only its parameters are whole on a rank. The outer call
    # then takes what is left, embedding and output layer.
    for layer in layers(model):
        fully_shard(layer, mesh=mesh, offload_policy=policy)
    fully_shard(network, mesh=mesh, offload_policy=policy)
    for module in network.modules():
        if isinstance(module, FSDPModule):
            # FSDP divides by the number of ranks by default, which is right for losses that are means of a rank's own
            # rows. Ours are divided by all ranks' totals already.
            module.set_gradient_divide_factor(1.0)
            # Gloo knows sums only; NCCL has the same result so.
            module.set_force_sum_reduction_for_comms(True)


def layers(model: Module) -> list[Module]:
    """Return the decoder's layers; raises ``InvalidField("model.path")`` when the architecture has none."""
    found = [m for name, m in model.named_modules() if isinstance(m, torch.nn.ModuleList) and name.endswith("layers")]
    if not found:
        raise InvalidField("model.path", f"{type(model).__name__} has no layers to shard")
    # The first list of that name is the decoder's; inner modules come later in the traversal.
    return list(found[0])


def whole_state(network: Module, *, trained_only: bool = False) -> dict[str, Tensor]:
    """Gather all parameters, or the trained ones, by name to the CPU of rank 0; other ranks get an empty dict.

    Call on all ranks.
    """
    # Offloaded as it is gathered: the whole model need not fit into one device's memory beside its shard.
    options = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=trained_only)
    state: dict[str, Any] = get_model_state_dict(network, options=options)
    # The collective has run on all ranks; the check must not come before it.
    return state if rank() == 0 else {}


def rank() -> int:
    """Return this process's rank."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def world() -> int:
    """Return the number of ranks."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def sum_over_ranks(values: Sequence[float]) -> list[float]:
    """Sum each value over all ranks, in float64; without torch.distributed return the values unchanged."""
    if not distributed.is_initialized():
        return list(values)
    # One reduction for all numbers: each costs a round trip, whatever its size. float64 keeps counts of tokens exact.
    packed = torch.tensor(list(values), dtype=torch.float64, device=device_kind())
    distributed.all_reduce(packed)
    return [float(value) for value in packed.tolist()]


def sum_gradients(parameters: Iterable[Tensor]) -> None:
    """Sum gradients over all ranks in place."""
    if not distributed.is_initialized():
        return
    for parameter in parameters:
        # A sharded one has been summed already, on its way back.
        if isinstance(parameter, DTensor):
            continue
        # A rank whose rows gave this parameter no gradient still takes part: a reduction that one rank skips never
        # ends.
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        distributed.all_reduce(parameter.grad)


def max_over_ranks(value: Number) -> Number:
    """Return the maximum of a value over all ranks."""
    if world() == 1:
        return value
    packed = torch.tensor(value, dtype=torch.float64, device=device_kind())
    distributed.all_reduce(packed, op=distributed.ReduceOp.MAX)
    return type(value)(packed)


def device_kind() -> str:
    """Return the device type that the ranks' collectives use."""
    # NCCL reduces tensors on its devices only, gloo those of the CPU; ranks with devices have both.
    return "cuda" if "nccl" in distributed.get_backend_config() else "cpu"
