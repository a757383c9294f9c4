"""Linear maps: what a tangent primitive computes, forward and transposed, also under vmap."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .call import Call


class Linear:
    """The derivative of a call in its active operands: eval forward, transpose back."""

    def __init__(self, call: Call, mask: tuple[bool, ...]) -> None:
        self.call = call
        self.mask = mask
        self.keys = call.residual_keys(mask)
        self.n_constants = len(self.keys) + len(call.present)

    def __repr__(self) -> str:
        return repr(self.call)

    def _environment(self, constants: Sequence[Any]) -> dict[str, Any]:
        split = len(self.keys)
        residuals = dict(zip(self.keys, constants[:split], strict=True))
        return self.call.environment(residuals, self.call.runtime(constants[split:]))

    def eval(self, *args: Any) -> Any:
        env = self._environment(args[: self.n_constants])
        given = iter(args[self.n_constants :])
        return self.call.tangent([next(given) if active else None for active in self.mask], env)

    def transpose(self, *args: Any) -> list[Any]:
        """Constants and the cotangent in, one cotangent per active operand out."""
        env = self._environment(args[: self.n_constants])
        return [self.call.cotangent(i, args[-1], env) for i, active in enumerate(self.mask) if active]


class BatchedLinear:
    """A linear map under vmap: unmapped tangents get the sum over the batch."""

    def __init__(self, inner: Any, dims: tuple[int | None, ...], vmap: Callable[..., Any]) -> None:
        self.inner, self.dims, self.vmap = inner, dims, vmap
        self.n_constants = inner.n_constants

    def __repr__(self) -> str:
        return f"vmap({self.inner!r})"

    def eval(self, *args: Any) -> Any:
        return self.vmap(self.inner.eval, self.dims)(*args)

    def transpose(self, *args: Any) -> list[Any]:
        dims = (*self.dims[: self.n_constants], 0)
        outs = self.vmap(lambda *a: tuple(self.inner.transpose(*a)), dims)(*args)
        return [
            jnp.sum(o, axis=0, dtype=o.dtype) if d is None else jnp.moveaxis(o, 0, d)
            for o, d in zip(outs, self.dims[self.n_constants :], strict=True)
        ]


class BatchedCall:
    """A call under vmap, for rows that have no batching of their own."""

    def __init__(self, inner: Any, dims: tuple[int | None, ...], vmap: Callable[..., Any]) -> None:
        self.inner, self.dims, self.vmap = inner, dims, vmap
        self.op, self.n, self.present = inner.op, inner.n, inner.present

    def __repr__(self) -> str:
        return f"vmap({self.inner!r})"

    def forward(self, *args: Any) -> Any:
        return self.vmap(self.inner.forward, self.dims)(*args)

    def residual_keys(self, mask: tuple[bool, ...]) -> tuple[int | str, ...]:
        keys: tuple[int | str, ...] = self.inner.residual_keys(mask)
        return keys

    def linear(self, mask: tuple[bool, ...]) -> BatchedLinear:
        constants = [0 if isinstance(k, str) else self.dims[k] for k in self.residual_keys(mask)]
        constants += self.dims[self.n :]
        tangents = [d for d, active in zip(self.dims[: self.n], mask, strict=True) if active]
        return BatchedLinear(linear_of(self.inner, mask), (*constants, *tangents), self.vmap)


@functools.cache
def linear_of(call: Any, mask: tuple[bool, ...]) -> Any:
    """The interned derivative of a call, mapped or not, in its active operands."""
    return call.linear(mask) if isinstance(call, BatchedCall) else Linear(call, mask)


@functools.cache
def batched(kind: type, inner: Any, dims: tuple[int | None, ...], name: Any, spmd: Any) -> Any:
    """The interned ``kind`` (``BatchedCall``, ``BatchedLinear``) of ``inner`` mapped over ``dims``."""

    def vmap(fn: Callable[..., Any], in_axes: Any) -> Callable[..., Any]:
        axis_name = {} if name is None else {"axis_name": name}
        return jax.vmap(fn, in_axes=tuple(in_axes), spmd_axis_name=spmd, **axis_name)

    return kind(inner, dims, vmap)
