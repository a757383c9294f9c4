"""``torsh_fx.linalg``: linear algebra under ``torch.linalg``'s names, through ``jnp.linalg``, differentiable."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp

from .arithmetic import abs, cast, filled, is_number, maximum, operand, where
from .autocasting import in_float32, widest
from .creation import eye
from .dtypes import as_dtype, float64, int64, is_floating
from .products import cross as _cross
from .products import vecdot as vecdot
from .rearranging import diagonal as _diagonal
from .reducing import _dims, _kept, amax, amin, sum
from .reducing import matmul as matmul
from .rules import ArgumentTypeError, ArgumentValueError, ShapeMismatchError
from .rules.kinds import axes_of, integer_of, shown
from .rules.op import OPS
from .shaping import cat, expand, permute, reshape, squeeze, transpose, unsqueeze
from .tensor import Tensor, apply

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "vecdot",
    "vector_norm",
]


class SVD(NamedTuple):
    """What ``svd`` returns: x = U·diag(S)·Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class Eigh(NamedTuple):
    """What ``eigh`` returns: ascending values, and their vectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QR(NamedTuple):
    """What ``qr`` returns: x = Q·R."""

    Q: Tensor
    R: Tensor


class Slogdet(NamedTuple):
    """What ``slogdet`` returns: the determinant is sign·e^logabsdet."""

    sign: Tensor
    logabsdet: Tensor


class Lstsq(NamedTuple):
    """What ``lstsq`` returns."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def _part(x: Tensor, start: int, length: int) -> Tensor:
    """A piece of what a row packed along its last axis."""
    return apply(OPS["narrow"], x, dim=x.ndim - 1, start=start, length=length)


def _matrix(op: str, x: Any, square: bool = False) -> Tensor:
    t = operand(op, x)
    if t.ndim < 2 or (square and t.shape[-1] != t.shape[-2]):
        kind, want = ("square matrices", ("...", "n", "n")) if square else ("matrices", ("...", "m", "n"))
        raise ShapeMismatchError(f"[{op}] needs {kind}", expected=want, got=t.shape)
    return t


def _flag(op: str, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ArgumentTypeError(f"[{op}] {name} must be True or False, got {shown(value)}")
    return value


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with L·Lᵀ = A (or its transpose), for symmetric positive definite A.

    Args:
        A: [..., n, n], floating; its symmetric part is used.
        upper: return Lᵀ.

    Raises:
        ShapeMismatchError: A does not hold square matrices.
        ArgumentTypeError: A is not floating, or ``upper`` no bool.

    Gradient: symmetric, that of ``rules.cholesky``.  NaN where A is not positive definite.
    Source: ``rules.cholesky``.
    Example:
        >>> linalg.cholesky(tensor([[4.0]])).tolist()
        [[2.0]]
    """
    lower = apply(OPS["cholesky"], operand("cholesky", A))
    return transpose(lower, -2, -1) if _flag("cholesky", "upper", upper) else lower


def inv(A: Tensor) -> Tensor:
    """Inverse of square matrices [..., n, n]; inf or NaN for singular ones.

    Raises:
        ShapeMismatchError: A does not hold square matrices.
        ArgumentTypeError: A is not floating.

    Gradient: −outᵀ·g·outᵀ.
    Source: ``rules.inv``.
    Example:
        >>> linalg.inv(tensor([[4.0]])).tolist()
        [[0.25]]
    """
    return apply(OPS["inv"], operand("inv", A))


def det(A: Tensor) -> Tensor:
    """Determinant of square matrices [..., n, n].

    Raises:
        ShapeMismatchError: A does not hold square matrices.
        ArgumentTypeError: A is not floating.

    Gradient: g times the cofactors, of singular matrices too.
    Source: ``rules.det``.
    Example:
        >>> linalg.det(tensor([[4.0]])).item()
        4.0
    """
    return apply(OPS["det"], operand("det", A))


def slogdet(A: Tensor) -> Slogdet:
    """Sign and logarithm of the absolute determinant of [..., n, n], a (sign, logabsdet) pair.

    Raises:
        ShapeMismatchError: A does not hold square matrices.
        ArgumentTypeError: A is not floating.

    Gradient: of the logarithm g·A⁻ᵀ; the sign has none.
    Source: ``rules.slogdet``.
    Example:
        >>> linalg.slogdet(tensor([[-1.0]])).sign.item()
        -1.0
    """
    packed = apply(OPS["slogdet"], operand("slogdet", A))
    sign, log = (squeeze(_part(packed, k, 1), -1) for k in (0, 1))
    return Slogdet(sign, log)


def logdet(A: Tensor) -> Tensor:
    """Logarithm of the determinant of [..., n, n]; NaN for a negative one, −inf for 0.

    Raises:
        ShapeMismatchError: A does not hold square matrices.
        ArgumentTypeError: A is not floating.

    Gradient: g·A⁻ᵀ.
    Source: ``rules.slogdet``.
    Example:
        >>> logdet(tensor([[1.0]])).item()
        0.0
    """
    sign, log = slogdet(A)
    return where(sign < 0, math.nan, log)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The X of A·X = B (or X·A = B).

    Args:
        A: [..., n, n], floating.
        B: [..., n, k] in A's dtype, or [..., n] with all of A's leading axes; else leading axes broadcast.
        left: False for X·A = B.

    Raises:
        ShapeMismatchError: shapes do not fit.
        ArgumentTypeError: not floating, the dtypes differ, or ``left`` no bool.

    Gradient: to B s = A⁻ᵀ·g, to A −s·Xᵀ.
    Source: ``rules.solve``.
    Example:
        >>> linalg.solve(tensor([[2.0]]), tensor([6.0])).tolist()
        [3.0]
    """
    a, b = _matrix("solve", A, square=True), operand("solve", B)
    vector = b.ndim == 1 or (b.ndim + 1 == a.ndim and b.shape == a.shape[:-1])
    if not _flag("solve", "left", left):
        if vector:
            raise ShapeMismatchError("[solve] left=False needs matrices", expected=("...", "k", "n"), got=b.shape)
        return transpose(apply(OPS["solve"], transpose(a, -2, -1), transpose(b, -2, -1)), -2, -1)
    out = apply(OPS["solve"], a, unsqueeze(b, -1) if vector else b)
    return squeeze(out, -1) if vector else out


def solve_triangular(
    A: Tensor,
    B: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Tensor:
    """The X of T·X = B (or X·T = B), T being the upper or lower triangle of A.

    Args:
        A: [..., n, n], floating; the other triangle is not looked at.
        B: [..., n, k] ([..., k, n]) in A's dtype; leading axes broadcast.
        upper: which triangle.
        left: False for X·T = B.
        unitriangular: take the diagonal to be ones.

    Raises:
        ShapeMismatchError: shapes do not fit.
        ArgumentTypeError: not floating, the dtypes differ, or a flag no bool.

    Gradient: to B s = T⁻ᵀ·g, to A the triangle of −s·Xᵀ.
    Source: ``rules.solve_triangular``.
    Example:
        >>> linalg.solve_triangular(tensor([[2.0]]), tensor([[6.0]]), upper=True).tolist()
        [[3.0]]
    """
    op = "solve_triangular"
    a, b = _matrix(op, A, square=True), _matrix(op, B)
    upper, unit = _flag(op, "upper", upper), _flag(op, "unitriangular", unitriangular)
    if _flag(op, "left", left):
        return apply(OPS[op], a, b, upper=upper, unit=unit)
    turned = apply(OPS[op], transpose(a, -2, -1), transpose(b, -2, -1), upper=not upper, unit=unit)
    return transpose(turned, -2, -1)


def svd(A: Tensor, full_matrices: bool = True) -> SVD:
    """Singular value decomposition A = U·diag(S)·Vh, a (U, S, Vh) triple; S descends.

    Args:
        A: [..., m, n], floating.
        full_matrices: complete U and Vh to square matrices; the completion has no gradient.

    Raises:
        ShapeMismatchError: A does not hold matrices.
        ArgumentTypeError: A is not floating, or ``full_matrices`` no bool.

    Gradient: that of ``rules.svd``; infinite where vectors of equal singular values are used.
    Source: ``rules.svd``.
    Example:
        >>> linalg.svd(tensor([[3.0]])).S.tolist()
        [3.0]
    """
    t, full = _matrix("svd", A), _flag("svd", "full_matrices", full_matrices)
    (m, n), batch = t.shape[-2:], t.shape[:-2]
    k = min(m, n)
    packed = apply(OPS["svd"], t)
    u = apply(OPS["reshape"], _part(packed, 0, m * k), shape=(*batch, m, k))
    v = apply(OPS["reshape"], _part(packed, m * k + k, k * n), shape=(*batch, k, n))
    if full and m > k:
        u = cat([u, apply(OPS["complement"], u.detach())], -1)
    if full and n > k:
        v = cat([v, transpose(apply(OPS["complement"], transpose(v.detach(), -2, -1)), -2, -1)], -2)
    return SVD(u, _part(packed, m * k, k), v)


def svdvals(A: Tensor) -> Tensor:
    """Singular values of [..., m, n], descending.

    Raises:
        ShapeMismatchError: A does not hold matrices.
        ArgumentTypeError: A is not floating.

    Gradient: U·diag(g)·Vᵀ.
    Source: ``rules.svd``.
    Example:
        >>> linalg.svdvals(tensor([[3.0]])).tolist()
        [3.0]
    """
    return svd(A, full_matrices=False).S


def eigh(A: Tensor, UPLO: str = "L") -> Eigh:
    """Eigenvalues, ascending, and orthonormal eigenvectors of symmetric [..., n, n]: (eigenvalues, eigenvectors).

    Args:
        A: symmetric, floating; its symmetric part is used, whatever ``UPLO`` says.
        UPLO: "L" or "U".

    Raises:
        ShapeMismatchError: A does not hold square matrices.
        ArgumentTypeError: A is not floating.
        ArgumentValueError: another ``UPLO``.

    Gradient: symmetric; infinite where vectors of equal eigenvalues are used.
    Source: ``rules.eigh``.
    Example:
        >>> linalg.eigh(tensor([[3.0]])).eigenvalues.tolist()
        [3.0]
    """
    if UPLO not in ("L", "U"):
        raise ArgumentValueError(f"[eigh] UPLO must be 'L' or 'U', got {UPLO!r}")
    t = _matrix("eigh", A, square=True)
    packed, n = apply(OPS["eigh"], t), t.shape[-1]
    return Eigh(squeeze(_part(packed, n, 1), -1), _part(packed, 0, n))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues of symmetric [..., n, n], ascending; arguments and errors as ``eigh``.

    Gradient: V·diag(g)·Vᵀ.
    Source: ``rules.eigh``.
    Example:
        >>> linalg.eigvalsh(tensor([[3.0]])).tolist()
        [3.0]
    """
    return eigh(A, UPLO).eigenvalues


def qr(A: Tensor, mode: str = "reduced") -> QR:
    """A = Q·R with orthonormal columns in Q and upper triangular R, a (Q, R) pair.

    Args:
        A: [..., m, n], floating.
        mode: "reduced"; "complete" for a square Q; "r" for R alone and an empty Q.

    Raises:
        ShapeMismatchError: A does not hold matrices.
        ArgumentTypeError: A is not floating.
        ArgumentValueError: another mode.
        AutogradError: in reverse, through a completed Q.

    Gradient: that of ``rules.qr``.
    Source: ``rules.qr``.
    Example:
        >>> linalg.qr(tensor([[3.0]])).R.abs().tolist()
        [[3.0]]
    """
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentValueError(f"[qr] mode must be 'reduced', 'complete' or 'r', got {mode!r}")
    t = _matrix("qr", A)
    m, n = t.shape[-2:]
    packed = apply(OPS["qr"], t)
    q, r = transpose(_part(packed, 0, m), -2, -1), _part(packed, m, n)
    if mode == "r":
        return QR(q.detach().reshape(-1)[:0], r)
    if mode == "complete" and m > n:
        q = cat([q, apply(OPS["complement"], q)], -1)
        r = apply(OPS["pad"], r, pads=((0, 0),) * (r.ndim - 2) + ((0, m - n), (0, 0)), value=0.0)
    return QR(q, r)


def _tolerance(op: str, name: str, value: Any) -> Any:
    """A number or a floating Tensor, which gets an axis for the singular values; None stays None."""
    if value is None or (is_number(value) and not isinstance(value, bool)):
        return value
    if not isinstance(value, Tensor) or not is_floating(value.dtype):
        raise ArgumentTypeError(f"[{op}] {name} must be a number or a floating Tensor, got {shown(value)}")
    return unsqueeze(value.detach(), -1)


def _least(op: str, values: Tensor, shape: tuple[int, ...], atol: Any, rtol: Any) -> Any:
    """What singular ``values`` of matrices of that shape must exceed: max(atol, rtol·largest)."""
    atol, rtol = _tolerance(op, "atol", atol), _tolerance(op, "rtol", rtol)
    if rtol is None:
        rtol = max(shape[-2:]) * float(jnp.finfo(values.dtype).eps)
        if atol is not None:
            rtol = where(atol > 0, 0.0, rtol) if isinstance(atol, Tensor) else rtol * (not atol > 0)
    least = amax(values, -1, keepdim=True) * rtol
    return least if atol is None else maximum(least, atol)


def pinv(A: Tensor, rtol: Any = None, hermitian: bool = False, *, atol: Any = None) -> Tensor:
    """Moore-Penrose pseudo-inverse: singular values not above max(atol, rtol·largest) count as 0.

    Args:
        A: [..., m, n], floating.
        rtol: a number, or a floating Tensor of A's leading axes; without it and ``atol`` max(m, n)·eps.
        hermitian: a promise that A is symmetric, of which nothing is made.
        atol: as ``rtol``; if it is positive, ``rtol`` is 0 by default.

    Raises:
        ShapeMismatchError: A does not hold matrices, or a tolerance does not fit.
        ArgumentTypeError: A is not floating, a tolerance is of another type, or ``hermitian`` no bool.

    Gradient: that of ``rules.pinv``.
    Source: ``rules.pinv``.
    Example:
        >>> linalg.pinv(tensor([[4.0]])).tolist()
        [[0.25]]
    """
    t = _matrix("pinv", A, square=_flag("pinv", "hermitian", hermitian))
    if atol is None or not t.numel():
        rtol = _tolerance("pinv", "rtol", rtol)
        if rtol is None:
            rtol = max(t.shape[-2:]) * float(jnp.finfo(t.dtype).eps) if is_floating(t.dtype) else 0.0
        elif isinstance(rtol, Tensor):
            rtol = squeeze(rtol, -1)
    else:
        values = svdvals(t.detach())
        rtol = squeeze(_least("pinv", values, t.shape, atol, rtol), -1) / values[..., 0]
    return apply(OPS["pinv"], t, rtol if isinstance(rtol, Tensor) else filled(float(rtol), float64))


def matrix_rank(
    A: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """How many singular values of [..., m, n] exceed max(atol, rtol·largest), int64.

    Args:
        A: floating.
        tol: PyTorch's older name of ``atol``.
        hermitian, atol, rtol: as ``pinv`` has them.

    Raises:
        ShapeMismatchError: A does not hold matrices, or a tolerance does not fit.
        ArgumentTypeError: A is not floating, a tolerance is of another type, or ``hermitian`` no bool.

    Gradient: none, the result is an integer.
    Source: ``rules.svd``.
    Example:
        >>> linalg.matrix_rank(tensor([[1.0, 1.0], [1.0, 1.0]])).item()
        1
    """
    op = "matrix_rank"
    t = _matrix(op, A, square=_flag(op, "hermitian", hermitian)).detach()
    values = svdvals(t)
    if not t.numel():
        for name, value in (("atol", atol), ("rtol", rtol), ("tol", tol)):
            _tolerance(op, name, value)
        return sum(cast(values, int64) * 0, -1)
    return sum(values > _least(op, values, t.shape, atol if tol is None else tol, rtol), -1)


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def lstsq(
    A: Tensor,
    B: Tensor,
    rcond: float | None = None,
    *,
    driver: str | None = None,
) -> Lstsq:
    """The X of least norm among those that minimise |A·X − B|: (solution, residuals, rank, singular_values).

    Args:
        A: [..., m, n], floating.
        B: [..., m, k] in A's dtype, leading axes broadcast.
        rcond: singular values below it times the largest count as 0.
        driver: LAPACK's name for a method.  All is computed from singular values, but what
            that driver of PyTorch leaves empty ("gels": rank, "gels" and "gelsy": singular
            values, "gelsy": residuals) is empty.  Residuals are where m > n.

    Raises:
        ShapeMismatchError: shapes do not fit.
        ArgumentTypeError: not floating, or the dtypes differ.
        ArgumentValueError: an unknown driver.

    Gradient: that of the solution pinv(A)·B and of the residuals.
    Source: ``rules.pinv`` and ``rules.matmul``.
    Example:
        >>> linalg.lstsq(tensor([[2.0]]), tensor([[6.0]])).solution.tolist()
        [[3.0]]
    """
    if driver is not None and driver not in _DRIVERS:
        raise ArgumentValueError(f"[lstsq] driver must be one of {list(_DRIVERS)}, got {driver!r}")
    a, b = _matrix("lstsq", A), _matrix("lstsq", B)
    solution = matmul(pinv(a, rcond), b)
    rest, nothing = reshape(solution, -1)[:0], reshape(svdvals(a.detach()), -1)[:0]
    if a.shape[-2] > a.shape[-1] and driver != "gelsy":
        rest = sum((matmul(a, solution) - b) ** 2, -2)
    rank = cast(nothing, int64) if driver == "gels" else matrix_rank(a, rtol=rcond)
    return Lstsq(solution, rest, rank, nothing if driver in ("gels", "gelsy") else svdvals(a.detach()))


def matrix_power(A: Tensor, n: int) -> Tensor:
    """The n-th power of square matrices [..., k, k]; negative powers are those of the inverse.

    Raises:
        ShapeMismatchError: A does not hold square matrices.
        ArgumentTypeError: n is no integer, or negative for integers.

    Gradient: that of the products.
    Source: ``rules.matmul`` by squaring, and ``rules.inv``.
    Example:
        >>> linalg.matrix_power(tensor([[3.0]]), 2).tolist()
        [[9.0]]
    """
    t, n = _matrix("matrix_power", A, square=True), integer_of("matrix_power", "n", n)
    if n < 0:
        t, n = inv(t), -n
    if n == 0:
        one = expand(eye(t.shape[-1], dtype=t.dtype), *t.shape)
        return where(one == one, one, t)  # a constant, and all the same with a gradient, of zeros
    out = None
    while n:
        if n & 1:
            out = t if out is None else matmul(out, t)
        n >>= 1
        t = matmul(t, t) if n else t
    assert out is not None
    return apply(OPS["clone"], out) if out is A else out


def _as_floating(op: str, x: Any, dtype: Any) -> Tensor:
    t = operand(op, x)
    if dtype is not None:
        t = cast(t, as_dtype(dtype))
    if not is_floating(t.dtype):
        raise ArgumentTypeError(f"[{op}] needs a floating tensor, got {t.dtype}; cast it")
    return t


@in_float32
def vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The p-norm (Σ|x|^p)^(1/p) over ``dim`` (all axes if None); p = ±inf the extreme |x|, p = 0 a count.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentTypeError: x is not floating, p no number, or ``keepdim`` no bool.
        ArgumentValueError: a reduced axis is empty and p is infinite or negative.

    Gradient: sign(x)·(|x|/out)^(p−1)·g, 0 where the norm is 0; p = ±inf shares g among all that reach it.
    Source: ``rules.vector_norm``.
    Example:
        >>> linalg.vector_norm(tensor([3.0, 4.0])).item()
        5.0
    """
    t, keepdim = _as_floating("vector_norm", x, dtype), _kept("vector_norm", keepdim)
    if isinstance(ord, bool) or not is_number(ord):
        raise ArgumentTypeError(f"[vector_norm] ord must be a number, got {shown(ord)}")
    dims = _dims("vector_norm", dim, t)
    dims = tuple(range(t.ndim)) if dims is None else dims
    return apply(OPS["vector_norm"], t, ord=float(ord), dims=dims, keepdim=keepdim)


_MATRIX_ORDERS = ("fro", "nuc", math.inf, -math.inf, 1, -1, 2, -2)


@in_float32
def matrix_norm(
    A: Tensor,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """A norm of the matrices in two axes.

    Args:
        A: floating, at least 2 axes.
        ord: "fro" (root of the sum of squares), "nuc" (sum of singular values), ±2 (extreme
            singular value), ±1 (extreme column sum), ±inf (extreme row sum).
        dim: the axes of rows and of columns.
        keepdim: keep them with extent 1.
        dtype: cast A to it first.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentValueError: an unknown order, or not two axes.
        ArgumentTypeError: A is not floating, or ``keepdim`` no bool.

    Gradient: that of the norm; ties of extremes share it.
    Source: ``rules.vector_norm``, ``rules.svd``, ``rules.amax``.
    Example:
        >>> linalg.matrix_norm(tensor([[3.0, 4.0]])).item()
        5.0
    """
    op = "matrix_norm"
    t, keepdim = _as_floating(op, A, dtype), _kept(op, keepdim)
    if isinstance(ord, bool) or ord not in _MATRIX_ORDERS:
        raise ArgumentValueError(f"[{op}] ord must be one of {list(_MATRIX_ORDERS)}, got {ord!r}")
    axes = axes_of(op, dim, t.shape)
    if len(axes) != 2 or t.ndim < 2:
        raise ArgumentValueError(f"[{op}] needs two axes, got {list(axes)} of shape {list(t.shape)}")
    rows, columns = axes
    if ord == "fro":
        return vector_norm(t, 2, axes, keepdim)
    if ord in ("nuc", 2, -2):
        rest = [k for k in range(t.ndim) if k not in axes]
        values = svdvals(permute(t, *rest, rows, columns))
        out = sum(values, -1) if ord == "nuc" else (amax if ord == 2 else amin)(values, -1)
        return reshape(out, *(1 if k in axes else e for k, e in enumerate(t.shape))) if keepdim else out
    inner, outer = (rows, columns) if abs_of(ord) == 1 else (columns, rows)
    sums = sum(abs(t), inner, keepdim=True)
    out = (amax if ord > 0 else amin)(sums, outer, keepdim=True)
    return out if keepdim else squeeze(out, axes)


def abs_of(number: float) -> float:
    """The absolute value of a number; ``abs`` here is that of Tensors."""
    return -number if number < 0 else number


@in_float32
def norm(
    A: Tensor,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """A vector norm over one axis, a matrix norm over two; without ``ord`` the 2-norm over all of ``dim``.

    Raises:
        ShapeMismatchError: an order without axes, for more than 2 axes.
        OutOfRangeError, ArgumentValueError, ArgumentTypeError: as ``vector_norm`` and ``matrix_norm``.

    Gradient: that of the norm.
    Source: ``vector_norm`` and ``matrix_norm``.
    Example:
        >>> linalg.norm(tensor([3.0, 4.0])).item()
        5.0
    """
    t = _as_floating("norm", A, dtype)
    if ord is None:
        return vector_norm(t, 2, dim, keepdim)
    axes = tuple(range(t.ndim)) if dim is None else axes_of("norm", dim, t.shape)
    if dim is None and t.ndim not in (1, 2):
        raise ShapeMismatchError("[norm] an order without dim needs 1 or 2 axes", expected=("m", "n"), got=t.shape)
    if len(axes) == 1:
        return vector_norm(t, ord, axes, keepdim)
    return matrix_norm(t, ord, axes, keepdim)


@in_float32
def norm_of(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The p-norm of the elements over ``dim`` (all axes if None); "fro" is p = 2, "nuc" that of matrices.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentTypeError: x is not floating, or p no number.
        ArgumentValueError: an unknown name.

    Gradient: that of the norm; 0 at 0.
    Source: ``rules.vector_norm``.
    Example:
        >>> norm(tensor([3.0, 4.0])).item()
        5.0
    """
    t = _as_floating("norm", input, dtype)
    if isinstance(p, str):
        if p not in ("fro", "nuc"):
            raise ArgumentValueError(f"[norm] p must be a number, 'fro' or 'nuc', got {p!r}")
        if p == "nuc":
            return matrix_norm(t, "nuc", (-2, -1) if dim is None else dim, keepdim)
        p = 2
    return vector_norm(t, 2 if p is None else p, dim, keepdim)


norm_of.__name__ = norm_of.__qualname__ = "norm"


@widest
def cross(a: Tensor, b: Tensor, *, dim: int = -1) -> Tensor:
    """Cross product along an axis of extent 3, the last by default; the others broadcast.

    Raises:
        OutOfRangeError: the axis is out of range.
        ShapeMismatchError: the extent is not 3, or the shapes do not broadcast.

    Gradient: (b × g, g × a).
    Source: ``rules.roll`` and ``rules.mul``.
    Example:
        >>> linalg.cross(tensor([1, 0, 0]), tensor([0, 1, 0])).tolist()
        [0, 0, 1]
    """
    return _cross(a, b, dim=dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A diagonal of the matrices in the last two axes, as a last axis, a view.

    Raises:
        OutOfRangeError: an axis is out of range, or both are one.

    Gradient: g on that diagonal, zeros elsewhere.
    Source: ``rules.diagonal``.
    Example:
        >>> linalg.diagonal(tensor([[1, 2], [3, 4]])).tolist()
        [1, 4]
    """
    return _diagonal(A, offset, dim1, dim2)
