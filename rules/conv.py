"""Convolutions and transposed convolutions over one, two and three axes.

NOTE [three forms]: y[p] = Σ x[p·s + k·d − low]·w[k] ties three arrays together, and
each of them is bilinear in the other two: ``correlate`` makes y, ``spread`` x and
``weigh`` w.  A convolution is the first with the other two as gradients; a transposed
convolution is the second, with the first and the third.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .broadcast import Shape
from .context import matmul_precision
from .errors import ArgumentTypeError, ArgumentValueError, ShapeMismatchError
from .im2col import check_groups, check_rank, per_axis, spans, whole, window_counts
from .kinds import bilinear
from .op import Aval, Call, Fails, Row, Sample
from .primitive import bind
from .samples import values

Array = jax.Array
Grad = Any

AXES = {1: "L", 2: "H, W", 3: "D, H, W"}


# -- the three forms -------------------------------------------------------------


class Taps(NamedTuple):
    """Where the taps of the windows lie: tap k of window p at p·stride + k·dilation − low."""

    stride: tuple[int, ...]
    low: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    precision: str | None

    def fitted(self, windows: Shape, kernel: Shape, extents: Shape) -> list[tuple[int, Any]]:
        """Padding of ``extents`` so that ``windows`` fit, none more and nothing left over."""
        reach = [(o - 1) * s + 1 for o, s in zip(windows, self.stride, strict=True)]
        return [
            (low, r + span - extent - low)
            for low, r, span, extent in zip(self.low, reach, spans(kernel, self.dilation), extents, strict=True)
        ]


def _specs(n: int, *specs: str) -> tuple[str, str, str]:
    axes = "DHW"[-n:]
    lhs, rhs, out = (spec + axes for spec in specs)
    return lhs, rhs, out


def correlate(x: Array, w: Array, taps: Taps, high: Shape) -> Array:
    """y from x [N, C, *] and w [O, C/groups, *k]: [N, O, *], x padded after by ``high``."""
    return lax.conv_general_dilated(
        x,
        w,
        taps.stride,
        list(zip(taps.low, high, strict=True)),
        rhs_dilation=taps.dilation,
        dimension_numbers=_specs(w.ndim - 2, "NC", "OI", "NC"),
        feature_group_count=taps.groups,
        precision=taps.precision,
    )


def spread(y: Array, w: Array, taps: Taps, extents: Shape) -> Array:
    """x from y [N, O, *] and w [O, C/groups, *k]: [N, C, *extents]."""
    out, part, *kernel = w.shape
    # Output channels become the ones summed over, within each group.
    split = w.reshape(taps.groups, out // taps.groups, part, *kernel)
    turned = jnp.flip(jnp.swapaxes(split, 1, 2), range(3, split.ndim))
    fitted = taps.fitted(y.shape[2:], tuple(kernel), extents)
    reach = spans(kernel, taps.dilation)
    return lax.conv_general_dilated(
        y,
        turned.reshape(taps.groups * part, out // taps.groups, *kernel),
        (1,) * len(kernel),
        [(span - low, span - high) for span, (low, high) in zip(reach, fitted, strict=True)],
        lhs_dilation=taps.stride,
        rhs_dilation=taps.dilation,
        dimension_numbers=_specs(len(kernel), "NC", "OI", "NC"),
        feature_group_count=taps.groups,
        precision=taps.precision,
    )


def weigh(x: Array, y: Array, taps: Taps, kernel: Shape) -> Array:
    """w from x [N, C, *] and y [N, O, *]: [O, C/groups, *kernel], summed over images."""
    return lax.conv_general_dilated(
        x,
        y,
        taps.dilation,
        taps.fitted(y.shape[2:], kernel, x.shape[2:]),
        rhs_dilation=taps.stride,
        dimension_numbers=_specs(len(kernel), "CN", "IO", "CN"),
        batch_group_count=taps.groups,
        precision=taps.precision,
    )


# -- checks ------------------------------------------------------------------------

PRECISIONS = {"default", "fastest", "bfloat16", "high", "bfloat16_3x", "tensorfloat32", "highest", "float32"} | {
    preset.name for preset in lax.DotAlgorithmPreset
}


def precision_of(op: str, precision: Any) -> str:
    """The name JAX knows a precision by."""
    name = precision.name.lower() if isinstance(precision, lax.Precision) else precision
    if not isinstance(name, str) or name not in PRECISIONS:
        raise ArgumentValueError(f"[{op}] precision must be one of {sorted(PRECISIONS)}, got {precision!r}")
    return name


def _pads(padding: Any, kernel: Sequence[int], dilation: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Zeros before and after each axis; of an odd number 'same' puts one more after."""
    if padding == "same":
        reach = spans(kernel, dilation)
        return tuple(s // 2 for s in reach), tuple(s - s // 2 for s in reach)
    return padding, padding


def _check_operands(op: str, n: int, x: Aval, w: Aval, layout: str, groups: Any) -> int:
    check_rank(op, "x", x, f"N, C_in, {AXES[n]}")
    check_rank(op, "w", w, f"{layout}, {', '.join('k' + a for a in AXES[n].split(', '))}")
    for name, aval in (("x", x), ("w", w)):
        if not jnp.issubdtype(aval.dtype, jnp.floating):
            raise ArgumentTypeError(f"[{op}] {name} must be floating, got {aval.dtype}; cast it first")
    if x.dtype != w.dtype:
        raise ArgumentTypeError(f"[{op}] x and w must have one dtype, expected {x.dtype} for w, got {w.dtype}")
    for extent in w.shape[2:]:
        whole(op, "each kernel extent of w", extent, 1)
    groups = whole(op, "groups", groups, 1)
    check_groups(op, "x", x.shape[1], groups)
    check_groups(op, "w", w.shape[0], groups)
    return groups


def _check_conv(op: str, n: int) -> Callable[..., Any]:
    def check(
        x: Aval, w: Aval, *, stride: Any, padding: Any, dilation: Any, groups: Any, precision: Any
    ) -> tuple[Any, ...]:
        groups = _check_operands(op, n, x, w, "C_out, C_in/groups", groups)
        if w.shape[1] * groups != x.shape[1]:
            raise ShapeMismatchError(
                f"[{op}] w must take C_in/groups channels: x has {x.shape[1]} channels in {groups} groups, "
                f"w takes {w.shape[1]} a group",
                expected=(w.shape[0], x.shape[1] // groups, *w.shape[2:]),
                got=w.shape,
            )
        stride, dilation = per_axis(op, "stride", stride, n, 1), per_axis(op, "dilation", dilation, n, 1)
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ArgumentValueError(f"[{op}] padding must be integers, 'same' or 'valid', got {padding!r}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ArgumentValueError(f"[{op}] padding 'same' needs stride 1, got {list(stride)}")
            padding = padding if padding == "same" else (0,) * n
        else:
            padding = per_axis(op, "padding", padding, n, 0)
        low, high = _pads(padding, w.shape[2:], dilation)
        padded = tuple(a + extent + b for a, extent, b in zip(low, x.shape[2:], high, strict=True))
        windows = window_counts(op, padded, w.shape[2:], stride, dilation)
        normal = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        normal["precision"] = precision_of(op, precision)
        return (x.shape[0], w.shape[0], *windows), x.dtype, normal

    return check


def _check_transposed(op: str, n: int) -> Callable[..., Any]:
    def check(
        x: Aval, w: Aval, *, stride: Any, padding: Any, output_padding: Any, dilation: Any, groups: Any, precision: Any
    ) -> tuple[Any, ...]:
        groups = _check_operands(op, n, x, w, "C_in, C_out/groups", groups)
        if w.shape[0] != x.shape[1]:
            raise ShapeMismatchError(
                f"[{op}] w must take the channels of x: x has {x.shape[1]}, w takes {w.shape[0]}",
                expected=(x.shape[1], *w.shape[1:]),
                got=w.shape,
            )
        stride, dilation = per_axis(op, "stride", stride, n, 1), per_axis(op, "dilation", dilation, n, 1)
        padding, more = per_axis(op, "padding", padding, n, 0), per_axis(op, "output_padding", output_padding, n, 0)
        for extra, s, d in zip(more, stride, dilation, strict=True):
            if extra >= max(s, d):
                raise ArgumentValueError(
                    f"[{op}] output_padding must be smaller than stride or dilation: got {list(more)}, "
                    f"stride {list(stride)}, dilation {list(dilation)}"
                )
        extents = tuple(
            (extent - 1) * s + 1 + span - 2 * p + extra
            for extent, s, span, p, extra in zip(
                x.shape[2:], stride, spans(w.shape[2:], dilation), padding, more, strict=True
            )
        )
        if any(isinstance(e, int) and e < 1 for e in (*x.shape[2:], *extents)):
            raise ArgumentValueError(
                f"[{op}] x of shape {list(x.shape)} and kernel {list(w.shape[2:])} leave no output: "
                f"its extents would be {list(extents)}"
            )
        normal = {"stride": stride, "padding": padding, "output_padding": more, "dilation": dilation, "groups": groups}
        normal["precision"] = precision_of(op, precision)
        return (x.shape[0], w.shape[1] * groups, *extents), x.dtype, normal

    return check


# -- vmap --------------------------------------------------------------------------


def _batch(in_channels: int) -> Callable[..., Any]:
    """Batching; axis ``in_channels`` of w is the one that meets the channels of x."""

    def batch(size: Any, args: Sequence[Any], dims: Sequence[Any], call: Call) -> Array:
        groups = call.kwargs["groups"]
        x, w = (a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(args, dims, strict=True))
        n, out, *extents = call.out.shape
        if dims[1] is None:  # a batch of batches is one longer batch
            return _again(call, _join(x, 0), w).reshape(size, n, out, *extents)
        if dims[0] is None:  # one more factor in the output channels of each group
            if in_channels == 1:
                split = w.reshape(size, groups, out // groups, *w.shape[2:])
                w = _join(_join(jnp.moveaxis(split, 0, 1), 0), 0)
            else:
                w = _join(jnp.moveaxis(w, 0, 1), 1)
            y = _again(call, x, w).reshape(n, groups, size, out // groups, *extents)
            return jnp.moveaxis(y, 2, 0).reshape(size, n, out, *extents)
        # Each element of the batch is a group of its own.
        y = _again(call, _join(jnp.moveaxis(x, 0, 1), 1), _join(w, 0), groups=groups * size)
        return jnp.moveaxis(y.reshape(n, size, out, *extents), 1, 0)

    return batch


def _join(a: Array, axis: int) -> Array:
    """Axes ``axis`` and ``axis + 1`` as one."""
    return a.reshape(*a.shape[:axis], a.shape[axis] * a.shape[axis + 1], *a.shape[axis + 2 :])


def _again(call: Call, x: Array, w: Array, **changed: Any) -> Array:
    avals = tuple(Aval(tuple(a.shape), np.dtype(a.dtype)) for a in (x, w))
    out: Array = bind(call.op.call(avals, call.kwargs | changed, call.present), x, w)
    return out


# -- the rows ----------------------------------------------------------------------

_ARGS = """
    Args:
        x: images, [N, C_in, {axes}].
        w: kernels, [{layout}, *kernel], of x's dtype.
        stride: distance of neighbouring windows; like the next two one integer, or one an axis.
        padding: {padding}
        dilation: distance of neighbouring taps.{more}
        groups: equal parts of the channels, each with kernels of its own.
        precision: of the products, as JAX names it; the surrounding
            ``jax.default_matmul_precision``, or exact float32 where none is set.

    Raises:
        ArgumentValueError: a rank, a group count, an extent or a parameter is impossible.
        ArgumentTypeError: the dtypes differ or are not floating, a parameter is not an integer.
        ShapeMismatchError: the channels of x and w do not meet.
"""

_CONV = """Convolution over {n} axes: y[n,o,p] = Σ x[n,c,p·stride + k·dilation − padding]·w[o,c,k].
{args}
    Gradient: for x the transposed convolution of g with w, for w the correlation
    of x with g; pixels that no window reaches get 0.
    Source: bilinearity.
    Example:
        >>> {name}(jnp.ones((1, 1{fives})), jnp.ones((2, 1{twos}))).shape
        (1, 2{fours})
"""

_TRANSPOSED = """Transposed convolution over {n} axes: y[n,o,p·stride + k·dilation − padding] += x[n,c,p]·w[c,o,k].
{args}
    Gradient: for x the convolution of g with w, for w the correlation of g with x.
    Source: bilinearity; PyTorch's layout of w.
    Example:
        >>> {name}(jnp.ones((1, 2{fours})), jnp.ones((2, 1{twos}))).shape
        (1, 1{fives})
"""


def _describe(template: str, name: str, n: int, layout: str, padding: str, more: str = "") -> str:
    args = _ARGS.format(axes=AXES[n], layout=layout, padding=padding, more=more)
    return template.format(n=n, name=name, args=args, twos=", 2" * n, fours=", 4" * n, fives=", 5" * n)


def _label(name: str, *params: str) -> str:
    return f"{name}({', '.join(f'{p}={{{p}}}' for p in params)})"


def _sample(n: int, x: tuple[int, ...], w: tuple[int, ...], **params: Any) -> Sample:
    """A sample from 2-D extents and parameters, for ``n`` axes."""

    def fit(extents: Any) -> Any:
        return (*extents, 2)[:n] if isinstance(extents, tuple) else extents

    sizes = [(*shape[:2], *fit(shape[2:])) for shape in (x, w)]
    fitted = {k: fit(v) for k, v in params.items()}
    return Sample((values(*sizes[0], seed=len(params)), values(*sizes[1], seed=7)), fitted)


def _conv(n: int) -> Row:
    name = f"conv{n}d"

    def forward(
        x: Array, w: Array, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        precision: Any = None,
    ) -> Array:
        low, high = _pads(padding, w.shape[2:], dilation)
        return correlate(x, w, Taps(stride, low, dilation, groups, precision), high)

    forward.__name__ = name
    zeros = "zeros on both sides, at least 0; or 'valid' for none, 'same' to keep the extents (stride 1)."
    forward.__doc__ = _describe(_CONV, name, n, "C_out, C_in/groups", zeros)
    row = bilinear(
        label=_label(name, "stride", "padding", "dilation", "groups"),
        samples=lambda: [
            _sample(n, (2, 3, 5, 4), (2, 3, 2, 3)),
            _sample(n, (1, 2, 6, 5), (3, 2, 2, 2), stride=(3, 2), padding=(1, 0)),
            _sample(n, (2, 4, 5, 6), (2, 2, 3, 2), padding=(2, 1), dilation=(2, 3), groups=2),
            _sample(n, (1, 3, 7, 5), (6, 1, 2, 3), stride=2, padding=(0, 3), dilation=(2, 1), groups=3),
            _sample(n, (1, 1, 4, 3), (2, 1, 2, 3), padding="same", dilation=(1, 2)),
            _sample(n, (0, 2, 3, 3), (1, 2, 2, 2), padding="valid"),
        ],
        errors=lambda: _refusals(n, (3, 4)),
        torch=f"nn.functional.{name}",
        context={"precision": matmul_precision},
    )(forward)
    row.check(_check_conv(name, n))
    row.batch(_batch(1))

    @row.vjp("x")
    def _(
        g: Grad, w: Array, avals: Any, stride: Any, padding: Any, dilation: Any, groups: int, precision: str
    ) -> Array:
        low, _ = _pads(padding, w.shape[2:], dilation)
        taps = Taps(stride, low, dilation, groups, precision)
        return spread(g.astype(w.dtype), w, taps, avals[0].shape[2:])

    @row.vjp("w")
    def _(
        g: Grad, x: Array, avals: Any, stride: Any, padding: Any, dilation: Any, groups: int, precision: str
    ) -> Array:
        kernel = avals[1].shape[2:]
        low, _ = _pads(padding, kernel, dilation)
        taps = Taps(stride, low, dilation, groups, precision)
        return weigh(x, g.astype(x.dtype), taps, kernel)

    return row
