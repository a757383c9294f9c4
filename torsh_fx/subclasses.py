"""Subclasses of Tensor: results of ops on one are of its class, as PyTorch has it.

NOTE [families]: an op looks for a subclass among its operands only once there is one, and
such an op is recorded the long way.  The quick operators of Tensor know plain operands
only, so a subclass gets the long ones.
"""

from __future__ import annotations

from typing import Any

import jax

from . import creation, pytree, shaping
from .rules import ArgumentTypeError
from .tensor import Tensor, families


def enroll(kind: type[Tensor]) -> None:
    """Make a new subclass known: to ops, to its operators, to JAX."""
    if "__torch_function__" in vars(kind):
        raise ArgumentTypeError(
            f"{kind.__name__}.__torch_function__ would never be called here; override the methods it is about"
        )
    for name, member in vars(Tensor).items():
        own = any(name in vars(base) for base in kind.__mro__[: kind.__mro__.index(Tensor)])
        if hasattr(member, "unhurried") and not own:
            setattr(kind, name, member.unhurried)
    families.append(kind)
    jax.tree_util.register_pytree_node(kind, pytree.flatten, lambda _, children: _as(kind, children))


def _as(kind: type[Tensor], children: tuple[Any]) -> Any:
    out = pytree.unflatten(None, children)
    if type(out) is Tensor:
        out.__class__ = kind
    return out


def fill(t: Tensor, data: Any) -> None:
    """Give a tensor of a subclass, as its class was called with ``data``, what it shall hold."""
    if "_at" not in vars(t):  # else ``__new__`` has done it
        made = data.detach() if isinstance(data, Tensor) else creation.tensor(data)
        vars(t).update(vars(made))


def as_subclass(x: Tensor, cls: type[Tensor]) -> Tensor:
    """This tensor as one of a subclass: the same storage, and its place in the graph.

    Args:
        x: any Tensor.
        cls: Tensor or a subclass; its ``__init__`` is not called.

    Raises:
        ArgumentTypeError: ``cls`` is no class of Tensors.

    Gradient: g.
    Source: PyTorch's as_subclass.
    Example:
        >>> as_subclass(ones(2), Tensor)
        tensor([1., 1.])
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise ArgumentTypeError(f"[as_subclass] needs a subclass of Tensor, got {cls!r}")
    out = shaping.view(x, x.shape) if x.requires_grad else x.detach()
    out.__class__ = cls
    return out


def make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Tensor:
    """A leaf of class ``cls`` on the storage of ``data``, outside its graph; what a ``__new__`` calls.

    Raises:
        ArgumentTypeError: ``cls`` is no class of Tensors, or ``data`` no Tensor.
    """
    if not isinstance(data, Tensor):
        raise ArgumentTypeError(f"[_make_subclass] data must be a Tensor, got {type(data).__name__}")
    return as_subclass(data.detach(), cls).requires_grad_(require_grad)
