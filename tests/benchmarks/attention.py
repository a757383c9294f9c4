"""An attention block: projections, softmax attention with four heads, a two-layer perceptron, residuals.

The weights are [in, out] and products are ``x @ w``, as JAX code has them, in all
columns.  In PyTorch's layout, [out, in], XLA runs the step by hand faster;
``block_turned`` is that version, measured apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from workload import Draws, Workload, zeros

HEADS = 4


def block(lib: Any, params: Sequence[Any], data: Sequence[Any]) -> Any:
    f = lib.nn.functional
    (wq, wk, wv, wo, w1, b1, w2, b2), (x, y) = params, data
    batch, length, width = x.shape

    def heads(w: Any) -> Any:
        return (x @ w).reshape(batch, length, HEADS, width // HEADS).transpose(1, 2)

    scores = heads(wq) @ heads(wk).transpose(-2, -1) * (width // HEADS) ** -0.5
    mixed = (f.softmax(scores, -1) @ heads(wv)).transpose(1, 2).reshape(batch, length, width)
    h = x + mixed @ wo
    return f.mse_loss(h + f.gelu(h @ w1 + b1) @ w2 + b2, y)


def block_by_hand(params: Sequence[Any], data: Sequence[Any]) -> Any:
    (wq, wk, wv, wo, w1, b1, w2, b2), (x, y) = params, data
    batch, length, width = x.shape

    def heads(w: Any) -> Any:
        return (x @ w).reshape(batch, length, HEADS, width // HEADS).swapaxes(1, 2)

    scores = heads(wq) @ heads(wk).mT * (width // HEADS) ** -0.5
    mixed = (jax.nn.softmax(scores, -1) @ heads(wv)).swapaxes(1, 2).reshape(batch, length, width)
    h = x + mixed @ wo
    out = h + jax.nn.gelu(h @ w1 + b1, approximate=False) @ w2 + b2
    return jnp.square(out - y).mean()


def turned(params: Sequence[Any]) -> list[Any]:
    return [p.T if p.ndim == 2 else p for p in params]


def block_turned(params: Sequence[Any], data: Sequence[Any]) -> Any:
    """By hand with weights [out, in]."""
    return block_by_hand(turned(params), data)


def attention(batch: int, length: int, width: int, quick: bool = False) -> Workload:
    d = Draws()
    square, wide, narrow = (width, width), (4 * width, width), (width, 4 * width)  # [out, in], turned below
    wq, wk, wv, wo, w1, w2 = (d.weight(*s).T.copy() for s in (square, square, square, square, wide, narrow))
    params = [wq, wk, wv, wo, w1, zeros(4 * width), w2, zeros(width)]
    data = [d.normal(batch, length, width), d.normal(batch, length, width)]
    return Workload(f"attention {batch}x{length}x{width}", params, data, block, block_by_hand, quick=quick)
