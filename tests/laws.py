"""What must hold for every row: plain functions of a ``Bundle``, one a law.

All samples of a row go into one program, since a small one costs as much to
compile as a large one; programs are made on demand and shared by the laws.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torsh_fx.rules import policies
from torsh_fx.rules.applying import as_operands
from torsh_fx.rules.call import Aval, Call, Constant, Rule
from torsh_fx.rules.op import Row, Sample

from references import numpy_reference, torch_reference
from tolerances import STEP, close, near
from torsh_fx import rules

FLOATS = ("float64", "float32", "bfloat16", "float16")
BATCH = 3


def is_float(array: Any) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.floating))


class Case:
    """A row on one sample, its floating operands cast to ``dtype``."""

    def __init__(self, row: Row, sample: Sample, dtype: str | None = None) -> None:
        self.row = row
        self.params = dict(sample.params)
        self.args = [self._cast(np.asarray(a), dtype) for a in sample.args]
        with jax.enable_x64(True):
            self.call: Call = as_operands(row, self.args, self.params)[1]
        self.active = [
            i
            for i, a in enumerate(self.args)
            if is_float(self.call.out) and row.active(i, a.dtype) and isinstance(row.rule(i), Rule)
        ]

    @staticmethod
    def _cast(array: Any, dtype: str | None) -> Any:
        return array if dtype is None or not is_float(array) else array.astype(jnp.dtype(dtype))

    def ours(self, *args: Any) -> Any:
        return self.row(*args, **self.params)

    def plain(self, *args: Any) -> Any:
        """The forward as JAX would differentiate it."""
        arrays, call, values = as_operands(self.row, args, self.params)
        return call.forward(*arrays, *values)

    def rebuilt(self, args: Sequence[Any], active: Sequence[Any]) -> list[Any]:
        full = list(args)
        for i, value in zip(self.active, active, strict=True):
            full[i] = value
        return full

    def of_active(self, fn: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
        return lambda *active: fn(*self.rebuilt(args, active))

    def chosen(self, args: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(args[i] for i in self.active)

    def pull(self, fn: Callable[..., Any], args: Sequence[Any], g: Any) -> tuple[Any, ...]:
        return jax.vjp(self.of_active(fn, args), *self.chosen(args))[1](g)  # type: ignore[no-any-return]

    def push(self, fn: Callable[..., Any], args: Sequence[Any], v: Sequence[Any]) -> Any:
        return jax.jvp(self.of_active(fn, args), self.chosen(args), tuple(v))[1]

    def noise(self, seed: int, shape: Any, dtype: Any) -> Any:
        return np.random.default_rng(seed).normal(size=shape).astype(dtype)

    def cotangent(self, seed: int = 1) -> Any:
        return self.noise(seed, self.call.out.shape, self.call.out.dtype)

    def tangents(self, seed: int = 2) -> tuple[Any, ...]:
        return tuple(self.noise(seed + i, self.args[i].shape, self.args[i].dtype) for i in self.active)

    @property
    def exact(self) -> bool:
        """Is everything float64, so that differences mean something?"""
        dtypes = {np.dtype(self.args[i].dtype) for i in self.active} | {self.call.out.dtype}
        return dtypes == {np.dtype(np.float64)}

    def moved(self, step: int) -> list[Any]:
        """Other operands in the same domain: shrunk, or turned round for integers."""
        out = []
        for a in self.args:
            if is_float(a):
                out.append((a * (1 - 0.07 * step)).astype(a.dtype))
            elif a.dtype == bool:
                out.append(a ^ (step % 2 == 1))
            else:
                out.append(a.reshape(-1)[:: -1 if step % 2 else 1].reshape(a.shape))
        return out


class Bundle:
    """All samples of a row with the programs that several laws look at."""

    def __init__(self, row: Row, *, full: bool = False) -> None:
        self.row = row
        self.full = full
        self.cases = [Case(row, s) for s in row.samples()]
        self.inputs = [list(c.args) for c in self.cases]
        self.graded = [c for c in self.cases if c.active]
        self.cotangents = [c.cotangent() for c in self.graded]

    def part(self, cases: Sequence[Case], n: int = 1) -> list[Case]:
        """``n`` representative cases: those with elements first; all of them under ``--full``."""
        if self.full or not cases:
            return list(cases)
        n = 1 if heavy(cases) else n
        return sorted(cases, key=lambda c: c.call.out.size == 0)[:n]

    @property
    def some(self) -> list[Case]:
        """The first graded cases, fewer of those that are slow to compile; all of them under ``--full``."""
        return self.graded if self.full or not self.graded else self.graded[: 2 if heavy(self.graded) else 4]

    @functools.cached_property
    def forward(self) -> Callable[..., Any]:
        return jitted(lambda inputs: [c.ours(*a) for c, a in zip(self.cases, inputs, strict=True)])

    @functools.cached_property
    def backward(self) -> Callable[..., Any]:
        """(value_and_grad's value, VJP, explicit rule) of each graded case."""
        by_rule = rules.OPS.get(self.row.name) is self.row

        def one(c: Case, args: Any, g: Any) -> Any:
            out, back = jax.vjp(c.of_active(c.ours, args), *c.chosen(args))
            direct = None
            if by_rule:
                found = rules.vjp(self.row.name, g, *args, **c.params)
                direct = tuple(found[i] for i in c.active)
            return out, back(g), direct

        return jitted(lambda inputs, gs: [one(*z) for z in zip(self.graded, inputs, gs, strict=True)])

    @functools.cached_property
    def gradients(self) -> list[tuple[Any, ...]]:
        return [pair[1] for pair in self.backward([c.args for c in self.graded], self.cotangents)]

    @functools.cached_property
    def tangents(self) -> list[tuple[Any, Any]]:
        """JVP and linearize of each graded case."""

        def one(c: Case, args: Any, v: Any) -> Any:
            linear = jax.linearize(c.of_active(c.ours, args), *c.chosen(args))[1]
            return c.push(c.ours, args, v), linear(*v)

        program = jitted(lambda inputs, vs: [one(*z) for z in zip(self.graded, inputs, vs, strict=True)])
        return program([c.args for c in self.graded], [c.tangents() for c in self.graded])  # type: ignore[no-any-return]

    @functools.cached_property
    def slopes(self) -> list[list[Any]]:
        """Finite differences of the forward: [case][active operand][coordinate, *output]."""
        everywhere = [c.args for c in self.cases]
        index = {id(c): k for k, c in enumerate(self.cases)}
        picked = [index[id(c)] for c in self.graded]

        def outputs(inputs: list[Any]) -> list[Any]:
            full = list(everywhere)
            for k, args in zip(picked, inputs, strict=True):
                full[k] = args
            out = self.forward(full)
            return [out[k] for k in picked]

        return differences(self.graded, outputs)


def heavy(cases: Sequence[Case]) -> bool:
    """Large samples, those of convolutions, cost the most to compile."""
    return sum(a.size for a in cases[0].args) > 40


def jitted(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` compiled and called with 64-bit types on, results as NumPy arrays."""
    program = jax.jit(fn)

    def call(*args: Any) -> Any:
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, program(*args))

    return call


def differences(cases: Sequence[Case], outputs: Callable[[list[Any]], list[Any]]) -> list[list[Any]]:
    """Central differences of ``outputs``, one coordinate of every case at a time."""
    found: list[list[list[Any]]] = [[[] for _ in c.active] for c in cases]
    for j in range(max((len(c.active) for c in cases), default=0)):
        sizes = [c.args[c.active[j]].size if j < len(c.active) else 0 for c in cases]
        for k in range(max(sizes)):
            both = []
            for sign in (1, -1):
                inputs = []
                for c, size in zip(cases, sizes, strict=True):
                    args = list(c.args)
                    if k < size:
                        x = np.array(args[c.active[j]], copy=True)
                        x.reshape(-1)[k] += sign * STEP
                        args[c.active[j]] = x
                    inputs.append(args)
                both.append(outputs(inputs))
            for i, size in enumerate(sizes):
                if k < size:
                    moved = jax.tree.map(lambda a, b: (a - b) / (2 * STEP), both[0][i], both[1][i])
                    found[i][j].append(moved)
    return found


# -- the laws ------------------------------------------------------------------

LAWS: dict[str, tuple[Callable[[Bundle], None], Callable[[Row], bool]]] = {}


def _graded(row: Row) -> bool:
    return row.differentiable and any(isinstance(r, Rule) for r in row.rules.values())


def law(applies: Callable[[Row], bool] = lambda row: True) -> Callable[..., Any]:
    def register(fn: Callable[[Bundle], None]) -> Callable[[Bundle], None]:
        LAWS[fn.__name__] = (fn, applies)
        return fn

    return register


def applicable(row: Row) -> Iterator[str]:
    return (name for name, (_, applies) in LAWS.items() if applies(row))


# What a row computes


@law()
def forward_numpy(b: Bundle) -> None:
    reference = numpy_reference(b.row)
    if reference is None:
        assert b.row.torch is not None, "neither NumPy nor PyTorch can check this row's forward"
        pytest.skip("no NumPy reference; PyTorch's is used")
    for c, got in zip(b.cases, b.forward(b.inputs), strict=True):
        params = {k: v for k, v in c.params.items() if k != "precision"}
        close(got, np.asarray(reference(*c.args, **params)), what=repr(c.call))


@law(lambda row: row.torch is not None)
def forward_torch(b: Bundle) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    reference = torch_reference(b.row)
    assert reference is not None
    for c, got in zip(b.cases, b.forward(b.inputs), strict=True):
        want = reference(*(torch.from_numpy(np.array(a)) for a in c.args), **c.params).numpy()
        close(got, want, what=repr(c.call))
        assert got.dtype == want.dtype


@law()
def check(b: Bundle) -> None:
    """The check foretells shape and dtype for every dtype it accepts, with 64-bit types off and on."""
    dtypes = (*FLOATS, "int64", "int32", "uint8", "bool")
    for k, (sample, flag) in enumerate(itertools.product(b.row.samples(), (False, True))):
        everything = k < 2 or b.full  # of the first sample, else the dtypes in turns
        for dtype in dtypes if everything else dtypes[k // 2 % 4 :: 4]:
            args = [_any_cast(np.asarray(a), dtype) for a in sample.args]
            try:
                with jax.enable_x64(True):
                    call = as_operands(b.row, args, sample.params)[1]
            except rules.TorshError:
                continue
            if not flag and any(np.dtype(a.dtype).itemsize == 8 for a in call.avals):
                continue  # eval_shape itself would narrow them; ``dtypes`` passes real arrays
            with jax.enable_x64(flag):
                shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in call.avals]
                out = jax.eval_shape(lambda *a, s=sample: b.row(*a, **s.params), *shapes)
            with jax.enable_x64(True):
                shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in call.avals]
                plain = jax.eval_shape(lambda *a, c=call, s=sample: Case.plain(_like(b.row, c, s), *a), *shapes)
            for found in (out, plain):
                assert (found.shape, found.dtype) == (call.out.shape, call.out.dtype), (
                    f"{call!r} on {call.avals}: check says {call.out}, the forward gives {found}"
                )


def _like(row: Row, call: Call, sample: Sample) -> Case:
    case = Case.__new__(Case)
    case.row, case.call, case.params = row, call, dict(sample.params)
    return case


def _any_cast(array: Any, dtype: str) -> Any:
    if not is_float(array):
        return array
    return (array * 3).astype(dtype) if dtype in ("int64", "int32") else np.abs(array * 3).astype(jnp.dtype(dtype))


@law()
def dtypes(b: Bundle) -> None:
    """With 64-bit types off: each floating dtype is kept, forward and gradient, and the values hold."""
    for flag in (False, True) if b.full else (False,):
        _dtypes(b, flag)


def _dtypes(b: Bundle, flag: bool) -> None:
    origins = [c for c in b.part(b.cases) for _ in FLOATS]
    dtypes = itertools.cycle(FLOATS)
    cases = [Case(b.row, Sample(tuple(c.args), c.params), d) for c, d in zip(origins, dtypes, strict=False)]
    gs = [c.cotangent() if c.active else None for c in cases]

    @jax.jit
    def program(inputs: Any, gs: Any) -> Any:
        return [
            (c.ours(*a), c.pull(c.ours, a, g) if c.active else ()) for c, a, g in zip(cases, inputs, gs, strict=True)
        ]

    with jax.enable_x64(True):  # only here can float64 arrays be made
        arrays = jax.tree.map(jnp.asarray, ([c.args for c in cases], gs))
    with jax.enable_x64(flag):
        found = program(*arrays)
    for c, origin, (out, grads), g in zip(cases, origins, found, gs, strict=True):
        what = f"{c.call!r} {[str(a.dtype) for a in c.args]}"
        assert out.dtype == c.call.out.dtype, what
        assert [x.dtype for x in grads] == [c.args[i].dtype for i in c.active], what
        coarsest = max((np.dtype(a.dtype) for a in (*c.args, out) if is_float(a)), key=_coarseness, default=out.dtype)
        if b.row.smooth and all(a.dtype == np.float64 for a in origin.args if is_float(a)):
            _compare_wide(b, origin, c, g, out, grads, coarsest, what)


def _compare_wide(b: Bundle, origin: Case, c: Case, g: Any, out: Any, grads: Any, dtype: Any, what: str) -> None:
    """Compare with float64's results on the same, rounded, values."""
    wide = [a.astype(o.dtype) for a, o in zip(c.args, origin.args, strict=True)]
    inputs = [wide if x is origin else x.args for x in b.cases]
    close(out, b.forward(inputs)[b.cases.index(origin)], dtype=dtype, what=what)
    if c.active:
        at = b.graded.index(origin)
        cotangents = [*b.cotangents]
        cotangents[at] = g.astype(origin.call.out.dtype)
        found = b.backward([wide if x is origin else x.args for x in b.graded], cotangents)[at][1]
        for got, want in zip(grads, found, strict=True):
            close(got, want, gradient=True, dtype=dtype, what=what)


def _coarseness(dtype: Any) -> float:
    return float(jnp.finfo(dtype).eps) if jnp.issubdtype(dtype, jnp.floating) else 0.0


@law()
def eager(b: Bundle) -> None:
    """Outside ``jit`` the same values come out, operands and cotangents as plain NumPy arrays."""
    compiled = b.forward(b.inputs)
    for c in b.part(b.cases):
        close(c.ours(*c.args), compiled[b.cases.index(c)], what=repr(c.call))
    for c in b.part(b.graded):
        at = b.graded.index(c)
        with jax.enable_x64(True):
            grads = c.pull(c.ours, [jnp.asarray(a) for a in c.args], jnp.asarray(b.cotangents[at]))
        for got, want in zip(grads, b.gradients[at], strict=True):
            close(got, want, gradient=True, what=repr(c.call))


@law()
def in_the_jaxpr(b: Bundle) -> None:
    """The op is one equation that bears its name."""
    with jax.enable_x64(True):
        for c in b.cases:
            equations = jax.make_jaxpr(c.ours)(*c.args).eqns
            names = [e.primitive.name for e in equations if e.primitive.name != "convert_element_type"]
            assert names == [b.row.name], f"{c.call!r} reads as {names}"


def _raised(call: Callable[[], Any]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


@law()
def errors(b: Bundle) -> None:
    """Wrong calls raise the declared error, all of them ``TorshError``, in ``jit`` too where shapes tell."""
    for fails in b.row.errors():
        for jit in (False, True):
            call = functools.partial(b.row, **fails.params)
            error = _raised(lambda call=call, jit=jit, a=fails.args: jax.eval_shape(call, *a) if jit else call(*a))
            if error is None:
                assert jit, f"{fails} was accepted"  # values are unknown in a trace
            else:
                assert isinstance(error, fails.error), f"{fails}: {type(error).__name__}: {error}"
                assert isinstance(error, rules.TorshError)
                assert re.search(fails.match, str(error)), f"{fails.match!r} is not in {error!s}"
    c = b.cases[0]
    with pytest.raises(rules.OperandError, match="nonsense"):
        b.row(*c.args, **c.params, nonsense=1)
    if not c.args:
        return
    with pytest.raises(rules.ArgumentTypeError, match=re.escape(f"[{b.row.name}]")):
        b.row(*c.args[:-1], "text", **c.params)
    if not b.row.variadic:
        with pytest.raises(rules.OperandError, match="operand"):
            b.row(*c.args, c.args[0], **c.params)
    if b.row.kind == "elementwise" and len(c.args) > 1:
        with pytest.raises(rules.ShapeMismatchError, match="broadcast"):
            b.row(*(np.ones(2 + i) for i, _ in enumerate(c.args)))


@law(lambda row: bool(row.runtime))
def runtime(b: Bundle) -> None:
    """Runtime parameters may be tracers, may be mapped, and never cause another compilation."""
    cases = [c for c in b.part(b.cases) if c.call.present]
    for c in cases:
        named = {p: np.asarray(c.params.get(p, b.row.params[p])) for p in c.call.present}
        rest = {k: v for k, v in c.params.items() if k not in named}
        traced = []

        @jax.jit
        def program(args: Any, named: Any, rest: Any = rest, traced: Any = traced) -> Any:
            traced.append(1)

            def op(*xs: Any, **values: Any) -> Any:
                return b.row(*xs, **values, **rest)

            both = {k: jnp.stack([v, v]) for k, v in named.items()}
            mapped = jax.vmap(lambda v: op(*args, **v))(both)
            x = [jnp.stack([a, a]) for a in args]
            all_mapped = jax.vmap(lambda xs, v: op(*xs, **v))(x, both) if args else mapped
            return op(*args, **named), mapped, all_mapped

        with jax.enable_x64(True):
            want = b.forward(b.inputs)[b.cases.index(c)]
            got, *mapped = program(c.args, named)
            close(got, want, what=repr(c.call))
            for stacked in mapped:
                close(stacked, np.stack([want, want]), what=f"vmap of {c.call!r}")
            program(c.args, jax.tree.map(lambda v: v * 0, named))
        assert len(traced) == 1


# Reverse mode


@law(_graded)
def vjp_differences(b: Bundle) -> None:
    """The VJP agrees with finite differences in float64."""
    if not b.row.smooth:
        pytest.skip("piecewise constant: its samples sit near jumps")
    for c, g, grads, slopes in zip(b.graded, b.cotangents, b.gradients, b.slopes, strict=True):
        if c.exact:
            for i, got, rise in zip(c.active, grads, slopes, strict=True):
                want = np.array([np.sum(g * r) for r in rise]).reshape(c.args[i].shape)
                near(got, want, f"{c.call!r}, operand {i}")


@law(lambda row: _graded(row) and row.torch is not None)
def vjp_torch(b: Bundle) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for c, g, grads in zip(b.graded, b.cotangents, b.gradients, strict=True):
        for got, want in zip(grads, _torch_grads(torch, c, c.args, g, twice=False)[1], strict=True):
            close(got, want, gradient=True, what=repr(c.call))


def _torch_grads(torch: Any, c: Case, args: Sequence[Any], g: Any, twice: bool) -> tuple[Any, list[Any], list[Any]]:
    """PyTorch's value, gradients and, if ``twice``, gradients of their sums, as NumPy arrays."""
    reference = torch_reference(c.row)
    assert reference is not None
    tensors = [torch.from_numpy(np.array(a)) for a in args]
    wanted = [tensors[i].requires_grad_() for i in c.active]
    out = reference(*tensors, **c.params)
    first = torch.autograd.grad(out, wanted, torch.from_numpy(np.array(g)), create_graph=True, allow_unused=True)
    first = [torch.zeros_like(w) if f is None else f for f, w in zip(first, wanted, strict=True)]
    total = sum(f.sum() for f in first)
    second: Any = [None] * len(wanted)
    if twice and total.requires_grad:
        second = torch.autograd.grad(total, wanted, allow_unused=True)
    second = [torch.zeros_like(w) if s is None else s for s, w in zip(second, wanted, strict=True)]
    return out.numpy(force=True), [f.numpy(force=True) for f in first], [s.numpy(force=True) for s in second]


@law(_graded)
def vjp_plain(b: Bundle) -> None:
    """The VJP and the JVP agree with those that JAX derives from the forward, away from kinks."""
    if not (b.row.smooth and b.row.plain):
        pytest.skip("JAX's own choice at jumps may differ")

    def one(c: Case, args: Any, g: Any, v: Any) -> Any:
        return c.pull(c.plain, args, g), c.push(c.plain, args, v)

    program = jitted(lambda inputs, gs, vs: [one(*z) for z in zip(b.some, inputs, gs, vs, strict=True)])
    found = program([c.args for c in b.some], b.cotangents[: len(b.some)], [c.tangents() for c in b.some])
    for c, (grads, tangent), mine, (pushed, _) in zip(b.some, found, b.gradients, b.tangents, strict=False):
        close(pushed, tangent, gradient=True, what=f"jvp of {c.call!r}")
        for got, want in zip(mine, grads, strict=True):
            close(got, want, gradient=True, what=f"vjp of {c.call!r}")


@law(lambda row: _graded(row) and rules.OPS.get(row.name) is row)
def vjp_direct(b: Bundle) -> None:
    """``rules.vjp`` and ``jax.vjp`` run the same rule; the value comes along unchanged."""
    forward = b.forward(b.inputs)
    for c, (out, grads, direct) in zip(b.graded, b.backward([c.args for c in b.graded], b.cotangents), strict=True):
        close(out, forward[b.cases.index(c)], what=repr(c.call))
        for got, want in zip(direct, grads, strict=True):
            close(got, want, gradient=True, what=repr(c.call))
            assert got.dtype == want.dtype


@law(_graded)
def second_order(b: Bundle) -> None:
    """The VJP of the VJP agrees with JAX's on the forward and with differences of the VJP."""

    def one(c: Case, fn: Any, args: Any, g: Any, v: Any) -> Any:
        def first(g: Any, *active: Any) -> Any:
            return c.pull(fn, c.rebuilt(args, active), g)

        return jax.vjp(first, g, *c.chosen(args))[1](tuple(v))

    def both(c: Case, *rest: Any) -> Any:
        return one(c, c.ours, *rest), one(c, c.plain, *rest) if b.row.smooth and b.row.plain else None

    program = jitted(lambda inputs, gs, vs: [both(*z) for z in zip(b.some, inputs, gs, vs, strict=True)])
    vs = [c.tangents() for c in b.some]
    found = program([c.args for c in b.some], b.cotangents[: len(b.some)], vs)
    rest = [c.args for c in b.graded[len(b.some) :]]

    def grads(inputs: list[Any]) -> list[Any]:
        return [pair[1] for pair in b.backward([*inputs, *rest], b.cotangents)[: len(b.some)]]

    slopes = differences(b.some, grads) if b.row.smooth else [[]] * len(b.some)
    for c, (mine, plain), v, rises in zip(b.some, found, vs, slopes, strict=True):
        if plain is not None:
            for got, want in zip(mine, plain, strict=True):
                close(got, want, gradient=True, what=f"second order of {c.call!r}")
        if c.exact:
            for i, got, rise in zip(c.active, mine[1:], rises, strict=False):
                want = np.array([sum(np.sum(a * r) for a, r in zip(v, rs, strict=True)) for rs in rise])
                near(got, want.reshape(c.args[i].shape), f"second order of {c.call!r}, operand {i}")


# Forward mode


@law(_graded)
def jvp_differences(b: Bundle) -> None:
    if not b.row.smooth:
        pytest.skip("piecewise constant: its samples sit near jumps")
    for c, (got, _), slopes in zip(b.graded, b.tangents, b.slopes, strict=True):
        if c.exact:
            want = np.zeros(c.call.out.shape)
            for v, rise in zip(c.tangents(), slopes, strict=True):
                for scale, r in zip(v.reshape(-1), rise, strict=True):
                    want = want + scale * r
            near(got, want, repr(c.call))


@law(_graded)
def adjoint(b: Bundle) -> None:
    """⟨Jv, g⟩ = ⟨v, Jᵀg⟩, and linearize gives the JVP."""
    for c, (pushed, linear), grads, g in zip(b.graded, b.tangents, b.gradients, b.cotangents, strict=True):
        close(linear, pushed, gradient=True, what=repr(c.call))
        left = np.sum(pushed * g)
        right = sum(np.sum(v * x) for v, x in zip(c.tangents(), grads, strict=True))
        close(np.asarray(left), np.asarray(right), gradient=True, dtype=_coarsest(c), what=repr(c.call))


def _coarsest(c: Case) -> Any:
    return max((np.dtype(a.dtype) for a in (*c.args, c.call.out) if is_float(a)), key=_coarseness)


@law(_graded)
def hessians(b: Bundle) -> None:
    """All compositions of forward and reverse mode give one Hessian, JAX's own where smooth."""
    for c in b.part([c for c in b.graded if c.exact]):
        if sum(a.size for a in c.args) > (256 if b.full else 64):
            continue  # vmap over both axes of the Hessian keeps its square many times over
        g = c.cotangent()
        start = c.chosen(c.args)
        ends = np.cumsum([a.size for a in start])[:-1]

        def scalar(fn: Any, flat: Any, c: Case = c, g: Any = g, start: Any = start, ends: Any = ends) -> Any:
            parts = [p.reshape(a.shape) for p, a in zip(jnp.split(flat, ends), start, strict=True)]
            return jnp.sum(c.of_active(fn, c.args)(*parts) * g)

        f = functools.partial(scalar, c.ours)
        program = jitted(
            lambda x, f=f, scalar=scalar, c=c: (
                [outer(inner(f))(x) for outer in (jax.jacfwd, jax.jacrev) for inner in (jax.jacfwd, jax.jacrev)],
                jax.hessian(functools.partial(scalar, c.plain))(x) if c.row.smooth and c.row.plain else None,
            )
        )
        found, plain = program(np.concatenate([a.reshape(-1) for a in start]))
        for got in found[1:] if plain is None else [*found[1:], plain]:
            close(got, found[0], gradient=True, what=repr(c.call))


# Transformations


def _patterns(c: Case, full: bool) -> list[tuple[int | None, ...]]:
    """Which operands are mapped, and along which axis."""
    n = len(c.args)
    out: list[tuple[int | None, ...]] = [(0,) * n]
    if n > 1:
        out += [tuple(0 if i == k else None for i in range(n)) for k in (range(n) if full else (0, n - 1))]
    out.append(tuple(-1 if k == 0 else 0 for k in range(n)))
    return out


def _mapped(c: Case, dims: Sequence[int | None]) -> tuple[list[Any], list[list[Any]]]:
    """Operands stacked along ``dims``, and the operands of each element of the batch."""
    each = [[m if d is not None else a for a, m, d in zip(c.args, c.moved(s), dims, strict=True)] for s in range(BATCH)]
    stacked = [
        a if d is None else np.stack([e[i] for e in each], axis=d)
        for i, (a, d) in enumerate(zip(c.args, dims, strict=True))
    ]
    return stacked, each


Job = tuple[Case, tuple[int | None, ...]]


def _jobs(b: Bundle, cases: Sequence[Case]) -> list[Job]:
    """Every pattern of the first case, and of the others one in turn; all of all under ``--full``."""
    out: list[Job] = []
    for k, c in enumerate(cases):
        patterns = _patterns(c, b.full)
        out += [(c, dims) for dims in (patterns if b.full or not k else [patterns[k % len(patterns)]])]
    return out


def _loops(jobs: Sequence[Job], pool: Sequence[Case], run: Callable[[list[Any]], Any]) -> Any:
    """Results of ``run`` for each job: a list over the batch, without compiling anything."""
    out = {}
    for c, dims in jobs:
        rows = []
        for args in _mapped(c, dims)[1]:
            rows.append(run([args if x is c else x.args for x in pool])[pool.index(c)])
        out[id(c), dims] = rows
    return out


@law(lambda row: bool(row.operands))
def vmap(b: Bundle) -> None:
    """vmap is a loop: all operands mapped, each alone, along the first axis and the last, named or not."""
    jobs = _jobs(b, b.part(b.cases, 4))
    want = _loops(jobs, b.cases, b.forward)

    def program(inputs: Any) -> Any:
        out = [jax.vmap(c.ours, dims)(*a) for (c, dims), a in zip(jobs, inputs, strict=True)]
        c, dims = jobs[0]
        named = jax.vmap(c.ours, dims, axis_name="batch")(*inputs[0])
        spmd = jax.vmap(c.ours, dims, spmd_axis_name="spmd")(*inputs[0])
        nested = jax.vmap(jax.vmap(c.ours, dims), (0,) * len(dims))(*(jnp.stack([a, a]) for a in inputs[0]))
        return out, named, spmd, nested

    found, named, spmd, nested = jitted(program)([_mapped(c, dims)[0] for c, dims in jobs])
    for (c, dims), got in zip(jobs, found, strict=True):
        close(got, np.stack(want[id(c), dims]), what=f"vmap{dims} of {c.call!r}")
    for got in (named, spmd, nested[0], nested[1]):
        close(got, found[0], what=f"named or nested vmap of {jobs[0][0].call!r}")


@law(_graded)
def vmap_of_grad(b: Bundle) -> None:
    jobs = _jobs(b, b.part(b.graded, 3))
    want = _loops(jobs, b.graded, lambda inputs: [p[1] for p in b.backward(inputs, b.cotangents)])

    def one(c: Case, dims: Any, args: Any, g: Any) -> Any:
        return jax.vmap(lambda *a: c.pull(c.ours, a[:-1], a[-1]), (*dims, 0), axis_name="batch")(*args, g)

    gs = [np.stack([b.cotangents[b.graded.index(c)]] * BATCH) for c, _ in jobs]
    inputs = [_mapped(c, dims)[0] for c, dims in jobs]
    found = jitted(lambda inputs, gs: [one(*j, a, g) for j, a, g in zip(jobs, inputs, gs, strict=True)])(inputs, gs)
    for (c, dims), grads in zip(jobs, found, strict=True):
        for k, got in enumerate(grads):
            close(got, np.stack([w[k] for w in want[id(c), dims]]), gradient=True, what=f"{c.call!r} {dims}")


@law(_graded)
def grad_of_vmap(b: Bundle) -> None:
    """An operand that is not mapped gets the sum over the batch."""
    jobs = _jobs(b, b.part(b.graded, 3))
    want = _loops(jobs, b.graded, lambda inputs: [p[1] for p in b.backward(inputs, b.cotangents)])

    def one(c: Case, dims: Any, args: Any, g: Any) -> Any:
        return c.pull(jax.vmap(c.ours, dims), args, g)

    gs = [np.stack([b.cotangents[b.graded.index(c)]] * BATCH) for c, _ in jobs]
    inputs = [_mapped(c, dims)[0] for c, dims in jobs]
    found = jitted(lambda inputs, gs: [one(*j, a, g) for j, a, g in zip(jobs, inputs, gs, strict=True)])(inputs, gs)
    for (c, dims), grads in zip(jobs, found, strict=True):
        for k, (i, got) in enumerate(zip(c.active, grads, strict=True)):
            each = [w[k] for w in want[id(c), dims]]
            whole = sum(each) if dims[i] is None else np.stack(each, axis=dims[i])
            close(got, whole, gradient=True, dtype=_coarsest(c), what=f"{c.call!r} {dims}")


@law(_graded)
def control_flow(b: Bundle) -> None:
    """Inside scan and cond, value and gradient are what they are outside."""
    cases = b.part(b.graded)

    def one(c: Case, args: Any, g: Any, yes: Any) -> Any:
        def scanned(*active: Any) -> Any:
            full = c.rebuilt(args, active)

            def body(carry: Any, scale: Any) -> Any:
                return carry + 1, c.ours(*full) * scale.astype(c.call.out.dtype)

            return jax.lax.scan(body, 0, jnp.array([1.0, 2.0]))[1]

        def chosen(*active: Any) -> Any:
            full = c.rebuilt(args, active)
            return jax.lax.cond(yes, lambda: c.ours(*full), lambda: jnp.zeros(c.call.out.shape, c.call.out.dtype))

        twice = jnp.stack([g, g])
        out = []
        for fn, ct in ((scanned, twice), (chosen, g)):
            value, back = jax.vjp(fn, *c.chosen(args))
            out.append((value, back(ct)))
        return out

    gs = [b.cotangents[b.graded.index(c)] for c in cases]
    program = jitted(lambda inputs, gs, yes: [one(*z, yes) for z in zip(cases, inputs, gs, strict=True)])
    forward = b.forward(b.inputs)
    for c, (scan, cond) in zip(cases, program([c.args for c in cases], gs, True), strict=True):
        out, grads = forward[b.cases.index(c)], b.gradients[b.graded.index(c)]
        close(scan[0], np.stack([out, out + out]), what=f"scan of {c.call!r}")
        close(cond[0], out, what=f"cond of {c.call!r}")
        for in_scan, in_cond, want in zip(scan[1], cond[1], grads, strict=True):
            close(in_scan, 3 * want, gradient=True, dtype=_coarsest(c), what=f"grad of scan of {c.call!r}")
            close(in_cond, want, gradient=True, what=f"grad of cond of {c.call!r}")


@law(_graded)
def checkpoint(b: Bundle) -> None:
    """Rematerialised, under any policy, the gradient is the same."""
    choices = [None, policies.dots_saveable]
    if b.full:
        theirs = jax.checkpoint_policies
        choices += [policies.dots_with_no_batch_dims_saveable, theirs.everything_saveable, theirs.nothing_saveable]
    cases = b.part(b.graded)

    def one(c: Case, args: Any, g: Any) -> Any:
        return [c.pull(jax.checkpoint(c.ours, policy=p), args, g) for p in choices]

    gs = [b.cotangents[b.graded.index(c)] for c in cases]
    program = jitted(lambda inputs, gs: [one(*z) for z in zip(cases, inputs, gs, strict=True)])
    found = program([c.args for c in cases], gs)
    for c, choices_found in zip(cases, found, strict=True):
        for grads in choices_found:
            for got, want in zip(grads, b.gradients[b.graded.index(c)], strict=True):
                close(got, want, gradient=True, what=repr(c.call))


@law(_graded)
def linear_transpose(b: Bundle) -> None:
    """What is linear can be transposed; what is not refuses."""
    linear: list[tuple[Case, tuple[int, ...]]] = []
    for c in b.some:
        whole = tuple(c.active)
        if b.row.jointly_linear:
            linear.append((c, whole))
        for i in whole:
            alone = b.row.operand_name(i) in b.row.linear_in or (b.row.jointly_linear and whole == (i,))
            if alone and (c, (i,)) not in linear:
                linear.append((c, (i,)))
            elif not alone and c is b.graded[0] and not b.row.jointly_linear:
                with pytest.raises(rules.AutogradError, match="linear"), jax.enable_x64(True):
                    jax.eval_shape(lambda a, g, i=i, c=c: _transposed(c, (i,), a, g), c.args, c.cotangent())
    if not linear:
        return

    def program(inputs: Any, gs: Any) -> Any:
        return [_transposed(c, which, a, g) for (c, which), a, g in zip(linear, inputs, gs, strict=True)]

    found = jitted(program)([c.args for c, _ in linear], [c.cotangent() for c, _ in linear])
    for (c, which), got in zip(linear, found, strict=True):
        grads = b.gradients[b.graded.index(c)]
        for i, x in zip(which, got, strict=True):
            close(x, grads[c.active.index(i)], gradient=True, what=f"{c.call!r}, operand {i}")


def _transposed(c: Case, which: Sequence[int], args: Sequence[Any], g: Any) -> Any:
    def of(*moving: Any) -> Any:
        full = list(args)
        for i, m in zip(which, moving, strict=True):
            full[i] = m
        return c.ours(*full)

    return jax.linear_transpose(of, *(args[i] for i in which))(g)


@law(_graded)
def residuals(b: Bundle) -> None:
    """What JAX keeps between forward and backward is what the VJPs name, and nothing else."""
    with jax.enable_x64(True):
        for c in b.graded:
            kept = jax.eval_shape(lambda *a, c=c: jax.vjp(c.of_active(c.ours, a), *c.chosen(a))[1], *c.args)
            sizes = sorted(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(kept) if leaf.size)
            declared = [_bytes(c.call.out) if k == "out" else _bytes(c.call.avals[k]) for k in _declared(c)]
            extra = list(sizes)
            for size in declared:
                if size in extra:
                    extra.remove(size)
            # Runtime parameters travel along: a few bytes, or the indices themselves.
            values = as_operands(b.row, c.args, c.params)[2]
            for size in (v.size * v.dtype.itemsize for v in values):
                if size in extra:
                    extra.remove(size)
            assert not extra, f"{c.call!r} keeps arrays of {sizes} bytes and declares {sorted(declared)}"


def _bytes(aval: Aval) -> int:
    return int(aval.size) * np.dtype(aval.dtype).itemsize


def _declared(c: Case) -> set[int | str]:
    """Operands and output that the VJPs of the active operands read."""
    row = c.row
    names = {n for i in c.active for n in row.rule(i).names}  # type: ignore[union-attr]
    if row.kind == "linear":
        names |= {n for n, r in row.rules.items() if isinstance(r, Constant)}
    found: set[int | str] = {i for i in range(c.call.n) if row.operand_name(i) in names}
    return found | ({"out"} & names)


# What has no gradient


@law(lambda row: not _graded(row) and bool(row.operands))
def no_gradient(b: Bundle) -> None:
    """A declared lack of derivative is an error, a constant result has derivative zero."""
    c = b.part(b.cases)[0]
    with jax.enable_x64(True):
        args = [jnp.asarray(a) for a in c.args]
        floats = [i for i, a in enumerate(args) if is_float(a)]
        if not floats:
            return

        def f(x: Any) -> Any:
            full = list(args)
            full[floats[0]] = x
            return c.ours(*full)

        if b.row.differentiable:
            with pytest.raises(rules.AutogradError, match=re.escape(b.row.name)):
                jax.vjp(f, args[floats[0]])
            return
        tangent = jax.eval_shape(lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1], args[floats[0]])
        assert tangent.dtype == jax.dtypes.float0
    if rules.OPS.get(b.row.name) is b.row:
        with pytest.raises(rules.AutogradError, match="not differentiable"):
            rules.vjp(b.row.name, np.ones(c.call.out.shape), *c.args, **c.params)


# Edges


# Points where ours is not PyTorch's, and why: (op, parts, where, reason).
EXCEPTIONS: list[tuple[str, tuple[str, ...], Callable[..., Any], str]] = [
    ("relu", ("first",), lambda x: x != x, "NaN takes slope 0; PyTorch hands g on"),
    ("gelu", ("value",), lambda x: x == -np.inf, "the limit; PyTorch's product is NaN"),
    ("gelu", ("first",), lambda x: ~np.isfinite(x) | (abs(x) > 1e10), "0 or 1 in the tails; PyTorch's is NaN"),
    ("gelu", ("second",), lambda x: (abs(x) >= 5) & (x.dtype == np.float32), "1 - t² is already 0 in float32"),
    ("gelu_erf", ("value",), lambda x: np.isinf(x), "the limit; PyTorch's product is NaN"),
    ("gelu_erf", ("first",), lambda x: np.isinf(x), "0 or 1 in the tails; PyTorch's is NaN"),
    ("rsqrt", ("first",), lambda x: x == 0, "-inf at both zeros"),
    ("maximum", ("value", "first"), lambda a, b: (a != a) | (b != b), "a NaN on either side gives b"),
    ("minimum", ("value", "first"), lambda a, b: (a != a) | (b != b), "a NaN on either side gives b"),
    ("sinc", ("first", "second"), lambda x: abs(x) < 0.01, "PyTorch's quotient cancels; the curvature is -π²/3"),
    ("hardtanh", ("first",), lambda x: x != x, "0 at NaN; PyTorch's scalar and vector loops differ"),
    ("hardshrink", ("first",), lambda x: x != x, "0 at NaN; PyTorch's scalar and vector loops differ"),
    ("softshrink", ("first",), lambda x: x != x, "0 at NaN; PyTorch's scalar and vector loops differ"),
    ("prelu", ("second",), lambda x, weight: x == 0, "the first's own derivative; PyTorch leaves out the kink"),
    ("elu", ("second",), lambda x: x == 0, "the first's own derivative; PyTorch leaves out the kink"),
    ("softplus", ("second",), lambda x: (x == 20) | (x == 1.5), "PyTorch leaves out the threshold, where the first is"),
    (
        "binary_cross_entropy",
        ("second",),
        lambda x, t: x == x,
        "PyTorch's has 1e-12 in float64 where its first order has it in float32",
    ),
    ("copysign", ("first",), lambda a, b: np.isnan(a) | np.isinf(a), "slope ±1; PyTorch's is out/a"),
    ("cumprod", ("first", "second"), lambda x: x != x, "a factor is not in its own derivative; PyTorch divides by it"),
    ("logcumsumexp", ("first", "second"), lambda x: x == -np.inf, "exactly 0, the limit; PyTorch's is NaN"),
    ("pow", ("second",), lambda x: x == -np.inf, "a root of -inf is NaN in every order"),
    ("pow_tensor", ("second",), lambda x, n: (x == 0) | (n == 0), "poles; PyTorch loses the derivative in n at n = 0"),
]


@law(lambda row: _graded(row) and len(row.special) > 0)
def special_points(b: Bundle) -> None:
    """Poles, kinks, infinities and NaN: PyTorch's values in both precisions, and flat tails stay flat."""
    for dtype in ("float64", "float32"):
        cases = list(_special_cases(b.row, dtype))

        def one(c: Case, args: Any) -> Any:
            g = jnp.ones(c.call.out.shape, c.call.out.dtype)

            def first(*active: Any) -> Any:
                return c.pull(c.ours, c.rebuilt(args, active), g)

            grads, back = jax.vjp(first, *c.chosen(args))
            return c.ours(*args), grads, back(tuple(jnp.ones_like(x) for x in grads))

        inputs = [c.args for c in cases]
        program = jitted(lambda inputs, cases=cases: [one(*z) for z in zip(cases, inputs, strict=True)])
        found = program(inputs)
        nudged = [
            program([[a * np.asarray(s, a.dtype) if is_float(a) else a for a in c.args] for c in cases])
            for s in (0.999, 1.001)
        ]
        for k, (c, (_, grads, second)) in enumerate(zip(cases, found, strict=True)):
            if len(c.active) == 1 and b.row.kind == "elementwise":
                flat = np.isfinite(grads[0]) & np.isfinite(c.args[0]) & (c.args[0] != 0)
                for other in nudged:
                    flat &= other[k][1][0] == grads[0]
                bad = flat & ~(abs(second[0]) < 1e-3)  # the first is constant to rounding only
                assert not bad.any(), f"second order at {c.args[0][bad]} is {second[0][bad]}, the first is constant"
        _special_torch(b.row, cases, found)


def _special_torch(row: Row, cases: Sequence[Case], found: Any) -> None:
    try:
        import torch
    except ImportError:
        return
    if row.torch is None:
        return
    for c, (out, grads, second) in zip(cases, found, strict=True):
        value, first, double = _torch_grads(torch, c, c.args, np.ones(c.call.out.shape, c.call.out.dtype), twice=True)
        for i, got, want in [(0, out, value), *((1, *z) for z in zip(grads, first, strict=True))]:
            _special_equal(row, c, ("value", "first")[i], got, want)
        for got, want in zip(second, double, strict=True):
            # Where PyTorch's own second order is NaN ours is free; elsewhere it must agree.
            _special_equal(row, c, "second", np.where(np.isnan(want), np.nan, got), want)


def _special_equal(row: Row, c: Case, part: str, got: Any, want: Any) -> None:
    rtol = 1e-9 if got.dtype == np.float64 else 1e-4
    bad = np.atleast_1d(~np.isclose(got, want, rtol=rtol, atol=rtol * 1e-2, equal_nan=True))
    for name, parts, excepted, _ in EXCEPTIONS:
        if name == row.name and part in parts:
            bad &= ~excepted(*c.args)
    points = [a.reshape(-1)[bad.reshape(-1)].tolist() if a.size == bad.size else a for a in c.args]
    mine, theirs = np.atleast_1d(got)[bad], np.atleast_1d(want)[bad]
    assert not bad.any(), f"{part} of {c.call!r} at {points}: {mine.tolist()}, PyTorch {theirs.tolist()}"


def _special_cases(row: Row, dtype: str) -> Iterator[Case]:
    points = np.array(row.special, dtype=np.float64).astype(dtype)
    seen = []
    for sample in row.samples():
        if sample.params in seen:
            continue
        seen.append(sample.params)
        if row.kind == "elementwise":
            grids = np.meshgrid(*[points] * len(sample.args), indexing="ij")
            yield Case(row, Sample(tuple(g.reshape(-1) for g in grids), sample.params), dtype)
        elif sample.args[0].size > 1:
            for point in points:
                x = np.array(sample.args[0]).astype(dtype)
                x.reshape(-1)[0] = point
                yield Case(row, Sample((x, *sample.args[1:]), sample.params), dtype)


def verify(row: Row, *names: str, full: bool = False) -> None:
    """Run laws by name (all that apply without a name) on ``row``."""
    bundle = Bundle(row, full=full)
    for name in names or tuple(applicable(row)):
        LAWS[name][0](bundle)


@functools.cache
def bundle(row: Row, full: bool) -> Bundle:
    return Bundle(row, full=full)


def runnable() -> list[Row]:
    return [row for row in rules.OPS.values() if row.tests]


def drawing() -> list[Row]:
    """Rows that draw random numbers: they take a key and no operand."""
    return [row for row in rules.OPS.values() if not row.tests and not row.operands]
