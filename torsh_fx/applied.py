"""A ``Function`` that was applied: its backward called and checked, for the graph and for JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from . import creation, reducing, shaping
from .arithmetic import cast
from .function_ctx import FunctionCtx
from .lift import is_tensor
from .reached import standing_in, tensors_of
from .rules import ArgumentTypeError, AutogradError, ShapeMismatchError
from .rules.call import Aval
from .rules.gate import Gate
from .rules.kinds import shown
from .state import enable_grad, here
from .tensor import Tensor, from_array

TWICE = "its backward is marked once_differentiable, and is differentiated a second time"


class Form(NamedTuple):
    """What a ``Function`` defines."""

    name: str
    forward: Callable[..., Any]
    setup: Callable[..., Any] | None
    backward: Callable[..., Any] | None
    jvp: Callable[..., Any] | None
    vmap: Callable[..., Any] | None

    @property
    def once(self) -> bool:
        """May its backward be differentiated no further?"""
        return bool(getattr(self.backward, "_once", False))


class Applied:
    """One call: which arguments are Tensors, and what its results are."""

    def __init__(self, form: Form, args: Sequence[Any], outs: Sequence[Any], ctx: FunctionCtx) -> None:
        self.form = form
        self.places = [k for k, a in enumerate(args) if is_tensor(a)]
        self.avals: list[Aval] = [args[k]._aval for k in self.places]
        self.n_args = len(args)
        # Per result: None for what is no Tensor; can it have a gradient?
        self.outs: list[Aval | None] = [o._aval if is_tensor(o) else None for o in outs]
        self.active = [
            is_tensor(o) and o.is_floating_point() and not any(o is plain for plain in ctx._plain) for o in outs
        ]

    def gradients(self, ctx: FunctionCtx, given: Sequence[Tensor | None], plain: bool = False) -> list[Tensor | None]:
        """What ``backward`` gives, per Tensor among the arguments, in its shape and dtype."""
        backward = self.form.backward
        assert backward is not None, "the vertex says what is missing"
        if plain:
            backward = getattr(backward, "__wrapped__", backward)
        if ctx._materialize:
            given = [
                creation.zeros(aval.shape, dtype=aval.dtype) if g is None and aval is not None else g
                for g, aval in zip(given, self.outs, strict=True)
            ]
        found = backward(ctx, *given)
        parts = found if isinstance(found, tuple) else (found,)
        if len(parts) > self.n_args and all(p is None for p in parts[self.n_args :]):
            parts = parts[: self.n_args]
        if len(parts) != self.n_args:
            raise AutogradError(
                f"[{self}] backward must return one gradient per argument of forward, {self.n_args} in all, got "
                f"{len(parts)}; None is right for what has none"
            )
        for k, part in enumerate(parts):
            if part is not None and not is_tensor(part):
                raise ArgumentTypeError(f"[{self}] backward must return Tensors or None, gradient {k} is {shown(part)}")
            if part is not None and k not in self.places:
                raise AutogradError(f"[{self}] backward gave a gradient for argument {k}, which is no Tensor")
        return [self._fitting(k, parts[k], aval) for k, aval in zip(self.places, self.avals, strict=True)]

    def __repr__(self) -> str:
        return f"function({self.form.name})"

    def _fitting(self, k: int, g: Tensor | None, aval: Aval) -> Tensor | None:
        if g is None:
            return None
        if g.shape != aval.shape:
            lead = g.ndim - aval.ndim
            pairs = zip(g.shape[max(lead, 0) :], aval.shape, strict=False)
            if lead < 0 or any(want not in (1, have) for have, want in pairs):
                raise ShapeMismatchError(
                    f"[{self}] backward's gradient of argument {k} must have its shape",
                    expected=aval.shape,
                    got=g.shape,
                )
            axes = [i for i in range(g.ndim) if i < lead or (aval.shape[i - lead] == 1 and g.shape[i] != 1)]
            g = shaping.reshape(reducing.sum(g, tuple(axes), keepdim=True), *aval.shape)
        return g if g.dtype == aval.dtype else cast(g, aval.dtype)


class FunctionGate(Gate):
    """The derivative of a call as JAX asks for it; what it reads comes with the question."""

    def __init__(self, applied: Applied, ctx: FunctionCtx, locate: Callable[[Tensor], int]) -> None:
        self.applied, self.materialize = applied, ctx._materialize
        order: dict[int, int] = {}  # position among (inputs, outputs, others) -> position among what is read

        def source(t: Any) -> int | None:
            return order.setdefault(locate(t), len(order)) if is_tensor(t) else None

        self._saved = [source(t) for t in ctx._saved]
        for_jvp = ctx._saved if ctx._for_jvp is None else ctx._for_jvp
        self._for_jvp = [source(t) for t in for_jvp]
        self._attributes, self._tree = jax.tree.flatten(ctx.__dict__, is_leaf=is_tensor)
        self._sources = [source(t) for t in self._attributes]
        self._attributes = [None if is_tensor(a) else a for a in self._attributes]
        reached = tensors_of(f for f in (applied.form.backward, applied.form.jvp) if f is not None)
        self._reached = [t for t in reached if here().tapes or t._node.traced]
        self._of_reached = [source(t) for t in self._reached]
        outs = [active for active, aval in zip(applied.active, applied.outs, strict=True) if aval is not None]
        super().__init__(len(applied.avals), outs, tuple(order))

    def _context(self, read: Sequence[Any], sources: Sequence[int | None]) -> FunctionCtx:
        """The ``ctx`` with the values of this replay."""
        ctx = FunctionCtx()
        ctx._materialize = self.materialize
        ctx._saved = tuple(None if k is None else from_array(read[k]) for k in sources)
        attributes = [
            a if k is None else from_array(read[k]) for a, k in zip(self._attributes, self._sources, strict=True)
        ]
        ctx.__dict__.update(jax.tree.unflatten(self._tree, attributes))
        return ctx

    def _standing_in(self, read: Sequence[Any]) -> Any:
        return standing_in(self._reached, [read[k] for k in self._of_reached if k is not None], repr(self.applied))

    def pull(self, read: Any, cotangents: Any, wanted: tuple[bool, ...]) -> list[Any]:
        found = self._pulled(read, cotangents, wanted, plain=self.applied.form.once)
        return _once((*read, *cotangents), found) if self.applied.form.once else found

    def _pulled(self, read: Any, cotangents: Any, wanted: tuple[bool, ...], plain: bool) -> list[Any]:
        applied = self.applied
        if applied.form.backward is None:
            raise AutogradError(f"[{applied}] cannot be differentiated: it has no backward")
        ctx = self._context(read, self._saved)
        places = [k for k, w in zip(applied.places, wanted, strict=True) if w]
        ctx.needs_input_grad = tuple(k in places for k in range(applied.n_args))
        cts = iter(cotangents)
        given = [next(cts) if active else None for active in applied.active]
        with enable_grad(), self._standing_in(read):
            found = applied.gradients(ctx, [None if g is None else from_array(g) for g in given], plain)
            return [None if t is None else t.jax() for t, w in zip(found, wanted, strict=True) if w]

    def push(self, read: Any, tangents: Any) -> list[Any]:
        if self.applied.form.jvp is not None:
            return self._pushed(read, tangents)
        found = self._transposed(read, tangents)
        return _once((*read, *tangents), found) if self.applied.form.once else found

    def _pushed(self, read: Any, tangents: Any) -> list[Any]:
        applied = self.applied
        assert applied.form.jvp is not None
        ctx = self._context(read, self._for_jvp)
        given: list[Tensor | None] = [None] * applied.n_args
        for k, t, aval in zip(applied.places, tangents, applied.avals, strict=True):
            if t is not None:
                given[k] = from_array(t)
            elif ctx._materialize:
                given[k] = creation.zeros(aval.shape, dtype=aval.dtype)
        ctx.needs_input_grad = tuple(g is not None for g in given)
        with enable_grad(), self._standing_in(read):
            found = applied.form.jvp(ctx, *given)
            parts = found if isinstance(found, tuple) else (found,)
            if len(parts) != len(applied.outs):
                raise AutogradError(
                    f"[{applied}] jvp must return one tangent per result of forward, {len(applied.outs)} in all, got "
                    f"{len(parts)}"
                )
            triples = zip(parts, applied.outs, applied.active, strict=True)
            return [self._tangent(k, t, aval) for k, (t, aval, active) in enumerate(triples) if active]

    def _tangent(self, k: int, t: Any, aval: Any) -> Any:
        if t is None:
            return jnp.zeros(aval.shape, aval.dtype)
        if not is_tensor(t):
            raise ArgumentTypeError(f"[{self.applied}] jvp must return Tensors or None, tangent {k} is {shown(t)}")
        if t.shape != aval.shape:
            raise ShapeMismatchError(
                f"[{self.applied}] jvp's tangent of result {k} must have its shape", expected=aval.shape, got=t.shape
            )
        return cast(t, aval.dtype).jax()

    def _transposed(self, read: Any, tangents: Any) -> list[Any]:
        """Forward mode of a function without ``jvp``: the transpose of its backward, which is linear."""
        wanted = tuple(t is not None for t in tangents)
        given = [t for t in tangents if t is not None]

        def back(*cotangents: Any) -> list[Any]:
            found = self._pulled(read, cotangents, wanted, plain=True)
            return [jnp.zeros_like(t) if f is None else f for f, t in zip(found, given, strict=True)]

        like = [a for a, active in zip(self.applied.outs, self.applied.active, strict=True) if active and a is not None]
        try:
            return list(jax.linear_transpose(back, *[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in like])(given))
        except (AutogradError, NotImplementedError, AssertionError, TypeError) as error:
            raise AutogradError(
                f"[{self.applied}] forward mode needs a jvp: there is none, and backward could not be transposed, "
                "which works if it is linear in the gradients"
            ) from error


class _Once(Gate):
    """Results that must not be differentiated by what they were computed from."""

    def push(self, read: Any, tangents: Any) -> list[Any]:
        raise AutogradError(f"[once_differentiable] {TWICE}")

    def pull(self, read: Any, cotangents: Any, wanted: tuple[bool, ...]) -> list[Any]:
        raise AutogradError(f"[once_differentiable] {TWICE}")


def _once(read: Sequence[Any], found: list[Any]) -> list[Any]:
    inputs = [r for r in read if r is not None]
    values = [f for f in found if f is not None]
    outs = iter(_Once(len(inputs), [True] * len(values), ())(*inputs, *map(jax.lax.stop_gradient, values)))
    return [None if f is None else next(outs) for f in found]
