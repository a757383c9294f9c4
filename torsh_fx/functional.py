"""``torsh_fx.nn.functional``: activations, losses, linear maps and convolutions on Tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import docs
from .arithmetic import cast, fitting, is_number, operand, relu, sigmoid, tanh, where
from .autocasting import in_float32, narrow
from .dtypes import float64, int64, is_floating
from .graph import Guard, caller_line
from .indexing import gather
from .known import quick
from .ranges import first_outside, is_within
from .record import watch
from .reducing import log_softmax, matmul, mean, softmax, sum
from .rules import ArgumentTypeError, ArgumentValueError, OutOfRangeError, ShapeMismatchError
from .rules.kinds import integer_of, shown
from .rules.op import OPS
from .shaping import permute, reshape, squeeze, transpose, unsqueeze
from .state import here
from .tensor import Tensor, apply

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cross_entropy",
    "depthwise_conv2d",
    "gelu",
    "leaky_relu",
    "linear",
    "log_softmax",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "relu",
    "separable_conv2d",
    "sigmoid",
    "softmax",
    "tanh",
    "unfold",
]


@quick
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """Gaussian error linear unit: exact (``"none"``) or the tanh form (``"tanh"``).

    Raises:
        ArgumentTypeError: x is not floating.
        ArgumentValueError: ``approximate`` is neither.

    Gradient: the form's own derivative; 0 or g in the tails, never NaN.
    Source: ``rules.gelu_erf`` and ``rules.gelu``.
    Example:
        >>> gelu(tensor([0.0])).tolist()
        [0.0]
    """
    rows = {"none": "gelu_erf", "tanh": "gelu"}
    if not isinstance(approximate, str) or approximate not in rows:
        raise ArgumentValueError(f"[gelu] approximate must be 'none' or 'tanh', got {approximate!r}")
    return apply(OPS[rows[approximate]], operand("gelu", x))


@quick
def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where x > 0, else slope·x, in x's shape and dtype.

    Raises:
        ArgumentTypeError: x is not floating, or the slope no number.

    Gradient: g·1 where x > 0, else g·slope (0 and NaN take the slope).
    Source: ``rules.leaky_relu``.
    Example:
        >>> leaky_relu(tensor([-2.0, 3.0]), 0.5).tolist()
        [-1.0, 3.0]
    """
    t = operand("leaky_relu", x)
    return apply(OPS["leaky_relu"], t, negative_slope=_number("leaky_relu", "negative_slope", negative_slope))


def _number(op: str, name: str, value: Any) -> float:
    if isinstance(value, (bool, np.bool_)) or not is_number(value):
        raise ArgumentTypeError(f"[{op}] {name} must be a number, got {shown(value)}")
    return float(fitting(op, value, float64))


def _constant_operand(op: str, name: str, value: Any, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A weight or bias: of x's dtype, and of a shape that x settles."""
    t = operand(op, value)
    if t.dtype != x.dtype:
        raise ArgumentTypeError(f"[{op}] input and {name} must have one dtype, got {x.dtype} and {t.dtype}; cast one")
    if t.shape != shape:
        raise ShapeMismatchError(f"[{op}] {name} needs one entry per channel or class", expected=shape, got=t.shape)
    return t


@quick
@narrow
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x·weightᵀ + bias: x [..., in], weight [out, in] (or [in]), bias [out] (or []), one dtype.

    Raises:
        ShapeMismatchError: a shape does not fit.
        ArgumentTypeError: the dtypes differ.

    Gradient: (g·weight, gᵀ·x, g), each summed over the axes it was broadcast along.
    Source: ``rules.affine``; without a bias ``rules.matmul``.
    Example:
        >>> linear(tensor([[1.0, 2.0]]), tensor([[3.0, 4.0]]), tensor([1.0])).tolist()
        [[12.0]]
    """
    x, w = operand("linear", x), operand("linear", weight)
    if w.ndim not in (1, 2):
        raise ShapeMismatchError("[linear] weight needs shape [out, in] or [in]", expected=("out", "in"), got=w.shape)
    if bias is not None and w.ndim == 2 and x.ndim and x.dtype == w.dtype and x.shape[-1] == w.shape[1]:
        return apply(OPS["affine"], x, w, _constant_operand("linear", "bias", bias, x, w.shape[:1]))
    out = matmul(x, transpose(w, 0, 1) if w.ndim == 2 else w)
    return out if bias is None else out + _constant_operand("linear", "bias", bias, out, w.shape[:-1])


@quick
@in_float32
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Squared difference, (input − target)², averaged, summed or elementwise.

    Raises:
        ShapeMismatchError: the shapes do not broadcast.
        ArgumentValueError: an unknown reduction.
        ArgumentTypeError: "mean" of integers.

    Gradient: ±2(input − target)·g, over the count for "mean".
    Source: ``rules.pow`` of a difference.
    Example:
        >>> mse_loss(tensor([1.0, 2.0]), tensor([1.0, 4.0])).item()
        2.0
    """
    return _reduce("mse_loss", (operand("mse_loss", input) - operand("mse_loss", target)) ** 2, reduction)


def _reduce(op: str, x: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return x
    if reduction not in ("mean", "sum"):
        raise ArgumentValueError(f"[{op}] reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
    return mean(x) if reduction == "mean" else sum(x)


@in_float32
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Negative of the log-probability at each target class.

    Args:
        input: log-probabilities, [classes], [N, classes] or [N, classes, ...].
        target: integer classes, input's shape without the class axis.
        weight: a factor per class.
        ignore_index: targets of this value count nothing.
        reduction: "mean" (weighted), "sum" or "none".

    Raises:
        ShapeMismatchError: target or weight does not fit input.
        ArgumentTypeError: target is not integer, or weight of another dtype.
        OutOfRangeError: a target is no class; a pending one by the program that uses it.
        ArgumentValueError: an unknown reduction.

    Gradient: −weight·g at each target, over the weights' sum for "mean"; NaN if all are ignored.
    Source: ``rules.take_along_dim``.
    Example:
        >>> nll_loss(tensor([[-1.0, -2.0]]), tensor([1])).item()
        2.0
    """
    x, t = operand("nll_loss", input), operand("nll_loss", target)
    if is_floating(t.dtype) or t.dtype == bool:
        raise ArgumentTypeError(f"[nll_loss] target must hold integer classes, got {t.dtype}")
    if x.ndim == 0:
        raise ShapeMismatchError("[nll_loss] input needs a class axis", expected=("C",), got=x.shape)
    axis = 0 if x.ndim == 1 else 1
    want = (*x.shape[:axis], *x.shape[axis + 1 :])
    if t.shape != want:
        raise ShapeMismatchError(
            "[nll_loss] target must match input without its class axis", expected=want, got=t.shape
        )
    classes = x.shape[axis]
    ignore_index = integer_of("nll_loss", "ignore_index", ignore_index)
    if _classes_are_known("nll_loss", t, classes, ignore_index) and weight is None:
        return _nll(x, t, ignore_index, reduction)
    ignored = t == ignore_index
    safe = where(ignored, 0, t)
    picked = -squeeze(gather(x, axis, unsqueeze(cast(safe, int64), axis)), axis)
    factor = cast(ignored.logical_not(), x.dtype)
    if weight is not None:
        factor = factor * _constant_operand("nll_loss", "weight", weight, x, (classes,))[cast(safe, int64)]
    losses = where(ignored, 0.0, picked * factor)
    if reduction == "mean":
        return sum(losses) / sum(factor)
    return _reduce("nll_loss", losses, reduction)


@quick
def _nll(x: Tensor, target: Tensor, ignore_index: int, reduction: str) -> Tensor:
    losses = apply(OPS["nll"], x, target, ignore_index=ignore_index)
    if reduction == "mean":
        return sum(losses) / sum(cast(target != ignore_index, x.dtype))
    return _reduce("nll_loss", losses, reduction)


def _classes_are_known(op: str, target: Tensor, classes: int, ignored: int | None = None) -> bool:
    """Are the classes known to be in range?  If not yet, the gather that uses them checks them."""
    node = target._node
    if node.value is None and node.given:
        watch(node, Guard(op, node, classes, f"{classes} classes", caller_line(), ignored=ignored))
        return True
    if node.value is None or node.traced:
        return False
    if not is_within(node, 0, classes, ignored):
        bad = first_outside(node.value, 0, classes, ignored)
        raise OutOfRangeError(f"[{op}] target {bad} is out of range for {classes} classes")
    return not here().tapes  # a replay may bring others


@in_float32
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of logits against classes, or against probabilities.

    Args:
        input: logits, [classes], [N, classes] or [N, classes, ...].
        target: integer classes, or probabilities of input's shape.
        weight: a factor per class.
        ignore_index: integer targets of this value count nothing.
        reduction: "mean", "sum" or "none".
        label_smoothing: part of the target spread over all classes.

    Raises: what ``nll_loss`` does, and ArgumentValueError for smoothing outside [0, 1].

    Gradient: (softmax(input) − target)·g, weighted and reduced as the loss.
    Source: ``rules.log_softmax`` and ``nll_loss``.
    Example:
        >>> x = tensor([[0.0, 0.0]], requires_grad=True)
        >>> cross_entropy(x, tensor([1])).backward()
        >>> x.grad.tolist()
        [[0.5, -0.5]]
    """
    x, t = operand("cross_entropy", input), operand("cross_entropy", target)
    if x.ndim == 0:
        raise ShapeMismatchError("[cross_entropy] input needs a class axis", expected=("C",), got=x.shape)
    label_smoothing = _number("cross_entropy", "label_smoothing", label_smoothing)
    if not 0 <= label_smoothing <= 1:
        raise ArgumentValueError(f"[cross_entropy] label_smoothing must lie in [0, 1], got {label_smoothing}")
    axis = 0 if x.ndim == 1 else 1
    if weight is not None:
        weight = _constant_operand("cross_entropy", "weight", weight, x, (x.shape[axis],))
    logs = log_softmax(x, axis)
    if not is_floating(t.dtype):
        hard = nll_loss(logs, t, weight, ignore_index, reduction)
        if not label_smoothing:
            return hard
        return hard * (1 - label_smoothing) + _smooth(logs, t, weight, ignore_index, reduction, axis) * label_smoothing
    if t.shape != x.shape:
        raise ShapeMismatchError("[cross_entropy] probabilities must have input's shape", expected=x.shape, got=t.shape)
    classes = x.shape[axis]
    if label_smoothing:
        t = t * (1 - label_smoothing) + label_smoothing / classes
    losses = -(logs * t * _per_class(weight, x, axis) if weight is not None else logs * t).sum(dim=axis)
    if reduction == "mean":
        return sum(losses) / (x.numel() // classes)
    return _reduce("cross_entropy", losses, reduction)


def _per_class(weight: Tensor, x: Tensor, axis: int) -> Tensor:
    return reshape(weight, *(-1 if a == axis else 1 for a in range(x.ndim)))


def _smooth(logs: Tensor, t: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, axis: int) -> Tensor:
    classes = logs.shape[axis]
    kept = cast(t != ignore_index, logs.dtype)
    weighted = logs * _per_class(weight, logs, axis) if weight is not None else logs
    losses = -weighted.sum(dim=axis) * kept / classes
    if reduction != "mean":
        return _reduce("cross_entropy", losses, reduction)
    if weight is None:
        return sum(losses) / sum(kept)
    safe = where(t == ignore_index, 0, t)
    return sum(losses) / sum(weight[cast(safe, int64)] * kept)


def one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    """int64 ones at the given classes along a new last axis, zeros elsewhere.

    Raises:
        ArgumentTypeError: the classes are not integers.
        OutOfRangeError: a class is negative or not below ``num_classes``.
        ArgumentValueError: ``num_classes`` is below −1, or missing where there are no classes.

    Gradient: none, the result is an integer.
    Source: a comparison with ``arange``.
    Example:
        >>> one_hot(tensor([1, 0]), 3).tolist()
        [[0, 1, 0], [1, 0, 0]]
    """
    from .creation import arange

    t = operand("one_hot", x)
    if is_floating(t.dtype) or t.dtype == bool:
        raise ArgumentTypeError(f"[one_hot] classes must be integers, got {t.dtype}")
    num_classes = integer_of("one_hot", "num_classes", num_classes)
    if num_classes < -1 or (num_classes == -1 and not t.numel()):
        raise ArgumentValueError(f"[one_hot] num_classes must be given for no classes, and not be {num_classes}")
    if num_classes == -1:
        num_classes = int(t.max()) + 1
    later = t._node.value is None and here().capture is not None  # in a compiled step the program looks
    if t._node.value is None and not later:
        t.jax()  # an out-of-range class would be a row of zeros: look before using it
    _classes_are_known("one_hot", t, num_classes)
    out = cast(unsqueeze(t, -1) == cast(arange(num_classes), t.dtype), int64)
    if later:
        watch(out._node, Guard("one_hot", t._node, num_classes, f"{num_classes} classes", caller_line()))
    return out


def unfold(x: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Sliding patches of [N, C, H, W] (or [C, H, W]) as columns, [N, C·kh·kw, L].

    Raises:
        ShapeMismatchError: x has another rank.
        ArgumentTypeError: a parameter is not an integer or 2 of them.
        ArgumentValueError: a parameter is out of range, or the kernel exceeds the padded input.

    Gradient: g scatter-added to where each patch was read.
    Source: ``rules.im2col_2d``.
    Example:
        >>> unfold(zeros(1, 2, 3, 3), 2).shape
        (1, 8, 4)
    """
    t = operand("unfold", x)
    if t.ndim == 3:
        return squeeze(unfold(unsqueeze(t, 0), kernel_size, dilation, padding, stride), 0)
    if t.ndim != 4:
        raise ShapeMismatchError("[unfold] needs [N, C, H, W] or [C, H, W]", expected=("N", "C", "H", "W"), got=t.shape)
    pairs = [_tuple("unfold", v, 2) for v in (kernel_size, stride, padding, dilation)]
    kernel, steps, pads, dilations = pairs
    columns = apply(OPS["im2col_2d"], t, kernel=kernel, stride=steps, padding=pads, dilation=dilations, groups=1)
    n, width = t.shape[0], columns.shape[2]
    rows = 1
    for extent, k, step, pad, d in zip(t.shape[2:], kernel, steps, pads, dilations, strict=True):
        rows *= (extent + 2 * pad - d * (k - 1) - 1) // step + 1
    return permute(reshape(columns, n, rows, width), 0, 2, 1)


def _tuple(op: str, value: Any, n: int) -> tuple[int, ...]:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return (int(value),) * n
    if isinstance(value, (list, tuple)) and all(isinstance(v, (int, np.integer)) for v in value):
        found = tuple(int(v) for v in value)
        if len(found) == 1:
            return found * n
        if len(found) == n:
            return found
    raise ArgumentTypeError(f"[{op}] expected an integer or {n} of them, got {value!r}")


def _convolution(name: str, n: int) -> Callable[..., Tensor]:
    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        pads = padding if isinstance(padding, str) else _tuple(name, padding, n)
        params = {"stride": _tuple(name, stride, n), "padding": pads, "dilation": _tuple(name, dilation, n)}
        return _convolve(name, n, input, weight, bias, {**params, "groups": integer_of(name, "groups", groups)})

    conv.__name__ = conv.__qualname__ = name
    conv.__doc__ = docs.of_convolution(name, n)
    return quick(narrow(conv))


def _transposed(name: str, n: int) -> Callable[..., Tensor]:
    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Tensor:
        values = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation}
        params: dict[str, Any] = {k: _tuple(name, v, n) for k, v in values.items()}
        return _convolve(name, n, input, weight, bias, {**params, "groups": integer_of(name, "groups", groups)})

    conv.__name__ = conv.__qualname__ = name
    conv.__doc__ = docs.of_transposed(name, n)
    return quick(narrow(conv))


def _convolve(name: str, n: int, x: Any, w: Any, bias: Tensor | None, params: dict[str, Any]) -> Tensor:
    x, w = operand(name, x), operand(name, w)
    if x.dtype != w.dtype:
        raise ArgumentTypeError(f"[{name}] input and weight must have one dtype, got {x.dtype} and {w.dtype}; cast one")
    batched = x.ndim != n + 1
    out = apply(OPS[name], x if batched else unsqueeze(x, 0), w, **params)
    if bias is not None:
        out = out + reshape(_constant_operand(name, "bias", bias, out, (out.shape[1],)), -1, *(1,) * n)
    return out if batched else squeeze(out, 0)


conv1d = _convolution("conv1d", 1)
conv2d = _convolution("conv2d", 2)
conv3d = _convolution("conv3d", 3)
conv_transpose1d = _transposed("conv_transpose1d", 1)
conv_transpose2d = _transposed("conv_transpose2d", 2)
conv_transpose3d = _transposed("conv_transpose3d", 3)


def depthwise_conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1
) -> Tensor:
    """2-D convolution of each channel by itself: ``conv2d`` with as many groups as channels.

    Args:
        input: [N, C, H, W] or [C, H, W].
        weight: [C·multiplier, 1, kh, kw].
        bias: [C·multiplier].
        stride, padding, dilation: a number or 2; padding also "same", "valid".

    Returns:
        [N, C·multiplier, H', W'] in input's dtype.

    Raises:
        ShapeMismatchError, ArgumentTypeError, ArgumentValueError: bad input, as ``conv2d``.

    Gradient: that of ``conv2d``.
    Source: ``rules.conv2d`` with groups.
    Example:
        >>> depthwise_conv2d(ones(1, 2, 3, 3), ones(2, 1, 3, 3)).reshape(-1)
        tensor([9., 9.])
    """
    t = operand("depthwise_conv2d", input)
    if t.ndim not in (3, 4):
        raise ShapeMismatchError(
            "[depthwise_conv2d] input needs a channel axis", expected=("N", "C", "H", "W"), got=t.shape
        )
    return conv2d(t, weight, bias, stride, padding, dilation, groups=t.shape[-3])


def separable_conv2d(
    input: Tensor,
    depthwise: Tensor,
    pointwise: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
) -> Tensor:
    """2-D convolution of each channel by itself, then a 1 × 1 convolution across them.

    Args:
        input: [N, C, H, W] or [C, H, W].
        depthwise: [C·multiplier, 1, kh, kw].
        pointwise: [out, C·multiplier, 1, 1].
        bias: [out].
        stride, padding, dilation: of the first convolution.

    Returns:
        [N, out, H', W'] in input's dtype.

    Raises:
        ShapeMismatchError, ArgumentTypeError, ArgumentValueError: bad input, as ``conv2d``.

    Gradient: that of the two convolutions.
    Source: Chollet, arXiv 1610.02357; ``rules.conv2d`` twice.
    Example:
        >>> separable_conv2d(ones(1, 2, 3, 3), ones(2, 1, 3, 3), ones(1, 2, 1, 1)).item()
        18.0
    """
    return conv2d(depthwise_conv2d(input, depthwise, None, stride, padding, dilation), pointwise, bias)
