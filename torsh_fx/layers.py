"""Layers of ``nn.functional`` that look up, pair, drop and attend."""

from __future__ import annotations

import math
from typing import Any

from . import random
from .arithmetic import add, cast, div, eq, ge, mul, operand, where
from .autocasting import narrow, widest
from .creation import arange
from .distances import _length
from .dtypes import float32, get_default_dtype, int64, is_floating
from .functional import _constant_operand, _number
from .reducing import all, any, matmul, softmax, sum
from .rules import ArgumentTypeError, ArgumentValueError, OutOfRangeError, ShapeMismatchError
from .rules.kinds import integer_of, shown
from .rules.op import OPS
from .shaping import expand, permute, reshape, squeeze, transpose, unsqueeze
from .state import no_grad
from .tensor import Tensor, apply

__all__ = ["bilinear", "dropout", "embedding", "scaled_dot_product_attention"]


def dropout(x: Tensor, p: float = 0.5, training: bool = True, *, generator: random.Generator | None = None) -> Tensor:
    """Each element 0 with probability p, else x/(1 − p); x itself when not training.

    Args:
        x: a Tensor.
        p: the probability, in [0, 1]; another number is no recompilation.
        training: drop at all?
        generator: by default ``default_generator``; a draw counts it on.

    Raises:
        ArgumentTypeError: x is no Tensor, p no number, ``training`` no bool, or the generator none of ours.
        ArgumentValueError: p lies outside [0, 1].
        AutogradError: under ``jax.jit`` without a generator, where every call would drop the same.

    Gradient: g/(1 − p) where x was kept, else 0.
    Source: Srivastava et al., JMLR 15 (2014); ``rules.random_uniform`` and ``rules.mul``.
    Example:
        >>> sorted(set(dropout(ones(100), 0.5).tolist()))
        [0.0, 2.0]
    """
    t, chance = operand("dropout", x), _chance("dropout", p)
    if not isinstance(training, bool):
        raise ArgumentTypeError(f"[dropout] training must be True or False, got {shown(training)}")
    return _dropped(t, chance, generator) if training else t


def _chance(op: str, p: Any) -> float:
    number = _number(op, "p", p)
    if not 0 <= number <= 1:
        raise ArgumentValueError(f"[{op}] p must lie in [0, 1], got {number}")
    return number


def _dropped(x: Tensor, p: float, generator: random.Generator | None) -> Tensor:
    dtype = x.dtype if is_floating(x.dtype) else get_default_dtype()
    kept = ge(random.rand(*x.shape, generator=generator, dtype=float32), p)
    return mul(x, mul(cast(kept, dtype), 1 / (1 - p) if p < 1 else 1.0))


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight by integer index.

    Args:
        input: integers in [0, V), any shape.
        weight: [V, D].
        padding_idx: a row that gets no gradient; a negative one counts from the end.
        max_norm: shorten the rows used to this norm first, in weight itself, unseen by gradients.
        norm_type: which norm that is.
        scale_grad_by_freq: divide each row's gradient by how often it occurs in input.
        sparse: accepted; gradients are dense.

    Returns:
        input.shape + [D], weight's dtype.

    Raises:
        ArgumentTypeError: the indices are not integers.
        ShapeMismatchError: weight is not [V, D].
        OutOfRangeError: an index, or padding_idx, is out of range.

    Gradient: scatter-add of g, duplicates accumulate.
    Source: ``rules.take``.
    Example:
        >>> embedding(tensor([1, 1]), tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [[3.0, 4.0], [3.0, 4.0]]
    """
    i, w = operand("embedding", input), operand("embedding", weight)
    if is_floating(i.dtype) or i.dtype == bool:
        raise ArgumentTypeError(f"[embedding] indices must be integers, got {i.dtype}")
    if w.ndim != 2:
        raise ShapeMismatchError("[embedding] weight needs shape [V, D]", expected=("V", "D"), got=w.shape)
    if padding_idx is not None:
        padding_idx = integer_of("embedding", "padding_idx", padding_idx)
        if not -w.shape[0] <= padding_idx < w.shape[0]:
            raise OutOfRangeError(f"[embedding] padding_idx {padding_idx} is out of range for {w.shape[0]} rows")
    if max_norm is not None:
        _shorten(i, w, _number("embedding", "max_norm", max_norm), _number("embedding", "norm_type", norm_type))
    index = cast(i, int64)
    out = apply(OPS["take"], w, index, dim=0)
    if scale_grad_by_freq:
        flat = reshape(index, -1)
        count = reshape(cast(sum(eq(unsqueeze(flat, 1), flat), 1), w.dtype), *i.shape, 1)
        out = apply(OPS["graft"], div(out, count), out.detach())
    if padding_idx is not None:
        out = where(unsqueeze(eq(index, padding_idx % w.shape[0]), -1), out.detach(), out)
    return out


def _shorten(index: Tensor, weight: Tensor, most: float, p: float) -> None:
    with no_grad():
        used = any(eq(unsqueeze(arange(weight.shape[0]), 1), reshape(index, 1, -1)), 1, keepdim=True)
        norm = _length(weight.detach(), p, 1, True)
        weight.mul_(where(used & (norm > most), most / (norm + 1e-7), 1.0))


@widest
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """out[..., k] = Σᵢⱼ input1[..., i]·weight[k, i, j]·input2[..., j] + bias[k].

    Args:
        input1: [..., I].
        input2: [..., J], the same leading axes.
        weight: [K, I, J].
        bias: [K].

    Raises:
        ShapeMismatchError: a shape does not fit.
        ArgumentTypeError: the dtypes differ.

    Gradient: the two products that leave one factor out, each summed where it was broadcast.
    Source: ``rules.matmul`` twice.
    Example:
        >>> bilinear(tensor([2.0]), tensor([3.0]), tensor([[[5.0]]])).tolist()
        [30.0]
    """
    a, b, w = (operand("bilinear", v) for v in (input1, input2, weight))
    want = ("K", a.shape[-1] if a.ndim else "I", b.shape[-1] if b.ndim else "J")
    if w.ndim != 3 or w.shape[1:] != want[1:] or a.shape[:-1] != b.shape[:-1]:
        raise ShapeMismatchError(
            f"[bilinear] inputs of shapes {list(a.shape)} and {list(b.shape)} and the weight do not fit",
            expected=want,
            got=w.shape,
        )
    k, i, j = w.shape
    half = matmul(a, reshape(permute(w, 1, 0, 2), i, k * j))
    out = squeeze(matmul(reshape(half, *a.shape[:-1], k, j), unsqueeze(b, -1)), -1)
    return out if bias is None else add(out, _constant_operand("bilinear", "bias", bias, out, (k,)))


@narrow
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """softmax(scale·query·keyᵀ + mask)·value.

    Args:
        query: [..., L, E].
        key: [..., S, E]; leading axes broadcast.
        value: [..., S, V].
        attn_mask: boolean, True where a place takes part, or floating, added to the scores; it
            broadcasts to [..., L, S].  A query that may look nowhere gets 0.
        dropout_p: drop weights with this probability, whether training or not.
        is_causal: query l sees keys up to l; excludes a mask.
        scale: by default 1/√E.
        enable_gqa: repeat the heads (axis −3) of key and value to query's.
        generator: what dropout draws from.

    Returns:
        [..., L, V].

    Raises:
        ShapeMismatchError: the shapes do not fit.
        ArgumentTypeError: the dtypes differ, or an argument has the wrong type.
        ArgumentValueError: a mask and is_causal, or a dropout_p outside [0, 1].

    Gradient: that of the two products and the softmax.
    Source: Vaswani et al., arXiv 1706.03762; ``rules.matmul`` and ``rules.softmax``.
    Example:
        >>> scaled_dot_product_attention(zeros(1, 2), ones(3, 2), ones(3, 4)).shape
        (1, 4)
    """
    op = "scaled_dot_product_attention"
    q, k, v = (operand(op, t) for t in (query, key, value))
    if any_low := [t.shape for t in (q, k, v) if t.ndim < 2]:
        raise ShapeMismatchError(f"[{op}] operands need 2 axes or more", expected=("...", "L", "E"), got=any_low[0])
    chance = _chance(op, dropout_p)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else _number(op, "scale", scale)
    if enable_gqa:
        k, v = (_repeated(op, t, q) for t in (k, v))
    scores = matmul(mul(q, factor), transpose(k, -2, -1))
    mask = _causal(op, q.shape[-2], k.shape[-2], attn_mask) if is_causal else attn_mask
    weights = softmax(scores, -1) if mask is None else _masked_softmax(op, scores, operand(op, mask))
    return matmul(_dropped(weights, chance, generator) if chance else weights, v)


def _causal(op: str, rows: int, columns: int, mask: Any) -> Tensor:
    if mask is not None:
        raise ArgumentValueError(f"[{op}] give attn_mask or is_causal, not both")
    return ge(unsqueeze(arange(rows), 1), arange(columns))


def _masked_softmax(op: str, scores: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype == bool:
        scores = where(mask, scores, -math.inf)
    elif mask.dtype == scores.dtype:
        scores = add(scores, mask)
    else:
        raise ArgumentTypeError(f"[{op}] attn_mask must be bool or {scores.dtype}, got {mask.dtype}; cast it")
    nowhere = all(scores.detach() == -math.inf, -1, keepdim=True)  # their softmax would be NaN
    return where(nowhere, 0.0, softmax(where(nowhere, 0.0, scores), -1))


def _repeated(op: str, t: Tensor, q: Tensor) -> Tensor:
    heads, wanted = (x.shape[-3] if x.ndim > 2 else 0 for x in (t, q))
    if not heads or wanted % heads:
        raise ShapeMismatchError(f"[{op}] key's heads must divide query's", expected=q.shape, got=t.shape)
    lead, rest = t.shape[:-3], t.shape[-2:]
    return reshape(expand(unsqueeze(t, -3), *lead, heads, wanted // heads, *rest), *lead, wanted, *rest)
