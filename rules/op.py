"""The op table: one row an op, and everything a row can be asked.

A row is declared where its mathematics is::

    @elementwise(samples=unary(-3, 3), torch="tanh")
    def tanh(x):
        ...
    @tanh.vjp("x")
    def _(g, out):
        return g * (1 - out * out)

Array operands are positional, parameters keyword-only.  The annotation of a
parameter says how it travels: ``Scalar`` (a float in the operand's dtype),
``Index`` (an int64) and ``Indices`` (an integer array) are runtime values that
never enter a compiled program; anything else is static.  The names in a VJP's
signature are its residuals: what it does not name is not kept.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np

from .call import Aval, Call, Constant, Missing, Rule
from .errors import (
    ArgumentTypeError,
    ArgumentValueError,
    OperandError,
)

Scalar = Annotated[jax.Array | float, "scalar"]
Index = Annotated[jax.Array, "index"]
Indices = Annotated[jax.Array, "indices"]

RUNTIME = ("scalar", "index", "indices")


class Sample(NamedTuple):
    """Operands (arrays) and parameters that a row is tested with."""

    args: tuple[Any, ...]
    params: Mapping[str, Any] = MappingProxyType({})


class Fails(NamedTuple):
    """A call that must raise ``error`` with ``match`` in its message."""

    args: tuple[Any, ...]
    params: dict[str, Any]
    error: type[Exception]
    match: str


class Row:
    """One op: forward, check, explicit VJP, forward mode, samples.

    Calling a row applies it to arrays or tracers as one JAX primitive.
    """

    def __init__(
        self,
        forward: Callable[..., Any],
        kind: str,
        *,
        name: str | None = None,
        label: str | None = None,
        samples: Callable[[], Iterable[Sample]] = tuple,
        errors: Callable[[], Iterable[Fails]] = tuple,
        special: Sequence[Any] = (),
        torch: str | None = None,
        linear_in: Sequence[str] = (),
        jointly_linear: bool = False,
        differentiable: bool = True,
        smooth: bool = True,
        plain: bool = True,
        tests: bool = True,
        context: dict[str, Callable[[], Any]] | None = None,
    ) -> None:
        self.forward = forward
        self.kind = kind
        self.name = name or forward.__name__
        self.label = label
        self.samples = samples
        self.errors = errors
        self.special = special
        self.torch = torch
        self.differentiable = differentiable
        self.smooth = smooth  # not piecewise constant
        self.plain = plain  # JAX can differentiate the forward, to compare with
        self.tests = tests
        self.context = context or {}  # static parameters read from the surroundings when None
        self.operands, self.variadic, self.params, self.runtime = _signature(forward)
        self.static = tuple(p for p in self.params if p not in self.runtime)
        # In which operands alone the op is linear, and whether in all together.
        self.linear_in = self.operands if kind == "bilinear" else tuple(linear_in)
        self.jointly_linear = jointly_linear or kind == "linear" or self.linear_in == self.operands[:1] == self.operands
        self.rules: dict[str, Rule | Missing | Constant] = {}
        self.jvp_rule: Rule | None = None
        self.check_fn: Callable[..., Any] | None = None
        self.values_fn: Callable[..., None] | None = None
        self.bounds_fn: Callable[[Call], dict[str, tuple[Any, str]]] | None = None
        self.cotangent_fn: Callable[..., None] | None = None
        self.batch_fn: Callable[..., Any] | None = None
        self.missing_fn: Callable[[Call], str | None] | None = None
        self.apply: Callable[..., jax.Array] = _not_applicable  # with its primitives, ``apply`` comes too
        self.primitive: Any = None
        self.tangent_primitive: Any = None
        self.__name__ = self.name
        self.__doc__ = forward.__doc__
        self.__module__ = forward.__module__
        self.__wrapped__ = forward
        self._calls: dict[Any, Call] = {}

    # -- declaring -----------------------------------------------------------

    def vjp(self, *operands: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the explicit VJP of ``operands``."""

        def register(fn: Callable[..., Any]) -> Callable[..., Any]:
            names = tuple(inspect.signature(fn).parameters)
            for operand in operands:
                self.rules[operand] = Rule(fn, names[1:])
            return fn

        return register

    def missing(self, operand: str, why: str) -> None:
        """Declare that no derivative exists for ``operand``."""
        self.rules[operand] = Missing(why)

    def constant(self, *operands: str) -> None:
        """Declare that ``operands`` are data (indices, masks), not differentiated."""
        for operand in operands:
            self.rules[operand] = Constant()

    def jvp(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Register forward mode: ``fn(tangents, *residual names)``, None = no tangent."""
        self.jvp_rule = Rule(fn, tuple(inspect.signature(fn).parameters)[1:])
        return fn

    def check(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Register ``fn(*avals, **static) -> (shape, dtype[, normalised static])``."""
        self.check_fn = fn
        return fn

    def check_values(self, fn: Callable[..., None]) -> Callable[..., None]:
        """Register ``fn(call, **runtime)``, run on runtime values known at the call."""
        self.values_fn = fn
        return fn

    def bounds(self, fn: Callable[[Call], dict[str, tuple[Any, str]]]) -> Callable[..., Any]:
        """Register ``fn(call) -> {index name: (extent, what it indexes)}``.

        Entries of the named integer arrays must lie in [0, extent): checked at
        the call where they are known, by the program that uses them elsewhere.
        """
        self.bounds_fn = fn
        return fn

    def check_cotangent(self, fn: Callable[..., None]) -> Callable[..., None]:
        """Register ``fn(shape, call)``, what a cotangent given by hand must satisfy."""
        self.cotangent_fn = fn
        return fn

    def batch(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Register ``fn(size, args, dims, call) -> array`` batched at 0, or None to decline."""
        self.batch_fn = fn
        return fn

    # -- asking --------------------------------------------------------------

    def __call__(self, *args: Any, **params: Any) -> jax.Array:
        return self.apply(args, params)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def split(self, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Separate ``params`` into static and present runtime ones; refuse strangers."""
        for key in params:
            if key not in self.params:
                raise OperandError(f"[{self.name}] has no parameter {key!r}; it takes {list(self.params)}")
        static: dict[str, Any] = {}
        runtime: dict[str, Any] = {}
        for key, default in self.params.items():
            value = params.get(key, default)
            if value is inspect.Parameter.empty:
                raise OperandError(f"[{self.name}] needs the parameter {key!r}")
            if key not in self.runtime:
                if value is None and key in self.context:
                    value = self.context[key]()
                static[key] = tuple(value) if isinstance(value, list) else value
            elif value is not None:
                runtime[key] = value
        return static, runtime

    def call(self, avals: tuple[Aval, ...], static: dict[str, Any], present: tuple[str, ...]) -> Call:
        """The checked, interned application of this row to operands of ``avals``."""
        # Types are in the key: 1, 1.0 and True are equal, and not all of them are axes.
        key = (avals, tuple(static.items()), present, tuple(map(type, static.values())))
        try:
            return self._calls[key]
        except KeyError:
            pass
        except TypeError as error:
            raise ArgumentTypeError(f"[{self.name}] static parameters must be hashable, got {static}") from error
        if not self.variadic and len(avals) != len(self.operands):
            raise OperandError(f"[{self.name}] takes {len(self.operands)} operand(s), got {len(avals)}")
        out = self.check_fn(*avals, **static)  # type: ignore[misc]
        check_size(self.name, out[0], out[1])
        normal = {**static, **(out[2] if len(out) > 2 else {})}
        if normal == static:
            call = Call(self, avals, tuple(static.items()), present, Aval(tuple(out[0]), np.dtype(out[1])))
        else:  # one call for dim=-1 and dim=1
            call = self.call(avals, normal, present)
        self._calls[key] = call
        return call

    @property
    def checked(self) -> bool:
        """Must every call be looked at, since values can make it wrong?"""
        return self.bounds_fn is not None or self.values_fn is not None

    def operand_name(self, i: int) -> str:
        return self.operands[0] if self.variadic else self.operands[i]

    def active(self, i: int, dtype: Any) -> bool:
        """May operand ``i`` of ``dtype`` have a gradient?"""
        constant = isinstance(self.rules.get(self.operand_name(i)), Constant)
        return self.differentiable and not constant and bool(jnp.issubdtype(dtype, jnp.floating))

    def rule(self, i: int) -> Rule | Missing | Constant:
        return self.rules[self.operand_name(i)]

    def describe(self, static: dict[str, Any], runtime: dict[str, Any]) -> str:
        """Diagnostic name with parameters, as errors and ``grad_fn`` show it."""
        values = {p: runtime.get(p, static.get(p)) for p in self.params}
        if self.label is not None:
            return self.label.format(**{k: list(v) if isinstance(v, tuple) else v for k, v in values.items()})
        shown = ", ".join(f"{k}={list(v) if isinstance(v, tuple) else v}" for k, v in values.items() if v is not None)
        return f"{self.name}({shown})" if shown else self.name


def _not_applicable(*_: Any) -> jax.Array:
    raise TypeError("this row has no primitives yet")


OPS: dict[str, Row] = {}


def register(row: Row) -> Row:
    """Enter ``row`` in the table."""
    if row.name in OPS:
        raise TypeError(f"op {row.name!r} is declared twice")
    OPS[row.name] = row
    return row


SECTIONS = ("Gradient:", "Source:", "Example:")


def seal(row: Row) -> None:
    """Refuse an incomplete row, naming the field that lacks."""

    def refuse(field: str, why: str) -> None:
        raise TypeError(f"op {row.name!r} is incomplete: {field}: {why}")

    if row.check_fn is None:
        refuse("check", "no shape and dtype check")
    allowed = {*row.operands, *row.params, "out", "avals", "aval", "i"}
    for operand, rule in row.rules.items():
        if operand not in row.operands:
            refuse("vjp", f"{operand!r} is not an operand")
        if isinstance(rule, Rule) and not set(rule.names) <= allowed:
            refuse("vjp", f"unknown residuals {sorted(set(rule.names) - allowed)}")
    if row.differentiable and not set(row.operands) <= set(row.rules):
        refuse("vjp", f"no rule for {sorted(set(row.operands) - set(row.rules))}")
    if not row.differentiable and row.rules:
        refuse("vjp", "declared non-differentiable and has rules")
    has_rule = any(isinstance(r, Rule) for r in row.rules.values())
    if has_rule and row.kind not in ("elementwise", "linear", "bilinear") and row.jvp_rule is None:
        refuse("jvp", "neither a kind nor a rule supplies forward mode")
    if row.tests and not list(row.samples()):
        refuse("samples", "none")
    doc = row.__doc__ or ""
    for section in SECTIONS:
        if section not in doc:
            refuse("docstring", f"section {section!r} is missing")


def check_size(op: str, shape: Any, dtype: Any) -> None:
    """Refuse what no machine can address: XLA ends the process there."""
    known = all(isinstance(extent, int) for extent in shape)
    if known and max((math.prod(shape), *shape)) * np.dtype(dtype).itemsize >= 2**62:
        raise ArgumentValueError(f"[{op}] a {np.dtype(dtype)} array of shape {list(shape)} is too large to exist")


def _signature(
    forward: Callable[..., Any],
) -> tuple[tuple[str, ...], bool, dict[str, Any], dict[str, str]]:
    operands: list[str] = []
    variadic = False
    params: dict[str, Any] = {}
    for p in inspect.signature(forward).parameters.values():
        if p.kind is p.KEYWORD_ONLY:
            params[p.name] = p.default
        elif p.kind is p.VAR_POSITIONAL:
            operands, variadic = [p.name], True
        else:
            operands.append(p.name)
    hints = get_type_hints(forward, include_extras=True)
    runtime = {p: how for p in params if (how := _runtime_kind(hints.get(p))) is not None}
    return tuple(operands), variadic, params, runtime


def _runtime_kind(hint: Any) -> str | None:
    for part in (hint, *(get_args(hint) if getattr(hint, "__origin__", None) is Union else ())):
        for mark in getattr(part, "__metadata__", ()):
            if mark in RUNTIME:
                return str(mark)
    return None
