"""Applying a row to arrays or tracers: operands in, checks, then the primitive or the bare rule."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .broadcast import Shape
from .call import Aval, Call
from .context import under_x64
from .errors import ArgumentTypeError, AutogradError, OutOfRangeError, ShapeMismatchError
from .op import OPS, Row


@under_x64
def apply(row: Row, args: Sequence[Any], params: dict[str, Any]) -> jax.Array:
    """Check, then bind the row's primitive on arrays or tracers."""
    arrays, call, values = as_operands(row, args, params)
    return bind(call, *arrays, *values)


@under_x64
def bind_call(call: Call, *args: Any) -> Any:
    """Bind a call whose runtime numbers may still be Python's."""
    values = [
        as_runtime(call.op, name, v, args[: call.n]) for name, v in zip(call.present, args[call.n :], strict=True)
    ]
    return bind(call, *(jnp.asarray(a) for a in args[: call.n]), *values)


def bind(call: Call, *args: Any) -> jax.Array:
    """Bind ``call`` on operands followed by runtime parameters (arrays all)."""
    out: jax.Array = call.op.primitive.bind(*vary_alike(args), call=call)
    return out


def as_operands(row: Row, args: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], Call, list[Any]]:
    """Arrays, the checked call and runtime values in the order the call wants them."""
    static, runtime = row.split(params)
    like = next((a.dtype for a in args if hasattr(a, "dtype")), None)
    arrays = [as_array(row.name, a, like) for a in args]
    call = row.call(tuple(Aval(tuple(a.shape), np.dtype(a.dtype)) for a in arrays), static, tuple(runtime))
    known = {k: v for k, v in runtime.items() if not isinstance(v, jax.core.Tracer)}
    for name, value in runtime.items():
        if row.runtime[name] == "scalar":
            check_number(row.name, name, value)
    if row.bounds_fn is not None:
        given = {**dict(zip(row.operands, arrays, strict=False)), **runtime}
        for name, (extent, what) in row.bounds_fn(call).items():
            if not isinstance(given[name], jax.core.Tracer):
                check_indices(row.name, given[name], extent, what)
    if row.values_fn is not None and len(known) == len(runtime):
        row.values_fn(call, **known)
    values = [as_runtime(row, name, runtime[name], arrays) for name in call.present]
    return arrays, call, values


def check_indices(op: str, index: Any, extent: Any, what: str) -> None:
    """Refuse an index array with an entry outside [0, extent)."""
    host = np.asarray(index)
    if host.size and not np.issubdtype(host.dtype, np.integer):
        raise ArgumentTypeError(f"[{op}] indices must be integers, got {host.dtype}")
    bad = host[(host < 0) | (host >= extent)]
    if bad.size:
        raise OutOfRangeError(f"[{op}] index {int(bad.flat[0])} is out of range for {what}")


def as_array(op: str, value: Any, like: Any) -> Any:
    """An operand as an array; a Python number takes the dtype ``like``."""
    if isinstance(value, jax.Array):
        return value
    if isinstance(value, (bool, int, float)):
        # A Python number does not widen: it takes the dtype of its neighbour.
        if like is None:
            like = np.float32 if isinstance(value, float) else None
        return jnp.asarray(value, dtype=like)
    if isinstance(value, (np.ndarray, np.generic)):
        return jnp.asarray(value)
    raise ArgumentTypeError(f"[{op}] operands must be arrays or numbers, got {type(value).__name__} {value!r}")


def as_runtime(row: Row, name: str, value: Any, arrays: Sequence[Any]) -> Any:
    """A runtime parameter as the array that its op computes with."""
    if row.runtime[name] == "scalar":
        # Formed in float64 and rounded once: float32(0.1) lies on max=0.1.
        number = value if isinstance(value, jax.Array) else np.asarray(value)
        dtype = arrays[0].dtype if arrays else number.dtype
        whole = not jnp.issubdtype(dtype, jnp.floating)
        fraction = jnp.issubdtype(number.dtype, jnp.floating)
        if whole and fraction and (isinstance(value, jax.core.Tracer) or not float(number).is_integer()):
            raise ArgumentTypeError(f"[{row.name}] {name} {value} would be cut to {dtype}; cast the operand first")
        return jnp.asarray(number).astype(dtype)
    array = jnp.asarray(value)
    if not jnp.issubdtype(array.dtype, jnp.integer) and array.size:
        raise ArgumentTypeError(f"[{row.name}] {name} must hold integers, got {array.dtype}")
    return array.astype(jnp.int64)


def vary_alike(args: Sequence[Any]) -> list[Any]:
    """Operands that all vary over the same manual axes, so that each has a gradient."""
    varying = [jax.typeof(a).manual_axis_type.varying for a in args]
    joined = frozenset[Any]().union(*varying) if varying else frozenset()
    if not joined:
        return list(args)
    return [
        jax.lax.pcast(a, tuple(joined - v), to="varying") if joined - v else a
        for a, v in zip(args, varying, strict=True)
    ]


def check_number(op: str, name: str, value: Any) -> None:
    """Refuse a runtime scalar that is not a real number or a 0-d array."""
    number = isinstance(value, (numbers.Real, np.number, np.bool_, jax.Array))
    if not number or getattr(value, "ndim", 0) != 0:
        raise ArgumentTypeError(f"[{op}] {name} must be a real number, got {type(value).__name__} {value!r}")


def check_same_cotangent(shape: Shape, call: Call) -> None:
    """The default demand on a cotangent: the output's own shape."""
    if tuple(shape) != call.out.shape:
        raise ShapeMismatchError(
            f"[{call!r}] the cotangent must have the output's shape", expected=call.out.shape, got=shape
        )


@under_x64
def vjp(name: str, cotangent: Any, *operands: Any, **params: Any) -> tuple[jax.Array | None, ...]:
    """Apply the explicit rule of op ``name`` directly, with all its checks.

    Args:
        name: the op's name in the table.
        cotangent: gradient of the output.
        operands: the op's array operands.
        params: the op's parameters.

    Returns:
        One gradient per operand, in its shape and dtype; ``None`` for operands
        that cannot have one (integers, booleans).

    Raises:
        AutogradError: the op is unknown or has no derivative.
        ShapeMismatchError: the cotangent does not fit.

    Example:
        >>> vjp("mul", jnp.float32(2), jnp.float32(3), jnp.float32(5))[0].item()
        10.0
    """
    if name not in OPS:
        raise AutogradError(f"there is no op named {name!r}; the table has {sorted(OPS)}")
    row = OPS[name]
    arrays, call, values = as_operands(row, operands, params)
    g = jnp.asarray(cotangent)
    if not row.differentiable:
        raise AutogradError(f"[{call!r}] is not differentiable")
    (row.cotangent_fn or check_same_cotangent)(tuple(g.shape), call)
    mask = tuple(row.active(i, a.dtype) for i, a in enumerate(call.avals))
    residuals: dict[int | str, Any] = {
        key: call.forward(*arrays, *values) if isinstance(key, str) else arrays[key] for key in call.residual_keys(mask)
    }
    env = call.environment(residuals, call.runtime(values))
    return tuple(call.cotangent(i, g, env) if active else None for i, active in enumerate(mask))
