"""What surrounds a trace: 64-bit mode, matmul precision, mesh.

NOTE [x64]: JAX traces a primitive at six different moments (abstract
evaluation, eager call, lowering, batching, JVP, transpose).  Each of them has
to see 64-bit types, whatever the user's flag says, or ``argmax`` turns int32
in one place and int64 in another.  ``under_x64`` wraps every one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax

config: Any = jax.config  # type checkers do not know its options

P = ParamSpec("P")
R = TypeVar("R")


def under_x64(fn: Callable[P, R]) -> Callable[P, R]:
    """Run ``fn`` with real 64-bit types and JAX's standard promotion rules."""

    @functools.wraps(fn)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if config.jax_enable_x64 and _promotion_is_standard():
            return fn(*args, **kwargs)
        with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return fn(*args, **kwargs)

    return wrapped


def _promotion_is_standard() -> bool:
    return bool(config.jax_numpy_dtype_promotion == "standard" and config.jax_numpy_rank_promotion == "allow")


def matmul_precision() -> str | None:
    """The precision products run in: what the user chose, else exact float32."""
    chosen = config.jax_default_matmul_precision
    return "highest" if chosen is None else str(chosen)
