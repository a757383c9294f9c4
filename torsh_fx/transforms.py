"""JAX's transforms on functions of Tensors or arrays, with JAX's names and arguments.

Tensors in, Tensors out; arrays in, arrays out; both in any pytree.  ``detach``,
``no_grad`` and ``backward()`` inside a transformed function mean what they mean
outside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from . import checkpointing, docs, recorded_grad
from .dtypes import get_default_dtype
from .lift import Inside, call, is_tensor, linear_parts, refuse_on_tape
from .rules.context import config
from .state import here
from .tensor import from_array

Fn = Callable[..., Any]


@docs.shared(docs.TRANSFORM)
def value_and_grad(fn: Fn, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Fn:
    """A function that returns ``(fn(...), gradient)``.

    In a plain loop ``fn`` is recorded like any other code, and known again at the next
    step.  If it does what only a trace gets right, such as JAX on ``x.jax()``, it is
    called once more from its beginning and traced, and traced at once from then on.

    Args:
        fn: function with a real scalar result, Tensor or array; with ``has_aux``
            a pair (scalar, anything).
        argnums: position(s) of the floating arguments to differentiate by.
        has_aux: ``fn`` returns an auxiliary result beside the scalar.

    Returns:
        A function with ``fn``'s arguments that returns ``(value, grads)``, or
        ``((value, aux), grads)``.

    Source: ``jax.value_and_grad``.
    Example:
        >>> v, g = value_and_grad(lambda x: (x * x).sum())(tensor([1.0, 2.0]))
        >>> v.item(), g.tolist()
        (5.0, [2.0, 4.0])
    """

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        def traced() -> Any:
            return _traced_value_and_grad(fn, argnums, has_aux, args, kwargs)

        return recorded_grad.value_and_grad(fn, argnums, has_aux, args, kwargs, traced)

    return wrapped


def _traced_value_and_grad(fn: Fn, argnums: Any, has_aux: bool, args: Any, kwargs: Any) -> Any:
    """The same by JAX, which traces ``fn``."""
    inside = Inside(fn, "value_and_grad", scalar=True, has_aux=has_aux)
    plain = jax.value_and_grad(inside, argnums, has_aux=has_aux)

    def shaped(*a: Any, **k: Any) -> Any:
        out, grads = plain(*a, **k)
        value, aux = out if has_aux else (out, None)
        value = from_array(value) if inside.gave_tensor else value
        return ((value, aux), grads) if has_aux else (value, grads)

    return call(inside, shaped, args, kwargs)


@docs.shared(docs.TRANSFORM)
def grad(fn: Fn, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Fn:
    """A function that returns the gradient of ``fn``'s scalar result.

    Args:
        fn: function with a real scalar result, Tensor or array.
        argnums: position(s) of the floating arguments to differentiate by; several give a tuple.
        has_aux: ``fn`` returns (scalar, anything); the result then is (gradient, anything).

    Source: ``jax.grad``.
    Example:
        >>> grad(lambda x: (x * x).sum())(tensor([1.0, 2.0])).tolist()
        [2.0, 4.0]
    """
    both = value_and_grad(fn, argnums, has_aux)

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        out, grads = both(*args, **kwargs)
        return (grads, out[1]) if has_aux else grads

    return wrapped


@docs.shared(docs.TRANSFORM)
def vjp(fn: Fn, *primals: Any, has_aux: bool = False) -> Any:
    """``(fn(*primals), pullback)``; the pullback maps a cotangent to a tuple of gradients.

    With ``has_aux``, ``fn`` returns (result, aux) and aux comes third.

    Source: ``jax.vjp``.
    Example:
        >>> out, pull = vjp(lambda x: x * x, tensor([3.0]))
        >>> pull(tensor([1.0]))[0].tolist()
        [6.0]
    """
    return _linear(Inside(fn, "vjp", has_aux=has_aux), primals, jax.vjp)


@docs.shared(docs.TRANSFORM)
def jvp(fn: Fn, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """``(fn(*primals), tangent of the result)`` for tangents of the primals, of their shapes and dtypes.

    With ``has_aux``, ``fn`` returns (result, aux) and aux comes third.

    Source: ``jax.jvp``.
    Example:
        >>> jvp(lambda x: x * x, (tensor([3.0]),), (tensor([1.0]),))[1].tolist()
        [6.0]
    """
    inside = Inside(fn, "jvp", has_aux=has_aux)

    def transformed(p: Any, t: Any) -> Any:
        return jax.jvp(inside, tuple(p), tuple(t), has_aux=has_aux)

    return call(inside, transformed, (tuple(primals), tuple(tangents)), {})


@docs.shared(docs.TRANSFORM)
def linearize(fn: Fn, *primals: Any, has_aux: bool = False) -> Any:
    """``(fn(*primals), pushforward)``; the pushforward maps tangents to the result's tangent.

    ``has_aux`` as in ``vjp``.

    Source: ``jax.linearize``.
    Example:
        >>> out, push = linearize(lambda x: x * x, tensor([3.0]))
        >>> push(tensor([1.0])).tolist()
        [6.0]
    """
    return _linear(Inside(fn, "linearize", has_aux=has_aux), primals, jax.linearize)


@docs.shared(docs.TRANSFORM)
def jacrev(fn: Fn, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Fn:
    """The Jacobian of ``fn``, row by row (reverse mode): result.shape + argument.shape.

    Source: ``jax.jacrev``.
    Example:
        >>> jacrev(lambda x: x * x)(tensor([1.0, 2.0])).tolist()
        [[2.0, 0.0], [0.0, 4.0]]
    """
    return _derivative("jacrev", jax.jacrev, fn, argnums, has_aux)


@docs.shared(docs.TRANSFORM)
def jacfwd(fn: Fn, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Fn:
    """The Jacobian of ``fn``, column by column (forward mode): result.shape + argument.shape.

    Source: ``jax.jacfwd``.
    Example:
        >>> jacfwd(lambda x: x * x)(tensor([1.0, 2.0])).tolist()
        [[2.0, 0.0], [0.0, 4.0]]
    """
    return _derivative("jacfwd", jax.jacfwd, fn, argnums, has_aux)


@docs.shared(docs.TRANSFORM)
def hessian(fn: Fn, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Fn:
    """The matrix of second derivatives of ``fn`` (forward over reverse).

    Source: ``jax.hessian``.
    Example:
        >>> hessian(lambda x: (x * x * x).sum())(tensor([1.0, 2.0])).tolist()
        [[6.0, 0.0], [0.0, 12.0]]
    """
    return _derivative("hessian", jax.hessian, fn, argnums, has_aux)


def _derivative(name: str, transform: Any, fn: Fn, argnums: Any, has_aux: bool) -> Fn:
    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        inside = Inside(fn, name, has_aux=has_aux)
        return call(inside, transform(inside, argnums, has_aux=has_aux), args, kwargs)

    return wrapped


@docs.shared(docs.TRANSFORM)
def vmap(
    fn: Fn,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Fn:
    """``fn`` over a batch axis of its arguments, with ``jax.vmap``'s arguments.

    Source: ``jax.vmap``.
    Example:
        >>> vmap(lambda x: x.sum())(tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [3.0, 7.0]
    """
    named = {} if axis_name is None else {"axis_name": axis_name}

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        inside = Inside(fn, "vmap")
        batched = jax.vmap(inside, in_axes, out_axes, axis_size=axis_size, spmd_axis_name=spmd_axis_name, **named)
        return call(inside, batched, args, kwargs)

    return wrapped


@docs.shared(docs.TRANSFORM)
def jit(fn: Fn, **options: Any) -> Fn:
    """``fn`` compiled by XLA, as ``jax.jit``, whose options it takes.

    It is traced anew for other shapes, dtypes, flags ``requires_grad``, grad mode, default
    dtype, ``autocast`` or ``jax_enable_x64``.  Reading a value inside is an AutogradError.

    Source: ``jax.jit``.
    Example:
        >>> jit(lambda x: x * 2)(tensor([1.0])).tolist()
        [2.0]
    """
    compiled: dict[Any, tuple[Inside, Any]] = {}

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flags = tuple(t.requires_grad for t in jax.tree.leaves((args, kwargs), is_leaf=is_tensor) if is_tensor(t))
        # What a trace bakes in beyond avals and what JAX knows: flags, grad mode, the default dtype, the user's x64.
        key = (flags, here().grad, get_default_dtype(), bool(config.jax_enable_x64))
        if key not in compiled:
            inside = Inside(fn, "jit")
            inside.flags = list(flags)
            compiled[key] = inside, jax.jit(inside, **options)
        inside, jitted = compiled[key]
        return call(inside, jitted, args, kwargs)

    return wrapped


@docs.shared(docs.TRANSFORM)
def checkpoint(
    fn: Fn, *, prevent_cse: bool = True, policy: Any = None, static_argnums: int | tuple[int, ...] = ()
) -> Fn:
    """``fn``, recomputed in reverse mode instead of keeping its intermediate values.

    In a plain loop without options the ops are recorded as a region that backward
    computes again, XLA notwithstanding; under traces and with options it is JAX's.

    Source: ``jax.checkpoint``, whose options it takes.
    Example:
        >>> grad(checkpoint(lambda x: (x * x).sum()))(tensor([3.0])).tolist()
        [6.0]
    """

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        def traced() -> Any:
            inside = Inside(fn, "checkpoint")
            saved = jax.checkpoint(inside, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums)
            return call(inside, saved, args, kwargs)

        usual = prevent_cse and policy is None and static_argnums == ()
        return checkpointing.checkpointed(fn, args, kwargs, traced) if usual else traced()

    return wrapped


def _linear(inside: Inside, primals: tuple[Any, ...], transform: Any) -> Any:
    """What ``transform`` gives, a result and a linear map, for Tensors."""
    flat, tree = jax.tree.flatten(primals, is_leaf=is_tensor)
    if here().grad and any(is_tensor(t) and t.requires_grad for t in flat):
        return linear_parts(inside, primals, transform)
    refuse_on_tape(inside.name)
    inside.flags = [t.requires_grad and t.is_leaf for t in flat if is_tensor(t)]
    bare = jax.tree.unflatten(tree, [from_array(t.jax()) if is_tensor(t) else t for t in flat])
    with jax.enable_x64(True):
        out, linear, *aux = transform(inside, *bare, has_aux=inside.has_aux)
    return (out, lambda *vectors: call(inside, linear, vectors, {}), *aux)
