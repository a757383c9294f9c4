"""Inverses, determinants and linear systems."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .broadcast import Shape, broadcast_shapes, reduce_grad_to_shape
from .call import Aval
from .errors import ArgumentTypeError, ShapeMismatchError
from .kinds import general
from .op import Fails, Sample
from .samples import samples, values

Array = jax.Array
Grad = jax.Array


def regular(*batch: int, n: int = 3, seed: int = 0) -> Any:
    """Matrices far from singular."""
    return values(*batch, n, n, seed=seed, low=-1.0, high=1.0) + 2.5 * np.eye(n)


def wide(x: Array) -> Array:
    """Half types in float32: no factorisation exists for them."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def product(*factors: Array) -> Array:
    """Matrix product in full precision, whatever the device would prefer."""
    out = factors[0]
    for factor in factors[1:]:
        out = jnp.matmul(out, factor, precision="highest")
    return out


def turned(x: Array) -> Array:
    """The transposes of matrices."""
    return jnp.swapaxes(x, -1, -2)


def matrices(op: str, name: str, x: Aval, *, square: bool = False) -> None:
    """Refuse what is not a floating matrix, or not a square one."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise ArgumentTypeError(f"[{op}] {name} must be floating, got {x.dtype}; cast it first")
    want = ("...", "n", "n") if square else ("...", "m", "n")
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        kind = "square matrices" if square else "matrices"
        raise ShapeMismatchError(f"[{op}] {name} must hold {kind}", expected=want, got=x.shape)


def square_errors() -> list[Fails]:
    """What every op on square matrices refuses."""
    return [
        Fails((values(3),), {}, ShapeMismatchError, "square"),
        Fails((values(2, 3),), {}, ShapeMismatchError, "square"),
        Fails((values(2, 2).astype("int64"),), {}, ArgumentTypeError, "floating"),
    ]


_square = samples(Sample((regular(),)), Sample((regular(2, n=2, seed=1),)), Sample((np.zeros((0, 2, 2)),)))


@general(samples=_square, errors=square_errors, torch="linalg.inv")
def inv(x: Array) -> Array:
    """Inverse of square matrices.

    Args:
        x: [..., n, n], floating; half types are computed in float32.

    Returns:
        x's shape and dtype; of a singular matrix inf or NaN.

    Raises:
        ShapeMismatchError: x does not hold square matrices.
        ArgumentTypeError: x is not floating.

    Gradient: −outᵀ·g·outᵀ.
    Source: Giles, Collected matrix derivative results, 2008.
    Example:
        >>> inv(jnp.array([[2.0, 0.0], [0.0, 4.0]], jnp.float32)).tolist()
        [[0.5, 0.0], [0.0, 0.25]]
    """
    out: Array = jnp.linalg.inv(wide(x))
    return out.astype(x.dtype)


@inv.check
def _(x: Aval) -> tuple[Shape, Any]:
    matrices("inv", "x", x, square=True)
    return x.shape, x.dtype


@inv.vjp("x")
def _(g: Grad, out: Array) -> Array:
    back = turned(wide(out))
    return -product(back, wide(g), back)


@inv.jvp
def _(tangents: Any, out: Array) -> Array:
    return -product(wide(out), wide(tangents[0]), wide(out)).astype(out.dtype)


def _cofactors(x: Array, det: Array) -> Array:
    """∂det/∂x: det·x⁻ᵀ, and for singular x the products of the other singular values."""
    singular = (det == 0)[..., None, None]
    eye = jnp.eye(x.shape[-1], dtype=x.dtype)
    plain = det[..., None, None] * turned(jnp.linalg.inv(jnp.where(singular, eye, x)))

    def by_values() -> Array:
        u, s, v = jnp.linalg.svd(jnp.where(singular, x, eye * jnp.arange(1, x.shape[-1] + 1, dtype=x.dtype)))
        s = s.at[..., -1].set(0)  # what is left there is rounding
        sign = jnp.linalg.det(u) * jnp.linalg.det(v)
        others = jnp.stack([jnp.prod(jnp.delete(s, k, axis=-1), axis=-1) for k in range(s.shape[-1])], axis=-1)
        found: Array = sign[..., None, None] * product(u * others[..., None, :], v)
        return found

    if x.size == 0:
        return plain
    beside = jax.lax.cond(jnp.any(singular), by_values, lambda: jnp.zeros_like(x))
    return jnp.where(singular, beside, plain)


@general(samples=_square, errors=square_errors, torch="linalg.det")
def det(x: Array) -> Array:
    """Determinant of square matrices.

    Args:
        x: [..., n, n], floating; half types are computed in float32.

    Returns:
        x's leading axes, x's dtype.

    Raises:
        ShapeMismatchError: x does not hold square matrices.
        ArgumentTypeError: x is not floating.

    Gradient: g·out·x⁻ᵀ; of a singular matrix the cofactors, from its singular
    values.
    Source: Jacobi's formula.
    Example:
        >>> det(jnp.array([[2.0, 0.0], [0.0, 4.0]], jnp.float32)).item()
        8.0
    """
    out: Array = jnp.linalg.det(wide(x))
    return out.astype(x.dtype)


@det.check
def _(x: Aval) -> tuple[Shape, Any]:
    matrices("det", "x", x, square=True)
    return x.shape[:-2], x.dtype


@det.vjp("x")
def _(g: Grad, x: Array, out: Array) -> Array:
    return wide(g)[..., None, None] * _cofactors(wide(x), wide(out))


@det.jvp
def _(tangents: Any, x: Array, out: Array) -> Array:
    slopes = _cofactors(wide(x), wide(out))
    return jnp.sum(wide(tangents[0]) * slopes, axis=(-2, -1)).astype(out.dtype)


@general(samples=_square, errors=square_errors)
def slogdet(x: Array) -> Array:
    """Sign and logarithm of the absolute determinant, side by side along a new last axis.

    Args:
        x: [..., n, n], floating; half types are computed in float32.

    Returns:
        x's leading axes and 2, x's dtype; of a singular matrix (0, −inf).

    Raises:
        ShapeMismatchError: x does not hold square matrices.
        ArgumentTypeError: x is not floating.

    Gradient: g of the logarithm times x⁻ᵀ; the sign has none.
    Source: Jacobi's formula.
    Example:
        >>> slogdet(jnp.array([[-1.0]], jnp.float32)).tolist()
        [-1.0, 0.0]
    """
    return jnp.stack(jnp.linalg.slogdet(wide(x)), axis=-1).astype(x.dtype)


@slogdet.check
def _(x: Aval) -> tuple[Shape, Any]:
    matrices("slogdet", "x", x, square=True)
    return (*x.shape[:-2], 2), x.dtype


@slogdet.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return wide(g)[..., 1, None, None] * turned(jnp.linalg.inv(wide(x)))


@slogdet.jvp
def _(tangents: Any, x: Array) -> Array:
    slope = jnp.sum(wide(tangents[0]) * turned(jnp.linalg.inv(wide(x))), axis=(-2, -1))
    return jnp.stack([jnp.zeros_like(slope), slope], axis=-1).astype(x.dtype)


# Linear systems


def _system_errors(params: dict[str, Any]) -> Callable[[], list[Fails]]:
    return lambda: [
        Fails((values(2, 3), values(2, 1)), params, ShapeMismatchError, "square"),
        Fails((regular(), values(2, 1)), params, ShapeMismatchError, "rows"),
        Fails((regular(2), values(3, 3, 1)), params, ShapeMismatchError, "broadcast"),
        Fails((regular(), values(3)), params, ShapeMismatchError, "matrices"),
        Fails((regular(), values(3, 1).astype("int64")), params, ArgumentTypeError, "floating"),
    ]


def _systems(params: dict[str, Any]) -> Callable[[], Iterable[Sample]]:
    return samples(
        Sample((regular(), values(3, 2, seed=1)), params),
        Sample((regular(2, n=2, seed=1), values(2, 1, seed=2)), params),
        Sample((regular(n=2, seed=1), values(2, 2, 1, seed=2)), params),
    )


def _system(op: str, a: Aval, b: Aval) -> tuple[Shape, Any]:
    matrices(op, "a", a, square=True)
    matrices(op, "b", b)
    if a.dtype != b.dtype:
        raise ArgumentTypeError(f"[{op}] a and b must have one dtype, got {a.dtype} and {b.dtype}; cast one")
    if a.shape[-1] != b.shape[-2]:
        raise ShapeMismatchError(f"[{op}] b must have as many rows as a", expected=a.shape, got=b.shape)
    return (*broadcast_shapes(op, a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype


def _spread(a: Array, b: Array) -> tuple[Array, Array]:
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return jnp.broadcast_to(wide(a), (*batch, *a.shape[-2:])), jnp.broadcast_to(wide(b), (*batch, *b.shape[-2:]))


def _solved(a: Array, b: Array) -> Array:
    out: Array = jnp.linalg.solve(*_spread(a, b))
    return out


@general(samples=_systems({}), errors=_system_errors({}), torch="linalg.solve")
def solve(a: Array, b: Array) -> Array:
    """The x of a·x = b.

    Args:
        a: [..., n, n], floating; half types are computed in float32.
        b: [..., n, k], a's dtype; leading axes broadcast.

    Returns:
        [..., n, k], that dtype; with a singular a, inf or NaN.

    Raises:
        ShapeMismatchError: shapes do not fit.
        ArgumentTypeError: not floating, or the dtypes differ.

    Gradient: to b s = a⁻ᵀ·g; to a −s·outᵀ; each summed over axes it was
    broadcast along.
    Source: Giles, Collected matrix derivative results, 2008.
    Example:
        >>> solve(jnp.array([[2.0]], jnp.float32), jnp.array([[6.0]], jnp.float32)).tolist()
        [[3.0]]
    """
    return _solved(a, b).astype(b.dtype)


@solve.check
def _(a: Aval, b: Aval) -> tuple[Shape, Any]:
    return _system("solve", a, b)


@solve.vjp("a")
def _(g: Grad, a: Array, out: Array) -> Array:
    return reduce_grad_to_shape(-product(_solved(turned(a), g), turned(wide(out))), a.shape)


@solve.vjp("b")
def _(g: Grad, a: Array, avals: tuple[Aval, ...]) -> Array:
    return reduce_grad_to_shape(_solved(turned(a), g), avals[1].shape)


@solve.jvp
def _(tangents: Any, a: Array, out: Array) -> Array:
    change = jnp.zeros(out.shape, wide(out).dtype)
    if tangents[1] is not None:
        change = change + wide(tangents[1])
    if tangents[0] is not None:
        change = change - product(wide(tangents[0]), wide(out))
    return _solved(a, change).astype(out.dtype)


_UPPER = {"upper": True, "unit": False}


def _half(a: Array, upper: bool, unit: bool) -> Array:
    """The triangle of a that counts."""
    return jnp.triu(a, int(unit)) if upper else jnp.tril(a, -int(unit))


def _substituted(a: Array, b: Array, upper: bool, unit: bool, transposed: bool = False) -> Array:
    left, right = _spread(a, b)
    return jax.scipy.linalg.solve_triangular(left, right, trans=int(transposed), lower=not upper, unit_diagonal=unit)


@general(
    label="solve_triangular(upper={upper}, unit={unit})",
    samples=lambda: [
        Sample(s.args, {"upper": upper, "unit": unit})
        for s, upper, unit in zip(_systems({})(), (True, False, True), (False, False, True), strict=True)
    ],
    errors=_system_errors(_UPPER),
)
def solve_triangular(a: Array, b: Array, *, upper: bool, unit: bool = False) -> Array:
    """The x of t·x = b, t being the upper or lower triangle of a.

    Args:
        a: [..., n, n], floating; half types are computed in float32.
        b: [..., n, k], a's dtype; leading axes broadcast.
        upper: which triangle; the other is not looked at.
        unit: take the diagonal to be ones.

    Returns:
        [..., n, k], that dtype.

    Raises:
        ShapeMismatchError: shapes do not fit.
        ArgumentTypeError: not floating, or the dtypes differ.

    Gradient: to b s = t⁻ᵀ·g; to a the triangle of −s·outᵀ.
    Source: Giles, Collected matrix derivative results, 2008.
    Example:
        >>> a = jnp.array([[2.0, 9.0], [0.0, 1.0]], jnp.float32)
        >>> solve_triangular(a, jnp.array([[4.0], [1.0]], jnp.float32), upper=False).tolist()
        [[2.0], [1.0]]
    """
    return _substituted(a, b, upper, unit).astype(b.dtype)


@solve_triangular.check
def _(a: Aval, b: Aval, *, upper: Any, unit: Any) -> tuple[Shape, Any, dict[str, Any]]:
    return (*_system("solve_triangular", a, b), {"upper": bool(upper), "unit": bool(unit)})


@solve_triangular.vjp("a")
def _(g: Grad, a: Array, out: Array, upper: bool, unit: bool) -> Array:
    full = -product(_substituted(a, g, upper, unit, True), turned(wide(out)))
    return reduce_grad_to_shape(_half(full, upper, unit), a.shape)


@solve_triangular.vjp("b")
def _(g: Grad, a: Array, avals: tuple[Aval, ...], upper: bool, unit: bool) -> Array:
    return reduce_grad_to_shape(_substituted(a, g, upper, unit, True), avals[1].shape)


@solve_triangular.jvp
def _(tangents: Any, a: Array, out: Array, upper: bool, unit: bool) -> Array:
    change = jnp.zeros(out.shape, wide(out).dtype)
    if tangents[1] is not None:
        change = change + wide(tangents[1])
    if tangents[0] is not None:
        change = change - product(_half(wide(tangents[0]), upper, unit), wide(out))
    return _substituted(a, change, upper, unit).astype(out.dtype)


@general(
    samples=samples(
        Sample((values(3, 2), np.asarray(1e-12))),
        Sample((values(2, 3, seed=1), np.asarray(1e-3))),
        Sample((regular(2, n=2), np.asarray([1e-9, 1e-6]))),
    ),
    errors=lambda: [
        Fails((values(3), np.asarray(0.0)), {}, ShapeMismatchError, "matrices"),
        Fails((values(2, 2).astype("int64"), np.asarray(0.0)), {}, ArgumentTypeError, "floating"),
        Fails((values(2, 2), np.asarray(1)), {}, ArgumentTypeError, "rtol"),
        Fails((values(2, 2), values(2)), {}, ShapeMismatchError, "rtol"),
    ],
)
def pinv(x: Array, rtol: Array) -> Array:
    """The Moore-Penrose pseudo-inverse.

    Args:
        x: [..., m, n], floating; half types are computed in float32.
        rtol: singular values below it, times the largest, count as 0; floating, one for all
            matrices or one each.

    Returns:
        [..., n, m], x's dtype.

    Raises:
        ShapeMismatchError: x does not hold matrices, or rtol does not fit their number.
        ArgumentTypeError: x or rtol is not floating.

    Gradient: that of Golub and Pereyra, while the rank stays what it is; rtol gets none.
    Source: Golub and Pereyra, SIAM J. Numer. Anal. 10(2), 1973, equation 4.12.
    Example:
        >>> pinv(jnp.array([[2.0], [0.0]], jnp.float32), jnp.float32(1e-6)).tolist()
        [[0.5, 0.0]]
    """
    v = wide(x)
    return jnp.linalg.pinv(v, rtol=rtol.astype(v.dtype)).astype(x.dtype)


@pinv.check
def _(x: Aval, rtol: Aval) -> tuple[Shape, Any]:
    matrices("pinv", "x", x)
    if not jnp.issubdtype(rtol.dtype, jnp.floating):
        raise ArgumentTypeError(f"[pinv] rtol must be floating, got {rtol.dtype}")
    if broadcast_shapes("pinv: rtol", rtol.shape, x.shape[:-2]) != x.shape[:-2]:
        raise ShapeMismatchError("[pinv] rtol must fit the batch of x", expected=x.shape[:-2], got=rtol.shape)
    return (*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype


pinv.constant("rtol")


def _without(projected: Array, onto: Array) -> Array:
    return projected - product(onto, projected)


def _pinv_change(t: Array, x: Array, p: Array) -> Array:
    """The change of the pseudo-inverse p of x when x changes by t."""
    beside = turned(_without(turned(t), product(p, x)))  # t·(1 − p·x)
    below = _without(t, product(x, p))  # (1 − x·p)·t
    return -product(p, t, p) + product(p, turned(p), turned(below)) + product(turned(beside), turned(p), p)


@pinv.vjp("x")
def _(g: Grad, x: Array, out: Array) -> Array:
    v, p, h = wide(x), wide(out), turned(wide(g))
    first = -turned(product(p, h, p))
    second = _without(product(h, p, turned(p)), product(v, p))
    third = turned(_without(turned(product(turned(p), p, h)), turned(product(p, v))))
    return first + second + third


@pinv.jvp
def _(tangents: Any, x: Array, out: Array) -> Array:
    return _pinv_change(wide(tangents[0]), wide(x), wide(out)).astype(out.dtype)
