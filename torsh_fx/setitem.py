"""``x[index] = value``: a write to part of a tensor.

Integers and slices make a view, and the write goes through it.  Arrays and masks
say which elements, by their number in the tensor; those are exchanged at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arithmetic import cast, filled, is_number, operand, where
from .creation import arange
from .indexing import getitem
from .inplace import copy_
from .record import constant
from .rules import ArgumentTypeError, OutOfRangeError, ShapeMismatchError
from .rules.op import OPS
from .shaping import expand, reshape
from .state import here
from .tensor import Tensor, apply


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """Write ``value``, a number or Tensor, to the part of this tensor that ``index`` names.

    The value is broadcast and cast to that part.  Index forms are those of reading.
    Of an element named twice, which value wins is not defined.

    Raises:
        OutOfRangeError, ArgumentTypeError, ArgumentValueError: as reading does.
        ShapeMismatchError: the value does not broadcast to the part.
        ArgumentTypeError: the value is neither number nor Tensor.
        AutogradError: this tensor cannot be written, see ``add_``.

    Gradient: to the value what g has there, summed where it was broadcast; what was there gets none.
    Source: ``rules.select_scatter``, ``rules.slice_scatter`` and ``rules.put``.
    Example:
        >>> x = zeros(2, 3)
        >>> x[1, ::2] = tensor([5.0, 6.0])
        >>> x.tolist()
        [[0.0, 0.0, 0.0], [5.0, 0.0, 6.0]]
    """
    if not is_number(value):
        if not isinstance(value, Tensor) and not hasattr(value, "aval"):
            raise ArgumentTypeError(f"[setitem] the value must be a number or a Tensor, got {type(value).__name__}")
        value = operand("setitem", value)
    entries = index if isinstance(index, tuple) else (index,)
    if not any(_is_array(e) for e in entries):
        part = getitem(self, index)
        copy_(part, value if is_number(value) else _without_leading_ones(value, part.ndim))
        return
    if _is_mask_of(self, index) and (is_number(value) or value.numel() == 1):
        chosen = filled(value, self.dtype) if is_number(value) else reshape(cast(value, self.dtype), ())
        self._write(where(operand("setitem", index), chosen, self), "setitem")
        return
    places = _places(self, entries)
    if is_number(value):
        source = filled(value, self.dtype, places.shape)
    else:
        source = _without_leading_ones(cast(value, self.dtype), places.ndim)
        try:
            source = expand(source, *places.shape) if source.shape != places.shape else source
        except (ShapeMismatchError, OutOfRangeError) as error:
            raise ShapeMismatchError(
                "[setitem] the value does not broadcast to the part", expected=places.shape, got=value.shape
            ) from error
    self._write(apply(OPS["put"], self, places, source), "setitem")


def _is_array(entry: Any) -> bool:
    if isinstance(entry, Tensor):
        return entry.ndim > 0 or entry.dtype == bool
    return isinstance(entry, (bool, np.bool_, list, tuple, np.ndarray)) or hasattr(entry, "aval")


def _is_mask_of(x: Tensor, index: Any) -> bool:
    """Is it a mask of all of ``x``?  A number then needs no look at its values."""
    return isinstance(index, Tensor) and index.dtype == bool and index.shape == x.shape


def _without_leading_ones(value: Tensor, ndim: int) -> Tensor:
    shape = value.shape
    while len(shape) > ndim and shape[0] == 1:
        shape = shape[1:]
    return value if shape == value.shape else reshape(value, shape)


def _places(x: Tensor, entries: tuple[Any, ...]) -> Tensor:
    """The number of each element that ``entries`` name, as reading would arrange them."""
    known = [_known(e) for e in entries]
    if here().tapes or any(k is None and e is not None for k, e in zip(known, entries, strict=True)):
        return getitem(reshape(arange(x.numel()), x.shape), entries)
    getitem(x.detach(), entries)  # checks, and says what is wrong as reading does; nobody keeps what it gives
    numbers = np.arange(x.numel()).reshape(x.shape)
    return Tensor(constant(numbers[tuple(known)]))


def _known(entry: Any) -> Any:
    """An entry that NumPy can index with, None if its value is not there."""
    if isinstance(entry, Tensor) or hasattr(entry, "aval"):
        node = operand("setitem", entry)._node
        value = node.value
        known = value is not None and not node.traced and value.is_fully_addressable
        return np.asarray(value) if known else None
    return np.asarray(entry) if isinstance(entry, list) else entry
