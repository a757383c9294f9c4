"""Views: which memory they show, and what the base becomes when one is written to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .record import constant
from .rules import AutogradError
from .rules.op import OPS
from .state import here, no_grad

if TYPE_CHECKING:
    from .storage import View
    from .tensor import Tensor


def with_part(view: View, source: Tensor, op: str) -> Tensor:
    """The base of ``view`` with ``source`` where the view is.

    Raises:
        AutogradError: elements of the view share memory, so that a write has no meaning.
    """
    from .tensor import apply

    base, params = view.base, view.params
    match view.row.name:
        case "reshape":
            return overwritten(base, apply(OPS["reshape"], source, shape=base.shape))
        case "permute":
            axes = [axis % base.ndim for axis in params["axes"]]
            back = tuple(axes.index(k) for k in range(len(axes)))
            return overwritten(base, apply(OPS["permute"], source, axes=back))
        case "select":
            return apply(OPS["select_scatter"], base, source, dim=params["dim"], index=params["index"])
        case "narrow" | "slab":
            return apply(OPS["slice_scatter"], base, source, dim=params["dim"], start=params["start"], step=1)
        case "stride":
            return apply(OPS["slice_scatter"], base, source, dim=params["dim"], start=0, step=params["step"])
        case "diagonal":
            return _put(base, np.diagonal(_numbered(base), **_numpy_names(params)), source)
        case "windows" if params["stride"] >= params["kernel"] or source.shape[params["dim"]] < 2:
            windows = np.lib.stride_tricks.sliding_window_view(_numbered(base), params["kernel"], params["dim"])
            return _put(
                base, windows.take(range(0, windows.shape[params["dim"]], params["stride"]), params["dim"]), source
            )
        case "expand" if source.numel() == base.numel():
            return apply(OPS["reshape"], source, shape=base.shape)
        case "expand" | "windows":
            raise AutogradError(
                f"[{op}] this is an expanded view, or slices that overlap: several of its elements are one of the "
                f"tensor of shape {list(base.shape)} below it, so a write has no meaning; write to a clone()"
            )
    raise AssertionError(f"no write is known through {view.row.name}")


def _numbered(base: Tensor) -> np.ndarray[Any, Any]:
    return np.arange(base.numel()).reshape(base.shape)


def _put(base: Tensor, places: np.ndarray[Any, Any], source: Tensor) -> Tensor:
    from .tensor import Tensor, apply

    return apply(OPS["put"], base, Tensor(constant(np.ascontiguousarray(places))), source)


def _numpy_names(params: dict[str, Any]) -> dict[str, Any]:
    return {"offset": params["offset"], "axis1": params["dim1"], "axis2": params["dim2"]}


def overwritten(t: Tensor, source: Tensor) -> Tensor:
    """``source`` as what ``t`` becomes: PyTorch keeps what was written over in the graph, with gradient 0."""
    from .tensor import apply

    return source if t._current_edge() is None or not here().grad else apply(OPS["overwrite"], t, source)


def root_of(t: Tensor) -> Tensor:
    """The tensor whose storage ``t`` shows, itself if it is no view."""
    while t._view is not None:
        t = t._view.base
    return t


def places(t: Tensor) -> np.ndarray[Any, Any]:
    """Which elements of its root ``t`` shows, by their numbers there."""
    from .tensor import Tensor, apply

    if t._view is None:
        return _numbered(t)
    with no_grad():
        shown = apply(t._view.row, Tensor(constant(places(t._view.base))), **t._view.params)
    return np.asarray(shown.numpy())


def strides_of(t: Tensor) -> tuple[int, ...]:
    """Distances in memory between neighbours along each axis, as PyTorch would have them.

    NOTE [strides]: storage has none.  But whether PyTorch's ``reshape`` is a view or
    a copy follows from them, and with it who sees a write.  So they are told from the
    views that led to a tensor; what an op computed counts as contiguous.
    """
    if t._view is None:
        return contiguous_strides(t.shape)
    base, params = t._view.base, t._view.params
    strides = list(strides_of(base))
    match t._view.row.name:
        case "permute":
            return tuple(strides[axis] for axis in params["axes"])
        case "select":
            del strides[params["dim"]]
        case "stride":
            strides[params["dim"]] *= params["step"]
        case "windows":
            strides.append(strides[params["dim"]])
            strides[params["dim"]] *= params["stride"]
        case "diagonal":
            one, two = params["dim1"] % base.ndim, params["dim2"] % base.ndim
            rest = [s for k, s in enumerate(strides) if k not in (one, two)]
            return (*rest, strides[one] + strides[two])
        case "expand":
            strides = [0] * (t.ndim - base.ndim) + strides
            kept = (1,) * (t.ndim - base.ndim) + base.shape
            return tuple(s if e == k else 0 for s, e, k in zip(strides, t.shape, kept, strict=True))
        case "reshape":
            return restrided(base.shape, tuple(strides), t.shape) or contiguous_strides(t.shape)
    return tuple(strides)


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Distances where the last axis lies together, and each behind the one after it."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def is_contiguous(t: Tensor) -> bool:
    """Does memory hold the elements one behind the other, and nothing between them?"""
    if t._view is None or t.numel() < 2:
        return True
    pairs = zip(t.shape, strides_of(t), contiguous_strides(t.shape), strict=True)
    return all(extent == 1 or got == want for extent, got, want in pairs)


def restrided(shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides that show the same elements in the shape ``new``; None if only a copy can."""
    if 0 in shape:
        return contiguous_strides(new)
    blocks: list[tuple[int, int]] = []  # extents and strides of axes that lie together, the last first
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if blocks and stride == blocks[-1][0] * blocks[-1][1]:
            blocks[-1] = (blocks[-1][0] * extent, blocks[-1][1])
        elif extent != 1:
            blocks.append((extent, stride))
    found = []
    left = step = 1
    for extent in reversed(new):
        if extent != 1 and left == 1:
            left, step = blocks.pop(0)
        if left % extent:
            return None
        found.append(step)
        left, step = left // extent, step * extent
    return tuple(reversed(found))


def reshapes(t: Tensor, new: tuple[int, ...]) -> bool:
    """Can a view show ``t`` in the shape ``new``, where one extent may be −1?  A shape that does not fit can."""
    if t._view is None:
        return True
    known = math.prod(e for e in new if e != -1)
    new = tuple(t.numel() // max(known, 1) if e == -1 else e for e in new)
    return math.prod(new) != t.numel() or restrided(t.shape, strides_of(t), new) is not None
