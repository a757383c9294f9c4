"""Normalisation layers: over features, channels, groups, instances and batches."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .arithmetic import cast, is_number, operand, rsqrt
from .autocasting import in_float32
from .dtypes import is_floating, promote_types
from .known import quick
from .rules import ArgumentTypeError, ArgumentValueError, ShapeMismatchError
from .rules.kinds import integer_of, shown
from .rules.op import OPS
from .shaping import reshape, sizes
from .state import no_grad
from .statistics import var_mean
from .tensor import Tensor, apply

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "rms_norm",
]


def _floating(op: str, x: Any) -> Tensor:
    t = operand(op, x)
    if not is_floating(t.dtype):
        raise ArgumentTypeError(f"[{op}] needs a floating tensor, got {t.dtype}; cast it")
    return t


def _number(op: str, name: str, value: Any) -> float:
    if isinstance(value, (bool, np.bool_)) or not is_number(value):
        raise ArgumentTypeError(f"[{op}] {name} must be a number, got {shown(value)}")
    return float(value)


def _scaled(op: str, x: Tensor, weight: Any, bias: Any, shape: tuple[int, ...], layout: Sequence[int]) -> Tensor:
    """x·weight + bias, each of ``shape`` and laid out to broadcast."""
    for name, given in (("weight", weight), ("bias", bias)):
        if given is None:
            continue
        t = operand(op, given)
        if t.shape != shape:
            raise ShapeMismatchError(f"[{op}] {name} does not fit the input", expected=shape, got=t.shape)
        spread = reshape(t, *layout)
        x = x * spread if name == "weight" else x + spread
    return x


def _features(op: str, x: Any, normalized_shape: Any) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    t, shape = _floating(op, x), sizes(op, (normalized_shape,))
    if not shape or t.shape[t.ndim - len(shape) :] != shape or len(shape) > t.ndim:
        raise ShapeMismatchError(
            f"[{op}] the input must end in normalized_shape", expected=("...", *shape), got=t.shape
        )
    return t, shape, tuple(range(t.ndim - len(shape), t.ndim))


@quick
@in_float32
def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """(x − mean)/√(var + eps)·weight + bias over the last axes.

    Args:
        input: any shape that ends in ``normalized_shape``, floating.
        normalized_shape: the extents to normalise over.
        weight, bias: of that shape.
        eps: added to the biased variance.

    Raises:
        ShapeMismatchError: a shape does not fit.
        ArgumentTypeError: the input is not floating, or ``eps`` no number.

    Gradient: that of ``rules.standardize``, (g·x̂, g) to weight and bias.
    Source: ``rules.standardize``; Ba, Kiros and Hinton, arXiv 1607.06450.
    Example:
        >>> layer_norm(tensor([1.0, 3.0]), (2,), eps=0.0).tolist()
        [-1.0, 1.0]
    """
    t, shape, dims = _features("layer_norm", input, normalized_shape)
    out = apply(OPS["standardize"], t, dims=dims, eps=_number("layer_norm", "eps", eps))
    return _scaled("layer_norm", out, weight, bias, shape, shape)


@quick
@in_float32
def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """x/√(mean(x²) + eps)·weight over the last axes; without ``eps`` the dtype's rounding step.

    Raises:
        ShapeMismatchError: a shape does not fit.
        ArgumentTypeError: the input is not floating, or ``eps`` no number.

    Gradient: that of ``rules.rms_standardize``, g·x̂ to the weight.
    Source: ``rules.rms_standardize``; Zhang and Sennrich, arXiv 1910.07467.
    Example:
        >>> rms_norm(tensor([2.0, 2.0]), (2,), eps=0.0).tolist()
        [1.0, 1.0]
    """
    from jax.numpy import finfo

    t, shape, dims = _features("rms_norm", input, normalized_shape)
    step = float(finfo(t.dtype).eps) if eps is None else _number("rms_norm", "eps", eps)
    return _scaled("rms_norm", apply(OPS["rms_standardize"], t, dims=dims, eps=step), weight, None, shape, shape)


def _channels(op: str, x: Any, least: int = 2) -> Tensor:
    t = _floating(op, x)
    if t.ndim < least:
        raise ShapeMismatchError(
            f"[{op}] the input needs a batch and channels", expected=("N", "C", "..."), got=t.shape
        )
    return t


@quick
@in_float32
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """(x − mean)/√(var + eps)·weight + bias over each group of channels of each sample.

    Args:
        input: [N, C, ...], floating.
        num_groups: a divisor of C.
        weight, bias: [C].
        eps: added to the biased variance.

    Raises:
        ShapeMismatchError: a shape does not fit.
        ArgumentValueError: the groups do not divide the channels.
        ArgumentTypeError: the input is not floating, or a parameter is no number.

    Gradient: that of ``rules.standardize``, (g·x̂, g) to weight and bias.
    Source: ``rules.standardize``; Wu and He, arXiv 1803.08494.
    Example:
        >>> group_norm(tensor([[1.0, 3.0]]), 1, eps=0.0).tolist()
        [[-1.0, 1.0]]
    """
    t, groups = _channels("group_norm", input), integer_of("group_norm", "num_groups", num_groups)
    n, channels = t.shape[:2]
    if groups < 1 or channels % groups:
        raise ArgumentValueError(f"[group_norm] num_groups {groups} does not divide {channels} channels")
    apart = reshape(t, n, groups, channels // groups, *t.shape[2:])
    eps = _number("group_norm", "eps", eps)
    out = apply(OPS["standardize"], apart, dims=tuple(range(2, apart.ndim)), eps=eps)
    layout = (1, channels, *(1,) * (t.ndim - 2))
    return _scaled("group_norm", reshape(out, *t.shape), weight, bias, (channels,), layout)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(x − mean)/√(var + eps)·weight + bias for each channel, over the batch, or by the running statistics.

    Args:
        input: [N, C, ...], floating.
        running_mean, running_var: [C]; in training they move by ``momentum`` towards the
            batch's mean and unbiased variance, in place.
        weight, bias: [C].
        training: use the batch's statistics instead of the running ones.
        momentum: the part of the new in the running statistics.
        eps: added to the (biased) variance.

    Raises:
        ShapeMismatchError: a shape does not fit.
        ArgumentValueError: one value a channel in training, or no running statistics without.
        ArgumentTypeError: the input is not floating, or a parameter has the wrong type.

    The result has the input's dtype, also where weight and bias are wider, as in mixed precision.

    Gradient: that of ``rules.standardize`` in training; else g·weight/√(running_var + eps).
    Source: ``rules.standardize``; Ioffe and Szegedy, arXiv 1502.03167.
    Example:
        >>> batch_norm(tensor([[1.0], [3.0]]), None, None, training=True, eps=0.0).tolist()
        [[-1.0], [1.0]]
    """
    op = "batch_norm"
    t, given = _widened(_channels(op, input), weight, bias)
    channels = t.shape[1]
    _flag(op, "training", training)
    momentum, eps = _number(op, "momentum", momentum), _number(op, "eps", eps)
    running = _running(op, running_mean, running_var, channels)
    layout = (1, channels, *(1,) * (t.ndim - 2))
    if not training:
        if running is None:
            raise ArgumentValueError(f"[{op}] without training the running statistics are needed")
        mean, var = (reshape(cast(r, t.dtype), *layout) for r in running)
        return cast(_scaled(op, (t - mean) * rsqrt(var + eps), weight, bias, (channels,), layout), given)
    dims = (0, *range(2, t.ndim))
    if t.numel() // max(channels, 1) == 1:
        raise ArgumentValueError(f"[{op}] training needs more than 1 value a channel, got shape {list(t.shape)}")
    if running is not None:
        _move(running, t, dims, momentum)
    out = apply(OPS["standardize"], t, dims=dims, eps=eps)
    return cast(_scaled(op, out, weight, bias, (channels,), layout), given)


def _widened(x: Tensor, *parameters: Any) -> tuple[Tensor, Any]:
    """x as wide as its parameters, and the dtype it had."""
    dtypes = [p.dtype for p in parameters if isinstance(p, Tensor)]
    return cast(x, functools.reduce(promote_types, dtypes, x.dtype)), x.dtype


def _flag(op: str, name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ArgumentTypeError(f"[{op}] {name} must be True or False, got {shown(value)}")


def _running(op: str, mean: Any, var: Any, channels: int) -> tuple[Tensor, Tensor] | None:
    if mean is None and var is None:
        return None
    if mean is None or var is None:
        raise ArgumentValueError(f"[{op}] running_mean and running_var go together")
    found = operand(op, mean), operand(op, var)
    for name, r in zip(("running_mean", "running_var"), found, strict=True):
        if r.shape != (channels,):
            raise ShapeMismatchError(f"[{op}] {name} needs one entry a channel", expected=(channels,), got=r.shape)
    return found


def _move(running: tuple[Tensor, Tensor], x: Tensor, dims: tuple[int, ...], momentum: float) -> None:
    """Move the running statistics towards those of the batch; no gradient sees it."""
    with no_grad():
        spread, middle = var_mean(x.detach(), dims)
        for old, new in zip(running, (middle, spread), strict=True):
            new = new if new.ndim == 1 else new.mean(0)
            old.copy_(old * (1 - momentum) + cast(new, old.dtype) * momentum)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(x − mean)/√(var + eps)·weight + bias for each channel of each sample, or by the running statistics.

    Args:
        input: [N, C, ...] with at least one more axis, floating.
        running_mean, running_var: [C]; they move towards the mean over the samples, in place.
        weight, bias: [C].
        use_input_stats: each sample's own statistics instead of the running ones.
        momentum, eps: as of ``batch_norm``.

    Raises: what ``batch_norm`` does.

    Gradient: that of ``rules.standardize``.
    Source: ``rules.standardize``; Ulyanov, Vedaldi and Lempitsky, arXiv 1607.08022.
    Example:
        >>> instance_norm(tensor([[[1.0, 3.0]]]), eps=0.0).tolist()
        [[[-1.0, 1.0]]]
    """
    op = "instance_norm"
    t, given = _widened(_channels(op, input, 3), weight, bias)
    channels = t.shape[1]
    _flag(op, "use_input_stats", use_input_stats)
    if not use_input_stats:
        return cast(batch_norm(t, running_mean, running_var, weight, bias, False, momentum, eps), given)
    momentum, eps = _number(op, "momentum", momentum), _number(op, "eps", eps)
    running = _running(op, running_mean, running_var, channels)
    dims = tuple(range(2, t.ndim))
    if t.numel() // max(channels * t.shape[0], 1) == 1:
        raise ArgumentValueError(f"[{op}] needs more than 1 value a channel, got shape {list(t.shape)}")
    if running is not None:
        _move(running, t, dims, momentum)
    out = apply(OPS["standardize"], t, dims=dims, eps=eps)
    return cast(_scaled(op, out, weight, bias, (channels,), (1, channels, *(1,) * (t.ndim - 2))), given)
