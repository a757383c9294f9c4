"""What one process of several may do alone.

NOTE [several]: a program over devices of several processes has collectives, which wait
until all of them run it.  All run the same code, so they record the same and launch at
the same points: ``backward()``, ``synchronize()``, a compiled step.  Looking at a value on the
host is what one of them does alone, so that never launches such a program; it is an
error that says so.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .graph import Node
from .rules import AutogradError


def check_lone_read(node: Node) -> None:
    """Refuse a look at a pending value whose program needs the other processes."""
    trail = node.trail
    if trail is None or all(_is_here(leaf.value) for leaf in trail.leaves):
        return
    raise AutogradError(
        "this value is not computed yet, and its program runs on devices of several processes: if one of them looked "
        "at it alone, it would wait for the others for ever; call torsh_fx.synchronize() on all of them first"
    )


def host_of(value: Any) -> np.ndarray[Any, Any]:
    """The values of an array on the host, as far as this process has them."""
    if not _is_here(value) and not value.is_fully_replicated:
        raise AutogradError(
            f"this process has only its part of a value of shape {list(value.shape)}, which lies as "
            f"{getattr(value.sharding, 'spec', value.sharding)}: call torsh_fx.distribute(t, mesh) and "
            "torsh_fx.synchronize() on all processes, then read it"
        )
    return np.asarray(value)


def _is_here(value: Any) -> bool:
    return value is None or isinstance(value, jax.core.Tracer) or value.is_fully_addressable
