"""A row applied to operands of known shapes: what is recorded, keyed and differentiated."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .broadcast import Shape, reduce_grad_to_shape
from .errors import AutogradError

if TYPE_CHECKING:
    from .op import Row


class Aval(NamedTuple):
    """Shape and dtype: all that a check may look at."""

    shape: Shape
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Any:
        return math.prod(self.shape)


class Missing(NamedTuple):
    """An operand whose derivative does not exist, and why."""

    why: str


class Constant(NamedTuple):
    """An operand that takes part as data only: an index, a mask."""


class Rule(NamedTuple):
    """A VJP for one operand and the names it reads besides the cotangent."""

    fn: Callable[..., Any]
    names: tuple[str, ...]


class Call:
    """A row applied to operands of known shapes and dtypes, with its static parameters."""

    __slots__ = (
        "__weakref__",
        "_active",
        "_residuals",
        "avals",
        "kwargs",
        "n",
        "op",
        "out",
        "present",
        "static",
    )

    foreign = False  # what the call computes depends on nothing but its arguments

    def __init__(
        self,
        op: Row,
        avals: tuple[Aval, ...],
        static: tuple[tuple[str, Any], ...],
        present: tuple[str, ...],
        out: Aval,
    ) -> None:
        # Calls are interned by ``Row.call``; identity is equality.
        self.op = op
        self.avals = avals
        self.n = len(avals)
        self.static = static
        self.kwargs = dict(static)
        self.present = present
        self.out = out
        self._active: tuple[bool, ...] | None = None
        self._residuals: dict[tuple[bool, ...], tuple[int | str, ...]] = {}

    def __repr__(self) -> str:
        return self.op.describe(self.kwargs, dict.fromkeys(self.present, "·"))

    @property
    def name(self) -> str:
        return self.op.name

    def describe(self, runtime: dict[str, Any]) -> str:
        """Diagnostic name with parameters, runtime ones included."""
        return self.op.describe(self.kwargs, runtime)

    def active(self, i: int) -> bool:
        """May operand ``i`` have a gradient?"""
        if self._active is None:
            self._active = tuple(self.op.active(k, a.dtype) for k, a in enumerate(self.avals))
        return self._active[i]

    def runtime(self, values: Sequence[Any]) -> dict[str, Any]:
        """Runtime parameters by name, scalars in the dtype the row computes in."""
        out: dict[str, Any] = dict.fromkeys(self.op.runtime)
        for name, value in zip(self.present, values, strict=True):
            if self.op.runtime[name] == "scalar" and self.avals:
                value = jnp.asarray(value).astype(self.avals[0].dtype)
            out[name] = value
        return out

    def forward(self, *args: Any) -> Any:
        """The value, from operands followed by runtime parameters."""
        return self.op.forward(*args[: self.n], **self.kwargs, **self.runtime(args[self.n :]))

    def residual_keys(self, mask: tuple[bool, ...]) -> tuple[int | str, ...]:
        """What the active rules read: positions of operands, and ``"out"``."""
        known = self._residuals.get(mask)
        if known is None:
            known = self._residuals[mask] = self._find_residuals(mask)
        return known

    def _find_residuals(self, mask: tuple[bool, ...]) -> tuple[int | str, ...]:
        used: set[str] = set()
        for i, active in enumerate(mask):
            if active:
                rule = self.op.rule(i)
                if not isinstance(rule, Rule):
                    raise missing_derivative(self, i)
                used.update(rule.names)
        if self.op.jvp_rule is not None:
            used.update(self.op.jvp_rule.names)
        if self.op.kind == "linear":
            used.update(n for n, rule in self.op.rules.items() if isinstance(rule, Constant))
        keys: list[int | str] = [i for i in range(self.n) if self.op.operand_name(i) in used]
        return (*keys, "out") if "out" in used else tuple(keys)

    def environment(self, residuals: dict[int | str, Any], runtime: dict[str, Any]) -> dict[str, Any]:
        """Everything a rule may name, by name."""
        env = {**self.kwargs, **runtime, "avals": self.avals, "aval": self.out}
        if self.op.variadic:
            env[self.op.operands[0]] = tuple(v for k, v in residuals.items() if k != "out")
        for key, value in residuals.items():
            if isinstance(key, str):
                env[key] = value
            elif not self.op.variadic:
                env[self.op.operands[key]] = value
        return env

    def missing(self) -> str | None:
        """Why no derivative exists, or None: what the engine asks before it runs a rule."""
        if self.op.missing_fn is not None:
            return self.op.missing_fn(self)
        lacking = [r.why for r in self.op.rules.values() if isinstance(r, Missing)]
        return lacking[0] if lacking else None

    def cotangent(self, i: int, g: Any, env: dict[str, Any]) -> Any:
        """The explicit VJP for operand ``i``, folded to its shape and dtype."""
        rule = self.op.rule(i)
        if not isinstance(rule, Rule):
            raise missing_derivative(self, i)
        local = rule.fn(g, **{n: i if n == "i" else env[n] for n in rule.names})
        if self.op.kind == "elementwise":
            local = reduce_grad_to_shape(local, self.avals[i].shape)
        return local.astype(self.avals[i].dtype)

    def tangent(self, tangents: Sequence[Any], env: dict[str, Any]) -> Any:
        """Forward mode: the output's tangent; ``None`` marks operands without one."""
        if self.op.jvp_rule is not None:
            names = self.op.jvp_rule.names
            return self.op.jvp_rule.fn(tuple(tangents), **{n: env[n] for n in names})
        if self.op.kind == "linear":
            full = []
            for i, (t, aval) in enumerate(zip(tangents, self.avals, strict=True)):
                if isinstance(self.op.rule(i), Constant):
                    t = env[self.op.operand_name(i)]
                full.append(jnp.zeros(aval.shape, aval.dtype) if t is None else t)
            return self.op.forward(*full, **{p: env[p] for p in self.op.params})
        total = None
        for i, t in enumerate(tangents):
            if t is not None:
                rule = self.op.rule(i)
                assert isinstance(rule, Rule)
                spread = jnp.broadcast_to(t, self.out.shape).astype(self.out.dtype)
                term = rule.fn(spread, **{n: env[n] for n in rule.names})
                total = term if total is None else total + term
        assert total is not None
        return total.astype(self.out.dtype)


def missing_derivative(call: Call, i: int) -> AutogradError:
    """The error for an operand without a derivative, saying why."""
    rule = call.op.rules.get(call.op.operand_name(i))
    why = rule.why if isinstance(rule, Missing) else "it is not differentiable"
    return AutogradError(f"[{call!r}] has no derivative for its operand {call.op.operand_name(i)!r}: {why}")
