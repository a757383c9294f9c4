"""Pooling: maxima and means over sliding windows of images."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .arithmetic import cast, operand, where
from .creation import from_numpy
from .dtypes import is_floating
from .indexing import gather, index_select
from .reducing import sum as sum_of
from .rules import ArgumentTypeError, ArgumentValueError, ShapeMismatchError
from .rules.kinds import integer_of, shown
from .rules.op import OPS
from .shaping import reshape, squeeze, unsqueeze
from .tensor import Tensor, apply

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]

Windows = dict[str, int]


def tuple_of(op: str, name: str, value: Any, n: int) -> tuple[int, ...]:
    """An integer for each of n axes, given once or one by one."""
    given = value if isinstance(value, (tuple, list)) else (value,)
    found = tuple(integer_of(op, name, v) for v in given)
    if len(found) not in (1, n):
        raise ArgumentTypeError(f"[{op}] {name} must be an integer or {n} of them, got {value!r}")
    return found * n if len(found) == 1 else found


def _image(op: str, x: Any, n: int) -> tuple[Tensor, bool]:
    """[N, C, ...] with n spatial axes, and whether the batch was there."""
    t = operand(op, x)
    if t.ndim not in (n + 1, n + 2):
        names = ("D", "H", "W")[3 - n :]
        raise ShapeMismatchError(
            f"[{op}] needs a batch or an image with channels", expected=("N", "C", *names), got=t.shape
        )
    if 0 in t.shape[t.ndim - n - 1 :]:
        raise ShapeMismatchError(f"[{op}] only the batch may be empty", expected=("N", "C", "..."), got=t.shape)
    return (t, True) if t.ndim == n + 2 else (unsqueeze(t, 0), False)


def _windows(
    op: str, t: Tensor, n: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any
) -> list[Windows]:
    """The windows along each spatial axis, with PyTorch's rule for ``ceil_mode``."""
    kernels = tuple_of(op, "kernel_size", kernel, n)
    empty = stride is None or (isinstance(stride, (tuple, list)) and not stride)
    strides = kernels if empty else tuple_of(op, "stride", stride, n)
    pads, dilations = tuple_of(op, "padding", padding, n), tuple_of(op, "dilation", dilation, n)
    if not isinstance(ceil_mode, bool):
        raise ArgumentTypeError(f"[{op}] ceil_mode must be True or False, got {shown(ceil_mode)}")
    found = []
    for axis, k, s, p, d in zip(range(t.ndim - n, t.ndim), kernels, strides, pads, dilations, strict=True):
        if min(k, s, d) < 1:
            raise ArgumentValueError(f"[{op}] kernel_size, stride and dilation must be at least 1, got {(k, s, d)}")
        if not 0 <= p <= (d * (k - 1) + 1) // 2:
            raise ArgumentValueError(f"[{op}] padding must lie between 0 and half the window, got {p} for {k}")
        extent, span = t.shape[axis], d * (k - 1) + 1
        room = extent + 2 * p - span
        count = (-(-room // s) if ceil_mode else room // s) + 1
        if ceil_mode and (count - 1) * s >= extent + p:
            count -= 1  # a window must start inside
        if count < 1 or (room < 0 and not ceil_mode):
            raise ArgumentValueError(
                f"[{op}] a window over {span} places does not fit into extent {extent}, padding {p}"
            )
        high = (count - 1) * s + span - extent - p
        found.append({"dim": axis, "kernel": k, "stride": s, "low": p, "high": high, "dilation": d})
    return found


def _max_pool(op: str, n: int) -> Callable[..., Any]:
    def pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        t, batched = _image(op, input, n)
        windows = _windows(op, t, n, kernel_size, stride, padding, dilation, ceil_mode)
        out = t
        for window in reversed(windows):
            out = apply(OPS["max_pool"], out, **window)
        out = out if batched else squeeze(out, 0)
        if not return_indices:
            return out
        places = _places(t, windows)
        return out, places if batched else squeeze(places, 0)

    pool.__name__ = pool.__qualname__ = op
    return pool


def _places(t: Tensor, windows: list[Windows]) -> Tensor:
    """Where each maximum lies in the flattened image."""
    x, places = t.detach(), None
    extent = 1
    for window in reversed(windows):
        axis = window["dim"]
        along = apply(OPS["max_pool_indices"], x, **window)
        x = apply(OPS["max_pool"], x, **window)
        step = along * extent
        # Of what was already pooled, that in the line now chosen.
        places = step if places is None else step + gather(places, axis, along)
        extent *= t.shape[axis]
    assert places is not None
    return places


_MAX_DOC = """Largest element of each window over {axes}; NaN wins, padding never does.

    Args:
        input: [N, C, {axes}] or [C, {axes}].
        kernel_size: elements of a window{each}.
        stride: places from one window to the next; the kernel size if None.
        padding: at both ends, at most half a window.
        dilation: places from one element of a window to the next.
        ceil_mode: let a last window reach over the end.
        return_indices: also return where each maximum lies in the flattened image, int64.

    Raises:
        ShapeMismatchError: the input has another rank.
        ArgumentValueError: no window fits, or a parameter is out of range.
        ArgumentTypeError: a parameter is no integer{each}, or the input is bool.

    Gradient: g to the first element of each window that is its maximum.
    Source: ``rules.max_pool`` along each axis.
    Example:
        >>> max_pool{n}d(ones({shape}), 2).shape
        {out}
    """

_AVG_DOC = """Mean of each window over {axes}.

    Args:
        input: [N, C, {axes}] or [C, {axes}], floating.
        kernel_size: elements of a window{each}.
        stride: places from one window to the next; the kernel size if None.
        padding: zeros at both ends, at most half a window.
        ceil_mode: let a last window reach over the end; what lies beyond does not count.
        count_include_pad: whether padding counts.{divisor}

    Raises:
        ShapeMismatchError: the input has another rank.
        ArgumentValueError: no window fits, or a parameter is out of range.
        ArgumentTypeError: a parameter is no integer{each}, or the input is not floating.

    Gradient: g over the count, to every element of the window.
    Source: ``rules.sum_pool`` along each axis.
    Example:
        >>> avg_pool{n}d(ones({shape}), 2).shape
        {out}
    """
_DIVISOR = "\n        divisor_override: divide by this instead of the count."


def _documented(function: Callable[..., Any], doc: str, n: int, divisor: str = "") -> Callable[..., Any]:
    function.__doc__ = doc.format(
        n=n,
        axes=", ".join("DHW"[3 - n :]) if n > 1 else "L",
        each="" if n == 1 else f", once or {n} of them",
        shape=", ".join(["1", "1", *["4"] * n]),
        out=(1, 1, *(2,) * n),
        divisor=divisor,
    )
    return function


max_pool1d = _documented(_max_pool("max_pool1d", 1), _MAX_DOC, 1)
max_pool2d = _documented(_max_pool("max_pool2d", 2), _MAX_DOC, 2)
max_pool3d = _documented(_max_pool("max_pool3d", 3), _MAX_DOC, 3)


def _averages(op: str, n: int, x: Any, kernel: Any, stride: Any, padding: Any, ceil: Any, pad: Any, by: Any) -> Tensor:
    t, batched = _image(op, x, n)
    if not is_floating(t.dtype):
        raise ArgumentTypeError(f"[{op}] needs a floating tensor, got {t.dtype}; cast it")
    if not isinstance(pad, bool):
        raise ArgumentTypeError(f"[{op}] count_include_pad must be True or False, got {shown(pad)}")
    out, counts = t, np.ones((1,) * n)
    for k, window in enumerate(_windows(op, t, n, kernel, stride, padding, 1, ceil)):
        out = apply(OPS["sum_pool"], out, **window)
        counts = counts * _counted(t.shape[window["dim"]], window, pad).reshape([-1 if a == k else 1 for a in range(n)])
    if by is not None:
        divisor = integer_of(op, "divisor_override", by)
        if divisor == 0:
            raise ArgumentValueError(f"[{op}] divisor_override must not be 0")
        out = out / divisor
    elif (counts == counts.flat[0]).all():
        out = out / float(counts.flat[0])
    else:
        out = out / cast(from_numpy(counts), t.dtype)
    return out if batched else squeeze(out, 0)


def _counted(extent: int, window: Windows, pad: bool) -> Any:
    """How many places of each window count: those inside, or inside the padding on both sides."""
    low, kernel, stride = window["low"], window["kernel"], window["stride"]
    starts = np.arange((low + extent + window["high"] - kernel) // stride + 1) * stride - low
    first, last = (-low, extent + low) if pad else (0, extent)
    return np.minimum(starts + kernel, last) - np.maximum(starts, first)


def _avg_pool(op: str, n: int) -> Callable[..., Tensor]:
    def pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        return _averages(op, n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    pool.__name__ = pool.__qualname__ = op
    return pool


def _avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    return _averages("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


_avg_pool1d.__name__ = _avg_pool1d.__qualname__ = "avg_pool1d"
avg_pool1d = _documented(_avg_pool1d, _AVG_DOC, 1)
avg_pool2d = _documented(_avg_pool("avg_pool2d", 2), _AVG_DOC, 2, _DIVISOR)
avg_pool3d = _documented(_avg_pool("avg_pool3d", 3), _AVG_DOC, 3, _DIVISOR)


# Adaptive: as many windows as asked for, of sizes that may differ by one


def _adaptive_size(op: str, size: Any, t: Tensor, n: int) -> tuple[int, ...]:
    given = size if isinstance(size, (tuple, list)) else (size,) * n
    if len(given) != n:
        raise ArgumentTypeError(f"[{op}] output_size must be an integer or {n} of them, got {size!r}")
    found = tuple(
        extent if s is None else integer_of(op, "output_size", s) for s, extent in zip(given, t.shape[-n:], strict=True)
    )
    if min(found) < 0 or 0 in t.shape[-n:]:
        raise ArgumentValueError(f"[{op}] output_size {list(found)} does not fit shape {list(t.shape)}")
    return found


def _adaptive(op: str, x: Any, output_size: Any, n: int, largest: bool) -> Any:
    """The pooled image, with ``largest`` also where each maximum lies in the flattened one."""
    t, batched = _image(op, x, n)
    if not largest and not is_floating(t.dtype):
        raise ArgumentTypeError(f"[{op}] needs a floating tensor, got {t.dtype}; cast it")
    size = _adaptive_size(op, output_size, t, n)
    out, places, step = t, None, 1
    for axis in range(t.ndim - 1, t.ndim - n - 1, -1):
        extent, count = t.shape[axis], size[axis - t.ndim + n]
        start = np.arange(count) * extent // max(count, 1)
        stop = -(-(np.arange(count) + 1) * extent // max(count, 1))
        longest = int((stop - start).max(initial=1))
        index = start[:, None] + np.arange(longest)
        real = index < stop[:, None]
        index = np.minimum(index, extent - 1)
        read = reshape(
            index_select(out, axis, from_numpy(index.reshape(-1))),
            *out.shape[:axis],
            count,
            longest,
            *out.shape[axis + 1 :],
        )
        mask = reshape(from_numpy(real), count, longest, *(1,) * (t.ndim - 1 - axis))
        if not largest:
            total = sum_of(where(mask, read, 0), axis + 1)
            out = total / cast(from_numpy((stop - start).reshape(-1, *(1,) * (t.ndim - 1 - axis))), t.dtype)
            continue
        lowest = -math.inf if is_floating(t.dtype) else int(np.iinfo(t.dtype).min)
        out, chosen = where(mask, read, lowest).max(axis + 1)
        along = chosen + reshape(from_numpy(start), -1, *(1,) * (t.ndim - 1 - axis))
        places = along * step if places is None else along * step + gather(places, axis, along)
        step *= extent
    if not batched:
        out, places = squeeze(out, 0), None if places is None else squeeze(places, 0)
    return (out, places) if largest else out


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means over as many windows as asked for: ``adaptive_avg_pool2d`` for [N, C, L] or [C, L].

    Gradient: g over the count, to every element of its window.
    Source: ``rules.take`` and ``rules.sum_dim``.
    Example:
        >>> adaptive_avg_pool1d(tensor([[1.0, 2.0, 3.0]]), 2).tolist()
        [[1.5, 2.5]]
    """
    return _adaptive("adaptive_avg_pool1d", input, output_size, 1, False)  # type: ignore[no-any-return]


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means over as many windows along each axis as asked for; neighbours may overlap in one place.

    Args:
        input: [N, C, H, W] or [C, H, W], floating.
        output_size: a number, or one for each axis; None keeps an extent.

    Raises:
        ShapeMismatchError: the input has another rank.
        ArgumentValueError: a negative size, or an empty image.
        ArgumentTypeError: a size is no integer, or the input is not floating.

    Gradient: g over the count, to every element of its window.
    Source: ``rules.take`` and ``rules.sum_dim``.
    Example:
        >>> adaptive_avg_pool2d(ones(1, 2, 5, 7), 1).shape
        (1, 2, 1, 1)
    """
    return _adaptive("adaptive_avg_pool2d", input, output_size, 2, False)  # type: ignore[no-any-return]


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima over as many windows as asked for: ``adaptive_max_pool2d`` for [N, C, L] or [C, L].

    Gradient: g to the first element of its window that is the maximum.
    Source: ``rules.take`` and ``rules.argmax``.
    Example:
        >>> adaptive_max_pool1d(tensor([[1.0, 2.0, 3.0]]), 2).tolist()
        [[2.0, 3.0]]
    """
    found = _adaptive("adaptive_max_pool1d", input, output_size, 1, True)
    return found if return_indices else found[0]


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima over as many windows along each axis as asked for; neighbours may overlap in one place.

    Args:
        input: [N, C, H, W] or [C, H, W].
        output_size: a number, or one for each axis; None keeps an extent.
        return_indices: also return where each maximum lies in the flattened image, int64.

    Raises:
        ShapeMismatchError: the input has another rank.
        ArgumentValueError: a negative size, or an empty image.
        ArgumentTypeError: a size is no integer.

    Gradient: g to the first element of its window that is the maximum.
    Source: ``rules.take`` and ``rules.argmax``.
    Example:
        >>> adaptive_max_pool2d(ones(1, 2, 5, 7), 1).shape
        (1, 2, 1, 1)
    """
    found = _adaptive("adaptive_max_pool2d", input, output_size, 2, True)
    return found if return_indices else found[0]
