"""``autocast``: products and convolutions in a narrow dtype, what loses too much by it in float32.

NOTE [autocast]: casts are ops that are recorded like any other, so gradients go
back through them to the leaf's own dtype, and the dtype in force is part of
every key that a trail is walked by, and of the keys of JAX's own caches.  No
program knows of it otherwise: other casts are other programs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import jax

from .dtypes import DType, as_dtype, bfloat16, float16, float32, float64, is_floating, promote_types
from .rules import ArgumentTypeError, ArgumentValueError
from .rules.kinds import shown
from .rules.op import Row
from .state import LOCAL, decorated, here

if TYPE_CHECKING:
    from .tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

DTYPES: tuple[DType | None, ...] = (None, bfloat16, float16)  # by code

# What is cast, by row: PyTorch's lists for accelerators (and of those for CPUs the linear algebra).
_NARROW = "matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d"
_WIDE = (
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow pow_tensor softplus softmax "
    "log_softmax logsumexp sum sum_dim prod cumsum cumprod vector_norm binary_cross_entropy huber_loss smooth_l1_loss "
    "cholesky det eigh inv pinv qr slogdet solve solve_triangular svd"
)
NARROW, WIDE = frozenset(_NARROW.split()), frozenset(_WIDE.split())
# ...and by function, where operands are looked at before a row is recorded: see ``narrow``, ``in_float32``, ``widest``.

_PLATFORMS = {"cuda": float16, "gpu": float16, "rocm": float16, "cpu": bfloat16, "tpu": bfloat16, "xla": bfloat16}

# JAX keys what it traces by it, so that a function that somebody's jax.jit has traced is traced anew.
_known_to_jax = jax.make_user_context(0)


class autocast:
    """Compute matrix products and convolutions in a narrow dtype: ``with autocast(bfloat16):`` or ``@autocast(...)``.

    Inside, floating operands other than float64 are cast where PyTorch casts them:

    - to the narrow dtype for ``matmul`` and all that is made of it (``@ mm bmm mv addmm addmv addr addbmm
      baddbmm einsum inner linear vecdot scaled_dot_product_attention``), and for convolutions;
    - to float32 for ``exp expm1 log log1p log2 log10 pow reciprocal rsqrt tan acos asin sinh cosh erfinv softplus
      softmax log_softmax logsumexp sum prod cumsum cumprod cdist cosine_similarity normalize interpolate``, norms,
      ``layer_norm group_norm rms_norm``, losses and decompositions;
    - to the widest among them for ``dot cross bilinear tensordot scatter_add index_put``.

    Everything else takes its operands as they are and promotes them.  One list serves all
    devices; it is PyTorch's for accelerators.  Per thread, restored after exceptions, nests; the
    innermost counts.  In-place ops keep the dtype of the tensor that is written.

    Args:
        device_type: as PyTorch's first argument; names no device here, only the default of
            ``dtype``.  A dtype in its place is taken as ``dtype``.
        dtype: bfloat16 or float16; by default float16 for "cuda", else bfloat16.
        enabled: False casts nothing inside, also within another ``autocast``.
        cache_enabled: accepted; XLA computes equal casts once.

    Raises:
        ArgumentTypeError: no dtype, or ``enabled`` is no bool.
        ArgumentValueError: another dtype, or an unknown kind of device.

    Gradient: casts are differentiated; every leaf gets its gradient in its own dtype.
    Source: PyTorch's ``torch.autocast``.
    Example:
        >>> x = ones(2, 2)
        >>> with autocast(bfloat16):
        ...     y = x @ x
        >>> y.dtype.name, (x @ x).dtype.name
        ('bfloat16', 'float32')
    """

    def __init__(
        self, device_type: Any = None, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        default: DType = bfloat16
        if isinstance(device_type, str) and device_type.partition(":")[0] in _PLATFORMS:
            default = _PLATFORMS[device_type.partition(":")[0]]
        elif isinstance(device_type, jax.Device):
            default = _PLATFORMS.get(device_type.platform, bfloat16)
        elif device_type is not None:
            dtype = self._dtype_from(device_type, dtype)
        wanted = default if dtype is None else as_dtype(dtype)
        if not isinstance(enabled, bool):
            raise ArgumentTypeError(f"[autocast] enabled must be True or False, got {shown(enabled)}")
        if wanted not in DTYPES[1:]:  # a dtype may equal None
            raise ArgumentValueError(f"[autocast] dtype must be bfloat16 or float16, got {wanted}")
        self._again = functools.partial(autocast, dtype=wanted, enabled=enabled)
        self.code = DTYPES.index(wanted) if enabled else 0
        self._before: list[tuple[int, Any]] = []

    @staticmethod
    def _dtype_from(first: Any, dtype: Any) -> Any:
        """The dtype from where PyTorch has the kind of device."""
        try:
            found = as_dtype(first)
        except ArgumentTypeError:
            raise ArgumentValueError(
                f"[autocast] the first argument is a kind of device ({', '.join(_PLATFORMS)}) or a dtype, "
                f"got {shown(first)}"
            ) from None
        if dtype is not None:
            raise ArgumentTypeError(f"[autocast] got two dtypes, {found} and {dtype}")
        return found

    def __enter__(self) -> None:
        recorder, jax_too = here(), _known_to_jax(self.code)
        self._before.append((recorder.autocast, jax_too))
        jax_too.__enter__()
        recorder.autocast = self.code

    def __exit__(self, *exc: object) -> None:
        code, jax_too = self._before[-1]
        try:
            LOCAL.now.autocast = code
        except KeyboardInterrupt:
            LOCAL.now.autocast = code
            raise
        finally:
            del self._before[-1]
            jax_too.__exit__(*exc)

    def __call__(self, fn: F) -> F:
        if not callable(fn):
            raise ArgumentTypeError(f"[autocast] takes a function to decorate, got {type(fn).__name__}")
        return decorated(fn, self._again)  # one of its own for each call: threads may call at once


def is_autocast_enabled(device_type: Any = None) -> bool:
    """Does ``autocast`` cast anything here?  The kind of device makes no difference.

    Example:
        >>> with autocast("cpu"):
        ...     is_autocast_enabled()
        True
    """
    return here().autocast != 0


def get_autocast_dtype(device_type: Any = None) -> DType:
    """The dtype ``autocast`` casts to here; bfloat16, its default, where it does not.

    Example:
        >>> with autocast("cuda"):
        ...     get_autocast_dtype().name
        'float16'
    """
    return DTYPES[here().autocast] or bfloat16


# -- where it takes effect -----------------------------------------------------------------


def operands_of(row: Row, operands: Sequence[Tensor], code: int) -> tuple[Tensor, ...]:
    """The operands as ``row`` shall see them."""
    name = row.name
    if name in NARROW:
        return tuple([_cast(t, DTYPES[code]) for t in operands])
    return tuple([_cast(t, float32) for t in operands]) if name in WIDE else tuple(operands)


def _cast(value: Any, dtype: Any) -> Any:
    """A floating Tensor narrower than float64 in ``dtype``, anything else as it is."""
    from .arithmetic import cast
    from .tensor import Tensor

    if not isinstance(value, Tensor):
        return [_cast(v, dtype) for v in value] if isinstance(value, (list, tuple)) else value
    given = value.dtype
    return cast(value, dtype) if given != float64 and is_floating(given) else value


def narrow(fn: F) -> F:
    """A function that ``autocast`` lets see the narrow dtype; nothing is cast inside."""
    return _casting(fn, lambda code, args: DTYPES[code])


def in_float32(fn: F) -> F:
    """A function that ``autocast`` lets see float32; nothing is cast inside."""
    return _casting(fn, lambda code, args: float32)


def widest(fn: F) -> F:
    """A function that ``autocast`` lets see the widest floating dtype among its Tensors; nothing is cast inside."""
    return _casting(fn, lambda code, args: _widest(args))


def _widest(args: Sequence[Any]) -> DType:
    from .tensor import Tensor

    found = [a.dtype for a in args if isinstance(a, Tensor) and is_floating(a.dtype) and a.dtype != float64]
    return functools.reduce(promote_types, found, found[0] if found else float32)


def _casting(fn: F, choose: Callable[[int, Sequence[Any]], Any]) -> F:
    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        recorder = LOCAL.now
        code = recorder.autocast
        if not code:
            return fn(*args, **kwargs)
        dtype = choose(code, (*args, *kwargs.values()))
        args = tuple([_cast(a, dtype) for a in args])
        kwargs = {name: _cast(a, dtype) for name, a in kwargs.items()}
        recorder.autocast = 0
        try:
            return fn(*args, **kwargs)
        finally:
            recorder.autocast = code

    return wrapped  # type: ignore[return-value]
