"""The gradient of a product with a batched left operand, by our rule and by JAX's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from timing import Times, interleaved

from torsh_fx import rules

OURS, JAXS = "rules.matmul", "jnp.matmul"


def measure_product(rounds: int) -> Times:
    x, w = jnp.ones((8, 128, 256)), jnp.full((256, 256), 1e-3)

    def gradient(product: Callable[..., Any]) -> Callable[[], Any]:
        @jax.jit
        def run(w: Any, x: Any) -> Any:
            grads = jax.grad(lambda w, x: jnp.tanh(product(jnp.tanh(product(x, w)), w)).sum(), (0, 1))(w, x)
            return grads[0][0, 0], grads  # a number to wait for

        return lambda: run(w, x)[0]

    return interleaved({OURS: gradient(rules.matmul), JAXS: gradient(jnp.matmul)}, rounds)
