"""Products of vectors, matrices and batches of them, beside ``matmul``; and what is added to one."""

from __future__ import annotations

from typing import Any

from .arithmetic import cast, mul, operand
from .autocasting import in_float32, narrow, widest
from .rearranging import roll
from .reducing import matmul
from .reducing import sum as sum_of
from .rules import ArgumentTypeError, ArgumentValueError, ShapeMismatchError
from .rules.broadcast import broadcast_shapes
from .rules.kinds import axes_of, axis_of, integer_of
from .shaping import permute, reshape, unsqueeze
from .tensor import Tensor


def _of_rank(op: str, a: Any, b: Any, left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """Two operands of the ranks that these shapes have, in one dtype."""
    x, y = operand(op, a), operand(op, b)
    for t, want in ((x, left), (y, right)):
        if t.ndim != len(want):
            raise ShapeMismatchError(
                f"[{op}] needs operands of ranks {len(left)} and {len(right)}", expected=want, got=t.shape
            )
    if x.dtype != y.dtype:
        raise ArgumentTypeError(f"[{op}] operands must have one dtype, got {x.dtype} and {y.dtype}; cast one")
    return x, y


def _fit(op: str, x: Tensor, y: Tensor, i: int, j: int) -> None:
    if x.shape[i] != y.shape[j]:
        raise ShapeMismatchError(
            f"[{op}] inner extents {x.shape[i]} and {y.shape[j]} differ", expected=x.shape, got=y.shape
        )


@narrow
def mm(a: Tensor, b: Tensor) -> Tensor:
    """Product of two matrices, [m, k]·[k, n].

    Raises:
        ShapeMismatchError: not matrices, or the inner extents differ.
        ArgumentTypeError: the dtypes differ.

    Gradient: (g·bᵀ, aᵀ·g).
    Source: ``rules.matmul``.
    Example:
        >>> mm(tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]])).tolist()
        [[11.0]]
    """
    return matmul(*_of_rank("mm", a, b, ("m", "k"), ("k", "n")))


@narrow
def bmm(a: Tensor, b: Tensor) -> Tensor:
    """Products of matrices one by one, [batch, m, k]·[batch, k, n]; the batch does not broadcast.

    Raises:
        ShapeMismatchError: other ranks, batches or inner extents.
        ArgumentTypeError: the dtypes differ.

    Gradient: (g·bᵀ, aᵀ·g).
    Source: ``rules.matmul``.
    Example:
        >>> bmm(tensor([[[2.0]]]), tensor([[[3.0]]])).tolist()
        [[[6.0]]]
    """
    x, y = _of_rank("bmm", a, b, ("batch", "m", "k"), ("batch", "k", "n"))
    if x.shape[0] != y.shape[0]:
        raise ShapeMismatchError("[bmm] the batches differ", expected=x.shape, got=y.shape)
    return matmul(x, y)


@narrow
def mv(a: Tensor, v: Tensor) -> Tensor:
    """Product of a matrix and a vector, [m, k]·[k].

    Raises:
        ShapeMismatchError: other ranks, or the inner extents differ.
        ArgumentTypeError: the dtypes differ.

    Gradient: (g·vᵀ, aᵀ·g).
    Source: ``rules.matmul``.
    Example:
        >>> mv(tensor([[1.0, 2.0]]), tensor([3.0, 4.0])).tolist()
        [11.0]
    """
    return matmul(*_of_rank("mv", a, v, ("m", "k"), ("k",)))


@widest
def dot(a: Tensor, b: Tensor) -> Tensor:
    """Scalar product of two vectors of one length.

    Raises:
        ShapeMismatchError: not vectors, or the lengths differ.
        ArgumentTypeError: the dtypes differ.

    Gradient: (g·b, g·a).
    Source: ``rules.matmul``.
    Example:
        >>> dot(tensor([1, 2]), tensor([3, 4])).item()
        11
    """
    x, y = _of_rank("dot", a, b, ("n",), ("n",))
    _fit("dot", x, y, 0, 0)
    return matmul(x, y)


@narrow
def inner(a: Tensor, b: Tensor) -> Tensor:
    """Scalar products along the last axes, [..., n] and [*, n] give [..., *]; with a 0-d operand a product.

    Raises:
        ShapeMismatchError: the last extents differ.
        ArgumentTypeError: the dtypes differ.

    Gradient: that of the matrix product.
    Source: ``rules.matmul``.
    Example:
        >>> inner(tensor([1, 2]), tensor([3, 4])).item()
        11
    """
    x, y = operand("inner", a), operand("inner", b)
    if x.ndim == 0 or y.ndim == 0:
        return mul(x, y)
    _fit("inner", x, y, -1, -1)
    return tensordot(x, y, ((-1,), (-1,)))


def outer(a: Tensor, b: Tensor) -> Tensor:
    """Every product of an element of a vector with one of another, [m] and [n] give [m, n].

    Raises:
        ShapeMismatchError: not vectors.

    Gradient: (g·b, gᵀ·a).
    Source: ``rules.mul``.
    Example:
        >>> outer(tensor([1, 2]), tensor([3, 4])).tolist()
        [[3, 4], [6, 8]]
    """
    x, y = operand("outer", a), operand("outer", b)
    for t in (x, y):
        if t.ndim != 1:
            raise ShapeMismatchError("[outer] needs vectors", expected=("n",), got=t.shape)
    return mul(unsqueeze(x, 1), y)


@narrow
def vecdot(a: Tensor, b: Tensor, *, dim: int = -1) -> Tensor:
    """Scalar products along ``dim``; the other axes broadcast.

    Raises:
        OutOfRangeError: the axis is out of range.
        ShapeMismatchError: the shapes do not broadcast.

    Gradient: (g·b, g·a), summed over axes an operand was broadcast along.
    Source: ``rules.mul`` and ``rules.sum``.
    Example:
        >>> vecdot(tensor([1, 2]), tensor([3, 4])).item()
        11
    """
    return sum_of(mul(operand("vecdot", a), operand("vecdot", b)), dim)


@widest
def cross(a: Tensor, b: Tensor, *, dim: int | None = None) -> Tensor:
    """Cross product along an axis of extent 3; the other axes broadcast.

    Args:
        a, b: any shape with extent 3 along ``dim``.
        dim: the axis; None is the first of extent 3 (``linalg.cross`` takes the last axis).

    Raises:
        OutOfRangeError: the axis is out of range.
        ShapeMismatchError: the extent is not 3, or the shapes do not broadcast.

    Gradient: (b × g, g × a).
    Source: ``rules.roll`` and ``rules.mul``.
    Example:
        >>> cross(tensor([1, 0, 0]), tensor([0, 1, 0])).tolist()
        [0, 0, 1]
    """
    x, y = operand("cross", a), operand("cross", b)
    if x.ndim != y.ndim:
        raise ShapeMismatchError("[cross] operands must have one rank", expected=x.shape, got=y.shape)
    shape = broadcast_shapes("cross", x.shape, y.shape)
    if dim is None:
        dim = next((k for k, extent in enumerate(x.shape) if extent == 3), -1)
    axis = axis_of("cross", dim, shape)
    if not shape or x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ShapeMismatchError(f"[cross] axis {axis} must have extent 3", expected=(3,), got=shape)
    return roll(x, 2, axis) * roll(y, 1, axis) - roll(x, 1, axis) * roll(y, 2, axis)


def kron(a: Tensor, b: Tensor) -> Tensor:
    """Kronecker product: b times each element of a, side by side; missing axes are ones in front.

    Gradient: each g summed over the other operand's elements.
    Source: ``rules.mul`` and ``rules.reshape``.
    Example:
        >>> kron(tensor([1, 2]), tensor([3, 4])).tolist()
        [3, 4, 6, 8]
    """
    x, y = operand("kron", a), operand("kron", b)
    rank = max(x.ndim, y.ndim)
    left, right = (1,) * (rank - x.ndim) + x.shape, (1,) * (rank - y.ndim) + y.shape
    product = mul(
        reshape(x, *(e for extent in left for e in (extent, 1))),
        reshape(y, *(e for extent in right for e in (1, extent))),
    )
    return reshape(product, *(i * j for i, j in zip(left, right, strict=True)))


@widest
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sum of products over axes of a paired with axes of b: the last ``dims`` with the first, or two lists.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ShapeMismatchError: paired extents differ, and neither is 1.
        ArgumentValueError: lists of different lengths, or more axes than there are.
        ArgumentTypeError: the dtypes differ.

    Gradient: that of the matrix product.
    Source: ``rules.matmul`` on the operands as matrices.
    Example:
        >>> tensordot(tensor([[1, 2]]), tensor([[3], [4]]), 1).tolist()
        [[11]]
    """
    op = "tensordot"
    x, y = operand(op, a), operand(op, b)
    if x.dtype != y.dtype:
        raise ArgumentTypeError(f"[{op}] operands must have one dtype, got {x.dtype} and {y.dtype}; cast one")
    if isinstance(dims, (tuple, list)):
        if len(dims) != 2:
            raise ArgumentValueError(f"[{op}] dims must be a number or two lists, got {dims!r}")
        left, right = axes_of(op, dims[0], x.shape), axes_of(op, dims[1], y.shape)
    else:
        count = integer_of(op, "dims", dims)
        if not 0 <= count <= min(x.ndim, y.ndim):
            raise ArgumentValueError(f"[{op}] dims {count} is out of range for ranks {x.ndim} and {y.ndim}")
        left, right = tuple(range(x.ndim - count, x.ndim)), tuple(range(count))
    if len(left) != len(right):
        raise ArgumentValueError(f"[{op}] needs as many axes of one as of the other, got {dims!r}")
    for i, j in zip(left, right, strict=True):
        if x.shape[i] != y.shape[j] and 1 in (x.shape[i], y.shape[j]):  # as if broadcast
            if x.shape[i] == 1:
                y = cast(sum_of(y, j, keepdim=True), y.dtype)
            else:
                x = cast(sum_of(x, i, keepdim=True), x.dtype)
        _fit(op, x, y, i, j)
    rows = [k for k in range(x.ndim) if k not in left]
    columns = [k for k in range(y.ndim) if k not in right]
    middle = 1
    for i in left:
        middle *= x.shape[i]
    shape = [*(x.shape[k] for k in rows), *(y.shape[k] for k in columns)]
    m = reshape(permute(x, *rows, *left), _count(x, rows), middle)
    n = reshape(permute(y, *right, *columns), middle, _count(y, columns))
    return reshape(matmul(m, n), *shape)


def _count(x: Tensor, axes: list[int]) -> int:
    total = 1
    for axis in axes:
        total *= x.shape[axis]
    return total


def _plus(op: str, base: Any, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """β·base + α·product; a base that counts 0 is not looked at, so its NaN does not spread."""
    t = operand(op, base)
    if t.dtype != product.dtype:
        raise ArgumentTypeError(f"[{op}] operands must have one dtype, got {t.dtype} and {product.dtype}; cast one")
    if broadcast_shapes(op, t.shape, product.shape) != product.shape:
        raise ShapeMismatchError(f"[{op}] input must broadcast to the product", expected=product.shape, got=t.shape)
    scaled = product if isinstance(alpha, int) and alpha == 1 else cast(product * alpha, product.dtype)
    if isinstance(beta, (int, float)) and beta == 0:
        return scaled
    weighted = t if isinstance(beta, int) and beta == 1 else cast(t * beta, t.dtype)
    return weighted + scaled


@narrow
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """β·input + α·mat1·mat2, the input broadcasting to [m, n]; for β = 0 it is not looked at.

    Raises:
        ShapeMismatchError: not matrices, or shapes that do not fit.
        ArgumentTypeError: the dtypes differ.

    Gradient: (β·g, α·g·mat2ᵀ, α·mat1ᵀ·g), summed over axes broadcast along.
    Source: ``rules.matmul``.
    Example:
        >>> addmm(tensor([1.0]), tensor([[2.0]]), tensor([[3.0]])).tolist()
        [[7.0]]
    """
    product = matmul(*_of_rank("addmm", mat1, mat2, ("m", "k"), ("k", "n")))
    return _plus("addmm", input, product, beta, alpha)


@narrow
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """β·input + α·mat·vec, the input broadcasting to [m]; for β = 0 it is not looked at.

    Raises:
        ShapeMismatchError: other ranks, or shapes that do not fit.
        ArgumentTypeError: the dtypes differ.

    Gradient: (β·g, α·g·vecᵀ, α·matᵀ·g), summed over axes broadcast along.
    Source: ``rules.matmul``.
    Example:
        >>> addmv(tensor([1.0]), tensor([[2.0]]), tensor([3.0])).tolist()
        [7.0]
    """
    return _plus("addmv", input, matmul(*_of_rank("addmv", mat, vec, ("m", "k"), ("k",))), beta, alpha)


@narrow
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """β·input + α·(outer product of two vectors), the input broadcasting; for β = 0 it is not looked at.

    Raises:
        ShapeMismatchError: not vectors, or shapes that do not fit.
        ArgumentTypeError: the dtypes differ.

    Gradient: (β·g, α·g·vec2, α·gᵀ·vec1).
    Source: ``outer``.
    Example:
        >>> addr(tensor([[1.0]]), tensor([2.0]), tensor([3.0])).tolist()
        [[7.0]]
    """
    return _plus("addr", input, outer(*_of_rank("addr", vec1, vec2, ("m",), ("n",))), beta, alpha)


@narrow
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """β·input + α·batch1·batch2 one by one, the input broadcasting; for β = 0 it is not looked at.

    Raises:
        ShapeMismatchError: other ranks, or shapes that do not fit.
        ArgumentTypeError: the dtypes differ.

    Gradient: (β·g, α·g·batch2ᵀ, α·batch1ᵀ·g), summed over axes broadcast along.
    Source: ``bmm``.
    Example:
        >>> baddbmm(tensor([1.0]), tensor([[[2.0]]]), tensor([[[3.0]]])).tolist()
        [[[7.0]]]
    """
    x, y = _of_rank("baddbmm", batch1, batch2, ("batch", "m", "k"), ("batch", "k", "n"))
    return _plus("baddbmm", input, bmm(x, y), beta, alpha)


@narrow
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """β·input + α·Σ batch1·batch2 over the batch, the input broadcasting; for β = 0 it is not looked at.

    Raises:
        ShapeMismatchError: other ranks, or shapes that do not fit.
        ArgumentTypeError: the dtypes differ.

    Gradient: (β·g, α·g·batch2ᵀ, α·batch1ᵀ·g).
    Source: ``bmm`` and ``rules.sum_dim``.
    Example:
        >>> addbmm(tensor([1.0]), tensor([[[2.0]]]), tensor([[[3.0]]])).tolist()
        [[7.0]]
    """
    x, y = _of_rank("addbmm", batch1, batch2, ("batch", "m", "k"), ("batch", "k", "n"))
    return _plus("addbmm", input, sum_of(bmm(x, y), 0), beta, alpha)


@in_float32
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """Distances of every row of x1 [..., m, k] to every row of x2 [..., n, k] in the p-norm, [..., m, n].

    Raises:
        ShapeMismatchError: fewer than 2 axes, or shapes that do not fit.
        ArgumentTypeError: the dtypes differ or are not floating, or p is no number.
        ArgumentValueError: p is negative.

    Gradient: that of the norm; 0 at distance 0.
    Source: ``rules.vector_norm`` of the differences, so exact for close rows; ``compute_mode`` is not needed.
    Example:
        >>> cdist(tensor([[0.0, 0.0]]), tensor([[3.0, 4.0]])).tolist()
        [[5.0]]
    """
    from .linalg import vector_norm

    a, b = operand("cdist", x1), operand("cdist", x2)
    for t in (a, b):
        if t.ndim < 2:
            raise ShapeMismatchError("[cdist] needs rows of points", expected=("...", "m", "k"), got=t.shape)
    if a.dtype != b.dtype:
        raise ArgumentTypeError(f"[cdist] operands must have one dtype, got {a.dtype} and {b.dtype}; cast one")
    _fit("cdist", a, b, -1, -1)
    if isinstance(p, (int, float)) and p < 0:
        raise ArgumentValueError(f"[cdist] p must not be negative, got {p}")
    return vector_norm(unsqueeze(a, -2) - unsqueeze(b, -3), p, -1)
