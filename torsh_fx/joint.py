"""Vertices of the graph whose rule is Python: a function of several results, and each of its results."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .graph import Node
from .hooking import settled
from .rules.call import Aval
from .tensor import Tensor, result

FREED = (
    "its part of the graph was freed by an earlier backward; "
    "pass retain_graph=True to the first one to differentiate twice"
)


class _Rule:
    """The call of such a vertex: a backward that meets it is recorded, no program expands it."""

    name = "function"
    foreign = True
    present: tuple[str, ...] = ()

    def residual_keys(self, mask: tuple[bool, ...]) -> tuple[int | str, ...]:
        return ()


_RULE = _Rule()


class Vertex(Node):
    """A place in the graph that shows no value of its own."""

    __slots__ = ()

    def __init__(self, inputs: Sequence[Node], aval: Aval, edges: Sequence[Any]) -> None:
        super().__init__(_RULE, tuple(inputs), (), aval, tuple(edges))

    def pulled(self, g: Any, edges: Sequence[Any], differentiable: bool) -> list[Any]:
        """One gradient per edge, from the vertex's own."""
        raise NotImplementedError


class Part(Vertex):
    """One result of a function."""

    __slots__ = ("index", "joint")

    def __init__(self, joint: Joint, index: int, aval: Aval) -> None:
        super().__init__((), aval, (joint,))
        self.joint, self.index, self.serial = joint, index, joint.serial

    def describe(self) -> str:
        return self.joint.describe()

    def missing(self) -> str | None:
        return FREED if self.freed else None

    def pulled(self, g: Any, edges: Sequence[Any], differentiable: bool) -> list[Any]:
        return [{self.index: g}]


class Joint(Vertex):
    """A function; its gradient is a dict of those of its results.

    ``inputs`` are the values that its backward reads.
    """

    __slots__ = ("_back", "_freed", "_name", "_parts", "_why", "n_results")

    def __init__(
        self, name: str, aval: Aval, edges: Sequence[Any], n_results: int, back: Callable[..., Any], why: str | None
    ) -> None:
        super().__init__((), aval, edges)
        self._name, self._back, self._why, self.n_results = name, back, why, n_results
        self._freed = False
        self._parts: dict[int, weakref.ref[Part]] = {}

    def part(self, index: int, aval: Aval) -> Part:
        """The vertex of a result."""
        ref = self._parts.get(index)
        found = None if ref is None else ref()
        if found is None:
            found = Part(self, index, aval)
            self._parts[index] = weakref.ref(found)
        return found

    @property
    def freed(self) -> bool:
        return self._freed

    @freed.setter
    def freed(self, value: bool) -> None:
        self._freed = value
        if value:
            self.inputs = ()

    def describe(self) -> str:
        return f"function({self._name})"

    def missing(self) -> str | None:
        return FREED if self._freed else self._why

    def as_results(self, g: Any) -> tuple[Any, ...]:
        return tuple([g.get(k) for k in range(self.n_results)])

    def from_results(self, gradients: Sequence[Any]) -> Any:
        return {k: g for k, g in enumerate(gradients) if g is not None}

    def pulled(self, g: Any, edges: Sequence[Any], differentiable: bool) -> list[Any]:
        given = [None if n is None else result(n) for n in self.as_results(g)]
        found = self._back(given, differentiable)
        return [None if e is None or t is None else settled(t) for e, t in zip(edges, found, strict=True)]


class Refused(Vertex):
    """Where a derivative ends in an error that says why."""

    __slots__ = ("_why",)

    def __init__(self, aval: Aval, edges: Sequence[Any], why: str) -> None:
        super().__init__((), aval, edges)
        self._why = why

    def describe(self) -> str:
        return "once_differentiable"

    def missing(self) -> str | None:
        return self._why


def refusing(t: Tensor, edges: Sequence[Any], why: str) -> Tensor:
    """The value of ``t``, which cannot be differentiated any further."""
    return Tensor(t._node, Refused(t._aval, edges, why))
