"""A known program takes this step's numbers, and what is known of a path answers for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import torsh_fx as tx
from torsh_fx.programs import CACHE


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    tx.clear_cache()


@pytest.fixture(params=["compiled", "op by op"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Programs as a whole, and as in a storm."""
    if request.param == "op by op":
        monkeypatch.setattr(CACHE, "worth_compiling", lambda event, needs: False)
    return str(request.param)


def count(fn: Callable[[], object]) -> dict[str, int]:
    before = tx.stats()
    fn()
    return {k: v - before[k] for k, v in tx.stats().items()}


FLOATS = [0.5, 0.0, -0.0, 1.0, float("inf"), float("-inf"), float("nan"), 1e-30, 3.0, 3.0, float(np.float32(0.1))]


def same(got: Any, expected: Any) -> None:
    got, expected = np.asarray(got), np.asarray(expected)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-30)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


class TestNumbersAreNeverStale:
    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    def test_floats_of_every_kind(self, way: str):
        host = np.array([-2.0, 0.5, 3.0], np.float32)
        x = tx.tensor(host)

        def run(v: float) -> None:
            f = np.float32(v)
            same((x * v).numpy(), host * f)
            same((x + v).numpy(), host + f)
            same((v - x).numpy(), f - host)
            same((x / v).numpy(), host / f)
            same(tx.full((2,), v).numpy(), np.full(2, f))
            same((x * np.float32(v) + v).numpy(), host * f + f)
            same(tx.where(x > 0, x, v).numpy(), np.where(host > 0, host, f))
            if v == v:
                same(tx.clamp(x, min=v).numpy(), np.maximum(host, f))

        run(0.25)
        for v in FLOATS:
            got = count(lambda v=v: run(v))
            assert way == "op by op" or got["misses"] == 0 or v != v
        assert count(lambda: run(2.5))["xla programs compiled"] == 0

    def test_one_true_and_one_point_zero(self, way: str):
        x = tx.tensor([1, 2])
        for _ in range(3):
            for number, dtype in ((1, "int64"), (1.0, "float32"), (True, "int64"), (0, "int64"), (False, "int64")):
                got = x * number
                assert str(got.dtype) == dtype
                assert got.tolist() == [number * 1, number * 2]
            assert (x + 2**53).tolist() == [2**53 + 1, 2**53 + 2]
            assert (x + (2**53 + 1)).tolist() == [2**53 + 2, 2**53 + 3]
            assert (x * -(2**62)).tolist()[0] == -(2**62)

    def test_integers_that_move(self, way: str):
        host = np.arange(40.0, dtype=np.float32).reshape(8, 5)
        x = tx.tensor(host)

        def run(k: int) -> None:
            same(x[k].numpy(), host[k])
            same(x[k : k + 2].numpy(), host[k : k + 2])
            same(tx.narrow(x, 0, k, 3).numpy(), host[k : k + 3])
            same(x[[k, 0, k]].numpy(), host[[k, 0, k]])
            same((x * 1.0 + k).numpy(), host + k)
            same(tx.index_select(x, 0, tx.tensor([k, 1])).numpy(), host[[k, 1]])

        for k in (2, 1, 3):
            run(k)
        got = count(lambda: [run(k) for k in (0, 5, 4, 1)])
        assert got["xla programs compiled"] == 0

    def test_exponents_lists_steps_and_seeds(self, way: str):
        host = np.array([1.5, 2.0, 0.5], np.float32)
        x, whole = tx.tensor(host), tx.tensor([1, 2, 3])

        def run(k: int) -> None:
            same((x ** (1.25 + k)).numpy(), host ** np.float32(1.25 + k))
            assert (whole ** (k + 4)).tolist() == [n ** (k + 4) for n in (1, 2, 3)]
            weights = [0.1 * k, 1.0 + k, -0.5]
            same((x * tx.tensor(weights)).numpy(), host * np.array(weights, np.float32))
            same((x / (1 - 0.9 ** (k + 1))).numpy(), host / np.float32(1 - 0.9 ** (k + 1)))
            tx.manual_seed(k)
            drawn[k] = tx.rand(3).numpy().tobytes()

        drawn: dict[int, bytes] = {}
        for k in range(3):
            run(k)
        first = dict(drawn)
        got = count(lambda: [run(k) for k in (3, 4, 0, 1, 2)])
        assert got["xla programs compiled"] == 0
        assert len(set(drawn.values())) == 5
        assert first.items() <= drawn.items()


class TestKeysOfPaths:
    """What is known at a place of a path must not answer for something else that looks alike."""

    @pytest.fixture(autouse=True)
    def leave_modes(self) -> Iterator[None]:
        dtype = tx.get_default_dtype()
        yield
        tx.set_default_dtype(dtype)

    def test_default_dtype_grad_mode_and_eager(self):
        x, w = tx.tensor([1, 2]), tx.tensor([1.0, 2.0], requires_grad=True)
        for dtype in ("float32", "float64", "float32"):
            tx.set_default_dtype(getattr(tx, dtype))
            assert str((x / 2).dtype) == str((x * 0.5).dtype) == str((x**0.5).dtype) == dtype
            assert (x / 2).tolist() == [0.5, 1.0]
        for _ in range(2):
            assert (w.sum() * 2.0).requires_grad
            with tx.no_grad():
                assert not (w.sum() * 2.0).requires_grad
            with tx.eager():
                assert (w.sum() * 2.0).requires_grad
            assert not (w.detach().sum() * 2.0).requires_grad

    def test_arguments_that_are_equal_but_not_the_same(self):
        x = tx.tensor([[1.0, 2.0], [3.0, 4.0]])
        for _ in range(2):
            assert x.sum((0, 1)).item() == 10.0
            with pytest.raises(tx.ArgumentTypeError):
                x.sum((False, True))
            assert x.sum(1).tolist() == [3.0, 7.0]
            with pytest.raises(tx.ArgumentTypeError):
                x.sum(True)
            with pytest.raises(tx.ArgumentTypeError):
                x.sum(0, 1)
            assert x.sum(0, True).tolist() == [[4.0, 6.0]]

    def test_a_leaf_that_is_switched_off_and_on(self):
        x, seen = tx.tensor([2.0]), []
        for on in (True, False, True, False, True):
            x.requires_grad_(on)
            y = x * x * 3.0
            seen.append(y.requires_grad)
            if on:
                y.sum().backward()
        assert seen == [True, False, True, False, True]
        assert x.grad.tolist() == [36.0]
