"""Fully sharded data parallelism (FSDP2): sharding, reductions over ranks, and full or per-rank state dicts.

Gradients are summed, not averaged, over ranks: every loss is already divided by the totals of all ranks (``stepping``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn import Module

from fathom.errors import InvalidField

Number = TypeVar("Number", int, float)


def shard(network: Module, model: Module) -> None:
    """Shard ``network``'s parameters over all ranks, one FSDP unit per layer of ``model``; a no-op on a single rank.

    Call on all ranks with equal parameters. Everything in ``network`` that needs parameters must run inside its
    forward.
    """
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        return
    mesh = init_device_mesh(device_kind(), (distributed.get_world_size(),))
    for layer in layers(model):
        fully_shard(layer, mesh=mesh)
    fully_shard(network, mesh=mesh)
    for module in network.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            # Gloo knows sums only; NCCL has the same result so.
            module.set_force_sum_reduction_for_comms(True)


def layers(model: Module) -> list[Module]:
    """Return the decoder's layers; raises ``InvalidField("model.path")`` when the architecture has none."""
    found = [m for name, m in model.named_modules() if isinstance(m, torch.nn.ModuleList) and name.endswith("layers")]
    if not found:
        raise InvalidField("model.path", f"{type(model).__name__} has no layers to shard")
    return list(found[0])


def whole_state(network: Module) -> dict[str, Tensor]:
    """Gather all parameters by name to the CPU of rank 0; other ranks get an empty dict. Call on all ranks."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state: dict[str, Any] = get_model_state_dict(network, options=options)
    return state if rank() == 0 else {}


def rank() -> int:
    """Return this process's rank."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def world() -> int:
    """Return the number of ranks."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def summed(values: Sequence[float]) -> list[float]:
    """Sum each value over all ranks, in float64; without torch.distributed return the values unchanged."""
    if not distributed.is_initialized():
        return list(values)
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
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        distributed.all_reduce(parameter.grad)


def largest(value: Number) -> Number:
    """Return the maximum of a value over all ranks."""
    if world() == 1:
        return value
    packed = torch.tensor(value, dtype=torch.float64, device=device_kind())
    distributed.all_reduce(packed, op=distributed.ReduceOp.MAX)
    return type(value)(packed)


def device_kind() -> str:
    """Return the device type that the ranks' collectives use."""
    return "cuda" if distributed.get_backend() == "nccl" else "cpu"


def own_parts(tree: Any) -> Any:
    """Return a state with every sharded tensor replaced by this rank's shard."""
    if isinstance(tree, DTensor):
        return tree.to_local().detach().clone()
    if isinstance(tree, Mapping):
        return {name: own_parts(value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(own_parts(value) for value in tree)
    return tree


@torch.no_grad()
def load_module(module: Module, parts: Mapping[str, Tensor]) -> None:
    """Load the ``own_parts`` of a module's state; raises ``RuntimeError`` when it is another module's."""
    state = module.state_dict()
    if state.keys() != parts.keys():
        raise RuntimeError(f"state does not fit: {sorted(state.keys() ^ parts.keys())[:5]}")
    for name, value in state.items():
        into = value.to_local() if isinstance(value, DTensor) else value
        if into.shape != parts[name].shape:
            raise RuntimeError(f"{name} has shape {list(into.shape)}, the state's {list(parts[name].shape)}")
        into.copy_(parts[name])


def load_optimizer(optimizer: torch.optim.Optimizer, parts: Mapping[str, Any]) -> None:
    """Load the ``own_parts`` of an optimiser's state; raises ``ValueError`` when it is another optimiser's."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state = {
        place: {name: sharded_like(parameters[place], value) for name, value in found.items()}
        for place, found in parts["state"].items()
    }
    optimizer.load_state_dict({"state": state, "param_groups": parts["param_groups"]})


def sharded_like(parameter: Tensor, value: Any) -> Any:
    """Wrap a rank's shard as a sharded tensor like ``parameter``; return anything else unchanged."""
    if not isinstance(parameter, DTensor) or not isinstance(value, Tensor) or value.dim() == 0:
        return value
    return DTensor.from_local(
        value.to(parameter.to_local().device),
        parameter.device_mesh,
        parameter.placements,
        shape=parameter.shape,
        stride=parameter.stride(),
    )
