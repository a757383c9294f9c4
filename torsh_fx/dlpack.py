"""Memory that goes to other libraries and comes from them, by the DLPack protocol.

NOTE [mutable]: JAX believes that an array never changes, other libraries write into
theirs.  So what comes in is copied unless it is JAX's own, and what goes out is a copy;
``copy=False`` shares the memory, and then writes on the other side show here, in values
that were computed as well.  Memory that is shared is never given to XLA to write over.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from .dtypes import as_dtype
from .executor import force
from .graph import leaf
from .rules import ArgumentTypeError, ArgumentValueError, AutogradError
from .rules.kinds import shown
from .state import here
from .storage import note_read
from .tensor import Tensor, from_array
from .traces import trace_start


def exported(
    self: Tensor, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    """A DLPack capsule, for another library's ``from_dlpack``: of a copy, or with ``copy=False`` of the memory."""
    _check_flag("__dlpack__", copy)
    if self.requires_grad:
        raise AutogradError(
            "[__dlpack__] the other library would not know of the gradient of a tensor that requires grad; use detach()"
        )
    value = _value(self, "__dlpack__")
    note_read(self)
    try:
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            if copy is False:
                self._node.exported = value
            else:
                value = jnp.array(value, copy=True)
            options = {"stream": stream, "max_version": max_version, "dl_device": dl_device}
            return jax.block_until_ready(value).__dlpack__(**options)
    except (BufferError, ValueError, NotImplementedError, RuntimeError) as error:
        raise ArgumentValueError(
            f"[__dlpack__] a tensor of {self.dtype} on {self.device} cannot be exported so: {error}"
        ) from error


def device_of(self: Tensor) -> tuple[Any, int]:
    """Where the memory is, as DLPack's (kind of device, number)."""
    value = _value(self, "__dlpack_device__")
    try:
        return value.__dlpack_device__()  # type: ignore[no-any-return]
    except (BufferError, ValueError, NotImplementedError, RuntimeError) as error:
        raise ArgumentValueError(f"[__dlpack_device__] DLPack has no name for {self.device}: {error}") from error


def _value(t: Tensor, op: str) -> Any:
    value = force(t._node)
    if isinstance(value, jax.core.Tracer):
        raise AutogradError(
            f"[{op}] inside jax.jit, vmap or grad a tensor has no memory yet; return it from the function first"
        )
    return value


def from_dlpack(x: Any, *, copy: bool | None = None, device: Any = None) -> Tensor:
    """A Tensor from whatever speaks DLPack: a PyTorch tensor, a NumPy or CuPy array, a JAX array, a Tensor.

    Args:
        x: an object with ``__dlpack__`` and ``__dlpack_device__``.
        copy: by default memory that somebody could write to is copied, and only that of
            JAX arrays and Tensors is shared.  True always copies.  False insists on
            sharing: a write to ``x`` then shows here, also in values that should be final.
        device: a JAX device or a name; by default where ``x`` is, or, of a copy from the
            host, wherever it is used.

    Returns:
        A Tensor of x's shape and dtype that does not require grad.

    Raises:
        ArgumentTypeError: x does not speak DLPack, or has a dtype there is no Tensor of.
        ArgumentValueError: with ``copy=False``, memory that JAX cannot look at: strided,
            read-only or not aligned to 64 bytes; a device that there is not.
        AutogradError: x requires grad, here or in its own library: detach it first.

    Example:
        >>> from_dlpack(np.arange(3.0))
        tensor([0., 1., 2.], dtype=float64)
    """
    _check_flag("from_dlpack", copy)
    if isinstance(x, Tensor):
        if x.requires_grad:
            raise AutogradError("[from_dlpack] the Tensor requires grad, and what comes out does not; use detach()")
        x = x.detach().jax()
    if here().capture is not None:
        here().capture.note_array(sys._getframe(1).f_code.co_filename)
    if isinstance(x, jax.Array):
        as_dtype(x.dtype)
        traced = isinstance(x, jax.core.Tracer)  # which nobody can write to
        out = Tensor(leaf(_copy(x))) if copy and not traced else from_array(x)
    else:
        out = from_array(imported("from_dlpack", x)) if copy is False else Tensor(leaf(copied("from_dlpack", x)))
    return out if device is None else out.to(device=device)


def imported(op: str, x: Any) -> jax.Array:
    """A JAX array that looks at the memory of ``x``."""
    _check_speaks(op, x)
    if _is_negated(x):
        raise ArgumentValueError(f"[{op}] this {type(x).__name__} is the negative of its memory: let copy=False be")
    try:
        found = _look(x, False)
    except Exception as error:
        _refuse(op, x, error)
    as_dtype(found.dtype)
    return found


def copied(op: str, x: Any) -> jax.Array:
    """A JAX array with a copy of what ``x`` holds now."""
    if isinstance(x, np.ndarray):  # its protocol refuses what is read-only
        return _of_host(x)
    _check_speaks(op, x)
    if _is_negated(x):
        x = x.resolve_neg()
    try:
        found = _look(x, None)
    except Exception as error:
        if not _is_strided(error):
            _refuse(op, x, error)
        try:
            found = _look(_Compact(x), None)
        except Exception as again:
            _refuse(op, x, again)
    as_dtype(found.dtype)
    on_host = all(d.platform == "cpu" for d in found.devices())
    return _copy(np.asarray(found) if on_host else found)  # from the host it goes wherever it is used


def _copy(x: Any) -> jax.Array:
    # JAX shares memory even where it was told to copy, and copies late; the owner goes on writing once we return.
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return jax.block_until_ready(jnp.array(x, copy=True))  # type: ignore[no-any-return]


def _look(x: Any, copy: bool | None) -> jax.Array:
    trace_start()
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return jax.dlpack.from_dlpack(x, copy=copy)  # type: ignore[no-any-return]


def _of_host(x: np.ndarray[Any, Any]) -> jax.Array:
    native = x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))
    as_dtype(native.dtype)
    trace_start()
    return _copy(native)


class _Compact:
    """Asks the owner of strided memory for a copy without gaps."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**options | {"copy": True})

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()


def _is_negated(x: Any) -> bool:
    """Is it one of PyTorch's lazy negatives?  Its DLPack does not say so."""
    ask = getattr(x, "is_neg", None)
    return callable(ask) and ask() is True


def _is_strided(error: Exception) -> bool:
    return isinstance(error, jax.errors.JaxRuntimeError) and "strid" in str(error)


def _refuse(op: str, x: Any, error: Exception) -> NoReturn:
    kind = type(x).__name__
    if getattr(x, "requires_grad", False) is True:
        raise AutogradError(f"[{op}] this {kind} requires grad, and its gradient would be lost: detach it") from error
    dtype = getattr(x, "dtype", None)
    what = f"{kind} of {dtype}" if dtype is not None else kind
    if _is_strided(error):
        raise ArgumentValueError(
            f"[{op}] JAX looks only at memory without gaps or repetitions, and this {what} is strided: make it "
            "contiguous, or let copy=False be"
        ) from error
    if isinstance(error, (BufferError, TypeError)) and "readonly" not in str(error):
        raise ArgumentTypeError(f"[{op}] {what} cannot become a Tensor: {error}") from error
    raise ArgumentValueError(f"[{op}] the memory of this {what} cannot be looked at: {error}") from error


def _check_speaks(op: str, x: Any) -> None:
    if not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        raise ArgumentTypeError(f"[{op}] needs an object with __dlpack__ and __dlpack_device__, got {shown(x)}")


def _check_flag(op: str, copy: Any) -> None:
    if copy is not None and not isinstance(copy, (bool, np.bool_)):
        raise ArgumentTypeError(f"[{op}] copy is True, False or None, got {shown(copy)}")
