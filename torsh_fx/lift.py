"""Calling a JAX transform on Tensors: user code keeps its flags, the tape keeps its edges.

Inside, a function sees Tensors around tracers, with gradients enabled and the
caller's own ``jax_enable_x64``; JAX's machinery around it runs with real
64-bit types.  Outside, when an argument requires grad, the call is recorded as
one node with JAX's VJP, so a ``backward()`` through it is right.

NOTE [staged]: that node may be differentiated again, and by then what the function
captured may have changed.  So its call is staged first (``jax.jit`` has done it), and
derivatives of every order are those of the jaxpr.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

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
            if flag and self.name != "shard_map":  # whose results go through collectives, which are JAX's
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


def alike(t: Tensor, value: Any) -> Tensor:
    """A Tensor around ``value``, of the class of ``t``."""
    out = from_array(value)
    out.__class__ = t.__class__
    return out


def _without_history(tree: Any) -> Any:
    def strip(x: Any) -> Any:
        return alike(x, x.jax()) if is_tensor(x) else x

    return jax.tree.map(strip, tree, is_leaf=is_tensor)


class Foreign:
    """The call of a node that a JAX transform made: its derivatives are JAX's."""

    name = "transform"
    foreign = True
    present: tuple[str, ...] = ()

    def __init__(self, label: str, applied: Applied, k: int) -> None:
        self.label, self.applied, self.k = label, applied, k
        self.avals, self.out, self.n = applied.avals, applied.outs[k], len(applied.avals)
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
        return tuple(range(self.n))

    def runtime(self, values: Sequence[Any]) -> tuple[Any, ...]:
        return ()

    def environment(self, residuals: Any, runtime: Any) -> dict[str, Any]:
        return {"args": [residuals[i] for i in range(self.n)]}

    def cotangent(self, i: int, g: Any, env: dict[str, Any]) -> Any:
        seeds = [
            g if j == self.k else np.zeros(a.shape, a.dtype if is_floating(a.dtype) else jax.dtypes.float0)
            for j, a in enumerate(self.applied.outs)
        ]
        return self.applied.pullback(env["args"])(seeds)[i]


class Applied:
    """A function applied to arrays, and its derivatives there; see NOTE [staged]."""

    def __init__(self, fn: Callable[..., Any], primals: Sequence[Any], is_staged: bool) -> None:
        self.primals = list(primals)
        self.avals = tuple([_aval(p) for p in primals])
        self.fn: Callable[..., Any] | None = fn if is_staged else staged(fn, primals)
        self.values, self.pull = jax.vjp(self.fn or fn, *primals)
        self.outs = tuple([_aval(v) for v in self.values])

    def pullback(self, args: Sequence[Any]) -> Callable[..., Any]:
        """The pullback at ``args``: the one that was made with the values, or where these vary a new one."""
        if all(a is p for a, p in zip(args, self.primals, strict=True)):
            return self.pull
        if self.fn is None:
            raise AutogradError(
                "this result of a transform can be differentiated once: its function looks at values that JAX has "
                "while it differentiates but not while it stages; compute them outside, or nest transforms"
            )
        return jax.vjp(self.fn, *args)[1]


def staged(fn: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any] | None:
    """``fn`` on arrays like ``args``, as it is now; None if it looks at values that are not there then."""
    try:
        return jaxpr_as_fun(jax.make_jaxpr(fn)(*args))  # type: ignore[no-any-return]
    except _UNKNOWN:
        return None


_UNKNOWN = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


def _aval(value: Any) -> Aval:
    return Aval(tuple(value.shape), np.dtype(value.dtype))


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
    with jax.enable_x64(True):
        if not edges or not here().grad:
            bare = [alike(t, t.jax()) if is_tensor(t) and k in edges else t for k, t in enumerate(flat)]
            a, kw = jax.tree.unflatten(tree, bare)
            return transformed(*a, **kw)
        return _recorded(inside, transformed, tree, [_as_now(x) for x in flat], edges)


def linear_parts(inside: Inside, primals: tuple[Any, ...], transform: Callable[..., Any]) -> tuple[Any, ...]:
    """``transform(fn, *primals, has_aux)``: a result, a linear map at the primals, perhaps aux; all in the graph.

    The map is taken anew at each of its calls, from the function as it was staged now.
    """
    refuse_on_tape(inside.name)
    flat, tree = jax.tree.flatten(primals, is_leaf=is_tensor)
    inside.flags = [t.requires_grad and t.is_leaf for t in flat if is_tensor(t)]
    structure: list[Any] = []

    def of_arrays(*arrays: Any) -> list[Any]:
        own = [from_array(a) if is_tensor(x) else a for x, a in zip(flat, arrays, strict=True)]
        leaves, out = jax.tree.flatten(inside(*jax.tree.unflatten(tree, own)), is_leaf=is_tensor)
        structure[:] = [out, [is_tensor(x) for x in leaves]]
        return [x.jax() if is_tensor(x) else jnp.asarray(x) for x in leaves]

    with jax.enable_x64(True):
        pure = staged(of_arrays, [x.jax() if is_tensor(x) else jnp.asarray(x) for x in flat])
    if pure is None:
        raise AutogradError(
            f"[{inside.name}] a primal requires grad, and the function looks at values that JAX does not have while it "
            f"stages it; detach() the primal, or call {inside.name} under torsh_fx.no_grad()"
        )

    def of_tensors(*args: Any) -> Any:
        arrays = [x.jax() if is_tensor(x) else jnp.asarray(x) for x in jax.tree.leaves(args, is_leaf=is_tensor)]
        found = zip(pure(*arrays), structure[1], strict=True)
        return jax.tree.unflatten(structure[0], [from_array(a) if t else a for a, t in found])

    def mapped(args: tuple[Any, ...], vectors: tuple[Any, ...]) -> Any:
        return transform(of_tensors, *args, has_aux=inside.has_aux)[1](*vectors)

    out = call(inside, of_tensors, primals, {})
    result, *aux = out if inside.has_aux else (out,)
    return (result, lambda *vectors: call(inside, mapped, (primals, vectors), {}), *aux)


def _as_now(x: Any) -> Any:
    """An argument that no later write reaches."""
    if is_tensor(x):
        return alike(x, x.jax())
    return x.copy() if isinstance(x, np.ndarray) else x


def _recorded(
    inside: Inside, transformed: Callable[..., Any], tree: Any, bare: list[Any], edges: dict[int, Any]
) -> Any:
    shape: list[Any] = []

    def of_arrays(*values: Any) -> list[Any]:
        full = list(bare)
        for k, value in zip(edges, values, strict=True):
            full[k] = alike(bare[k], value)
        a, kw = jax.tree.unflatten(tree, full)
        leaves, out_tree = jax.tree.flatten(transformed(*a, **kw), is_leaf=is_tensor)
        shape[:] = [out_tree, [type(x) if is_tensor(x) else None for x in leaves]]
        return [x.jax() if is_tensor(x) else jnp.asarray(x) for x in leaves]

    nodes = tuple([bare[k]._node for k in edges])
    applied = Applied(of_arrays, [n.value for n in nodes], inside.name == "jit")
    results = []
    for k, (value, kind) in enumerate(zip(applied.values, shape[1], strict=True)):
        if kind is None:
            results.append(value)
            continue
        foreign = Foreign(inside.name, applied, k)
        keep = tuple(edges.values()) if is_floating(foreign.out.dtype) else ()
        node = Node(foreign, nodes, (), foreign.out, keep, value)
        out = Tensor(node, node if keep else None)
        out.__class__ = kind
        results.append(out)
    return jax.tree.unflatten(shape[0], results)
