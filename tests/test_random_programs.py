"""Random programs: PyTorch's and ours agree, every path of the cross-check agrees, backward's seed is linear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import torsh_fx as tx
from random_programs import KINDS, WRITES, drafted
from torsh_fx import inplace, writers

UNARY = {
    "tanh": tx.tanh,
    "sigmoid": tx.sigmoid,
    "sin": tx.sin,
    "exp(-x*x)": lambda a: tx.exp(-(a * a)),
    "gelu": lambda a: tx.functional.gelu(a, approximate="tanh"),
    "softmax": lambda a: tx.softmax(a, -1),
    "log_softmax": lambda a: tx.log_softmax(a, 0),
    "cube": lambda a: a**3 * 0.1,
    "T": lambda a: a.T,
    "flip": lambda a: a.flip(0),
    "rows": lambda a: a[tx.tensor([2, 0, 2])],
    "slice": lambda a: tx.cat([a[1:], a[:1]], 0),
    "mean": lambda a: a - a.mean(dim=1, keepdim=True),
    "expand": lambda a: a.sum(dim=0).expand(3, 3),
    "detach": lambda a: a.detach() * 0.5 + a,
}
BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - 0.5 * b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / (b * b + 1.0),
    "matmul": lambda a, b: (a @ b) * 0.3,
    "row": lambda a, b: a * b[0],
    "column": lambda a, b: a + b[:, 1:2],
    "where": lambda a, b: tx.where(b.detach() > 0, a, b),
    "stack": lambda a, b: tx.stack([a, b], 1).sum(dim=1),
    "inplace": lambda a, b: (a * 1.0).mul_(b).add_(a),
}

step = st.one_of(
    st.tuples(st.sampled_from(sorted(UNARY)), st.integers(0, 30)),
    st.tuples(st.sampled_from(sorted(BINARY)), st.integers(0, 30), st.integers(0, 30)),
)


def build(program):
    def fn(a, b):
        values = [a, b]
        for name, *at in program:
            operands = [values[k % len(values)] for k in at]
            values.append((UNARY[name] if len(operands) == 1 else BINARY[name])(*operands))
        total = values[-1].sum()
        return total + (values[len(values) // 2] ** 2).mean()

    return fn


def operands(seed):
    rng = np.random.default_rng(seed)
    return [tx.tensor(rng.uniform(-1.5, 1.5, (3, 3)), dtype=tx.float64) for _ in range(2)]


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(step, min_size=2, max_size=8), st.integers(0, 1000))
def test_every_path_agrees(program, seed):
    report = tx.crosscheck(build(program), *operands(seed), torch=False)
    assert report.ok, f"{program}\n{report}"


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(step, min_size=2, max_size=6), st.integers(0, 1000))
def test_backward_is_linear_in_its_seed_and_adds_up(program, seed):
    fn = build(program)
    a, b = (t.requires_grad_() for t in operands(seed))
    fn(a, b).backward()
    if a.grad is None:
        return
    once = a.grad.numpy().copy()
    root = fn(a, b)
    root.backward(tx.tensor(2.0, dtype=tx.float64), retain_graph=True)
    root.backward(tx.tensor(-0.5, dtype=tx.float64))
    np.testing.assert_allclose(a.grad.numpy(), 2.5 * once, rtol=1e-9, atol=1e-12)


# -- against PyTorch ---------------------------------------------------------------------------

steps = st.lists(st.tuples(st.sampled_from(tuple(KINDS)), st.integers(0, 2**24 - 1)), min_size=1, max_size=12)
modes = st.sampled_from(("tx.enable_grad()", "tx.eager()"))


def run(source: str) -> None:
    """Run a program; if the libraries differ, it is the message."""
    try:
        exec(compile(source, "<random program>", "exec"), {})
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}\n\n{source}") from error


def search(programs: int) -> Callable[[], None]:
    """A test that draws programs until one differs, and shrinks it."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    @settings(
        max_examples=programs,
        deadline=None,
        derandomize=True,
        print_blob=False,
        report_multiple_bugs=False,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(steps, modes)
    def differs(drawn: Any, mode: str) -> None:
        run(drafted(torch, drawn, mode))

    return differs


def test_as_pytorch_has_it(full: bool) -> None:
    search(2000 if full else 60)()


def test_every_in_place_form_is_drawn() -> None:
    text = " ".join(WRITES)
    assert [name for name in (*inplace.FORMS, *writers.FORMS) if f".{name}(" not in text] == []


def test_a_planted_fault_prints_a_program_that_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views that do not see what is written to their base: found, shrunk, and printed as code that runs."""
    monkeypatch.setattr(tx.Tensor, "_derive", lambda self, view: None)
    with pytest.raises(AssertionError) as caught:
        search(300)()
    source = str(caught.value).split("\n\n", 1)[1]
    drawn = source.split("t0 = a * 1.5\n")[1].split("seen[")[0]
    assert len(drawn.splitlines()) <= 4, source
    with pytest.raises(AssertionError, match="PyTorch has"):
        exec(source, {})
    monkeypatch.undo()
    exec(source, {})
