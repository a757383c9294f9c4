"""What runs and when: programs per step, keys without numbers, cuts, failures."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    tx.clear_cache()  # else what other tests compiled decides what is worth compiling here


def count(fn: Callable[[], object]) -> dict[str, int]:
    before = tx.stats()
    fn()
    return {k: v - before[k] for k, v in tx.stats().items()}


def parameters() -> list[tx.Tensor]:
    w = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    return [tx.tensor(w, requires_grad=True), tx.zeros(3, requires_grad=True)]


def step(params: list[tx.Tensor], rate: float, read: Callable[[tx.Tensor], object] = lambda loss: None) -> tx.Tensor:
    w, b = params
    x = tx.tensor(np.arange(8, dtype=np.float32).reshape(2, 4) * rate)
    loss = ((x @ w + b) ** 2).mean()
    read(loss)
    loss.backward()
    with tx.no_grad():
        for p in params:
            p -= rate * p.grad
            p.grad = None
    return loss


class TestSteadyState:
    def test_a_step_read_after_the_update_is_one_known_program(self):
        params = parameters()
        for k in range(3):
            step(params, 0.1 / (k + 1)).item()
        got = count(lambda: [step(params, 0.01 * k).item() for k in range(5)])
        assert got == {"programs run": 5, "hits": 5, "misses": 0, "xla programs compiled": 0}

    def test_a_step_that_is_never_read_is_one_program(self):
        params = parameters()
        for _ in range(3):
            step(params, 0.1)
        got = count(lambda: [step(params, 0.01 * k) for k in range(5)])
        assert got["programs run"] == 5
        assert got["misses"] == 0

    def test_k_reads_make_at_most_k_plus_one_programs(self):
        params = parameters()
        for _ in range(3):
            step(params, 0.1, lambda loss: loss.item())
        got = count(lambda: step(params, 0.1, lambda loss: loss.item()))
        assert got["programs run"] <= 2
        assert got["misses"] == 0

    def test_a_kept_loss_makes_no_new_program(self):
        params, kept = parameters(), []
        for _ in range(3):
            kept.append(step(params, 0.1))
        got = count(lambda: [kept.append(step(params, 0.1)) for _ in range(4)])
        assert got["misses"] == 0
        assert all(np.isfinite(loss.item()) for loss in kept)

    def test_the_loop_computes_what_numpy_computes(self):
        params = parameters()
        w, b = (p.detach().numpy().astype(np.float64) for p in params)
        for k in range(4):
            rate = 0.01 * (k + 1)
            x = np.arange(8).reshape(2, 4) * rate
            y = x @ w + b
            g = 2 * y / y.size
            w, b = w - rate * (x.T @ g), b - rate * g.sum(0)
            step(params, rate)
        np.testing.assert_allclose(params[0].detach().numpy(), w, rtol=1e-5)
        np.testing.assert_allclose(params[1].detach().numpy(), b, rtol=1e-5)


class TestForwardOnce:
    def test_a_read_before_backward_does_not_run_forward_twice(self):
        calls = []

        def noisy(x: jax.Array) -> jax.Array:
            def host(v: np.ndarray) -> np.ndarray:
                calls.append(1)
                return v

            return jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

        op = tx.custom_op("noisy", noisy)
        op.register_vjp(lambda g, x: g * x)
        x = tx.tensor([1.0, 2.0], requires_grad=True)
        h = op(x * 2)
        loss = (tx.exp(h) * h).sum()
        loss.item()
        loss.backward()
        assert np.isfinite(x.grad.numpy()).all()
        assert len(calls) == 1

    def test_two_readers_of_a_dropped_intermediate_share_it(self):
        calls = []

        def noisy(x: jax.Array) -> jax.Array:
            return jax.pure_callback(lambda v: (calls.append(1), v)[1], jax.ShapeDtypeStruct(x.shape, x.dtype), x)

        h = tx.custom_op("noisy", noisy)(tx.ones(2))
        a, b = h + 1, h * 3
        del h
        assert a.tolist() == [2.0, 2.0]
        assert b.tolist() == [3.0, 3.0]
        assert len(calls) == 1


class TestNoBakedInNumbers:
    def test_floats_clamps_slopes_and_fills(self):
        x = tx.tensor([-2.0, 0.5, 3.0])

        def run(v: float) -> list[list[float]]:
            return [
                (x * v + v).tolist(),
                tx.clamp(x, min=-v, max=v).tolist(),
                tx.functional.leaky_relu(x, v).tolist(),
                tx.full((2,), v).tolist(),
            ]

        run(0.25)
        out: list[list[list[float]]] = []
        assert count(lambda: out.append(run(0.75)))["misses"] == 0
        np.testing.assert_allclose(out[0][0], [-0.75, 1.125, 3.0])
        np.testing.assert_allclose(out[0][1], [-0.75, 0.5, 0.75])
        np.testing.assert_allclose(out[0][2], [-1.5, 0.5, 3.0])
        assert out[0][3] == [0.75, 0.75]

    def test_integer_starts_and_indices(self):
        x = tx.arange(100).float()
        assert x[3:7].tolist() == [3.0, 4.0, 5.0, 6.0]
        assert x[5].item() == 5.0
        out: list[object] = []

        def read() -> None:
            out.extend(x[9 * k : 9 * k + 4].sum().item() for k in range(10))
            out.extend(x[k].item() for k in range(9))

        got = count(read)
        assert got["misses"] <= 1  # the sum of a slice is the one new program
        assert out[:3] == [6.0, 42.0, 78.0]
        assert out[-1] == 8.0

    def test_an_exponent_is_static_until_a_second_one_comes(self):
        x = tx.tensor([1.5, 2.0], requires_grad=True)

        def power(n: float) -> tuple[str, list[float]]:
            x.grad = None
            y = x**n
            name = y.grad_fn.name()
            y.sum().backward()
            return name, x.grad.tolist()

        name, _ = power(2.5)
        assert name == "pow(exponent=2.5)"
        power(2.75)
        out: list[tuple[str, list[float]]] = []
        assert count(lambda: out.append(power(3.25)))["misses"] == 0
        np.testing.assert_allclose(out[0][1], 3.25 * np.array([1.5, 2.0]) ** 2.25, rtol=1e-5)

    def test_shapes_do_recompile(self):
        tx.ones(3).sum().item()
        assert count(lambda: (tx.ones(7) * 2.5).sum().item())["misses"] == 1

    def test_precision_is_what_it_was_when_recorded(self):
        a = tx.ones(4, 4)
        with jax.default_matmul_precision("bfloat16"):
            low = a @ a
        high = a @ a
        assert low._node.call is not high._node.call
        assert dict(low._node.call.static)["precision"] == "bfloat16"
        assert dict(high._node.call.static)["precision"] == "highest"


class TestCuts:
    def test_a_loop_that_never_reads_does_not_grow(self):
        s = tx.zeros(2)
        nodes = []
        for k in range(7000):
            s = s * 0.5 + 1.0
            if k % 500 == 0:
                nodes.append(weakref.ref(s._node))
        gc.collect()
        assert sum(r() is not None for r in nodes) < 10
        assert s.tolist() == [2.0, 2.0]

    def test_a_read_runs_all_that_is_held_in_one_program(self):
        x = tx.tensor([1.0])
        a, b = x + 1, x * 5
        (x * 7).exp()  # nobody can read this
        got = count(lambda: (a.item(), b.item()))
        assert got["programs run"] == 1
        assert (a.item(), b.item()) == (2.0, 5.0)

    def test_what_nobody_can_read_is_not_computed(self):
        calls = []

        def noisy(x: jax.Array) -> jax.Array:
            return jax.pure_callback(lambda v: (calls.append(1), v)[1], jax.ShapeDtypeStruct(x.shape, x.dtype), x)

        x = tx.tensor([1.0])
        y = x + 1
        tx.custom_op("noisy", noisy)(y) * 3
        assert y.item() == 2.0
        assert calls == []

    def test_a_frozen_history_is_let_go(self):
        x = tx.tensor([1.0], requires_grad=True)
        y = x * 2
        ref = weakref.ref(y._node)
        y.sum().backward()
        del y
        gc.collect()
        assert ref() is None

    def test_deep_graphs_are_freed_without_recursion(self):
        x = tx.tensor([1.0], requires_grad=True)
        y = x
        for _ in range(2500):
            y = y + 1.0
        del y
        gc.collect()


class TestErrorsComeAtTheCall:
    def test_shapes_and_dtypes(self):
        a, b = tx.zeros(2, 3), tx.zeros(2)
        with pytest.raises(tx.ShapeMismatchError, match=r"\[add\].*\[2, 3\].*\[2\]"):
            a + b
        with pytest.raises(tx.ArgumentTypeError, match=r"\[matmul\]"):
            a @ tx.zeros(3, 2, dtype=tx.float64)

    def test_a_pending_index_is_checked_by_the_program_that_uses_it(self):
        x = tx.tensor([1.0, 2.0, 3.0], requires_grad=True)
        index = tx.tensor([0, 1]) + 2  # pending: 2 and 3
        y = tx.gather(x, 0, index)
        other = x * 2
        with pytest.raises(tx.OutOfRangeError, match=r"index 3.*extent 3.*test_executor\.py:\d+"):
            y.sum().backward()
        assert x.grad is None
        assert other.tolist() == [2.0, 4.0, 6.0]
        (x * 2).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0, 2.0]
        good = tx.gather(x, 0, tx.tensor([0, 0]) + 2)
        assert good.tolist() == [3.0, 3.0]

    def test_an_error_while_tracing_poisons_nothing(self):
        def broken(x: jax.Array) -> jax.Array:
            if isinstance(x, jax.core.Tracer) and broken.armed:
                raise ValueError("broken")
            return x + 1

        broken.armed = False
        op = tx.custom_op("broken", broken)
        x = tx.tensor([1.0])
        y = op(x)
        broken.armed = True
        with pytest.raises(ValueError, match="broken"):
            y.item()
        broken.armed = False
        assert y.item() == 2.0


class TestThreads:
    def test_own_graphs_do_not_disturb_each_other(self):
        out: dict[int, list[float]] = {}

        def work(n: int) -> None:
            for _ in range(10):
                x = tx.tensor([1.0, 2.0], requires_grad=True)
                (x * float(n) * x).sum().backward()
                out[n] = x.grad.tolist()

        threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert out == {n: [2.0 * n, 4.0 * n] for n in range(1, 5)}

    def test_a_shared_pending_value_read_by_many(self):
        x = tx.ones(50)
        y = ((x * 2 + 1) * x).sum()
        got: list[float] = []
        threads = [threading.Thread(target=lambda: got.append(y.item())) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert got == [150.0] * 6

    def test_no_grad_belongs_to_its_thread(self):
        x = tx.tensor([1.0], requires_grad=True)
        seen: list[bool] = []
        with tx.no_grad():
            t = threading.Thread(target=lambda: seen.append((x * 2).requires_grad))
            t.start()
            t.join()
            seen.append((x * 2).requires_grad)
        assert seen == [True, False]


class TestEager:
    def test_the_switch_computes_at_once(self):
        x = tx.tensor([1.0, 2.0], requires_grad=True)
        with tx.eager():
            y = x * x
            assert y._node.value is not None
            y.sum().backward()
        assert x.grad.tolist() == [2.0, 4.0]


def test_float64_and_int64_are_real_with_the_flag_off():
    assert not jax.config.jax_enable_x64
    x = tx.tensor([1.0, 1e-12], dtype=tx.float64) + 1.0
    assert x.numpy()[1] - 1.0 == pytest.approx(1e-12, rel=1e-3)
    big = tx.tensor([2**40]) + 1
    assert big.item() == 2**40 + 1
    assert jnp.ones(2).dtype == jnp.float32  # outside, the user's flag holds
