"""After a failure everything is as it was before, or as it is after, and the next call works."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import torsh_fx as tx
from interrupts import Interrupt
from torsh_fx.programs import CACHE


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    tx.clear_cache()


X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


class Training:
    """A step with a deferred index check, a read, accumulation and momentum; NumPy knows what it does."""

    def __init__(self) -> None:
        w = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
        self.params = [tx.tensor(w, requires_grad=True), tx.tensor(np.full(3, 0.5, np.float32), requires_grad=True)]
        self.velocity = [tx.zeros(4, 3), tx.zeros(3)]

    def step(self, rate: float) -> float:
        (w, b), x = self.params, tx.tensor(X)
        rows = tx.tensor([0, 1]) * 1  # pending, so checked by the program
        loss = ((tx.index_select(x, 0, rows) @ w * rate + b) ** 2).mean()
        value = loss.item()
        loss.backward()
        (((x @ w) * b).sum() * rate).backward()
        with tx.no_grad():
            for p, m in zip(self.params, self.velocity, strict=True):
                m.mul_(0.9).add_(p.grad)
                p -= rate * m
            for p in self.params:
                p.grad = None
        return float(value)

    def values(self) -> list[np.ndarray[Any, Any]]:
        return [t.detach().numpy().astype(np.float64) for t in (*self.params, *self.velocity)]

    @staticmethod
    def by_numpy(values: list[Any], rate: float) -> tuple[float, list[list[Any]], list[list[Any]]]:
        """The loss; per parameter the gradients there may be, per value what it may be on the way."""
        w, b, mw, mb = values
        x = X.astype(np.float64)
        y = x @ w * rate + b
        g = 2 * y / y.size
        first = [x.T @ g * rate, g.sum(0)]
        both = [first[0] + x.T @ np.broadcast_to(b, (2, 3)) * rate, first[1] + (x @ w).sum(0) * rate]
        mw2, mb2 = mw * 0.9 + both[0], mb * 0.9 + both[1]
        ways = [[w, w - rate * mw2], [b, b - rate * mb2], [mw, mw * 0.9, mw2], [mb, mb * 0.9, mb2]]
        return float((y**2).mean()), [list(pair) for pair in zip(first, both, strict=True)], ways


def one_of(got: Any, ways: list[Any]) -> int:
    found = [k for k, way in enumerate(ways) if np.allclose(got, way, atol=1e-5)]
    assert found, f"{got} is none of {ways}"
    return found[0]


class TestCtrlC:
    @pytest.mark.parametrize("known", [True, False])
    def test_at_any_moment_of_a_step(self, known: bool):
        """Every few moments of a step, a new one each time."""
        training, rate, n, stride = Training(), 0.3, 7, 97 if known else 401
        for _ in range(4):
            training.step(rate)
        ended = False
        while not ended:
            if not known:
                tx.clear_cache()
            rate = 0.3 + 0.01 * (n % 7)
            for p in training.params:
                p.grad = None
            before = training.values()
            with pytest.raises(KeyboardInterrupt) if not ended else Interrupt(0), Interrupt(n) as interrupt:
                training.step(rate)
                ended = interrupt.where is None
                if ended:
                    raise KeyboardInterrupt
            _, gradients, ways = training.by_numpy(before, rate)
            assert tx.is_grad_enabled(), interrupt.where
            for value, way in zip(training.values(), ways, strict=True):
                one_of(value, way)
            shown = [p.grad for p in training.params]
            times = {one_of(g.numpy(), way) for g, way in zip(shown, gradients, strict=True) if g is not None}
            assert len(times) <= 1, f"gradients of two backwards after {interrupt.where}"
            for p in training.params:
                p.grad = None
            before = training.values()
            loss, _, ways = training.by_numpy(before, 0.2)
            assert training.step(0.2) == pytest.approx(loss, rel=1e-4), interrupt.where
            for value, way in zip(training.values(), ways, strict=True):
                np.testing.assert_allclose(value, way[-1], atol=1e-5, err_msg=str(interrupt.where))
            n += stride
        assert n > 10 * stride

    def test_a_signal_while_the_first_program_is_compiled(self):
        tx.clear_cache()  # after many programs that did not come back a new one would not be compiled at all
        p = tx.tensor(np.ones(16, np.float32), requires_grad=True)
        (p.detach() * 1.0).sum().item()
        with tx.no_grad():
            p.mul_(1.0)
        p.detach().sum().item()
        armed = [True]

        def strike(*event: Any, **more: Any) -> None:
            if armed and "backend_compile" in event[0]:
                armed.clear()
                signal.raise_signal(signal.SIGINT)

        jax.monitoring.register_event_duration_secs_listener(strike)
        outside = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
        try:
            with tx.no_grad():
                p.copy_(tx.cos(p * 0.0) / 2.0)
            with pytest.raises(KeyboardInterrupt):
                p.detach().sum().item()
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        finally:
            armed.clear()
            signal.signal(signal.SIGINT, outside)
        assert p.detach().tolist() == [0.5] * 16

    def test_with_synchronous_dispatch(self):
        env, here = dict(os.environ), os.path.dirname(__file__)
        script = (
            "import sys, jax; jax.config.update('jax_cpu_enable_async_dispatch', False);"
            "sys.path.insert(0, sys.argv[1]);"
            "from test_failures import TestCtrlC; TestCtrlC().test_at_any_moment_of_a_step(True)"
        )
        ran = subprocess.run([sys.executable, "-c", script, here], env=env, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stderr[-2000:]


def callback_op(fail: Callable[[], bool]) -> tx.CustomOp:
    def host(v: Any) -> Any:
        if fail():
            raise RuntimeError("no luck today")
        return v

    op = tx.custom_op("lucky", lambda x: jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x))
    op.register_vjp(lambda g, x: g)
    return op


class TestErrors:
    @pytest.mark.parametrize("mode", ["compiled", "op by op", "eager"])
    def test_a_callback_that_raises(self, mode: str, monkeypatch: pytest.MonkeyPatch):
        if mode == "op by op":
            monkeypatch.setattr(CACHE, "worth_compiling", lambda event, needs: False)
        failing = [False]
        op = callback_op(lambda: failing[0])
        p = tx.tensor([1.0, 2.0], requires_grad=True)

        def step() -> None:
            loss = (op(p * 2.0) * p).sum()
            loss.backward()
            with tx.no_grad():
                p.sub_(0.1 * p.grad)
            p.grad = None

        def run() -> None:
            with tx.eager() if mode == "eager" else contextlib.nullcontext():
                step()

        for _ in range(2):
            run()
        before = p.detach().numpy().copy()
        other = tx.exp(p.detach() * 0.0)
        failing[0] = True
        with pytest.raises(tx.TorshError, match="no luck today"):
            run()
        assert p.grad is None
        assert other.tolist() == [1.0, 1.0]
        np.testing.assert_array_equal(p.detach().numpy(), before)
        failing[0] = False
        run()
        np.testing.assert_allclose(p.detach().numpy(), before - 0.1 * 4 * before, rtol=1e-5)

    def test_an_error_while_a_known_graph_is_traced_again(self):
        broken = [True]

        def fn(x: jax.Array) -> jax.Array:
            if broken[0] and isinstance(x, jax.core.Tracer) and x.shape == (3,) and not aval_only:
                raise ValueError("broken")
            return x * 2

        aval_only = [1]
        op = tx.custom_op("fragile", fn)
        p = tx.ones(3)
        y = op(p) + 1.0
        aval_only.clear()
        for _ in range(2):
            with pytest.raises(ValueError, match="broken"):
                y.tolist()
        broken[0] = False
        assert y.tolist() == [3.0] * 3
        assert (op(p) + 1.0).tolist() == [3.0] * 3

    def test_a_failed_index_check_keeps_what_an_update_overwrites(self):
        p = tx.tensor(np.arange(4.0, dtype=np.float32), requires_grad=True)
        for good in (True, True, False, True):
            index = tx.tensor([1, 3]) + (0 if good else 5)
            before = p.detach().numpy().copy()
            p.grad = None
            loss = tx.gather(p, 0, index).sum()
            if not good:
                with pytest.raises(tx.OutOfRangeError, match="index 6"):
                    loss.backward()
                assert p.grad is None
            else:
                loss.backward()
                with tx.no_grad():
                    p.sub_(p.grad)
            np.testing.assert_array_equal(p.detach().numpy(), before - np.array([0, 1, 0, 1]) * good)

    def test_memory_that_is_not_there(self):
        p = tx.tensor([1.0, 2.0], requires_grad=True)
        huge = tx.ones(1 << 20, 1).expand(1 << 20, 1 << 26) + p.detach()[0]
        with tx.no_grad():
            p.mul_(2.0)
        with pytest.raises(tx.TorshError, match=r"(?i)memory|allocat|exhausted"):
            huge.jax()
        del huge
        assert p.detach().tolist() == [2.0, 4.0]
        (p * p).sum().backward()
        assert p.grad.tolist() == [4.0, 8.0]

    def test_pending_values_of_other_threads_are_checked_as_their_own(self):
        x, out = tx.tensor([1.0, 2.0, 3.0, 4.0]), []

        def elsewhere(t: tx.Tensor) -> Any:
            def read() -> None:
                try:
                    out.append(t.tolist())
                except tx.OutOfRangeError as error:
                    out.append(str(error))

            thread = threading.Thread(target=read)
            thread.start()
            thread.join()
            return out.pop()

        for k in range(2):
            assert elsewhere(tx.gather(x, 0, tx.tensor([0, k])) * 1.0) == [1.0, k + 1.0]
            assert elsewhere(tx.gather(x, 0, tx.tensor([0, k]) + 0) * 1.0) == [1.0, k + 1.0]
            assert "out of range" in elsewhere(tx.gather(x, 0, tx.tensor([0, k]) + 4) * 1.0)
        with pytest.raises(tx.OutOfRangeError):  # it was called here, so it is told here as well
            tx.clear_cache()


class TestThreads:
    def test_recording_running_and_reading_each_others_tensors(self):
        shared: list[tx.Tensor] = [tx.tensor(np.full(8, k, np.float32)) for k in range(4)]
        known = [float(k) for k in range(4)]
        errors: list[BaseException] = []

        def work(seed: int) -> None:
            rng = np.random.default_rng(seed)
            w = tx.tensor(np.ones(8, np.float32), requires_grad=True)
            try:
                for k in range(60):
                    j = int(rng.integers(4))
                    fresh = shared[j] * 1.0 + 0.0  # pending, for whoever comes next
                    if rng.random() < 0.3:
                        shared[j] = fresh
                    ((w * shared[j].detach()).sum() * 0.5).backward()
                    np.testing.assert_allclose(w.grad.numpy(), 0.5 * known[j])
                    with tx.no_grad():
                        w.sub_(0.0 * w.grad)
                    w.grad = None
                    if k % 20 == seed:
                        tx.clear_cache()
                    if k % 10 == 0:
                        assert "programs run" in str(tx.explain())
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert errors == []
        assert [t[0].item() for t in shared] == known
