"""``grad_fn``: the op that made a tensor, for people to look at."""

from __future__ import annotations

from typing import Any


class GradFn:
    """The op that made a tensor, as ``grad_fn`` shows it."""

    __slots__ = ("_vertex",)

    def __init__(self, vertex: Any) -> None:
        self._vertex = vertex

    def name(self) -> str:
        """Diagnostic name with parameters."""
        return str(self._vertex.describe())

    @property
    def next_functions(self) -> tuple[tuple[GradFn | None, int], ...]:
        """The ops (or leaves) that its operands' gradients go to."""
        return tuple((None if e is None else GradFn(e), 0) for e in self._vertex.edges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GradFn) and other._vertex is self._vertex

    def __hash__(self) -> int:
        return id(self._vertex)

    def __repr__(self) -> str:
        return f"<grad_fn {self.name()}>"
