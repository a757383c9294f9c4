"""A torsh_fx or JAX function as a ``torch.autograd.Function``, staged once for each signature."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun

from ..dlpack import copied
from ..dtypes import as_dtype, get_default_dtype, is_floating
from ..lift import Inside, is_tensor, refuse_on_tape
from ..lru import LRU
from ..rules import ArgumentTypeError, AutogradError
from ..rules.context import Surroundings
from ..rules.kinds import shown
from ..state import here
from ..tensor import Tensor, from_array
from ._torch_tensors import dtype_of, of_host, to_host, torch

Arrays = Sequence[Any]


def as_torch(fn: Callable[..., Any], *, arrays: bool = False) -> Callable[..., Any]:
    """``fn`` as a PyTorch function: PyTorch tensors in and out, part of PyTorch's graph.

    Args:
        fn: a pure function, of torsh_fx Tensors or, with ``arrays``, of JAX arrays; its
            arguments and results may be pytrees.
        arrays: give it ``jax.Array``s rather than Tensors.

    Returns:
        A function of PyTorch tensors.  Whatever else it is given is static: a new value
        compiles anew.  It is traced once for each signature (shapes, dtypes, static
        arguments); its value, its gradient and its second gradient are one XLA program each.

    Raises:
        ArgumentTypeError: ``fn`` is no function; later, an argument that is a Tensor, an array or
            not hashable, or of a dtype there is no Tensor of.
        AutogradError: when it is called, ``fn`` uses a Tensor from outside that requires grad, or reads
            a value; in backward, an op has no derivative, or ``is_grads_batched`` is asked for.

    Gradient: that of ``fn`` by its explicit VJPs, of any order; ``torch.func.vmap``,
        ``jvp`` and ``grad`` apply.  Integers and booleans have none.  What ``fn`` closes over
        is a constant, with the value it had when ``fn`` was traced: pass what changes.
    Source: ``jax.vjp``, ``torch.autograd.Function``.
    Example:
        >>> square = as_torch(lambda x: (x * x).sum())
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> square(x).backward()
        >>> x.grad
        tensor([2., 4.])
    """
    if not callable(fn):
        raise ArgumentTypeError(f"[as_torch] takes a function, got {shown(fn)}")
    known: LRU[Any, tuple[_Pure, Any]] = LRU(256)

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        refuse_on_tape("as_torch")
        leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=_is_array)
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        static = tuple([None if isinstance(x, torch.Tensor) else _static(x) for x in leaves])
        avals = tuple([(tuple(t.shape), dtype_of(t.dtype, "as_torch")) for t in tensors])
        # What a trace bakes in: flags beyond what JAX itself knows.
        flags = (Surroundings.now(), get_default_dtype(), here().autocast, here().grad)
        key = (tree, static, avals, flags)
        if key not in known:
            known[key] = _staged(fn, arrays, tree, leaves, avals)
        pure, rebuilt = known[key]
        return rebuilt(_apply(pure, tensors))

    return wrapped


def _is_array(x: Any) -> bool:
    return is_tensor(x) or isinstance(x, torch.Tensor)


def _static(x: Any) -> Any:
    if is_tensor(x) or isinstance(x, (jax.Array, np.ndarray)):
        raise ArgumentTypeError(
            f"[as_torch] arrays among the arguments must be PyTorch tensors, got {type(x).__name__}: use to_torch"
        )
    try:
        hash(x)
    except TypeError:
        raise ArgumentTypeError(
            f"[as_torch] {shown(x)} is neither tensor nor hashable, so it cannot be static"
        ) from None
    return type(x), x


def _staged(fn: Callable[..., Any], arrays: bool, tree: Any, leaves: Any, avals: Any) -> tuple[_Pure, Any]:
    """The function on arrays like those, and what makes its result of a flat list."""
    structure: list[Any] = []
    inside = Inside(fn, "as_torch")
    inside.fresh = False  # what is traced is kept, so what it reads must not change
    around = Surroundings.now()

    def called(given: Arrays) -> Any:
        ours = iter(given)
        full = [next(ours) if isinstance(x, torch.Tensor) else x for x in leaves]
        if arrays:
            with around.entered(given):
                args, kwargs = jax.tree.unflatten(tree, full)
                return fn(*args, **kwargs)
        args, kwargs = jax.tree.unflatten(tree, [from_array(x) if isinstance(x, jax.Array) else x for x in full])
        return inside(*args, **kwargs)

    def flat(*given: Any) -> list[Any]:
        outs, out_tree = jax.tree.flatten(called(given), is_leaf=is_tensor)
        values = [o.jax() if is_tensor(o) else o for o in outs]
        at = [k for k, v in enumerate(values) if isinstance(v, (jax.Array, np.ndarray, np.generic))]
        structure[:] = [out_tree, at, [None if k in at else v for k, v in enumerate(values)]]
        for k in at:
            as_dtype(values[k].dtype)
        return [jax.numpy.asarray(values[k]) for k in at]

    with jax.enable_x64(True):
        closed = jax.make_jaxpr(flat)(*(jax.ShapeDtypeStruct(*a) for a in avals))
    out_tree, at, plain = structure

    def rebuilt(tensors: Arrays) -> Any:
        full = list(plain)
        for k, t in zip(at, tensors, strict=True):
            full[k] = t
        return jax.tree.unflatten(out_tree, full)

    return _Pure(jaxpr_as_fun(closed), avals, [(tuple(a.shape), a.dtype) for a in closed.out_avals]), rebuilt


class _Pure:
    """A function of arrays that gives a list, with its derivatives; each is compiled when it is first used."""

    def __init__(self, fn: Callable[..., Any], avals: Arrays, outs: Arrays) -> None:
        self.fn, self.avals, self.outs = fn, list(avals), list(outs)
        self.floats = [k for k, (_, dtype) in enumerate(outs) if is_floating(dtype)]
        self.value = jax.jit(fn)
        self.back = jax.jit(lambda pull, cotangents: pull(cotangents))
        self.both = functools.cache(self._both)
        self.pulled = functools.cache(self._pulled)
        self.pushed = functools.cache(self._pushed)
        self.mapped = functools.cache(self._mapped)

    def _vjp(self, at: tuple[int, ...], args: Arrays) -> tuple[Any, Any]:
        """All results, and the pullback of the floating ones to the arguments ``at``."""

        def of(*moving: Any) -> tuple[list[Any], list[Any]]:
            full = list(args)
            for k, x in zip(at, moving, strict=True):
                full[k] = x
            outs = list(self.fn(*full))
            return [outs[k] for k in self.floats], outs

        _, pull, outs = jax.vjp(of, *(args[k] for k in at), has_aux=True)
        return outs, pull

    def _both(self, at: tuple[int, ...]) -> Any:
        return jax.jit(lambda *args: self._vjp(at, args))

    def _pulled(self, at: tuple[int, ...]) -> _Pure:
        """Of the arguments, then cotangents of the floating results: the gradients of the arguments ``at``."""
        n = len(self.avals)

        def fn(*args: Any) -> list[Any]:
            return list(self._vjp(at, args[:n])[1](list(args[n:])))

        return _Pure(fn, [*self.avals, *(self.outs[k] for k in self.floats)], [self.avals[k] for k in at])

    def _pushed(self, at: tuple[int, ...]) -> _Pure:
        """Of the arguments, then tangents of those ``at``: the tangents of the floating results."""
        n = len(self.avals)

        def fn(*args: Any) -> list[Any]:
            def of(*moving: Any) -> list[Any]:
                full = list(args[:n])
                for k, x in zip(at, moving, strict=True):
                    full[k] = x
                outs = list(self.fn(*full))
                return [outs[k] for k in self.floats]

            return jax.jvp(of, tuple(args[k] for k in at), tuple(args[n:]))[1]  # type: ignore[no-any-return]

        return _Pure(fn, [*self.avals, *(self.avals[k] for k in at)], [self.outs[k] for k in self.floats])

    def _mapped(self, dims: tuple[int | None, ...], size: int) -> _Pure:
        avals = [
            a if d is None else ((*a[0][:d], size, *a[0][d:]), a[1]) for a, d in zip(self.avals, dims, strict=True)
        ]
        outs = [((size, *shape), dtype) for shape, dtype in self.outs]
        return _Pure(jax.vmap(lambda *args: list(self.fn(*args)), in_axes=dims), avals, outs)


class _Residuals:
    """What a call's forward leaves for its backward: the arguments it is differentiated by, and JAX's pullback."""

    def __init__(self, at: tuple[int, ...]) -> None:
        self.at, self.pull = at, None


def _apply(pure: _Pure, tensors: Arrays) -> list[Any]:
    floating = [k for k, (_, dtype) in enumerate(pure.avals) if is_floating(dtype)]
    recording = torch.is_grad_enabled() and not _transformed()
    at = tuple([k for k in floating if recording and tensors[k].requires_grad])
    return list(_Call.apply(pure, _Residuals(at), *tensors))


def _transformed() -> bool:
    """Is a transform of ``torch.func`` around, whose tensors wrap others?"""
    return bool(torch._C._are_functorch_transforms_active())


def _to_jax(tensors: Arrays) -> list[Any]:
    """Copies, since PyTorch goes on writing; those of the host as NumPy arrays, which a compiled call takes fastest."""
    plain = [t.device.type == "cpu" and t.layout == torch.strided for t in tensors]
    try:
        return [
            np.array(to_host(t), order="C") if p else copied("as_torch", t.detach())
            for t, p in zip(tensors, plain, strict=True)
        ]
    except RuntimeError as error:
        if "Batching rule not implemented" not in str(error):
            raise
        raise AutogradError(
            "[as_torch] is_grads_batched and vectorize go by PyTorch's old vmap, which takes only PyTorch's own ops; "
            "use torch.func.vmap, torch.func.jacrev or torch.func.hessian"
        ) from error


def _to_torch(arrays: Arrays, tensors: Arrays) -> tuple[Any, ...]:
    """Copies: PyTorch may write to them, and JAX may hold the same memory as a residual."""
    if not tensors or tensors[0].device.type == "cpu":
        return tuple([of_host(np.asarray(a)) for a in arrays])
    found = [torch.utils.dlpack.from_dlpack(Tensor.__dlpack__(from_array(a))) for a in arrays]
    return tuple([t.to(tensors[0].device) for t in found])


class _Call(torch.autograd.Function):  # type: ignore[misc]  # PyTorch is untyped here
    """The call of a ``_Pure``: its backward is the call of another one, so there is a second derivative, and so on."""

    @staticmethod
    def forward(pure: _Pure, residuals: _Residuals, *tensors: Any) -> tuple[Any, ...]:
        with jax.enable_x64(True):
            given = _to_jax(tensors)
            if residuals.at:
                outs, residuals.pull = pure.both(residuals.at)(*given)
            else:
                outs = pure.value(*given)
        return _to_torch(outs, tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.pure, ctx.residuals, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.mark_non_differentiable(*(o for k, o in enumerate(output) if k not in ctx.pure.floats))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        pure, residuals = ctx.pure, ctx.residuals
        tensors = ctx.saved_tensors  # here PyTorch says that the graph was freed, or a tensor written
        needed = [k for k, n in enumerate(ctx.needs_input_grad[2:]) if n]
        given = [gradients[k] for k in pure.floats]
        if residuals.pull is not None and not torch.is_grad_enabled() and not _transformed():
            at = residuals.at
            with jax.enable_x64(True):
                found: Any = _to_torch(pure.back(residuals.pull, _to_jax(given)), tensors)
        else:
            at = tuple(needed)
            found = _apply(pure.pulled(at), [*tensors, *given])
        parts = dict(zip(at, found, strict=True))
        return (None, None, *(parts.get(k) for k in range(len(tensors))))

    @staticmethod
    def jvp(ctx: Any, _pure: Any, _residuals: Any, *tangents: Any) -> tuple[Any, ...]:
        at = tuple([k for k, t in enumerate(tangents) if t is not None])
        found = iter(_apply(ctx.pure.pushed(at), [*ctx.saved_tensors, *(tangents[k] for k in at)]))
        return tuple([next(found) if k in ctx.pure.floats else None for k in range(len(ctx.pure.outs))])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], pure: _Pure, residuals: Any, *tensors: Any) -> tuple[Any, Any]:
        outs = _apply(pure.mapped(tuple(in_dims[2:]), info.batch_size), tensors)
        return tuple(outs), (0,) * len(outs)
