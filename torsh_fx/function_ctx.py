"""What a ``Function``'s forward leaves for its backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .rules import ArgumentTypeError
from .rules.kinds import shown
from .tensor import Tensor


class FunctionCtx:
    """The ``ctx`` of a ``Function``: Tensors that were saved, marks, and whatever attributes the user sets.

    Tensors belong into ``save_for_backward``, or into attributes (also in lists, tuples and
    dicts): under JAX's traces and on tapes those are what follows the replay.

    ``needs_input_grad`` says per argument whether a gradient is wanted.
    """

    __slots__ = ("__dict__", "__weakref__", "_dirty", "_for_jvp", "_materialize", "_plain", "_reader", "_saved")

    needs_input_grad: tuple[bool, ...]

    def __init__(self) -> None:
        self._saved: tuple[Tensor | None, ...] = ()
        self._for_jvp: tuple[Tensor | None, ...] | None = None
        self._dirty: tuple[Tensor, ...] = ()
        self._plain: tuple[Tensor, ...] = ()
        self._materialize = True
        self._reader: Callable[[], tuple[Tensor | None, ...]] | None = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep Tensors (or None) for ``backward``, which finds them in ``saved_tensors``.

        Second derivatives flow into those that are arguments or results of the function.

        Raises:
            ArgumentTypeError: one is neither.
        """
        self._saved = _tensors("save_for_backward", tensors, True)

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep Tensors (or None) for ``jvp``, which finds them in ``saved_tensors``.

        Raises:
            ArgumentTypeError: one is neither.
        """
        self._for_jvp = _tensors("save_for_forward", tensors, True)

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which arguments ``forward`` has written in place; each must be returned.

        Raises:
            ArgumentTypeError: one is no Tensor.
        """
        self._dirty = _tensors("mark_dirty", tensors)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which results have no gradient; results that are not floating never have one.

        Raises:
            ArgumentTypeError: one is no Tensor.
        """
        self._plain = _tensors("mark_non_differentiable", tensors)

    def set_materialize_grads(self, value: bool) -> None:
        """Give ``backward`` zeros for results that no gradient reaches (the default), or None.

        Raises:
            ArgumentTypeError: ``value`` is no bool.
        """
        if not isinstance(value, (bool, np.bool_)):
            raise ArgumentTypeError(f"set_materialize_grads takes True or False, got {shown(value)}")
        self._materialize = bool(value)

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What was saved; in ``backward`` with its place in the graph.

        Raises:
            AutogradError: the graph was freed by an earlier backward.
        """
        return self._saved if self._reader is None else self._reader()


def _tensors(name: str, tensors: tuple[Any, ...], or_none: bool = False) -> tuple[Any, ...]:
    for k, t in enumerate(tensors):
        if not isinstance(t, Tensor) and not (or_none and t is None):
            raise ArgumentTypeError(f"[{name}] takes Tensors, argument {k} is {shown(t)}")
    return tensors
