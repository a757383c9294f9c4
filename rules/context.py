"""What surrounds a trace: 64-bit mode, matmul precision, mesh.

NOTE [x64]: JAX traces a primitive at six different moments (abstract
evaluation, eager call, lowering, batching, JVP, transpose).  Each of them has
to see 64-bit types, whatever the user's flag says, or ``argmax`` turns int32
in one place and int64 in another.  ``under_x64`` wraps every one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")


def under_x64(fn: Callable[P, R]) -> Callable[P, R]:
    """Run ``fn`` with real 64-bit types and JAX's standard promotion rules."""

    @functools.wraps(fn)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if jax.config.jax_enable_x64 and _promotion_is_standard():
            return fn(*args, **kwargs)
        with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return fn(*args, **kwargs)

    return wrapped


def _promotion_is_standard() -> bool:
    # ``values`` is the public, context-aware way to read the two options.
    values = jax.config
    return (
        values.jax_numpy_dtype_promotion == "standard"  # type: ignore[attr-defined]
        and values.jax_numpy_rank_promotion == "allow"  # type: ignore[attr-defined]
    )


def matmul_precision() -> str | None:
    """The precision products run in: what the user chose, else exact float32."""
    chosen = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    return "highest" if chosen is None else str(chosen)
