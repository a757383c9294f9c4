"""Long graphs: an LSTM unrolled over 64 steps and a chain of 1,000 residual steps.

By hand both are unrolled too, since the graph is what is measured.  An expert who
may restructure the loop writes ``lax.scan``; that version is ``rolled``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from workload import Draws, Workload, zeros

BATCH, INPUT, HIDDEN, STEPS = 16, 16, 32, 64
LINKS, WIDTH = 1000, 16


def lstm_loss(lib: Any, params: Sequence[Any], data: Sequence[Any]) -> Any:
    f = lib.nn.functional
    (wx, wh, b, wo), (xs, start, y) = params, data
    h = c = start
    for x in xs.unbind(0):
        i, forget, g, o = (f.linear(x, wx, b) + f.linear(h, wh)).chunk(4, -1)
        c = forget.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return f.mse_loss(f.linear(h, wo), y)


def _cell(params: Sequence[Any], h: Any, c: Any, x: Any) -> tuple[Any, Any]:
    wx, wh, b, _ = params
    i, forget, g, o = jnp.split(x @ wx.T + b + h @ wh.T, 4, -1)
    c = jax.nn.sigmoid(forget) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def lstm_by_hand(params: Sequence[Any], data: Sequence[Any]) -> Any:
    xs, h, y = data
    c = h
    for x in xs:
        h, c = _cell(params, h, c, x)
    return jnp.square(h @ params[3].T - y).mean()


def lstm_rolled(params: Sequence[Any], data: Sequence[Any]) -> Any:
    xs, start, y = data
    (h, _), _ = lax.scan(lambda s, x: (_cell(params, *s, x), None), (start, start), xs)
    return jnp.square(h @ params[3].T - y).mean()


def lstm() -> Workload:
    d = Draws()
    params = [d.weight(4 * HIDDEN, INPUT), d.weight(4 * HIDDEN, HIDDEN), zeros(4 * HIDDEN), d.weight(1, HIDDEN)]
    data = [d.normal(STEPS, BATCH, INPUT), zeros(BATCH, HIDDEN), d.normal(BATCH, 1)]
    return Workload("lstm, 64 steps", params, data, lstm_loss, lstm_by_hand, rolled=lstm_rolled)


def chain_loss(lib: Any, params: Sequence[Any], data: Sequence[Any]) -> Any:
    (w,), (h,) = params, data
    for _ in range(LINKS):
        h = h + (h @ w).tanh()
    return (h * h).mean()


def chain_by_hand(params: Sequence[Any], data: Sequence[Any]) -> Any:
    (w,), (h,) = params, data
    for _ in range(LINKS):
        h = h + jnp.tanh(h @ w)
    return (h * h).mean()


def chain_rolled(params: Sequence[Any], data: Sequence[Any]) -> Any:
    (w,), (h,) = params, data
    h, _ = lax.scan(lambda h, _: (h + jnp.tanh(h @ w), None), h, None, LINKS)
    return (h * h).mean()


def chain() -> Workload:
    d = Draws()
    # So weak a link that 1,000 of them neither explode nor vanish.
    params, data = [d.weight(WIDTH, WIDTH) * 1e-3], [d.normal(8, WIDTH)]
    return Workload("chain, 1000 steps", params, data, chain_loss, chain_by_hand, rate=1e-9, rolled=chain_rolled)
