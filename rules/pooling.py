"""Sliding windows along one axis: their maxima, sums, contents, and the way back.

A window over two axes is one over the first after one over the second: maxima
and sums factor, and so does putting patches back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .broadcast import Shape
from .call import Aval
from .errors import ArgumentTypeError, ArgumentValueError, OutOfRangeError
from .kinds import axis_of, general, integer_of, linear
from .op import Fails, Sample
from .samples import samples, values

Array = jax.Array
Grad = jax.Array

_PLAIN = {"dim": 1, "kernel": 2, "stride": 2, "low": 0, "high": 0, "dilation": 1}
_samples = samples(
    Sample((values(2, 4),), _PLAIN),
    Sample((values(2, 5),), {**_PLAIN, "kernel": 3, "stride": 1, "low": 1, "high": 1}),
    Sample((values(5, 2),), {**_PLAIN, "dim": 0, "high": 1}),
    Sample((values(2, 7),), {**_PLAIN, "dim": -1, "stride": 3, "dilation": 2, "high": -1}),
    Sample((values(2, 3),), {**_PLAIN, "kernel": 1}),
)


def _errors() -> list[Fails]:
    x = values(2, 4)
    return [
        Fails((x,), {**_PLAIN, "dim": 2}, OutOfRangeError, "axis 2"),
        Fails((x,), {**_PLAIN, "kernel": 5}, ArgumentValueError, "window"),
        Fails((x,), {**_PLAIN, "stride": 0}, ArgumentValueError, "stride"),
        Fails((x,), {**_PLAIN, "kernel": 0}, ArgumentValueError, "kernel"),
        Fails((x,), {**_PLAIN, "dilation": "a"}, ArgumentTypeError, "integer"),
    ]


def _count(op: str, extent: Any, kernel: int, stride: int, low: int, high: int, dilation: int) -> Any:
    """How many windows fit into low + extent + high places."""
    span = dilation * (kernel - 1) + 1
    total = low + extent + high
    if total < span:
        raise ArgumentValueError(
            f"[{op}] a window over {span} places does not fit into extent {total}, padding included"
        )
    return (total - span) // stride + 1


def _normal(op: str, dim: Any, x: Aval, **given: Any) -> dict[str, int]:
    found = {name: integer_of(op, name, value) for name, value in given.items()}
    for name in ("kernel", "stride", "dilation"):
        if found.get(name, 1) < 1:
            raise ArgumentValueError(f"[{op}] {name} must be at least 1, got {found[name]}")
    if x.ndim == 0:
        raise OutOfRangeError(f"[{op}] axis {dim} is out of range: x has rank 0, shape []")
    return {**found, "dim": axis_of(op, dim, x.shape)}


def _window_check(op: str, dtype: Any = None, inside: bool = False) -> Callable[..., Any]:
    def check(x: Aval, *, dim: Any, **given: Any) -> tuple[Shape, Any, dict[str, Any]]:
        if x.dtype == bool and not inside:
            raise ArgumentTypeError(f"[{op}] is not defined on bool; cast x first")
        found = _normal(op, dim, x, **given)
        axis = found.pop("dim")
        count = _count(op, x.shape[axis], **found)
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :], *((found["kernel"],) if inside else ()))
        return shape, dtype or x.dtype, {**found, "dim": axis}

    return check


def _config(ndim: int, dim: int, low: int, high: int, interior: int = 0) -> list[tuple[int, int, int]]:
    return [(low, high, interior) if axis == dim else (0, 0, 0) for axis in range(ndim)]


def _padded(x: Array, dim: int, low: int, high: int, fill: Any = 0) -> Array:
    return jax.lax.pad(x, jnp.asarray(fill, x.dtype), _config(x.ndim, dim, low, high))


def _piece(padded: Array, dim: int, at: int, count: int, stride: int) -> Array:
    """Element ``at`` of every window."""
    return jax.lax.slice_in_dim(padded, at, at + (count - 1) * stride + 1, stride, dim)


def _spread(g: Array, dim: int, at: int, stride: int, total: int) -> Array:
    """``_piece`` transposed: g where element ``at`` of each window was read, among ``total`` places."""
    behind = total - at - ((g.shape[dim] - 1) * stride + 1)
    return jax.lax.pad(g, jnp.zeros((), g.dtype), _config(g.ndim, dim, at, behind, stride - 1))


def _lowest(dtype: Any) -> Any:
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def _chosen(x: Array, dim: int, kernel: int, stride: int, low: int, high: int, dilation: int) -> Array:
    """Which element of each window is its maximum: the first of several, the last NaN, never padding."""
    padded = _padded(x, dim, low, high, _lowest(x.dtype))
    count = (padded.shape[dim] - dilation * (kernel - 1) - 1) // stride + 1
    starts = np.arange(count) * stride - low
    real = [(starts + k * dilation >= 0) & (starts + k * dilation < x.shape[dim]) for k in range(kernel)]
    along = tuple(-1 if axis == dim else 1 for axis in range(x.ndim))
    chosen = jnp.asarray(np.argmax(real, axis=0).astype(np.int32).reshape(along))
    best = jnp.asarray(_lowest(x.dtype), x.dtype)
    for k in range(kernel):
        piece = _piece(padded, dim, k * dilation, count, stride)
        better = ((piece > best) | (piece != piece)) & real[k].reshape(along)
        best, chosen = jnp.where(better, piece, best), jnp.where(better, k, chosen)
    return chosen


@general(samples=_samples, errors=_errors, label="max_pool(dim={dim}, kernel={kernel}, stride={stride})")
def max_pool(x: Array, *, dim: int, kernel: int, stride: int, low: int = 0, high: int = 0, dilation: int = 1) -> Array:
    """The largest element of each window along ``dim``; NaN wins.

    Args:
        x: any shape of rank 1 or more, not bool.
        dim: the axis.
        kernel: elements of a window.
        stride: places from one window to the next.
        low, high: places before and behind that never win; negative ones crop.
        dilation: places from one element of a window to the next.

    Returns:
        x's shape with the number of windows along ``dim``, x's dtype.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentValueError: no window fits, or a parameter is out of range.
        ArgumentTypeError: a parameter is no integer, or x is bool.

    Gradient: g to the first element of each window that is its maximum.
    Source: PyTorch's max_pool1d.
    Example:
        >>> max_pool(jnp.array([1, 3, 2, 4]), dim=0, kernel=2, stride=2).tolist()
        [3, 4]
    """
    padded = _padded(x, dim, low, high, _lowest(x.dtype))
    count = (padded.shape[dim] - dilation * (kernel - 1) - 1) // stride + 1
    best = _piece(padded, dim, 0, count, stride)
    for k in range(1, kernel):
        best = jnp.maximum(best, _piece(padded, dim, k * dilation, count, stride))
    return best


@max_pool.vjp("x")
def _(g: Grad, x: Array, dim: int, kernel: int, stride: int, low: int, high: int, dilation: int) -> Array:
    chosen = _chosen(x, dim, kernel, stride, low, high, dilation)
    total = low + x.shape[dim] + high
    back = jnp.zeros((), g.dtype)
    for k in range(kernel):
        back = back + _spread(jnp.where(chosen == k, g, 0), dim, k * dilation, stride, total)
    return _padded(back, dim, -low, -high)


@max_pool.jvp
def _(tangents: Any, x: Array, dim: int, kernel: int, stride: int, low: int, high: int, dilation: int) -> Array:
    chosen = _chosen(x, dim, kernel, stride, low, high, dilation)
    padded = _padded(tangents[0], dim, low, high)
    out = jnp.zeros((), padded.dtype)
    for k in range(kernel):
        out = out + jnp.where(chosen == k, _piece(padded, dim, k * dilation, chosen.shape[dim], stride), 0)
    return out


@general(samples=_samples, errors=_errors, label="max_pool_indices(dim={dim}, kernel={kernel})", differentiable=False)
def max_pool_indices(
    x: Array, *, dim: int, kernel: int, stride: int, low: int = 0, high: int = 0, dilation: int = 1
) -> Array:
    """Where along ``dim`` the largest element of each window is: the first of several, the last NaN.

    Args:
        x: any shape of rank 1 or more, not bool.
        dim: the axis.
        kernel, stride, low, high, dilation: the windows, as of ``max_pool``.

    Returns:
        int64 places along ``dim``, without padding, of ``max_pool``'s shape.

    Raises:
        OutOfRangeError, ArgumentValueError, ArgumentTypeError: as ``max_pool``.

    Gradient: none, the result is an integer.
    Source: PyTorch's max_pool1d with ``return_indices``.
    Example:
        >>> max_pool_indices(jnp.array([1, 3, 2, 4]), dim=0, kernel=2, stride=2).tolist()
        [1, 3]
    """
    chosen = _chosen(x, dim, kernel, stride, low, high, dilation).astype(jnp.int64)
    start = jax.lax.broadcasted_iota(jnp.int64, chosen.shape, dim) * stride - low
    return start + chosen * dilation


@linear(samples=_samples, errors=_errors, label="sum_pool(dim={dim}, kernel={kernel}, stride={stride})")
def sum_pool(x: Array, *, dim: int, kernel: int, stride: int, low: int = 0, high: int = 0, dilation: int = 1) -> Array:
    """The sum of each window along ``dim``; padding counts 0.

    Args:
        x: any shape of rank 1 or more, not bool.
        dim: the axis.
        kernel, stride, low, high, dilation: the windows, as of ``max_pool``.

    Returns:
        x's shape with the number of windows along ``dim``, x's dtype.

    Raises:
        OutOfRangeError, ArgumentValueError, ArgumentTypeError: as ``max_pool``.

    Gradient: g added to every element of its window.
    Source: linearity.
    Example:
        >>> sum_pool(jnp.array([1, 3, 2, 4]), dim=0, kernel=2, stride=2).tolist()
        [4, 6]
    """
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32)) if jnp.issubdtype(x.dtype, jnp.floating) else x
    padded = _padded(wide, dim, low, high)
    count = (padded.shape[dim] - dilation * (kernel - 1) - 1) // stride + 1
    out = _piece(padded, dim, 0, count, stride)
    for k in range(1, kernel):
        out = out + _piece(padded, dim, k * dilation, count, stride)
    return out.astype(x.dtype)


@sum_pool.vjp("x")
def _(
    g: Grad, avals: tuple[Aval, ...], dim: int, kernel: int, stride: int, low: int, high: int, dilation: int
) -> Array:
    total = low + avals[0].shape[dim] + high
    back = _spread(g, dim, 0, stride, total)
    for k in range(1, kernel):
        back = back + _spread(g, dim, k * dilation, stride, total)
    return _padded(back, dim, -low, -high)


@linear(samples=_samples, errors=_errors, label="windows(dim={dim}, kernel={kernel}, stride={stride})")
def windows(x: Array, *, dim: int, kernel: int, stride: int, low: int = 0, high: int = 0, dilation: int = 1) -> Array:
    """The windows along ``dim`` themselves, their elements along a new last axis.

    Args:
        x: any shape of rank 1 or more.
        dim: the axis.
        kernel, stride, low, high, dilation: the windows, as of ``max_pool``.

    Returns:
        x's shape with the number of windows along ``dim``, then ``kernel``; x's dtype.

    Raises:
        OutOfRangeError, ArgumentValueError, ArgumentTypeError: as ``max_pool``.

    Gradient: g added where it was read.
    Source: a selection's transpose is insertion.
    Example:
        >>> windows(jnp.arange(4), dim=0, kernel=2, stride=1).tolist()
        [[0, 1], [1, 2], [2, 3]]
    """
    padded = _padded(x, dim, low, high)
    count = (padded.shape[dim] - dilation * (kernel - 1) - 1) // stride + 1
    return jnp.stack([_piece(padded, dim, k * dilation, count, stride) for k in range(kernel)], axis=-1)


def _put_back(x: Array, dim: int, extent: int, stride: int, low: int, high: int, dilation: int) -> Array:
    total = low + extent + high
    out = _spread(x[..., 0], dim, 0, stride, total)
    for k in range(1, x.shape[-1]):
        out = out + _spread(x[..., k], dim, k * dilation, stride, total)
    return _padded(out, dim, -low, -high)


@windows.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...], dim: int, stride: int, low: int, high: int, dilation: int) -> Array:
    return _put_back(g, dim, avals[0].shape[dim], stride, low, high, dilation)


for _row, _dtype in ((max_pool, None), (max_pool_indices, jnp.int64), (sum_pool, None), (windows, None)):
    _row.check(_window_check(_row.name, _dtype, inside=_row is windows))


@linear(
    label="overlap_add(dim={dim}, extent={extent}, stride={stride})",
    samples=samples(
        Sample((values(2, 3, 2),), {"dim": 1, "extent": 4, "stride": 1, "low": 0, "high": 0, "dilation": 1}),
        Sample((values(3, 2, 2),), {"dim": 0, "extent": 4, "stride": 2, "low": 1, "high": 1, "dilation": 1}),
        Sample((values(2, 3),), {"dim": 0, "extent": 6, "stride": 1, "low": 0, "high": 0, "dilation": 2}),
    ),
    errors=lambda: [
        Fails((values(2, 3, 2),), {"dim": 1, "extent": 9, "stride": 1}, ArgumentValueError, "8 windows"),
        Fails((values(2, 3, 2),), {"dim": 2, "extent": 4, "stride": 1}, OutOfRangeError, "axis 2"),
        Fails((values(2, 3, 2),), {"dim": 1, "extent": "a", "stride": 1}, ArgumentTypeError, "integer"),
    ],
)
def overlap_add(
    x: Array, *, dim: int, extent: int, stride: int, low: int = 0, high: int = 0, dilation: int = 1
) -> Array:
    """Windows added up where they lay: the transpose of ``windows``.

    Args:
        x: windows along ``dim``, their elements along the last axis, not bool.
        dim: the axis.
        extent: of the result along ``dim``.
        stride, low, high, dilation: the windows, as of ``max_pool``.

    Returns:
        x's shape without the last axis and with ``extent`` along ``dim``; x's dtype.

    Raises:
        OutOfRangeError: the axis is out of range, or the last.
        ArgumentValueError: another number of windows fits into the extent.
        ArgumentTypeError: a parameter is no integer, or x is bool.

    Gradient: the windows of g.
    Source: an insertion's transpose is selection.
    Example:
        >>> overlap_add(jnp.array([[1, 2], [3, 4]]), dim=0, extent=3, stride=1).tolist()
        [1, 5, 4]
    """
    return _put_back(x, dim, extent, stride, low, high, dilation)


@overlap_add.check
def _(x: Aval, *, dim: Any, **given: Any) -> tuple[Shape, Any, dict[str, Any]]:
    if x.dtype == bool:
        raise ArgumentTypeError("[overlap_add] is not defined on bool; cast x first")
    found = _normal("overlap_add", dim, Aval(x.shape[:-1], x.dtype), **given)
    axis, extent = found.pop("dim"), found.pop("extent")
    count = _count("overlap_add", extent, kernel=x.shape[-1], **found)
    if count != x.shape[axis]:
        raise ArgumentValueError(f"[overlap_add] {count} windows fit into extent {extent}, got {x.shape[axis]}")
    shape = (*x.shape[:axis], extent, *x.shape[axis + 1 : -1])
    return shape, x.dtype, {**found, "dim": axis, "extent": extent}


@overlap_add.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...], dim: int, stride: int, low: int, high: int, dilation: int) -> Array:
    padded = _padded(g, dim, low, high)
    x = avals[0]
    return jnp.stack([_piece(padded, dim, k * dilation, x.shape[dim], stride) for k in range(x.shape[-1])], axis=-1)
