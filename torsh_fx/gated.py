"""Nodes whose derivative is somebody's Python: computed at once, never part of a cached program."""

from __future__ import annotations

from typing import Any

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


class Picked(Gated):
    """One of several values."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.name = f"pick({k})"

    def forward(self, *args: Any) -> Any:
        return args[0][self.k]
