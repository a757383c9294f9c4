"""Patches of an image as the rows of a matrix, and what all sliding windows share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .applying import bind
from .broadcast import Shape
from .call import Aval, Call
from .errors import ArgumentTypeError, ArgumentValueError, AutogradError
from .kinds import linear
from .op import Fails, Sample
from .samples import samples, values

Array = jax.Array
Grad = jax.Array
Pair = tuple[int, int]  # what the check makes of a parameter: one integer an axis


# -- windows -------------------------------------------------------------------


def whole(op: str, name: str, value: Any, least: int) -> int:
    """``value`` as an int; refused unless it is an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ArgumentTypeError(f"[{op}] {name} must be an integer, got {type(value).__name__} {value!r}")
    if value < least:
        raise ArgumentValueError(f"[{op}] {name} must be at least {least}, got {value}")
    return int(value)


def per_axis(op: str, name: str, value: Any, n: int, least: int) -> tuple[int, ...]:
    """``value``, one integer or one for each of ``n`` spatial axes, as a tuple of ``n``."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(given) not in (1, n):
        raise ArgumentValueError(f"[{op}] {name} must be one integer or {n}, one an axis, got {list(given)}")
    checked = tuple(whole(op, name, v, least) for v in given)
    return checked * n if len(checked) == 1 else checked


def spans(kernel: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    """Distance between the first and the last tap of a kernel, per axis."""
    return tuple(d * (k - 1) for k, d in zip(kernel, dilation, strict=True))


def window_counts(
    op: str, padded: Shape, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Shape:
    """How many windows fit along each axis of ``padded``; none at all is refused."""
    reach = tuple(s + 1 for s in spans(kernel, dilation))
    # A symbolic extent has no order with a number; whoever exports vouches for it.
    if any(isinstance(p, int) and p < r for p, r in zip(padded, reach, strict=True)):
        raise ArgumentValueError(
            f"[{op}] kernel {list(kernel)} with dilation {list(dilation)} covers {list(reach)}, "
            f"which is larger than the padded input {list(padded)}"
        )
    return tuple((p - r) // s + 1 for p, r, s in zip(padded, reach, stride, strict=True))


def check_rank(op: str, name: str, aval: Aval, layout: str) -> None:
    """Refuse ``aval`` unless it has an axis for each entry of ``layout``."""
    rank = layout.count(",") + 1
    if aval.ndim != rank:
        raise ArgumentValueError(
            f"[{op}] {name} must have rank {rank}, [{layout}], got rank {aval.ndim}, shape {list(aval.shape)}"
        )


def check_groups(op: str, name: str, channels: Any, groups: int) -> None:
    """Refuse ``channels`` that do not fall into ``groups`` equal parts."""
    if isinstance(channels, int) and channels % groups:
        raise ArgumentValueError(f"[{op}] the {channels} channels of {name} cannot be split into {groups} groups")


# -- im2col --------------------------------------------------------------------


def _taps(x: Array, axis: int, kernel: int, stride: int, dilation: int, count: Any) -> Array:
    """The windows along ``axis``: it becomes two axes, (tap, window)."""
    last = (count - 1) * stride + 1
    return jnp.stack(
        [lax.slice_in_dim(x, t * dilation, t * dilation + last, stride, axis) for t in range(kernel)], axis
    )


def _untaps(g: Array, axis: int, stride: int, dilation: int, padding: int, extent: Any) -> Array:
    """Transpose of padding and ``_taps``: axes (tap, window) sum into one of ``extent``.

    Each tap is spread out with zeros between its windows and laid at its offset;
    XLA fuses the sum of these pads into one pass, where a scatter would go
    element by element.  Negative edges crop what fell on the padding.
    """
    kernel, count = g.shape[axis], g.shape[axis + 1]
    reach = (count - 1) * stride + 1
    zero = jnp.zeros((), g.dtype)
    total = None
    for t in range(kernel):
        edges: list[tuple[Any, Any, int]] = [(0, 0, 0)] * (g.ndim - 1)
        start = t * dilation - padding
        edges[axis] = (start, extent - start - reach, stride - 1)
        laid = lax.pad(lax.index_in_dim(g, t, axis, keepdims=False), zero, edges)
        total = laid if total is None else total + laid
    assert total is not None
    return total


def _counts(shape: Shape, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Shape:
    padded = tuple(extent + 2 * p for extent, p in zip(shape[2:], padding, strict=True))
    return window_counts("im2col_2d", padded, kernel, stride, dilation)


_samples = samples(
    Sample((values(2, 2, 3, 4),), {"kernel": (2, 3)}),
    Sample((values(1, 2, 5, 7, seed=1),), {"kernel": (3, 2), "stride": (2, 3), "padding": (1, 0)}),
    Sample((values(2, 4, 6, 5, seed=2),), {"kernel": (2, 2), "dilation": (3, 2), "padding": (0, 1), "groups": 2}),
    Sample((values(1, 3, 5, 5, seed=3),), {"kernel": 2, "stride": 3, "padding": 2, "dilation": 2, "groups": 3}),
    Sample((values(1, 1, 4, 5, seed=4),), {"kernel": (1, 1), "stride": (3, 2)}),
    Sample((np.zeros((0, 2, 3, 3)),), {"kernel": (2, 2)}),
)

_image = values(1, 3, 4, 4)


def _errors() -> list[Fails]:
    def refuse(match: str, **params: Any) -> Fails:
        return Fails((_image,), {"kernel": (2, 2), **params}, ArgumentValueError, match)

    return [
        refuse("3 channels .* 2 groups", groups=2),
        refuse(r"kernel \[5, 2\].*padded input \[4, 4\]", kernel=(5, 2)),
        refuse(r"covers \[7, 2\].*padded input \[6, 4\]", dilation=(6, 1), padding=(1, 0)),
        refuse("stride must be at least 1, got 0", stride=(1, 0)),
        refuse("padding must be at least 0, got -1", padding=(-1, 0)),
        refuse("dilation must be at least 1, got 0", dilation=(0, 1)),
        refuse("kernel must be at least 1, got 0", kernel=(0, 1)),
        refuse("groups must be at least 1, got 0", groups=0),
        refuse(r"kernel must be one integer or 2.*\[2, 2, 2\]", kernel=(2, 2, 2)),
        Fails((values(3, 4, 4),), {"kernel": (2, 2)}, ArgumentValueError, r"rank 4, \[N, C, H, W\], got rank 3"),
        Fails((_image,), {"kernel": (2.5, 2)}, ArgumentTypeError, "kernel must be an integer, got float 2.5"),
    ]


@linear(label="im2col", samples=_samples, errors=_errors)
def im2col_2d(
    x: Array, *, kernel: Any, stride: Any = (1, 1), padding: Any = (0, 0), dilation: Any = (1, 1), groups: int = 1
) -> Array:
    """Patches of images as matrix rows: [N, C, H, W] → [groups, N·oh·ow, (C/groups)·kh·kw].

    Row (n·oh + oy)·ow + ox, column (c·kh + ky)·kw + kx of group q holds channel
    q·C/groups + c of image n at (oy·sh + ky·dh - ph, ox·sw + kx·dw - pw), or 0
    where that lies outside; oh = ⌊(H + 2ph - dh(kh-1) - 1)/sh⌋ + 1, ow alike.

    Args:
        x: images, [N, C, H, W].
        kernel: (kh, kw); like the next three, one integer serves both axes.
        stride: (sh, sw), at least 1.
        padding: (ph, pw), zeros on both sides.
        dilation: (dh, dw), distance of neighbouring taps.
        groups: number of equal parts the channels fall into.

    Raises:
        ArgumentValueError: the rank is not 4, channels are not divisible by
            groups, the kernel is larger than the padded input, or a parameter
            is out of its range.
        ArgumentTypeError: a parameter is not made of integers.

    Gradient: col2im: each element goes back to the pixel it was copied from,
    overlapping windows accumulate (in float32 for 16-bit floats).
    Source: transpose of a copy.
    Example:
        >>> im2col_2d(jnp.arange(6.0).reshape(1, 1, 2, 3), kernel=(2, 2)).tolist()
        [[[0.0, 1.0, 3.0, 4.0], [1.0, 2.0, 4.0, 5.0]]]
    """
    n, channels = x.shape[:2]
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = kernel, stride, padding, dilation
    oh, ow = _counts(x.shape, kernel, stride, padding, dilation)
    padded = jnp.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    # One axis after the other: kh + kw slices instead of kh·kw.
    patches = _taps(_taps(padded, 2, kh, sh, dh, oh), 4, kw, sw, dw, ow)
    grouped = patches.reshape(n, groups, channels // groups, kh, oh, kw, ow)
    ordered = grouped.transpose(1, 0, 4, 6, 2, 3, 5)
    return ordered.reshape(groups, n * oh * ow, channels // groups * kh * kw)


@im2col_2d.vjp("x")
def _(g: Grad, avals: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> Array:
    n, channels, height, width = avals[0].shape
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = kernel, stride, padding, dilation
    oh, ow = _counts(avals[0].shape, kernel, stride, padding, dilation)
    if g.dtype.itemsize == 2:
        g = g.astype(jnp.float32)
    ordered = g.reshape(groups, n, oh, ow, channels // groups, kh, kw)
    patches = ordered.transpose(1, 0, 4, 5, 2, 6, 3).reshape(n, channels, kh, oh, kw, ow)
    return _untaps(_untaps(patches, 4, sw, dw, pw, width), 2, sh, dh, ph, height)


@im2col_2d.check
def _(x: Aval, *, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> tuple[Any, ...]:
    op = "im2col_2d"
    check_rank(op, "x", x, "N, C, H, W")
    normal = {
        "kernel": per_axis(op, "kernel", kernel, 2, 1),
        "stride": per_axis(op, "stride", stride, 2, 1),
        "padding": per_axis(op, "padding", padding, 2, 0),
        "dilation": per_axis(op, "dilation", dilation, 2, 1),
    }
    groups = whole(op, "groups", groups, 1)
    n, channels = x.shape[:2]
    check_groups(op, "x", channels, groups)
    oh, ow = _counts(x.shape, **normal)
    kh, kw = normal["kernel"]
    return (groups, n * oh * ow, channels // groups * kh * kw), x.dtype, normal | {"groups": groups}


@im2col_2d.check_cotangent
def _(shape: Shape, call: Call) -> None:
    if tuple(shape) != call.out.shape:
        raise AutogradError(
            f"[{call!r}] the gradient must have the output's shape: expected {list(call.out.shape)}, got {list(shape)}"
        )


@im2col_2d.batch
def _(size: Any, args: Sequence[Any], dims: Sequence[Any], call: Call) -> Array:
    """A batch of batches of images is one longer batch of images."""
    x = jnp.moveaxis(args[0], dims[0], 0)
    aval = Aval((size * x.shape[1], *x.shape[2:]), call.avals[0].dtype)
    out = bind(call.op.call((aval,), call.kwargs, call.present), x.reshape(aval.shape))
    groups, rows, columns = call.out.shape
    return jnp.moveaxis(out.reshape(groups, size, rows, columns), 1, 0)
