"""Meshes of devices: what a layout means, and the op that asks for one."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from .gated import Copied
from .rules import ArgumentTypeError, ArgumentValueError
from .rules.call import Aval


def sharding_of(op: str, mesh: Any, spec: Any, shape: Sequence[Any]) -> NamedSharding:
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
    mesh: Any = value.sharding.mesh
    if AxisType.Explicit not in mesh.axis_types:
        return value
    return jax.device_put(value, NamedSharding(automatic(mesh), value.sharding.spec))


class Constraint(Copied):
    """The call of an op that gives its operand as it is, lying as ``sharding`` says; its gradient lies there, too.

    JAX's own primitive, which tells the program around it about the mesh.
    """

    foreign = False

    def __init__(self, aval: Aval, sharding: NamedSharding) -> None:
        super().__init__(aval, f"with_sharding_constraint({sharding.spec})")
        self.sharding = sharding

    def forward(self, *args: Any) -> Any:
        return jax.lax.with_sharding_constraint(args[0], self.sharding)

    def cotangent(self, i: int, g: Any, env: dict[str, Any]) -> Any:
        return jax.lax.with_sharding_constraint(g, self.sharding)


# Calls are told apart by identity in the keys of programs, so there is one of each.
constraint = functools.cache(Constraint)
