"""What a workload is: one loss for PyTorch and for us, the same loss by an expert's hand in JAX, and its data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Workload:
    """A training step to be measured; ``loss`` takes the library to compute in, torch or torsh_fx."""

    name: str
    params: Arrays
    data: Arrays
    loss: Callable[[Any, Sequence[Any], Sequence[Any]], Any]
    by_hand: Callable[[Sequence[Any], Sequence[Any]], Any]
    rate: float = 1e-3
    quick: bool = False  # part of --quick: small and soon compiled
    rolled: Callable[[Sequence[Any], Sequence[Any]], Any] | None = None  # by hand with lax.scan, for a long loop


class Draws:
    """Random arrays from one seed, as float32."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def normal(self, *shape: int) -> np.ndarray:
        return self.rng.normal(size=shape).astype(np.float32)

    def weight(self, *shape: int) -> np.ndarray:
        """Scaled by the inputs of a unit, which are all axes but the first."""
        return self.normal(*shape) / np.float32(np.sqrt(np.prod(shape[1:])))

    def integers(self, high: int, n: int) -> np.ndarray:
        return self.rng.integers(high, size=n)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)
