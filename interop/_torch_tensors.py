"""Tensors to PyTorch's and back: on the device by DLPack, on the host through NumPy."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..dlpack import copied, exported, imported
from ..dtypes import DType, as_dtype
from ..graph import leaf
from ..rules import ArgumentTypeError, AutogradError
from ..rules.kinds import shown
from ..tensor import Tensor, from_array
from ._extras import needed

torch: Any = needed("torch", "torch")


def from_torch(t: Any, *, copy: bool | None = None) -> Tensor:
    """A Tensor with the value of a PyTorch tensor; a leaf that requires grad becomes one.

    Args:
        t: a dense PyTorch tensor on a device that JAX knows, of any strides.
        copy: True and None copy, since PyTorch writes in place.  False shares the memory:
            a write on PyTorch's side then shows here, also in values that should be final.

    Returns:
        A Tensor of t's shape, dtype and ``requires_grad``; ``.grad`` starts empty.

    Raises:
        ArgumentTypeError: no PyTorch tensor; or sparse, quantised, complex, of a dtype there is no Tensor of.
        ArgumentValueError: with ``copy=False``, memory that JAX cannot look at, such as strided memory.
        AutogradError: t has a history in PyTorch, which would be lost: ``detach()`` it, or
            bring the function over with ``as_torch`` or ``lift_torch``.

    Gradient: stops here; each side has its own ``.grad``.
    Source: DLPack.
    Example:
        >>> from_torch(torch.ones(2, requires_grad=True))
        tensor([1., 1.], requires_grad=True)
    """
    if not isinstance(t, torch.Tensor):
        raise ArgumentTypeError(f"[from_torch] takes a PyTorch tensor, got {shown(t)}")
    if t.grad_fn is not None:
        raise AutogradError(
            f"[from_torch] this tensor has a history in PyTorch ({t.grad_fn.name()}), which would be lost: detach() "
            "it, or bring the function over with as_torch or lift_torch"
        )
    out = _taken(t.detach(), copy)
    return out.requires_grad_() if t.requires_grad else out


def _taken(t: Any, copy: bool | None) -> Tensor:
    if t.layout != torch.strided or t.is_quantized:
        kind = "quantised" if t.is_quantized else str(t.layout)
        raise ArgumentTypeError(f"[from_torch] only dense tensors become Tensors, this one is {kind}")
    dtype_of(t.dtype, "from_torch")
    if copy is False:
        return from_array(imported("from_torch", t))
    return Tensor(leaf(copied("from_torch", t)))


def to_torch(x: Any, *, copy: bool | None = None) -> Any:
    """A PyTorch tensor with the value of a Tensor or JAX array; a leaf that requires grad becomes one.

    Args:
        x: a Tensor or a JAX array.
        copy: True and None copy.  False shares the memory, which PyTorch can then write to:
            only for values that nobody here reads any more.

    Returns:
        A PyTorch tensor of x's shape, dtype and ``requires_grad``, on the same device.

    Raises:
        ArgumentTypeError: neither Tensor nor JAX array.
        AutogradError: x has a history, which would be lost: ``detach()`` it; or it is traced.

    Gradient: stops here; each side has its own ``.grad``.
    Source: DLPack.
    Example:
        >>> to_torch(tensor([1.0, 2.0]))
        tensor([1., 2.])
    """
    if isinstance(x, jax.Array):
        x = from_array(x)
    if not isinstance(x, Tensor):
        raise ArgumentTypeError(f"[to_torch] takes a Tensor or a JAX array, got {shown(x)}")
    if not x.is_leaf:
        raise AutogradError(
            f"[to_torch] this tensor has a history ({x.grad_fn!r}), which would be lost: detach() it, or bring the "
            "function over with as_torch or lift_torch"
        )
    out = torch.utils.dlpack.from_dlpack(exported(x.detach(), copy=copy))
    return out.requires_grad_() if x.requires_grad else out


def dtype_of(dtype: Any, op: str) -> DType:
    """Our dtype for one of PyTorch's."""
    name = str(dtype).removeprefix("torch.")
    try:
        return as_dtype(name)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"[{op}] {error}") from None


def torch_dtype(dtype: DType) -> Any:
    """PyTorch's dtype for one of ours."""
    return getattr(torch, dtype.name)


def of_host(array: np.ndarray[Any, Any]) -> Any:
    """A PyTorch tensor with a copy of host memory."""
    fresh = np.array(array, order="C")
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(fresh.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(fresh)


def to_host(t: Any) -> np.ndarray[Any, Any]:
    """A NumPy array with the value of a PyTorch tensor, in the same memory if it can be."""
    t = t.detach().cpu().contiguous().resolve_neg()
    if t.dtype is torch.bfloat16:
        found: np.ndarray[Any, Any] = t.view(torch.int16).numpy().view(as_dtype("bfloat16"))
        return found
    return t.numpy()  # type: ignore[no-any-return]
