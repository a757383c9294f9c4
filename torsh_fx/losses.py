"""Losses of ``nn.functional`` beside cross entropy: regression, probabilities, margins."""

from __future__ import annotations

import math
from typing import Any

from .activations import logsigmoid
from .arithmetic import abs as absolute
from .arithmetic import (
    add,
    cast,
    clamp,
    common,
    exp,
    filled,
    is_number,
    log,
    minimum,
    mul,
    neg,
    operand,
    pow,
    sub,
    where,
)
from .autocasting import in_float32
from .distances import cosine_similarity as cosine_similarity
from .distances import pairwise_distance
from .dtypes import int64, is_floating
from .elementary import xlogy
from .functional import _classes_are_known, _constant_operand, _number, _reduce
from .indexing import gather
from .known import quick
from .reducing import mean, sum
from .rules import ArgumentTypeError, ArgumentValueError, ShapeMismatchError
from .rules.op import OPS
from .shaping import reshape, unsqueeze
from .tensor import Tensor, apply

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_soft_margin_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
]


def _pair(op: str, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    x, y = common(op, operand(op, a), operand(op, b))
    if not is_floating(x.dtype):
        raise ArgumentTypeError(f"[{op}] input must be floating, got {x.dtype}; cast it first")
    return x, y


def _same(op: str, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    x, y = _pair(op, a, b)
    if x.shape != y.shape:
        raise ShapeMismatchError(f"[{op}] target must have input's shape", expected=x.shape, got=y.shape)
    return x, y


def _weighted(op: str, loss: Tensor, weight: Any) -> Tensor:
    return loss if weight is None else mul(loss, operand(op, weight))


@quick
@in_float32
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """|input − target|, averaged, summed or elementwise; with a weight its mean is over the weights' sum.

    Raises:
        ShapeMismatchError: the shapes do not broadcast.
        ArgumentValueError: an unknown reduction.
        ArgumentTypeError: an operand is no Tensor, or "mean" of integers.

    Gradient: ±sign(input − target)·g, 0 at 0, over the count for "mean".
    Source: ``rules.abs`` of a difference.
    Example:
        >>> l1_loss(tensor([1.0, 2.0]), tensor([1.0, 4.0])).item()
        1.0
    """
    loss = absolute(sub(operand("l1_loss", input), operand("l1_loss", target)))
    if weight is None:
        return _reduce("l1_loss", loss, reduction)
    factor = operand("l1_loss", weight)
    if factor.shape != loss.shape:
        raise ShapeMismatchError("[l1_loss] weight must have input's shape", expected=loss.shape, got=factor.shape)
    if reduction == "mean":
        return sum(mul(loss, factor)) / sum(factor)
    return _reduce("l1_loss", mul(loss, factor), reduction)


@quick
@in_float32
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """½d² where |d| ≤ delta, else delta·(|d| − ½delta), for d = input − target.

    Raises:
        ShapeMismatchError: the shapes do not broadcast.
        ArgumentValueError: an unknown reduction, or delta is not above 0.
        ArgumentTypeError: an operand is no Tensor, or not floating.

    Gradient: ±g·d, d limited to [−delta, delta].
    Source: ``rules.huber_loss``.
    Example:
        >>> huber_loss(tensor([3.0]), tensor([0.0])).item()
        2.5
    """
    bound = _number("huber_loss", "delta", delta)
    if not bound > 0:
        raise ArgumentValueError(f"[huber_loss] delta must be above 0, got {bound}")
    loss = apply(OPS["huber_loss"], *_pair("huber_loss", input, target), delta=bound)
    return _reduce("huber_loss", _weighted("huber_loss", loss, weight), reduction)


@quick
@in_float32
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """½d²/beta where |d| < beta, else |d| − ½beta, for d = input − target; ``l1_loss`` for beta 0.

    Raises:
        ShapeMismatchError: the shapes do not broadcast.
        ArgumentValueError: an unknown reduction, or a negative beta.
        ArgumentTypeError: an operand is no Tensor, or not floating.

    Gradient: ±g·d/beta, d/beta limited to [−1, 1].
    Source: ``rules.smooth_l1_loss``.
    Example:
        >>> smooth_l1_loss(tensor([3.0]), tensor([0.0])).item()
        2.5
    """
    bound = _number("smooth_l1_loss", "beta", beta)
    if not bound >= 0:
        raise ArgumentValueError(f"[smooth_l1_loss] beta must not be negative, got {bound}")
    x, y = _pair("smooth_l1_loss", input, target)
    loss = apply(OPS["smooth_l1_loss"], x, y, beta=bound) if bound else absolute(sub(x, y))
    return _reduce("smooth_l1_loss", loss, reduction)


@in_float32
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """−(target·ln input + (1 − target)·ln(1 − input)), each logarithm at least −100.

    Args:
        input: probabilities; outside [0, 1] the loss is NaN.
        target: of input's shape, in [0, 1].
        weight: a factor that broadcasts.
        reduction: "mean", "sum" or "none".

    Raises:
        ShapeMismatchError: target is not of input's shape.
        ArgumentValueError: an unknown reduction.
        ArgumentTypeError: an operand is no Tensor, or not floating.

    Gradient: (input − target)/max(input·(1 − input), 1e-12)·g.
    Source: ``rules.binary_cross_entropy``.
    Example:
        >>> binary_cross_entropy(tensor([1.0, 0.0]), tensor([1.0, 1.0])).item()
        50.0
    """
    loss = apply(OPS["binary_cross_entropy"], *_same("binary_cross_entropy", input, target))
    return _reduce("binary_cross_entropy", _weighted("binary_cross_entropy", loss, weight), reduction)


@quick
@in_float32
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """``binary_cross_entropy`` of σ(input), computed from the logits without overflow.

    Args:
        input: logits.
        target: of input's shape, in [0, 1].
        weight: a factor that broadcasts.
        reduction: "mean", "sum" or "none".
        pos_weight: a factor of the targets' part, that broadcasts.

    Raises:
        ShapeMismatchError: target is not of input's shape, or a weight does not broadcast.
        ArgumentValueError: an unknown reduction.
        ArgumentTypeError: an operand is no Tensor, or not floating.

    Gradient: (σ(input) − target)·g, weighted and reduced as the loss.
    Source: ``rules.logsigmoid``.
    Example:
        >>> f"{binary_cross_entropy_with_logits(tensor([0.0]), tensor([1.0])).item():.4f}"
        '0.6931'
    """
    op = "binary_cross_entropy_with_logits"
    x, y = _same(op, input, target)
    part = logsigmoid(x)
    if pos_weight is not None:
        part = mul(part, add(mul(sub(operand(op, pos_weight), 1), y), 1))
    return _reduce(op, _weighted(op, sub(mul(sub(1, y), x), part), weight), reduction)


@quick
@in_float32
def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target·(ln target − input) for log-probabilities input; e^target·(target − input) with ``log_target``.

    Args:
        input: log-probabilities.
        target: probabilities, or their logarithms; the shapes broadcast.
        reduction: "mean" over all elements, "batchmean" over the first extent, "sum" or "none".
        log_target: is target a logarithm?

    Raises:
        ShapeMismatchError: the shapes do not broadcast.
        ArgumentValueError: an unknown reduction.
        ArgumentTypeError: an operand is no Tensor, or not floating.

    Gradient: −target·g for input.
    Source: ``rules.xlogy``.
    Example:
        >>> kl_div(tensor([0.0, -1.0]), tensor([1.0, 0.0]), reduction="sum").item()
        0.0
    """
    x, y = _pair("kl_div", input, target)
    loss = mul(exp(y), sub(y, x)) if log_target else sub(xlogy(y, y), mul(y, x))
    if reduction == "batchmean":
        return sum(loss) / (x.shape[0] if x.ndim else 1)
    return _reduce("kl_div", loss, reduction)


@in_float32
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 − cos(input1, input2) where target is 1, max(0, cos − margin) where it is −1.

    Args:
        input1: [N, D] or [D].
        input2: likewise.
        target: 1 or −1, [N] or [].
        margin: how far apart is enough.
        reduction: "mean", "sum" or "none".

    Raises:
        ShapeMismatchError: a shape does not fit.
        ArgumentValueError: an unknown reduction.
        ArgumentTypeError: an operand is no Tensor, not floating, or margin no number.

    Gradient: ∓g times that of the cosine, 0 below the margin.
    Source: composed of products and sums; PyTorch's cosine_embedding_loss.
    Example:
        >>> cosine_embedding_loss(tensor([3.0, 4.0]), tensor([3.0, 4.0]), tensor(-1)).item()
        1.0
    """
    op = "cosine_embedding_loss"
    x, y = _pair(op, input1, input2)
    t, least = operand(op, target), _number(op, "margin", margin)
    if t.ndim > 1 or x.ndim != t.ndim + 1 or y.ndim != t.ndim + 1:
        raise ShapeMismatchError(f"[{op}] inputs need one axis more than target", expected=(*t.shape, "D"), got=x.shape)
    squares = [add(sum(mul(v, v), -1), 1e-12) for v in (x, y)]
    cosine = sum(mul(x, y), -1) / mul(*squares).sqrt()
    apart = clamp(sub(cosine, least), min=0)
    return _reduce(op, add(where(t == 1, sub(1, cosine), 0.0), where(t == -1, apart, 0.0)), reduction)


@in_float32
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, −target·(input1 − input2) + margin).

    Raises:
        ShapeMismatchError: the shapes do not broadcast.
        ArgumentValueError: an unknown reduction.
        ArgumentTypeError: an operand is no Tensor, not floating, or margin no number.

    Gradient: ∓target·g where the loss is not below 0, else 0.
    Source: ``rules.clamp``.
    Example:
        >>> margin_ranking_loss(tensor([3.0]), tensor([1.0]), tensor([-1.0])).item()
        2.0
    """
    op = "margin_ranking_loss"
    x, y = _pair(op, input1, input2)
    loss = add(mul(neg(operand(op, target)), sub(x, y)), _number(op, "margin", margin))
    return _reduce(op, clamp(loss, min=0), reduction)


@in_float32
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """input where target is 1, max(0, margin − input) where it is −1.

    Raises:
        ShapeMismatchError: the shapes do not broadcast.
        ArgumentValueError: an unknown reduction.
        ArgumentTypeError: an operand is no Tensor, not floating, or margin no number.

    Gradient: g where target is 1, −g where it is −1 and margin − input is not below 0, else 0.
    Source: ``rules.clamp`` and ``rules.where``.
    Example:
        >>> hinge_embedding_loss(tensor([3.0, 0.25]), tensor([1.0, -1.0]), reduction="none").tolist()
        [3.0, 0.75]
    """
    op = "hinge_embedding_loss"
    x, t = _pair(op, input, target)
    apart = clamp(sub(_number(op, "margin", margin), x), min=0)
    return _reduce(op, add(where(t != 1, apart, 0.0), where(t != -1, x, 0.0)), reduction)


@in_float32
def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """ln(1 + e^(−target·input)), without overflow.

    Raises:
        ShapeMismatchError: the shapes do not broadcast.
        ArgumentValueError: an unknown reduction.
        ArgumentTypeError: an operand is no Tensor, or not floating.

    Gradient: −target·σ(−target·input)·g.
    Source: ``rules.logsigmoid``.
    Example:
        >>> f"{soft_margin_loss(tensor([0.0]), tensor([1.0])).item():.4f}"
        '0.6931'
    """
    return _reduce("soft_margin_loss", neg(logsigmoid(mul(*_pair("soft_margin_loss", input, target)))), reduction)


@in_float32
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """``binary_cross_entropy_with_logits`` averaged over the last axis.

    Args:
        input: logits, [..., C].
        target: 0 or 1, of that shape.
        weight: a factor per class.
        reduction: "mean", "sum" or "none".

    Raises:
        ShapeMismatchError: the shapes do not broadcast.
        ArgumentValueError: an unknown reduction.
        ArgumentTypeError: an operand is no Tensor, or not floating.

    Gradient: (σ(input) − target)·g/C.
    Source: ``rules.logsigmoid``.
    Example:
        >>> f"{multilabel_soft_margin_loss(tensor([[0.0]]), tensor([[1.0]])).item():.4f}"
        '0.6931'
    """
    op = "multilabel_soft_margin_loss"
    x, t = _pair(op, input, target)
    loss = neg(add(mul(t, logsigmoid(x)), mul(sub(1, t), logsigmoid(neg(x)))))
    return _reduce(op, mean(_weighted(op, loss, weight), -1), reduction)


@in_float32
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Σ max(0, margin − input[target] + input[i])ᵖ/C over the other classes i.

    Args:
        input: scores, [N, C], [C] or [].
        target: integer classes, [N], or [] or [1] without a batch.
        p: 1 or 2.
        margin: how far apart is enough.
        weight: a factor per class.
        reduction: "mean", "sum" or "none".

    Raises:
        ShapeMismatchError: target or weight does not fit input.
        ArgumentTypeError: target is not integer, or weight of another dtype.
        OutOfRangeError: a target is no class.
        ArgumentValueError: p is neither, or an unknown reduction.

    Gradient: g/C to each class strictly within the margin, their sum from the target's (p = 1).
    Source: composed of ``gather`` and ``where``.
    Example:
        >>> multi_margin_loss(tensor([1.0, 0.5]), tensor(0)).item()
        0.25
    """
    op = "multi_margin_loss"
    x, t = operand(op, input), operand(op, target)
    if is_floating(t.dtype) or t.dtype == bool:
        raise ArgumentTypeError(f"[{op}] target must hold integer classes, got {t.dtype}")
    if x.ndim == 0:
        x = reshape(x, 1)
    if x.ndim == 1 and t.shape == (1,):
        t = reshape(t, ())
    if x.ndim not in (1, 2) or t.shape != x.shape[:-1]:
        raise ShapeMismatchError(
            f"[{op}] target must match input without its class axis", expected=x.shape[:-1], got=t.shape
        )
    if p not in (1, 2):
        raise ArgumentValueError(f"[{op}] p must be 1 or 2, got {p!r}")
    classes = x.shape[-1]
    _classes_are_known(op, t, classes)
    from .creation import arange

    places = unsqueeze(cast(t, int64), -1)
    gap = add(sub(x, gather(x, -1, places)), _number(op, "margin", margin))
    counts = (gap > 0) & (arange(classes) != places)
    loss = where(counts, pow(where(counts, gap, 1.0), p), 0.0)
    if weight is not None:
        loss = mul(loss, _constant_operand(op, "weight", weight, x, (classes,))[places])
    return _reduce(op, sum(loss, -1) / classes, reduction)


@in_float32
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + distance(anchor, positive) − distance(anchor, negative)).

    Args:
        anchor: [..., D].
        positive: likewise, what is to be near.
        negative: likewise, what is to be far.
        margin: how much farther is enough; above 0.
        p: which norm.
        eps: added to each difference.
        swap: take the lesser of negative's distances from anchor and from positive.
        reduction: "mean", "sum" or "none".

    Raises:
        ShapeMismatchError: the shapes do not broadcast.
        ArgumentValueError: an unknown reduction, or a margin not above 0.
        ArgumentTypeError: an operand is no Tensor, or p, eps or margin no number.

    Gradient: that of ``pairwise_distance`` where the loss is not below 0, else 0.
    Source: ``pairwise_distance`` and ``rules.clamp``.
    Example:
        >>> triplet_margin_loss(tensor([[0.0]]), tensor([[1.0]]), tensor([[5.0]])).item()
        0.0
    """
    op = "triplet_margin_loss"
    a, b, c = (operand(op, v) for v in (anchor, positive, negative))
    least = _number(op, "margin", margin)
    if not least > 0:
        raise ArgumentValueError(f"[{op}] margin must be above 0, got {least}")
    near, far = pairwise_distance(a, b, p, eps), pairwise_distance(a, c, p, eps)
    if swap:
        far = minimum(far, pairwise_distance(b, c, p, eps))
    return _reduce(op, clamp(sub(add(near, least), far), min=0), reduction)


@in_float32
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of counts: e^input − target·input, or input − target·ln(input + eps).

    Args:
        input: the logarithm of the expected count, or the count.
        target: the count that came; the shapes broadcast.
        log_input: is input a logarithm?
        full: add Stirling's term, target·ln target − target + ½ln(2π·target), where target is above 1.
        eps: keeps the logarithm from 0.
        reduction: "mean", "sum" or "none".

    Raises:
        ShapeMismatchError: the shapes do not broadcast.
        ArgumentValueError: an unknown reduction.
        ArgumentTypeError: an operand is no Tensor, or not floating.

    Gradient: (e^input − target)·g, or (1 − target/(input + eps))·g.
    Source: composed of ``exp``, ``log`` and ``mul``.
    Example:
        >>> poisson_nll_loss(tensor([0.0]), tensor([3.0])).item()
        1.0
    """
    op = "poisson_nll_loss"
    x, t = _pair(op, input, target)
    small = _number(op, "eps", eps)
    loss = sub(exp(x), mul(t, x)) if log_input else sub(x, mul(t, log(add(x, small))))
    if full:
        above = t > 1
        safe = where(above, t, 1.0)
        stirling = add(sub(mul(safe, log(safe)), safe), mul(log(mul(safe, 2 * math.pi)), 0.5))
        loss = add(loss, where(above, stirling, 0.0))
    return _reduce(op, loss, reduction)


@in_float32
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """½(ln var + (input − target)²/var), a variance of at least eps.

    Args:
        input: the expected value.
        target: what came; the shapes broadcast.
        var: the variance, a number or of input's shape without its last axis, or with 1 in an axis;
            a negative one makes NaN.
        full: add the constant ½ln 2π.
        eps: the least variance.
        reduction: "mean", "sum" or "none".

    Raises:
        ShapeMismatchError: the shapes do not fit.
        ArgumentValueError: an unknown reduction, or eps is not above 0.
        ArgumentTypeError: an operand is no Tensor, or not floating.

    Gradient: (input − target)/var·g; the limit eps is not differentiated, as in PyTorch.
    Source: Nix and Weigend (1994); composed of ``log`` and ``div``.
    Example:
        >>> gaussian_nll_loss(tensor([3.0]), tensor([1.0]), tensor([1.0])).item()
        2.0
    """
    op = "gaussian_nll_loss"
    x, t = _pair(op, input, target)
    x, v = _pair(op, x, filled(var, x.dtype, x.shape, op) if is_number(var) else var)
    least = _number(op, "eps", eps)
    if not least > 0:
        raise ArgumentValueError(f"[{op}] eps must be above 0, got {least}")
    if v.shape != x.shape and v.shape == x.shape[:-1]:
        v = unsqueeze(v, -1)
    unlike = [have for have, want in zip(v.shape, x.shape, strict=False) if have != want]
    if v.ndim != x.ndim or unlike not in ([], [1]):
        raise ShapeMismatchError(f"[{op}] var must have input's shape, but for one axis", expected=x.shape, got=v.shape)
    known = v.detach()
    v = apply(OPS["graft"], v, clamp(where(known < 0, math.nan, known), min=least))
    loss = mul(add(log(v), pow(sub(x, t), 2) / v), 0.5)
    return _reduce(op, add(loss, 0.5 * math.log(2 * math.pi)) if full else loss, reduction)
