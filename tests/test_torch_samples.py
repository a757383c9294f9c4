"""Our ops against PyTorch's, on the samples that PyTorch ships: values, gradients, second derivatives, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import pytest

import torsh_fx as tx
from conftest import SUMMARY
from torch_differences import BELOW_SHARE, DIFFERENCES, HOMONYMS, LOOSE, NAMES, VALUES_FREE, words
from torch_report import Outcome, markdown, merged, summary
from torch_samples import BRIEF, CI, FULL, Tier, entry_name, ours, run_errors, run_op, split_by_presence
from torch_values import MISSING, compare, op_db

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING or "PyTorch's samples are there")

# PyTorch's names of the contract's ops: every sample must pass.
CONTRACT = words(
    """
    abs acos add all amax amin any argmax argmin asin atan cat clamp clone cos cosh div exp expand flip
    floor_divide gather log log10 log2 log_softmax matmul maximum mean minimum mul narrow neg nn.functional.gelu
    nn.functional.leaky_relu nn.functional.relu permute pow rand randint randn randperm reciprocal remainder
    reshape rsqrt select sigmoid sin sinh softmax sqrt stack sub sum tan tanh where
    """
)
SHARE = 0.99  # of the samples of any other op

PRESENT, ABSENT = split_by_presence()


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Iterator[list[Outcome]]:
    """What became of every op, printed at the end."""
    found: list[Outcome] = []
    yield found
    request.config.stash[SUMMARY] += ["PyTorch's samples", *summary(found, ABSENT)]


@pytest.fixture
def tier(request: pytest.FixtureRequest, full: bool) -> Iterator[Tier]:
    """Beside the contract's ops there are ten times as many samples: all of them run with --full only."""
    if not full:
        yield CI if request.node.callspec.params["op"].name in CONTRACT else BRIEF
        return
    yield FULL
    tx.clear_cache()  # of programs that no other op has
    jax.clear_caches()


@pytest.mark.parametrize("op", PRESENT, ids=entry_name)
def test_samples(op: Any, tier: Tier, outcomes: list[Outcome]) -> None:
    outcome = run_op(op, tier)
    outcomes.append(outcome)
    assert not outcome.failures, "\n".join([f"{len(outcome.failures)} samples", *outcome.failures[:20]])
    if tier is not BRIEF:
        share = 1.0 if op.name in CONTRACT else SHARE
        enough = outcome.samples >= share * outcome.total
        assert enough != (outcome.name in BELOW_SHARE), f"{outcome.samples} of {outcome.total}: {outcome.notes()}"


@pytest.mark.parametrize("op", [op for op in PRESENT if op.error_inputs_func is not None], ids=entry_name)
def test_errors(op: Any, tier: Tier, outcomes: list[Outcome]) -> None:
    outcome = run_errors(op, tier)
    outcomes.append(outcome)
    assert not outcome.failures, "\n".join(outcome.failures[:20])


def test_lists_name_ops_of_pytorch() -> None:
    """A name that PyTorch does not have would excuse nothing, or demand nothing."""
    names = {op.name for op in op_db}
    assert {d.op for d in DIFFERENCES} <= names | {entry_name(op) for op in op_db} | {"BinaryUfuncInfo"}
    assert {*NAMES, *HOMONYMS, *VALUES_FREE, *LOOSE} <= names | {entry_name(op) for op in op_db}
    missing = CONTRACT - {op.name for op in PRESENT}
    assert missing == {"rand", "randperm"}, "PyTorch ships no samples of these two alone"


def test_a_wrong_op_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself: a function with another value, another gradient, or no error does not pass."""
    import torch

    (op,) = (op for op in op_db if op.name == "sin")
    wrong = {
        "forward": tx.cos,
        "gradient": lambda x: tx.sin(x) + (x - x.detach()),
        "double backward": lambda x: tx.sin(x) + 0.5 * (x - x.detach()) ** 2,
    }
    for law, function in wrong.items():
        monkeypatch.setitem(NAMES, "sin", function)
        assert ours(op) is function
        outcome = run_op(op, CI)
        assert outcome.failures
        assert all(f"[{law}]" in failure for failure in outcome.failures)
    (narrow,) = (op for op in op_db if op.name == "narrow")
    monkeypatch.setitem(NAMES, "narrow", lambda x, *_: x)
    assert run_errors(narrow, CI).failures
    with pytest.raises(AssertionError, match="dtype"):
        compare("forward", tx.zeros(2), torch.zeros(2, dtype=torch.float64))


def test_reports() -> None:
    """Both reports name ops, counts and reasons."""
    outcome = Outcome("sin")
    outcome.samples, outcome.refused = 3, 1
    outcome.differs["rounds"] = ["float64 #1"]
    assert [o.total for o in merged([outcome, outcome])] == [8]
    text = "\n".join(summary([outcome], ["cholesky"]))
    assert "1 ops, 3 of 4 samples passed, 1 wrong calls refused" in text
    assert "sin: 1 differ: rounds" in text
    page = markdown([outcome], ["cholesky"])
    assert "| `sin` | 3 | 4 |" in page
    assert "Absent: `cholesky`" in page
