"""The three bilinear forms of a convolution, over any number of axes.

NOTE [three forms]: y[p] = Σ x[p·stride + k·dilation - low]·w[k] ties three arrays
together, each bilinear in the other two: ``correlate`` makes y, ``spread`` x and
``weigh`` w.  A convolution is the first and has the other two as gradients; a
transposed convolution is the second, with the first and the third.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .broadcast import Shape
from .im2col import spans

Array = jax.Array


class Taps(NamedTuple):
    """Tap k of window p lies at p·stride + k·dilation - low."""

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    low: tuple[int, ...]
    groups: int
    precision: str

    def pads(self, windows: Shape, kernel: Shape, extents: Shape) -> list[tuple[Any, Any]]:
        """Padding with which exactly ``windows`` fit ``extents``; what is left over is cropped."""
        lines = zip(self.low, windows, self.stride, spans(kernel, self.dilation), extents, strict=True)
        return [(low, (o - 1) * s + 1 + span - extent - low) for low, o, s, span, extent in lines]

    def convolve(self, lhs: Array, rhs: Array, specs: str, pads: list[tuple[Any, Any]], **geometry: Any) -> Array:
        """One convolution of JAX, operands and result laid out as ``specs`` says."""
        axes = "DHW"[3 - len(pads) :]
        if not all(isinstance(edge, int) for pair in pads for edge in pair):
            # Symbolic padding has to happen outside, and dilation comes before it.
            lhs = lax.pad(lhs, jnp.zeros((), lhs.dtype), _edges(pads, geometry.pop("lhs_dilation", None)))
            pads = [(0, 0)] * len(pads)
        # XLA sums 16-bit products in float32 and rounds once, so nothing is widened here.
        lhs_spec, rhs_spec, out_spec = (spec + axes for spec in specs.split())
        out: Array = lax.conv_general_dilated(
            lhs,
            rhs,
            padding=pads,
            dimension_numbers=(lhs_spec, rhs_spec, out_spec),
            precision=self.precision,
            **geometry,
        )
        return out

    def by_tap(self, kernel: Sequence[int]) -> bool:
        """Whether a form is a sum over its taps rather than one convolution.

        NOTE [groups on CPU]: XLA's CPU backend is slow at grouped convolutions
        (3x3, 32 channels of 28x28, depthwise: 4.2 ms against 0.14 tap by tap; the
        gradient of a kernel in 4 groups: 44 ms against 1.2).  Other backends are
        good at them.  Both ways are right anywhere: the choice is only of speed.
        """
        return self.groups > 1 and math.prod(kernel) <= 64 and jax.default_backend() == "cpu"

    def views(self, x: Array, windows: Shape, kernel: Shape) -> Iterator[Array]:
        """For each tap what the windows see there: [N, groups, C/groups, *windows]."""
        x = lax.pad(wide(x), jnp.zeros((), wide(x).dtype), _edges(self.pads(windows, kernel, x.shape[2:])))
        for seen in self.slices(x, windows, kernel):
            yield self.grouped(seen, 1)

    def slices(self, padded: Array, windows: Shape, kernel: Shape) -> Iterator[Array]:
        """For each tap what the windows of a padded x see there: [N, C, *windows]."""
        for tap in np.ndindex(*kernel):
            first = [int(t) * d for t, d in zip(tap, self.dilation, strict=True)]
            last = [f + (o - 1) * s + 1 for f, o, s in zip(first, windows, self.stride, strict=True)]
            yield lax.slice(padded, (0, 0, *first), (*padded.shape[:2], *last), (1, 1, *self.stride))

    def grouped(self, a: Array, axis: int) -> Array:
        """The channels at ``axis`` as two axes, groups first."""
        extents = (self.groups, a.shape[axis] // self.groups)
        return a.reshape(*a.shape[:axis], *extents, *a.shape[axis + 1 :])


def wide(a: Array) -> Array:
    """Sums over taps are formed in float32 at least."""
    return a.astype(jnp.promote_types(a.dtype, jnp.float32))


# Widened operands are not meant for the lower precisions.
_products = functools.partial(jnp.einsum, precision="highest")


def _flat(a: Array) -> Array:
    """The spatial axes behind [N, groups, channels] as one."""
    return a.reshape(*a.shape[:3], math.prod(a.shape[3:]))


def _edges(pads: Sequence[tuple[Any, Any]], between: Sequence[int] | None = None) -> list[tuple[Any, Any, int]]:
    """Padding of the spatial axes as ``lax.pad`` takes it, dilation included."""
    inner = between or (1,) * len(pads)
    return [(0, 0, 0), (0, 0, 0), *((*pair, d - 1) for pair, d in zip(pads, inner, strict=True))]


def correlate(x: Array, w: Array, taps: Taps, windows: Shape) -> Array:
    """y from x [N, C, *] and w [O, C/groups, *k]: [N, O, *windows]."""
    kernel = w.shape[2:]
    if taps.by_tap(kernel):
        split = taps.grouped(wide(w), 0)
        views = zip(np.ndindex(*kernel), taps.views(x, windows, kernel), strict=True)
        terms = (_products("ngc...,goc->ngo...", seen, split[..., *tap]) for tap, seen in views)
        return functools.reduce(jnp.add, terms).reshape(x.shape[0], w.shape[0], *windows).astype(x.dtype)
    pads = taps.pads(windows, kernel, x.shape[2:])
    # Cropping less than a stride changes nothing, and some backends are slow at it.
    pads = [
        (low, 0 if isinstance(high, int) and -s < high < 0 else high)
        for (low, high), s in zip(pads, taps.stride, strict=True)
    ]
    return taps.convolve(
        x,
        w,
        "NC OI NC",
        pads,
        window_strides=taps.stride,
        rhs_dilation=taps.dilation,
        feature_group_count=taps.groups,
    )


def spread(y: Array, w: Array, taps: Taps, extents: Shape) -> Array:
    """x from y [N, O, *] and w [O, C/groups, *k]: [N, C, *extents]."""
    out, part, *kernel = w.shape
    if taps.by_tap(kernel):
        split, total = taps.grouped(wide(w), 0), jnp.zeros((), wide(w).dtype)
        for tap in np.ndindex(*kernel):
            term = _products("ngo...,goc->ngc...", taps.grouped(wide(y), 1), split[..., *tap])
            first = [int(t) * d - low for t, d, low in zip(tap, taps.dilation, taps.low, strict=True)]
            lines = zip(first, y.shape[2:], taps.stride, extents, strict=True)
            laid = [(f, extent - f - (o - 1) * s - 1) for f, o, s, extent in lines]
            term = term.reshape(y.shape[0], taps.groups * part, *y.shape[2:])
            total = total + lax.pad(term, jnp.zeros((), term.dtype), _edges(laid, taps.stride))
        return total.astype(y.dtype)
    pads = taps.pads(y.shape[2:], tuple(kernel), extents)
    # Within each group, output channels become the ones summed over.
    split = jnp.swapaxes(w.reshape(taps.groups, out // taps.groups, part, *kernel), 1, 2)
    turned = jnp.flip(split, range(3, split.ndim)).reshape(taps.groups * part, out // taps.groups, *kernel)
    return taps.convolve(
        y,
        turned,
        "NC OI NC",
        [(s - low, s - high) for s, (low, high) in zip(spans(kernel, taps.dilation), pads, strict=True)],
        window_strides=(1,) * len(kernel),
        lhs_dilation=taps.stride,
        rhs_dilation=taps.dilation,
        feature_group_count=taps.groups,
    )


def weigh(x: Array, y: Array, taps: Taps, kernel: Shape) -> Array:
    """w from x [N, C, *] and y [N, O, *], summed over images: [O, C/groups, *kernel]."""
    if images := _images_at_once(x, y, taps, kernel):
        return _weigh_by_products(x, y, taps, kernel, images)
    if taps.by_tap(kernel):
        split = taps.grouped(wide(y), 1)
        split, views = _flat(split), taps.views(x, y.shape[2:], kernel)
        terms = [_products("ngcp,ngop->goc", _flat(seen), split) for seen in views]
        return jnp.stack(terms, -1).reshape(y.shape[1], x.shape[1] // taps.groups, *kernel).astype(x.dtype)
    return taps.convolve(
        x,
        y,
        "CN IO CN",
        taps.pads(y.shape[2:], kernel, x.shape[2:]),
        window_strides=taps.dilation,
        rhs_dilation=taps.stride,
        batch_group_count=taps.groups,
    )


# -- the gradient of a kernel as matrix products ---------------------------------

FEW = 5  # channels: below, all taps together are the rows of one product


def _images_at_once(x: Array, y: Array, taps: Taps, kernel: Shape) -> int:
    """How many images a matrix product should take in, or 0 where one convolution is faster.

    NOTE [kernels on CPU]: as a convolution the gradient of a kernel has windows as
    large as the image and a result as small as the kernel, which XLA's CPU backend
    tiles badly (3x3, 64 images, CPU time of products / one convolution: 32 to 64
    channels at 28x28 0.5, at 14x14 0.43, 16 to 32 at 14x14 0.72, 1 to 32 at 28x28
    0.43; but 32 to 64 at 8x8 1.1 and 8 to 16 at 28x28 1.1).  The shifted copies of
    x that a product reads must stay in the cache: all 64 images at once give 1.1.
    """
    extents = (*x.shape, *y.shape, *kernel)
    plain = taps.groups == 1 and x.dtype == jnp.float32 and all(isinstance(e, int) for e in extents)
    if not plain or jax.default_backend() != "cpu" or not jax.sharding.get_abstract_mesh().empty:
        return 0
    windows = math.prod(y.shape[2:])
    if windows < 128 or math.prod(kernel) > 64 or not x.size or FEW <= x.shape[1] < 16:
        return 0
    if x.shape[1] < FEW:
        most = 2**20 // (x.shape[1] * math.prod(kernel) * windows)
    else:
        most = 2**17 // (x.shape[1] * windows)
    return max(m for m in range(1, x.shape[0] + 1) if x.shape[0] % m == 0 and m <= max(most, 1))


def _weigh_by_products(x: Array, y: Array, taps: Taps, kernel: Shape, images: int) -> Array:
    channels, out, windows = x.shape[1], y.shape[1], y.shape[2:]
    edges = _edges(taps.pads(windows, kernel, x.shape[2:]))

    def product(views: Array, shown: Array) -> Array:
        each = lax.dot_general(views, shown, (((2,), (1,)), ((0,), (0,))), precision=taps.precision)
        return jnp.sum(each, axis=0)

    def part(seen: Array, shown: Array) -> Array:
        """[taps, C, O] of some images [m, *, C] and windows [m, p, O]."""
        padded = lax.pad(jnp.moveaxis(seen, -1, 1), jnp.zeros((), x.dtype), edges)
        views = [v.reshape(images, channels, -1) for v in taps.slices(padded, windows, kernel)]
        if channels < FEW:
            return product(jnp.concatenate(views, axis=1), shown).reshape(len(views), channels, out)
        return jnp.stack([product(v, shown) for v in views])

    # Channels last is how XLA's convolutions leave their results, so this moves nothing.
    seen = jnp.moveaxis(x, 1, -1)
    shown = jnp.moveaxis(y, 1, -1).reshape(x.shape[0], math.prod(windows), out)
    if images == x.shape[0]:
        total = part(seen, shown)
    else:
        chunks = [a.reshape(a.shape[0] // images, images, *a.shape[1:]) for a in (seen, shown)]
        start = jnp.zeros((math.prod(kernel), channels, out), x.dtype)
        total, _ = lax.scan(lambda so_far, chunk: (so_far + part(*chunk), None), start, tuple(chunks))
    return jnp.transpose(total, (2, 1, 0)).reshape(out, channels, *kernel)
