"""Writing by integer arrays: into a copy, adding to it, multiplying it, keeping extrema.

Indices are checked like those of ``indexing``: at the call where they are known,
by the program that uses them elsewhere; never clamped, wrapped or dropped in
silence.  Of several writes to one place an unspecified one stays, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .broadcast import Shape
from .call import Aval
from .errors import ArgumentTypeError, ArgumentValueError, OutOfRangeError, ShapeMismatchError
from .indexing import _along, _grid, _integers
from .kinds import axis_of, general, linear
from .op import Fails, Sample
from .samples import samples, values

Array = jax.Array
Grad = jax.Array


def _places(x: Array, index: Array, dim: int) -> Any:
    return index if x.ndim == 0 else _grid(index, dim)


def _read(x: Array, index: Array, dim: int) -> Array:
    v = x.reshape(1) if x.ndim == 0 else x
    return v.at[_places(x, index, dim)].get(mode="fill", wrap_negative_indices=False)


def _write(x: Array, index: Array, src: Array, dim: int, how: str) -> Array:
    v = x.reshape(1) if x.ndim == 0 else x
    write = getattr(v.at[_places(x, index, dim)], how)
    out: Array = write(src, mode="drop", wrap_negative_indices=False)
    return out.reshape(x.shape)


_distinct = samples(
    Sample((values(3, 2), np.array([[2, 0], [1, 1]]), values(2, 2, seed=1)), {"dim": 0}),
    Sample((values(2, 4), np.array([[0, 3, 2], [1, 0, 2]]), values(2, 3, seed=1)), {"dim": -1}),
    Sample((values(3), np.array([1]), values(1, seed=2)), {"dim": 0}),
)
_repeated = samples(
    Sample((values(3, 2), np.array([[2, 0], [1, 0], [1, 0]]), values(3, 2, seed=1)), {"dim": 0}),
    Sample((values(2, 4), np.array([[0, 3, 0], [1, 1, 1]]), values(2, 3, seed=1)), {"dim": -1}),
    Sample((values(3), np.array([1, 1]), values(2, seed=2)), {"dim": 0}),
)


def _errors(params: dict[str, Any]) -> Callable[[], list[Fails]]:
    one = np.array([[0]])
    return lambda: [
        Fails((values(2, 2), np.array([[2]]), values(1, 1)), {"dim": 0, **params}, OutOfRangeError, "index 2"),
        Fails((values(2, 2), np.array([[-1]]), values(1, 1)), {"dim": 0, **params}, OutOfRangeError, "index -1"),
        Fails((values(2, 2), one, values(1, 1)), {"dim": 2, **params}, OutOfRangeError, "axis 2"),
        Fails((values(2, 2), np.array([0]), values(1)), {"dim": 0, **params}, ShapeMismatchError, "rank"),
        Fails((values(2, 2), one, values(2, 1)), {"dim": 0, **params}, ShapeMismatchError, "src"),
        Fails((values(2, 2), np.array([[0, 0, 0]]), values(1, 3)), {"dim": 0, **params}, ShapeMismatchError, "extent"),
        Fails((values(2, 2), np.array([[0.0]]), values(1, 1)), {"dim": 0, **params}, ArgumentTypeError, "integers"),
        Fails((values(2, 2), one, np.array([[1]])), {"dim": 0, **params}, ArgumentTypeError, "one dtype"),
    ]


def _one_dtype(op: str, x: Aval, name: str, src: Aval) -> None:
    if x.dtype == bool and op.endswith("add"):
        raise ArgumentTypeError(f"[{op}] booleans cannot be added; cast x and {name} first")
    if x.dtype != src.dtype:
        raise ArgumentTypeError(f"[{op}] x and {name} must have one dtype, got {x.dtype} and {src.dtype}; cast one")


def _scatter_check(op: str) -> Callable[..., Any]:
    def check(x: Aval, index: Aval, src: Aval, *, dim: Any, **rest: Any) -> tuple[Shape, Any, dict[str, Any]]:
        axis = axis_of(op, dim, x.shape)
        _integers(op, index)
        _one_dtype(op, x, "src", src)
        if max(index.ndim, 1) != max(x.ndim, 1):
            raise ShapeMismatchError(f"[{op}] the index must have x's rank", expected=x.shape, got=index.shape)
        if index.shape != src.shape:
            raise ShapeMismatchError(f"[{op}] src must have the index's shape", expected=index.shape, got=src.shape)
        for i, (have, limit) in enumerate(zip(index.shape, x.shape, strict=False)):
            if i != axis and have > limit:
                raise ShapeMismatchError(
                    f"[{op}] the index's extent {have} exceeds x's {limit} along axis {i}",
                    expected=x.shape,
                    got=index.shape,
                )
        return x.shape, x.dtype, {"dim": axis}

    return check


@linear(samples=_distinct, errors=_errors({}), label="scatter(dim={dim})", torch="scatter")
def scatter(x: Array, index: Array, src: Array, *, dim: int) -> Array:
    """x with src written along ``dim``: out[index[i][j]][j] = src[i][j] for dim 0.

    Args:
        x: any shape.
        index: integers in [0, extent of dim), of x's rank and no larger than x
            except along ``dim``.
        src: index's shape, x's dtype.
        dim: the axis.

    Returns:
        x's shape and dtype; of several writes to one place, any.

    Raises:
        ShapeMismatchError: shapes do not fit.
        OutOfRangeError: the axis or an index known at the call is out of range.
        ArgumentTypeError: the indices are not integers, or the dtypes differ.

    Gradient: to x g with zeros where something was written; to src g from there.
    Source: an insertion's transpose is selection.
    Example:
        >>> scatter(jnp.zeros(3), jnp.array([2]), jnp.ones(1), dim=0).tolist()
        [0.0, 0.0, 1.0]
    """
    return _write(x, index, src, dim, "set")


@scatter.vjp("x")
def _(g: Grad, index: Array, dim: int) -> Array:
    return _write(g, index, jnp.zeros(index.shape, g.dtype), dim, "set")


@linear(samples=_repeated, errors=_errors({}), label="scatter_add(dim={dim})", torch="scatter_add")
def scatter_add(x: Array, index: Array, src: Array, *, dim: int) -> Array:
    """x with src added along ``dim``, duplicates accumulate: out[index[i][j]][j] += src[i][j] for dim 0.

    Args:
        x: any shape.
        index: integers in [0, extent of dim), of x's rank and no larger than x
            except along ``dim``.
        src: index's shape, x's dtype.
        dim: the axis.

    Returns:
        x's shape and dtype.

    Raises:
        ShapeMismatchError: shapes do not fit.
        OutOfRangeError: the axis or an index known at the call is out of range.
        ArgumentTypeError: the indices are not integers, or the dtypes differ.

    Gradient: to x g; to src g at its places.
    Source: an insertion's transpose is selection.
    Example:
        >>> scatter_add(jnp.zeros(2), jnp.array([1, 1]), jnp.ones(2), dim=0).tolist()
        [0.0, 2.0]
    """
    return _write(x, index, src, dim, "add")


@scatter_add.vjp("x")
def _(g: Grad) -> Array:
    return g


_HOW = {"prod": "multiply", "amax": "max", "amin": "min"}


@general(
    label="scatter_reduce(dim={dim}, reduce={reduce})",
    samples=lambda: [
        *[Sample(s.args, {**s.params, "reduce": r}) for s in _repeated() for r in _HOW],
        Sample(  # one zero among the factors of a place, two, three
            (
                np.array([0.0, 1.5, 0.0]),
                np.array([0, 1, 1, 2, 0, 2, 2]),
                np.array([3.0, 0.0, 2.0, 0.0, -0.5, 0.0, 1.2]),
            ),
            {"dim": 0, "reduce": "prod"},
        ),
    ],
    errors=lambda: [
        *_errors({"reduce": "amax"})(),
        Fails((values(2), np.array([0]), values(1)), {"dim": 0, "reduce": "most"}, ArgumentValueError, "reduce"),
    ],
    plain=False,
    torch="scatter_reduce",
)
def scatter_reduce(x: Array, index: Array, src: Array, *, dim: int, reduce: str) -> Array:
    """x combined with src along ``dim`` by product, maximum or minimum.

    Args:
        x: any shape.
        index: integers in [0, extent of dim), of x's rank and no larger than x
            except along ``dim``.
        src: index's shape, x's dtype.
        dim: the axis.
        reduce: "prod", "amax" or "amin".

    Returns:
        x's shape and dtype.

    Raises:
        ShapeMismatchError: shapes do not fit.
        OutOfRangeError: the axis or an index known at the call is out of range.
        ArgumentTypeError: the indices are not integers, or the dtypes differ.
        ArgumentValueError: an unknown ``reduce``.

    Gradient: of a product g times the other factors; of an extremum g in equal
    parts to all that reach it, x's own included.
    Source: PyTorch's scatter_reduce.
    Example:
        >>> x = jnp.array([1.0, 5.0], jnp.float32)
        >>> scatter_reduce(x, jnp.array([0, 0]), x, dim=0, reduce="amax").tolist()
        [5.0, 5.0]
    """
    return _write(x, index, src, dim, _HOW[reduce])


_base_check = _scatter_check("scatter_reduce")


@scatter_reduce.check
def _(x: Aval, index: Aval, src: Aval, *, dim: Any, reduce: Any) -> tuple[Shape, Any, dict[str, Any]]:
    if reduce not in _HOW:
        raise ArgumentValueError(f"[scatter_reduce] reduce must be one of {sorted(_HOW)}, got {reduce!r}")
    if x.dtype == bool:
        raise ArgumentTypeError("[scatter_reduce] is not defined on bool; cast x and src first")
    return _base_check(x, index, src, dim=dim)  # type: ignore[no-any-return]


def _slopes(x: Array, index: Array, src: Array, out: Array, dim: int, reduce: str) -> tuple[Array, Array]:
    """∂out/∂x at x's places, and ∂out/∂src at src's."""
    there = _read(out, index, dim)
    if reduce != "prod":
        kept, chosen = x == out, src == there
        count = _write(kept.astype(x.dtype), index, chosen.astype(x.dtype), dim, "add")
        share = 1 / jnp.where(count == 0, 1, count)
        return jnp.where(kept, share, 0), jnp.where(chosen, _read(share, index, dim), 0)
    return _other_factors(x, index, src, dim)


def _other_factors(x: Array, index: Array, src: Array, dim: int) -> tuple[Array, Array]:
    """For each factor of a place the product of that place's others: beside zeros too, in every order.

    The factors are sorted by place; running products from both ends start anew at each place.
    """
    if x.size == 0:
        return x, src
    place = jnp.arange(x.size).reshape(x.shape)
    places = jnp.concatenate([place.reshape(-1), _read(place, index, dim).reshape(-1)])
    order = jnp.argsort(places, stable=True)
    ranked = places[order]
    factors = jnp.concatenate([x.reshape(-1), src.reshape(-1)])[order]
    new = jnp.concatenate([jnp.ones(1, bool), ranked[1:] != ranked[:-1]])

    def join(first: tuple[Array, Array], then: tuple[Array, Array]) -> tuple[Array, Array]:
        # The 1 is chosen before it is multiplied: what another place holds, an inf, stays out of derivatives.
        return first[0] | then[0], jnp.where(then[0], 1, first[1]) * then[1]

    def before(new: Array, factors: Array) -> Array:
        ones = jnp.where(new, 1, jnp.roll(factors, 1))
        out: Array = jax.lax.associative_scan(join, (new, ones))[1]
        return out

    after = before(jnp.roll(new, -1)[::-1], factors[::-1])[::-1]
    others = jnp.zeros_like(factors).at[order].set(before(new, factors) * after)
    return others[: x.size].reshape(x.shape), others[x.size :].reshape(src.shape)


@scatter_reduce.vjp("x")
def _(g: Grad, x: Array, index: Array, src: Array, out: Array, dim: int, reduce: str) -> Array:
    return g * _slopes(x, index, src, out, dim, reduce)[0]


@scatter_reduce.vjp("src")
def _(g: Grad, x: Array, index: Array, src: Array, out: Array, dim: int, reduce: str) -> Array:
    return _read(g, index, dim) * _slopes(x, index, src, out, dim, reduce)[1]


@scatter_reduce.jvp
def _(tangents: Any, x: Array, index: Array, src: Array, out: Array, dim: int, reduce: str) -> Array:
    of_x, of_src = _slopes(x, index, src, out, dim, reduce)
    total = jnp.zeros_like(x) if tangents[0] is None else tangents[0] * of_x
    return total if tangents[2] is None else _write(total, index, tangents[2] * of_src, dim, "add")


for _row in (scatter, scatter_add, scatter_reduce):
    if _row.check_fn is None:
        _row.check(_scatter_check(_row.name))
    _row.bounds(_along(_row.name))
    _row.constant("index")
    if _row is not scatter_reduce:

        @_row.vjp("src")
        def _(g: Grad, index: Array, dim: int) -> Array:
            return _read(g, index, dim)


# Whole slices, by a 1-D index


_slices = samples(
    Sample((values(3, 2), np.array([2, 0]), values(2, 2, seed=1)), {"dim": 0}),
    Sample((values(2, 4, 2), np.array([3, 1, 0]), values(2, 3, 2, seed=1)), {"dim": 1}),
    Sample((values(3), np.array([1]), values(1, seed=2)), {"dim": -1}),
)
_more_slices = samples(
    Sample((values(3, 2), np.array([2, 0, 2]), values(3, 2, seed=1)), {"dim": 0}),
    Sample((values(2, 4, 2), np.array([3, 1, 1]), values(2, 3, 2, seed=1)), {"dim": 1}),
    Sample((values(3), np.array([1, 1]), values(2, seed=2)), {"dim": -1}),
)


def _slice_errors() -> list[Fails]:
    zero = np.array([0])
    return [
        Fails((values(2, 2), np.array([2]), values(1, 2)), {"dim": 0}, OutOfRangeError, "index 2"),
        Fails((values(2, 2), zero, values(1, 2)), {"dim": 2}, OutOfRangeError, "axis 2"),
        Fails((values(2, 2), zero, values(2, 2)), {"dim": 0}, ShapeMismatchError, "source"),
        Fails((values(2, 2), np.array([[0]]), values(1, 2)), {"dim": 0}, ShapeMismatchError, "1 axis"),
        Fails((values(2, 2), np.array([0.0]), values(1, 2)), {"dim": 0}, ArgumentTypeError, "integers"),
        Fails((values(2, 2), zero, np.array([[1, 1]])), {"dim": 0}, ArgumentTypeError, "one dtype"),
    ]


def _slice_check(op: str) -> Callable[..., Any]:
    def check(x: Aval, index: Aval, source: Aval, *, dim: Any) -> tuple[Shape, Any, dict[str, Any]]:
        if x.ndim == 0:
            raise OutOfRangeError(f"[{op}] axis {dim} is out of range: x has rank 0, shape []")
        axis = axis_of(op, dim, x.shape)
        _integers(op, index)
        _one_dtype(op, x, "source", source)
        if index.ndim != 1:
            raise ShapeMismatchError(f"[{op}] the index must have 1 axis", expected=("k",), got=index.shape)
        want = (*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :])
        if source.shape != want:
            raise ShapeMismatchError(
                f"[{op}] source needs x's shape with one slice per index", expected=want, got=source.shape
            )
        return x.shape, x.dtype, {"dim": axis}

    return check


@linear(samples=_slices, errors=_slice_errors, label="index_copy(dim={dim})", torch="index_copy")
def index_copy(x: Array, index: Array, source: Array, *, dim: int) -> Array:
    """x with slices along ``dim`` written: out[index[i]] = source[i] for dim 0.

    Args:
        x: any shape of rank 1 or more.
        index: integers in [0, extent of dim), [k].
        source: x's shape with extent k along ``dim``, x's dtype.
        dim: the axis.

    Returns:
        x's shape and dtype; of several writes to one place, any.

    Raises:
        ShapeMismatchError: shapes do not fit.
        OutOfRangeError: the axis or an index known at the call is out of range.
        ArgumentTypeError: the indices are not integers, or the dtypes differ.

    Gradient: to x g with zeros where something was written; to source g from there.
    Source: an insertion's transpose is selection.
    Example:
        >>> index_copy(jnp.zeros(3), jnp.array([2]), jnp.ones(1), dim=0).tolist()
        [0.0, 0.0, 1.0]
    """
    where = (slice(None),) * dim + (index,)
    return x.at[where].set(source, mode="drop", wrap_negative_indices=False)


@index_copy.vjp("x")
def _(g: Grad, index: Array, dim: int) -> Array:
    where = (slice(None),) * dim + (index,)
    return g.at[where].set(jnp.zeros((), g.dtype), mode="drop", wrap_negative_indices=False)


@linear(samples=_more_slices, errors=_slice_errors, label="index_add(dim={dim})", torch="index_add")
def index_add(x: Array, index: Array, source: Array, *, dim: int) -> Array:
    """x with slices along ``dim`` added, duplicates accumulate: out[index[i]] += source[i] for dim 0.

    Args:
        x: any shape of rank 1 or more.
        index: integers in [0, extent of dim), [k].
        source: x's shape with extent k along ``dim``, x's dtype.
        dim: the axis.

    Returns:
        x's shape and dtype.

    Raises:
        ShapeMismatchError: shapes do not fit.
        OutOfRangeError: the axis or an index known at the call is out of range.
        ArgumentTypeError: the indices are not integers, or the dtypes differ.

    Gradient: to x g; to source the slices of g.
    Source: an insertion's transpose is selection.
    Example:
        >>> index_add(jnp.zeros(2), jnp.array([1, 1]), jnp.ones(2), dim=0).tolist()
        [0.0, 2.0]
    """
    where = (slice(None),) * dim + (index,)
    return x.at[where].add(source, mode="drop", wrap_negative_indices=False)


@index_add.vjp("x")
def _(g: Grad) -> Array:
    return g


for _row in (index_copy, index_add):
    _row.check(_slice_check(_row.name))
    _row.bounds(_along(_row.name))
    _row.constant("index")

    @_row.vjp("source")
    def _(g: Grad, index: Array, dim: int) -> Array:
        return g.at[(slice(None),) * dim + (index,)].get(mode="fill", wrap_negative_indices=False)
