"""Random numbers: seeds and counters as runtime values."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import torsh_fx as tx


def test_a_seed_repeats_and_draws_differ():
    tx.manual_seed(7)
    a, b = tx.rand(4), tx.rand(4)
    tx.manual_seed(7)
    assert tx.rand(4).tolist() == a.tolist()
    assert tx.rand(4).tolist() == b.tolist() != a.tolist()


def test_program_order_not_reading_order_decides():
    tx.manual_seed(1)
    a, b = tx.rand(3), tx.rand(3)
    late, early = b.tolist(), a.tolist()
    tx.manual_seed(1)
    assert tx.rand(3).tolist() == early
    assert tx.rand(3).tolist() == late


def test_new_numbers_each_step_without_a_new_program():
    x = tx.ones(3)
    (x * tx.randn(3)).sum().item()
    before = tx.stats()["misses"]
    seen = {(x * tx.randn(3)).sum().item() for _ in range(5)}
    assert len(seen) == 5
    assert tx.stats()["misses"] == before


def test_backward_uses_the_numbers_forward_drew():
    x = tx.ones(5, requires_grad=True)
    noise = tx.rand(5)
    (x * noise).sum().backward()
    assert x.grad.tolist() == noise.tolist()


def test_generators_are_independent_and_have_state():
    g, h = tx.Generator(3), tx.Generator(3)
    assert tx.randn(2, generator=g).tolist() == tx.randn(2, generator=h).tolist()
    state = g.get_state()
    a = tx.rand(2, generator=g)
    assert tx.rand(2, generator=g.set_state(state)).tolist() == a.tolist()
    assert g.initial_seed() == 3


def test_kinds_dtypes_and_ranges():
    u = tx.rand(1000)
    assert u.dtype == tx.float32
    assert 0.0 <= float(u.min()) <= float(u.max()) < 1.0
    assert abs(float(tx.randn(4000).mean())) < 0.1
    r = tx.randint(2, 5, (500,))
    assert r.dtype == tx.int64
    assert set(r.tolist()) == {2, 3, 4}
    assert sorted(tx.randperm(7).tolist()) == list(range(7))
    assert tx.randn(2, dtype=tx.float64).dtype == tx.float64
    assert tx.rand_like(tx.zeros(2, 3)).shape == (2, 3)
    assert tx.rand(2, requires_grad=True).is_leaf


def test_the_users_flag_does_not_change_the_numbers():
    tx.manual_seed(5)
    off = (tx.rand(3).tolist(), tx.randint(10, (3,)).tolist())
    tx.manual_seed(5)
    with jax.enable_x64(True):
        assert (tx.rand(3).tolist(), tx.randint(10, (3,)).tolist()) == off


@pytest.mark.parametrize(
    "call",
    [
        lambda: tx.rand(2, dtype=tx.int64),
        lambda: tx.randint(5, 5, (2,)),
        lambda: tx.randint(0.5, 2, (2,)),
        lambda: tx.randperm(-1),
        lambda: tx.rand(-2),
        lambda: tx.manual_seed("a"),
        lambda: tx.rand(2, generator=3),
    ],
)
def test_bad_arguments(call):
    with pytest.raises(tx.TorshError):
        call()


def test_draws_inside_own_vmap_and_grad():
    tx.manual_seed(2)
    g = tx.grad(lambda x: (x * tx.rand(3)).sum())(tx.ones(3))
    tx.manual_seed(2)
    np.testing.assert_array_equal(g.numpy(), tx.rand(3).numpy())
