"""What Python asks of a Tensor: to be iterated, searched, turned round, copied and pickled."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from . import arithmetic, creation, reducing, shaping
from .rules import ArgumentTypeError, AutogradError
from .rules.kinds import shown
from .state import here
from .tensor import OWN, Tensor, apply_view


def length(self: Tensor) -> int:
    """The extent of the first axis."""
    if self.ndim == 0:
        raise ArgumentTypeError("len() of a 0-d tensor")
    return self.shape[0]


def iterate(self: Tensor) -> Iterator[Tensor]:
    """Over the positions of the first axis, as views."""
    if self.ndim == 0:
        raise ArgumentTypeError("a 0-d tensor cannot be iterated over")
    return iter(shaping.unbind(self))


def contains(self: Tensor, element: Any) -> bool:
    """Is any element equal to that number, or to a Tensor that broadcasts?"""
    if not isinstance(element, Tensor) and not arithmetic.is_number(element):
        raise ArgumentTypeError(f"only a number or a Tensor can be in a Tensor, got {shown(element)}")
    return bool(reducing.any(arithmetic.eq(self, element)))


def backwards(self: Tensor) -> Tensor:
    """The positions of the first axis in reverse order."""
    return shaping.flip(self, 0) if self.ndim else self


# -- numbers -----------------------------------------------------------------------------


def truth(self: Tensor) -> bool:
    """Is its one element nonzero?"""
    if self.numel() != 1:
        raise AutogradError(f"the truth of {self.numel()} elements is ambiguous; use any() or all()")
    return bool(self.item())


def as_float(self: Tensor) -> float:
    """The one element as a Python number."""
    return float(self.item())


def as_int(self: Tensor) -> int:
    """The one element as a Python number, rounded towards 0."""
    return int(self.item())


def as_complex(self: Tensor) -> complex:
    """The one element as a Python number."""
    return complex(self.item())


def as_index(self: Tensor) -> int:
    """The one integer or boolean as an index."""
    if self.dtype.kind not in "biu":
        raise ArgumentTypeError(f"only an integer tensor can be an index, this one is {self.dtype}")
    return int(self.item())


def formatted(self: Tensor, spec: str) -> str:
    """A 0-d tensor as its number; others as they print, or, with a format, as their one element."""
    if not spec and (self._node.traced or getattr(self._aval, "shape", None) != ()):
        return repr(self)
    if self.numel() != 1:
        raise ArgumentTypeError(f"a format such as {spec!r} needs exactly one element, shape is {list(self.shape)}")
    return format(self.item(), spec)


def rounded(self: Tensor, ndigits: int | None = None) -> Tensor:
    """Every element rounded, halves to even."""
    return arithmetic.round(self, decimals=0 if ndigits is None else ndigits)


# -- copies ------------------------------------------------------------------------------


def _extras(t: Tensor) -> dict[str, Any]:
    """What the user has put on a tensor."""
    return {name: value for name, value in vars(t).items() if name not in OWN}


def shallow(self: Tensor) -> Tensor:
    """Another tensor on the same storage, a leaf that requires grad if this one does."""
    out = self.detach().requires_grad_(self.requires_grad)
    vars(out).update(_extras(self))
    return out


def deep(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """A leaf of its own, with copies of value and gradient; what shared storage does so afterwards."""
    if not self.is_leaf:
        raise AutogradError("only leaves can be deep-copied; detach() or clone() this result")
    memo[id(self)] = out = _storage_copied(self, memo)
    if self.requires_grad:
        out.requires_grad_()
    out.__class__ = self.__class__
    if self.grad is not None:
        out.grad = copy.deepcopy(self.grad, memo)
    vars(out).update(copy.deepcopy(_extras(self), memo))
    return out


def _storage_copied(t: Tensor, memo: dict[int, Any]) -> Tensor:
    """A tensor that stands to the copy of the storage as ``t`` does to the storage."""
    view = t._view
    if view is not None:
        return apply_view(view.row, _storage_copied(view.base, memo), **view.params)
    cell = t._cell
    twin = memo.get(id(cell))
    if twin is not None:
        return twin.detach()  # type: ignore[no-any-return]
    twin = memo[id(cell)] = creation.tensor(t)
    memo.setdefault(id(memo), []).append(cell)  # as ``copy`` does it: alive as long as its id is known
    return twin


def pickled(self: Tensor) -> Any:
    """How to pickle it: value, flag, gradient, and what the user has put on it; its hooks stay behind."""
    if self._slot is not None and self._slot.hooks:
        warnings.warn("the hooks of a tensor are not pickled with it", stacklevel=2)
    grad = None if self.grad is None else self.grad.detach().numpy()
    return _unpickled, (self.detach().numpy(), self.requires_grad, grad, _extras(self), self.__class__)


def _unpickled(
    value: Any, requires_grad: bool, grad: Any, extras: dict[str, Any], kind: type[Tensor] = Tensor
) -> Tensor:
    out = creation.tensor(value, requires_grad=requires_grad)
    out.__class__ = kind
    if grad is not None:
        out.grad = creation.tensor(grad)
    vars(out).update(extras)
    return out


# -- JAX's functions ---------------------------------------------------------------------


def for_jax(self: Tensor) -> Any:
    """``__jax_array__``: the value for a ``jax.numpy`` or ``jax.lax`` function, where no gradient is lost by that.

    NOTE [jax_array]: JAX also asks for it where an array stands left of a Tensor, as in
    ``array + t``, and would then never ask the Tensor, which keeps gradient, tape and the
    pending program.  So there it is not found.  Functions of ``jax.numpy`` that are jitted
    take a Tensor apart before they ask: whether it required grad nobody can tell then.
    """
    if sys._getframe(2).f_code.co_filename.endswith("array_methods.py"):
        raise AttributeError("__jax_array__")

    def value() -> Any:
        if self._node.traced:
            raise AutogradError(
                "a JAX function was given a Tensor inside jax.jit (many of jax.numpy are jitted) or another trace, "
                "where it may be lost that it requires grad: give it t.jax(), or use "
                "torsh_fx.interop.jax.lift(function), which keeps the gradient"
            )
        if here().tapes:
            raise AutogradError(
                "a JAX function was given a Tensor while a tape records, which would hold its result as a constant: "
                "use torsh_fx.interop.jax.lift(function)"
            )
        if self.requires_grad and here().grad:
            raise AutogradError(
                "a JAX function was given a Tensor that requires grad, and its gradient would be lost: detach() it, or "
                "use torsh_fx.interop.jax.lift(function), which keeps the gradient"
            )
        return self.jax()

    return value
