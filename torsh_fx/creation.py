"""Making Tensors from data, and from nothing."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from array import array
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import docs
from .arithmetic import as_number, filled, fitting, is_number, operand
from .devices import as_device, moved, names_device
from .dlpack import copied
from .dtypes import as_dtype, category, get_default_dtype, int64, promote_types
from .graph import leaf
from .record import constant, put
from .rules import ArgumentTypeError, ArgumentValueError, TorshError
from .rules.kinds import integer_of, is_symbolic, shown
from .rules.op import check_size
from .shaping import sizes
from .state import here
from .tensor import Tensor, from_array
from .traces import trace_start
from .trail import layout, placed


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A Tensor with a copy of ``data``.

    Args:
        data: numbers, nested lists, a NumPy or JAX array, a Tensor, or another library's by DLPack.
        dtype: by default that of an array; float32 for Python floats, int64 for
            integers, bool for booleans.
        device: a JAX device, or a name such as "cpu" or "cuda:1".
        requires_grad: make it a leaf that collects gradients.

    Raises:
        ArgumentTypeError: ragged lists, text, complex numbers, an unknown dtype.
        ArgumentValueError: a number the dtype cannot hold, or no such device.
        AutogradError: ``requires_grad`` on integers or booleans; ``data`` requires grad in another library.

    Example:
        >>> tensor([1.0, 2.0])
        tensor([1., 2.])
    """
    out = _place(_from_data(data, dtype), device)
    return out.requires_grad_(requires_grad)


def as_tensor(data: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """``data`` as a Tensor: itself if it is one already, a JAX array shared, else a copy.

    Arguments and errors are ``tensor``'s.  Gradient: g, where a Tensor is cast.

    Example:
        >>> x = tensor([1.0])
        >>> as_tensor(x) is x
        True
    """
    if isinstance(data, Tensor):
        return data if dtype is None and device is None else to(data, dtype=dtype, device=device)
    if isinstance(data, jax.Array) and dtype is None and as_dtype(data.dtype):
        return _place(from_array(data), device)
    return tensor(data, dtype=dtype, device=device)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """A Tensor with a copy of a NumPy array (functional storage cannot share it), of its dtype.

    Raises:
        ArgumentTypeError: not a NumPy array, or one of a dtype there is no Tensor of.

    Example:
        >>> from_numpy(np.array([1, 2])).tolist()
        [1, 2]
    """
    if not isinstance(array, np.ndarray):
        raise ArgumentTypeError(f"from_numpy needs a NumPy array, got {type(array).__name__}")
    return tensor(array)


def _from_data(data: Any, dtype: Any) -> Tensor:
    wanted = None if dtype is None else as_dtype(dtype)
    foreign = not isinstance(data, (np.ndarray, jax.Array, Tensor)) and hasattr(data, "__dlpack__")
    if (isinstance(data, np.ndarray) or foreign) and here().capture is not None:
        here().capture.note_array(sys._getframe(2).f_code.co_filename)
    if isinstance(data, Tensor):
        data = data.detach().jax()
    if foreign:
        fresh = copied("tensor", data)
        if wanted is None or wanted == fresh.dtype:
            return Tensor(leaf(fresh))
        data = np.asarray(fresh)
    if isinstance(data, jax.core.Tracer):
        out = from_array(data)
        return out if wanted is None or wanted == out.dtype else out.to(wanted).detach()
    if isinstance(data, jax.Array):
        if wanted is None:
            as_dtype(data.dtype)
            return from_array(data)
        data = np.asarray(data)
    if isinstance(data, (list, tuple)) and _holds(data, (Tensor, jax.core.Tracer)):
        return _stacked(data, wanted)
    host = _host(data)
    wanted = as_dtype(_natural(data, host) if wanted is None else wanted)
    trace_start()
    if host.size and category(wanted) == 1 and host.dtype.kind != "b":
        _refuse_overflow(host, wanted)
    with np.errstate(over="ignore"):  # 1e300 is inf in float32, as in PyTorch
        return Tensor(constant(host.astype(wanted)))


def _refuse_overflow(host: np.ndarray[Any, Any], dtype: Any) -> None:
    """Refuse numbers an integer dtype does not hold; unsigned ones wrap -1, as in PyTorch."""
    if not np.isfinite(host.astype(np.float64)).all():
        raise ArgumentValueError(f"inf or NaN cannot become {dtype}")
    for extreme in (host.min(), host.max()):
        fitting("tensor", extreme, dtype)


def _holds(data: Any, kinds: tuple[type, ...]) -> bool:
    return any(isinstance(e, kinds) or (isinstance(e, (list, tuple)) and _holds(e, kinds)) for e in data)


def _stacked(data: Any, dtype: Any) -> Tensor:
    from .shaping import stack

    out = stack([e if isinstance(e, Tensor) else tensor(e) for e in data]).detach()
    return out if dtype is None else out.to(dtype)


def _host(data: Any) -> np.ndarray[Any, Any]:
    try:
        host = np.asarray(data)
    except (ValueError, TypeError) as error:
        raise ArgumentTypeError(f"data is ragged or not numeric: {error}") from error
    if host.dtype.kind == "c":
        raise ArgumentTypeError("complex numbers are not supported; use the real and imaginary parts as two tensors")
    if host.dtype.kind not in "fiub" and host.dtype.name != "bfloat16":
        hint = " (an integer beyond 64 bits, a ragged list or text?)" if host.dtype == object else ""
        raise ArgumentTypeError(f"data must be numbers or booleans, got {host.dtype} elements{hint}")
    return host if host.dtype.isnative else host.astype(host.dtype.newbyteorder("="))


def _natural(data: Any, host: np.ndarray[Any, Any]) -> Any:
    """The dtype that data brings; of Python's numbers PyTorch's, and of both in a list what both promote to."""
    plain = {"b": np.dtype(bool), "i": int64, "u": int64}.get(host.dtype.kind, get_default_dtype())
    if isinstance(data, (list, tuple)):
        return _promoted(data) if any(map(_is_typed, _types(data))) else plain
    return host.dtype if _is_typed(type(data)) else plain


def _types(data: Any) -> set[type]:
    """Those of the elements of nested lists."""
    found = set(map(type, data))
    if any(issubclass(t, (list, tuple)) for t in found):
        found = found.union(*[_types(e) for e in data if isinstance(e, (list, tuple))])
    return found


def _is_typed(kind: type) -> bool:
    """Do things of this type bring a dtype of their own?"""
    return issubclass(kind, (memoryview, bytearray, array)) or hasattr(kind, "__array__")


def _promoted(data: Any) -> Any:
    found = [_natural(e, np.asarray(e)) for e in data]
    return functools.reduce(promote_types, found) if found else get_default_dtype()


def _place(x: Tensor, device: Any) -> Tensor:
    if device is None:
        return x
    return from_array(put(x.jax(), as_device(device)))


def to(
    x: Tensor, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, copy: bool = False
) -> Tensor:
    """x in another dtype or on another device, itself if it is there already.

    Args:
        args: dtypes, devices, or a Tensor whose dtype and device are meant.
        non_blocking: accepted as PyTorch's; nothing here waits for a copy.
        copy: never give x itself.

    Raises:
        ArgumentTypeError: there is no such dtype.
        ArgumentValueError: there is no such device; those that are, are listed.
        AutogradError: a move inside a compiled step, which runs on one device.

    Gradient: g cast back and moved back to x's device; integers have none.
    Source: ``rules.convert`` and ``jax.device_put``.
    Example:
        >>> to(tensor([1.5]), "int64")
        tensor([1])
    """
    for arg in args:
        if isinstance(arg, Tensor):
            dtype = arg.dtype
            device = device if arg._node.traced else arg.device
        elif isinstance(arg, (jax.Device, jax.sharding.Sharding)) or (isinstance(arg, str) and names_device(arg)):
            device = arg
        elif arg is not None:
            dtype = arg
    out = x
    if dtype is not None and as_dtype(dtype) != x.dtype:
        from .arithmetic import cast

        out = cast(out, as_dtype(dtype))
    if device is not None:
        target = as_device(device)
        if out._node.traced or out.device != target:  # where a tracer lies, nobody knows
            out = moved(out, target)
    if copy and out is x:
        from .arithmetic import clone

        out = clone(x)
    return out


def _extents(op: str, size: tuple[Any, ...]) -> tuple[int, ...]:
    shape = sizes(op, size)
    if any(e < 0 for e in shape):
        raise ArgumentValueError(f"[{op}] extents must not be negative, got {list(shape)}")
    check_size(op, shape, np.float64)
    return shape


@docs.shared(docs.FULL)
def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of shape ``size`` filled with one number; the number is a runtime value.

    Example:
        >>> full((2,), 7)
        tensor([7, 7])
    """
    shape = _extents("full", (size,))
    if not is_number(fill_value):
        raise ArgumentTypeError(f"[full] fill_value must be a number, got {type(fill_value).__name__}")
    number = as_number(fill_value)
    if dtype is None:
        dtype = bool if isinstance(number, bool) else int64 if isinstance(number, int) else get_default_dtype()
    out = _place(filled(number, as_dtype(dtype), shape), device)
    return out.requires_grad_(requires_grad)


@docs.shared(docs.CONSTANT)
def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of a shape, float32 unless told otherwise.

    Example:
        >>> zeros(2)
        tensor([0., 0.])
    """
    return _constant("zeros", size, 0, dtype, device, requires_grad)


@docs.shared(docs.CONSTANT)
def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of a shape, float32 unless told otherwise.

    Example:
        >>> ones(2)
        tensor([1., 1.])
    """
    return _constant("ones", size, 1, dtype, device, requires_grad)


@docs.shared(docs.CONSTANT)
def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """As ``zeros``: nothing here is uninitialised.

    Example:
        >>> empty(2).shape
        (2,)
    """
    return _constant("empty", size, 0, dtype, device, requires_grad)


def _constant(op: str, size: tuple[Any, ...], number: int, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    wanted = get_default_dtype() if dtype is None else as_dtype(dtype)
    trace_start()
    shape = _extents(op, size)
    try:
        staged = any(map(is_symbolic, shape))
        with jax.enable_x64(True), contextlib.nullcontext() if staged else jax.ensure_compile_time_eval():
            value = jnp.full(shape, number, wanted)
    except jax.errors.JaxRuntimeError as error:
        raise TorshError(f"[{op}] there is no memory for shape {list(shape)} of {wanted}") from error
    out = _place(Tensor(leaf(value)), device)
    return out.requires_grad_(requires_grad)


@docs.shared(docs.LIKE)
def zeros_like(x: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of x's shape and dtype (or ``dtype``).

    Example:
        >>> zeros_like(tensor([1, 2])).tolist()
        [0, 0]
    """
    return _like(zeros, "zeros_like", x, dtype, device, requires_grad)


@docs.shared(docs.LIKE)
def ones_like(x: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of x's shape and dtype (or ``dtype``).

    Example:
        >>> ones_like(tensor([1, 2])).tolist()
        [1, 1]
    """
    return _like(ones, "ones_like", x, dtype, device, requires_grad)


@docs.shared(docs.LIKE)
def empty_like(x: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """As ``zeros_like``."""
    return _like(zeros, "empty_like", x, dtype, device, requires_grad)


@docs.shared(docs.LIKE)
def full_like(
    x: Tensor, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """One number in x's shape and dtype (or ``dtype``), which must hold it.

    Example:
        >>> full_like(tensor([1, 2]), 7).tolist()
        [7, 7]
    """
    t = operand("full_like", x)
    wanted = t.dtype if dtype is None else dtype
    return full(t.shape, fill_value, dtype=wanted, device=_beside(t, device), requires_grad=requires_grad)


def _beside(x: Tensor, device: Any) -> Any:
    """Where something like x is made: on a mesh it lies as x does."""
    return layout(x._node) if device is None and placed else device


def _like(make: Callable[..., Tensor], op: str, x: Tensor, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    t = operand(op, x)
    device = _beside(t, device)
    return make(t.shape, dtype=t.dtype if dtype is None else dtype, device=device, requires_grad=requires_grad)


@docs.shared(docs.ARANGE)
def arange(
    *bounds: Any,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... below end: ``arange(end)``, ``arange(start, end, step)``, also by name.

    Example:
        >>> arange(3)
        tensor([0, 1, 2])
    """
    numbers = _bounds(bounds, start, end, step)
    start, end, step = numbers
    if not all(map(math.isfinite, (start, end, step))) or step == 0 or (end - start) * step < 0:
        raise ArgumentValueError(f"[arange] step {step} does not lead from {start} to {end}")
    whole = all(isinstance(b, int) for b in numbers)
    count = -((start - end) // step) if whole else math.ceil((end - start) / step)
    check_size("arange", (count,), np.int64)
    if whole:
        fitting("arange", max(start, end, key=abs), int64)
    host = start + step * np.arange(count) if count else np.zeros(0)
    natural = int64 if whole else get_default_dtype()
    return tensor(host, dtype=natural if dtype is None else dtype, device=device, requires_grad=requires_grad)


def _bounds(given: tuple[Any, ...], start: Any, end: Any, step: Any) -> tuple[Any, Any, Any]:
    """(start, end, step) as numbers, by position (one alone is the end unless that is named) and by name."""
    if len(given) == 1 and end is None:
        given = (0 if start is None else start, *given)
        start = None
    by_name = (start, end, step)
    merged = [*given, *by_name[len(given) :]]
    if not 2 <= len(merged) <= 3 or merged[1] is None or any(b is not None for b in by_name[: len(given)]):
        raise ArgumentTypeError(f"[arange] takes 1 to 3 bounds, an end among them, each once; got {[*given, *by_name]}")
    for k, default in ((0, 0), (2, 1)):
        merged[k] = default if merged[k] is None else merged[k]
    numbers = [as_number(b) if is_number(b) else b for b in merged]
    if not all(isinstance(b, (bool, int, float)) for b in numbers):
        raise ArgumentTypeError(f"[arange] bounds must be numbers, got {merged}")
    first, last, by = (int(b) if isinstance(b, bool) else b for b in numbers)
    return first, last, by


@docs.shared(docs.LINSPACE)
def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """``steps`` evenly spaced numbers from start to end, both included.

    Example:
        >>> linspace(0, 1, 3)
        tensor([0.0000, 0.5000, 1.0000])
    """
    start, end = (b.item() if isinstance(b, Tensor) and b.ndim == 0 else b for b in (start, end))
    for bound in (start, end):
        if not is_number(bound):
            raise ArgumentTypeError(f"[linspace] start and end must be numbers, got {shown(bound)}")
    count = _extents("linspace", (integer_of("linspace", "steps", steps),))[0]
    first, last = (fitting("linspace", b, np.dtype("float64")) for b in (start, end))
    host = np.linspace(first, last, count)
    wanted = get_default_dtype() if dtype is None else dtype
    return tensor(host, dtype=wanted, device=device, requires_grad=requires_grad)


@docs.shared(docs.EYE)
def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones on the diagonal of an n × m matrix (n × n by default), zeros elsewhere.

    Example:
        >>> eye(2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    rows, columns = _extents("eye", (n, n if m is None else m))
    host = np.eye(rows, columns)
    wanted = get_default_dtype() if dtype is None else dtype
    return tensor(host, dtype=wanted, device=device, requires_grad=requires_grad)
