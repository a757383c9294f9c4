"""What surrounds a trace: 64-bit mode, matmul precision, mesh.

NOTE [x64]: JAX traces a primitive at six different moments (abstract
evaluation, eager call, lowering, batching, JVP, transpose).  Each of them has
to see 64-bit types, whatever the user's flag says, or ``argmax`` turns int32
in one place and int64 in another.  ``under_x64`` wraps every one.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax
import numpy as np

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


class Surroundings(NamedTuple):
    """The flags and mesh that surround someone else's function, noted when it was called.

    What they wrote is traced later, when a value is read; it must mean then what
    it meant where they wrote it.
    """

    x64: bool
    dtype_promotion: str
    rank_promotion: str
    precision: str | None
    mesh: Any

    @classmethod
    def now(cls) -> Surroundings:
        """Those of this moment."""
        return cls(
            bool(config.jax_enable_x64),
            str(config.jax_numpy_dtype_promotion),
            str(config.jax_numpy_rank_promotion),
            config.jax_default_matmul_precision,
            jax.sharding.get_abstract_mesh(),
        )

    @contextlib.contextmanager
    def entered(self, operands: Iterable[Any]) -> Iterator[None]:
        """Inside, the caller's flags hold; 64-bit types are on too where an operand needs them."""
        wide = self.x64 or any(np.dtype(x.dtype).itemsize == 8 for x in operands)
        with contextlib.ExitStack() as stack:
            stack.enter_context(jax.enable_x64(wide))
            stack.enter_context(jax.numpy_dtype_promotion(self.dtype_promotion))
            stack.enter_context(jax.numpy_rank_promotion(self.rank_promotion))
            stack.enter_context(jax.default_matmul_precision(self.precision))
            if not self.mesh.empty:
                stack.enter_context(jax.sharding.use_abstract_mesh(self.mesh))
            yield
