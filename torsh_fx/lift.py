"""Calling a JAX transform on Tensors: user code keeps its flags, the tape keeps its edges.

Inside, a function sees Tensors around tracers, with gradients enabled and the
caller's own ``jax_enable_x64``; JAX's machinery around it runs with real
64-bit types.  Outside, when an argument requires grad, the call is recorded as
one node with JAX's VJP, so a ``backward()`` through it is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .dtypes import is_floating
from .graph import Node, Slot, next_serial
from .rules import AutogradError
from .rules.call import Aval
from .rules.context import config
from .state import ambient_trace, here
from .tensor import Tensor, from_array


def is_tensor(x: Any) -> bool:
    """Is it a Tensor?  The ``is_leaf`` of every tree walk here."""
    return isinstance(x, Tensor)


class Inside:
    """A user's function as JAX shall see it: flags restored, history not leaving."""

    def __init__(self, fn: Callable[..., Any], name: str, scalar: bool = False, has_aux: bool = False) -> None:
        self.fn, self.name, self.scalar, self.has_aux = fn, name, scalar, has_aux
        self.flags: list[bool] = []  # requires_grad of the call's Tensors, in tree order
        self.user_x64 = bool(config.jax_enable_x64)
        self.tracking = here().grad
        around = ambient_trace()
        # Traced anew at each call, unless a jit (ours or theirs) keeps what is traced.
        self.fresh = name != "jit" and (around is None or any(around == own for own in here().own_traces))
        self.gave_tensor = False
        self.__name__ = getattr(fn, "__name__", name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = [t for t in jax.tree.leaves((args, kwargs), is_leaf=is_tensor) if is_tensor(t)]
        born = next_serial()  # leaves made before this come from outside
        for t, flag in zip(tensors, self.flags, strict=False):
            if flag:
                t.requires_grad_()
        grad, here().grad = here().grad, True
        if self.fresh:
            here().own_traces.append(ambient_trace())
        try:
            with jax.enable_x64(self.user_x64):
                out = self.fn(*args, **kwargs)
            if self.tracking:
                self._refuse_captured(out, born)
        finally:
            here().grad = grad
            if self.fresh:
                here().own_traces.pop()
        value, aux = out if self.has_aux else (out, None)
        if self.scalar:
            self.gave_tensor = is_tensor(value)
            value = value.jax() if is_tensor(value) else value
            return (value, _without_history(aux)) if self.has_aux else value
        return (_without_history(value), _without_history(aux)) if self.has_aux else _without_history(value)

    def _refuse_captured(self, out: Any, born: int) -> None:
        """A tensor from outside that requires grad would lose its gradient here: say so."""
        for t in jax.tree.leaves(out, is_leaf=is_tensor):
            edge = t._current_edge() if is_tensor(t) else None
            seen = {id(edge)}
            stack = [] if edge is None else [edge]
            while stack:
                vertex = stack.pop()
                if isinstance(vertex, Slot) and vertex.serial < born:
                    raise AutogradError(
                        f"[{self.name}] the function uses a tensor of shape {list(vertex.aval.shape)} from outside "
                        "that requires grad; its gradient would be lost: pass it as an argument, detach() it, or "
                        f"call {self.name} under torsh_fx.no_grad()"
                    )
                for e in vertex.edges:
                    if e is not None and id(e) not in seen:
                        seen.add(id(e))
                        stack.append(e)


def _without_history(tree: Any) -> Any:
    def strip(x: Any) -> Any:
        return from_array(x.jax()) if is_tensor(x) else x

    return jax.tree.map(strip, tree, is_leaf=is_tensor)


class Foreign:
    """The call of a node that a JAX transform made: its only derivative is the VJP JAX returned."""

    name = "transform"
    foreign = True
    present: tuple[str, ...] = ()
    n: int

    def __init__(
        self, label: str, pull: Callable[..., Any], k: int, outs: Sequence[Aval], args: Sequence[Aval]
    ) -> None:
        self.label, self.pull, self.k, self.outs, self.avals = label, pull, k, outs, tuple(args)
        self.n = len(args)
        self.out = outs[k]
        self.pullbacks: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"transform({self.label})"

    def describe(self, runtime: dict[str, Any]) -> str:
        return repr(self)

    def missing(self) -> str | None:
        return None

    def active(self, i: int) -> bool:
        return is_floating(self.avals[i].dtype)

    def residual_keys(self, mask: tuple[bool, ...]) -> tuple[int | str, ...]:
        return ()

    def runtime(self, values: Sequence[Any]) -> tuple[Any, ...]:
        return ()

    def environment(self, residuals: Any, runtime: Any) -> dict[str, Any]:
        return {}

    def cotangent(self, i: int, g: Any, env: dict[str, Any]) -> Any:
        seeds = [
            g if j == self.k else np.zeros(a.shape, a.dtype if is_floating(a.dtype) else jax.dtypes.float0)
            for j, a in enumerate(self.outs)
        ]
        return self.pull(seeds)[i]


def refuse_on_tape(name: str) -> None:
    """A transform's result would be a constant of the tape or step, frozen in silence."""
    if here().capture is not None:
        raise AutogradError(
            f"[{name}] a JAX transform inside a compiled step is not possible; apply it outside, or write the step as "
            "a function of arrays and use torsh_fx.jit"
        )
    if here().tapes:
        raise AutogradError(
            f"[{name}] a transform inside a recorded block would be frozen on the tape; record the function first "
            f"and apply {name} to tape.as_jax()"
        )


def call(inside: Inside, transformed: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run ``transformed`` (a JAX transform of ``inside``) and record it if an argument requires grad."""
    refuse_on_tape(inside.name)
    flat, tree = jax.tree.flatten((args, kwargs), is_leaf=is_tensor)
    inside.flags = [t.requires_grad and t.is_leaf for t in flat if is_tensor(t)]
    edges = {k: t._current_edge() for k, t in enumerate(flat) if is_tensor(t) and t._current_edge() is not None}
    bare = [from_array(t.jax()) if is_tensor(t) and k in edges else t for k, t in enumerate(flat)]
    with jax.enable_x64(True):
        if not edges or not here().grad:
            a, kw = jax.tree.unflatten(tree, bare)
            return transformed(*a, **kw)
        return _recorded(inside, transformed, tree, bare, edges)


def _recorded(
    inside: Inside, transformed: Callable[..., Any], tree: Any, bare: list[Any], edges: dict[int, Any]
) -> Any:
    shape: list[Any] = []

    def of_arrays(*values: Any) -> list[Any]:
        full = list(bare)
        for k, value in zip(edges, values, strict=True):
            full[k] = from_array(value)
        a, kw = jax.tree.unflatten(tree, full)
        leaves, out_tree = jax.tree.flatten(transformed(*a, **kw), is_leaf=is_tensor)
        shape[:] = [out_tree, [is_tensor(x) for x in leaves]]
        return [x.jax() if is_tensor(x) else jnp.asarray(x) for x in leaves]

    primals = [bare[k].jax() for k in edges]
    outs, pull = jax.vjp(of_arrays, *primals)
    out_avals = [Aval(tuple(o.shape), np.dtype(o.dtype)) for o in outs]
    arg_avals = [Aval(tuple(p.shape), np.dtype(p.dtype)) for p in primals]
    results = []
    for k, (value, was_tensor) in enumerate(zip(outs, shape[1], strict=True)):
        if not was_tensor:
            results.append(value)
            continue
        keep = tuple(edges.values()) if is_floating(out_avals[k].dtype) else ()
        node = Node(Foreign(inside.name, pull, k, out_avals, arg_avals), (), (), out_avals[k], keep, value)
        results.append(Tensor(node, node if keep else None))
    return jax.tree.unflatten(shape[0], results)
