"""``compile``: equal to the loop it came from, never stale, never silent about what a replay would lose."""

from __future__ import annotations

import argparse
import collections
import contextlib
import contextvars
import copy
import functools
import gc
import itertools
import random
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx
from torsh_fx import program, replaying, running
from torsh_fx.graph import leaf

F = tx.nn.functional
RATE = 0.1  # a global that steps name


def count(fn: Callable[[], object]) -> dict[str, int]:
    before = tx.stats()
    fn()
    return {k: v - before[k] for k, v in tx.stats().items()}


def recorded(step: Any) -> int:
    """How often a compiled step was recorded."""
    return int(repr(step).split("recorded ")[1].split(" ")[0])


class Chain:
    """A step that is long."""

    def __init__(self, links: int) -> None:
        self.w = tx.tensor(np.eye(4, dtype=np.float32) * 0.1, requires_grad=True)
        self.links = links

    def step(self, x: tx.Tensor) -> tx.Tensor:
        h = x
        for _ in range(self.links):
            h = h + (h @ self.w).tanh()
        loss = (h * h).mean()
        loss.backward()
        with tx.no_grad():
            self.w -= 0.01 * self.w.grad
        self.w.grad = None
        return loss


class Linear:
    def __init__(self, n: int, m: int) -> None:
        rng = np.random.default_rng(n * 100 + m)
        self.w = tx.tensor(rng.normal(size=(n, m)).astype("float32") * 0.4, requires_grad=True)
        self.b = tx.zeros(m, requires_grad=True)

    def __call__(self, x: tx.Tensor) -> tx.Tensor:
        return x @ self.w + self.b


class Net:
    def __init__(self, *sizes: int) -> None:
        self.layers = [Linear(n, m) for n, m in itertools.pairwise(sizes)]
        self.training = True

    def __call__(self, x: tx.Tensor) -> tx.Tensor:
        for layer in self.layers[:-1]:
            x = layer(x).tanh()
        return self.layers[-1](x)

    def parameters(self) -> list[tx.Tensor]:
        return [p for layer in self.layers for p in (layer.w, layer.b)]


class SGD:
    def __init__(self, params: list[tx.Tensor], rate: float, momentum: float = 0.0) -> None:
        self.params, self.rate, self.momentum = params, rate, momentum
        self.buffers = [tx.zeros_like(p) for p in params]

    def step(self) -> None:
        with tx.no_grad():
            for p, m in zip(self.params, self.buffers, strict=True):
                if self.momentum:
                    m.mul_(self.momentum).add_(p.grad)
                    p -= self.rate * m
                else:
                    p -= self.rate * p.grad

    def zero_grad(self) -> None:
        for p in self.params:
            p.grad = None


class Adam:
    """With its step count as a Tensor, or as a number of Python's."""

    def __init__(self, params: list[tx.Tensor], rate: float, count: Any) -> None:
        self.params, self.rate, self.count = params, rate, count
        self.m = [tx.zeros_like(p) for p in params]
        self.v = [tx.zeros_like(p) for p in params]

    def step(self) -> None:
        with tx.no_grad():
            self.count += 1
            for p, m, v in zip(self.params, self.m, self.v, strict=True):
                m.mul_(0.9).add_(0.1 * p.grad)
                v.mul_(0.99).add_(0.01 * p.grad * p.grad)
                p -= self.rate * (m / (1 - 0.9**self.count)) / ((v / (1 - 0.99**self.count)).sqrt() + 1e-8)
                p.grad = None


def data(n: int = 8, size: int = 4, classes: int = 3) -> tuple[tx.Tensor, tx.Tensor]:
    rng = np.random.default_rng(n)
    return tx.tensor(rng.normal(size=(n, size)).astype("float32")), tx.tensor(rng.integers(0, classes, n))


def compare(make: Callable[[], tuple[Callable[..., Any], list[tx.Tensor]]], calls: list[tuple[Any, ...]]) -> Any:
    """Run a step as it is and compiled; returns the compiled one."""
    plain, plain_state = make()
    inner, state = make()
    step = tx.compile(inner)
    for args in calls:
        want, got = plain(*args), step(*args)
        flat_want, flat_got = jax.tree.leaves(want, is_leaf=is_tensor), jax.tree.leaves(got, is_leaf=is_tensor)
        for a, b in zip([*flat_want, *plain_state], [*flat_got, *state], strict=True):
            same(a, b)
    for a, b in zip(plain_state, state, strict=True):
        assert (a.grad is None) == (b.grad is None)
        assert a.requires_grad == b.requires_grad
        if a.grad is not None and b.grad is not None:
            same(a.grad, b.grad)
    return step


def is_tensor(x: Any) -> bool:
    return isinstance(x, tx.Tensor)


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if is_tensor(a):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=1e-6)
    else:
        assert a == b


class TestEqualsTheLoop:
    def test_sgd_that_clears_gradients_after_the_update(self):
        def make():
            net = Net(4, 5, 3)
            params = net.parameters()

            def step(x, y):
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                with tx.no_grad():
                    for p in params:
                        p -= 0.1 * p.grad
                        p.grad = None
                return loss

            return step, params

        step = compare(make, [data(8)] * 4)
        assert recorded(step) == 1

    @pytest.mark.parametrize("momentum", [0.0, 0.9])
    def test_zero_grad_at_the_start(self, momentum):
        def make():
            net = Net(4, 5, 3)
            optimizer = SGD(net.parameters(), 0.1, momentum)

            def step(x, y):
                optimizer.zero_grad()
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
                return loss

            return step, [*net.parameters(), *optimizer.buffers]

        step = compare(make, [data(8)] * 5)
        assert recorded(step) == 2  # without gradients at first, then with

    def test_gradients_accumulate_over_calls(self):
        def make():
            net = Net(4, 3)
            params = net.parameters()

            def step(x, y):
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                return loss

            return step, params

        compare(make, [data(8), data(8), data(6), data(8)])

    def test_several_backwards_in_one_step(self):
        def make():
            net = Net(4, 3)
            params = net.parameters()

            def step(x, y):
                total = 0.0
                for k in range(3):
                    loss = F.cross_entropy(net(x * (k + 1)), y)
                    loss.backward()
                    total = loss.detach() + total
                with tx.no_grad():
                    for p in params:
                        p.add_(p.grad, alpha=-0.1)
                        p.grad = None
                return total

            return step, params

        compare(make, [data(8)] * 3)

    def test_adam_with_its_count_in_a_tensor(self):
        def make():
            net = Net(4, 5, 3)
            optimizer = Adam(net.parameters(), 0.01, tx.zeros(()))

            def step(x, y):
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
                return loss

            return step, [*net.parameters(), *optimizer.m, *optimizer.v, optimizer.count]

        step = compare(make, [data(8)] * 5)
        assert recorded(step) == 1

    def test_adam_that_counts_in_python(self):
        def make():
            net = Net(4, 5, 3)
            optimizer = Adam(net.parameters(), 0.01, 0)

            def step(x, y):
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
                return loss

            return step, [*net.parameters(), *optimizer.m, *optimizer.v]

        step = compare(make, [data(8)] * 5)
        assert recorded(step) == 5  # right, and said
        assert "it changes count of a Adam" in repr(step)

    def test_recording_that_goes_on_is_told_once(self):
        box = argparse.Namespace(count=0, rate=1.0)
        x = tx.ones(1)

        def counting():
            box.count += 1
            return x * box.count

        step = tx.compile(counting)
        with pytest.warns(RuntimeWarning, match=r"again and again.*changes count of a Namespace.*in a Tensor") as told:
            assert [step().item() for _ in range(20)] == list(range(1, 21))
        assert len(told) == 1
        rated = tx.compile(lambda: x * box.rate)

        def at(rate):
            box.rate = rate
            return rated().item()

        with pytest.warns(RuntimeWarning, match="since rate of a Namespace changes") as told:
            assert [at(k * 1.0) for k in range(20)] == list(range(20))
        assert len(told) == 1

    def test_a_count_in_python_compiles_nothing_again(self):
        net = Net(4, 3)
        optimizer = Adam(net.parameters(), 0.01, 0)

        @tx.compile
        def step(x, y):
            F.cross_entropy(net(x), y).backward()
            optimizer.step()

        x, y = data(8)
        for _ in range(3):
            step(x, y)
        assert count(lambda: [step(x, y) for _ in range(4)])["xla programs compiled"] == 0

    def test_running_statistics(self):
        def make():
            mean, var = tx.zeros(4), tx.ones(4)
            flags = {"training": True}

            def step(x):
                if flags["training"]:
                    with tx.no_grad():
                        mean.mul_(0.9).add_(0.1 * x.mean(0))
                        var.copy_(0.9 * var + 0.1 * x.var(0))
                return ((x - mean) / var.sqrt()).sum()

            def toggled(x, training):
                flags["training"] = training
                return step(x)

            return (toggled, [mean, var])

        x = data(8)[0]
        compare(make, [(x, True), (x, True), (x, False), (x, True), (x, False)])

    def test_second_derivatives_inside(self):
        def make():
            w = tx.tensor([1.0, -2.0], requires_grad=True)

            def step(x):
                y = ((w * x).tanh() ** 2).sum()
                (g,) = tx.autograd.grad(y, w, create_graph=True)
                ((g**2).sum() + y).backward()
                with tx.no_grad():
                    w.sub_(0.1 * w.grad)
                w.grad = None
                return y.detach()

            return step, [w]

        step = compare(make, [(tx.tensor([0.5, 0.3]),)] * 3)
        assert recorded(step) == 1

    def test_an_argument_that_collects_gradients(self):
        w = tx.tensor([1.0, 2.0], requires_grad=True)

        @tx.compile
        def step(x):
            (w * x).sum().backward()

        for k in range(3):
            x = tx.tensor([float(k), 1.0], requires_grad=True)
            step(x)
            assert x.grad.tolist() == [1.0, 2.0]
        assert w.grad.tolist() == [3.0, 3.0]
        assert recorded(step) == 2

    def test_indices_and_views_inside(self):
        def make():
            table = tx.tensor(np.arange(12, dtype="float32").reshape(4, 3), requires_grad=True)

            def step(i):
                loss = (table[i].T * table[i].reshape(-1, 2)[0, 1]).sum()
                loss.backward()
                with tx.no_grad():
                    table.sub_(0.01 * table.grad)
                table.grad = None
                return loss

            return step, [table]

        compare(make, [(tx.tensor([0, 1]),), (tx.tensor([3, 3]),), (tx.tensor([-1, 2]),)])

    def test_a_tensor_index_of_no_dimensions(self):
        x = tx.tensor([1.0, 2.0, 3.0])
        step = tx.compile(lambda i: x[i] * 2)
        assert [step(tx.tensor(k)).item() for k in (0, 2, -1)] == [2.0, 6.0, 6.0]
        assert recorded(step) == 1

    @pytest.mark.parametrize("mode", [False, True])
    def test_many_shapes(self, mode):
        net = Net(4, 3)
        step = tx.compile(lambda x: net(x).relu().detach())
        with tx.set_grad_enabled(mode):
            for n in (1, 5, 1, 3, 5):
                same(step(data(n)[0]), net(data(n)[0]).relu().detach())
        assert recorded(step) == 3


class TestNothingIsFrozen:
    def test_a_rate_that_changes_compiles_nothing(self):
        net = Net(4, 3)
        optimizer = SGD(net.parameters(), 0.1)

        @tx.compile
        def step(x, y):
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()

        x, y = data(8)
        step(x, y)
        twin = Net(4, 3)
        other = SGD(twin.parameters(), 0.1)
        got = {}
        for k in range(6):
            if k:
                optimizer.rate = 0.1 / (k + 1)
                got = count(lambda: step(x, y))
            other.rate = 0.1 / (k + 1)
            F.cross_entropy(twin(x), y).backward()
            other.step()
            other.zero_grad()
            twin.layers[0].w.tolist()  # or the step would have to run what is pending
        assert got == {"programs run": 1, "hits": 1, "misses": 0, "xla programs compiled": 0}
        for a, b in zip(net.parameters(), twin.parameters(), strict=True):
            same(a, b)

    def test_numbers_that_are_arguments(self):
        x = tx.ones(2)
        step = tx.compile(lambda rate, flag=False: x * rate if flag else x + rate)
        assert step(2.0).tolist() == [3.0, 3.0]
        assert step(3.0).tolist() == [4.0, 4.0]
        assert step(3, flag=True).tolist() == [3.0, 3.0]
        assert step(3, flag=1).tolist() == [3.0, 3.0]
        assert str(step(-0.0, True).tolist()) == "[-0.0, -0.0]"
        assert str(step(0.0, True).tolist()) == "[0.0, 0.0]"

    def test_a_global(self):
        global RATE
        x = tx.ones(2)
        step = tx.compile(lambda: x * RATE)
        try:
            assert step().tolist() == pytest.approx([0.1, 0.1])
            RATE = 0.5
            assert step().tolist() == [0.5, 0.5]
        finally:
            RATE = 0.1

    def test_a_global_of_a_function_that_is_called(self):
        global RATE
        x = tx.ones(2)
        step = tx.compile(lambda: times_rate(x))
        try:
            step()
            RATE = 0.25
            assert step().tolist() == [0.25, 0.25]
        finally:
            RATE = 0.1

    def test_variables_of_the_closure(self):
        scale, shift = 2.0, [1.0]

        @tx.compile
        def step(x):
            return x * scale + shift[0]

        x = tx.ones(1)
        assert step(x).item() == 3.0
        scale = 4.0
        assert step(x).item() == 5.0
        shift[0] = -1.0
        assert step(x).item() == 3.0
        shift.append(9.0)
        assert step(x).item() == 3.0

    def test_attributes_deep_inside(self):
        class Config:
            factor = 2.0

        class Inner:
            def __init__(self):
                self.config = Config()
                self.table = {"a": [1.0, (2.0, {"b": 3.0})]}

            @property
            def number(self):
                return self.table["a"][1][1]["b"]

        class Outer:
            def __init__(self):
                self.inner = Inner()

            def __call__(self, x):
                return x * self.inner.number * self.inner.config.factor

        model = Outer()
        step = tx.compile(lambda x: model(x))
        x = tx.ones(1)
        assert step(x).item() == 6.0
        model.inner.table["a"][1][1]["b"] = 5.0
        assert step(x).item() == 10.0
        Config.factor = 3.0
        assert step(x).item() == 15.0
        model.inner.config.factor = 1.0  # hides the class's
        assert step(x).item() == 5.0
        Inner.number = property(lambda self: 7.0)
        assert step(x).item() == 7.0
        assert step(x).item() == 7.0
        assert recorded(step) == 5

    def test_slots_defaults_partials_and_methods(self):
        class Slotted:
            __slots__ = ("rate",)

            def __init__(self):
                self.rate = 2.0

            def times(self, x, extra=[1.0]):  # noqa: B006  on purpose: it can change
                return x * self.rate * extra[0]

        thing = Slotted()
        step = tx.compile(functools.partial(thing.times))
        x = tx.ones(1)
        assert step(x).item() == 2.0
        thing.rate = 3.0
        assert step(x).item() == 3.0
        Slotted.times.__defaults__[0][0] = 2.0
        assert step(x).item() == 6.0

    def test_names_that_are_put_together(self):
        class Model:
            def __init__(self):
                self.w0, self.w1, self.scale = tx.ones(1), tx.ones(1) * 2, 3.0

            def __call__(self, x):
                for k in range(2):
                    getattr(self, f"w{k}").add_(1.0)
                    x = x * getattr(self, f"w{k}")
                return x * getattr(self, "sca" + "le"[:2])

        model = Model()
        step = tx.compile(lambda x: model(x))
        x = tx.ones(1)
        assert [step(x).item(), step(x).item()] == [18.0, 36.0]
        assert recorded(step) == 1
        model.scale = 1.0
        assert step(x).item() == 20.0
        model.w1 = tx.zeros(1)
        assert step(x).item() == 5.0

    def test_options_and_other_containers(self):
        options = argparse.Namespace(rate=2.0)
        user, chained = collections.UserDict(k=1.0), collections.ChainMap({"k": 1.0})
        local, context = threading.local(), contextvars.ContextVar("k", default=1.0)
        local.k = 1.0
        steps = [
            tx.compile(lambda x: x * options.rate),
            tx.compile(lambda x: x * user["k"]),
            tx.compile(lambda x: x * chained["k"]),
            tx.compile(lambda x: x * local.k),
            tx.compile(lambda x: x * context.get()),
        ]
        x = tx.ones(1)
        assert [step(x).item() for step in steps] == [2.0, 1.0, 1.0, 1.0, 1.0]
        options.rate = user["k"] = chained["k"] = local.k = 5.0
        context.set(5.0)
        assert [step(x).item() for step in steps] == [5.0] * 5

    def test_code_that_is_exchanged(self):
        def factor(x, by=2.0):
            return x * by

        step = tx.compile(lambda x: factor(x))
        x = tx.ones(1)
        assert step(x).item() == 2.0
        factor.__defaults__ = (3.0,)
        assert step(x).item() == 3.0
        factor.__code__ = (lambda x, by: x + by).__code__
        assert step(x).item() == 4.0

    def test_a_parameter_that_is_replaced(self):
        net = Net(4, 3)

        @tx.compile
        def step(x):
            return net(x).sum().detach()

        x = data(2)[0]
        step(x)
        net.layers[0].b = tx.ones(3, requires_grad=True)
        assert step(x).item() == pytest.approx(net(x).sum().item())
        net.layers.append(Linear(3, 2))
        assert step(x).item() == pytest.approx(net(x).sum().item())

    def test_requires_grad_that_is_switched(self):
        w, b = tx.ones(2, requires_grad=True), tx.ones(2, requires_grad=True)

        @tx.compile
        def step():
            (w * w + b).sum().backward()
            grads = [p.grad for p in (w, b)]
            w.grad = b.grad = None
            return grads

        assert [g.tolist() for g in step()] == [[2.0, 2.0], [1.0, 1.0]]
        b.requires_grad_(False)
        got = step()
        assert (got[0].tolist(), got[1]) == ([2.0, 2.0], None)
        b.requires_grad_()
        assert step()[1].tolist() == [1.0, 1.0]

    def test_values_written_between_calls(self):
        w = tx.ones(2)
        alias = w.detach()
        step = tx.compile(lambda x: x * w)
        x = tx.ones(2)
        step(x)
        w.mul_(3.0)
        assert step(x).tolist() == [3.0, 3.0]
        alias.add_(1.0)
        assert step(x).tolist() == [4.0, 4.0]
        w.data = tx.zeros(2)
        assert step(x).tolist() == [0.0, 0.0]
        assert recorded(step) == 1

    def test_a_view_follows_its_base(self):
        base = tx.tensor([[1.0, 2.0], [3.0, 4.0]])
        row = base[0]
        step = tx.compile(lambda: row * 1)
        assert step().tolist() == [1.0, 2.0]
        base.mul_(2.0)
        assert step().tolist() == [2.0, 4.0]

    def test_views_of_what_the_step_writes(self):
        def make():
            base = tx.tensor([[1.0, 2.0], [3.0, 4.0]])
            row, column = base[0], base.T[1]

            def step(x):
                before = row * 1
                base.add_(x)
                column.mul_(2.0)
                return before, row * 1, column.sum()

            return step, [base, row, column]

        compare(make, [(tx.ones(2),), (tx.ones(2),), (tx.tensor([0.0, 5.0]),)])

    def test_views_outside_see_what_the_step_writes(self):
        w = tx.zeros(2, 2)
        row = w[0]

        @tx.compile
        def step():
            w.add_(1.0)

        for k in range(1, 4):
            step()
            assert row.tolist() == [k, k]
        row.mul_(10.0)
        step()
        assert w.tolist() == [[31.0, 31.0], [4.0, 4.0]]
        assert recorded(step) == 1

    def test_views_as_arguments(self):
        table = tx.tensor(np.arange(12, dtype="float32").reshape(4, 3))
        total = tx.zeros(3)

        @tx.compile
        def step(x):
            total.add_(x)
            return x * 2

        for k in range(4):
            assert step(table[k]).tolist() == (2 * table[k]).tolist()
        assert recorded(step) == 1
        assert total.tolist() == table.sum(0).tolist()
        step(total[:])
        step(total)
        assert total.tolist() == (4 * table.sum(0)).tolist()

    def test_views_as_arguments_that_are_written(self):
        def inner(x, y):
            x.add_(1.0)
            y.mul_(2.0)
            return x * 1, y.sum()

        states = []
        for step in (inner, tx.compile(inner)):
            table = tx.tensor(np.arange(12, dtype="float32").reshape(4, 3))
            results = [[t.tolist() for t in step(table[k], table.T[0])] for k in (0, 2, 2, 3)]
            states.append([results, table.tolist()])
        assert states[0] == states[1]

    def test_pending_values_are_computed_first(self):
        w = tx.ones(2) * 3
        step = tx.compile(lambda x: x * w)
        assert step(tx.ones(2) + 1).tolist() == [6.0, 6.0]
        w.add_(1)
        assert step(tx.ones(2) + 2).tolist() == [12.0, 12.0]

    def test_random_draws(self):
        def make():
            buffer = tx.zeros(3)

            def step(n):
                noise = tx.rand(3) + tx.randn(3) + tx.randint(0, 9, (3,))
                buffer.add_(noise)
                return noise + tx.rand(3, generator=own)

            return step, [buffer]

        results = []
        for wrap in (lambda f: f, tx.compile):
            tx.manual_seed(3)
            own = tx.random.Generator(5)
            inner, (buffer,) = make()
            step = wrap(inner)
            results.append([[step(k).tolist() for k in (0, 0, 0)], buffer.tolist(), tx.rand(1).item(), own.get_state()])
        assert results[0] == results[1]
        assert len({str(r) for r in results[0][0]}) == 3

    def test_a_seed_set_by_the_step(self):
        def step():
            tx.manual_seed(7)
            return tx.rand(2)

        compiled = tx.compile(step)
        want = step().tolist()
        assert [compiled().tolist() for _ in range(3)] == [want] * 3

    def test_pythons_and_numpys_random_numbers(self):
        x, rng, own = tx.ones(1), np.random.default_rng(0), random.Random(0)
        for draw in (random.random, np.random.rand, lambda: rng.random(), lambda: own.random()):
            step = tx.compile(lambda draw=draw: x * float(draw()))
            assert len({step().item() for _ in range(4)}) == 4
            assert "generator" in repr(step)

    def test_a_numpy_array_that_is_written(self):
        small, large = np.ones(2, "float32"), np.ones(50000, "float32")
        x = tx.ones(1)
        first = tx.compile(lambda: x * float(small[0]))
        second = tx.compile(lambda: x * float(large[0]))
        third = tx.compile(lambda: tx.tensor(small) * 1)
        for step in (first, second, third):
            assert step().tolist()[0] == 1.0
        small[0] = large[0] = 2.0
        for step in (first, second, third):
            assert step().tolist()[0] == 2.0

    def test_an_iterator(self):
        batches = iter([tx.ones(1) * k for k in range(4)])
        step = tx.compile(lambda: next(batches) + 1)
        assert [step().item() for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]
        assert "iterator" in repr(step)

    def test_a_tensor_that_is_reached_unseen(self):
        class Hidden:
            def __init__(self):
                self.x = tx.ones(1)

            def __getattr__(self, name):
                return REGISTRY[name[1:]]

        REGISTRY["a"] = tx.ones(1)
        hidden, name = Hidden(), "".join(["_", "a"])
        step = tx.compile(lambda: getattr(hidden, name) * 2)
        assert step().item() == 2.0
        REGISTRY["a"] = tx.zeros(1)
        assert step().item() == 0.0
        getter = (lambda: WEAK[0]()).__call__
        kept = tx.ones(1)
        WEAK[:] = [weakref.ref(kept)]
        step = tx.compile(lambda: getter() * 3)
        assert step().item() == 3.0
        kept = tx.zeros(1)
        WEAK[:] = [weakref.ref(kept)]
        assert step().item() == 0.0

    def test_switches(self):
        x = tx.ones(2, requires_grad=True)
        seen = []

        @tx.compile
        def step():
            seen.append(tx.is_grad_enabled())
            return tx.zeros(2) + x.detach()

        before = tx.get_default_dtype()
        assert step().dtype == before
        tx.set_default_dtype(tx.float64)
        try:
            assert step().dtype == tx.float64
        finally:
            tx.set_default_dtype(before)
        with tx.no_grad():
            step()
        with jax.default_matmul_precision("bfloat16"):
            step()
        assert seen == [True, True, False, True]

    def test_the_step_switches_grad_mode(self):
        x = tx.ones(1)

        @tx.compile
        def step():
            tx.set_grad_enabled(False)
            return x * 2

        try:
            for _ in range(2):
                tx.set_grad_enabled(True)
                assert step().item() == 2.0
                assert not tx.is_grad_enabled()
        finally:
            tx.set_grad_enabled(True)

    def test_tensors_that_share_storage_now(self):
        a, b = tx.ones(2), tx.zeros(2)
        holder = [a, b]

        @tx.compile
        def step(x):
            holder[0].add_(1.0)
            return holder[0] + holder[1] + x

        x = tx.ones(2)
        assert step(x).tolist() == [3.0, 3.0]
        assert step(x).tolist() == [4.0, 4.0]
        assert step(a.detach()).tolist() == [8.0, 8.0]  # the argument is what is written
        assert step(a).tolist() == [10.0, 10.0]
        holder[1] = a.detach()
        assert step(x).tolist() == [13.0, 13.0]
        assert step(x).tolist() == [15.0, 15.0]

    def test_the_same_array_twice(self):
        a, b = tx.zeros(2), tx.ones(2)
        a.data = b  # two storages, one value

        @tx.compile
        def step():
            a.add_(1.0)
            b.add_(a)

        step()
        assert (a.tolist(), b.tolist()) == ([2.0, 2.0], [3.0, 3.0])
        step()
        assert (a.tolist(), b.tolist()) == ([3.0, 3.0], [6.0, 6.0])

    def test_a_swap(self):
        a, b = tx.zeros(2), tx.ones(2)

        @tx.compile
        def step():
            old = a.clone()
            a.data = b
            b.copy_(old)

        for k in range(1, 5):
            step()
            assert (a.tolist(), b.tolist()) == ([float(k % 2)] * 2, [float(1 - k % 2)] * 2)

    def test_gradients_that_the_user_assigns(self):
        w = tx.ones(2, requires_grad=True)

        @tx.compile
        def step():
            (w * 3).sum().backward()
            return w.grad

        assert step() is w.grad
        first = w.grad
        assert step() is first
        assert first.tolist() == [6.0, 6.0]
        w.grad = tx.tensor([10.0, 20.0])
        assert step() is w.grad
        assert w.grad.tolist() == [13.0, 23.0]
        assert first.tolist() == [6.0, 6.0]
        v = tx.ones(2, requires_grad=True)
        v.grad = w.grad  # one gradient of two
        step()
        assert v.grad.tolist() == [16.0, 26.0]


REGISTRY: dict[str, tx.Tensor] = {}
WEAK: list[Any] = []


def times_rate(x: tx.Tensor) -> tx.Tensor:
    return x * RATE


class TestResults:
    def test_trees_and_constants(self):
        pair = collections.namedtuple("pair", "a b")
        w = tx.ones(2)
        step = tx.compile(lambda x: {"z": [x + 1, (w, None)], "a": pair(x, 5), "s": "text"})
        x = tx.zeros(2)
        for _ in range(2):
            got = step(x)
            assert list(got) == ["z", "a", "s"]
            assert got["z"][0].tolist() == [1.0, 1.0]
            assert got["z"][1] == (w, None) or got["z"][1][0] is w
            assert isinstance(got["a"], pair)
            assert got["a"].a is x
            assert (got["a"].b, got["s"]) == (5, "text")
        assert recorded(step) == 1

    def test_one_tensor_twice_and_aliases(self):
        w = tx.ones(2)

        def inner(x):
            y = x * 2
            return y, y, y.detach(), w.detach(), x.detach()

        step = tx.compile(inner)
        for _ in range(2):
            x = tx.ones(2)
            a, b, alias, of_w, of_x = step(x)
            assert a is b
            a.add_(1.0)
            assert alias.tolist() == [3.0, 3.0]
            of_w.add_(1.0)
            of_x.add_(5.0)
            assert x.tolist() == [6.0, 6.0]
        assert w.tolist() == [3.0, 3.0]

    def test_results_are_new_each_time(self):
        step = tx.compile(lambda x: x + 1)
        first = step(tx.ones(1))
        second = step(tx.ones(1) * 2)
        first.mul_(10.0)
        assert (first.item(), second.item()) == (20.0, 3.0)

    def test_views_of_own_results(self):
        step = tx.compile(lambda x: (x * 2).T)
        assert step(tx.ones(2, 3)).shape == (3, 2)
        assert step(tx.ones(2, 3)).shape == (3, 2)

    def test_a_loss_has_no_history(self):
        w = tx.ones(2, requires_grad=True)

        @tx.compile
        def step():
            loss = (w * w).sum()
            loss.backward()
            return loss

        for _ in range(2):
            loss = step()
            assert (loss.requires_grad, loss.is_leaf, loss.item()) == (False, True, 2.0)

    def test_constants_made_inside(self):
        w = tx.zeros(2)

        @tx.compile
        def step():
            made = tx.tensor([1.0, 2.0])
            w.data = made
            return made

        first = step()
        w.add_(1.0)
        second = step()
        assert w.tolist() == [1.0, 2.0]
        assert second.tolist() == [1.0, 2.0]
        assert first.tolist() == [1.0, 2.0]

    def test_arrays_reach_the_step_as_tensors(self):
        seen = []

        @tx.compile
        def step(x, more):
            seen.append(type(x))
            return x * more["k"][0]

        for x in (np.ones(2, "float32"), jnp.ones(2), tx.ones(2)):
            assert step(x, {"k": [np.float32(2)]}).tolist() == [2.0, 2.0]
        assert set(seen) == {tx.Tensor}

    def test_methods(self):
        class Model:
            def __init__(self, value):
                self.w = tx.tensor([value])

            @tx.compile
            def step(self, x):
                """Docstring."""
                self.w.add_(x)
                return self.w * 1

        one, two = Model(1.0), Model(10.0)
        x = tx.ones(1)
        assert [one.step(x).item(), two.step(x).item(), one.step(x).item()] == [2.0, 11.0, 3.0]
        assert [one.step(x).item(), two.step(x).item(), two.step(x).item()] == [4.0, 12.0, 13.0]
        assert Model.step.__doc__ == "Docstring."
        bound = tx.compile(one.step)
        assert bound(x).item() == 5.0
        one.own = bound
        twin = copy.deepcopy(one)
        assert twin.own(x).item() == 6.0
        assert (one.w.item(), twin.w.item()) == (5.0, 6.0)


def state() -> tuple[tx.Tensor, tx.Tensor, tx.Tensor, tx.Tensor]:
    w = tx.tensor([1.0, 2.0], requires_grad=True)
    w.grad = tx.tensor([5.0, 6.0])
    return w, w.grad, tx.zeros(2), tx.ones(2)


class TestRefusals:
    """Each refusal says what to do, and leaves everything as it was, and usable."""

    @staticmethod
    def refused(body: Callable[..., Any], match: str, error: type[Exception] = tx.AutogradError) -> None:
        w, grad, m, x = state()
        tx.manual_seed(0)

        @tx.compile
        def step():
            m.add_(tx.rand(2))
            (w * x).sum().backward()
            with tx.no_grad():
                w.sub_(w.grad)
            w.grad = None
            return body(w, m, x)

        for _ in range(2):
            with pytest.raises(error, match=match):
                step()
            assert (w.tolist(), m.tolist(), x.tolist()) == ([1.0, 2.0], [0.0, 0.0], [1.0, 1.0])
            assert w.grad is grad
            assert grad.tolist() == [5.0, 6.0]
            assert w.requires_grad
            assert tx.random.default_generator.get_state() == (0, 0)
            assert tx.is_grad_enabled()
        (w * 2).sum().backward()
        assert w.grad.tolist() == [7.0, 8.0]

    @pytest.mark.parametrize(
        "read",
        [
            lambda w, m, x: m.sum().item(),
            lambda w, m, x: float(x[0]),
            lambda w, m, x: x.numpy(),
            lambda w, m, x: bool(x[0] > 0),
            lambda w, m, x: x.tolist(),
            lambda w, m, x: x.jax(),
            lambda w, m, x: x[x > 0],
            lambda w, m, x: repr(x),
            lambda w, m, x: np.asarray(x),
            lambda w, m, x: jnp.sum(x.jax()),
        ],
    )
    def test_a_read(self, read):
        self.refused(read, "read inside a compiled step.*test_compile.*return the Tensor.*where")

    def test_kept_tensors(self):
        kept: list[Any] = []
        box = Net(2, 2)

        def attribute(w, m, x):
            box.last = m * 2

        def cycle(w, m, x):
            kept.append([m * 3])

        self.refused(attribute, r"kept where later calls.*return it, or write it in place")
        self.refused(cycle, r"\[mul.*shape \[2\].*kept")
        assert kept[0][0].shape == (2,)  # what was kept can still be computed
        assert len(kept[0][0].tolist()) == 2

    def test_a_cycle_is_nobody(self):
        @tx.compile
        def step(x):
            loop: list[Any] = [x * 2]
            loop.append(loop)
            return x + 1

        gc.disable()
        try:
            assert step(tx.ones(1)).item() == 2.0
        finally:
            gc.enable()
        assert step(tx.ones(1)).item() == 2.0

    def test_results_that_require_grad(self):
        self.refused(lambda w, m, x: w * x, r"return a Tensor that requires grad.*detach\(\).*no_grad")
        self.refused(lambda w, m, x: tx.ones(2, requires_grad=True), "requires grad")

    def test_results_that_are_views(self):
        self.refused(lambda w, m, x: x[0], "view.*clone")

        def both(w, m, x):
            y = x * 2
            return y, y[0]

        self.refused(both, "view.*clone")

    def test_history_that_stays(self):
        def momentum(w, m, x):
            m.mul_(0.9).add_(w * x)

        self.refused(momentum, "history.*no_grad")

    def test_a_graph_from_outside(self):
        v = tx.ones(2, requires_grad=True)
        y = v * 2
        self.refused(lambda w, m, x: (y * w).sum().backward(), "outside of it.*detach")
        y.sum().backward()
        assert v.grad.tolist() == [2.0, 2.0]

    def test_transforms(self):
        self.refused(lambda w, m, x: tx.vmap(lambda a: a * 2)(x), r"\[vmap\].*inside a compiled step")

    def test_the_eager_switch(self):
        def eager(w, m, x):
            with tx.eager():
                return x * 2

        self.refused(eager, "eager.*inside a compiled step")

    def test_exceptions_of_the_step(self):
        def fail(w, m, x):
            raise RuntimeError("mine")

        def interrupt(w, m, x):
            raise KeyboardInterrupt

        self.refused(fail, "mine", RuntimeError)
        self.refused(interrupt, "^$", KeyboardInterrupt)
        self.refused(lambda w, m, x: x @ tx.ones(3), "matmul", tx.ShapeMismatchError)

    def test_an_index_out_of_range(self):
        table = tx.tensor([1.0, 2.0, 3.0])
        hits = tx.zeros(())
        tx.manual_seed(0)

        @tx.compile
        def step(i):
            hits.add_(1.0)
            return table[i] + tx.rand(1)

        step(tx.tensor([0, 2]))
        for _ in range(2):
            with pytest.raises(tx.OutOfRangeError, match=r"index 3 is out of range"):
                step(tx.tensor([1, 3]))
        assert hits.item() == 1.0
        assert tx.random.default_generator.get_state() == (0, 1)
        step(tx.tensor([1, -3]))
        assert hits.item() == 2.0
        assert recorded(step) == 1

    def test_classes_out_of_range(self):
        net = Net(4, 3)
        step = tx.compile(lambda x, y: F.cross_entropy(net(x), y).detach())
        x, y = data(4)
        step(x, y)
        with pytest.raises(tx.OutOfRangeError):
            step(x, y + 3)
        step(x, y)

    def test_classes_of_one_hot(self):
        step = tx.compile(lambda i: F.one_hot(i, 3))
        assert step(tx.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
        with pytest.raises(tx.OutOfRangeError, match=r"one_hot.*3 is out of range for 3 classes"):
            step(tx.tensor([3, 0]))
        assert step(tx.tensor([1, 1])).tolist() == [[0, 1, 0], [0, 1, 0]]
        assert recorded(step) == 1

    def test_a_callback_that_fails(self):
        fail = [False]
        calls: list[int] = []

        def host(v):
            calls.append(1)
            if fail:
                raise ValueError("lost")
            return v * 2

        fail.clear()
        op = tx.custom_op("host", lambda v: jax.pure_callback(host, jax.ShapeDtypeStruct((2,), "float32"), v))
        m = tx.ones(2)

        @tx.compile
        def step():
            m.copy_(op(m))

        step()
        assert m.tolist() == [2.0, 2.0]
        fail.append(True)
        with pytest.raises(tx.TorshError, match="lost"):
            step()
        assert m.tolist() == [2.0, 2.0]
        fail.clear()
        step()
        assert m.tolist() == [4.0, 4.0]

    def test_bad_arguments(self):
        def generator():
            yield 1

        async def coroutine():
            return 1

        for bad in (None, 3, "step", [], tx.ones(2)):
            with pytest.raises(tx.ArgumentTypeError, match="compile takes a function"):
                tx.compile(bad)
        for bad in (generator, coroutine):
            with pytest.raises(tx.ArgumentTypeError, match="plain function"):
                tx.compile(bad)


class TestInterrupts:
    """Ctrl-C leaves the state of before or of after, and nothing in between."""

    @pytest.mark.parametrize("after", [False, True])
    def test_around_the_run(self, monkeypatch, after):
        w, m = tx.zeros(2) + 1, tx.zeros(2) + 2

        @tx.compile
        def step(x):
            w.add_(x)
            m.mul_(w)
            return tx.rand(1)

        x = tx.ones(2)
        tx.manual_seed(0)
        step(x)

        @contextlib.contextmanager
        def interrupted(mode: bool) -> Iterator[None]:
            if not after:
                raise KeyboardInterrupt
            with jax.enable_x64(mode):
                yield
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(running, "jax", types.SimpleNamespace(**{**vars(jax), "enable_x64": interrupted}))
            with pytest.raises(KeyboardInterrupt):
                step(x)
        assert (w.tolist(), m.tolist()) == (([3.0, 3.0], [12.0, 12.0]) if after else ([2.0, 2.0], [4.0, 4.0]))
        assert tx.random.default_generator.get_state() == (0, 2 if after else 1)
        step(tx.ones(2))
        assert w.tolist() == ([4.0, 4.0] if after else [3.0, 3.0])

    def test_while_results_are_written_back(self, monkeypatch):
        w = tx.zeros(2) + 1
        step = tx.compile(lambda x: w.add_(x) * 1)
        step(tx.ones(2))
        pressed = []

        def interrupted(*args: Any) -> Any:
            if not pressed:
                pressed.append(True)
                raise KeyboardInterrupt
            return leaf(*args)

        with monkeypatch.context() as patch:
            patch.setattr(replaying, "leaf", interrupted)
            with pytest.raises(KeyboardInterrupt):
                step(tx.ones(2))
        assert w.tolist() == [3.0, 3.0]
        assert step(tx.ones(2)).tolist() == [4.0, 4.0]


class TestWhereItIsTheFunctionItself:
    def test_eager(self):
        w = tx.ones(2)
        step = tx.compile(lambda x: w.add_(x).tolist())
        with tx.eager():
            assert step(tx.ones(2)) == [2.0, 2.0]
        assert recorded(step) == 0

    def test_traces(self):
        w = tx.tensor([1.0, 2.0])
        step = tx.compile(lambda x: x * w)
        assert tx.jit(lambda x: step(x))(tx.ones(2)).tolist() == [1.0, 2.0]
        assert tx.vmap(lambda x: step(x))(tx.ones(3, 2)).shape == (3, 2)
        assert tx.grad(lambda x: step(x).sum())(tx.ones(2)).tolist() == [1.0, 2.0]
        assert step(tx.ones(2)).tolist() == [1.0, 2.0]

    def test_another_compiled_step(self):
        w = tx.ones(2)

        @tx.compile
        def inner(x):
            w.add_(x)

        @tx.compile
        def outer(x):
            inner(x)
            inner(x)
            return w * 1

        x = tx.ones(2)
        assert [outer(x).tolist()[0] for _ in range(3)] == [3.0, 5.0, 7.0]
        inner(x)
        assert outer(x).tolist() == [10.0, 10.0]
        assert (recorded(outer), recorded(inner)) == (1, 1)


def pointer(t: tx.Tensor) -> int:
    """Where the value lies; ``jax()`` would count as holding it."""
    return int(t._node.value.unsafe_buffer_pointer())


class TestMemory:
    @staticmethod
    def step_on(w: tx.Tensor) -> Any:
        @tx.compile
        def step(x):
            w.add_(x)

        return step

    def test_overwritten_memory_is_used_again(self):
        w = tx.zeros(64, 64) + 1
        step = self.step_on(w)
        x = tx.ones(64, 64)
        step(x)
        before = pointer(w)
        for _ in range(3):
            step(x)
            assert pointer(w) == before
        assert w[0, 0].item() == 5.0

    def test_memory_that_somebody_holds_is_left_alone(self):
        w = tx.zeros(16, 16) + 1
        step = self.step_on(w)
        x = tx.ones(16, 16)
        step(x)
        exported, host, alias = w.jax(), w.numpy(), w.detach()
        want = np.array(host)
        pending = w * 2
        view = np.from_dlpack(w.jax())
        step(x)
        step(x)
        np.testing.assert_array_equal(np.asarray(exported), want)
        np.testing.assert_array_equal(host, want)
        np.testing.assert_array_equal(view, want)
        np.testing.assert_array_equal(pending.numpy(), want * 2)
        np.testing.assert_array_equal(alias.numpy(), want + 2)

    def test_an_array_it_was_made_of(self):
        array = jnp.ones((8, 8))
        w = tx.as_tensor(array)
        step = self.step_on(w)
        for _ in range(3):
            step(tx.ones(8, 8))
        assert float(array.sum()) == 64.0
        assert w[0, 0].item() == 4.0

    def test_a_graph_that_needs_the_old_value(self):
        w, v = tx.ones(4), tx.ones(4, requires_grad=True)
        y = (w * v).sum()
        z = (w * 3 * v).sum()
        step = self.step_on(w)
        step(tx.ones(4))
        step(tx.ones(4))
        (y + z).backward()
        assert v.grad.tolist() == [4.0] * 4

    def test_nothing_is_kept(self):
        net = Net(4, 3)

        @tx.compile
        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            with tx.no_grad():
                for p in net.parameters():
                    p.sub_(0.1 * p.grad)
                    p.grad = None
            return loss

        for _ in range(3):
            step(*data(8))
        gc.collect()
        live = len(jax.live_arrays())
        for _ in range(20):
            step(*data(8))
        gc.collect()
        assert len(jax.live_arrays()) == live

    def test_old_models_are_let_go(self):
        holder = [Net(4, 3)]
        step = tx.compile(lambda x: holder[0](x).detach())
        step(data(2)[0])
        gone = weakref.ref(holder[0])
        holder[0] = Net(4, 3)
        step(data(2)[0])
        gc.collect()
        assert gone() is None

    def test_an_argument_is_not_kept(self):
        step = tx.compile(lambda x: x * 2)
        x = tx.ones(3)
        for _ in range(2):
            step(x)
        gone = weakref.ref(x)
        del x
        gc.collect()
        assert gone() is None


class TestRuns:
    def test_one_program_a_call(self):
        net = Net(4, 5, 3)
        optimizer = SGD(net.parameters(), 0.1, 0.9)

        @tx.compile
        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        x, y = data(8)
        tx.clear_cache()
        first = count(lambda: step(x, y))
        assert (first["misses"], first["xla programs compiled"]) == (1, 1)
        got = count(lambda: [step(x, y) for _ in range(5)])
        assert got == {"programs run": 5, "hits": 5, "misses": 0, "xla programs compiled": 0}

    def test_explain_tells_of_it(self):
        step = tx.compile(lambda x: (x * 3).exp().sum(0) * 5)
        with tx.explain() as report:
            for _ in range(3):
                step(tx.ones(3))
        assert "a compiled step at" in str(report)
        assert report.counts["programs run"] == 3

    def test_long_steps(self):
        x = tx.ones(2)

        @tx.compile
        def step():
            y = x
            for _ in range(6000):
                y = y * 1.0001
            x.copy_(y)

        step()
        step()
        assert x.tolist() == pytest.approx([1.0001**12000] * 2, rel=1e-3)

    def test_threads(self):
        total = tx.zeros(4)
        rng = tx.random.Generator(0)

        @tx.compile
        def step(x):
            total.add_(x)
            return x * 2 + tx.rand(1, generator=rng)

        errors: list[BaseException] = []

        def work(k: int) -> None:
            try:
                for j in range(20):
                    got = step(tx.ones(4) * k)
                    assert 2 * k <= got[0].item() <= 2 * k + 1
                    if j % 5 == 0:
                        step(tx.ones(4, dtype=tx.float64) * k)
                    total.sum().item()  # readers see values at any time
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not errors
        assert total.tolist() == [24.0 * 6] * 4
        assert rng.get_state()[1] == 96

    def test_a_reader_while_it_is_recorded(self):
        w = tx.tensor([1.0, 2.0])
        seen: list[Any] = []

        def read():
            seen.append((w * 2).tolist())
            seen.append(w.numpy())

        @tx.compile
        def step(x):
            y = w * x
            t = threading.Thread(target=read)
            t.start()
            t.join()
            return y

        assert step(tx.ones(2)).tolist() == [1.0, 2.0]
        assert seen[0] == [2.0, 4.0]
        assert seen[1].tolist() == [1.0, 2.0]

    def test_devices(self):
        if len(jax.devices()) < 2:
            pytest.skip("one device only")
        w = tx.ones(2)
        step = tx.compile(lambda x: x * w)
        step(tx.ones(2))
        there = tx.ones(2, device="cpu:1")
        assert step(there).device.id == 1
        assert step(tx.ones(2)).tolist() == [1.0, 1.0]
        w = tx.ones(2, device="cpu:0")
        with pytest.raises(tx.ArgumentValueError, match=r"cpu:1"):
            step(there)
        assert step(tx.ones(2)).tolist() == [1.0, 1.0]


class TestWhole:
    def test_a_long_step_in_one_piece(self, monkeypatch: pytest.MonkeyPatch):
        """The same numbers, cut or not; both programs of one path stay known; memory is written over in one piece."""
        monkeypatch.setattr(program, "WHOLE", 20)
        tx.clear_cache()
        chains = [Chain(100) for _ in range(3)]
        steps = [chains[0].step, tx.compile(chains[1].step), tx.compile(whole=True)(chains[2].step)]
        x = tx.ones(2, 4)
        for _ in range(3):
            losses = [step(x).item() for step in steps]
            assert losses[1:] == pytest.approx([losses[0]] * 2, rel=1e-5)
        for c in chains[1:]:
            np.testing.assert_allclose(c.w.detach().numpy(), chains[0].w.detach().numpy(), rtol=1e-5)
        cut, whole = (step._plans[0].program for step in steps[1:])
        assert (cut.whole, whole.whole) == (False, True)
        assert (len(cut.donated), len(whole.donated)) == (0, 1)
        assert count(lambda: [step(x).item() for step in steps])["misses"] == 0

    def test_as_decorator(self):
        @tx.compile()
        def plain(x: tx.Tensor) -> tx.Tensor:
            return x * 2

        @tx.compile(whole=True)
        def whole(x: tx.Tensor) -> tx.Tensor:
            return x * 2

        for step in (plain, whole):
            assert step(tx.ones(2)).tolist() == [2.0, 2.0]
            assert recorded(step) == 1
