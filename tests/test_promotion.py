"""Which dtype an operation of two operands has: written down here, and compared with PyTorch where it is installed.

Every pair of dtypes, each as a tensor, a 0-d tensor or a Python number, goes through every operation.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import torsh_fx as tx

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")

# The smallest dtype that holds both, in the order of the first row.
TABLE = """
bool     uint8    int8     int16    int32    int64    float16  bfloat16 float32  float64
uint8    uint8    int16    int16    int32    int64    float16  bfloat16 float32  float64
int8     int16    int8     int16    int32    int64    float16  bfloat16 float32  float64
int16    int16    int16    int16    int32    int64    float16  bfloat16 float32  float64
int32    int32    int32    int32    int32    int64    float16  bfloat16 float32  float64
int64    int64    int64    int64    int64    int64    float16  bfloat16 float32  float64
float16  float16  float16  float16  float16  float16  float16  float32  float32  float64
bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 float32  bfloat16 float32  float64
float32  float32  float32  float32  float32  float32  float32  float32  float32  float64
float64  float64  float64  float64  float64  float64  float64  float64  float64  float64
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]
NAMES = ROWS[0]
SMALLEST = {(a, b): ROWS[i][j] for i, a in enumerate(NAMES) for j, b in enumerate(NAMES)}
KIND = {name: 0 if name == "bool" else 2 if "float" in name else 1 for name in NAMES}
NUMBERS = {"bool": "bool", "int": "int64", "float": "float32"}  # and the dtype that each has by itself


class Operand(NamedTuple):
    """A tensor (2), a 0-d tensor (1) or a number (0), and its dtype."""

    rank: int
    dtype: str

    def of(self, module: Any, value: int) -> Any:
        if not self.rank:
            return {"bool": bool(value), "int": value, "float": value + 0.5}[self.dtype]
        number = bool(value) if self.dtype == "bool" else value
        return module.tensor([number] * 2 if self.rank == 2 else number, dtype=getattr(module, self.dtype))

    @property
    def kind(self) -> int:
        return KIND[NUMBERS.get(self.dtype, self.dtype)]


OPERANDS = [Operand(rank, name) for rank in (2, 1) for name in NAMES] + [Operand(0, name) for name in NUMBERS]
PAIRS = [(a, b) for a, b in itertools.product(OPERANDS, OPERANDS) if a.rank or b.rank]


def promoted(a: Operand, b: Operand) -> str:
    """An operand of lower rank counts only where its kind (bool, integer, floating) is higher."""
    dtypes = [NUMBERS[v.dtype] if not v.rank else v.dtype for v in (a, b)]
    if a.rank == b.rank:
        return SMALLEST[dtypes[0], dtypes[1]]
    high, low = (0, 1) if a.rank > b.rank else (1, 0)
    if (a, b)[low].kind > (a, b)[high].kind:
        return SMALLEST[dtypes[0], dtypes[1]]
    return dtypes[high]


def floating(a: Operand, b: Operand) -> str:
    """Integers are computed in the default dtype."""
    found = promoted(a, b)
    return found if KIND[found] == 2 else "float32"


def boolean(a: Operand, b: Operand) -> str:
    return "bool"


def never(a: Operand, b: Operand) -> bool:
    return False


def any_bool(a: Operand, b: Operand) -> bool:
    return a.kind == 0 or b.kind == 0


def both_bool(a: Operand, b: Operand) -> bool:
    return a.kind == b.kind == 0


def any_float(a: Operand, b: Operand) -> bool:
    return max(a.kind, b.kind) == 2


class Op(NamedTuple):
    """An operation of a module, its result's dtype, and what is refused."""

    of: Callable[[Any], Callable[[Any, Any], Any]]
    dtype: Callable[[Operand, Operand], str] = promoted
    refused: Callable[[Operand, Operand], bool] = never


def called(name: str, **params: Any) -> Callable[[Any], Callable[[Any, Any], Any]]:
    return lambda m: lambda a, b: getattr(m, name)(a, b, **params)


def plain(function: Callable[[Any, Any], Any]) -> Callable[[Any], Callable[[Any, Any], Any]]:
    return lambda m: function


OPS = {
    "+": Op(plain(operator.add)),
    "-": Op(plain(operator.sub), refused=any_bool),
    "*": Op(plain(operator.mul)),
    "/": Op(plain(operator.truediv), floating),
    "//": Op(plain(operator.floordiv), refused=both_bool),
    "%": Op(plain(operator.mod), refused=both_bool),
    "**": Op(plain(operator.pow), refused=both_bool),
    "<": Op(plain(operator.lt), boolean),
    "==": Op(plain(operator.eq), boolean),
    "&": Op(plain(operator.and_), refused=any_float),
    "<<": Op(plain(operator.lshift), refused=lambda a, b: any_float(a, b) or both_bool(a, b)),
    "add(alpha=2)": Op(called("add", alpha=2)),
    "div(rounding_mode='trunc')": Op(called("div", rounding_mode="trunc"), refused=both_bool),
    "maximum": Op(called("maximum")),
    "fmod": Op(called("fmod"), refused=both_bool),
    "atan2": Op(called("atan2"), floating),
    "logical_and": Op(called("logical_and"), boolean),
    "where": Op(lambda m: lambda a, b: m.where(m.tensor([True, False]), a, b)),
    "result_type": Op(lambda m: lambda a, b: m.empty(0, dtype=m.result_type(a, b))),
}
# Where PyTorch gives a result and we do not.
REFUSED_HERE = {
    "**": "XLA has no power of booleans; PyTorch knows that of a boolean tensor and a Python boolean only",
}


def results(name: str) -> Iterator[tuple[Operand, Operand, Any]]:
    """Every pair with our result, None where we refuse it."""
    function = OPS[name].of(tx)
    for a, b in PAIRS:
        try:
            yield a, b, function(a.of(tx, 3), b.of(tx, 2))
        except tx.ArgumentTypeError:
            yield a, b, None


def test_promote_types() -> None:
    for (a, b), wanted in SMALLEST.items():
        assert tx.promote_types(a, b).name == wanted, (a, b)
        if torch is not None:
            assert str(torch.promote_types(getattr(torch, a), getattr(torch, b))) == f"torch.{wanted}", (a, b)


@pytest.mark.parametrize("name", OPS)
def test_every_pair(name: str, full: bool) -> None:
    """Dtypes by the table; and where PyTorch has a result its dtype, shape and value (of a part without --full)."""
    op, wrong, pairs = OPS[name], [], []
    theirs_of = None if torch is None else op.of(torch)
    for a, b, got in results(name):
        wanted = None if op.refused(a, b) else op.dtype(a, b)
        if (None if got is None else got.dtype.name) != wanted:
            wrong.append((a, b, got if got is None else got.dtype.name, wanted))
        if theirs_of is None:
            continue
        try:
            theirs = theirs_of(a.of(torch, 3), b.of(torch, 2))
        except (RuntimeError, TypeError):
            continue  # ours may have one: we take numbers everywhere
        if got is None:
            if name not in REFUSED_HERE:
                wrong.append((a, b, None, theirs.dtype))
        elif f"torch.{got.dtype.name}" != str(theirs.dtype) or got.shape != tuple(theirs.shape):
            wrong.append((a, b, got.dtype, theirs.dtype))
        elif full or a.rank + b.rank == 2:
            pairs.append((a, b, got.double().reshape(-1), theirs.double().reshape(-1)))
    assert wrong == []
    if pairs:
        ours, theirs = tx.cat([p[2] for p in pairs]).numpy(), torch.cat([p[3] for p in pairs]).numpy()
        places = [p[:2] for p in pairs for _ in range(p[2].numel())]
        off = [(*at, x, y) for at, x, y in zip(places, ours, theirs, strict=True) if not np.isclose(x, y, rtol=5e-3)]
        assert off == []


# -- in place, and what is not promoted ---------------------------------------------------


IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "+=": operator.iadd,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "//=": operator.ifloordiv,
    "**=": operator.ipow,
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_keeps_the_dtype(name: str) -> None:
    """The result may be narrowed within its kind, never from a higher kind to a lower."""
    function = getattr(
        operator, {"+=": "iadd", "*=": "imul", "/=": "itruediv", "//=": "ifloordiv", "**=": "ipow"}[name]
    )
    result = floating if name == "/=" else promoted
    wrong = []
    for a, b in PAIRS:
        if not a.rank or b.rank > a.rank:
            continue
        x = a.of(tx, 3)
        try:
            function(x, b.of(tx, 2))
            got = x.dtype.name
        except tx.ArgumentTypeError:
            got = None
        fits = KIND[result(a, b)] <= a.kind and not (name in ("//=", "**=") and both_bool(a, b))
        if got != (a.dtype if fits else None):
            wrong.append((a, b, got))
    assert wrong == []


def test_integer_to_a_negative_power() -> None:
    i = tx.tensor([2, 3])
    with pytest.raises(tx.ArgumentValueError, match=r"negative exponent.*cast it"):
        i**-1
    assert (i**-1.0).tolist() == [0.5, 0.3333333432674408]
    assert (2.0 ** tx.tensor([-1])).item() == 0.5
    assert (i / i).dtype == tx.float32


def test_subtracting_a_boolean() -> None:
    for call in (lambda: tx.ones(2) - True, lambda: True - tx.ones(2), lambda: tx.tensor([True]) - 1):
        with pytest.raises(tx.ArgumentTypeError, match=r"sub.*boolean.*logical_xor"):
            call()


def test_alpha_does_not_change_the_dtype() -> None:
    i, b = tx.tensor([1], dtype=tx.int8), tx.tensor([True])
    assert i.add(b, alpha=100).dtype == tx.int8
    assert i.add(b, alpha=100).item() == 101
    with pytest.raises(tx.ArgumentTypeError, match=r"alpha must be an integer.*int8"):
        i.add(i, alpha=0.5)


def test_limits_of_booleans() -> None:
    b = tx.tensor([True, False])
    assert b.clamp(max=tx.tensor([False, True])).tolist() == [False, False]
    assert b.clamp(min=tx.tensor([False, True])).dtype == tx.bool_


def test_numbers_too_large_for_the_dtype() -> None:
    with pytest.raises(tx.ArgumentValueError, match="300 does not fit in uint8"):
        tx.tensor([1], dtype=tx.uint8) + 300
    assert (tx.tensor([1.0], dtype=tx.float16) + 1e6).item() == float("inf")


# -- the default dtype ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float64", "bfloat16", "float16"])
def test_default_dtype_for_a_block(name: str) -> None:
    def made() -> set[str]:
        i = tx.tensor([1, 2])
        results = (tx.tensor(1.5), tx.zeros(1), i / 2, i * 0.5, i.exp(), i.sqrt())
        return {t.dtype.name for t in results}

    for _ in range(3):  # what was recorded under one is not taken for another
        assert made() == {"float32"}
        with tx.default_dtype(name):
            assert made() == {name}
            with tx.default_dtype(tx.float32):
                assert made() == {"float32"}
            assert tx.get_default_dtype().name == name
    with pytest.raises(KeyError), tx.default_dtype(name):
        raise KeyError
    assert tx.get_default_dtype() == tx.float32

    @tx.default_dtype(name)
    def decorated() -> str:
        return tx.ones(1).dtype.name

    assert (decorated(), tx.ones(1).dtype.name) == (name, "float32")


def test_default_dtype_in_what_was_compiled() -> None:
    jitted = tx.jit(lambda i: i / 2)
    w = tx.zeros(2, dtype=tx.float64)

    @tx.compile
    def step(i: Any) -> Any:
        half = i / 2
        w.copy_(half)
        return half

    i = tx.tensor([1, 2])
    for _ in range(2):
        assert {jitted(i).dtype.name, step(i).dtype.name} == {"float32"}
        with tx.default_dtype(tx.float64):
            assert {jitted(i).dtype.name, step(i).dtype.name} == {"float64"}


# -- casts ---------------------------------------------------------------------------------

FLOATS = ("float64", "float32", "bfloat16", "float16")


def both_ways(recorded: Callable[[], Any]) -> Iterator[Any]:
    yield recorded()
    with tx.eager():
        yield recorded()


@pytest.mark.parametrize("here", FLOATS)
@pytest.mark.parametrize("there", FLOATS)
def test_casts_differentiate(here: str, there: str) -> None:
    def run() -> Any:
        x = tx.tensor([1.5, -2.0, 3.25], dtype=here, requires_grad=True)
        y = x.to(there)
        (y * y).sum().backward()
        return x, y

    for x, y in both_ways(run):
        assert (y.dtype.name, x.grad.dtype.name) == (there, here)
        assert x.grad.tolist() == [3.0, -4.0, 6.5]  # exact in all of them
    tracked = tx.grad(lambda v: (v.to(there) ** 2).sum())(tx.tensor([1.5, -2.0, 3.25], dtype=here))
    assert (tracked.dtype.name, tracked.tolist()) == (here, [3.0, -4.0, 6.5])
    tape = tx.record(lambda v: (v.to(there) ** 2).sum())(tx.tensor([1.5, -2.0, 3.25], dtype=here))
    with jax.enable_x64(True):
        replayed = jax.grad(tape.as_jax())(tx.tensor([1.5, -2.0, 3.25], dtype=here).jax())
    assert (replayed.dtype.name, replayed.tolist()) == (here, [3.0, -4.0, 6.5])


@needs_torch
def test_gradients_through_mixed_dtypes_as_in_pytorch() -> None:
    def run(m: Any) -> list[Any]:
        xs = [m.tensor([0.5, 1.5, -2.0], dtype=getattr(m, name), requires_grad=True) for name in FLOATS]
        total = sum(x * y for x in xs for y in xs)
        (total.double() + m.tensor([1, 2, 3]) * xs[1]).sum().backward()
        return [x.grad for x in xs]

    for got, want in zip(run(tx), run(torch), strict=True):
        assert f"torch.{got.dtype.name}" == str(want.dtype)
        np.testing.assert_allclose(got.double().numpy(), want.double().numpy(), rtol=2e-2)


def test_through_integers_no_gradient_flows() -> None:
    x = tx.tensor([1.5, 2.5], requires_grad=True)
    assert not x.long().float().requires_grad
    (x.long() * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 2.0]


def test_sixty_four_bits_are_exact() -> None:
    with jax.enable_x64(False):
        big = tx.tensor(2**62 + 1)
        assert [(big - 1).item(), (big // 3).item(), (big % 1000).item()] == [
            2**62,
            (2**62 + 1) // 3,
            (2**62 + 1) % 1000,
        ]
        x = tx.tensor(1 / 3, dtype=tx.float64, requires_grad=True)
        (x * x * x).backward()
        assert x.grad is not None
        assert abs(x.grad.item() - 1 / 3) < 1e-16
        assert (tx.tensor([1 / 3], dtype=tx.float64) + 1).item() == 1 / 3 + 1
