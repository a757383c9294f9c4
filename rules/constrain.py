"""Where a value lies on a mesh of devices, as an op."""

from __future__ import annotations

import math
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from .broadcast import Shape
from .call import Aval
from .errors import ArgumentTypeError, ArgumentValueError
from .kinds import linear

Array = jax.Array
Grad = jax.Array


def sharding_of(op: str, mesh: Any, spec: Any, shape: Shape) -> NamedSharding:
    """The sharding that ``spec`` means on ``mesh`` for an array of ``shape``; refuses what does not fit.

    Explicit axes become automatic ones, which mean the same places: a recorded program
    leaves what lies between its inputs and results to XLA.
    """
    if not isinstance(mesh, Mesh):
        raise ArgumentTypeError(f"[{op}] mesh must be a jax.sharding.Mesh, got {type(mesh).__name__}")
    if spec is None or isinstance(spec, str):
        spec = PartitionSpec(spec) if spec is not None else PartitionSpec()
    if not isinstance(spec, (PartitionSpec, tuple, list)):
        raise ArgumentTypeError(f"[{op}] spec must be a PartitionSpec, got {type(spec).__name__} {spec!r}")
    axes = list(spec)
    while axes and axes[-1] in (None, ()):
        axes.pop()
    if len(axes) > len(shape):
        raise ArgumentValueError(f"[{op}] spec {spec} names {len(axes)} axes of a tensor of shape {list(shape)}")
    seen: set[Any] = set()
    for k, entry in enumerate(axes):
        names = entry if isinstance(entry, tuple) else () if entry is None else (entry,)
        for name in names:
            if name not in mesh.shape:
                raise ArgumentValueError(f"[{op}] spec {spec} names {name!r}, the mesh has {dict(mesh.shape)}")
            if name in seen:
                raise ArgumentValueError(f"[{op}] spec {spec} names {name!r} twice")
            seen.add(name)
        parts = math.prod(mesh.shape[name] for name in names)
        if isinstance(shape[k], int) and shape[k] % parts:
            raise ArgumentValueError(
                f"[{op}] axis {k} of shape {list(shape)} does not divide into {parts} parts, as spec {spec} wants on "
                f"the mesh {dict(mesh.shape)}"
            )
    return NamedSharding(automatic(mesh), PartitionSpec(*axes))


def automatic(mesh: Mesh) -> Mesh:
    """The same mesh with automatic axes."""
    auto = (AxisType.Auto,) * len(mesh.axis_names)
    return mesh if mesh.axis_types == auto else Mesh(mesh.devices, mesh.axis_names, axis_types=auto)


def on_automatic_axes(value: Any) -> Any:
    """An array that lies on explicit axes as one on automatic axes, without a copy; any other as it is."""
    if isinstance(value, jax.core.Tracer) or not isinstance(value.sharding, NamedSharding):
        return value
    mesh = value.sharding.mesh
    if AxisType.Explicit not in mesh.axis_types:
        return value
    return jax.device_put(value, NamedSharding(automatic(mesh), value.sharding.spec))


# Its law is about places, not numbers; ``tests/test_distribute.py`` has it.
@linear(label="with_sharding_constraint({sharding.spec})", tests=False)
def with_sharding_constraint(x: Array, *, sharding: Any) -> Array:
    """x, which is to lie as ``sharding`` says.

    Args:
        x: any shape and dtype.
        sharding: a ``jax.sharding.NamedSharding``.

    Returns:
        The same values.

    Raises:
        ArgumentTypeError: ``sharding`` is none.
        ArgumentValueError: it does not divide x's shape, or names more axes than x has.

    Gradient: g, which is to lie there, too.
    Source: ``jax.lax.with_sharding_constraint``.
    Example:
        >>> mesh = jax.make_mesh((1,), ("d",))
        >>> lying = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
        >>> with_sharding_constraint(jnp.ones(2), sharding=lying).tolist()
        [1.0, 1.0]
    """
    return jax.lax.with_sharding_constraint(x, sharding)


@with_sharding_constraint.check
def _(x: Aval, *, sharding: Any) -> tuple[Shape, Any, dict[str, Any]]:
    if not isinstance(sharding, NamedSharding):
        raise ArgumentTypeError(
            f"[with_sharding_constraint] sharding must be a NamedSharding, got {type(sharding).__name__}"
        )
    found = sharding_of("with_sharding_constraint", sharding.mesh, sharding.spec, x.shape)
    return x.shape, x.dtype, {"sharding": found}


@with_sharding_constraint.vjp("x")
def _(g: Grad, sharding: Any) -> Array:
    return jax.lax.with_sharding_constraint(g, sharding)
