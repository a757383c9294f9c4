"""Meshes with explicit axes: where a result lies when JAX's own typing cannot say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec


def run_transpose(transpose: Callable[..., list[Any]], args: list[Any], like: list[Any]) -> list[Any]:
    """Apply a VJP; on meshes with explicit axes, under automatic sharding."""
    mesh = _explicit_mesh([*map(jax.typeof, args), *like])
    if mesh is None:
        return transpose(*args)
    shardings = tuple(NamedSharding(mesh, _spec(a)) for a in like)
    automatic = jax.sharding.auto_axes(lambda *a: tuple(transpose(*a)), out_sharding=shardings)
    return list(automatic(*args))


def _explicit_mesh(avals: Sequence[Any]) -> Any:
    """The mesh of the first aval that lies on explicit axes, or None."""
    explicit = jax.sharding.AxisType.Explicit
    return next((a.sharding.mesh for a in avals if explicit in a.sharding.mesh.axis_types), None)


def _spec(aval: Any) -> Any:
    # An array made before the mesh was set lies on none: it counts as replicated.
    return PartitionSpec(*[None] * aval.ndim) if aval.sharding.mesh.empty else aval.sharding.spec


def laid_out(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn``, with a sharding of our choice where JAX finds the result's ambiguous.

    The result lies like the operands that broadcast to its shape; what they leave
    open is replicated.
    """

    def run(*args: Any) -> Any:
        mesh = _explicit_mesh([jax.typeof(a) for a in args])
        if mesh is None:
            return fn(*args)
        try:
            return fn(*args)
        except Exception as error:
            if type(error).__name__ != "ShardingTypeError":  # JAX keeps the class to itself
                raise
        avals = [jax.typeof(a) for a in args]
        shape = jax.eval_shape(fn, *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals)).shape
        automatic = jax.sharding.auto_axes(fn, out_sharding=NamedSharding(mesh, _joined(shape, avals)))
        return automatic(*args)

    return run


def _joined(shape: tuple[Any, ...], avals: Sequence[Any]) -> Any:
    axes: list[Any] = [None] * len(shape)
    used: set[Any] = set()
    for aval in avals:
        lead = len(shape) - aval.ndim
        if lead < 0 or any(have not in (1, want) for have, want in zip(aval.shape, shape[lead:], strict=True)):
            continue
        for i, axis in enumerate(_spec(aval), lead):
            names = set(axis) if isinstance(axis, tuple) else {axis} - {None}
            if names and axes[i] is None and not names & used:
                axes[i] = axis
                used |= names
    return PartitionSpec(*axes)
