"""A copy on another device, as a primitive whose derivative goes back.

``jax.device_put`` knows where to send a cotangent only if it is told where the
operand lay, which under ``jax.grad`` nobody knows until it runs.  Here the tangent
holds operand and result, and is sent from where the one lies to where the other does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import NamedSharding, PartitionSpec

Array = jax.Array


def move(x: Array, place: Any) -> Array:
    """x on ``place``, a device or sharding.

    A compiled program runs where its arguments lie, so inside ``jax.jit`` a move is nothing.

    Args:
        x: any shape and dtype.
        place: a ``jax.Device`` or ``jax.sharding.Sharding``.

    Returns:
        A copy that shares no memory with x.

    Gradient: g, moved back to where x lay.
    Source: ``jax.device_put``.
    Example:
        >>> move(jax.numpy.ones(2), jax.devices()[-1]).tolist()
        [1.0, 1.0]
    """
    return _move.bind(x, place=place)  # type: ignore[no-any-return]


_move = Primitive("move")  # x, to a place
_send = Primitive("send")  # t, from where a lies to where b lies


def _moved(x: Any, *, place: Any) -> Any:
    return jax.device_put(x, place, may_alias=False)


def _sent(t: Any, a: Any, b: Any) -> Any:
    place = b.sharding
    if isinstance(place, NamedSharding) and t.ndim != b.ndim:  # one of them is batched
        place = NamedSharding(place.mesh, PartitionSpec())
    return jax.device_put(t, place, may_alias=False)


def _jvp_of_move(primals: Sequence[Any], tangents: Sequence[Any], *, place: Any) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    out = _move.bind(x, place=place)
    if type(t) is ad.Zero or t.dtype == jax.dtypes.float0:
        return out, ad.Zero(jax.typeof(out).to_tangent_aval())
    return out, _send.bind(t, x, out)


def _jvp_of_send(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    out = _send.bind(*primals)
    t, (_, a, b) = tangents[0], primals
    return out, ad.Zero(jax.typeof(out).to_tangent_aval()) if type(t) is ad.Zero else _send.bind(t, a, b)


def _transpose_of_send(ct: Any, t: Any, a: Any, b: Any) -> list[Any]:
    return [None if type(ct) is ad.Zero else _send.bind(ct, b, a), None, None]


def _batched_move(args: Sequence[Any], dims: Sequence[Any], *, place: Any) -> tuple[Any, Any]:
    return _move.bind(args[0], place=place), dims[0]


def _batched_send(args: Sequence[Any], dims: Sequence[Any]) -> tuple[Any, Any]:
    return _send.bind(*args), dims[0]


_move.def_impl(_moved)
_send.def_impl(_sent)
_move.def_abstract_eval(lambda x, *, place: x)
_send.def_abstract_eval(lambda t, a, b: t)
ad.primitive_jvps[_move] = _jvp_of_move
ad.primitive_jvps[_send] = _jvp_of_send
ad.primitive_transposes[_send] = _transpose_of_send
batching.primitive_batchers[_move] = _batched_move
batching.primitive_batchers[_send] = _batched_send
mlir.register_lowering(_move, mlir.lower_fun(lambda x, *, place: x, multiple_results=False))
mlir.register_lowering(_send, mlir.lower_fun(lambda t, a, b: t, multiple_results=False))
