"""Convolutions and transposed convolutions over one, two and three axes.

The three forms they are made of, and their gradients, are in ``convolve``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .applying import bind
from .broadcast import Shape
from .call import Aval, Call
from .context import matmul_precision
from .convolve import Taps, correlate, spread, weigh
from .errors import ArgumentTypeError, ArgumentValueError, ShapeMismatchError
from .im2col import check_groups, check_rank, per_axis, spans, whole, window_counts
from .kinds import bilinear
from .op import Fails, Row, Sample
from .samples import values

Array = jax.Array
Grad = jax.Array

AXES = {1: "L", 2: "H, W", 3: "D, H, W"}
PRECISIONS = {"default", "fastest", "bfloat16", "high", "bfloat16_3x", "tensorfloat32", "highest", "float32"} | {
    preset.name for preset in lax.DotAlgorithmPreset
}


# -- checks ------------------------------------------------------------------------


def _low_high(padding: Any, kernel: Sequence[int], dilation: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Zeros before and after each axis; of an odd number 'same' puts the last one after."""
    if padding == "same":
        reach = spans(kernel, dilation)
        return tuple(s // 2 for s in reach), tuple(s - s // 2 for s in reach)
    return padding, padding


def _windows(op: str, x: Shape, kernel: Shape, stride: Any, padding: Any, dilation: Any) -> Shape:
    low, high = _low_high(padding, kernel, dilation)
    padded = tuple(a + extent + b for a, extent, b in zip(low, x[2:], high, strict=True))
    return window_counts(op, padded, kernel, stride, dilation)


def _extents(x: Shape, kernel: Shape, stride: Any, padding: Any, output_padding: Any, dilation: Any) -> Shape:
    lines = zip(x[2:], stride, spans(kernel, dilation), padding, output_padding, strict=True)
    return tuple((extent - 1) * s + 1 + span - 2 * p + more for extent, s, span, p, more in lines)


def _check(op: str, n: int, transposed: bool) -> Callable[..., Any]:
    """The check of a row; ``output_padding`` is a parameter of the transposed ones only."""
    layout = "C_in, C_out/groups" if transposed else "C_out, C_in/groups"

    def operands(x: Aval, w: Aval, groups: int) -> None:
        check_rank(op, "x", x, f"N, C_in, {AXES[n]}")
        check_rank(op, "w", w, f"{layout}, {', '.join('k' + a for a in AXES[n].split(', '))}")
        for name, aval in (("x", x), ("w", w)):
            if not jnp.issubdtype(aval.dtype, jnp.floating):
                raise ArgumentTypeError(f"[{op}] {name} must be floating, got {aval.dtype}; cast it first")
        if x.dtype != w.dtype:
            raise ArgumentTypeError(f"[{op}] x and w must have one dtype: expected {x.dtype} for w, got {w.dtype}")
        for extent in w.shape[2:]:
            whole(op, "each kernel extent of w", extent, 1)
        check_groups(op, "x", x.shape[1], groups)
        check_groups(op, "w", w.shape[0], groups)
        expected = (x.shape[1], *w.shape[1:]) if transposed else (w.shape[0], x.shape[1] // groups, *w.shape[2:])
        if w.shape != expected:
            raise ShapeMismatchError(
                f"[{op}] w, [{layout}, *kernel], does not take x's {x.shape[1]} channels in {groups} group(s)",
                expected=expected,
                got=w.shape,
            )

    def check(
        x: Aval, w: Aval, *, stride: Any, padding: Any, dilation: Any, groups: Any, precision: Any, **more: Any
    ) -> tuple[Any, ...]:
        groups = whole(op, "groups", groups, 1)
        operands(x, w, groups)
        stride, dilation = per_axis(op, "stride", stride, n, 1), per_axis(op, "dilation", dilation, n, 1)
        if isinstance(precision, lax.Precision):
            precision = precision.name.lower()
        if precision not in PRECISIONS:
            raise ArgumentValueError(f"[{op}] precision must be one of {sorted(PRECISIONS)}, got {precision!r}")
        if padding == "valid" and not transposed:
            padding = 0
        elif padding == "same" and not transposed:
            if any(s != 1 for s in stride):
                raise ArgumentValueError(f"[{op}] padding 'same' needs stride 1, got {list(stride)}")
        elif isinstance(padding, str):
            words = "" if transposed else " or 'same' or 'valid'"
            raise ArgumentValueError(f"[{op}] padding must be integers{words}, got {padding!r}")
        if padding != "same":
            padding = per_axis(op, "padding", padding, n, 0)
        normal = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "precision": precision}
        if not transposed:
            windows = _windows(op, x.shape, w.shape[2:], stride, padding, dilation)
            return (x.shape[0], w.shape[0], *windows), x.dtype, normal
        extra = normal["output_padding"] = per_axis(op, "output_padding", more["output_padding"], n, 0)
        if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
            raise ArgumentValueError(
                f"[{op}] output_padding must be smaller than stride or dilation, got {list(extra)} "
                f"for stride {list(stride)} and dilation {list(dilation)}"
            )
        extents = _extents(x.shape, w.shape[2:], stride, padding, extra, dilation)
        if any(isinstance(e, int) and e < 1 for e in (*x.shape[2:], *extents)):
            raise ArgumentValueError(
                f"[{op}] x of shape {list(x.shape)}, kernel {list(w.shape[2:])} and padding {list(padding)} leave "
                f"no output: its extents would be {list(extents)}"
            )
        return (x.shape[0], w.shape[1] * groups, *extents), x.dtype, normal

    return check


# -- vmap --------------------------------------------------------------------------


def _batch(transposed: bool) -> Callable[..., Any]:
    def batch(size: Any, args: Sequence[Any], dims: Sequence[Any], call: Call) -> Array:
        groups = call.kwargs["groups"]
        x, w = (a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(args, dims, strict=True))
        n, out, *extents = call.out.shape
        if dims[1] is None:  # a batch of batches of images is one longer batch
            return _again(call, _join(x, 0), w).reshape(size, n, out, *extents)
        if dims[0] is None:  # the batch is one more factor of each group's output channels
            if transposed:
                w = _join(jnp.moveaxis(w, 0, 1), 1)
            else:
                w = jnp.moveaxis(w.reshape(size, groups, out // groups, *w.shape[2:]), 0, 1)
                w = _join(_join(w, 0), 0)
            y = _again(call, x, w).reshape(n, groups, size, out // groups, *extents)
            return jnp.moveaxis(y, 2, 0).reshape(size, n, out, *extents)
        # Each element of the batch is a group of its own, or several.
        y = _again(call, _join(jnp.moveaxis(x, 0, 1), 1), _join(w, 0), groups=groups * size)
        return jnp.moveaxis(y.reshape(n, size, out, *extents), 1, 0)

    return batch


def _join(a: Array, axis: int) -> Array:
    """Axes ``axis`` and ``axis + 1`` as one."""
    return a.reshape(*a.shape[:axis], a.shape[axis] * a.shape[axis + 1], *a.shape[axis + 2 :])


def _again(call: Call, x: Array, w: Array, **changed: Any) -> Array:
    """The same convolution of other operands."""
    avals = tuple(Aval(tuple(a.shape), np.dtype(a.dtype)) for a in (x, w))
    out: Array = bind(call.op.call(avals, call.kwargs | changed, call.present), x, w)
    return out


# -- samples and documentation -------------------------------------------------------


def _fit(n: int, extents: Any) -> Any:
    """Two-axis extents or parameters cut or continued to ``n`` axes."""
    return (*extents, extents[-1])[:n] if isinstance(extents, tuple) else extents


def _sample(n: int, x: tuple[int, ...], w: tuple[int, ...], **params: Any) -> Sample:
    args = (values(*s[:2], *_fit(n, s[2:]), seed=i) for i, s in enumerate((x, w)))
    return Sample(tuple(args), {k: _fit(n, v) for k, v in params.items()})


def _samples(n: int) -> list[Sample]:
    return [
        _sample(n, (2, 3, 5, 4), (2, 3, 2, 3)),
        _sample(n, (1, 2, 6, 5), (3, 2, 2, 2), stride=(3, 2), padding=(1, 0)),
        _sample(n, (2, 4, 5, 6), (2, 2, 3, 2), padding=(2, 1), dilation=(2, 3), groups=2),
        _sample(n, (1, 3, 7, 5), (6, 1, 2, 3), stride=2, padding=(0, 3), dilation=(2, 1), groups=3),
        _sample(n, (1, 1, 4, 3), (2, 1, 2, 3), padding="same", dilation=(1, 2)),
        _sample(n, (0, 2, 3, 3), (2, 1, 2, 2), padding="valid", groups=2),
        _sample(n, (0, 2, 3, 3), (1, 2, 2, 2)),
    ]


def _samples_transposed(n: int) -> list[Sample]:
    return [
        _sample(n, (2, 3, 3, 4), (3, 2, 2, 3)),
        _sample(n, (1, 2, 3, 2), (2, 3, 3, 2), stride=(3, 2), padding=(1, 0), output_padding=(2, 1)),
        _sample(n, (2, 4, 3, 2), (4, 1, 3, 2), padding=(2, 1), output_padding=(1, 2), dilation=(2, 3), groups=2),
        _sample(n, (1, 3, 2, 3), (3, 2, 2, 3), stride=2, padding=(0, 2), dilation=(1, 2), groups=3),
        _sample(n, (0, 2, 3, 3), (2, 1, 2, 2), groups=2),
    ]


def _errors(n: int, transposed: bool) -> Callable[[], list[Fails]]:
    def errors() -> list[Fails]:
        x, w = values(2, 4, *(3, 3, 3)[:n]), values(4, 4, *(2, 2, 2)[:n])

        def refuse(match: str, error: type[Exception] = ArgumentValueError, x: Any = x, w: Any = w, **p: Any) -> Fails:
            return Fails((x, w), p, error, match)

        own = [
            refuse("padding must be integers or 'same' or 'valid', got 'full'", padding="full"),
            refuse("padding 'same' needs stride 1, got", padding="same", stride=2),
            refuse(r"kernel \[2.* is larger than the padded input \[3", dilation=3),
        ]
        own_transposed = [
            refuse("padding must be integers, got 'same'", padding="same"),
            refuse("output_padding must be smaller than stride or dilation", output_padding=1),
            refuse("leave no output: its extents would be", padding=2),
        ]
        return [
            refuse(f"x must have rank {n + 2}, .* got rank {n + 1}", x=x[0]),
            refuse(f"w must have rank {n + 2}, .* got rank {n + 1}", w=w[0]),
            refuse("4 channels of x cannot be split into 3 groups", groups=3),
            refuse("does not take x's 4 channels", ShapeMismatchError, w=w[:3] if transposed else w[:, :3]),
            refuse("stride must be at least 1, got 0", stride=0),
            refuse("dilation must be at least 1, got -1", dilation=-1),
            refuse("padding must be at least 0, got -1", padding=-1),
            refuse(f"stride must be one integer or {n}, ", stride=(1,) * (n + 1)),
            refuse("stride must be an integer, got float 1.5", ArgumentTypeError, stride=1.5),
            refuse("each kernel extent of w must be at least 1, got 0", w=w[..., :0]),
            refuse("precision must be one of", precision="exact"),
            refuse("w must be floating, got int32", ArgumentTypeError, w=w.astype(np.int32)),
            refuse("expected float64 for w, got float32", ArgumentTypeError, w=w.astype(np.float32)),
            *(own_transposed if transposed else own),
        ]

    return errors


_FORMULA = {
    False: """Convolution over {n} axes: y[n,o,p] = Σ x[n,c,p·stride + k·dilation - padding]·w[o,c,k].

    Gradient: for x what the transposed convolution makes of g and w, for w the
    correlation of x with g; what no window reaches gets 0.""",
    True: """Transposed convolution over {n} axes: y[n,o,p·stride + k·dilation - padding] += x[n,c,p]·w[c,o,k].

    Gradient: for x the convolution of g with w, for w the correlation of g with x.""",
}

_COMMON = """
    Source: bilinearity; layouts and parameters are PyTorch's.
    Example:
        >>> {name}(jnp.ones((1, 1{fours})), jnp.ones((1, 1{twos}))).shape
        (1, 1{out})

    Args:
        x: images, [N, C_in, {axes}].
        w: kernels, [{layout}, *kernel], in x's dtype.
        stride: distance of neighbouring windows; one integer, or one an axis,
            like the parameters below.
        padding: zeros on both sides of x{padding}
        dilation: distance of neighbouring taps.
        groups: number of equal parts the channels fall into, each with its own kernels.
        precision: of the products, by JAX's name; if None that of the surrounding
            ``jax.default_matmul_precision``, else exact float32.

    Raises:
        ArgumentValueError: a rank, an extent, a group count or a parameter is impossible.
        ArgumentTypeError: dtypes differ or are not floating, or a parameter is no integer.
        ShapeMismatchError: w does not take x's channels.
"""

_PADDING = {
    False: "; 'valid' for none, 'same' for as many as keep\n            the extents (stride 1 only).",
    True: " that the plain convolution would have, cropped\n            from the output here.\n"
    "        output_padding: rows added after the output, fewer than stride or dilation.",
}


def _doc(name: str, n: int, transposed: bool) -> str:
    layout = "C_in, C_out/groups" if transposed else "C_out, C_in/groups"
    text = _FORMULA[transposed] + _COMMON
    twos, fours, out = (f", {e}" * n for e in (2, 4, 5 if transposed else 3))
    return text.format(
        n=n, name=name, axes=AXES[n], layout=layout, padding=_PADDING[transposed], twos=twos, fours=fours, out=out
    )


# -- the rows ----------------------------------------------------------------------


def _taps(kernel: Shape, stride: Any, padding: Any, dilation: Any, groups: int, precision: str) -> Taps:
    return Taps(stride, dilation, _low_high(padding, kernel, dilation)[0], groups, precision)


def _declare(n: int, transposed: bool) -> Row:
    name = f"conv_transpose{n}d" if transposed else f"conv{n}d"

    def conv(
        x: Array,
        w: Array,
        *,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        precision: Any = None,
    ) -> Array:
        kernel = w.shape[2:]
        windows = _windows(name, x.shape, kernel, stride, padding, dilation)
        return correlate(x, w, _taps(kernel, stride, padding, dilation, groups, precision), windows)

    def conv_transpose(
        x: Array,
        w: Array,
        *,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        precision: Any = None,
    ) -> Array:
        kernel = w.shape[2:]
        extents = _extents(x.shape, kernel, stride, padding, output_padding, dilation)
        return spread(x, w, _taps(kernel, stride, padding, dilation, groups, precision), extents)

    forward: Callable[..., Array] = conv_transpose if transposed else conv
    forward.__doc__ = _doc(name, n, transposed)
    shown = ("stride", "padding", *(("output_padding",) if transposed else ()), "dilation", "groups")
    row = bilinear(
        name=name,
        label=f"{name}({', '.join(f'{p}={{{p}}}' for p in shown)})",
        samples=lambda: _samples_transposed(n) if transposed else _samples(n),
        errors=_errors(n, transposed),
        torch=f"nn.functional.{name}",
        context={"precision": matmul_precision},
    )(forward)
    row.check(_check(name, n, transposed))
    row.batch(_batch(transposed))

    @row.vjp("x")
    def _(
        g: Grad, w: Array, avals: Any, stride: Any, padding: Any, dilation: Any, groups: int, precision: str
    ) -> Array:
        taps = _taps(w.shape[2:], stride, padding, dilation, groups, precision)
        form = correlate if transposed else spread
        return form(g.astype(w.dtype), w, taps, avals[0].shape[2:])

    @row.vjp("w")
    def _(
        g: Grad, x: Array, avals: Any, stride: Any, padding: Any, dilation: Any, groups: int, precision: str
    ) -> Array:
        kernel = avals[1].shape[2:]
        taps = _taps(kernel, stride, padding, dilation, groups, precision)
        image, windows = (g.astype(x.dtype), x) if transposed else (x, g.astype(x.dtype))
        return weigh(image, windows, taps, kernel)

    return row


conv1d, conv2d, conv3d = (_declare(n, False) for n in (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = (_declare(n, True) for n in (1, 2, 3))
