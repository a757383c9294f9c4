"""Running a program op by op, through one executable per op that all programs share.

For graphs that do not come back: nothing is compiled for them but ops that were
never seen, and putting such a program together costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .lru import LRU
from .several import Pick
from .state import ambient_trace
from .stats import counts
from .steps import Step, last_reads

_singles: LRU[Any, Callable[..., Any]] = LRU(4096)
_scalars: LRU[Any, Any] = LRU(1024)  # numbers that are on the device already


def single(call: Any) -> Callable[..., Any]:
    """The executable of one op: operands and numbers to a value."""
    if call.__class__ is Pick:
        return call.forward
    found = _singles.get(call)
    if found is None:

        def op(*args: Any) -> Any:
            return call.forward(*args)

        found = _singles[call] = jax.jit(op)
        counts["xla programs compiled"] += 1
    return found


def interpret(steps: Sequence[Step], outputs: Sequence[int], trail: Any) -> list[Any]:
    """Run ``steps`` one after the other; values are dropped when nothing reads them any more."""
    values: dict[int, Any] = {~k: array for k, array in enumerate(trail.arrays)}
    dead: dict[int, list[int]] = {}
    for r, k in last_reads([[step] for step in steps], outputs).items():
        dead.setdefault(k, []).append(r)
    for k, (call, reads, runtime, writes) in enumerate(steps):
        args = [values[r] for r in reads]
        if runtime:
            args += [_number(r, values, trail) for r in runtime]
        values[writes] = single(call)(*args)
        for r in dead.get(k, ()):
            del values[r]
    return [values[p] for p in outputs]


def _number(ref: Any, values: dict[int, Any], trail: Any) -> Any:
    if not isinstance(ref, tuple):
        return values[ref]
    number = trail.floats[ref[1]] if ref[0] == "f" else trail.ints[ref[1]]
    if number == 0 or ambient_trace() is not None:  # 0.0 and -0.0 are equal, and a tracer must not be kept
        return np.float64(number) if ref[0] == "f" else np.int64(number)
    key = (ref[0], number)
    found = _scalars.get(key)
    if found is None:
        found = _scalars[key] = jax.numpy.asarray(number, np.float64 if ref[0] == "f" else np.int64)
    return found


def forget() -> None:
    """Forget every executable."""
    _singles.clear()
