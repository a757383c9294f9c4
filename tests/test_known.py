"""Functions that are known again by their arguments: never with what was right another time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import torsh_fx as tx
from torsh_fx import known
from torsh_fx.state import here

F = tx.nn.functional
X = np.array([[0.5, -1.0, 2.0], [-0.25, 3.0, 0.0]], np.float32)
W = np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]], np.float32)


def takes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by a name whenever a function is recorded without being called."""
    found: list[str] = []
    usual = known.Stretch.take

    def take(self: Any, trail: Any, args: Any) -> Any:
        out = usual(self, trail, args)
        if out is not None:
            found.append(self.events[-1].call.name)
        return out

    monkeypatch.setattr(known.Stretch, "take", take)
    return found


FUNCTIONS: dict[str, Callable[[tx.Tensor, tx.Tensor], tx.Tensor]] = {
    "linear": lambda x, w: F.linear(x, w),
    "linear with bias": lambda x, w: F.linear(x, w, w[:, 0]),
    "mse_loss": lambda x, w: F.mse_loss(x, w),
    "leaky_relu": lambda x, w: F.leaky_relu(x, 0.25) * w,
    "layer_norm": lambda x, w: F.layer_norm(x, (3,), w[0]),
    "permute": lambda x, w: x.permute(1, 0) @ w,
    "views of views": lambda x, w: x.t().reshape(3, 2).unsqueeze(0).flatten() * w.flatten(),
    "chunk": lambda x, w: next(a * b for a, b in zip(x.chunk(2, 1), w.split(2, 1), strict=False)),
    "unbind": lambda x, w: sum(a * k for k, a in enumerate((x * w).unbind(0))),
    "conv1d": lambda x, w: F.conv1d(x.reshape(1, 2, 3), w.reshape(1, 2, 3), padding=1),
    "cross_entropy": lambda x, w: F.cross_entropy(x * w, tx.tensor([2, -100])),
    "gelu": lambda x, w: F.gelu(x, approximate="tanh") + w,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_is_known_gives_what_it_gave_when_it_was_called(name: str, monkeypatch: pytest.MonkeyPatch):
    found = takes(monkeypatch)

    def run() -> list[Any]:
        x, w = tx.tensor(X, requires_grad=True), tx.tensor(W, requires_grad=True)
        out = FUNCTIONS[name](x, w)
        out.sum().backward()
        return [t.detach().tolist() for t in (out, x.grad, w.grad)]

    with tx.eager():
        expected = run()
    assert not found
    first, second, third = run(), run(), run()
    assert found
    for got in (first, second, third):
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_arguments_that_are_equal_but_not_the_same_are_told_apart():
    x = tx.tensor([-1.0, 1.0])
    slopes = [0.0, -0.0, 0, 0.5, 1, 1.0]
    found, again = ([np.signbit(F.leaky_relu(x, s).numpy()).tolist() for s in slopes] for _ in range(2))
    assert found == again
    assert found[0] != found[1]


def test_bad_arguments_are_refused_after_good_ones():
    x, w = tx.tensor(X), tx.tensor(W)
    for _ in range(3):
        F.linear(x, w).tolist()
        with pytest.raises(tx.ShapeMismatchError):
            F.linear(x, tx.ones(2, 4))
        with pytest.raises(tx.ArgumentValueError):
            F.mse_loss(x, w, reduction="most")


def test_the_default_dtype_and_the_precision_of_products_are_seen():
    x, k, w = tx.tensor(X), tx.tensor([1, 2]), tx.tensor(W)
    for _ in range(3):
        assert F.softplus(k.float()).dtype == np.float32
        assert (k / 2).dtype == tx.softmax(k, 0).dtype == np.float32
        F.linear(x, w)
        precisions = {dict(e.call.static).get("precision") for e in here().trail.events() if e.call.name == "matmul"}
        with jax.default_matmul_precision("bfloat16"):
            F.linear(x, w)
        both = {dict(e.call.static).get("precision") for e in here().trail.events() if e.call.name == "matmul"}
        assert len(precisions) == 1
        assert len(both) == 2
        tx.clear_cache()
        tx.set_default_dtype(tx.float64)
        try:
            assert tx.softmax(k, 0).dtype == np.float64
        finally:
            tx.set_default_dtype(tx.float32)


def test_grad_mode_is_seen():
    w = tx.tensor(W, requires_grad=True)
    for _ in range(3):
        assert F.linear(tx.tensor(X), w).requires_grad
        with tx.no_grad():
            assert not F.linear(tx.tensor(X), w).requires_grad


def test_views_that_are_known_again_are_views_of_their_own_base():
    for k in range(4):
        a, b = tx.zeros(2, 3), tx.ones(2, 3)
        a.transpose(0, 1).add_(k + 1.0)
        b.reshape(3, 2).mul_(k + 2.0)
        assert a.tolist() == [[k + 1.0] * 3] * 2
        assert b.tolist() == [[k + 2.0] * 3] * 2


def test_many_different_arguments_are_not_all_remembered():
    x = tx.tensor(X)
    for k in range(100):
        F.leaky_relu(x, k / 100).tolist()
    start = here().trail.event
    assert all(len(e.stretches) <= known.MOST for e in start.after.values())
    assert F.leaky_relu(x, 0.5).tolist() == np.where(X < 0, X * 0.5, X).tolist()


def test_indices_are_looked_at_each_time():
    x, index = tx.tensor(X, requires_grad=True), tx.tensor([0, 1])
    for k in range(4):
        assert x.index_select(0, index).tolist() == X[[0, 1]].tolist()
        assert F.cross_entropy(x, index).item() == pytest.approx((1.7413 + 0.0848) / 2, abs=1e-4)  # by hand
        with pytest.raises(tx.OutOfRangeError, match="7"):
            x.index_select(0, tx.tensor([0, 7]))
        with pytest.raises(tx.OutOfRangeError, match=f"{k + 3}"):
            F.cross_entropy(x, tx.tensor([0, k + 3]))
    index.add_(1)
    index.tolist()
    with pytest.raises(tx.OutOfRangeError, match="2"):
        x.index_select(0, index)
    assert x.index_select(0, tx.tensor([1, 0])).tolist() == X[[1, 0]].tolist()


def test_a_compiled_step_looks_at_the_indices_it_is_given():
    w, rows = tx.tensor(X, requires_grad=True), tx.tensor([0, 1])

    @tx.compile
    def step(labels: tx.Tensor) -> tx.Tensor:
        loss = F.cross_entropy(w.index_select(0, rows), labels)
        loss.backward()
        with tx.no_grad():
            w.sub_(w.grad)
        w.grad = None
        return loss

    with tx.eager():
        expected = F.cross_entropy(tx.tensor(X), tx.tensor([0, 2])).item()
    assert step(tx.tensor([0, 2])).item() == pytest.approx(expected)
    moved = w.tolist()
    for bad in ([0, 3], [-1, 0]):
        with pytest.raises(tx.OutOfRangeError, match=str(bad[0] or bad[1])):
            step(tx.tensor(bad))
    with tx.no_grad():
        rows.add_(1)
    with pytest.raises(tx.OutOfRangeError, match="2"):
        step(tx.tensor([0, 2]))
    assert w.tolist() == moved
    with tx.no_grad():
        rows.sub_(1)
    step(tx.tensor([-100, 1]))
    assert w.tolist()[0] == moved[0]
    assert w.tolist()[1] != moved[1]
    assert repr(step).count("recorded 1 time")
