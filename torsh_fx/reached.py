"""Tensors that a user's derivative reaches by itself, where JAX runs it on other values than Python did.

NOTE [reached]: a hook like ``lambda g: g * mask`` reads a tensor that nobody gave it.  In
a plain loop that is all right.  JAX runs the hook later, when the tracer in ``mask`` is
gone, or, for a tape, with other inputs.  Tensors are handles, so whatever way the
function takes to one, it finds what stands in for its value meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax

from .graph import leaf
from .rules import AutogradError
from .tensor import Tensor
from .watching import Watch


def tensors_of(functions: Iterable[Callable[..., Any]]) -> list[Tensor]:
    """The Tensors that ``functions`` reach: by closures, globals that they name, attributes, containers."""
    return Watch(functions).tensors


@contextlib.contextmanager
def standing_in(tensors: Sequence[Tensor], values: Sequence[Any], what: str) -> Iterator[None]:
    """In here ``tensors`` show ``values``, without a place in the graph.

    Raises:
        AutogradError: what runs in here meets a tracer all the same.
    """
    before = []
    try:
        for t, value in zip(tensors, values, strict=True):
            view, cell = t._view, t._cell
            before.append((t, cell, cell.node, t._edge, None if view is None else view.version))
            cell.node, t._edge = leaf(value), None
            if view is not None:
                view.version = view.base._version
        yield
    except jax.errors.UnexpectedTracerError as error:
        raise AutogradError(
            f"[{what}] it reads a tensor of the traced function that was not there yet, or that is out of sight: let "
            "it be a variable that exists when the hook is registered, or save it in ctx"
        ) from error
    finally:
        for t, cell, node, edge, version in reversed(before):
            cell.node, t._edge = node, edge
            if t._view is not None:
                t._view.version = version
