"""The matrix product, and the linear map of a layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .applying import bind
from .broadcast import Shape, broadcast_shapes, reduce_grad_to_shape
from .call import Aval, Call
from .context import matmul_precision
from .errors import AutogradError, OperandError, ShapeMismatchError
from .kinds import bilinear, general, promoted
from .op import Fails, Sample
from .samples import values

Array = jax.Array
Grad = jax.Array


def _samples() -> list[Sample]:
    shapes: list[tuple[Shape, Shape]] = [
        ((2, 3), (3, 2)),
        ((3,), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((2, 2, 3), (3, 4)),
        ((2, 3), (4, 3, 2)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((2, 2, 3), (3,)),
        ((3,), (2, 3, 2)),
        ((2, 0), (0, 3)),
    ]
    return [Sample((values(*a, seed=1), values(*b, seed=2))) for a, b in shapes]


def _errors() -> list[Fails]:
    return [
        Fails((values(2, 3), values(2, 3)), {}, ShapeMismatchError, "3 and 2"),
        Fails((values(2, 2, 3), values(3, 3, 2)), {}, ShapeMismatchError, "batch"),
        Fails((values(2, 3), values()), {}, AutogradError, "rank"),
        Fails((values(3), values(2)), {}, ShapeMismatchError, "3 and 2"),
    ]


@bilinear(label="matmul", samples=_samples, errors=_errors, torch="matmul", context={"precision": matmul_precision})
def matmul(a: Array, b: Array, *, precision: str | None = None) -> Array:
    """Matrix product with PyTorch's and NumPy's rules for 1-D and batched operands.

    Args:
        a: [..., m, k], or [k], taken as [1, k].
        b: [..., k, n], or [k], taken as [k, 1]; batch axes broadcast.
        precision: as ``jax.default_matmul_precision``; ``None`` takes the
            user's setting, exact float32 if there is none.

    Returns:
        [..., m, n] with promoted axes dropped, in the promoted dtype.

    Raises:
        AutogradError: an operand of rank 0.
        ShapeMismatchError: inner extents or batch axes do not fit.

    Gradient: (g·bᵀ, aᵀ·g), summed over the batch axes an operand was broadcast
    along; where an operand has no batch axes, on flattened 2-D products, which
    XLA runs faster on CPU (``tests/benchmarks/run.py`` shows by how much).
    Source: Giles, Collected matrix derivative results, 2008.
    Example:
        >>> matmul(jnp.ones((2, 3), jnp.float32), jnp.ones(3, jnp.float32)).tolist()
        [3.0, 3.0]
    """
    return _product(a, b, precision)


def _product(a: Array, b: Array, precision: str | None) -> Array:
    if a.ndim > 2 and b.ndim == 2:  # one 2-D product instead of a batched one
        flat = jnp.matmul(a.reshape(math.prod(a.shape[:-1]), a.shape[-1]), b, precision=precision)
        return flat.reshape(*a.shape[:-1], b.shape[-1])
    return jnp.matmul(a, b, precision=precision)


@matmul.check
def _(a: Aval, b: Aval, *, precision: str | None) -> tuple[Shape, Any]:
    for name, x in (("a", a), ("b", b)):
        if x.ndim == 0:
            raise OperandError(
                f"[matmul] operand {name} has rank 0, it must have at least 1; multiply by a scalar with mul"
            )
    left, right = _promote(a.shape, b.shape)
    k, k2 = left[-1], right[-2]
    if k != k2:
        raise ShapeMismatchError(
            f"[matmul] inner extents {k} and {k2} differ for operands of shapes {list(a.shape)} and {list(b.shape)}",
            expected=a.shape,
            got=b.shape,
        )
    try:
        batch = broadcast_shapes("matmul", left[:-2], right[:-2])
    except ShapeMismatchError as error:
        raise ShapeMismatchError(
            f"[matmul] batch axes do not broadcast for operands of shapes {list(a.shape)} and {list(b.shape)}",
            expected=left[:-2],
            got=right[:-2],
        ) from error
    rows = left[-2:-1] if a.ndim > 1 else ()
    columns = right[-1:] if b.ndim > 1 else ()
    return (*batch, *rows, *columns), promoted(a.dtype, b.dtype)


def _promote(a: Shape, b: Shape) -> tuple[Shape, Shape]:
    return (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b


def _sizes(avals: Sequence[Aval]) -> tuple[Shape, Any, Any, Any]:
    left, right = _promote(avals[0].shape, avals[1].shape)
    return broadcast_shapes("matmul", left[:-2], right[:-2]), left[-2], left[-1], right[-1]


@matmul.check_cotangent
def _(shape: Shape, call: Call) -> None:
    batch, m, _, n = _sizes(call.avals)
    want = (math.prod(batch), m, n)
    if math.prod(shape) != math.prod(want):
        raise ShapeMismatchError("[matmul] the gradient has the wrong size", expected=want, got=shape)


@matmul.vjp("a")
def _left(g: Grad, b: Array, avals: tuple[Aval, ...], precision: str | None) -> Array:
    batch, m, k, n = _sizes(avals)
    g = g.reshape(*batch, m, n)
    if b.ndim <= 2:
        flat = jnp.matmul(g.reshape(math.prod(batch) * m, n), b.reshape(k, n).T, precision=precision)
        full = flat.reshape(*batch, m, k)
    else:
        full = jnp.matmul(g, jnp.swapaxes(b, -1, -2), precision=precision)
    left, _ = _promote(avals[0].shape, avals[1].shape)
    return reduce_grad_to_shape(full, left).reshape(avals[0].shape)


@matmul.vjp("b")
def _right(g: Grad, a: Array, avals: tuple[Aval, ...], precision: str | None) -> Array:
    batch, m, k, n = _sizes(avals)
    g = g.reshape(*batch, m, n)
    left, right = _promote(avals[0].shape, avals[1].shape)
    a = a.reshape(left)
    if len(right) == 2 and len(left) - 2 == len(batch) and left[:-2] == batch:
        rows = math.prod(batch) * m
        flat = jnp.matmul(a.reshape(rows, k).T, g.reshape(rows, n), precision=precision)
        return flat.reshape(avals[1].shape)
    full = jnp.matmul(jnp.swapaxes(a, -1, -2), g, precision=precision)
    return reduce_grad_to_shape(full, right).reshape(avals[1].shape)


@matmul.batch
def _(size: Any, args: Sequence[Any], dims: Sequence[Any], call: Call) -> Array | None:
    """vmap of a product is a product with one more batch axis."""
    (a, b), (da, db) = args, dims
    rank_a, rank_b = len(call.avals[0].shape), len(call.avals[1].shape)
    if rank_a < 2 or rank_b < 2:
        if rank_a == 1 and rank_b == 2 and db is None:  # rows of a matrix
            return _again(call, jnp.moveaxis(a, da, 0), b)
        if rank_a == 2 and rank_b == 1 and da is None:
            return _again(call, jnp.moveaxis(b, db, 0), a.T)
        return None
    rank = max(rank_a, rank_b)

    def lift(x: Any, d: int | None, own: int) -> Any:
        if d is None:
            return x
        x = jnp.moveaxis(x, d, 0)
        return x.reshape(x.shape[0], *(1,) * (rank - own), *x.shape[1:])

    return _again(call, lift(a, da, rank_a), lift(b, db, rank_b))


def _again(call: Call, a: Array, b: Array) -> Array:
    avals = (Aval(tuple(a.shape), call.avals[0].dtype), Aval(tuple(b.shape), call.avals[1].dtype))
    out: Array = bind(matmul.call(avals, call.kwargs, ()), a, b)
    return out


def _affine_samples() -> list[Sample]:
    shapes: list[tuple[Shape, Shape]] = [((2, 3), (4, 3)), ((3,), (2, 3)), ((2, 2, 3), (2, 3)), ((0, 3), (2, 3))]
    shapes += [((2, 0), (3, 0))]
    return [Sample((values(*x, seed=1), values(*w, seed=2), values(w[0], seed=3))) for x, w in shapes]


def _affine_errors() -> list[Fails]:
    return [
        Fails((values(2, 3), values(4, 2), values(4)), {}, ShapeMismatchError, "3 and 2"),
        Fails((values(2, 3), values(4, 3), values(3)), {}, ShapeMismatchError, "one entry per row"),
        Fails((values(2, 3), values(3), values(1)), {}, OperandError, "rank 1"),
        Fails((values(), values(4, 3), values(4)), {}, OperandError, "rank 0"),
    ]


@general(
    label="affine",
    samples=_affine_samples,
    errors=_affine_errors,
    torch="nn.functional.linear",
    context={"precision": matmul_precision},
)
def affine(x: Array, w: Array, b: Array, *, precision: str | None = None) -> Array:
    """x·wᵀ + b, PyTorch's linear: a product, a transpose and a sum in one op.

    Args:
        x: [..., k].
        w: [n, k].
        b: [n].
        precision: as for ``matmul``.

    Returns:
        [..., n] in the promoted dtype.

    Raises:
        OperandError: x has rank 0, or w another rank than 2.
        ShapeMismatchError: inner extents differ, or b does not have one entry per row of w.

    Gradient: (g·w, gᵀ·x, g), the last two summed over all other axes.
    Source: ``matmul``'s rules for its parts.
    Example:
        >>> affine(jnp.ones((1, 2)), jnp.ones((1, 2)), jnp.ones(1)).tolist()
        [[3.0]]
    """
    return _product(x, w.T, precision) + b


@affine.check
def _(x: Aval, w: Aval, b: Aval, *, precision: str | None) -> tuple[Shape, Any]:
    if x.ndim == 0 or w.ndim != 2:
        name, rank = ("x", 0) if x.ndim == 0 else ("w", w.ndim)
        raise OperandError(f"[affine] operand {name} has rank {rank}; it needs x [..., k] and w [n, k]")
    if x.shape[-1] != w.shape[1]:
        raise ShapeMismatchError(
            f"[affine] inner extents {x.shape[-1]} and {w.shape[1]} differ for operands of shapes {list(x.shape)} "
            f"and {list(w.shape)}",
            expected=x.shape,
            got=w.shape,
        )
    if b.shape != w.shape[:1]:
        raise ShapeMismatchError("[affine] b needs one entry per row of w", expected=w.shape[:1], got=b.shape)
    return (*x.shape[:-1], w.shape[0]), promoted(promoted(x.dtype, w.dtype), b.dtype)


def _of_product(avals: Sequence[Aval]) -> tuple[Aval, Aval]:
    return avals[0], Aval(avals[1].shape[::-1], avals[1].dtype)


@affine.vjp("x")
def _(g: Grad, w: Array, avals: tuple[Aval, ...], precision: str | None) -> Array:
    out: Array = _left(g, w.T, _of_product(avals), precision)
    return out


@affine.vjp("w")
def _(g: Grad, x: Array, avals: tuple[Aval, ...], precision: str | None) -> Array:
    out: Array = _right(g, x, _of_product(avals), precision)
    return out.T


@affine.vjp("b")
def _(g: Grad, avals: tuple[Aval, ...]) -> Array:
    return reduce_grad_to_shape(g, avals[2].shape)


@affine.jvp
def _(tangents: Any, x: Array, w: Array, aval: Aval, precision: str | None) -> Array:
    dx, dw, db = tangents
    parts = [] if dx is None else [_product(dx, w.T, precision)]
    parts += [] if dw is None else [_product(x, dw.T, precision)]
    parts += [] if db is None else [jnp.broadcast_to(db, aval.shape)]
    total: Array = sum(parts[1:], start=parts[0])
    return total.astype(aval.dtype)
