"""The cross-check: agreement is shown, disagreement is found, conventions are told apart."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx


def paths(report):
    return {r.path: r.verdict for r in report.rows}


def test_all_paths_agree_and_the_table_says_so():
    rng = np.random.default_rng(0)
    a, b = tx.tensor(rng.normal(size=(3, 4)).astype("f")), tx.tensor(rng.normal(size=(4, 2)).astype("f"))
    report = tx.crosscheck(lambda a, b: tx.tanh(a @ b), a, b, reference=lambda a, b: jnp.tanh(a @ b))
    assert report.ok
    assert report.raise_if_failed() is report
    assert {"tx.grad", "replay", "differences", "reference", "PyTorch"} == set(paths(report))
    text = str(report)
    assert "max abs" in text
    assert "DIFFERS" not in text
    assert {r.input for r in report.rows if r.path == "replay"} == {0, 1}


def test_a_wrong_derivative_is_found_and_located():
    op = tx.custom_op("wrong", lambda x: x**3)
    op.register_vjp(lambda g, x: g * jnp.where(jnp.arange(3) == 2, 0.0, 3 * x**2))
    report = tx.crosscheck(lambda x: op(x).sum(), tx.tensor([1.0, 2.0, 3.0]))
    assert not report.ok
    row = next(r for r in report.rows if r.path == "differences")
    assert row.verdict == "DIFFERS"
    assert row.where == (2,)
    assert row.max_abs == pytest.approx(27.0, rel=1e-3)
    with pytest.raises(tx.AutogradError, match="DIFFERS"):
        report.raise_if_failed()
    with pytest.raises(tx.AutogradError, match="disagree"):
        tx.crosscheck(lambda x: op(x).sum(), tx.tensor([1.0, 2.0, 3.0]), raise_on_failure=True)


def test_a_wrong_reference_is_found():
    report = tx.crosscheck(lambda x: (x * x).sum(), tx.tensor([1.0, 2.0]), reference=lambda x: (x * x * x).sum())
    assert paths(report)["reference"] == "DIFFERS"
    assert paths(report)["replay"] == "ok"


@pytest.mark.parametrize(
    ("ours", "theirs", "at"),
    [
        (lambda x: x.abs(), jnp.abs, 0.0),
        (lambda x: x.clamp(min=0.0, max=1.0), lambda x: jnp.clip(x, 0.0, 1.0), 1.0),
        (lambda x: tx.maximum(x, x.detach() * 0 + 2.0), lambda x: jnp.where(x > 2.0, x, 2.0), 2.0),
    ],
    ids=["abs", "clamp", "tie"],
)
def test_conventions_at_a_kink_are_not_failures(ours, theirs, at):
    report = tx.crosscheck(lambda x: ours(x).sum(), tx.tensor([at, 0.5]), reference=lambda x: theirs(x).sum())
    assert report.ok
    assert "convention" in paths(report)["reference"]
    assert "kink" in str(report)


def test_random_functions_draw_the_same_numbers_on_every_path():
    report = tx.crosscheck(lambda x: (x * tx.rand(3) * tx.randn(3)).sum(), tx.tensor([1.0, 2.0, 3.0]))
    assert report.ok
    before = tx.default_generator.get_state()
    tx.crosscheck(lambda x: (x * tx.rand(3)).sum(), tx.tensor([1.0, 2.0, 3.0]))
    assert tx.default_generator.get_state() == before


def test_captured_float32_tensors_are_widened_for_differences():
    w = tx.tensor([[1.0, 2.0], [3.0, 4.0]])
    report = tx.crosscheck(lambda x: ((x @ w).float() ** 2).sum(), tx.tensor([0.1, 0.2]))
    assert paths(report)["differences"] == "ok"


def test_what_was_detached_is_held_still_by_differences():
    def fn(x):
        with tx.no_grad():
            c = x * 2
        return (x.detach() * x * c).sum()

    report = tx.crosscheck(fn, tx.tensor([1.0, 2.0]), torch=False)
    assert report.ok
    np.testing.assert_allclose(report.gradients["differences"][0], [2.0, 8.0], rtol=1e-6)


def test_integers_ride_along_and_arrays_are_taken():
    report = tx.crosscheck(lambda x, i: x[i].sum(), np.array([1.0, 2.0, 3.0]), tx.tensor([0, 2, 2]))
    assert report.ok
    np.testing.assert_allclose(report.gradients["backward()"][0], [1.0, 0.0, 2.0])
    with pytest.raises(tx.ArgumentTypeError, match="floating"):
        tx.crosscheck(lambda i: i.sum(), tx.tensor([1, 2]))


def test_float64_and_half_types():
    for dtype in (tx.float64, tx.bfloat16, tx.float16):
        x = tx.tensor([0.5, 1.5]).to(dtype)
        assert tx.crosscheck(lambda x: (tx.sin(x) * x).sum(), x).ok


def test_what_was_passed_in_is_left_alone():
    x = tx.tensor([1.0, 2.0], requires_grad=True)
    tx.crosscheck(lambda x: (x * x).sum(), x)
    assert x.grad is None


def test_pytorch_takes_part_where_it_runs():
    pytest.importorskip("torch", reason="PyTorch is not installed (extra: torch)")
    report = tx.crosscheck(lambda x: (x.tanh() * x).sum(), tx.tensor([1.0, 2.0]))
    assert paths(report)["PyTorch"] == "ok"
    report = tx.crosscheck(lambda x: tx.tanh(x).sum(), tx.tensor([1.0, 2.0]))
    assert paths(report)["PyTorch"].startswith("skipped")
