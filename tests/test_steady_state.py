"""Loops as people write them: one known program a step, right numbers in it, and nothing that grows."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import torsh_fx as tx
from torsh_fx import liveness, trail
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


class Model:
    """A small regression; ``step`` is what a user writes, kind by kind."""

    def __init__(self, kind: str) -> None:
        rng = np.random.default_rng(0)
        shapes = [(4, 8), (8,), (8, 3), (3,)]
        self.params = [tx.tensor(rng.standard_normal(s).astype(np.float32) * 0.5, requires_grad=True) for s in shapes]
        self.first = [tx.zeros(s) for s in shapes]
        self.second = [tx.zeros(s) for s in shapes]
        self.kind, self.t, self.rng = kind, 0, rng

    def loss(self) -> tx.Tensor:
        w1, b1, w2, b2 = self.params
        x = tx.tensor(self.rng.standard_normal((5, 4)).astype(np.float32))
        return ((tx.tanh(x @ w1 + b1) @ w2 + b2) ** 2).mean()

    def step(self) -> tx.Tensor:
        self.t += 1
        for p in self.params:
            p.grad = None
        if self.kind == "accumulation":
            (self.loss() / 2.0).backward()
            loss = self.loss() / 2.0
        else:
            loss = self.loss()
        loss.backward()
        with tx.no_grad():
            getattr(self, f"_{self.kind}", self._sgd)()
        return loss

    def _sgd(self) -> None:
        for p in self.params:
            p -= 0.1 / self.t * p.grad

    def _groups(self) -> None:
        for rate, group in ((0.1 / self.t, self.params[:2]), (0.01 * self.t, self.params[2:])):
            for p in group:
                p.sub_(rate * (p.grad + 1e-4 * self.t * p))

    def _momentum(self) -> None:
        for p, m in zip(self.params, self.first, strict=True):
            m.mul_(0.9).add_(p.grad)
            p -= 0.01 * m

    def _adam(self) -> None:
        fix1, fix2 = 1 - 0.9**self.t, 1 - 0.99**self.t
        for p, m, v in zip(self.params, self.first, self.second, strict=True):
            m.mul_(0.9).add_(p.grad, alpha=0.1)
            v.mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
            p.addcdiv_(m / fix1, tx.sqrt(v / fix2) + 1e-8, value=-0.01)

    def _clipping(self) -> None:
        norm = tx.sqrt(sum(((p.grad * p.grad).sum() for p in self.params), tx.zeros(())))
        scale = tx.clamp(1.0 / (norm + 1e-6), max=1.0)  # stays on the device
        for p in self.params:
            p -= 0.1 * scale * p.grad


KINDS = ("sgd", "groups", "momentum", "adam", "clipping", "accumulation")


class TestOneProgramAStep:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("every", [1, 10, 0])
    def test_from_the_third_step_on(self, kind: str, every: int):
        model = Model(kind)

        def steps(n: int) -> None:
            for k in range(n):
                loss = model.step()
                if every and k % every == every - 1:
                    assert np.isfinite(loss.item())

        steps(2)
        got = count(lambda: steps(10))
        backwards = 2 if kind == "accumulation" else 1
        assert got["misses"] == got["xla programs compiled"] == 0
        assert got["programs run"] == 10 * backwards
        assert all(np.isfinite(p.detach().numpy()).all() for p in model.params)

    def test_an_evaluation_between_is_one_more(self):
        model = Model("sgd")

        def both() -> None:
            model.step()
            with tx.no_grad():
                assert model.loss().item() > 0

        for _ in range(2):
            both()
        got = count(lambda: [both() for _ in range(4)])
        assert (got["programs run"], got["misses"]) == (8, 0)

    @pytest.mark.parametrize("reads", [0, 1, 3])
    def test_k_reads_are_k_more_programs_at_most(self, reads: int):
        w = tx.tensor(np.eye(3, dtype=np.float32), requires_grad=True)

        def step() -> None:
            x, w.grad = tx.ones(2, 3), None
            for _ in range(reads):
                x = tx.tanh(x @ w)
                assert np.isfinite(x.sum().item())
            ((x @ w) ** 2).sum().backward()
            with tx.no_grad():
                w.sub_(0.01 * w.grad)

        for _ in range(2):
            step()
        got = count(step)
        assert got["misses"] == 0
        assert got["programs run"] <= reads + 1

    def test_whoever_keeps_results_makes_no_program_each_time(self):
        model, kept = Model("sgd"), []
        notebook: dict[str, Any] = {}

        def step(k: int) -> None:
            loss = model.step()
            kept.append(loss)
            notebook["_"], notebook["__"] = loss, notebook.get("_")
            try:
                raise ValueError(k)
            except ValueError as error:
                notebook["traceback"] = error.__traceback__

        for k in range(3):
            step(k)
        assert count(lambda: [step(k) for k in range(10)])["misses"] == 0
        assert len({loss.item() for loss in kept}) == len(kept)

    def test_holders_that_are_others_each_time_make_few_programs(self):
        rng, x = np.random.default_rng(0), tx.ones(4)

        def step(rate: float) -> None:
            parts = [x * (rate + k) for k in range(7)]
            total = parts[0]
            for p in parts[1:]:
                total = total + p
            kept = [(k, p) for k, p in enumerate(parts) if rng.random() < 0.5]
            del parts, p
            assert total.sum().item() == pytest.approx(4 * (7 * rate + 21))
            for k, p in kept:
                assert p[0].item() == pytest.approx(rate + k)

        step(0.5)
        before = tx.stats()["xla programs compiled"]
        for k in range(60):
            step(0.01 * k)
        assert tx.stats()["xla programs compiled"] - before <= 12


class TestNeverRead:
    @pytest.mark.parametrize("period", [7, 13])
    def test_neither_grows_nor_compiles_anew(self, period: int, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(trail, "CAP", 150)
        tx.clear_cache()
        state, expected, refs = tx.zeros(3), np.zeros(3), []

        def rounds(n: int) -> None:
            nonlocal state, expected
            for k in range(n):
                fresh = np.full(3, k / n, np.float32)
                x = tx.tensor(fresh)
                for _ in range(period - 2):
                    state = state * 0.5
                    expected = expected * 0.5
                state = tx.sin(state + x)
                expected = np.sin(expected + fresh)
                refs.append(weakref.ref(state._node))

        rounds(200)
        gc.collect()
        objects = len(gc.get_objects())
        got = count(lambda: rounds(300))
        assert got["misses"] == 0
        assert got["programs run"] >= 5
        gc.collect()
        assert len(gc.get_objects()) < objects + 40 * 150  # a trail that is not run yet, at most
        assert sum(r() is not None for r in refs) < 2 * 150
        np.testing.assert_allclose(state.numpy(), expected, rtol=1e-4)

    def test_data_does_not_pile_up(self, monkeypatch: pytest.MonkeyPatch):
        for module in (trail, liveness):
            monkeypatch.setattr(module, "LIMIT", 1 << 16)
        tx.clear_cache()
        total, w, refs = tx.zeros(()), tx.ones(32, 32), []

        def rounds(n: int) -> None:
            nonlocal total
            for _ in range(n):
                x = tx.tensor(np.ones((32, 32), np.float32))
                refs.append(weakref.ref(x._node))
                total = total + (x @ w).mean()

        rounds(100)
        assert sum(r() is not None for r in refs) < 50
        assert count(lambda: rounds(200))["misses"] == 0
        assert total.item() == pytest.approx(300 * 32)


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
