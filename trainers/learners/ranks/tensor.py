"""Tensor parallelism by torch's own API: ranks share the matrices of every layer.

Of attention and MLP each rank computes 1 / size of heads and width; two sums over its neighbours per layer make the
result whole. Embedding, norms and output layer are whole on every rank, or divided over the other ranks by FSDP2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import Module

from fathom.core.errors import InvalidField
from fathom.trainers.learners.ranks.fsdp import device_kind, world

SETTING = "tensor_parallel_size"
# By transformers' names: each architecture says in its own plan how its matrices may be divided.
COLUMNS, ROWS, WHOLE = "colwise", "rowwise", "replicated_with_grad_allreduce"


def divide_layers(trunk: Any, size: int) -> DeviceMesh | None:
    """Divide the matrices of ``trunk``'s layers over groups of ``size`` neighbouring ranks.

    Returns the mesh of the ranks that hold the same part, over which rows are dealt and parameters sharded; None for a
    size of 1. Call on all ranks with equal parameters. Raises ``InvalidField("tensor_parallel_size")`` when the size
    does not divide ranks or heads, or when the architecture has no plan, or one with parts that are not matrices.
    """
    if size == 1:
        return None
    ranks, config = world(), trunk.config
    heads = {"ranks": ranks, "heads": config.num_attention_heads, "key heads": config.num_key_value_heads}
    for what, count in heads.items():
        if count % size:
            raise InvalidField(SETTING, f"{size} does not divide {count} {what}")
    plan: Mapping[str, str] = getattr(config, "base_model_tp_plan", None) or {}
    if not plan or (unknown := set(plan.values()) - {COLUMNS, ROWS, WHOLE}):
        unknown = unknown if plan else set()
        raise InvalidField(SETTING, f"{type(trunk).__name__} cannot be divided: {sorted(unknown) or 'it has no plan'}")
    # Neighbouring ranks share a layer: they are usually on one machine, and every layer has two sums over them.
    mesh = init_device_mesh(device_kind(), (ranks // size, size), mesh_dim_names=("dp", "tp"))
    styles = {COLUMNS: ColwiseParallel, ROWS: RowwiseParallel}
    divided: Any = {name: styles[kind]() for name, kind in plan.items() if kind in styles}
    parallelize_module(trunk, mesh["tp"], divided)
    for name, kind in plan.items():
        if kind == WHOLE:
            # Whole weights of divided heads, such as norms of queries: each rank has the gradient of its heads alone.
            for module in modules_named(trunk, name):
                module.fathom_summed_over = mesh["tp"].get_group()
    return mesh["dp"]


def modules_named(trunk: Module, pattern: str) -> list[Any]:
    """Return the modules whose dotted name is the pattern, in which * is any one part."""
    parts = pattern.split(".")

    def is_meant(name: str) -> bool:
        own = name.split(".")
        return len(own) == len(parts) and all(part in ("*", mine) for part, mine in zip(parts, own, strict=True))

    return [module for name, module in trunk.named_modules() if is_meant(name)]


def sum_shared_gradients(network: Module) -> None:
    """Sum the gradients of whole weights that serve divided heads over the ranks of their layer, in place."""
    for module in network.modules():
        group = getattr(module, "fathom_summed_over", None)
        if group is None:
            continue
        for parameter in module.parameters():
            if parameter.grad is not None:
                distributed.all_reduce(own_part(parameter.grad), group=group)


def own_part(gradient: Tensor) -> Tensor:
    """Return this rank's part of a gradient; changes to it change the gradient."""
    return gradient.to_local() if isinstance(gradient, DTensor) else gradient
