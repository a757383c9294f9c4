"""Values that are to replace those of Tensors: all are looked at before one is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..rules import ArgumentTypeError, ArgumentValueError
from ..rules.kinds import shown
from ..state import no_grad
from ..tensor import Tensor, from_array


def check_names(wanted: Iterable[str], given: Iterable[str], source: str) -> list[str]:
    """What is wrong with names, a line each."""
    have, want = set(given), set(wanted)
    found = [f"{name!r} is missing in {source}" for name in sorted(want - have)]
    return found + [f"{name!r} in {source} is unexpected" for name in sorted(have - want)]


def check_values(wanted: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """What is wrong with values that have shape and dtype, a line each."""
    found = []
    known: dict[int, str] = {}
    for name, value in given.items():
        own = wanted[name]
        want, got = (f"{x.dtype}{list(x.shape)}" for x in (own, value))
        first = known.setdefault(id(own), name)
        if want != got:
            found.append(f"{name!r} must be {want}, is {got}")
        elif first != name and not np.array_equal(np.asarray(value), np.asarray(given[first]), equal_nan=True):
            found.append(f"{name!r} and {first!r} are one Tensor, and their values differ")
    return found


def refuse(op: str, problems: list[str]) -> None:
    """One error for all that is wrong."""
    if problems:
        raise ArgumentValueError(f"[{op}] nothing was changed:\n  " + "\n  ".join(problems))


def check_tensors(op: str, tensors: Any) -> dict[str, Tensor]:
    """A dict of Tensors by name, or an error."""
    if not isinstance(tensors, Mapping):
        raise ArgumentTypeError(f"[{op}] needs a dict of Tensors by name, got {shown(tensors)}")
    for name, t in tensors.items():
        if not isinstance(name, str) or not isinstance(t, Tensor):
            raise ArgumentTypeError(f"[{op}] needs Tensors by name, got {name!r}: {shown(t)}")
    return dict(tensors)


def write_all(pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Write to each Tensor the value beside it; if one cannot be written, all are as before."""
    done: list[tuple[Tensor, Tensor]] = []
    with no_grad():
        try:
            for target, value in pairs:
                done.append((target, from_array(target.detach().jax())))
                target.copy_(value)
        except BaseException:
            for target, before in reversed(done[:-1]):
                target.copy_(before)
            raise
