"""Checkpoint policies that know our primitives by name.

JAX's ``dots_saveable`` and its kin look for ``dot_general``, which they cannot see
inside ours.  These also save what a matmul or a convolution gave.  Policies that
do not look at names (``everything_saveable``, ``nothing_saveable``, names given by
``checkpoint_name``) are JAX's own.

Example:
    >>> product = jax.checkpoint(lambda x: (x @ x).sum(), policy=dots_saveable)
    >>> jax.grad(product)(jnp.ones((2, 2))).tolist()
    [[4.0, 4.0], [4.0, 4.0]]
"""

from __future__ import annotations

from typing import Any

import jax

_PRODUCTS = ("matmul", "affine", "conv", "depthwise_conv", "separable_conv")


def _is_product(prim: Any) -> bool:
    name = str(prim.name)
    return name.startswith(_PRODUCTS) and not name.endswith("_tangent")


def dots_saveable(prim: Any, *args: Any, **params: Any) -> bool:
    """Save the results of matrix products and convolutions, ours and JAX's."""
    return _is_product(prim) or bool(jax.checkpoint_policies.dots_saveable(prim, *args, **params))


def dots_with_no_batch_dims_saveable(prim: Any, *args: Any, **params: Any) -> bool:
    """Save the results of products without batch axes: those of weights, not of attention scores."""
    if _is_product(prim):
        # The right operand of a batched product has batch axes of its own.
        return not str(prim.name).startswith("matmul") or len(args[1].shape) <= 2
    return bool(jax.checkpoint_policies.dots_with_no_batch_dims_saveable(prim, *args, **params))
