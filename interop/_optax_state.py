"""Optax's state with Tensors in it: what was assigned there is taken over, what a step gives is written in place."""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_
from typing import Any

import jax
import numpy as np
from jax.tree_util import DictKey, GetAttrKey, SequenceKey

from ..arithmetic import cast
from ..creation import as_tensor, tensor
from ..dtypes import is_floating
from ..rules import ArgumentTypeError, ArgumentValueError, AutogradError, ShapeMismatchError
from ..rules.kinds import shown
from ..state import here, no_grad
from ..tensor import Tensor
from ..writing import write
from ._staging import Value


def is_leaf(x: Any) -> bool:
    """Is it a Tensor?  The ``is_leaf`` of the tree walks here."""
    return isinstance(x, Tensor)


class State:
    """Optax's own state, ``tree``, whose leaves stay the same Tensors (or ``Value``s) as long as they can.

    NOTE [assigned]: ``opt.state.hyperparams["learning_rate"] = 1e-4`` puts a number where a
    Tensor was.  Before anybody uses the state, the number is written into that Tensor,
    in its dtype, and the Tensor put back.  So a number is no part of a program, and a
    compiled step finds what it knows.
    """

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self.leaves: list[Any]
        self.structure: Any
        self.leaves, self.structure = jax.tree.flatten(tree, is_leaf=is_leaf)

    def settle(self) -> None:
        """Take over what was assigned.

        Raises:
            ArgumentValueError: entries came or went.
            ArgumentTypeError, ShapeMismatchError: what was assigned cannot stand there.
        """
        given, structure = jax.tree.flatten(self.tree, is_leaf=is_leaf)
        if structure != self.structure:
            raise ArgumentValueError(
                f"[Optimizer] the state has another structure than Optax gave it: {structure}, not {self.structure}"
            )
        if all(map(is_, given, self.leaves)):
            return
        paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(self.tree, is_leaf=is_leaf)]
        taken = [
            (path, own, _taken(jax.tree_util.keystr(path), own, new))
            for path, own, new in zip(paths, self.leaves, given, strict=True)
            if own is not new
        ]
        with no_grad():
            for path, own, new in taken:
                write(inner(own), new, "Optimizer.state")
                _put(self.tree, path, own)

    def keep(self, tree: Any) -> None:
        """Take over a new state: in the memory of the old one, where that is possible."""
        new, structure = jax.tree.flatten(tree, is_leaf=is_leaf)
        if structure == self.structure and all(map(_fits, self.leaves, new)):
            for own, value in zip(self.leaves, new, strict=True):
                if own is not value and isinstance(inner(own), Tensor):
                    write(inner(own), inner(value), "Optimizer.step")
        elif here().capture is not None:
            raise AutogradError(
                "[Optimizer.step] this transform's state has another structure, other shapes or dtypes after the step, "
                "so the step cannot be compiled; call it in a plain loop"
            )
        else:
            self.tree, self.leaves, self.structure = tree, new, structure

    def named(self) -> Iterator[tuple[str, Any]]:
        """What is to be saved, by place."""
        for path, x in jax.tree_util.tree_leaves_with_path(self.tree, is_leaf=is_leaf):
            if is_saved(x):
                yield jax.tree_util.keystr(path), x


def inner(x: Any) -> Any:
    """The Tensor of a ``Value``; anything else as it is."""
    return x.tensor if x.__class__ is Value else x


def is_saved(x: Any) -> bool:
    """Is it a number or an array?"""
    return isinstance(x, (Tensor, Value, np.ndarray, np.generic, float, int, jax.Array)) and not isinstance(x, bool)


def _fits(own: Any, new: Any) -> bool:
    """Can ``new`` be written into ``own``?"""
    if own is new:
        return True
    if own.__class__ is not new.__class__ and not (is_leaf(own) and is_leaf(new)):
        return False
    a, b = inner(own), inner(new)
    return bool(a._aval == b._aval) if is_leaf(a) else bool(a == b)


def _taken(name: str, own: Any, new: Any) -> Tensor:
    """What was assigned, as a Tensor like that of ``own``."""
    if own.__class__ is Value:
        value = new.tensor if new.__class__ is Value else None
    elif not is_leaf(own):
        value = None
    elif isinstance(new, (Tensor, jax.Array)):
        value = as_tensor(new).detach()
    else:
        value = tensor(np.asarray(new)) if isinstance(new, (int, float, np.ndarray, np.generic)) else None
    if value is None or (is_floating(value.dtype) and not is_floating(inner(own).dtype)):
        kept = f"a Tensor of {own.dtype}" if is_leaf(own) else shown(own)
        raise ArgumentTypeError(f"[Optimizer] state{name} is {kept}, which cannot become {shown(new)}")
    if value.shape != inner(own).shape:
        raise ShapeMismatchError(
            f"[Optimizer] a value for state{name} has another shape", expected=inner(own).shape, got=value.shape
        )
    return cast(value, inner(own).dtype)


def _put(tree: Any, path: Any, value: Any) -> None:
    """Set the leaf at ``path`` of a tree, where somebody set it before."""
    for key in path[:-1]:
        match key:
            case DictKey():
                tree = tree[key.key]
            case SequenceKey():
                tree = tree[key.idx]
            case GetAttrKey():
                tree = getattr(tree, key.name)
    match path[-1]:
        case DictKey(key):
            tree[key] = value
        case SequenceKey(idx):
            tree[idx] = value
        case GetAttrKey(name):
            setattr(tree, name, value)
