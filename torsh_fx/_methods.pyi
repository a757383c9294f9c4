"""Methods of Tensor that are attached at import; written by tests/make_stubs.py, do not edit."""

import builtins
from collections.abc import Callable, Iterator
from typing import Any

from .hooks import RemovableHandle
from .linalg import Slogdet
from .ordering import MinMax
from .reducing import ValuesIndices
from .tensor import Tensor

class Methods:
    def add(self, b: Any, *, alpha: Any = 1) -> Tensor:
        """a + alpha·b, broadcasting."""
    def sub(self, b: Any, *, alpha: Any = 1) -> Tensor:
        """a − alpha·b, broadcasting; a boolean, Tensor or number, is an ArgumentTypeError."""
    def mul(self, b: Any) -> Tensor:
        """a·b, broadcasting."""
    def div(self, b: Any, *, rounding_mode: str | None = None) -> Tensor:
        """a/b, true division also for integers, which are cast to the default dtype first."""
    def pow(self, exponent: Any) -> Tensor:
        """xⁿ for a number or a Tensor as exponent; an integer x keeps its dtype for integer n."""
    def neg(self) -> Tensor:
        """−x, in x's shape and dtype; booleans are an ArgumentTypeError."""
    def remainder(self, b: Any) -> Tensor:
        """Remainder with the sign of the divisor, a − b·⌊a/b⌋."""
    def floor_divide(self, b: Any) -> Tensor:
        """Quotient rounded down, ⌊a/b⌋."""
    def maximum(self, b: Any) -> Tensor:
        """The larger, a > b ? a : b; a tie and any NaN give b."""
    def minimum(self, b: Any) -> Tensor:
        """The smaller, a < b ? a : b; a tie and any NaN give b."""
    def eq(self, b: Any) -> Tensor:
        """a == b, elementwise."""
    def ne(self, b: Any) -> Tensor:
        """a != b, elementwise."""
    def lt(self, b: Any) -> Tensor:
        """a < b, elementwise."""
    def le(self, b: Any) -> Tensor:
        """a <= b, elementwise."""
    def gt(self, b: Any) -> Tensor:
        """a > b, elementwise."""
    def ge(self, b: Any) -> Tensor:
        """a >= b, elementwise."""
    def logical_and(self, b: Any) -> Tensor:
        """Both nonzero."""
    def logical_or(self, b: Any) -> Tensor:
        """Either nonzero."""
    def logical_xor(self, b: Any) -> Tensor:
        """One nonzero."""
    def logical_not(self) -> Tensor:
        """Zero."""
    def exp(self) -> Tensor:
        """Exponential, eˣ."""
    def log(self) -> Tensor:
        """Natural logarithm."""
    def sqrt(self) -> Tensor:
        """Square root."""
    def rsqrt(self) -> Tensor:
        """Reciprocal square root, 1/√x."""
    def reciprocal(self) -> Tensor:
        """Reciprocal, 1/x."""
    def sin(self) -> Tensor:
        """Sine."""
    def cos(self) -> Tensor:
        """Cosine."""
    def tan(self) -> Tensor:
        """Tangent."""
    def asin(self) -> Tensor:
        """Inverse sine."""
    def acos(self) -> Tensor:
        """Inverse cosine."""
    def atan(self) -> Tensor:
        """Inverse tangent."""
    def sinh(self) -> Tensor:
        """Hyperbolic sine."""
    def cosh(self) -> Tensor:
        """Hyperbolic cosine."""
    def tanh(self) -> Tensor:
        """Hyperbolic tangent."""
    def sigmoid(self) -> Tensor:
        """Logistic function, 1/(1 + e⁻ˣ)."""
    def log10(self) -> Tensor:
        """Logarithm to base 10."""
    def log2(self) -> Tensor:
        """Logarithm to base 2."""
    def abs(self) -> Tensor:
        """Absolute value."""
    def sign(self) -> Tensor:
        """Sign: -1, 0 or 1; 0 for NaN."""
    def floor(self) -> Tensor:
        """Largest integer not above x."""
    def ceil(self) -> Tensor:
        """Smallest integer not below x."""
    def trunc(self) -> Tensor:
        """x rounded towards 0."""
    def round(self, *, decimals: builtins.int = 0) -> Tensor:
        """The nearest integer, halves to even; with ``decimals`` the nearest multiple of 10^−decimals."""
    def relu(self) -> Tensor:
        """Rectifier, x where x > 0, else 0; NaN stays NaN."""
    def isnan(self) -> Tensor:
        """Not a number."""
    def isinf(self) -> Tensor:
        """Infinite."""
    def isfinite(self) -> Tensor:
        """Neither infinite nor NaN."""
    def square(self) -> Tensor:
        """x², in x's dtype (of booleans int64)."""
    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """Limit to [min, max]: numbers or Tensors; NaN passes."""
    def clone(self) -> Tensor:
        """A copy of x that may be written to."""
    def log1p(self) -> Tensor:
        """Natural logarithm of 1 + x, exact near 0."""
    def expm1(self) -> Tensor:
        """eˣ − 1, exact near 0."""
    def exp2(self) -> Tensor:
        """Power of two, 2ˣ."""
    def erf(self) -> Tensor:
        """Error function, 2/√π·∫₀ˣ e^(−t²) dt."""
    def erfc(self) -> Tensor:
        """Complement of the error function, 1 − erf(x), exact where that is small."""
    def erfinv(self) -> Tensor:
        """Inverse of the error function; ±inf at ±1, NaN outside."""
    def asinh(self) -> Tensor:
        """Inverse hyperbolic sine."""
    def acosh(self) -> Tensor:
        """Inverse hyperbolic cosine; NaN below 1."""
    def atanh(self) -> Tensor:
        """Inverse hyperbolic tangent; ±inf at ±1, NaN outside."""
    def sinc(self) -> Tensor:
        """Normalised sinc, sin(πx)/(πx), 1 at 0."""
    def bitwise_not(self) -> Tensor:
        """Bits turned over; of a boolean its opposite."""
    def fmax(self, b: Any) -> Tensor:
        """The larger; of a number and NaN the number."""
    def fmin(self, b: Any) -> Tensor:
        """The smaller; of a number and NaN the number."""
    def bitwise_and(self, b: Any) -> Tensor:
        """Bits set in both."""
    def bitwise_or(self, b: Any) -> Tensor:
        """Bits set in either."""
    def bitwise_xor(self, b: Any) -> Tensor:
        """Bits set in one."""
    def bitwise_left_shift(self, b: Any) -> Tensor:
        """a·2ᵇ by moving bits, those beyond the dtype are lost."""
    def bitwise_right_shift(self, b: Any) -> Tensor:
        """a/2ᵇ rounded down, by moving bits; the sign stays."""
    def atan2(self, b: Any) -> Tensor:
        """Angle of the point (x, y), in [−π, π]."""
    def hypot(self, b: Any) -> Tensor:
        """Length of the vector (a, b), √(a² + b²), without overflow."""
    def logaddexp(self, b: Any) -> Tensor:
        """ln(eᵃ + eᵇ), without overflow."""
    def logaddexp2(self, b: Any) -> Tensor:
        """log₂(2ᵃ + 2ᵇ), without overflow."""
    def xlogy(self, b: Any) -> Tensor:
        """x·ln y, 0 where x is 0 whatever y is, but for NaN."""
    def copysign(self, b: Any) -> Tensor:
        """The magnitude of a with the sign of b, also of a zero's."""
    def fmod(self, b: Any) -> Tensor:
        """Remainder with the sign of the dividend, a − b·trunc(a/b), broadcasting."""
    def frac(self) -> Tensor:
        """x − trunc(x), with x's sign."""
    def deg2rad(self) -> Tensor:
        """Degrees as radians, x·π/180; integers and booleans in the default dtype."""
    def rad2deg(self) -> Tensor:
        """Radians as degrees, x·180/π; integers and booleans in the default dtype."""
    def nan_to_num(
        self, nan: builtins.float = 0.0, posinf: builtins.float | None = None, neginf: builtins.float | None = None
    ) -> Tensor:
        """x with ``nan`` in the place of NaN, ``posinf`` and ``neginf`` (the dtype's extremes if None) of ±inf."""
    def clamp_min(self, min: Any) -> Tensor:
        """Limit from below: ``clamp(x, min=min)``, whose errors and gradient it has."""
    def clamp_max(self, max: Any) -> Tensor:
        """Limit from above: ``clamp(x, max=max)``, whose errors and gradient it has."""
    def lerp(self, end: Any, weight: Any) -> Tensor:
        """The point between two Tensors, start + weight·(end − start); exact at both ends."""
    def addcmul(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """x + value·tensor1·tensor2, broadcasting."""
    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """x + value·tensor1/tensor2, broadcasting."""
    def allclose(
        self, b: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False
    ) -> builtins.bool:
        """Is ``isclose``, whose arguments and errors it has, true everywhere?  A Python bool: it reads the values."""
    def equal(self, b: Tensor) -> builtins.bool:
        """Have both one shape and the same elements?  A Python bool, so it reads them; NaN equals nothing."""
    def isclose(
        self, b: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False
    ) -> Tensor:
        """|a − b| ≤ atol + rtol·|b| elementwise, in float64, broadcasting; infinities are close to themselves."""
    def size(self, dim: builtins.int | None = None) -> Any:
        """The shape, or one extent of it."""
    def dim(self) -> builtins.int:
        """Number of axes."""
    def numel(self) -> builtins.int:
        """Number of elements."""
    def element_size(self) -> builtins.int:
        """Bytes of one element."""
    def stride(self, dim: builtins.int | None = None) -> Any:
        """How many elements lie between neighbours along each axis, or one: of row-major storage, for views as well."""
    def is_contiguous(self) -> builtins.bool:
        """Would ``reshape(-1)`` be a view?  Of what an op computed it always is."""
    def contiguous(self) -> Tensor:
        """The tensor itself; of a view that is not contiguous a copy.  Gradient: g."""
    def is_same_size(self, other: Tensor) -> builtins.bool:
        """Have both one shape?"""
    def is_floating_point(self) -> builtins.bool:
        """Is the dtype floating, and can it require a gradient?"""
    def is_complex(self) -> builtins.bool:
        """Never: there are no complex Tensors."""
    def is_signed(self) -> builtins.bool:
        """Can the dtype hold negative numbers?"""
    def new_empty(
        self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False
    ) -> Tensor:
        """As ``new_zeros``: nothing here is uninitialised."""
    def new_full(
        self, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False
    ) -> Tensor:
        """One number in a shape, by default of this dtype, which must hold it; errors are ``full``'s."""
    def new_ones(
        self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False
    ) -> Tensor:
        """Ones of a shape, by default of this dtype; errors are ``ones``'s."""
    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False
    ) -> Tensor:
        """A Tensor with a copy of ``data``, by default of this dtype; errors are ``tensor``'s."""
    def new_zeros(
        self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False
    ) -> Tensor:
        """Zeros of a shape, by default of this dtype; errors are ``zeros``'s."""
    def diff(
        self, n: builtins.int = 1, dim: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None
    ) -> Tensor:
        """Differences of neighbours along an axis, n times."""
    def movedim(self, source: Any, destination: Any) -> Tensor:
        """Axes at other places, the others in order, a view."""
    def reshape_as(self, other: Tensor) -> Tensor:
        """``reshape`` to the shape of ``other``, a view.  Gradient: g reshaped back."""
    def sum_to_size(self, *size: Any) -> Tensor:
        """Summed over the axes that broadcasting to x's shape would have added or stretched."""
    def tensor_split(self, indices_or_sections: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Parts along an axis, views: so many of nearly equal length, or cut at these indices."""
    def unflatten(self, dim: builtins.int, sizes: Any) -> Tensor:
        """One axis as several, a view; one of the extents may be −1."""
    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape, a view; a copy where PyTorch's is one, as of a transpose flattened."""
    def view(self, *shape: Any) -> Tensor:
        """``reshape`` that is always a view, also where PyTorch has none.  Gradient: g reshaped back."""
    def permute(self, *dims: Any) -> Tensor:
        """Axes in another order, a view: output axis i is input axis ``dims[i]``."""
    def transpose(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Axes ``dim0`` and ``dim1`` exchanged, a view; of a 0-d tensor itself."""
    def t(self) -> Tensor:
        """The transpose of a matrix, a view; vectors and scalars as they are."""
    def expand(self, *shape: Any) -> Tensor:
        """Broadcast to a shape, right-aligned, a view; −1 keeps an extent of x."""
    def expand_as(self, other: Tensor) -> Tensor:
        """``expand`` to the shape of ``other``, a view.  Gradient: g summed back to x's shape."""
    def unsqueeze(self, dim: builtins.int) -> Tensor:
        """A new axis of extent 1 at ``dim``, counted in the result, a view."""
    def squeeze(self, dim: Any = None) -> Tensor:
        """Without axes of extent 1 (all, or those named that have it), a view."""
    def flatten(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
        """Axes ``start_dim`` to ``end_dim`` as one, as ``reshape`` does it; a 0-d tensor gets an axis."""
    def narrow(self, dim: builtins.int, start: Any, length: builtins.int) -> Tensor:
        """The slice [start, start + length) along ``dim``, a view; a negative start counts from the end."""
    def select(self, dim: builtins.int, index: Any) -> Tensor:
        """Position ``index`` along ``dim``, a view without that axis; negative ones count from the end."""
    def split(self, split_size_or_sections: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Slices along ``dim``, views: of one size (the last may be smaller), or of the sizes listed."""
    def chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """At most ``chunks`` slices of equal size along ``dim`` (the last may be smaller), views."""
    def unbind(self, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """All positions along ``dim``, as views without it."""
    def flip(self, dims: Any) -> Tensor:
        """Elements in reversed order along ``dims``, one axis or several: a copy of x's shape and dtype."""
    def sum(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """Sum over ``dim`` (all axes if None or empty); integers and booleans in int64."""
    def mean(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """Mean over ``dim`` (all axes if None or empty) of a floating tensor, of nothing NaN."""
    def max(self, dim: Any = None, keepdim: builtins.bool = False) -> Any:
        """Largest element; along ``dim``, a (values, indices) pair; of two Tensors, ``maximum``."""
    def min(self, dim: Any = None, keepdim: builtins.bool = False) -> Any:
        """Smallest element; along ``dim``, a (values, indices) pair; of two Tensors, ``minimum``."""
    def amax(self, dim: Any = (), keepdim: builtins.bool = False) -> Tensor:
        """Largest element over ``dim`` (all axes if empty), x's dtype; NaN wins."""
    def amin(self, dim: Any = (), keepdim: builtins.bool = False) -> Tensor:
        """Smallest element over ``dim`` (all axes if empty), as ``amax``; NaN wins."""
    def argmax(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """int64 index of the largest element (along ``dim``, or of the flattened tensor), the first of several."""
    def argmin(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """int64 index of the smallest element (along ``dim``, or of the flattened tensor), as ``argmax``."""
    def any(self, dim: Any = None, keepdim: builtins.bool = False) -> Tensor:
        """Is any element nonzero (over ``dim``, or at all)?  bool."""
    def all(self, dim: Any = None, keepdim: builtins.bool = False) -> Tensor:
        """Are all elements nonzero (over ``dim``, or altogether)?  bool."""
    def matmul(self, b: Any) -> Tensor:
        """Matrix product, 1-D and batched operands as in PyTorch."""
    def logsumexp(self, dim: Any, keepdim: builtins.bool = False) -> Tensor:
        """ln Σeˣ over ``dim`` (all axes if empty), without overflow; integers in the default dtype."""
    def log_softmax(self, dim: builtins.int, *, dtype: Any = None) -> Tensor:
        """Logarithm of softmax along ``dim``, x − max − ln Σe^(x−max), with ``softmax``'s arguments and errors."""
    def softmax(self, dim: builtins.int, *, dtype: Any = None) -> Tensor:
        """Softmax along ``dim``, e^(x−max)/Σe^(x−max)."""
    def gelu(self, approximate: str = "none") -> Tensor:
        """Gaussian error linear unit: exact (``"none"``) or the tanh form (``"tanh"``)."""
    def leaky_relu(self, negative_slope: builtins.float = 0.01) -> Tensor:
        """x where x > 0, else slope·x, in x's shape and dtype."""
    def gather(self, dim: builtins.int, index: Tensor) -> Tensor:
        """One element per index along ``dim``: for dim 0, out[i][j] = x[index[i][j]][j]."""
    def index_select(self, dim: builtins.int, index: Tensor) -> Tensor:
        """Slices along ``dim`` by a 1-D integer tensor."""
    def masked_fill(self, mask: Tensor, value: Any) -> Tensor:
        """``value`` where the mask holds, x elsewhere."""
    def argwhere(self) -> Tensor:
        """``nonzero`` without options: places of the elements that are not 0, int64 [count, axes]."""
    def bincount(self, weights: Any = None, minlength: builtins.int = 0) -> Tensor:
        """How often each of 0, 1, 2, … occurs in integers [n], int64; or their weights' sum.  x is read at once."""
    def histc(self, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0) -> Tensor:
        """How many elements fall into each of equal bins between min and max, in x's dtype.  x is read at once."""
    def nonzero(self, *, as_tuple: builtins.bool = False) -> Any:
        """Places of the elements that are not 0, int64 [count, axes], or one tensor an axis.  x is read at once."""
    def unique(
        self,
        sorted: builtins.bool = True,
        return_inverse: builtins.bool = False,
        return_counts: builtins.bool = False,
        dim: builtins.int | None = None,
    ) -> Any:
        """The distinct elements (or slices along ``dim``) in ascending order.  x is read at once."""
    def cholesky(self, *, upper: builtins.bool = False) -> Tensor:
        """The lower triangular L with L·Lᵀ = A (or its transpose), for symmetric positive definite A."""
    def det(self) -> Tensor:
        """Determinant of square matrices [..., n, n]."""
    def logdet(self) -> Tensor:
        """Logarithm of the determinant of [..., n, n]; NaN for a negative one, −inf for 0."""
    def matrix_power(self, n: builtins.int) -> Tensor:
        """The n-th power of square matrices [..., k, k]; negative powers are those of the inverse."""
    def norm(self, p: Any = "fro", dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """The p-norm of the elements over ``dim`` (all axes if None); "fro" is p = 2, "nuc" that of matrices."""
    def slogdet(self) -> Slogdet:
        """Sign and logarithm of the absolute determinant of [..., n, n], a (sign, logabsdet) pair."""
    def aminmax(self, *, dim: Any = None, keepdim: builtins.bool = False) -> MinMax:
        """The smallest and the largest element (along ``dim``, or of all), a (min, max) pair."""
    def argsort(
        self, dim: builtins.int = -1, descending: builtins.bool = False, *, stable: builtins.bool = False
    ) -> Tensor:
        """int64 indices that sort x along ``dim``; equal elements keep their order, NaN counts as largest."""
    def kthvalue(self, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False) -> ValuesIndices:
        """The k-th smallest element along ``dim``, counted from 1, a (values, indices) pair; NaN counts as largest."""
    def median(self, dim: Any = None, keepdim: builtins.bool = False) -> Any:
        """The median, the lower of two; along ``dim``, a (values, indices) pair.  NaN wins."""
    def mode(self, dim: builtins.int = -1, keepdim: builtins.bool = False) -> ValuesIndices:
        """The most frequent element along ``dim``, the smallest of several, a (values, indices) pair."""
    def nanmedian(self, dim: Any = None, keepdim: builtins.bool = False) -> Any:
        """The median of what is not NaN, the lower of two; along ``dim``, a (values, indices) pair."""
    def sort(
        self, dim: builtins.int = -1, descending: builtins.bool = False, *, stable: builtins.bool = False
    ) -> ValuesIndices:
        """x sorted along ``dim`` and where each element came from, a (values, indices) pair."""
    def topk(
        self, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True
    ) -> ValuesIndices:
        """The k largest (or smallest) elements along ``dim``, best first, a (values, indices) pair."""
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """β·input + α·Σ batch1·batch2 over the batch, the input broadcasting; for β = 0 it is not looked at."""
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """β·input + α·mat1·mat2, the input broadcasting to [m, n]; for β = 0 it is not looked at."""
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """β·input + α·mat·vec, the input broadcasting to [m]; for β = 0 it is not looked at."""
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """β·input + α·(outer product of two vectors), the input broadcasting; for β = 0 it is not looked at."""
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """β·input + α·batch1·batch2 one by one, the input broadcasting; for β = 0 it is not looked at."""
    def bmm(self, b: Tensor) -> Tensor:
        """Products of matrices one by one, [batch, m, k]·[batch, k, n]; the batch does not broadcast."""
    def cross(self, b: Tensor, *, dim: builtins.int | None = None) -> Tensor:
        """Cross product along an axis of extent 3; the other axes broadcast."""
    def dot(self, b: Tensor) -> Tensor:
        """Scalar product of two vectors of one length."""
    def inner(self, b: Tensor) -> Tensor:
        """Scalar products along the last axes, [..., n] and [*, n] give [..., *]; with a 0-d operand a product."""
    def kron(self, b: Tensor) -> Tensor:
        """Kronecker product: b times each element of a, side by side; missing axes are ones in front."""
    def mm(self, b: Tensor) -> Tensor:
        """Product of two matrices, [m, k]·[k, n]."""
    def mv(self, v: Tensor) -> Tensor:
        """Product of a matrix and a vector, [m, k]·[k]."""
    def outer(self, b: Tensor) -> Tensor:
        """Every product of an element of a vector with one of another, [m] and [n] give [m, n]."""
    def vecdot(self, b: Tensor, *, dim: builtins.int = -1) -> Tensor:
        """Scalar products along ``dim``; the other axes broadcast."""
    def diag(self, diagonal: builtins.int = 0) -> Tensor:
        """Of a vector the matrix with it on a diagonal, of a matrix its diagonal, a copy."""
    def diag_embed(self, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
        """Square matrices with the last axis of x on a diagonal, zeros elsewhere."""
    def diagonal(self, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        """A diagonal of the matrices in two axes, as a last axis, a view."""
    def fliplr(self) -> Tensor:
        """Columns in reversed order, a copy."""
    def flipud(self) -> Tensor:
        """Rows in reversed order, a copy."""
    def repeat(self, *repeats: Any) -> Tensor:
        """x repeated along each axis, new axes in front; at least one count an axis."""
    def repeat_interleave(
        self, repeats: Any, dim: builtins.int | None = None, *, output_size: builtins.int | None = None
    ) -> Tensor:
        """Each element (along ``dim``, or of the flattened x) repeated: equally often, or as a tensor [n] says."""
    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        """Elements moved ``shifts`` places along ``dims`` (or flattened); what leaves comes back in front."""
    def rot90(self, k: builtins.int = 1, dims: Any = (0, 1)) -> Tensor:
        """Turned by k quarters from the first towards the second of two axes."""
    def tile(self, *dims: Any) -> Tensor:
        """x repeated along each axis; missing counts are ones in front."""
    def trace(self) -> Tensor:
        """Sum of the main diagonal of a matrix."""
    def tril(self, diagonal: builtins.int = 0) -> Tensor:
        """Elements on and below a diagonal (0 the main one, above it positive), 0 above, a copy."""
    def triu(self, diagonal: builtins.int = 0) -> Tensor:
        """Elements on and above a diagonal (0 the main one, above it positive), 0 below, a copy."""
    def cummax(self, dim: builtins.int) -> ValuesIndices:
        """Running maximum along ``dim`` and where it was last reached, a (values, indices) pair; NaN wins."""
    def cummin(self, dim: builtins.int) -> ValuesIndices:
        """Running minimum along ``dim`` and where it was last reached, a (values, indices) pair; NaN wins."""
    def cumprod(self, dim: builtins.int, *, dtype: Any = None) -> Tensor:
        """Running product along ``dim``; integers and booleans in int64, or in ``dtype``."""
    def cumsum(self, dim: builtins.int, *, dtype: Any = None) -> Tensor:
        """Running sum along ``dim``; integers and booleans in int64, or in ``dtype``."""
    def logcumsumexp(self, dim: builtins.int) -> Tensor:
        """Logarithm of the running sum of exponentials along ``dim``; integers are cast to the default dtype."""
    def prod(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """Product over ``dim`` (all axes if None); integers and booleans in int64, of nothing 1."""
    def index_add(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
        """A copy of x with slices added along ``dim``: for dim 0, out[index[i]] += alpha·source[i]."""
    def index_copy(self, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
        """A copy of x with slices written along ``dim``: for dim 0, out[index[i]] = source[i]."""
    def index_fill(self, dim: builtins.int, index: Tensor, value: Any) -> Tensor:
        """A copy of x with one number, or a 0-d Tensor, written to slices along ``dim``."""
    def index_put(self, indices: Any, values: Any, accumulate: builtins.bool = False) -> Tensor:
        """A copy of x with ``x[indices] = values`` done, or ``+=`` with duplicates accumulating."""
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """A copy of x with the elements of ``source`` written in order where the mask holds; x and mask broadcast."""
    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements of x where the mask holds, in a row; the two broadcast.  The mask is read at once."""
    def scatter(self, dim: builtins.int, index: Tensor, src: Any, *, reduce: str | None = None) -> Tensor:
        """A copy of x with ``src`` written along ``dim``: for dim 0, out[index[i][j]][j] = src[i][j]."""
    def scatter_add(self, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
        """A copy of x with ``src`` added along ``dim``, duplicates accumulate; arguments and errors as ``scatter``."""
    def scatter_reduce(
        self, dim: builtins.int, index: Tensor, src: Tensor, reduce: str, *, include_self: builtins.bool = True
    ) -> Tensor:
        """A copy of x combined with ``src`` along ``dim`` by sum, product, mean, maximum or minimum."""
    def take(self, index: Tensor) -> Tensor:
        """Elements of the flattened x by an integer tensor, in its shape; negative ones count from the end."""
    def take_along_dim(self, indices: Tensor, dim: builtins.int | None = None) -> Tensor:
        """One element per index along ``dim``, the other axes broadcasting; without ``dim``, of the flattened x."""
    def count_nonzero(self, dim: Any = None) -> Tensor:
        """How many elements are not 0 (over ``dim``, or at all), int64."""
    def nanmean(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """``mean`` of what is not NaN; of nothing else NaN."""
    def nansum(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """``sum`` with NaN counting 0."""
    def std(
        self,
        dim: Any = None,
        unbiased: builtins.bool | None = None,
        keepdim: builtins.bool = False,
        *,
        correction: Any = None,
    ) -> Tensor:
        """Standard deviation over ``dim``, √var, with ``var``'s arguments and errors."""
    def var(
        self,
        dim: Any = None,
        unbiased: builtins.bool | None = None,
        keepdim: builtins.bool = False,
        *,
        correction: Any = None,
    ) -> Tensor:
        """Variance over ``dim`` (all axes if None): Σ(x − mean)²/(count − correction), floating."""
    def add_(self, b: Any, *, alpha: Any = 1) -> Tensor:
        """In-place ``add``: writes the result into this tensor and returns it."""
    def sub_(self, b: Any, *, alpha: Any = 1) -> Tensor:
        """In-place ``sub``: writes the result into this tensor and returns it."""
    def mul_(self, b: Any) -> Tensor:
        """In-place ``mul``: writes the result into this tensor and returns it."""
    def div_(self, b: Any, *, rounding_mode: str | None = None) -> Tensor:
        """In-place ``div``: writes the result into this tensor and returns it."""
    def pow_(self, exponent: Any) -> Tensor:
        """In-place ``pow``: writes the result into this tensor and returns it."""
    def clamp_(self, min: Any = None, max: Any = None) -> Tensor:
        """In-place ``clamp``: writes the result into this tensor and returns it."""
    def neg_(self) -> Tensor:
        """In-place ``neg``: writes the result into this tensor and returns it."""
    def exp_(self) -> Tensor:
        """In-place ``exp``: writes the result into this tensor and returns it."""
    def log_(self) -> Tensor:
        """In-place ``log``: writes the result into this tensor and returns it."""
    def sqrt_(self) -> Tensor:
        """In-place ``sqrt``: writes the result into this tensor and returns it."""
    def rsqrt_(self) -> Tensor:
        """In-place ``rsqrt``: writes the result into this tensor and returns it."""
    def reciprocal_(self) -> Tensor:
        """In-place ``reciprocal``: writes the result into this tensor and returns it."""
    def abs_(self) -> Tensor:
        """In-place ``abs``: writes the result into this tensor and returns it."""
    def relu_(self) -> Tensor:
        """In-place ``relu``: writes the result into this tensor and returns it."""
    def sigmoid_(self) -> Tensor:
        """In-place ``sigmoid``: writes the result into this tensor and returns it."""
    def tanh_(self) -> Tensor:
        """In-place ``tanh``: writes the result into this tensor and returns it."""
    def sin_(self) -> Tensor:
        """In-place ``sin``: writes the result into this tensor and returns it."""
    def cos_(self) -> Tensor:
        """In-place ``cos``: writes the result into this tensor and returns it."""
    def floor_(self) -> Tensor:
        """In-place ``floor``: writes the result into this tensor and returns it."""
    def ceil_(self) -> Tensor:
        """In-place ``ceil``: writes the result into this tensor and returns it."""
    def round_(self, *, decimals: builtins.int = 0) -> Tensor:
        """In-place ``round``: writes the result into this tensor and returns it."""
    def trunc_(self) -> Tensor:
        """In-place ``trunc``: writes the result into this tensor and returns it."""
    def square_(self) -> Tensor:
        """In-place ``square``: writes the result into this tensor and returns it."""
    def remainder_(self, b: Any) -> Tensor:
        """In-place ``remainder``: writes the result into this tensor and returns it."""
    def floor_divide_(self, b: Any) -> Tensor:
        """In-place ``floor_divide``: writes the result into this tensor and returns it."""
    def acos_(self) -> Tensor:
        """In-place ``acos``: writes the result into this tensor and returns it."""
    def asin_(self) -> Tensor:
        """In-place ``asin``: writes the result into this tensor and returns it."""
    def atan_(self) -> Tensor:
        """In-place ``atan``: writes the result into this tensor and returns it."""
    def sinh_(self) -> Tensor:
        """In-place ``sinh``: writes the result into this tensor and returns it."""
    def cosh_(self) -> Tensor:
        """In-place ``cosh``: writes the result into this tensor and returns it."""
    def tan_(self) -> Tensor:
        """In-place ``tan``: writes the result into this tensor and returns it."""
    def log2_(self) -> Tensor:
        """In-place ``log2``: writes the result into this tensor and returns it."""
    def log10_(self) -> Tensor:
        """In-place ``log10``: writes the result into this tensor and returns it."""
    def sign_(self) -> Tensor:
        """In-place ``sign``: writes the result into this tensor and returns it."""
    def logical_and_(self, b: Any) -> Tensor:
        """In-place ``logical_and``: writes the result into this tensor and returns it."""
    def logical_or_(self, b: Any) -> Tensor:
        """In-place ``logical_or``: writes the result into this tensor and returns it."""
    def logical_xor_(self, b: Any) -> Tensor:
        """In-place ``logical_xor``: writes the result into this tensor and returns it."""
    def logical_not_(self) -> Tensor:
        """In-place ``logical_not``: writes the result into this tensor and returns it."""
    def eq_(self, b: Any) -> Tensor:
        """In-place ``eq``: writes the result into this tensor and returns it."""
    def ne_(self, b: Any) -> Tensor:
        """In-place ``ne``: writes the result into this tensor and returns it."""
    def lt_(self, b: Any) -> Tensor:
        """In-place ``lt``: writes the result into this tensor and returns it."""
    def le_(self, b: Any) -> Tensor:
        """In-place ``le``: writes the result into this tensor and returns it."""
    def gt_(self, b: Any) -> Tensor:
        """In-place ``gt``: writes the result into this tensor and returns it."""
    def ge_(self, b: Any) -> Tensor:
        """In-place ``ge``: writes the result into this tensor and returns it."""
    def log1p_(self) -> Tensor:
        """In-place ``log1p``: writes the result into this tensor and returns it."""
    def expm1_(self) -> Tensor:
        """In-place ``expm1``: writes the result into this tensor and returns it."""
    def exp2_(self) -> Tensor:
        """In-place ``exp2``: writes the result into this tensor and returns it."""
    def erf_(self) -> Tensor:
        """In-place ``erf``: writes the result into this tensor and returns it."""
    def erfc_(self) -> Tensor:
        """In-place ``erfc``: writes the result into this tensor and returns it."""
    def erfinv_(self) -> Tensor:
        """In-place ``erfinv``: writes the result into this tensor and returns it."""
    def asinh_(self) -> Tensor:
        """In-place ``asinh``: writes the result into this tensor and returns it."""
    def acosh_(self) -> Tensor:
        """In-place ``acosh``: writes the result into this tensor and returns it."""
    def atanh_(self) -> Tensor:
        """In-place ``atanh``: writes the result into this tensor and returns it."""
    def sinc_(self) -> Tensor:
        """In-place ``sinc``: writes the result into this tensor and returns it."""
    def atan2_(self, b: Any) -> Tensor:
        """In-place ``atan2``: writes the result into this tensor and returns it."""
    def hypot_(self, b: Any) -> Tensor:
        """In-place ``hypot``: writes the result into this tensor and returns it."""
    def xlogy_(self, b: Any) -> Tensor:
        """In-place ``xlogy``: writes the result into this tensor and returns it."""
    def copysign_(self, b: Any) -> Tensor:
        """In-place ``copysign``: writes the result into this tensor and returns it."""
    def fmod_(self, b: Any) -> Tensor:
        """In-place ``fmod``: writes the result into this tensor and returns it."""
    def frac_(self) -> Tensor:
        """In-place ``frac``: writes the result into this tensor and returns it."""
    def nan_to_num_(
        self, nan: builtins.float = 0.0, posinf: builtins.float | None = None, neginf: builtins.float | None = None
    ) -> Tensor:
        """In-place ``nan_to_num``: writes the result into this tensor and returns it."""
    def clamp_min_(self, min: Any) -> Tensor:
        """In-place ``clamp_min``: writes the result into this tensor and returns it."""
    def clamp_max_(self, max: Any) -> Tensor:
        """In-place ``clamp_max``: writes the result into this tensor and returns it."""
    def lerp_(self, end: Any, weight: Any) -> Tensor:
        """In-place ``lerp``: writes the result into this tensor and returns it."""
    def deg2rad_(self) -> Tensor:
        """In-place ``deg2rad``: writes the result into this tensor and returns it."""
    def rad2deg_(self) -> Tensor:
        """In-place ``rad2deg``: writes the result into this tensor and returns it."""
    def bitwise_not_(self) -> Tensor:
        """In-place ``bitwise_not``: writes the result into this tensor and returns it."""
    def bitwise_and_(self, b: Any) -> Tensor:
        """In-place ``bitwise_and``: writes the result into this tensor and returns it."""
    def bitwise_or_(self, b: Any) -> Tensor:
        """In-place ``bitwise_or``: writes the result into this tensor and returns it."""
    def bitwise_xor_(self, b: Any) -> Tensor:
        """In-place ``bitwise_xor``: writes the result into this tensor and returns it."""
    def bitwise_left_shift_(self, b: Any) -> Tensor:
        """In-place ``bitwise_left_shift``: writes the result into this tensor and returns it."""
    def bitwise_right_shift_(self, b: Any) -> Tensor:
        """In-place ``bitwise_right_shift``: writes the result into this tensor and returns it."""
    def copy_(self, source: Any) -> Tensor:
        """Write ``source``, a Tensor or number, broadcast and cast to this tensor."""
    def fill_(self, value: Any) -> Tensor:
        """Write one number, or the value of a 0-d Tensor, everywhere."""
    def zero_(self) -> Tensor:
        """Write zeros."""
    def addcmul_(self, a: Tensor, b: Tensor, *, value: Any = 1) -> Tensor:
        """self += value·a·b."""
    def addcdiv_(self, a: Tensor, b: Tensor, *, value: Any = 1) -> Tensor:
        """self += value·a/b."""
    def masked_fill_(self, mask: Tensor, value: Any) -> Tensor:
        """In-place ``masked_fill``: writes the result into this tensor and returns it."""
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor:
        """In-place ``masked_scatter``: writes the result into this tensor and returns it."""
    def index_add_(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
        """In-place ``index_add``: writes the result into this tensor and returns it."""
    def index_copy_(self, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
        """In-place ``index_copy``: writes the result into this tensor and returns it."""
    def index_fill_(self, dim: builtins.int, index: Tensor, value: Any) -> Tensor:
        """In-place ``index_fill``: writes the result into this tensor and returns it."""
    def index_put_(self, indices: Any, values: Any, accumulate: builtins.bool = False) -> Tensor:
        """In-place ``index_put``: writes the result into this tensor and returns it."""
    def scatter_(self, dim: builtins.int, index: Tensor, src: Any, *, reduce: str | None = None) -> Tensor:
        """In-place ``scatter``: writes the result into this tensor and returns it."""
    def scatter_add_(self, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
        """In-place ``scatter_add``: writes the result into this tensor and returns it."""
    def scatter_reduce_(
        self, dim: builtins.int, index: Tensor, src: Tensor, reduce: str, *, include_self: builtins.bool = True
    ) -> Tensor:
        """In-place ``scatter_reduce``: writes the result into this tensor and returns it."""
    def cumsum_(self, dim: builtins.int, *, dtype: Any = None) -> Tensor:
        """In-place ``cumsum``: writes the result into this tensor and returns it."""
    def cumprod_(self, dim: builtins.int, *, dtype: Any = None) -> Tensor:
        """In-place ``cumprod``: writes the result into this tensor and returns it."""
    def tril_(self, diagonal: builtins.int = 0) -> Tensor:
        """In-place ``tril``: writes the result into this tensor and returns it."""
    def triu_(self, diagonal: builtins.int = 0) -> Tensor:
        """In-place ``triu``: writes the result into this tensor and returns it."""
    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place ``addmm``: writes the result into this tensor and returns it."""
    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place ``addmv``: writes the result into this tensor and returns it."""
    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place ``addr``: writes the result into this tensor and returns it."""
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place ``addbmm``: writes the result into this tensor and returns it."""
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place ``baddbmm``: writes the result into this tensor and returns it."""
    def __add__(self, other: Any) -> Tensor:
        """The add operator."""
    def __radd__(self, other: Any) -> Tensor:
        """The add operator, the other operand first."""
    def __iadd__(self, other: Any) -> Tensor:
        """The add_ operator."""
    def __sub__(self, other: Any) -> Tensor:
        """The sub operator."""
    def __rsub__(self, other: Any) -> Tensor:
        """The sub operator, the other operand first."""
    def __isub__(self, other: Any) -> Tensor:
        """The sub_ operator."""
    def __mul__(self, other: Any) -> Tensor:
        """The mul operator."""
    def __rmul__(self, other: Any) -> Tensor:
        """The mul operator, the other operand first."""
    def __imul__(self, other: Any) -> Tensor:
        """The mul_ operator."""
    def __truediv__(self, other: Any) -> Tensor:
        """The div operator."""
    def __rtruediv__(self, other: Any) -> Tensor:
        """The div operator, the other operand first."""
    def __itruediv__(self, other: Any) -> Tensor:
        """The div_ operator."""
    def __floordiv__(self, other: Any) -> Tensor:
        """The floor_divide operator."""
    def __rfloordiv__(self, other: Any) -> Tensor:
        """The floor_divide operator, the other operand first."""
    def __ifloordiv__(self, other: Any) -> Tensor:
        """The floor_divide_ operator."""
    def __mod__(self, other: Any) -> Tensor:
        """The remainder operator."""
    def __rmod__(self, other: Any) -> Tensor:
        """The remainder operator, the other operand first."""
    def __imod__(self, other: Any) -> Tensor:
        """The remainder_ operator."""
    def __pow__(self, other: Any) -> Tensor:
        """The pow operator."""
    def __rpow__(self, other: Any) -> Tensor:
        """The pow operator, the other operand first."""
    def __ipow__(self, other: Any) -> Tensor:
        """The pow_ operator."""
    def __matmul__(self, other: Any) -> Tensor:
        """The matmul operator."""
    def __rmatmul__(self, other: Any) -> Tensor:
        """The matmul operator, the other operand first."""
    def __and__(self, other: Any) -> Tensor:
        """The bitwise_and operator."""
    def __rand__(self, other: Any) -> Tensor:
        """The bitwise_and operator, the other operand first."""
    def __iand__(self, other: Any) -> Tensor:
        """The bitwise_and_ operator."""
    def __or__(self, other: Any) -> Tensor:
        """The bitwise_or operator."""
    def __ror__(self, other: Any) -> Tensor:
        """The bitwise_or operator, the other operand first."""
    def __ior__(self, other: Any) -> Tensor:
        """The bitwise_or_ operator."""
    def __xor__(self, other: Any) -> Tensor:
        """The bitwise_xor operator."""
    def __rxor__(self, other: Any) -> Tensor:
        """The bitwise_xor operator, the other operand first."""
    def __ixor__(self, other: Any) -> Tensor:
        """The bitwise_xor_ operator."""
    def __lshift__(self, other: Any) -> Tensor:
        """The bitwise_left_shift operator."""
    def __rlshift__(self, other: Any) -> Tensor:
        """The bitwise_left_shift operator, the other operand first."""
    def __ilshift__(self, other: Any) -> Tensor:
        """The bitwise_left_shift_ operator."""
    def __rshift__(self, other: Any) -> Tensor:
        """The bitwise_right_shift operator."""
    def __rrshift__(self, other: Any) -> Tensor:
        """The bitwise_right_shift operator, the other operand first."""
    def __irshift__(self, other: Any) -> Tensor:
        """The bitwise_right_shift_ operator."""
    def __lt__(self, other: Any) -> Tensor:
        """The lt operator."""
    def __le__(self, other: Any) -> Tensor:
        """The le operator."""
    def __gt__(self, other: Any) -> Tensor:
        """The gt operator."""
    def __ge__(self, other: Any) -> Tensor:
        """The ge operator."""
    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]  # elementwise, not a bool
        """The eq operator; a stranger is just not equal."""
    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]  # elementwise, not a bool
        """The ne operator; a stranger is just not equal."""
    def __neg__(self) -> Tensor:
        """−x, in x's shape and dtype; booleans are an ArgumentTypeError."""
    def __pos__(self) -> Tensor:
        """The tensor itself."""
    def __abs__(self) -> Tensor:
        """Absolute value."""
    def __invert__(self) -> Tensor:
        """Bits turned over; of a boolean its opposite."""
    def __getitem__(self, index: Any) -> Tensor:
        """``x[index]``: integers, slices, None, ..., integer arrays and boolean masks."""
    def __setitem__(self, index: Any, value: Any) -> None:
        """Write ``value``, a number or Tensor, to the part of this tensor that ``index`` names."""
    def __len__(self) -> builtins.int:
        """The extent of the first axis."""
    def __bool__(self) -> builtins.bool:
        """Is its one element nonzero?"""
    def __float__(self) -> builtins.float:
        """The one element as a Python number."""
    def __int__(self) -> builtins.int:
        """The one element as a Python number, rounded towards 0."""
    def __index__(self) -> builtins.int:
        """The one integer or boolean as an index."""
    def __format__(self, spec: str) -> str:
        """A 0-d tensor as its number; others as they print, or, with a format, as their one element."""
    def __iter__(self) -> Iterator[Tensor]:
        """Over the positions of the first axis, as views."""
    def __contains__(self, element: Any) -> builtins.bool:
        """Is any element equal to that number, or to a Tensor that broadcasts?"""
    def __reversed__(self) -> Tensor:
        """The positions of the first axis in reverse order."""
    def __complex__(self) -> complex:
        """The one element as a Python number."""
    def __round__(self, ndigits: builtins.int | None = None) -> Tensor:
        """Every element rounded, halves to even."""
    def __copy__(self) -> Tensor:
        """Another tensor on the same storage, a leaf that requires grad if this one does."""
    def __deepcopy__(self, memo: dict[builtins.int, Any]) -> Tensor:
        """A leaf of its own, with copies of value and gradient; what shared storage does so afterwards."""
    def __reduce__(self) -> Any:
        """How to pickle it: value, flag, gradient, and what the user has put on it; its hooks stay behind."""
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Tensor:
        """What NumPy calls for ``np.sin(t)`` or ``array * t``: our function of that name, arrays as constants."""
    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: builtins.bool | None = None
    ) -> Any:
        """A DLPack capsule, for another library's ``from_dlpack``: of a copy, or with ``copy=False`` of the memory."""
    def __dlpack_device__(self) -> tuple[Any, builtins.int]:
        """Where the memory is, as DLPack's (kind of device, number)."""
    @property
    def T(self) -> Tensor:
        """All axes in reverse order, a view."""
    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged, a view."""
    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(gradient)`` whenever the gradient of this tensor is computed."""
    def register_post_accumulate_grad_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(tensor)`` whenever a backward has added to ``.grad`` of this leaf."""
    def to(
        self,
        *args: Any,
        dtype: Any = None,
        device: Any = None,
        non_blocking: builtins.bool = False,
        copy: builtins.bool = False,
    ) -> Tensor:
        """x in another dtype or on another device, itself if it is there already."""
    def type_as(self, other: Tensor) -> Tensor:
        """This tensor in the dtype of ``other``."""
    def where(self, condition: Tensor, other: Any) -> Tensor:
        """This tensor where the condition holds, else ``other``."""
    def inverse(self) -> Tensor:
        """Inverse of square matrices [..., n, n]; inf or NaN for singular ones."""
    def pinverse(self, rtol: Any = None, hermitian: builtins.bool = False, *, atol: Any = None) -> Tensor:
        """Moore-Penrose pseudo-inverse: singular values not above max(atol, rtol·largest) count as 0."""
    def float(self) -> Tensor:
        """This tensor as float32.  Gradient: g cast back."""
    def double(self) -> Tensor:
        """This tensor as float64.  Gradient: g cast back."""
    def half(self) -> Tensor:
        """This tensor as float16.  Gradient: g cast back."""
    def bfloat16(self) -> Tensor:
        """This tensor as bfloat16.  Gradient: g cast back."""
    def long(self) -> Tensor:
        """This tensor as int64.  Gradient: g cast back."""
    def int(self) -> Tensor:
        """This tensor as int32.  Gradient: g cast back."""
    def bool(self) -> Tensor:
        """This tensor as bool.  Gradient: g cast back."""
    def byte(self) -> Tensor:
        """This tensor as uint8.  Gradient: g cast back."""
    def char(self) -> Tensor:
        """This tensor as int8.  Gradient: g cast back."""
    def short(self) -> Tensor:
        """This tensor as int16.  Gradient: g cast back."""
    def cpu(self) -> Tensor:
        """This tensor on the CPU."""
    def cuda(self, device: Any = None) -> Tensor:
        """This tensor on a GPU, the first one or that of a number."""
    @property
    def is_cpu(self) -> builtins.bool:
        """Is it on a CPU?"""
    @property
    def is_cuda(self) -> builtins.bool:
        """Is it on a GPU?"""
    @property
    def is_sparse(self) -> builtins.bool:
        """Never: there are no such Tensors."""
    @property
    def is_quantized(self) -> builtins.bool:
        """Never: there are no such Tensors."""
    def is_nonzero(self) -> builtins.bool:
        """Is its one element nonzero?"""
    @property
    def nbytes(self) -> builtins.int:
        """Bytes of all elements together."""
    @property
    def itemsize(self) -> builtins.int:
        """Bytes of one element."""
    def positive(self) -> Tensor:
        """The tensor itself."""
    @property
    def real(self) -> Tensor:
        """The tensor itself."""
    @property
    def H(self) -> Tensor:
        """The last two axes exchanged, a view."""
    @property
    def mH(self) -> Tensor:
        """The last two axes exchanged, a view."""
    def adjoint(self) -> Tensor:
        """The last two axes exchanged, a view."""
    def unfold(self, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor:
        """Slices of length ``size``, ``step`` apart, along an axis, each along a new last axis; a view."""
    def as_subclass(self, cls: type[Tensor]) -> Tensor:
        """This tensor as one of a subclass: the same storage, and its place in the graph."""
    def absolute(self) -> Tensor:
        """Absolute value."""
    def absolute_(self) -> Tensor:
        """In-place ``abs``: writes the result into this tensor and returns it."""
    def arccos(self) -> Tensor:
        """Inverse cosine."""
    def arccos_(self) -> Tensor:
        """In-place ``acos``: writes the result into this tensor and returns it."""
    def arccosh(self) -> Tensor:
        """Inverse hyperbolic cosine; NaN below 1."""
    def arccosh_(self) -> Tensor:
        """In-place ``acosh``: writes the result into this tensor and returns it."""
    def arcsin(self) -> Tensor:
        """Inverse sine."""
    def arcsin_(self) -> Tensor:
        """In-place ``asin``: writes the result into this tensor and returns it."""
    def arcsinh(self) -> Tensor:
        """Inverse hyperbolic sine."""
    def arcsinh_(self) -> Tensor:
        """In-place ``asinh``: writes the result into this tensor and returns it."""
    def arctan(self) -> Tensor:
        """Inverse tangent."""
    def arctan_(self) -> Tensor:
        """In-place ``atan``: writes the result into this tensor and returns it."""
    def arctan2(self, b: Any) -> Tensor:
        """Angle of the point (x, y), in [−π, π]."""
    def arctan2_(self, b: Any) -> Tensor:
        """In-place ``atan2``: writes the result into this tensor and returns it."""
    def arctanh(self) -> Tensor:
        """Inverse hyperbolic tangent; ±inf at ±1, NaN outside."""
    def arctanh_(self) -> Tensor:
        """In-place ``atanh``: writes the result into this tensor and returns it."""
    def clip(self, min: Any = None, max: Any = None) -> Tensor:
        """Limit to [min, max]: numbers or Tensors; NaN passes."""
    def clip_(self, min: Any = None, max: Any = None) -> Tensor:
        """In-place ``clamp``: writes the result into this tensor and returns it."""
    def divide(self, b: Any, *, rounding_mode: str | None = None) -> Tensor:
        """a/b, true division also for integers, which are cast to the default dtype first."""
    def divide_(self, b: Any, *, rounding_mode: str | None = None) -> Tensor:
        """In-place ``div``: writes the result into this tensor and returns it."""
    def true_divide(self, b: Any, *, rounding_mode: str | None = None) -> Tensor:
        """a/b, true division also for integers, which are cast to the default dtype first."""
    def true_divide_(self, b: Any, *, rounding_mode: str | None = None) -> Tensor:
        """In-place ``div``: writes the result into this tensor and returns it."""
    def fix(self) -> Tensor:
        """x rounded towards 0."""
    def fix_(self) -> Tensor:
        """In-place ``trunc``: writes the result into this tensor and returns it."""
    def multiply(self, b: Any) -> Tensor:
        """a·b, broadcasting."""
    def multiply_(self, b: Any) -> Tensor:
        """In-place ``mul``: writes the result into this tensor and returns it."""
    def subtract(self, b: Any, *, alpha: Any = 1) -> Tensor:
        """a − alpha·b, broadcasting; a boolean, Tensor or number, is an ArgumentTypeError."""
    def subtract_(self, b: Any, *, alpha: Any = 1) -> Tensor:
        """In-place ``sub``: writes the result into this tensor and returns it."""
    def negative(self) -> Tensor:
        """−x, in x's shape and dtype; booleans are an ArgumentTypeError."""
    def negative_(self) -> Tensor:
        """In-place ``neg``: writes the result into this tensor and returns it."""
    def sgn(self) -> Tensor:
        """Sign: -1, 0 or 1; 0 for NaN."""
    def sgn_(self) -> Tensor:
        """In-place ``sign``: writes the result into this tensor and returns it."""
    def greater(self, b: Any) -> Tensor:
        """a > b, elementwise."""
    def greater_(self, b: Any) -> Tensor:
        """In-place ``gt``: writes the result into this tensor and returns it."""
    def greater_equal(self, b: Any) -> Tensor:
        """a >= b, elementwise."""
    def greater_equal_(self, b: Any) -> Tensor:
        """In-place ``ge``: writes the result into this tensor and returns it."""
    def less(self, b: Any) -> Tensor:
        """a < b, elementwise."""
    def less_(self, b: Any) -> Tensor:
        """In-place ``lt``: writes the result into this tensor and returns it."""
    def less_equal(self, b: Any) -> Tensor:
        """a <= b, elementwise."""
    def less_equal_(self, b: Any) -> Tensor:
        """In-place ``le``: writes the result into this tensor and returns it."""
    def not_equal(self, b: Any) -> Tensor:
        """a != b, elementwise."""
    def not_equal_(self, b: Any) -> Tensor:
        """In-place ``ne``: writes the result into this tensor and returns it."""
    def ger(self, b: Tensor) -> Tensor:
        """Every product of an element of a vector with one of another, [m] and [n] give [m, n]."""
    def moveaxis(self, source: Any, destination: Any) -> Tensor:
        """Axes at other places, the others in order, a view."""
    def ravel(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
        """Axes ``start_dim`` to ``end_dim`` as one, as ``reshape`` does it; a 0-d tensor gets an axis."""
    def swapaxes(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Axes ``dim0`` and ``dim1`` exchanged, a view; of a 0-d tensor itself."""
    def swapdims(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Axes ``dim0`` and ``dim1`` exchanged, a view; of a 0-d tensor itself."""
    def unsafe_chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """At most ``chunks`` slices of equal size along ``dim`` (the last may be smaller), views."""
    def unsafe_split(self, split_size_or_sections: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Slices along ``dim``, views: of one size (the last may be smaller), or of the sizes listed."""
    def split_with_sizes(self, split_size_or_sections: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Slices along ``dim``, views: of one size (the last may be smaller), or of the sizes listed."""
    def view_as(self, other: Tensor) -> Tensor:
        """``reshape`` to the shape of ``other``, a view.  Gradient: g reshaped back."""
    def broadcast_to(self, *shape: Any) -> Tensor:
        """Broadcast to a shape, right-aligned, a view; −1 keeps an extent of x."""
    def nelement(self) -> builtins.int:
        """Number of elements."""
    def ndimension(self) -> builtins.int:
        """Number of axes."""
    def conj(self) -> Tensor:
        """The tensor itself."""
    def conj_physical(self) -> Tensor:
        """The tensor itself."""
    def resolve_conj(self) -> Tensor:
        """The tensor itself."""
    def resolve_neg(self) -> Tensor:
        """The tensor itself."""
