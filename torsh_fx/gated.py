"""Nodes whose derivative is no row's: somebody's Python, or a move of what they copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .dtypes import is_floating
from .rules.call import Aval


class Gated:
    """The call of such a node, which a tape runs again and JAX differentiates by its ``Gate``."""

    name = "gate"
    foreign = True
    present: tuple[str, ...] = ()
    out: Aval

    def describe(self, runtime: dict[str, Any]) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def forward(self, *args: Any) -> Any:
        """The value, or a list of several."""
        raise NotImplementedError


class Copied(Gated):
    """Of an op whose result is its operand, somewhere else; so is the gradient."""

    n = 1

    def __init__(self, aval: Aval, name: str) -> None:
        self.avals, self.out, self.name = (aval,), aval, name

    def cotangent(self, i: int, g: Any, env: dict[str, Any]) -> Any:
        """The gradient ``g``, where it belongs."""
        raise NotImplementedError

    def missing(self) -> str | None:
        return None

    def active(self, i: int) -> bool:
        return is_floating(self.out.dtype)

    def residual_keys(self, mask: tuple[bool, ...]) -> tuple[int | str, ...]:
        return ()

    def runtime(self, values: Sequence[Any]) -> tuple[Any, ...]:
        return ()

    def environment(self, residuals: Any, runtime: Any) -> dict[str, Any]:
        return {}


class Picked(Gated):
    """One of several values."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.name = f"pick({k})"

    def forward(self, *args: Any) -> Any:
        return args[0][self.k]
