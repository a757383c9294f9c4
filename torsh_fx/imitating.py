"""``t.new_zeros(...)`` and its kin: new Tensors in the dtype and on the device of one that is there."""

from __future__ import annotations

from typing import Any

from jax.sharding import Mesh, NamedSharding, PartitionSpec

from . import creation
from .shaping import sizes
from .tensor import Tensor
from .trail import home


def _options(self: Tensor, dtype: Any, device: Any) -> dict[str, Any]:
    if device is None and home(self._node) is not None:  # it is bound to where it is
        where = home(self._node)
        device = NamedSharding(where, PartitionSpec()) if isinstance(where, Mesh) else self.device
    return {"dtype": self.dtype if dtype is None else dtype, "device": device}


def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A Tensor with a copy of ``data``, by default of this dtype; errors are ``tensor``'s.

    Example:
        >>> tensor([1, 2]).new_tensor([3.0]).dtype.name
        'int64'
    """
    return creation.tensor(data, requires_grad=requires_grad, **_options(self, dtype, device))


def new_zeros(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of a shape, by default of this dtype; errors are ``zeros``'s.

    Example:
        >>> tensor([1, 2]).new_zeros(2).tolist()
        [0, 0]
    """
    return creation.zeros(*size, requires_grad=requires_grad, **_options(self, dtype, device))


def new_ones(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of a shape, by default of this dtype; errors are ``ones``'s.

    Example:
        >>> tensor([1, 2]).new_ones(2).tolist()
        [1, 1]
    """
    return creation.ones(*size, requires_grad=requires_grad, **_options(self, dtype, device))


def new_empty(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """As ``new_zeros``: nothing here is uninitialised.

    Example:
        >>> tensor([1, 2]).new_empty(0, 3).shape
        (0, 3)
    """
    return new_zeros(self, *size, dtype=dtype, device=device, requires_grad=requires_grad)


def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """One number in a shape, by default of this dtype, which must hold it; errors are ``full``'s.

    Example:
        >>> tensor([1.0]).new_full((2,), 7).tolist()
        [7.0, 7.0]
    """
    shape = sizes("new_full", (size,))
    return creation.full(shape, fill_value, requires_grad=requires_grad, **_options(self, dtype, device))
