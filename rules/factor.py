"""Factorisations: Cholesky, QR, eigenvectors, singular vectors.

A row has one output.  What has several parts is packed into one array, so that
it is computed once and its cotangents meet in one rule; ``torsh_fx.linalg``
takes the parts apart again.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .broadcast import Shape
from .call import Aval
from .errors import ArgumentTypeError, ShapeMismatchError
from .inverse import matrices, product, square_errors, turned, wide
from .kinds import general
from .op import Fails, Sample
from .samples import samples, values

Array = jax.Array
Grad = jax.Array


def _definite(*batch: int, n: int = 3, seed: int = 0) -> Any:
    half = values(*batch, n, n, seed=seed, low=-1.0, high=1.0)
    return half @ np.swapaxes(half, -1, -2) + np.diag(np.arange(1.0, n + 1))


def _flat_errors() -> list[Fails]:
    return [
        Fails((values(3),), {}, ShapeMismatchError, "matrices"),
        Fails((values(2, 2).astype("int64"),), {}, ArgumentTypeError, "floating"),
    ]


_symmetric = samples(Sample((_definite(),)), Sample((_definite(2, n=2, seed=1),)))
_tall = (Sample((values(3, 2),)), Sample((values(2, 2, 2, seed=1),)))
_any = samples(*_tall, Sample((values(2, 3, seed=1),)))


def _pair(x: Array, i: int, j: int) -> Array:
    """Across a matrix of the last axis: [..., j] − [..., i]."""
    return jnp.expand_dims(x, j) - jnp.expand_dims(x, i)


def _over(a: Array, b: Array) -> Array:
    """a/b, and 0 where both are 0: directions that nothing looks at have no say."""
    none = (a == 0) & (b == 0)
    return jnp.where(none, 0, a / jnp.where(none, 1, b))


def _lower_half(x: Array) -> Array:
    """The lower triangle, its diagonal halved."""
    n = x.shape[-1]
    return jnp.tril(x) - jnp.eye(n, dtype=x.dtype) * x / 2


def _under(factor: Array, x: Array, transposed: bool = False) -> Array:
    """Solve with a lower triangular factor."""
    return jax.scipy.linalg.solve_triangular(factor, x, lower=True, trans=int(transposed))


@general(samples=_symmetric, errors=square_errors, torch="linalg.cholesky")
def cholesky(x: Array) -> Array:
    """The lower triangular L with positive diagonal and L·Lᵀ = x.

    Args:
        x: [..., n, n], symmetric and positive definite (its symmetric part is
            used), floating; half types are computed in float32.

    Returns:
        x's shape and dtype; NaN where x is not positive definite.

    Raises:
        ShapeMismatchError: x does not hold square matrices.
        ArgumentTypeError: x is not floating.

    Gradient: the symmetric part of L⁻ᵀ·Φ(Lᵀ·g)·L⁻¹, Φ being the lower triangle
    with half its diagonal.
    Source: Murray, arXiv 1602.07527.
    Example:
        >>> cholesky(jnp.array([[4.0]], jnp.float32)).tolist()
        [[2.0]]
    """
    out: Array = jnp.linalg.cholesky(wide(x))
    return out.astype(x.dtype)


@cholesky.check
def _(x: Aval) -> tuple[Shape, Any]:
    matrices("cholesky", "x", x, square=True)
    return x.shape, x.dtype


@cholesky.vjp("x")
def _(g: Grad, out: Array) -> Array:
    factor = wide(out)
    inner = _lower_half(product(turned(factor), wide(g)))
    right = _under(factor, inner, True)
    full = turned(_under(factor, turned(right), True))
    return (full + turned(full)) / 2


@cholesky.jvp
def _(tangents: Any, out: Array) -> Array:
    factor, t = wide(out), wide(tangents[0])
    t = (t + turned(t)) / 2
    inner = turned(_under(factor, turned(_under(factor, t))))
    return product(factor, _lower_half(inner)).astype(out.dtype)


@general(samples=_symmetric, errors=square_errors)
def eigh(x: Array) -> Array:
    """Eigenvectors of symmetric matrices as columns, and their eigenvalues as a last column row by row.

    Args:
        x: [..., n, n], symmetric (its symmetric part is used), floating; half
            types are computed in float32.

    Returns:
        [..., n, n + 1], x's dtype: orthonormal vectors in [..., :n], ascending
        values in [..., n].

    Raises:
        ShapeMismatchError: x does not hold square matrices.
        ArgumentTypeError: x is not floating.

    Gradient: the symmetric part of V·(diag(g of values) + Vᵀ·(g of vectors)/(λ_j
    − λ_i))·Vᵀ; infinite where equal eigenvalues' vectors are looked at.
    Source: Giles, Collected matrix derivative results, 2008.
    Example:
        >>> eigh(jnp.array([[3.0]], jnp.float32))[..., -1].tolist()
        [3.0]
    """
    found, vectors = jnp.linalg.eigh(wide(x))
    return jnp.concatenate([vectors, found[..., None]], axis=-1).astype(x.dtype)


@eigh.check
def _(x: Aval) -> tuple[Shape, Any]:
    matrices("eigh", "x", x, square=True)
    return (*x.shape[:-1], x.shape[-1] + 1), x.dtype


@eigh.vjp("x")
def _(g: Grad, out: Array) -> Array:
    both, h = wide(out), wide(g)
    vectors, gaps = both[..., :-1], _pair(both[..., -1], -1, -2)
    eye = jnp.eye(gaps.shape[-1], dtype=gaps.dtype)
    turn = product(turned(vectors), h[..., :-1])
    turn = (turn - turned(turn)) / 2  # vectors only turn
    inner = _over(turn, gaps) + eye * h[..., -1][..., None, :]
    return product(vectors, inner, turned(vectors))


@eigh.jvp
def _(tangents: Any, out: Array) -> Array:
    both, t = wide(out), wide(tangents[0])
    vectors, gaps = both[..., :-1], _pair(both[..., -1], -1, -2)
    inner = product(turned(vectors), (t + turned(t)) / 2, vectors)
    eye = jnp.eye(gaps.shape[-1], dtype=gaps.dtype)
    moved = product(vectors, _over(inner * (1 - eye), gaps))
    return jnp.concatenate([moved, jnp.sum(inner * eye, axis=-1)[..., None]], axis=-1).astype(out.dtype)


# NOTE [qr]: a wide matrix is a square one and the rest.  The square one is factored,
# the rest follows as Qᵀ·rest: in the forward too, so that JAX can differentiate it.


@general(samples=_any, errors=_flat_errors)
def qr(x: Array) -> Array:
    """Orthonormal Q and upper triangular R with Q·R = x, packed as (Qᵀ, R) along the last axis.

    Args:
        x: [..., m, n], floating; half types are computed in float32.

    Returns:
        [..., k, m + n] with k = min(m, n), x's dtype.

    Raises:
        ShapeMismatchError: x does not hold matrices.
        ArgumentTypeError: x is not floating.

    Gradient: (g_Q + Q·sym(M))·R⁻ᵀ with M = R·g_Rᵀ − g_Qᵀ·Q; the columns behind
    the first k get Q·g_R.
    Source: Walter, Lehmann and Lamour, arXiv 1009.6112; PyTorch's linalg.qr.
    Example:
        >>> jnp.abs(qr(jnp.array([[2.0]], jnp.float32))).tolist()
        [[1.0, 2.0]]
    """
    v = wide(x)
    q, r = jnp.linalg.qr(v[..., : x.shape[-2]])
    rest = v[..., x.shape[-2] :]
    return jnp.concatenate([turned(q), r, product(turned(q), rest)], axis=-1).astype(x.dtype)


@qr.check
def _(x: Aval) -> tuple[Shape, Any]:
    matrices("qr", "x", x)
    m, n = x.shape[-2:]
    return (*x.shape[:-2], min(m, n), m + n), x.dtype


def _qr_parts(packed: Array, m: int) -> tuple[Array, Array, Array]:
    """Q, the square part of R, and what is behind it."""
    k = packed.shape[-2]
    return turned(packed[..., :m]), packed[..., m : m + k], packed[..., m + k :]


@qr.vjp("x")
def _(g: Grad, x: Array, out: Array) -> Array:
    m = x.shape[-2]
    q, r, _behind = _qr_parts(wide(out), m)
    h, hr, hrest = _qr_parts(wide(g), m)
    h = h + product(wide(x)[..., r.shape[-1] :], turned(hrest))  # the rest is Qᵀ·rest
    inner = product(r, turned(hr)) - product(turned(h), q)
    symmetric = jnp.tril(inner) + turned(jnp.tril(inner, -1))
    front = turned(_under(turned(r), turned(h + product(q, symmetric)), True))
    return jnp.concatenate([front, product(q, hrest)], axis=-1)


@qr.jvp
def _(tangents: Any, x: Array, out: Array) -> Array:
    m = x.shape[-2]
    q, r, _ = _qr_parts(wide(out), m)
    k = r.shape[-1]
    t, rest = wide(tangents[0])[..., :k], wide(tangents[0])[..., k:]
    scaled = turned(_under(turned(r), turned(t)))  # t·R⁻¹
    inner = product(turned(q), scaled)
    below = jnp.tril(inner, -1)
    skew = below - turned(below)
    moved = scaled - product(q, inner - skew)
    return jnp.concatenate(
        [
            turned(moved),
            product(inner - skew, r),
            product(turned(moved), wide(x)[..., k:]) + product(turned(q), rest),
        ],
        axis=-1,
    ).astype(out.dtype)


@general(samples=_any, errors=_flat_errors)
def complement(x: Array) -> Array:
    """Orthonormal columns that complete those of x to a basis.

    Args:
        x: [..., m, k] with m > k or m = k, orthonormal columns, floating.

    Returns:
        [..., m, m − k], x's dtype: one basis of many.

    Raises:
        ShapeMismatchError: x does not hold matrices.
        ArgumentTypeError: x is not floating.

    Gradient: none is defined, the choice is arbitrary; asking for one is an error.
    Source: a complete QR factorisation.
    Example:
        >>> complement(jnp.ones((1, 1), jnp.float32)).shape
        (1, 0)
    """
    full = jnp.linalg.qr(wide(x), mode="complete")[0]
    return full[..., x.shape[-1] :].astype(x.dtype)


complement.missing("x", "any basis of the complement would do; use mode='reduced', or full_matrices=False")


@complement.check
def _(x: Aval) -> tuple[Shape, Any]:
    matrices("complement", "x", x)
    m, k = x.shape[-2:]
    return (*x.shape[:-1], max(m - k, 0)), x.dtype


@general(samples=_any, errors=_flat_errors)
def svd(x: Array) -> Array:
    """Singular vectors and values, x = U·diag(S)·Vᵀ, packed flat as (U, S, Vᵀ) along the last axis.

    Args:
        x: [..., m, n], floating; half types are computed in float32.

    Returns:
        [..., m·k + k + k·n] with k = min(m, n), x's dtype; S descends.

    Raises:
        ShapeMismatchError: x does not hold matrices.
        ArgumentTypeError: x is not floating.

    Gradient: U·(diag(g_S) + skew(Uᵀ·g_U)·S/E + S·skew(Vᵀ·g_V)/E)·Vᵀ with E_ij =
    s_j² − s_i², and what leaves the column and row spaces over S; infinite where
    the vectors of equal or zero singular values are looked at.
    Source: Townsend, Differentiating the singular value decomposition, 2016.
    Example:
        >>> jnp.abs(svd(jnp.array([[3.0]], jnp.float32))).tolist()
        [1.0, 3.0, 1.0]
    """
    u, s, v = jnp.linalg.svd(wide(x), full_matrices=False)
    return _packed(u, s, v).astype(x.dtype)


def _packed(u: Array, s: Array, v: Array) -> Array:
    batch = s.shape[:-1]
    flat = [part.reshape(*batch, part.shape[-2] * part.shape[-1]) for part in (u, v)]
    return jnp.concatenate([flat[0], s, flat[1]], axis=-1)


def _svd_parts(packed: Array, m: int, n: int) -> tuple[Array, Array, Array]:
    """U, S and V."""
    k, batch = min(m, n), packed.shape[:-1]
    u, s, v = jnp.split(packed, (m * k, m * k + k), axis=-1)
    return u.reshape(*batch, m, k), s, turned(v.reshape(*batch, k, n))


@svd.check
def _(x: Aval) -> tuple[Shape, Any]:
    matrices("svd", "x", x)
    m, n = x.shape[-2:]
    k = min(m, n)
    return (*x.shape[:-2], m * k + k + k * n), x.dtype


def _gaps(s: Array) -> Array:
    """s_j² − s_i², from the difference, which is exact where they are close."""
    return _pair(s, -1, -2) * (jnp.expand_dims(s, -2) + jnp.expand_dims(s, -1))


@svd.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...], out: Array) -> Array:
    m, n = avals[0].shape[-2:]
    u, s, v = _svd_parts(wide(out), m, n)
    gu, gs, gv = _svd_parts(wide(g), m, n)
    gaps, row = _gaps(s), s[..., None, :]
    of_u, of_v = product(turned(u), gu), product(turned(v), gv)
    inner = _over(of_u - turned(of_u), gaps) * row
    inner = inner + turned(row) * _over(of_v - turned(of_v), gaps)
    inner = inner + jnp.eye(s.shape[-1], dtype=s.dtype) * gs[..., None, :]
    back = product(u, inner, turned(v))
    if m > n:
        back = back + product(_over(gu - product(u, of_u), row), turned(v))
    if n > m:
        back = back + product(u, turned(_over(gv - product(v, of_v), row)))
    return back


@svd.jvp
def _(tangents: Any, out: Array, avals: tuple[Aval, ...]) -> Array:
    m, n = avals[0].shape[-2:]
    u, s, v = _svd_parts(wide(out), m, n)
    t = wide(tangents[0])
    inner = product(turned(u), t, v)
    gaps, row = _gaps(s), s[..., None, :]
    off = 1 - jnp.eye(s.shape[-1], dtype=s.dtype)
    of_u = _over((inner * row + turned(inner * row)) * off, gaps)
    of_v = _over((turned(row) * inner + turned(turned(row) * inner)) * off, gaps)
    du, dv = product(u, of_u), product(v, of_v)
    if m > n:
        du = du + _over(product(t, v) - product(u, inner), row)
    if n > m:
        dv = dv + _over(product(turned(t), u) - product(v, turned(inner)), row)
    ds = jnp.diagonal(inner, axis1=-2, axis2=-1)
    return _packed(du, ds, turned(dv)).astype(out.dtype)
