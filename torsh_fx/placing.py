"""Tensors over a mesh of devices.

NOTE [mesh]: a distributed Tensor is one Tensor whose value XLA keeps in parts; every op
works on it as on any other, and the compiled program holds the collectives.  Axes are
automatic ones; what a parameter's gradient and its new values lie like is fixed (see
``record.kept_layout`` and ``program``), the rest XLA decides from its inputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from .creation import as_tensor
from .devices import moved
from .dtypes import is_floating
from .graph import leaf
from .lift import Inside, call, is_tensor
from .meshes import automatic, sharding_of
from .record import laid_out, put
from .rules import ArgumentTypeError, ArgumentValueError
from .rules.kinds import shown
from .state import here
from .storage import note_read_by_trace
from .tensor import Tensor, result
from .trail import home, note_placed


def distribute(t: Any, mesh: Any, spec: Any = None, *, local: bool = False) -> Tensor:
    """``t`` over the devices of a mesh, whole on each or in parts as ``spec`` says.

    Args:
        t: a Tensor, or an array to be made one.
        mesh: a ``jax.sharding.Mesh``, as ``jax.make_mesh`` makes; its axes count as automatic.
        spec: a ``jax.sharding.PartitionSpec``: per axis of ``t`` the mesh axes that divide it;
            by default every device has all of it.
        local: ``t`` is the part of this process alone, of several that ``jax.distributed`` joined.

    Returns:
        A leaf, if ``t`` is one: it collects its own gradient if ``t`` requires grad.  Of a
        result, an op in its graph.

    Raises:
        ArgumentValueError: the spec does not divide the shape, or names what the mesh has not.
        ArgumentTypeError: ``mesh`` or ``spec`` is none, or ``t`` can be no Tensor.

    Gradient: g, which lies as the result where both are on one mesh, else moved back.
    Source: ``jax.device_put`` and ``jax.lax.with_sharding_constraint``.
    Example:
        >>> mesh = jax.make_mesh((1,), ("data",))
        >>> x = distribute(ones(4, 2), mesh, jax.sharding.PartitionSpec("data"))
        >>> (x * 2).sum().item()
        16.0
    """
    x = t if is_tensor(t) else as_tensor(t)
    recorder = here()
    edge = x._current_edge()
    recorded = x._node.traced or recorder.tapes or recorder.capture is not None
    recorded = recorded or (edge is not None and not x.is_leaf)
    if local:
        return _of_parts(x, mesh, spec, bool(recorded))
    sharding = sharding_of("distribute", mesh, spec, x.shape)
    if not recorded:
        out = _leaf_of(put(x.detach().jax(), sharding), edge is not None)
    elif x._node.traced or home(x._node) in (None, sharding.mesh):
        out = _constrained(x, edge, sharding)
    else:
        return moved(x, sharding)
    out.__class__ = x.__class__
    return out


def _constrained(x: Tensor, edge: Any, sharding: Any) -> Tensor:
    source, recorder = x._operand(), here()
    active = edge is not None and recorder.grad and is_floating(x.dtype)
    node = laid_out(source, edge if active else None, sharding)
    for tape in recorder.tapes:
        tape.note(node, (x,))
    if node.traced:
        note_read_by_trace((x,))
    return result(node)


def _of_parts(x: Tensor, mesh: Any, spec: Any, recorded: bool) -> Tensor:
    if recorded:
        raise ArgumentValueError("[distribute] local=True takes data, not a result with history or on a tape")
    sharding_of("distribute", mesh, None, x.shape)
    spec = PartitionSpec(spec) if isinstance(spec, str) else PartitionSpec() if spec is None else spec
    sharding = jax.sharding.NamedSharding(automatic(mesh), spec)
    host = np.asarray(x.detach().jax())
    try:
        with jax.enable_x64(True):
            value = jax.make_array_from_process_local_data(sharding, host)
    except ValueError as error:
        raise ArgumentValueError(f"[distribute] parts of shape {list(x.shape)} do not fit {spec}: {error}") from error
    return _leaf_of(value, x.requires_grad)


def _leaf_of(value: Any, requires_grad: bool) -> Tensor:
    note_placed(value)
    return Tensor(leaf(value)).requires_grad_(requires_grad)


def shard_map(
    fn: Callable[..., Any], *, mesh: Any, in_specs: Any, out_specs: Any, check_vma: bool = True
) -> Callable[..., Any]:
    """``fn`` on each device's own parts of its arguments, with collectives where it writes them.

    Inside, ``fn`` sees Tensors of the parts' shapes; ``jax.lax.psum`` and its kin take them.

    Args:
        fn: a function of Tensors or arrays.
        mesh: a ``jax.sharding.Mesh``; its axes count as automatic.
        in_specs: a ``PartitionSpec`` per argument, or one for all.
        out_specs: the same for results.
        check_vma: let JAX check what differs between devices, as ``jax.shard_map``.

    Returns:
        A function of whole Tensors; its result has its place in the graph.

    Raises:
        ArgumentTypeError: ``fn`` is no function, or ``mesh`` no mesh.

    Gradient: JAX's of the mapped function.
    Source: ``jax.shard_map``.
    Example:
        >>> mesh = jax.make_mesh((1,), ("d",))
        >>> P = jax.sharding.PartitionSpec
        >>> total = shard_map(lambda x: jax.lax.psum(x.sum(), "d"), mesh=mesh, in_specs=P("d"), out_specs=P())
        >>> total(ones(4)).item()
        4.0
    """
    if not callable(fn):
        raise ArgumentTypeError(f"[shard_map] expected a function, got {shown(fn)}")
    sharding_of("shard_map", mesh, None, ())

    @functools.wraps(fn)
    def wrapped(*args: Any) -> Any:
        inside = Inside(fn, "shard_map")
        options = {"in_specs": in_specs, "out_specs": out_specs, "check_vma": check_vma}
        mapped = jax.shard_map(inside, mesh=automatic(mesh), **options)
        return call(inside, mapped, args, {})

    return wrapped
