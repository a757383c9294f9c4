"""Names of devices, and moves between them that keep their gradients on every path."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx

KIND = "cuda" if jax.devices()[0].platform == "gpu" else jax.devices()[0].platform
FIRST, SECOND, THIRD = (f"{KIND}:{k}" for k in range(3))
several = pytest.mark.skipif(jax.local_device_count() < 3, reason="needs three devices")
DATA = [1.0, -2.0, 3.0]


def device(name: str) -> jax.Device:
    return jax.local_devices()[int(name.partition(":")[2])]


# -- names --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [FIRST, KIND])
def test_a_name_is_a_device(name: str) -> None:
    assert tx.device(name) == jax.local_devices()[0]
    assert tx.zeros(1, device=name).device == jax.local_devices()[0]


def test_a_device_that_is_not_there_lists_those_that_are() -> None:
    have = jax.local_device_count()
    names = [*(n for n in ("cuda", "tpu:0", "rocm") if n.partition(":")[0] != KIND), f"{KIND}:{have}", "abacus"]
    for name in names:
        for call in (lambda n=name: tx.ones(1).to(device=n), lambda n=name: tx.ones(1, device=n)):
            with pytest.raises(tx.TorshError, match=f"no device '{name}'.*{FIRST}") as caught:
                call()
            assert isinstance(caught.value, ValueError)
            assert all(f"{KIND}:{k}" in str(caught.value) for k in range(have))


def test_cuda_without_one() -> None:
    if KIND == "cuda":
        pytest.skip("there is one")
    x = tx.tensor(DATA, requires_grad=True)
    with pytest.raises(ValueError, match=r"cuda:0.*cpu:0"):
        x.cuda()
    with pytest.raises(ValueError, match=r"cuda:1.*cpu:0"):
        x.cuda(1)
    assert x.requires_grad
    assert x.grad is None


def test_where_it_is_already_it_stays_itself() -> None:
    x = tx.tensor(DATA, requires_grad=True)
    assert x.to(x.device) is x
    assert x.to(FIRST, non_blocking=True) is x
    assert x.to(FIRST, copy=True) is not x
    if KIND == "cpu":
        assert x.cpu() is x


# -- moves ----------------------------------------------------------------------------------


def far(x: tx.Tensor) -> tx.Tensor:
    """A function over three devices: (2x)^2 summed, times the sum of x."""
    y = (x * 2).to(SECOND)
    z = (y * y).to(THIRD).sum()
    return (z.to(FIRST) * x.sum()).to(SECOND)


def near(x: jax.Array) -> jax.Array:
    return jnp.sum((2 * x) ** 2) * jnp.sum(x)


WANT = jax.grad(near)(jnp.array(DATA))


@several
def test_a_move_keeps_the_gradient() -> None:
    x = tx.tensor(DATA, requires_grad=True)
    out = far(x)
    assert out.device == device(SECOND)
    assert f"to(device={SECOND})" in str(out.grad_fn)
    out.backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), WANT)
    assert x.grad.device == x.device == device(FIRST)
    y = x.to(SECOND)
    assert not y.is_leaf
    assert x.is_leaf
    assert x.detach().to(SECOND).is_leaf


@several
def test_moves_under_every_transform() -> None:
    x = tx.tensor(DATA)
    host = jnp.array(DATA)
    np.testing.assert_allclose(tx.grad(far)(x).numpy(), WANT)
    np.testing.assert_allclose(tx.jit(tx.grad(far))(x).numpy(), WANT)
    np.testing.assert_allclose(tx.vjp(far, x)[1](tx.tensor(1.0))[0].numpy(), WANT)
    np.testing.assert_allclose(tx.hessian(far)(x).numpy(), jax.hessian(near)(host), rtol=1e-6)
    rows = tx.tensor([DATA, [0.5, 1.0, 1.5]])
    np.testing.assert_allclose(tx.vmap(far)(rows).numpy(), jax.vmap(near)(rows.jax()))
    with tx.eager():
        np.testing.assert_allclose(tx.grad(far)(x).numpy(), WANT)


@several
def test_moves_on_a_tape() -> None:
    tape = tx.record(far)(tx.tensor([0.0, 0.0, 0.0]))  # the move is listed, its value no constant
    assert not tape.constants
    assert f"to(device={SECOND})" in str(tape)
    assert tape.replay(tx.tensor(DATA)).item() == near(jnp.array(DATA))
    for wrap in (lambda f: f, jax.jit):
        np.testing.assert_allclose(wrap(jax.grad(tape.as_jax()))(jnp.array(DATA)), WANT)
    assert tx.crosscheck(far, tx.tensor(DATA), reference=near).ok


@several
def test_second_order_through_a_move() -> None:
    x = tx.tensor(DATA, requires_grad=True)
    (first,) = tx.autograd.grad(far(x), x, create_graph=True)
    (second,) = tx.autograd.grad((first * first).sum(), x)
    there = tx.tensor(DATA, device=SECOND, requires_grad=True)
    (pending,) = tx.autograd.grad((there**3).sum(), there, create_graph=True)
    assert pending.device == device(SECOND)
    want = jax.grad(lambda v: jnp.sum(jax.grad(near)(v) ** 2))(jnp.array(DATA))
    np.testing.assert_allclose(second.numpy(), want, rtol=1e-6)


@several
def test_a_loop_on_another_device() -> None:
    w = tx.tensor(DATA, device=SECOND, requires_grad=True)
    x = tx.tensor([1.0, 2.0, 3.0])
    for _ in range(3):
        loss = (w * x.to(w)).sum()
        loss.backward()
        assert w.grad is not None
        assert w.grad.device == device(SECOND)
        with tx.no_grad():
            w -= 0.5 * w.grad
            w.grad = None
    assert w.device == device(SECOND)
    np.testing.assert_allclose(w.tolist(), np.array(DATA) - 1.5 * np.array([1.0, 2.0, 3.0]))


@several
def test_a_move_is_a_copy() -> None:
    """What is written to one side afterwards, the other does not see."""
    x = tx.tensor(DATA)
    y = x.to(SECOND)
    x.zero_()
    assert y.tolist() == DATA
    with tx.no_grad():
        w = tx.tensor(DATA, requires_grad=True)
        moved = w.to(SECOND)
    assert not moved.requires_grad


@several
def test_dtype_and_device_at_once() -> None:
    x = tx.tensor(DATA, requires_grad=True)
    y = x.to(SECOND, tx.float64)
    assert (y.dtype, y.device) == (tx.float64, device(SECOND))
    y.sum().backward()
    assert x.grad is not None
    assert (x.grad.dtype, x.grad.device) == (tx.float32, device(FIRST))
    like = tx.zeros(1, dtype=tx.int64, device=THIRD)
    assert (x.detach().to(like).dtype, x.detach().to(like).device) == (tx.int64, device(THIRD))


@several
def test_a_compiled_step_says_that_it_cannot_move() -> None:
    @tx.compile
    def step(x: tx.Tensor) -> tx.Tensor:
        return x.to(SECOND) * 2

    with pytest.raises(tx.AutogradError, match=rf"compiled step.*one device.*{SECOND}"):
        step(tx.tensor(DATA))
    away = tx.compile(lambda x: x * 2)(tx.tensor(DATA, device=SECOND))
    assert away.device == device(SECOND)
