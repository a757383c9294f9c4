"""Fine-tune a Flax model imperatively: loss.backward(), optimizer.step().

A small Flax NNX network learns the digits 0 to 4 in plain JAX.  Its body then is fine-tuned
for all ten digits with a new head, as in PyTorch: parameters are Tensors, the loss is
torsh_fx's, gradients are clipped and applied by Optax, and each step is one XLA program.

    python -m pip install -e '.[examples,flax,optax]' && python examples/flax_finetune.py
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits
from torsh_fx.interop.jax import lift
from torsh_fx.interop.optax import Optimizer

import torsh_fx as tx
from torsh_fx.nn import functional as F


class Body(nnx.Module):
    """The network below the head, with dropout and batch statistics."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(64, 96, rngs=rngs)
        self.norm = nnx.BatchNorm(96, rngs=rngs)
        self.drop = nnx.Dropout(0.2, rngs=rngs)
        self.second = nnx.Linear(96, 48, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return nnx.relu(self.second(self.drop(nnx.relu(self.norm(self.first(x))))))


class Pretrained(nnx.Module):
    """Body and head for the digits 0 to 4."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.body = Body(rngs)
        self.head = nnx.Linear(48, 5, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.head(self.body(x))


def pretrained(x: Any, y: Any) -> Body:
    """Somebody's Flax training, on half of the digits."""
    model = Pretrained(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(3e-3), wrt=nnx.Param)
    known = y < 5

    def loss(model: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(model(x[known]), y[known]).mean()

    @nnx.jit
    def step(model: Any, optimizer: Any) -> None:
        optimizer.update(model, nnx.grad(loss)(model))

    for _ in range(60):
        step(model, optimizer)
    return model.body


def main() -> None:
    digits = load_digits()
    x, y = (digits.data / 16.0).astype(np.float32), digits.target.astype(np.int32)
    train, test = slice(0, 1400), slice(1400, None)
    body = pretrained(jnp.asarray(x[train]), jnp.asarray(y[train]))

    # The Flax model as a function of its parameters, which are Tensors, and of the rest.
    graph, state, rest = nnx.split(body, nnx.Param, ...)
    params = jax.tree.map(lambda a: tx.tensor(a, requires_grad=True), state)

    def forward(params: Any, rest: Any, x: Any) -> Any:
        model = nnx.merge(graph, params, rest)
        return model(x), nnx.state(model, nnx.Not(nnx.Param))

    def evaluate(params: Any, rest: Any, x: Any) -> Any:
        return nnx.view(nnx.merge(graph, params, rest), deterministic=True, use_running_average=True)(x)

    features, features_of_test = lift(forward, has_aux=True), lift(evaluate)
    head = (tx.randn(48, 10) * 0.1).requires_grad_()
    bias = tx.zeros(10, requires_grad=True)

    rates = optax.warmup_cosine_decay_schedule(0.0, 3e-3, 20, 200)
    transform = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rates, weight_decay=1e-3))
    optimizer = Optimizer({"body": params, "head": head, "bias": bias}, transform)

    def accuracy() -> float:
        with tx.no_grad():
            scores = features_of_test(params, rest, x[test]) @ head + bias
            return (scores.argmax(1) == tx.tensor(y[test])).to(tx.float32).mean().item()

    rng, began = np.random.default_rng(0), time.perf_counter()
    for step in range(200):
        if step == 2:
            before = tx.stats()
        batch = rng.integers(0, 1400, 64)
        hidden, rest = features(params, rest, x[batch])  # new batch statistics and dropout keys come back
        loss = F.cross_entropy(hidden @ head + bias, tx.tensor(y[batch].astype(np.int64)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            print(
                f"step {step + 1}: loss {loss.item():.3f}, {1e3 * (time.perf_counter() - began) / step:.1f} ms a step"
            )
    after = tx.stats()
    made = after["xla programs compiled"] - before["xla programs compiled"]
    right = accuracy()
    print(f"{right:.1%} of the test digits are read right; {made} programs were compiled after the second step")

    # And back: Flax gets its parameters as arrays.
    nnx.update(body, jax.tree.map(lambda t: t.detach().jax(), params, is_leaf=lambda t: isinstance(t, tx.Tensor)))
    assert made == 0
    assert right > 0.9


if __name__ == "__main__":
    main()
