"""Sums, means and whitening over the cells of a mask. Cells off the mask never count, even as NaN.

Shapes: ``values`` and ``mask`` [B, T] (or any equal shapes), ``mask`` 0 or 1. Results keep the dtype of ``values``.
Source: verl's masked helpers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fathom.core.errors import InvalidField

EPS = 1e-8
# Number of columns whose decayed sums are computed by one matrix product.
BLOCK = 64


def masked_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Return the sum over the cells where ``mask`` is not 0, a scalar."""
    # Selected, not multiplied: NaN times 0 is NaN, and padding may hold anything.
    return torch.where(mask.bool(), values, 0.0).sum()


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return sum / (cells + 1e-8), a scalar; 0 for an empty mask."""
    return masked_sum(values, mask) / (mask.bool().sum() + EPS)


def masked_variance(values: Tensor, mask: Tensor) -> Tensor:
    """Return the unbiased variance, a scalar; raise ``InvalidField("mask")`` for fewer than two cells."""
    count = int(mask.bool().sum())
    if count < 2:
        raise InvalidField("mask", f"has {count} cells; a variance needs two")
    # Bessel's correction, as verl computes it.
    return masked_mean((values - masked_mean(values, mask)) ** 2, mask) * (count / (count - 1))


def whiten(values: Tensor, mask: Tensor, *, shift_mean: bool = True) -> Tensor:
    """Return (x - mean) / sqrt(variance + 1e-8) on the mask and 0 off it, same shape.

    Without ``shift_mean`` the mean is added back.
    """
    mean = masked_mean(values, mask)
    scaled = (values - mean) * torch.rsqrt(masked_variance(values, mask) + EPS)
    # Other implementations leave the cells off the mask shifted; 0 frees later code from remembering the mask.
    return torch.where(mask.bool(), scaled if shift_mean else scaled + mean, 0.0)


def reverse_cumsum(values: Tensor) -> Tensor:
    """Return for each cell [B, T] the sum of it and all cells to its right, accumulated in float64."""
    # In 64 bits: over thousands of tokens the rounding of 32 bits would show in the first ones.
    return values.flip(-1).cumsum(-1, dtype=torch.float64).flip(-1).to(values.dtype)


def decayed_sums(values: Tensor, mask: Tensor, factor: float) -> Tensor:
    """Return y = x + ``factor`` * y' [B, T], y' being that of the row's next cell on the mask; 0 off it.

    Carries no gradient.
    """
    places = packed_places(mask)
    return unpack(decay_sum(pack(values, places), factor), places).to(values.dtype)


def decay_sum(values: Tensor, factor: float) -> Tensor:
    """Return y = x + ``factor`` * y' of the next column, [B, T] float64."""
    values = values.detach().to(torch.float64)
    rows, columns = values.shape
    if factor == 1.0 or not columns:
        return reverse_cumsum(values)
    # A loop over blocks of columns, each one matrix product, instead of a loop over columns.
    blocks = torch.nn.functional.pad(values, (0, -columns % BLOCK)).view(rows, -1, BLOCK)
    steps = torch.arange(BLOCK, device=values.device)
    powers = torch.pow(
        torch.tensor(factor, dtype=torch.float64, device=values.device), torch.arange(BLOCK + 1, device=values.device)
    )
    within = torch.where(steps.unsqueeze(-1) >= steps, powers[(steps.unsqueeze(-1) - steps).clamp(min=0)], 0.0)
    sums = blocks @ within  # column j: the sum over i >= j of x_i factor^(i - j)
    to_next = powers[1:].flip(0)  # from each column to the next block's first
    for block in range(sums.shape[1] - 2, -1, -1):
        sums[:, block] += sums[:, block + 1, :1] * to_next
    return sums.view(rows, -1)[:, :columns]


def packed_places(mask: Tensor) -> Tensor:
    """Return each cell's position among those of its row on the mask, [B, T] int64; T for the cells off it."""
    kept = mask.bool()
    return torch.where(kept, kept.cumsum(-1) - 1, mask.shape[-1])


def pack(values: Tensor, places: Tensor) -> Tensor:
    """Move the cells on the mask to the left of their rows, then zeros; [B, T] float64."""
    rows, columns = places.shape
    # One column more, into which all cells off the mask fall; it is cut off again.
    packed = torch.zeros(rows, columns + 1, dtype=torch.float64, device=values.device)
    return packed.scatter(-1, places, values.to(torch.float64))[:, :columns]


def unpack(packed: Tensor, places: Tensor) -> Tensor:
    """Move the cells packed by :func:`pack` back to their columns, [B, T]; 0 off the mask."""
    return torch.nn.functional.pad(packed, (0, 1)).gather(-1, places)


def last_cells(mask: Tensor) -> Tensor:
    """Return the column of each row's last 1, [B] int64; raise ``InvalidField("mask")`` naming a row without any."""
    kept = mask.bool()
    if not bool(kept.any(dim=-1).all()):
        row = int((~kept.any(dim=-1)).nonzero()[0])
        raise InvalidField("mask", f"row {row} has no valid token")
    columns = torch.arange(mask.shape[-1], device=mask.device)
    # -1 where there is none; the check above has excluded rows of which that would be the result.
    return torch.where(kept, columns, -1).amax(dim=-1)


def at_last(values: Tensor, mask: Tensor) -> Tensor:
    """Return [B, T] with ``values`` [B] at each row's last valid column and 0 elsewhere."""
    placed = torch.zeros(mask.shape, dtype=values.dtype, device=values.device)
    return placed.scatter(-1, last_cells(mask).unsqueeze(-1), values.unsqueeze(-1))


def row_sums(values: Tensor, mask: Tensor) -> Tensor:
    """Return the sum of each row over its mask, [B], with gradient."""
    return torch.where(mask.bool(), values, 0.0).sum(dim=-1)
