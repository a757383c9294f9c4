"""Tensor as a JAX pytree: one child, nothing else.

NOTE [pytree]: the auxiliary data is empty on purpose.  Were ``requires_grad``
in it, a parameter and its gradient would have different structures, and
``jax.tree.map(update, params, grads)`` would fail or recompile.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from .dtypes import ALL
from .graph import Slot
from .record import constant
from .rules import AutogradError
from .state import here
from .tensor import Tensor, from_array
from .trail import ELSEWHERE


class Box:
    """Stands for the storage of a Tensor whose tree leaf is no array: an aval, a sentinel, None."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.node = SimpleNamespace(aval=value, value=value, traced=False, trail=None)


def flatten(t: Tensor) -> tuple[tuple[Any], None]:
    """The value as the one child; a result with history is refused."""
    if isinstance(t._storage, Box):
        return (t._storage.value,), None
    edge = t._current_edge()
    if here().attempt is not None:
        here().attempt.ask(edge, always=True)
    if edge is not None and not isinstance(edge, Slot):
        raise AutogradError(
            f"a tensor computed from one that requires grad ([{edge.describe()}]) cannot become a JAX value: its "
            "history would be lost in silence; use detach() if that is meant"
        )
    return (t.jax(),), None


def unflatten(_: None, children: tuple[Any]) -> Any:
    """A Tensor around the child, whatever that is."""
    (value,) = children
    if isinstance(value, Tensor) or _nested(value):  # nesting collapses
        return value
    if isinstance(value, jax.Array) and value.dtype in ALL:
        return from_array(value)
    if isinstance(value, np.ndarray) and value.dtype in ALL:
        return Tensor(constant(value))
    out = Tensor.__new__(Tensor)
    out._at, out._storage = ELSEWHERE, Box(value)  # type: ignore[assignment]
    return out


def _nested(value: Any) -> bool:
    """Is ``value`` a structure that already holds Tensors, as a Jacobian by several arguments does?"""
    if not isinstance(value, (tuple, list, dict)):
        return False
    leaves = jax.tree.leaves(value, is_leaf=lambda x: isinstance(x, Tensor))
    return any(isinstance(x, Tensor) for x in leaves)


def register() -> None:
    """Tell JAX; called once, at import."""
    jax.tree_util.register_pytree_node(Tensor, flatten, unflatten)
