"""Integers that are used as indices, checked on the host: of each array the least and the greatest is asked once."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .graph import Guard, Node
from .rules import OutOfRangeError

_spans: weakref.WeakKeyDictionary[Node, tuple[int, int]] = weakref.WeakKeyDictionary()


def is_within(node: Node, low: int, extent: int, ignored: int | None = None) -> bool:
    """Does a value that is known hold integers in [low, extent) only, apart from ``ignored``?"""
    span = _spans.get(node)
    if span is None:
        host = own_part(node.value)
        span = (int(host.min()), int(host.max())) if host.size else (low, low)
        if host.size:
            _spans[node] = span
    if low <= span[0] and span[1] < extent:
        return True
    return ignored is not None and first_outside(node.value, low, extent, ignored) is None


def own_part(value: Any) -> np.ndarray[Any, Any]:
    """An array on the host; of one over several processes what this process has, which is its to check."""
    if getattr(value, "is_fully_addressable", True):
        return np.asarray(value)
    return np.concatenate([np.asarray(shard.data).reshape(-1) for shard in value.addressable_shards])


def first_outside(value: Any, low: int, extent: int, ignored: int | None) -> int | None:
    """The first integer that is not in [low, extent) and not ``ignored``."""
    host = own_part(value).reshape(-1)
    bad = host[((host < low) | (host >= extent)) & (True if ignored is None else host != ignored)]
    return int(bad[0]) if bad.size else None


def check(guard: Guard, node: Node) -> None:
    """Refuse indices that ``guard`` does not allow."""
    if not is_within(node, guard.low, guard.extent, guard.ignored):
        index = first_outside(node.value, guard.low, guard.extent, guard.ignored)
        raise OutOfRangeError(f"[{guard.op}] index {index} is out of range for {guard.what}, at {guard.where}")
