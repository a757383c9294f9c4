"""Samplers the rows share: small, deterministic, uneven, away from kinks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .op import Sample


def values(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Any:
    """Distinct float64 values in (low, high), in no particular order.

    The grid is shifted by the seed: none is the middle, nor equal to one of another seed.
    """
    n = int(np.prod(shape))
    grid = (np.arange(n) + 0.31 + 0.03 * (seed % 6)) / max(n, 1)
    order = np.random.default_rng(1000 + seed + n).permutation(n)
    return (low + (high - low) * grid[order]).reshape(shape)


def unary(low: float = -2.0, high: float = 2.0) -> Callable[[], Iterable[Sample]]:
    """One operand: a matrix, a scalar, an empty array."""
    return lambda: [
        Sample((values(2, 3, low=low, high=high),)),
        Sample((values(low=low, high=high, seed=3),)),
        Sample((np.zeros((0, 2)),)),
    ]


def binary(
    low: float = -2.0, high: float = 2.0, *, low2: float | None = None, high2: float | None = None
) -> Callable[[], Iterable[Sample]]:
    """Two operands in every way they can broadcast."""
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((2, 3), (2, 3)),
        ((2, 3), (3,)),
        ((2, 1), (3,)),
        ((), (2, 2)),
        ((2, 1, 3), (4, 1)),
        ((4, 0), (4, 1)),
        ((), ()),
    ]
    lo2, hi2 = low if low2 is None else low2, high if high2 is None else high2
    return lambda: [
        Sample((values(*a, low=low, high=high, seed=1), values(*b, low=lo2, high=hi2, seed=2))) for a, b in shapes
    ]


def samples(*rows: Sample) -> Callable[[], Iterable[Sample]]:
    """These samples, made when a row is asked for them."""
    return lambda: list(rows)


NAN, INF = float("nan"), float("inf")
EDGES = (0.0, -0.0, 1.0, -1.0, INF, -INF, NAN)
