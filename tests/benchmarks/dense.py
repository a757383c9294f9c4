"""The three-layer perceptron and matrix factorisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from workload import Draws, Workload, zeros

OUT = 10


def perceptron(lib: Any, params: Sequence[Any], data: Sequence[Any]) -> Any:
    f = lib.nn.functional
    (w1, b1, w2, b2, w3, b3), (x, y) = params, data
    h = f.relu(f.linear(x, w1, b1))
    h = f.relu(f.linear(h, w2, b2))
    return f.mse_loss(f.linear(h, w3, b3), y)


def perceptron_by_hand(params: Sequence[Any], data: Sequence[Any]) -> Any:
    (w1, b1, w2, b2, w3, b3), (x, y) = params, data
    h = jax.nn.relu(x @ w1.T + b1)
    h = jax.nn.relu(h @ w2.T + b2)
    return ((h @ w3.T + b3 - y) ** 2).mean()


def mlp(batch: int, inside: int, hidden: int, quick: bool = False) -> Workload:
    d = Draws()
    params = [d.weight(hidden, inside), zeros(hidden), d.weight(hidden, hidden), zeros(hidden)]
    params += [d.weight(OUT, hidden), zeros(OUT)]
    data = [d.normal(batch, inside), d.normal(batch, OUT)]
    return Workload(f"mlp {batch}x{inside}x{hidden}", params, data, perceptron, perceptron_by_hand, quick=quick)


def ratings(lib: Any, params: Sequence[Any], data: Sequence[Any]) -> Any:
    (users, items), (i, j, rating) = params, data
    found = (users.index_select(0, i) * items.index_select(0, j)).sum(-1)
    return lib.nn.functional.mse_loss(found, rating)


def ratings_by_hand(params: Sequence[Any], data: Sequence[Any]) -> Any:
    (users, items), (i, j, rating) = params, data
    return (((users[i] * items[j]).sum(-1) - rating) ** 2).mean()


def factorisation(users: int = 1000, items: int = 2000, rank: int = 16, batch: int = 256) -> Workload:
    d = Draws()
    params = [d.weight(users, rank), d.weight(items, rank)]
    data = [d.integers(users, batch), d.integers(items, batch), d.normal(batch)]
    return Workload("matrix factorisation", params, data, ratings, ratings_by_hand, rate=0.1, quick=True)
