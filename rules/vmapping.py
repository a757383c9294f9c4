"""vmap of a row's two primitives: the same op on a batch where that exists, else the op mapped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from .applying import bind, vary_alike
from .call import Aval, Call
from .linear import BatchedCall, BatchedLinear, Linear, batched, linear_of
from .op import Row


def batch_op(row: Row, axis: Any, args: Sequence[Any], dims: Sequence[Any], *, call: Any) -> tuple[Any, int | None]:
    """Batching rule of an op's own primitive."""
    dims = tuple(dims)
    if all(d is None for d in dims):  # jacfwd: only other arguments are mapped
        return row.primitive.bind(*args, call=call), None
    if isinstance(call, Call):
        if row.kind == "elementwise":
            aligned, bigger = _align(call, args, dims, axis.size)
            return bind(bigger, *aligned), 0
        if row.batch_fn is not None:
            out = row.batch_fn(axis.size, args, dims, call)
            if out is not None:
                return out, 0
    return row.primitive.bind(*args, call=batched(BatchedCall, call, dims, _name(axis), axis.spmd_name)), 0


def batch_tangent(
    row: Row, axis: Any, args: Sequence[Any], dims: Sequence[Any], *, call: Any
) -> tuple[Any, int | None]:
    """Batching rule of an op's tangent primitive."""
    dims = tuple(dims)
    if all(d is None for d in dims):
        return row.tangent_primitive.bind(*args, call=call), None
    if isinstance(call, Linear) and row.kind == "elementwise":
        aligned, bigger = _align_tangent(call, args, dims, axis.size)
        return row.tangent_primitive.bind(*vary_alike(aligned), call=bigger), 0
    mapped = batched(BatchedLinear, call, dims, _name(axis), axis.spmd_name)
    return row.tangent_primitive.bind(*args, call=mapped), 0


def _name(axis: Any) -> Any:
    # An unnamed vmap carries a private sentinel; only a real name may be passed on.
    return axis.name if isinstance(axis.name, str) else None


def _front(array: Any, dim: int | None, rank: int) -> Any:
    """Batch axis first, then ones, then the operand's own axes, ``rank`` of them."""
    if dim is None:
        return array
    array = jnp.moveaxis(array, dim, 0)
    own = array.shape[1:]
    return array.reshape(array.shape[:1] + (1,) * (rank - len(own)) + own)


def _align(call: Call, args: Sequence[Any], dims: Sequence[Any], size: Any) -> tuple[list[Any], Call]:
    """An elementwise op on a batch is the same op on operands of one more axis."""
    rank = call.out.ndim
    out = [_front(a, d, rank) for a, d in zip(args, dims, strict=True)]
    if all(d is None for d in dims[: call.n]):  # only a runtime scalar is batched
        out[0] = jnp.broadcast_to(out[0], (size, *call.out.shape))
    avals = tuple(Aval(tuple(a.shape), np.dtype(a.dtype)) for a in out[: call.n])
    return out, call.op.call(avals, call.kwargs, call.present)


def _align_tangent(call: Linear, args: Sequence[Any], dims: Sequence[Any], size: Any) -> tuple[list[Any], Linear]:
    inner = call.call
    out = [_front(a, d, inner.out.ndim) for a, d in zip(args, dims, strict=True)]
    first = call.n_constants
    if all(d is None for d in dims[first:]):  # the batch comes from residuals alone
        out[first] = jnp.broadcast_to(out[first], (size, *inner.out.shape))
    known = dict(zip(call.keys, out, strict=False))
    tangents = iter(out[first:])
    avals = []
    for i, active in enumerate(call.mask):
        array = next(tangents) if active else known.get(i)
        avals.append(inner.avals[i] if array is None else Aval(tuple(array.shape), np.dtype(array.dtype)))
    bigger = inner.op.call(tuple(avals), inner.kwargs, inner.present)
    return out, linear_of(bigger, call.mask)
