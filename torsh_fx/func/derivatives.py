"""Derivatives of functions of Tensors, named and called as ``torch.func`` has them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .. import transforms
from ..dtypes import is_floating
from ..lift import Inside, call, is_tensor
from ..random import Draws
from ..rules import ArgumentTypeError, ArgumentValueError, AutogradError, OutOfRangeError, ShapeMismatchError
from ..rules.kinds import shown

Fn = Callable[..., Any]
Argnums = int | tuple[int, ...]


def grad(func: Fn, argnums: Argnums = 0, has_aux: bool = False) -> Fn:
    """A function that returns the gradient of ``func``'s scalar result.

    Args:
        func: takes Tensors in any pytrees, returns a 0-d Tensor; with ``has_aux`` a pair
            of one and anything.
        argnums: position(s) of the arguments to differentiate by, trees of floating Tensors;
            a tuple gives a tuple.
        has_aux: return (gradient, aux).

    Raises:
        ArgumentTypeError: such an argument holds something else than floating Tensors, the
            result is no Tensor or, with ``has_aux``, no pair, or ``argnums`` are no integers.
        ArgumentValueError: ``argnums`` are empty or repeat one.
        OutOfRangeError: there is no such argument.
        ShapeMismatchError: the result is not 0-d.
        AutogradError: as ``torsh_fx.grad``.

    Gradient: ``backward()`` goes through the result, as often as one likes.
    Source: ``torsh_fx.grad``.
    Example:
        >>> func.grad(lambda x: (x * x).sum())(tensor([1.0, 2.0])).tolist()
        [2.0, 4.0]
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        gradient, out = both(*args, **kwargs)
        return (gradient, out[1]) if has_aux else gradient

    return wrapped


def grad_and_value(func: Fn, argnums: Argnums = 0, has_aux: bool = False) -> Fn:
    """A function that returns ``(gradient, func(...))``, the gradient first.

    Args:
        func, argnums: as of ``grad``.
        has_aux: return (gradient, (value, aux)).

    Raises:
        As ``grad``.

    Gradient: ``backward()`` goes through the result, as often as one likes.
    Source: ``torsh_fx.value_and_grad``.
    Example:
        >>> g, v = func.grad_and_value(lambda x: (x * x).sum())(tensor([1.0, 2.0]))
        >>> g.tolist(), v.item()
        ([2.0, 4.0], 5.0)
    """

    @functools.wraps(func)
    def checked(*args: Any, **kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        value = _pair("grad", out)[0] if has_aux else out
        if not is_tensor(value):
            raise ArgumentTypeError(f"[grad] func must return a Tensor, got {shown(value)}")
        if value.ndim:
            raise ShapeMismatchError("[grad] func must return a 0-d Tensor", expected=(), got=value.shape)
        return out

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        chosen = _argnums("grad", argnums, args)
        out, gradient = transforms.value_and_grad(checked, chosen, has_aux)(*args, **kwargs)
        return gradient, out

    return wrapped


def vjp(func: Fn, *primals: Any, has_aux: bool = False) -> Any:
    """``(func(*primals), pullback)``: the pullback maps a cotangent of the outputs' structure to a tuple of gradients.

    Args:
        func: takes the primals, returns floating Tensors in any pytree; with ``has_aux`` a
            pair of that and anything.
        primals: floating Tensors in any pytrees.
        has_aux: return (result, pullback, aux).

    Raises:
        ArgumentTypeError: primals, outputs or a cotangent are no floating Tensors, or of another dtype.
        ArgumentValueError: the cotangent has another structure.
        ShapeMismatchError: the cotangent has another shape.
        AutogradError: as ``torsh_fx.vjp``.

    Gradient: ``backward()`` goes through all of it, as often as one likes.
    Source: ``torsh_fx.vjp``.
    Example:
        >>> out, pull = func.vjp(lambda x: x * x, tensor([3.0]))
        >>> pull(tensor([1.0]))[0].tolist()
        [6.0]
    """
    _floating("vjp", "primals", primals)
    out, pull, *aux = transforms.vjp(_with_checked_output("vjp", func, has_aux), *primals, has_aux=has_aux)

    def pullback(cotangents: Any) -> Any:
        _like("vjp", "cotangents", cotangents, out)
        return pull(cotangents)

    return (out, pullback, *aux)


def jvp(func: Fn, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """``(func(*primals), tangents of the outputs)``.

    Args:
        func: takes the primals, returns Tensors in any pytree; with ``has_aux`` a pair of
            that and anything.
        primals: a tuple of Tensors in any pytrees.
        tangents: of the primals' structure, shapes and dtypes.
        strict: refuse an output that no recorded op connects to the primals, instead of
            giving zeros.
        has_aux: return (result, tangents, aux).

    Raises:
        ArgumentTypeError: primals are no tuple, or one of all these is no Tensor or has another dtype.
        ArgumentValueError: tangents have another structure, or there are no primals.
        ShapeMismatchError: a tangent has another shape.
        AutogradError: ``strict`` finds an independent output, or as ``torsh_fx.jvp``.

    Gradient: ``backward()`` goes through the result, as often as one likes.
    Source: ``torsh_fx.jvp``.
    Example:
        >>> func.jvp(lambda x: x * x, (tensor([3.0]),), (tensor([1.0]),))[1].tolist()
        [6.0]
    """
    if not isinstance(primals, tuple):
        raise ArgumentTypeError(f"[jvp] primals must be a tuple, for func(*primals), got {shown(primals)}")
    _floating("jvp", "primals", primals)
    _like("jvp", "tangents", tangents, primals)
    checked = _with_checked_output("jvp", func, has_aux)
    return transforms.jvp(_connected(checked, has_aux) if strict else checked, primals, tangents, has_aux=has_aux)


def linearize(func: Fn, *primals: Any) -> Any:
    """``(func(*primals), pushforward)``: the pushforward maps tangents to those of the outputs, any number of times.

    Args:
        func: takes the primals, returns Tensors in any pytree.
        primals: floating Tensors in any pytrees.

    Raises:
        ArgumentTypeError: primals, outputs or tangents are no floating Tensors.
        ArgumentValueError: tangents have another structure than the primals.
        ShapeMismatchError: a tangent has another shape.
        AutogradError: as ``torsh_fx.linearize``.

    Gradient: ``backward()`` goes through all of it, as often as one likes.
    Source: ``torsh_fx.linearize``.
    Example:
        >>> out, push = func.linearize(lambda x: x * x, tensor([3.0]))
        >>> push(tensor([1.0])).tolist()
        [6.0]
    """
    _floating("linearize", "primals", primals)
    out, push = transforms.linearize(_with_checked_output("linearize", func, False), *primals)

    def pushforward(*tangents: Any) -> Any:
        _like("linearize", "tangents", tangents, primals)
        return push(*tangents)

    return out, pushforward


def jacrev(func: Fn, argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None) -> Fn:
    """The Jacobian of ``func``, row by row (reverse mode): per output, output.shape + argument.shape.

    Args:
        func: takes Tensors, returns Tensors in any pytree.
        argnums: position(s) of the arguments to differentiate by; a tuple gives tuples.
        has_aux: ``func`` returns (outputs, anything); return (Jacobian, anything).
        chunk_size: how many rows to compute at a time; by default all.

    Raises:
        ArgumentTypeError, OutOfRangeError: as ``grad``.
        ArgumentValueError: as ``grad``, or the chunk size is not positive.
        AutogradError: as ``torsh_fx.jacrev``.

    Gradient: ``backward()`` goes through the result, as often as one likes.
    Source: ``torsh_fx.jacrev``.
    Example:
        >>> func.jacrev(lambda x: x * x)(tensor([1.0, 2.0])).tolist()
        [[2.0, 0.0], [0.0, 4.0]]
    """
    check_chunk_size("jacrev", chunk_size)
    checked = _with_checked_output("jacrev", func, has_aux)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        chosen = _argnums("jacrev", argnums, args)
        if chunk_size is None:
            return transforms.jacrev(checked, chosen, has_aux)(*args, **kwargs)
        inside = Inside(checked, "jacrev", has_aux=has_aux)
        return call(inside, _rows_in_chunks(inside, chosen, has_aux, chunk_size), args, kwargs)

    return wrapped


def jacfwd(func: Fn, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error") -> Fn:
    """The Jacobian of ``func``, column by column (forward mode): per output, output.shape + argument.shape.

    Args:
        func, argnums, has_aux: as of ``jacrev``.
        randomness: "error" refuses random draws in ``func``, "same" takes the same for all columns.

    Raises:
        ArgumentTypeError, OutOfRangeError: as ``grad``.
        ArgumentValueError: as ``grad``, or ``randomness`` is none of the two: columns of
            different draws are no Jacobian.
        AutogradError: as ``torsh_fx.jacfwd``, or a draw is refused.

    Gradient: ``backward()`` goes through the result, as often as one likes.
    Source: ``torsh_fx.jacfwd``.
    Example:
        >>> func.jacfwd(lambda x: x * x)(tensor([1.0, 2.0])).tolist()
        [[2.0, 0.0], [0.0, 4.0]]
    """
    if randomness not in ("error", "same"):
        raise ArgumentValueError(f"[jacfwd] randomness is 'error' or 'same', got {randomness!r}")
    checked = _with_checked_output("jacfwd", func, has_aux)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        chosen = _argnums("jacfwd", argnums, args)
        with Draws("jacfwd", randomness):
            return transforms.jacfwd(checked, chosen, has_aux)(*args, **kwargs)

    return wrapped


def hessian(func: Fn, argnums: Argnums = 0) -> Fn:
    """The matrix of second derivatives of ``func`` (forward over reverse).

    Args:
        func: takes Tensors, returns Tensors in any pytree, per output
            output.shape + argument.shape + argument.shape.
        argnums: position(s) of the arguments to differentiate by; a tuple gives tuples of tuples.

    Raises:
        As ``jacrev``.

    Gradient: ``backward()`` goes through the result, as often as one likes.
    Source: ``torsh_fx.hessian``.
    Example:
        >>> func.hessian(lambda x: (x * x * x).sum())(tensor([1.0, 2.0])).tolist()
        [[6.0, 0.0], [0.0, 12.0]]
    """
    checked = _with_checked_output("hessian", func, False)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return transforms.hessian(checked, _argnums("hessian", argnums, args))(*args, **kwargs)

    return wrapped


# -- checks ----------------------------------------------------------------------------------


def check_chunk_size(op: str, size: Any) -> None:
    """Refuse what is no positive integer, nor None."""
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size <= 0):
        raise ArgumentValueError(f"[{op}] chunk_size must be a positive integer or None, got {size!r}")


def _argnums(op: str, argnums: Any, args: tuple[Any, ...]) -> Any:
    """Positions from 0 on; what is there must be differentiable."""
    chosen = argnums if isinstance(argnums, tuple) else (argnums,)
    for k in chosen:
        if isinstance(k, bool) or not isinstance(k, int):
            raise ArgumentTypeError(f"[{op}] argnums must be an integer or a tuple of them, got {shown(argnums)}")
        if not -len(args) <= k < len(args):
            raise OutOfRangeError(f"[{op}] there is no argument {k}, only {len(args)} positional ones")
    found = tuple([k % len(args) for k in chosen])
    if not found or len(set(found)) < len(found):
        raise ArgumentValueError(f"[{op}] argnums must name at least one argument, and none twice, got {argnums}")
    for k in found:
        _floating(op, f"argument {k}", args[k])
    return found if isinstance(argnums, tuple) else found[0]


def _floating(op: str, what: str, tree: Any) -> None:
    leaves = jax.tree.leaves(tree, is_leaf=is_tensor)
    if not leaves:
        raise ArgumentValueError(f"[{op}] {what} must hold at least one Tensor")
    for x in leaves:
        if not is_tensor(x):
            raise ArgumentTypeError(f"[{op}] {what} must hold Tensors, got {shown(x)}")
        if not is_floating(x.dtype):
            raise ArgumentTypeError(f"[{op}] {what} must hold floating Tensors, got {x.dtype}")


def _like(op: str, what: str, given: Any, like: Any) -> None:
    """Refuse vectors that are not of the structure, shapes and dtypes of ``like``."""
    tree: Any
    structure: Any
    found, tree = jax.tree.flatten(given, is_leaf=is_tensor)
    wanted, structure = jax.tree.flatten(like, is_leaf=is_tensor)
    if tree != structure:
        raise ArgumentValueError(f"[{op}] {what} must have the structure {structure}, got {tree}")
    for x, y in zip(found, wanted, strict=True):
        if not is_tensor(x):
            raise ArgumentTypeError(f"[{op}] {what} must hold Tensors, got {shown(x)}")
        if x.shape != y.shape:
            raise ShapeMismatchError(f"[{op}] {what} have another shape", expected=y.shape, got=x.shape)
        if x.dtype != y.dtype:
            raise ArgumentTypeError(f"[{op}] {what} must be {y.dtype}, got {x.dtype}")


def _pair(op: str, out: Any) -> tuple[Any, Any]:
    if not isinstance(out, tuple) or len(out) != 2:
        raise ArgumentTypeError(f"[{op}] with has_aux func must return a pair (result, aux), got {shown(out)}")
    return out[0], out[1]


def _with_checked_output(op: str, func: Fn, has_aux: bool) -> Fn:
    """``func``, which must return floating Tensors."""

    @functools.wraps(func)
    def checked(*args: Any, **kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        _floating(op, "the result of func", _pair(op, out)[0] if has_aux else out)
        return out

    return checked


def _connected(func: Fn, has_aux: bool) -> Fn:
    """``func``, whose outputs must be computed from its arguments."""

    def checked(*args: Any) -> Any:
        out = func(*jax.tree.map(lambda t: t.requires_grad_(), args, is_leaf=is_tensor))
        for t in jax.tree.leaves(out[0] if has_aux else out, is_leaf=is_tensor):
            if not t.requires_grad:
                raise AutogradError("[jvp] an output of func is independent of the primals, which strict=True refuses")
        return out

    return checked


# -- rows, some at a time ----------------------------------------------------------------------


def _rows_in_chunks(fn: Fn, argnums: Any, has_aux: bool, size: int) -> Fn:
    """``jax.jacrev`` with no more than ``size`` rows in the works."""
    positions = argnums if isinstance(argnums, tuple) else (argnums,)

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        def of(*chosen: Any) -> Any:
            full = dict(enumerate(args)) | dict(zip(positions, chosen, strict=True))
            return fn(*full.values(), **kwargs)

        transform: Any = jax.vjp  # has overloads on a literal has_aux only
        out, pull, *aux = transform(of, *[args[k] for k in positions], has_aux=has_aux)
        leaves, tree = jax.tree.flatten(out)

        def rows(k: int) -> Any:
            shape, n = leaves[k].shape, leaves[k].size
            units = jnp.eye(n, dtype=leaves[k].dtype).reshape(n, *shape)

            def row(unit: Any) -> Any:
                seeds = [unit if j == k else jnp.zeros_like(x) for j, x in enumerate(leaves)]
                return pull(jax.tree.unflatten(tree, seeds))

            chunks = [jax.vmap(row)(units[at : at + size]) for at in range(0, max(n, 1), size)]
            found = jax.tree.map(lambda *gs: jnp.concatenate(gs).reshape(*shape, *gs[0].shape[1:]), *chunks)
            return found if isinstance(argnums, tuple) else found[0]

        result = jax.tree.unflatten(tree, [rows(k) for k in range(len(leaves))])
        return (result, *aux) if has_aux else result

    return jacobian
