"""Checkpoint policies that know our primitives: what they save and what they do not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torsh_fx.rules import policies

from tolerances import close
from torsh_fx import rules

X = np.linspace(-1, 1, 6 * 8, dtype=np.float32).reshape(6, 8)
W = np.linspace(-1, 1, 8 * 5, dtype=np.float32).reshape(8, 5)


def layer(matmul, tanh, x, w):
    return jnp.sum(tanh(tanh(matmul(x, w))))


def ours(x, w):
    return layer(rules.matmul, rules.tanh, x, w)


def plain(x, w):
    return layer(jnp.matmul, jnp.tanh, x, w)


def batched(x, w):
    return layer(rules.matmul, rules.tanh, jnp.stack([x, x]), jnp.stack([w, w]))


def saved(fn, policy, *args):
    """Shapes that stay between forward and backward, beside the arguments themselves."""
    kept = jax.eval_shape(lambda *a: jax.vjp(jax.checkpoint(fn, policy=policy), *a)[1], *args)
    shapes = [leaf.shape for leaf in jax.tree.leaves(kept) if leaf.shape]
    for a in args:
        if a.shape in shapes:
            shapes.remove(a.shape)
    return sorted(shapes)


def products_in_the_backward(fn, policy):
    """How often the program of the gradient multiplies matrices."""
    jaxpr = str(jax.make_jaxpr(jax.grad(jax.checkpoint(fn, policy=policy)))(X, W))
    return jaxpr.count("matmul[")


@pytest.mark.parametrize(
    ("name", "fn", "want"),
    [
        ("dots_saveable", ours, [(6, 5)]),
        ("dots_saveable", plain, [(6, 5)]),
        ("dots_saveable", batched, [(2, 6, 5)]),
        ("dots_with_no_batch_dims_saveable", ours, [(6, 5)]),
        ("dots_with_no_batch_dims_saveable", plain, [(6, 5)]),
        ("dots_with_no_batch_dims_saveable", batched, []),
    ],
)
def test_products_are_saved(name, fn, want):
    assert saved(fn, getattr(policies, name), X, W) == want


def test_jax_policies_do_not_see_ours():
    """The reason for ours; if JAX ever looks inside, this module can go."""
    assert saved(ours, jax.checkpoint_policies.dots_saveable, X, W) == []
    assert saved(ours, jax.checkpoint_policies.nothing_saveable, X, W) == []
    assert len(saved(ours, jax.checkpoint_policies.everything_saveable, X, W)) >= 2


def test_convolutions_are_saved():
    x, w = np.ones((2, 3, 9), np.float32), np.ones((4, 3, 3), np.float32)

    def fn(x, w):
        return jnp.sum(rules.tanh(rules.conv1d(x, w)))

    assert saved(fn, policies.dots_saveable, x, w) == [(2, 4, 7)]
    assert saved(fn, policies.dots_with_no_batch_dims_saveable, x, w) == [(2, 4, 7)]


@pytest.mark.parametrize("fn", [ours, batched])
@pytest.mark.parametrize("policy", [policies.dots_saveable, policies.dots_with_no_batch_dims_saveable])
def test_gradients_are_unchanged(fn, policy):
    want = jax.grad(fn, argnums=(0, 1))(X, W)
    for got in (
        jax.jit(jax.grad(jax.checkpoint(fn, policy=policy), argnums=(0, 1)))(X, W),
        jax.grad(jax.checkpoint(fn, policy=policy), argnums=(0, 1))(X, W),
    ):
        for g, expected in zip(got, want, strict=True):
            close(g, expected, gradient=True)


def test_a_product_is_not_computed_again():
    recomputed = products_in_the_backward(ours, jax.checkpoint_policies.nothing_saveable)
    assert products_in_the_backward(ours, policies.dots_saveable) < recomputed
