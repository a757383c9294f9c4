"""Ops whose shapes depend on values, statistics that are written, and factorisations put together again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx

F, L = tx.nn.functional, tx.linalg
X = np.random.default_rng(0).normal(size=(3, 3)) + 2 * np.eye(3)

NEED_VALUES: dict[str, Callable[[Any], Any]] = {
    "nonzero": lambda x: tx.nonzero(x),
    "unique": lambda x: tx.unique(x),
    "histc": lambda x: tx.histc(x),
    "bincount": lambda x: tx.bincount((x * 0).long().reshape(-1)),
    "repeat_interleave": lambda x: tx.repeat_interleave(x, (x[0] * 0).long(), 0),
    "masked_select": lambda x: tx.masked_select(x, x > 0),
}


@pytest.mark.parametrize("name", NEED_VALUES)
@pytest.mark.parametrize("transform", [jax.jit, tx.jit, tx.vmap, jax.vmap])
def test_no_values_in_a_trace(name: str, transform: Any) -> None:
    with pytest.raises(tx.AutogradError, match=r"depends on.*do not exist inside jax.jit, vmap"):
        transform(NEED_VALUES[name])(tx.tensor(X[None].repeat(2, 0) if "map" in str(transform) else X))


def test_what_is_known_works_in_a_trace() -> None:
    def f(x: tx.Tensor) -> tx.Tensor:
        parts = (
            tx.sort(x, 1).values,
            tx.cumprod(x, 0),
            F.layer_norm(x, (3,)),
            tx.scatter_add(x, 0, tx.tensor([[1]]), x),
        )
        return sum(p.sum() * k for k, p in enumerate(parts, 1)) + tx.det(x) + L.svdvals(x).sum()

    x = tx.tensor(X)
    want = tx.grad(f)(x)
    assert np.allclose(jax.jit(lambda v: f(tx.as_tensor(v)).jax())(x.jax()), f(x).item())
    leaf = tx.tensor(X, requires_grad=True)
    f(leaf).backward()
    replayed = jax.grad(tx.record(f)(x).as_jax())(x.jax())
    for got in (leaf.grad.numpy(), np.asarray(replayed)):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-10)


def test_masked_scatter_counts() -> None:
    mask = tx.tensor([True, False, True])
    assert tx.masked_scatter(tx.zeros(3), mask, tx.tensor([5.0, 6.0, 7.0])).tolist() == [5.0, 0.0, 6.0]
    assert tx.masked_scatter(tx.zeros(3), mask & False, tx.zeros(0)).tolist() == [0.0] * 3
    with pytest.raises(IndexError):
        tx.masked_scatter(tx.zeros(3), mask, tx.tensor([5.0])).tolist()


def test_running_statistics() -> None:
    x = tx.tensor(np.arange(12.0).reshape(2, 3, 2), requires_grad=True)
    mean, var = tx.zeros(3, dtype=tx.float64), tx.ones(3, dtype=tx.float64)
    for _ in range(2):
        F.batch_norm(x, mean, var, training=True, momentum=0.5).sum().backward()
    batch = x.detach().numpy().transpose(1, 0, 2).reshape(3, 4)
    np.testing.assert_allclose(mean.numpy(), 0.75 * batch.mean(1))
    np.testing.assert_allclose(var.numpy(), 0.25 + 0.75 * batch.var(1, ddof=1))
    before = mean.tolist()
    F.batch_norm(x, mean, var)
    assert mean.tolist() == before
    assert not mean.requires_grad
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    ours, theirs = (tx.zeros(3), tx.ones(3)), (torch.zeros(3), torch.ones(3))
    image = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
    F.instance_norm(tx.tensor(image), *ours)
    torch.nn.functional.instance_norm(torch.tensor(image), *theirs)
    for mine, his in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), his.numpy(), rtol=1e-5)


def test_in_place_forms() -> None:
    x = tx.zeros(2, 3)
    x.index_fill_(1, tx.tensor([0]), 2.0).scatter_(1, tx.tensor([[2], [2]]), 1.0).index_add_(
        0, tx.tensor([0]), tx.ones(1, 3)
    )
    assert x.tolist() == [[3.0, 1.0, 2.0], [2.0, 0.0, 1.0]]
    assert x.cumsum_(1).tril_().tolist() == [[3.0, 0.0, 0.0], [2.0, 2.0, 0.0]]
    assert x.masked_fill_(x == 0, -1).index_put_((tx.tensor([1]), tx.tensor([2])), 9.0).tolist() == [
        [3.0, -1.0, -1.0],
        [2.0, 2.0, 9.0],
    ]
    leaf = tx.zeros(2, requires_grad=True)
    with pytest.raises(tx.AutogradError, match="leaf"):
        leaf.index_fill_(0, tx.tensor([0]), 1.0)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 3), (0, 2, 2), (3, 0)])
def test_factors_give_the_matrix_back(shape: tuple[int, ...]) -> None:
    a = tx.tensor(np.random.default_rng(3).normal(size=shape))
    for full in (True, False):
        u, s, v = L.svd(a, full_matrices=full)
        k = s.shape[-1]
        np.testing.assert_allclose((u[..., :k] * s.unsqueeze(-2) @ v[..., :k, :]).numpy(), a.numpy(), atol=1e-12)
        for q in (u, v.mT):
            gram = (q.mT @ q).numpy()
            np.testing.assert_allclose(gram, np.broadcast_to(np.eye(gram.shape[-1]), gram.shape), atol=1e-12)
    for mode in ("reduced", "complete"):
        q, r = L.qr(a, mode)
        np.testing.assert_allclose((q @ r).numpy(), a.numpy(), atol=1e-12)
        assert q.shape[-1] == (shape[-2] if mode == "complete" else min(shape[-2:]))


def test_equal_values_have_gradients_where_vectors_are_not_used() -> None:
    x = tx.eye(3, dtype=tx.float64).requires_grad_()
    (L.svdvals(x).sum() + L.eigvalsh(x).sum() + L.det(x)).backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.eye(3), atol=1e-12)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_det_of_singular_matrices(rank: int) -> None:
    a = np.diag([1.0, 2.0, 3.0][:rank] + [0.0] * (3 - rank))
    x = tx.tensor(a, requires_grad=True)
    tx.det(x).backward()
    want = np.diag([0.0, 0.0, 2.0]) if rank == 2 else np.zeros((3, 3))
    np.testing.assert_allclose(x.grad.numpy(), want, atol=1e-12)


def test_zeros_in_products_differentiate_twice() -> None:
    x = jnp.array([2.0, 0.0, 3.0, 0.0])
    for f in (lambda v: tx.rules.prod(v, dims=(0,)), lambda v: tx.rules.cumprod(v, dim=0)[-1]):
        want = np.zeros((4, 4))
        want[1, 3] = want[3, 1] = 6.0
        np.testing.assert_allclose(jax.hessian(f)(x), want)
        assert jax.grad(f)(x).tolist() == [0.0] * 4


def test_half_types() -> None:
    x = tx.tensor(X, dtype=tx.float16, requires_grad=True)
    for out in (L.inv(x), L.svdvals(x), F.layer_norm(x, (3,)), tx.norm(x), tx.cumsum(x, 0)):
        assert out.dtype == tx.float16
        out.sum().backward()
    assert x.grad.dtype == tx.float16
