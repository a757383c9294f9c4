"""How fast, as ratios inside one run: python tests/benchmarks/bench_step.py

A small training step (three layers, batch 8) recorded by us, written by hand
with jax.jit, and in PyTorch eager where it is installed; and the gradient of a
product with a batched left operand by our VJP and by JAX's own.  Absolute times
depend on the machine and its mood; read the ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import torsh_fx as tx
from torsh_fx import rules

SHAPES = [(16, 32), (32,), (32, 32), (32,), (32, 4), (4,)]
RATE = 0.01


def microseconds(fn: Callable[[], Any], calls: int = 200, rounds: int = 9) -> float:
    for _ in range(20):
        fn()
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(calls):
            fn()
        found.append((time.perf_counter() - began) / calls * 1e6)
    return statistics.median(found)


def data() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    weights = [(rng.normal(size=s) * 0.3).astype("f") for s in SHAPES]
    return weights, rng.normal(size=(8, 16)).astype("f"), rng.normal(size=(8, 4)).astype("f")


def imperative(lib: Any, params: list[Any], x: Any, y: Any) -> Callable[[], Any]:
    """One source for PyTorch and for us."""

    def step() -> Any:
        h = lib.relu(x @ params[0] + params[1])
        h = lib.relu(h @ params[2] + params[3])
        loss = ((h @ params[4] + params[5] - y) ** 2).mean()
        loss.backward()
        with lib.no_grad():
            for p in params:
                p -= RATE * p.grad
                p.grad = None
        return loss

    return step


def ours() -> Callable[[], Any]:
    weights, x, y = data()
    return imperative(tx, [tx.tensor(w, requires_grad=True) for w in weights], tx.tensor(x), tx.tensor(y))


def by_hand() -> Callable[[], Any]:
    weights, x, y = data()
    state = {"params": [jnp.asarray(w) for w in weights]}
    x, y = jnp.asarray(x), jnp.asarray(y)

    def loss(p: Any) -> Any:
        h = jax.nn.relu(x @ p[0] + p[1])
        h = jax.nn.relu(h @ p[2] + p[3])
        return ((h @ p[4] + p[5] - y) ** 2).mean()

    @jax.jit
    def update(p: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(p)
        return value, [a - RATE * g for a, g in zip(p, grads, strict=True)]

    def step() -> Any:
        value, state["params"] = update(state["params"])
        return value

    return step


def pytorch() -> Callable[[], Any] | None:
    try:
        import torch
    except ImportError:
        return None
    weights, x, y = data()
    return imperative(torch, [torch.tensor(w, requires_grad=True) for w in weights], torch.tensor(x), torch.tensor(y))


def product_gradients() -> tuple[Callable[[], Any], Callable[[], Any]]:
    x, w = jnp.ones((8, 128, 256)), jnp.ones((256, 256))

    def gradient(product: Callable[..., Any]) -> Callable[[], Any]:
        run = jax.jit(jax.grad(lambda w, x: jnp.tanh(product(jnp.tanh(product(x, w)), w)).sum(), (0, 1)))
        return lambda: jax.block_until_ready(run(w, x))

    return gradient(rules.matmul), gradient(jnp.matmul)


def main() -> None:
    hand = microseconds(by_hand())
    print(f"training step: ours / jax.jit by hand  {microseconds(ours()) / hand:.2f}")
    peer = pytorch()
    print(
        "training step: ours / PyTorch eager    "
        + (f"{microseconds(ours()) / microseconds(peer):.2f}" if peer else "-")
    )
    flat, own = product_gradients()
    print(f"gradient of x @ w, x 3-D: ours / JAX   {microseconds(flat, 5, 7) / microseconds(own, 5, 7):.2f}")


if __name__ == "__main__":
    main()
