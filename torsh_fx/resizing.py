"""Borders around images, images of another size, and patches put back together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .arithmetic import as_number, cast, fitting, is_number, operand
from .autocasting import in_float32
from .creation import from_numpy
from .dtypes import is_floating
from .indexing import index_select
from .pooling import tuple_of
from .rules import ArgumentTypeError, ArgumentValueError, ShapeMismatchError
from .rules.kinds import integer_of, shown
from .rules.op import OPS
from .shaping import permute, reshape, squeeze, unsqueeze
from .tensor import Tensor, apply

__all__ = [
    "fold",
    "interpolate",
    "pad",
]


def pad(input: Tensor, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    """A border around the last axes: of a number, mirrored, repeated, or from the other end.

    Args:
        input: any shape and dtype.
        pad: widths before and behind the last axis, then the one before it, and so on;
            negative ones crop.
        mode: "constant"; or "reflect" (without the edge), "replicate", "circular", which
            need a batch axis or a channel axis in front.
        value: the number for "constant", 0 if None.

    Raises:
        ArgumentValueError: an odd number of widths, an unknown mode, a value with another
            mode, or a width that the image is too small for.
        ShapeMismatchError: more widths than axes, or too few axes for the mode.
        ArgumentTypeError: a width is no integer, or the value no number.

    Gradient: the part of g over x; mirrored and repeated elements add up theirs.
    Source: ``rules.pad``, or ``rules.take`` along each axis.
    Example:
        >>> pad(tensor([1, 2, 3]), (1, 2)).tolist()
        [0, 1, 2, 3, 0, 0]
    """
    t = operand("pad", input)
    if not isinstance(pad, (tuple, list)):
        raise ArgumentTypeError(f"[pad] widths must be a tuple, got {type(pad).__name__}")
    flat = [integer_of("pad", "a width", w) for w in pad]
    if len(flat) % 2:
        raise ArgumentValueError(f"[pad] widths come in pairs, got {len(flat)}")
    pairs = list(zip(flat[::2], flat[1::2], strict=True))[::-1]
    if len(pairs) > t.ndim:
        raise ShapeMismatchError("[pad] there are more pairs of widths than axes", expected=t.shape, got=tuple(flat))
    if mode == "constant":
        if value is not None and not is_number(value):
            raise ArgumentTypeError(f"[pad] value must be a number, got {shown(value)}")
        number = fitting("pad", 0 if value is None else as_number(value), t.dtype)
        return apply(OPS["pad"], t, pads=((0, 0),) * (t.ndim - len(pairs)) + tuple(pairs), value=number)
    if mode not in ("reflect", "replicate", "circular"):
        raise ArgumentValueError(f"[pad] mode must be constant, reflect, replicate or circular, got {mode!r}")
    if value is not None:
        raise ArgumentValueError(f"[pad] mode {mode!r} takes no value, got {value!r}")
    if not len(pairs) < t.ndim <= len(pairs) + 2:
        raise ShapeMismatchError(
            f"[pad] mode {mode!r} needs a channel axis, or a batch and one", expected=("C", "..."), got=t.shape
        )
    for axis, (low, high) in enumerate(pairs, t.ndim - len(pairs)):
        t = index_select(t, axis, from_numpy(_border(mode, t.shape[axis], low, high)))
    return t


def _border(mode: str, extent: int, low: int, high: int) -> Any:
    """Which place of an axis each place of the padded one shows."""
    most = {"reflect": extent - 1, "replicate": math.inf if extent else 0, "circular": extent}[mode]
    if mode == "circular":  # what is left by negative widths goes round
        start, most = max(-low, 0), extent - max(-low, 0) - max(-high, 0)
    if max(low, high) > most or low + extent + high < 0:
        raise ArgumentValueError(f"[pad] widths {(low, high)} are too large for extent {extent} in mode {mode!r}")
    if mode == "circular":
        return start + np.arange(-max(low, 0), most + max(high, 0)) % max(most, 1)
    place = np.arange(-low, extent + high)
    if mode == "replicate":
        return np.clip(place, 0, extent - 1)
    inside = np.where(place < 0, -place, place)
    return np.where(inside >= extent, 2 * (extent - 1) - inside, inside)


_SMOOTH = {1: ("linear",), 2: ("bilinear", "bicubic"), 3: ("trilinear",)}


@in_float32
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """An image [N, C, ...] of another size: nearest neighbours, weighted neighbours, or averages.

    Args:
        input: 1 to 3 spatial axes.
        size: the new extents, or
        scale_factor: by how much they grow.
        mode: "nearest", "nearest-exact", "area" (means of equal parts), or "linear",
            "bilinear", "trilinear" by the number of axes, or "bicubic" for two of them.
        align_corners: with linear and cubic modes, let the corners' centres stay corners.
        recompute_scale_factor: place the new points by the extents that came out, not by the factor.
        antialias: not there.

    Raises:
        ShapeMismatchError: the input has another rank, or is none for the mode.
        ArgumentValueError: not exactly one of size and factor, one below 1 place, an unknown
            mode, an option that the mode does not have, or antialias.
        ArgumentTypeError: a size is no integer, a factor no number, or a weighted mode of integers.

    Gradient: g added to the places it was read from, weighted as they were.
    Source: ``rules.take`` along each axis; Keys' cubic with a = −0.75; PyTorch's interpolate.
    Example:
        >>> interpolate(tensor([[[1.0, 2.0]]]), scale_factor=2).tolist()
        [[[1.0, 1.0, 2.0, 2.0]]]
    """
    op = "interpolate"
    t = operand(op, input)
    n = t.ndim - 2
    if not 1 <= n <= 3:
        raise ShapeMismatchError(f"[{op}] needs 1 to 3 spatial axes", expected=("N", "C", "..."), got=t.shape)
    smooth = mode in _SMOOTH[n]
    modes = ("nearest", "nearest-exact", "area", *_SMOOTH[n])
    if mode not in modes:
        raise ArgumentValueError(f"[{op}] with {n} spatial axes mode must be {' or '.join(modes)}, got {mode!r}")
    if align_corners is not None and not smooth:
        raise ArgumentValueError(f"[{op}] align_corners goes with linear and cubic modes only, not {mode!r}")
    if antialias:
        raise ArgumentValueError(f"[{op}] antialias is not there; average before with avg_pool, or use mode 'area'")
    if (smooth or mode == "area") and not is_floating(t.dtype):
        raise ArgumentTypeError(f"[{op}] mode {mode!r} needs a floating tensor, got {t.dtype}")
    if (size is None) == (scale_factor is None):
        raise ArgumentValueError(f"[{op}] exactly one of size and scale_factor must be given")
    if recompute_scale_factor and size is not None:
        raise ArgumentValueError(f"[{op}] recompute_scale_factor needs a scale_factor, and size is given")
    factors: list[float | None] = [None] * n
    if size is not None:
        extents = list(tuple_of(op, "size", size, n))
    else:
        given = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * n
        if len(given) != n or not all(is_number(f) and not isinstance(f, bool) for f in given):
            raise ArgumentTypeError(f"[{op}] scale_factor must be a number or {n} of them, got {scale_factor!r}")
        factors = [None if recompute_scale_factor else float(f) for f in given]
        extents = [math.floor(e * float(f)) for e, f in zip(t.shape[2:], given, strict=True)]
    if min(extents) < 1 or 0 in t.shape[2:]:
        raise ArgumentValueError(f"[{op}] extents {extents} cannot be made of shape {list(t.shape)}")
    for axis, (extent, factor) in enumerate(zip(extents, factors, strict=True), 2):
        old = t.shape[axis]
        step = old / extent if factor is None else 1 / factor
        if smooth:
            t = _weighted(t, axis, *_neighbours(old, extent, step, bool(align_corners), mode == "bicubic"))
        elif mode == "area":
            t = _weighted(t, axis, *_parts(old, extent))
        else:
            place = np.floor((np.arange(extent) + 0.5 * (mode == "nearest-exact")) * np.float32(step))
            t = index_select(t, axis, from_numpy(np.clip(place, 0, old - 1).astype(np.int64)))
    return t


Taps = tuple[list[Any], list[Any]]  # per tap, places of the old axis and weights, for each place of the new one


def _weighted(t: Tensor, axis: int, places: list[Any], weights: list[Any]) -> Tensor:
    """Sums of weighted places of one axis."""
    out: Tensor | None = None
    for place, weight in zip(places, weights, strict=True):
        scale = cast(from_numpy(weight.reshape(-1, *(1,) * (t.ndim - 1 - axis))), t.dtype)
        part = index_select(t, axis, from_numpy(place)) * scale
        out = part if out is None else out + part
    assert out is not None
    return out


def _neighbours(old: int, new: int, step: float, corners: bool, cubic: bool) -> Taps:
    """The two or four nearest places of each new one, and their weights."""
    last = old - 1
    place = np.arange(new) * (last / max(new - 1, 1)) if corners else (np.arange(new) + 0.5) * step - 0.5
    if not cubic:
        place = np.clip(place, 0, last)
    low = np.floor(place).astype(np.int64)
    x = place - low
    if cubic:
        weights = [_cubic(x + 1), _cubic(x), _cubic(1 - x), _cubic(2 - x)]
        return [np.clip(low + k, 0, last) for k in (-1, 0, 1, 2)], weights
    return [low, np.minimum(low + 1, last)], [1 - x, x]


def _cubic(x: Any) -> Any:
    a = -0.75
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    return np.where(x <= 1, near, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a)


def _parts(old: int, new: int) -> Taps:
    """What falls into each of ``new`` equal parts, to be averaged."""
    k = np.arange(new)
    start, stop = k * old // new, -(-(k + 1) * old // new)
    width = int((stop - start).max())
    places = [np.minimum(start + j, old - 1) for j in range(width)]
    return places, [np.where(start + j < stop, 1 / (stop - start), 0.0) for j in range(width)]


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Patches [N, C·kh·kw, L] (or without N) added up where they lay, [N, C, H, W]: the transpose of ``unfold``.

    Raises:
        ShapeMismatchError: the input has another rank, or its rows are no patches.
        ArgumentValueError: L is not the number of windows, or a parameter is out of range.
        ArgumentTypeError: a parameter is not an integer or 2 of them.

    Gradient: the patches of g.
    Source: ``rules.overlap_add`` along both axes.
    Example:
        >>> fold(ones(1, 4, 4), 3, 2).reshape(3, 3).tolist()
        [[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]
    """
    op = "fold"
    t = operand(op, input)
    if t.ndim == 2:
        return squeeze(fold(unsqueeze(t, 0), output_size, kernel_size, dilation, padding, stride), 0)
    (height, width), (kh, kw) = tuple_of(op, "output_size", output_size, 2), tuple_of(op, "kernel_size", kernel_size, 2)
    (dh, dw), (ph, pw) = tuple_of(op, "dilation", dilation, 2), tuple_of(op, "padding", padding, 2)
    sh, sw = tuple_of(op, "stride", stride, 2)
    if min(kh, kw, dh, dw, sh, sw) < 1 or min(ph, pw, height, width) < 0:
        raise ArgumentValueError(f"[{op}] kernel_size, dilation and stride must be at least 1, padding not negative")
    if t.ndim != 3 or t.shape[1] % (kh * kw):
        raise ShapeMismatchError(
            f"[{op}] needs [N, C·kh·kw, L] or [C·kh·kw, L]", expected=("N", kh * kw, "L"), got=t.shape
        )
    rows, columns = (
        (e + 2 * p - d * (k - 1) - 1) // s + 1 for e, p, d, k, s in ((height, ph, dh, kh, sh), (width, pw, dw, kw, sw))
    )
    if rows < 1 or columns < 1 or rows * columns != t.shape[2]:
        raise ArgumentValueError(f"[{op}] {rows} x {columns} windows fit into {height} x {width}, got {t.shape[2]}")
    n, channels = t.shape[0], t.shape[1] // (kh * kw)
    patches = reshape(t, n, channels, kh, kw, rows, columns)
    lines = permute(patches, 0, 1, 4, 2, 5, 3)  # rows, kh, columns, kw
    wide = apply(OPS["overlap_add"], lines, dim=4, extent=width, stride=sw, low=pw, high=pw, dilation=dw)
    tall = permute(wide, 0, 1, 2, 4, 3)
    return apply(OPS["overlap_add"], tall, dim=2, extent=height, stride=sh, low=ph, high=ph, dilation=dh)
