"""Writing through a view: the base's new value, with the part exchanged that the view shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .record import constant
from .rules import AutogradError
from .rules.op import OPS
from .state import here

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
