"""Broadcasting and its transpose: the two helpers every other rule folds with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .context import under_x64
from .errors import ShapeMismatchError

Shape = tuple[Any, ...]  # extents: ints, or symbolic dimensions while exporting


def broadcast_shapes(op: str, *shapes: Shape) -> Shape:
    """The common shape of ``shapes``; raises ``ShapeMismatchError`` naming ``op``."""
    out: Shape = ()
    for shape in shapes:
        rank = max(len(out), len(shape))
        padded = [(1,) * (rank - len(s)) + tuple(s) for s in (out, shape)]
        joined = []
        for left, right in zip(*padded, strict=True):
            if left != right and left != 1 and right != 1:
                raise ShapeMismatchError(
                    f"[{op}] operands of shapes {list(shapes[0])} and {list(shape)} do not broadcast: "
                    f"extents {left} and {right} differ and neither is 1",
                    expected=shapes[0],
                    got=shape,
                )
            joined.append(right if left == 1 else left)
        out = tuple(joined)
    return out


@under_x64
def reduce_grad_to_shape(grad: jax.Array, shape: Sequence[int]) -> jax.Array:
    """Sum ``grad`` down to ``shape``, the transpose of broadcasting ``shape`` up.

    Args:
        grad: array of any shape that ``shape`` broadcasts to.
        shape: the target.

    Returns:
        An array of ``shape`` and of ``grad``'s dtype; empty sums are 0.

    Raises:
        ShapeMismatchError: the target's rank is above the gradient's, or one of
            its extents is neither the gradient's nor 1.

    Example:
        >>> reduce_grad_to_shape(jnp.array([[1, 2, 3], [4, 5, 6]]), (3,)).tolist()
        [5, 7, 9]
    """
    target, got = tuple(shape), tuple(grad.shape)
    if got == target:
        return grad
    lead = len(got) - len(target)
    if lead < 0 or any(want not in (have, 1) for want, have in zip(target, got[lead:], strict=True)):
        raise ShapeMismatchError(
            "[reduce_grad_to_shape] the gradient cannot be folded to the target", expected=target, got=got
        )
    axes = tuple(range(lead)) + tuple(
        lead + axis for axis, want in enumerate(target) if want == 1 and got[lead + axis] != 1
    )
    return jnp.sum(grad, axis=axes, dtype=grad.dtype).reshape(target)


@under_x64
def expand_grad_to_shape(grad: jax.Array, shape: Sequence[int]) -> jax.Array:
    """Replicate ``grad`` up to ``shape``, right-aligned, the transpose of a sum.

    Args:
        grad: array whose extents are 1 or the target's.
        shape: the target.

    Returns:
        An array of ``shape`` and of ``grad``'s dtype.

    Raises:
        ShapeMismatchError: the gradient's rank is above the target's, or one of
            its extents is neither the target's nor 1.

    Example:
        >>> expand_grad_to_shape(jnp.array([[1], [2]]), (2, 3)).tolist()
        [[1, 1, 1], [2, 2, 2]]
    """
    target, got = tuple(shape), tuple(grad.shape)
    if got == target:
        return grad
    lead = len(target) - len(got)
    if lead < 0 or any(have not in (want, 1) for want, have in zip(target[lead:], got, strict=True)):
        raise ShapeMismatchError(
            "[expand_grad_to_shape] the gradient cannot be replicated to the target", expected=target, got=got
        )
    return jnp.broadcast_to(grad, target)
