"""Values that pass as they are, and whose derivative somebody else's Python computes.

A gate is what a hook and a ``Function`` are to JAX: its operands are the inputs
that have a derivative, the outputs as they were computed elsewhere, and whatever
else the derivative reads.  It returns the outputs.  Forward mode asks the gate to
``push`` tangents, reverse mode to ``pull`` cotangents; both may be traced, batched
and differentiated again, since they run on whatever values JAX brings.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .applying import vary_alike
from .context import under_x64

Arrays = Sequence[Any]


class Gate:
    """What passes: ``n`` inputs, then the outputs, then whatever else is read.

    Args:
        n: how many operands have a derivative.
        outs: per output, can it have a tangent?
        reads: which of (inputs, outputs, others) the derivative reads, by position.
    """

    def __init__(self, n: int, outs: Sequence[bool], reads: Sequence[int]) -> None:
        self.n, self.outs, self.reads = n, tuple(outs), tuple(reads)

    def push(self, read: Arrays, tangents: Arrays) -> list[Any]:
        """Tangents of the outputs that have one, from those of the inputs, None for zero."""
        raise NotImplementedError

    def pull(self, read: Arrays, cotangents: Arrays, wanted: tuple[bool, ...]) -> list[Any]:
        """Cotangents of the wanted inputs, from those of the outputs that have one; None is zero, both ways."""
        raise NotImplementedError

    def __call__(self, *operands: Any) -> list[Any]:
        """The outputs, as arrays or tracers."""
        return list(_gate.bind(*vary_alike(operands), call=self))


class _Mapped(Gate):
    """A gate under ``vmap``; ``dims`` say which of its operands are mapped, at axis 0."""

    def __init__(self, inner: Gate, dims: tuple[int | None, ...], vmap: Callable[..., Any]) -> None:
        super().__init__(inner.n, inner.outs, inner.reads)
        self.inner, self.dims, self.vmap = inner, dims, vmap
        self.read_dims = [dims[k] for k in self.reads]

    def push(self, read: Arrays, tangents: Arrays) -> list[Any]:
        dims = [*self.read_dims, *self.dims[: self.n]]
        return _mapped(self.vmap, self.inner.push, dims, len(read), [*read, *tangents])

    def pull(self, read: Arrays, cotangents: Arrays, wanted: tuple[bool, ...]) -> list[Any]:
        def of(read: Arrays, cotangents: Arrays) -> list[Any]:
            return self.inner.pull(read, cotangents, wanted)

        dims = [*self.read_dims, *[0] * len(cotangents)]
        found = _mapped(self.vmap, of, dims, len(read), [*read, *cotangents])
        own = [d for d, w in zip(self.dims, wanted, strict=False) if w]
        return [_summed(f, d) for f, d in zip(found, own, strict=True)]


class _Tangent:
    """The linear map from the tangents of a gate's active inputs, its constants first."""

    def __init__(self, gate: Gate, mask: tuple[bool, ...], avals: Sequence[Any]) -> None:
        self.gate, self.mask, self.avals = gate, mask, avals
        self.n = len(gate.reads)

    def eval(self, *args: Any) -> list[Any]:
        given = iter(args[self.n :])
        return self.gate.push(args[: self.n], [next(given) if m else None for m in self.mask])

    def transpose(self, constants: Arrays, cotangents: Arrays) -> list[Any]:
        return self.gate.pull(constants, cotangents, self.mask)


class _MappedTangent:
    """The same under ``vmap``: tangents that are not mapped get the sum over the batch."""

    def __init__(
        self, inner: Any, dims: tuple[int | None, ...], vmap: Callable[..., Any], avals: Sequence[Any]
    ) -> None:
        self.inner, self.dims, self.vmap, self.avals = inner, dims, vmap, avals
        self.n = inner.n

    def eval(self, *args: Any) -> list[Any]:
        return _mapped(self.vmap, lambda c, t: self.inner.eval(*c, *t), self.dims, self.n, args)

    def transpose(self, constants: Arrays, cotangents: Arrays) -> list[Any]:
        dims = [*self.dims[: self.n], *[0] * len(cotangents)]
        found = _mapped(self.vmap, self.inner.transpose, dims, self.n, [*constants, *cotangents])
        return [_summed(f, d) for f, d in zip(found, self.dims[self.n :], strict=True)]


def _mapped(vmap: Any, fn: Callable[..., Any], dims: Sequence[int | None], n: int, args: Arrays) -> list[Any]:
    """``fn(args[:n], args[n:])``, mapped; either side may hold None."""
    there = [k for k, a in enumerate(args) if a is not None]
    which: list[int] = []

    def of_arrays(*arrays: Any) -> list[Any]:
        full: list[Any] = [None] * len(args)
        for k, array in zip(there, arrays, strict=True):
            full[k] = array
        found = fn(full[:n], full[n:])
        which[:] = [k for k, f in enumerate(found) if f is not None]
        which.append(len(found))
        return [f for f in found if f is not None]

    mapped = vmap(of_arrays, [dims[k] for k in there])(*[args[k] for k in there])
    out: list[Any] = [None] * which.pop()
    for k, array in zip(which, mapped, strict=True):
        out[k] = array
    return out


def _summed(array: Any, dim: int | None) -> Any:
    return jnp.sum(array, axis=0, dtype=array.dtype) if array is not None and dim is None else array


def _vmap_of(axis: Any) -> Callable[..., Any]:
    # An unnamed vmap carries a private sentinel; only a real name may be passed on.
    named: dict[str, Any] = {"axis_name": axis.name} if isinstance(axis.name, str) else {}

    def vmap(fn: Callable[..., Any], dims: Sequence[int | None]) -> Callable[..., Any]:
        if all(d is None for d in dims):
            return lambda *args: [jnp.broadcast_to(a, (axis.size, *jnp.shape(a))) for a in fn(*args)]
        return jax.vmap(fn, in_axes=tuple(dims), spmd_axis_name=axis.spmd_name, **named)

    return vmap


def _to_front(args: Arrays, dims: Sequence[int | None]) -> tuple[list[Any], tuple[int | None, ...]]:
    moved = [a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(args, dims, strict=True)]
    return moved, tuple(None if d is None else 0 for d in dims)


def _is_zero(t: Any) -> bool:
    return type(t) is ad.Zero or getattr(t, "dtype", None) == jax.dtypes.float0


# -- the primitive and its tangent ------------------------------------------------------------

_gate = Primitive("gate")
_gate.multiple_results = True
_tangent = Primitive("gate_tangent")
_tangent.multiple_results = True


def _outputs(*operands: Any, call: Gate) -> list[Any]:
    return list(operands[call.n : call.n + len(call.outs)])


def _jvp(primals: Arrays, tangents: Arrays, *, call: Gate) -> tuple[list[Any], list[Any]]:
    outs = _gate.bind(*primals, call=call)
    zeros = [ad.Zero(jax.typeof(o).to_tangent_aval()) for o in outs]
    mask = tuple(not _is_zero(t) for t in tangents[: call.n])
    if not any(mask) or not any(call.outs):
        return outs, zeros
    everything = (*primals[: call.n], *outs, *primals[call.n + len(outs) :])
    avals = [z.aval for z, active in zip(zeros, call.outs, strict=True) if active]
    given = [t for t, m in zip(tangents, mask, strict=False) if m]
    linear = _Tangent(call, mask, avals)
    found = iter(_tangent.bind(*vary_alike([*(everything[k] for k in call.reads), *given]), call=linear))
    return outs, [next(found) if active else z for z, active in zip(zeros, call.outs, strict=True)]


def _batch(axis: Any, args: Arrays, dims: Sequence[int | None], *, call: Gate) -> tuple[list[Any], list[int | None]]:
    if all(d is None for d in dims):  # jacfwd: only other arguments are mapped
        return _gate.bind(*args, call=call), [None] * len(call.outs)
    moved, at = _to_front(args, dims)
    outs = range(call.n, call.n + len(call.outs))
    for k in outs:
        if at[k] is None:
            moved[k] = jnp.broadcast_to(moved[k], (axis.size, *moved[k].shape))
    at = tuple(0 if k in outs else d for k, d in enumerate(at))
    return _gate.bind(*moved, call=_Mapped(call, at, _vmap_of(axis))), [0] * len(outs)


def _jvp_of_tangent(primals: Arrays, tangents: Arrays, *, call: Any) -> tuple[list[Any], list[Any]]:
    outs = _tangent.bind(*primals, call=call)
    n = call.n
    terms: list[list[Any]] = []
    if not all(map(_is_zero, tangents[n:])):
        terms.append(_tangent.bind(*primals[:n], *map(ad.instantiate_zeros, tangents[n:]), call=call))
    moving = [k for k in range(n) if not _is_zero(tangents[k])]
    if moving:

        def of_constants(*values: Any) -> list[Any]:
            args = list(primals)
            for k, value in zip(moving, values, strict=True):
                args[k] = value
            return [jnp.asarray(o) for o in call.eval(*args)]

        terms.append(jax.jvp(of_constants, tuple(primals[k] for k in moving), tuple(tangents[k] for k in moving))[1])
    if not terms:
        return outs, [ad.Zero(jax.typeof(o).to_tangent_aval()) for o in outs]
    return outs, [functools.reduce(ad.add_jaxvals, several) for several in zip(*terms, strict=True)]


def _transpose(cotangents: Arrays, *args: Any, call: Any) -> list[Any]:
    constants = args[: call.n]
    given = [None if type(ct) is ad.Zero else ct for ct in cotangents]
    if all(ct is None for ct in given):
        return [None] * len(args)
    return [*[None] * call.n, *call.transpose(constants, given)]


def _batch_tangent(
    axis: Any, args: Arrays, dims: Sequence[int | None], *, call: Any
) -> tuple[list[Any], list[int | None]]:
    if all(d is None for d in dims):
        return _tangent.bind(*args, call=call), [None] * len(call.avals)
    moved, at = _to_front(args, dims)
    avals = [a.update(shape=(axis.size, *a.shape)) for a in call.avals]
    mapped = _MappedTangent(call, at, _vmap_of(axis), avals)
    return _tangent.bind(*moved, call=mapped), [0] * len(call.avals)


def _evaluated(*args: Any, call: Any) -> list[Any]:
    return [jnp.asarray(o) for o in call.eval(*args)]


_gate.def_impl(_outputs)
_gate.def_abstract_eval(_outputs)
mlir.register_lowering(_gate, mlir.lower_fun(_outputs, multiple_results=True))
ad.primitive_jvps[_gate] = under_x64(_jvp)
batching.fancy_primitive_batchers[_gate] = under_x64(_batch)

_tangent.def_impl(under_x64(_evaluated))
_tangent.def_abstract_eval(lambda *avals, call: list(call.avals))
mlir.register_lowering(_tangent, under_x64(mlir.lower_fun(_evaluated, multiple_results=True)))
ad.primitive_jvps[_tangent] = under_x64(_jvp_of_tangent)
ad.primitive_transposes[_tangent] = under_x64(_transpose)
batching.fancy_primitive_batchers[_tangent] = under_x64(_batch_tangent)


# -- a computation whose batching somebody else's Python knows -----------------------------------


class Whole:
    """A computation that says itself how it is mapped, and what gate its outputs pass."""

    def forward(self, *arrays: Any) -> list[Any]:
        """The outputs."""
        raise NotImplementedError

    def gated(self, inputs: Arrays, outs: Arrays) -> list[Any]:
        """The outputs, behind a gate."""
        raise NotImplementedError

    def batched(self, size: Any, arrays: Arrays, dims: Sequence[int | None]) -> tuple[list[Any], list[int | None]]:
        """The outputs for a batch, and where each has its batch axis."""
        raise NotImplementedError

    def __call__(self, *arrays: Any) -> list[Any]:
        """The outputs, as arrays or tracers."""
        return list(_whole.bind(*arrays, call=self))


_whole = Primitive("whole")
_whole.multiple_results = True


def _run_whole(*arrays: Any, call: Whole) -> list[Any]:
    return call.forward(*arrays)


def _jvp_of_whole(primals: Arrays, tangents: Arrays, *, call: Whole) -> tuple[list[Any], list[Any]]:
    outs = _whole.bind(*primals, call=call)
    moving = [k for k, t in enumerate(tangents) if not _is_zero(t)]

    def of_inputs(*values: Any) -> list[Any]:
        inputs = list(primals)
        for k, value in zip(moving, values, strict=True):
            inputs[k] = value
        return call.gated(inputs, outs)

    found = jax.jvp(of_inputs, tuple(primals[k] for k in moving), tuple(tangents[k] for k in moving))
    return list(found[0]), list(found[1])


def _batch_whole(
    axis: Any, args: Arrays, dims: Sequence[int | None], *, call: Whole
) -> tuple[list[Any], list[int | None]]:
    return call.batched(axis.size, args, tuple(dims))


def _whole_avals(*avals: Any, call: Whole) -> list[Any]:
    return list(jax.make_jaxpr(call.forward)(*avals).out_avals)


_whole.def_impl(under_x64(_run_whole))
_whole.def_abstract_eval(under_x64(_whole_avals))
mlir.register_lowering(_whole, under_x64(mlir.lower_fun(_run_whole, multiple_results=True)))
ad.primitive_jvps[_whole] = under_x64(_jvp_of_whole)
batching.fancy_primitive_batchers[_whole] = under_x64(_batch_whole)
