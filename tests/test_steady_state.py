"""Loops as people write them: one known program a step, right numbers in it, and nothing that grows."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torsh_fx as tx
from torsh_fx import liveness, trail


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    tx.clear_cache()


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
