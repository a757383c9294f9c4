"""What is alive is kept, what nobody holds does not come out, and nothing grows."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx
from torsh_fx.program import Program


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    tx.clear_cache()


class TestAliveness:
    def test_whatever_holds_it(self):
        x = tx.tensor([1.0, 2.0], requires_grad=True)
        a, b, c, d, e, f = (x * float(k) for k in range(1, 7))
        box: list[Any] = [a]
        box.append(box)  # a cycle
        closure = (lambda held: lambda: held)(b)

        def generate(held: Any) -> Any:
            yield
            yield held

        frame = generate(c)
        next(frame)
        try:
            raise ValueError(d)
        except ValueError as error:
            caught = error
        only_weak = weakref.ref(e)
        node_of_f = weakref.ref(f._node)
        del a, b, c, d, e
        x.sum().item()
        assert box[0].tolist() == [1.0, 2.0]
        assert closure().tolist() == [2.0, 4.0]
        assert next(frame).tolist() == [3.0, 6.0]
        assert caught.args[0].tolist() == [4.0, 8.0]
        assert only_weak() is None
        assert node_of_f().value is not None

    def test_what_nobody_holds_does_not_come_out(self):
        sizes: list[int] = []
        run = Program.run

        def look(program: Program, trail: Any, box: list[Any], traced: bool) -> None:
            run(program, trail, box, traced)
            sizes.append(len(box[0]))

        x = tx.tensor(np.ones((8, 8), np.float32), requires_grad=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Program, "run", look)
            for _ in range(4):
                x.grad = None
                loss = (tx.tanh(tx.tanh(x @ x) @ x) ** 2).sum()
                loss.backward()
                with tx.no_grad():
                    x -= 0.1 * x.grad
        assert sizes[-2:] == [3, 3]  # the loss, the gradient, the parameter


def bytes_of(compiled: Any) -> int:
    m = compiled.memory_analysis()
    return int(m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes - m.alias_size_in_bytes)


class TestPeak:
    def test_a_training_step_is_as_small_as_by_hand(self):
        """A tenth more than a step by hand that donates the parameters and gives the gradients, too."""
        shapes = [(64, 256), (256, 256), (256, 10)]
        rng = np.random.default_rng(0)
        hosts = [rng.standard_normal(s).astype(np.float32) * 0.1 for s in shapes]
        data = rng.standard_normal((128, 64)).astype(np.float32)
        params = [tx.tensor(h, requires_grad=True) for h in hosts]
        ran: list[tuple[Any, Any]] = []
        run = Program.run

        def look(program: Program, trail: Any, box: list[Any], traced: bool) -> None:
            shaped = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in trail.arrays]
            numbers = [
                jax.ShapeDtypeStruct((len(n),), t) if n else None
                for n, t in ((trail.floats, np.float64), (trail.ints, np.int64))
            ]
            taken = ([shaped[k] for k in program.donated], [shaped[k] for k in program.given])
            ran.append((program.segments[0].function, (*taken, *numbers)))
            run(program, trail, box, traced)

        def forward() -> tx.Tensor:
            h = tx.tensor(data)
            for p in params[:-1]:
                h = tx.tanh(h @ p)
            return ((h @ params[-1]) ** 2).mean()

        def step(rate: float) -> None:
            loss = forward()
            for p in params:
                p.grad = None
            loss.backward()
            with tx.no_grad():
                for p in params:
                    p -= rate * p.grad

        for _ in range(3):
            step(0.1)
        gc.collect()
        before = sum(a.nbytes for a in jax.live_arrays())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Program, "run", look)
            step(0.1)
        function, args = ran[-1]
        with jax.enable_x64(True):
            ours = bytes_of(function.lower(*args).compile())
        gc.collect()
        assert sum(a.nbytes for a in jax.live_arrays()) <= before + 4096  # nothing stays behind

        def by_hand(ps: list[Any], x: Any, rate: Any) -> Any:
            def loss(ps: list[Any]) -> Any:
                h = x
                for p in ps[:-1]:
                    h = jnp.tanh(h @ p)
                return jnp.mean((h @ ps[-1]) ** 2)

            value, grads = jax.value_and_grad(loss)(ps)
            return value, grads, [p - rate * g for p, g in zip(ps, grads, strict=True)]

        hand = bytes_of(jax.jit(by_hand, donate_argnums=0).lower(hosts, data, 0.1).compile())
        assert ours <= 1.1 * hand

    def test_thousands_of_tiny_steps_leave_nothing_behind(self):
        w = tx.tensor([0.5, -0.5], requires_grad=True)
        buffer = tx.zeros(2)

        def steps(n: int) -> None:
            for k in range(n):
                x = tx.tensor([1.0, 2.0 + k % 3])
                loss = ((w * x).sum() - 1.0) ** 2
                loss.backward()
                with tx.no_grad():
                    buffer.mul_(0.9).add_(w.grad)
                    w.sub_((0.01 / (k + 1)) * buffer)
                w.grad = None
                if k % 10 == 9:
                    loss.item()

        steps(200)
        gc.collect()
        objects, arrays = len(gc.get_objects()), len(jax.live_arrays())
        before = tx.stats()["misses"]
        steps(2000)
        gc.collect()
        assert tx.stats()["misses"] == before
        assert abs(len(gc.get_objects()) - objects) < 60
        assert abs(len(jax.live_arrays()) - arrays) < 10


class TestVariety:
    def test_caches_and_paths_stay_bounded(self):
        rng, x = np.random.default_rng(0), tx.tensor([0.5, -1.0])
        ops: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
            (tx.tanh, np.tanh), (tx.sin, np.sin), (lambda t: t * 0.5, lambda h: h * 0.5), (tx.abs, np.abs)
        ]  # fmt: skip

        def one(length: int) -> None:
            t, h = x, np.array([0.5, -1.0])
            for k in rng.integers(0, len(ops), length):
                t, h = ops[k][0](t), ops[k][1](h)
            np.testing.assert_allclose(t.numpy(), h, rtol=1e-4, atol=1e-6)

        tx.set_cache_size(8)
        try:
            for _ in range(300):  # until every bounded store is full
                one(int(rng.integers(3, 30)))
            gc.collect()
            objects = len(gc.get_objects())
            before = tx.stats()["xla programs compiled"]
            for _ in range(150):
                one(int(rng.integers(3, 30)))
            gc.collect()
            assert len(gc.get_objects()) < objects + 2000
            assert tx.stats()["xla programs compiled"] - before < 30
            for _ in range(3):  # what was forgotten comes back right
                for n in range(3, 15):
                    rng = np.random.default_rng(n)
                    one(n)
        finally:
            tx.set_cache_size(1024)
