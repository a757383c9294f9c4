"""An update writes over the old buffer if nobody looks, and never if somebody does."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx
from torsh_fx.program import Program


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    tx.clear_cache()


def updated(p: tx.Tensor) -> bool:
    """Update ``p`` and run that; was its old buffer written over?"""
    old = p._node.value
    assert old is not None
    ref = weakref.ref(old)
    with tx.no_grad():
        p.mul_(0.5).add_(1.0)
    watch = []

    def look(program: Program, trail: Any, box: list[Any], traced: bool) -> None:
        run(program, trail, box, traced)
        array = ref()
        watch.append(array is None or array.is_deleted())

    del old
    run = Program.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "run", look)
        p.detach().sum().item()
    assert len(watch) == 1
    return bool(watch[0])


def parameter(n: int = 64) -> tx.Tensor:
    p = tx.tensor(np.arange(n, dtype=np.float32), requires_grad=True)
    with tx.no_grad():
        p.mul_(1.0)
    p.detach().sum().item()  # computed by a program, known to nobody
    return p


def by_numpy(p: tx.Tensor) -> tuple[Any, Callable[[], Any]]:
    seen = p.detach().numpy()
    return seen, lambda: seen


def by_dlpack(p: tx.Tensor) -> tuple[Any, Callable[[], Any]]:
    seen = np.from_dlpack(p.detach().jax())
    return seen, lambda: seen


def by_jax(p: tx.Tensor) -> tuple[Any, Callable[[], Any]]:
    seen = p.detach().jax()
    return seen, lambda: np.asarray(seen)


def by_alias(p: tx.Tensor) -> tuple[Any, Callable[[], Any]]:
    seen = tx.as_tensor(p.detach().jax())  # a second Tensor on one array
    return seen, seen.numpy


def by_copy(p: tx.Tensor) -> tuple[Any, Callable[[], Any]]:
    seen = copy.deepcopy(p)
    return seen, lambda: seen.detach().numpy()


def by_pickle(p: tx.Tensor) -> tuple[Any, Callable[[], Any]]:
    seen = pickle.loads(pickle.dumps(p))
    return seen, lambda: seen.detach().numpy()


def by_clone(p: tx.Tensor) -> tuple[Any, Callable[[], Any]]:
    seen = p.detach().clone()
    seen.sum().item()  # XLA may give the operand's own buffer
    return seen, seen.numpy


def by_nothing_ops(p: tx.Tensor) -> tuple[Any, Callable[[], Any]]:
    seen = [(p.detach() + 0.0).reshape(64), p.detach().to("float32").clone() * 1.0, p.detach().reshape(64).clone()]
    seen[0].sum().item()
    return seen, lambda: np.unique(np.stack([s.numpy() for s in seen]), axis=0)[0]


def by_graph(p: tx.Tensor) -> tuple[Any, Callable[[], Any]]:
    loss = (p * p).sum()
    loss.item()  # read before backward: the graph keeps p as it was

    def old() -> Any:
        p.grad = None
        loss.backward()
        return p.grad.numpy() / 2

    return loss, old


def by_closure(p: tx.Tensor) -> tuple[Any, Callable[[], Any]]:
    kept = p.detach().clone()

    def generate() -> Any:
        yield
        yield kept.numpy()

    frame = generate()
    next(frame)
    return frame, lambda: next(frame)


HOLDERS = [by_numpy, by_dlpack, by_jax, by_alias, by_copy, by_pickle, by_clone, by_nothing_ops, by_graph, by_closure]


class TestDonation:
    def test_an_update_writes_over_what_nobody_holds(self):
        p = parameter()
        assert not updated(p)  # the first time it works on copies, see ``Program.run``
        assert updated(p)
        assert updated(p)
        np.testing.assert_allclose(p.detach().numpy(), np.arange(64) / 8 + 1.75)

    @pytest.mark.parametrize("hold", HOLDERS)
    @pytest.mark.parametrize("known", [False, True])
    def test_never_over_what_somebody_holds(self, hold: Callable[..., Any], known: bool):
        if known:  # the program that writes over it is there already
            updated(parameter())
        p = parameter()
        before = p.detach().clone().numpy().copy() if not known else np.arange(64, dtype=np.float32)
        holder, old = hold(p)
        updated(p)
        np.testing.assert_array_equal(old(), before)
        np.testing.assert_allclose(p.detach().numpy(), before * 0.5 + 1)
        del holder

    def test_a_numpy_view_outlives_the_tensor_and_a_forwarded_buffer(self):
        for _ in range(4):
            t = tx.ones(64) * 3.0
            seen = t.numpy()
            y = t.clone()
            y.sum().item()
            del t
            gc.collect()
            updated(y)
            assert (seen == 3).all()
            assert y.tolist() == [2.5] * 64

    @pytest.mark.parametrize("make", [tx.tensor, tx.as_tensor])
    def test_arrays_of_the_user_are_never_deleted(self, make: Callable[..., tx.Tensor]):
        for _ in range(3):
            mine = jnp.arange(64.0) + 1
            for p in (make(mine), make(mine).clone(), make(mine).reshape(64), make(mine).detach() + 0.0):
                p.sum().item()
                updated(p)
            assert not mine.is_deleted()
            assert mine[1] == 2

    def test_an_alias_sees_every_write_and_loses_nothing(self):
        p = parameter()
        alias = p.detach()
        for _ in range(3):
            updated(p)
            np.testing.assert_array_equal(alias.numpy(), p.detach().numpy())

    def test_another_thread_that_reads_all_the_time(self):
        p, errors, done = parameter(), [], threading.Event()

        def read() -> None:
            try:
                while not done.is_set():
                    host = (p.detach() * 1.0).numpy()
                    assert (np.diff(host) >= 0).all()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for t in threads:
            t.start()
        for _ in range(150):
            ((p * 0.5) ** 2).sum().backward()
            with tx.no_grad():
                p.sub_(0.001 * p.grad)
            p.grad = None
        done.set()
        for t in threads:
            t.join()
        assert errors == []

    def test_a_graph_that_another_thread_computed(self):
        for _ in range(3):
            p = parameter()
            y = p * p
            reader = threading.Thread(target=y.tolist)
            reader.start()
            reader.join()
            z = (y * 2.0).sum()
            del y
            with tx.no_grad():
                p.mul_(0.5)
            z.item()
            z.backward()
            np.testing.assert_allclose(p.grad.numpy(), np.arange(64.0) * 4)

    def test_a_value_that_its_own_derivative_reads(self):
        host = np.arange(4, dtype=np.float32) / 4
        for _ in range(3):
            x = tx.tensor(host, requires_grad=True)
            h = tx.tanh(x * 1.0)
            h.sum().item()
            z, y = h.detach() * 2.0, h + 1.0  # its value goes into a program, its place into a graph
            del h
            z.sum().item()
            y.sum().backward()
            np.testing.assert_allclose(x.grad.numpy(), 1 - np.tanh(host) ** 2, rtol=1e-5)

    def test_a_graph_that_is_walked_twice(self):
        for _ in range(3):
            p = parameter()
            y = (p * p).sum()
            y.item()
            with tx.no_grad():
                p.mul_(0.5)
            y.backward(retain_graph=True)
            p.grad = None
            y.backward()
            np.testing.assert_allclose(p.grad.numpy(), np.arange(64.0) * 2)
