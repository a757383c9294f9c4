"""Any JAX function as one op, without a derivative until one is registered."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .broadcast import Shape, reduce_grad_to_shape
from .call import Aval, Call
from .context import Surroundings
from .errors import ArgumentTypeError, AutogradError, ShapeMismatchError
from .kinds import general

Array = jax.Array
Derivative = Callable[..., Any]

CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "depthwise_conv2d", "separable_conv2d", "conv_transpose2d")

_derivatives: weakref.WeakKeyDictionary[Any, Derivative] = weakref.WeakKeyDictionary()
_tangents: weakref.WeakKeyDictionary[Any, Derivative] = weakref.WeakKeyDictionary()


@general(name="custom", label="custom({name})", tests=False)
def custom_row(*xs: Array, name: str, fn: Callable[..., Any], around: Surroundings) -> Array:
    """A JAX function run as one op (see ``custom``).

    Gradient: the registered VJP, or the transpose of the registered JVP; without either, asking is an error.
    Source: the caller.
    Example:
        >>> custom("double", lambda x: 2 * x, jnp.float32(3)).item()
        6.0
    """
    with around.entered(xs):
        return fn(*xs)  # type: ignore[no-any-return]


@custom_row.check
def _(*xs: Aval, name: str, fn: Callable[..., Any], around: Surroundings) -> tuple[Shape, Any]:
    def checked(*arrays: Array) -> Any:
        out = fn(*arrays)
        if not isinstance(out, (jax.Array, np.ndarray, np.generic, int, float)):
            raise ArgumentTypeError(f"[custom({name})] the function must return one array, got {type(out).__name__}")
        return out

    with around.entered(xs):
        out = jax.eval_shape(checked, *(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in xs))
    return out.shape, out.dtype


@custom_row.vjp("xs")
def _(g: Any, i: int, xs: tuple[Array, ...], name: str, fn: Callable[..., Any], around: Surroundings) -> Array:
    if fn not in _derivatives and fn in _tangents:
        return _transposed(name, fn, g, i, xs, around)
    with around.entered(xs):
        grads = _derivative(name, fn)(g, *xs)
    if not isinstance(grads, (tuple, list)):
        grads = (grads,)
    if len(grads) != len(xs):
        raise AutogradError(f"[custom({name})] the derivative gave {len(grads)} gradients for {len(xs)} operands")
    return _fitted(name, grads[i], xs[i])


@custom_row.jvp
def _(
    tangents: Any, xs: tuple[Array, ...], aval: Aval, name: str, fn: Callable[..., Any], around: Surroundings
) -> Array:
    """Forward mode is the registered JVP, or else the transpose of the registered VJP, which is linear in g."""
    if fn in _tangents:
        with around.entered(xs):
            return _tangent(name, fn, xs, tangents, aval)
    active = [i for i, t in enumerate(tangents) if t is not None]

    def back(g: Array) -> list[Array]:
        grads = _derivative(name, fn)(g, *xs)
        grads = grads if isinstance(grads, (tuple, list)) else (grads,)
        return [_fitted(name, grads[i], xs[i]) for i in active]

    with around.entered(xs):
        (out,) = jax.linear_transpose(back, jax.ShapeDtypeStruct(aval.shape, aval.dtype))([tangents[i] for i in active])
    return out  # type: ignore[no-any-return]


def _tangent(name: str, fn: Callable[..., Any], xs: tuple[Array, ...], tangents: Any, aval: Aval) -> Array:
    """The registered JVP, given zeros for what has no tangent (None where there can be none)."""
    floating = [jnp.issubdtype(x.dtype, jnp.floating) for x in xs]
    given = [jnp.zeros_like(x) if t is None and f else t for x, t, f in zip(xs, tangents, floating, strict=True)]
    out = jnp.asarray(_tangents[fn](tuple(xs), tuple(given)))
    if out.shape != aval.shape:
        raise ShapeMismatchError(
            f"[custom({name})] the derivative must give a tangent of the result's shape",
            expected=aval.shape,
            got=out.shape,
        )
    return out.astype(aval.dtype)


def _transposed(
    name: str, fn: Callable[..., Any], g: Array, i: int, xs: tuple[Array, ...], around: Surroundings
) -> Array:
    """Reverse mode of an op with a JVP only, which is linear in the tangents."""

    def forth(t: Array) -> Array:
        with around.entered(xs):
            return _tangent(name, fn, xs, [t if k == i else None for k in range(len(xs))], Aval(g.shape, g.dtype))

    (out,) = jax.linear_transpose(forth, jax.ShapeDtypeStruct(xs[i].shape, xs[i].dtype))(g)
    return out  # type: ignore[no-any-return]


def _fitted(name: str, grad: Any, x: Array) -> Array:
    """A gradient in its operand's shape: a broadcast one is folded, another refused."""
    if grad is None:
        return jnp.zeros_like(x)
    try:
        return reduce_grad_to_shape(jnp.asarray(grad), x.shape)
    except ShapeMismatchError as error:
        raise ShapeMismatchError(
            f"[custom({name})] the derivative gave a gradient that does not fit its operand",
            expected=x.shape,
            got=jnp.shape(grad),
        ) from error


def _missing(call: Call) -> str | None:
    fn = call.kwargs["fn"]
    return None if fn in _derivatives or fn in _tangents else _explain(call.kwargs["name"])


custom_row.missing_fn = _missing


def _explain(name: str) -> str:
    why = f"no derivative is registered for custom op '{name}'"
    if name in CONVOLUTIONS:
        return (
            f"{why}, and a custom node does not record stride, padding, dilation or groups; "
            f"use the differentiable convolution of the same name, or im2col and matmul"
        )
    return f"{why}; register one with register_vjp or register_jvp"


def _derivative(name: str, fn: Callable[..., Any]) -> Derivative:
    if fn not in _derivatives:
        raise AutogradError(f"[custom({name})] {_explain(name)}")
    return _derivatives[fn]


def register_vjp(fn: Callable[..., Any], derivative: Derivative) -> None:
    """Make ``fn`` differentiable: ``derivative(g, *operands)`` gives a gradient each, or None."""
    if fn in _derivatives:
        raise AutogradError("this function already has a derivative; known programs hold it, make a new op instead")
    _derivatives[fn] = derivative


def register_jvp(fn: Callable[..., Any], derivative: Derivative) -> None:
    """Make ``fn`` differentiable: ``derivative(operands, tangents)``, two tuples, gives the result's tangent."""
    if fn in _tangents:
        raise AutogradError("this function already has a derivative; known programs hold it, make a new op instead")
    _tangents[fn] = derivative


def custom(name: str, fn: Callable[..., Any], *xs: Any) -> Array:
    """Run a JAX function as one op named ``custom(name)``.

    Args:
        name: diagnostic name.
        fn: function of arrays that returns one array.  It is traced under the
            caller's own flags.
        xs: its operands.

    Returns:
        What ``fn`` returns.

    Raises:
        AutogradError: a derivative is asked for and none is registered.
        ArgumentTypeError: ``fn`` returns something else than one array.

    Example:
        >>> custom("double", lambda x: 2 * x, jnp.float32(3)).item()
        6.0
    """
    return custom_row(*xs, name=name, fn=fn, around=Surroundings.now())
