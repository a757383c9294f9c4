"""One of two processes of ``test_processes``: ``python process_worker.py address index what``."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import torsh_fx as tx

F = tx.nn.functional
SIZE = 16


def data() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((SIZE, 4)).astype(np.float32)
    return x, np.argmax(x[:, :3], 1), rng.standard_normal((4, 3)).astype(np.float32)


def losses_of(x: tx.Tensor, y: tx.Tensor, w: tx.Tensor, steps: int, pause: float = 0) -> list[float]:
    found = []
    for _ in range(steps):
        loss = F.cross_entropy(x @ w, y)
        loss.backward()
        with tx.no_grad():
            w -= 0.5 * w.grad
            w.grad = None
        found.append(loss.item())
        time.sleep(pause)
    return found


def refused(call: Any, *words: str) -> None:
    with pytest.raises(tx.AutogradError) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value


def everything(index: int, mesh: Any) -> None:
    x, y, w = data()
    mine = slice(index * SIZE // 2, (index + 1) * SIZE // 2)
    xs = tx.distribute(x[mine], mesh, P("data"), local=True)
    ys = tx.distribute(y[mine], mesh, P("data"), local=True)
    assert xs.shape == (SIZE, 4)
    weight = tx.distribute(w, mesh).requires_grad_()
    losses = losses_of(xs, ys, weight, 3)
    split = tx.distribute(w, mesh, P("data")).requires_grad_()  # the weight itself lies in parts
    np.testing.assert_allclose(losses_of(xs, ys, split, 3), losses, rtol=1e-5)
    total = (xs @ weight).sum()
    if index == 0:  # the other one does not look, and does not come to a collective
        for call in (total.item, lambda: str(total), lambda: bool(total > 0), total.detach().numpy):
            refused(call, "several processes", "synchronize()")
    tx.synchronize()
    if index == 0:
        assert np.isfinite(total.item())
        assert "tensor(" in str(total)
        print("LOSSES", *losses, flush=True)
    refused(xs.numpy, "only its part", f"[{SIZE}, 4]", "distribute")
    whole = tx.distribute(xs, mesh)
    np.testing.assert_array_equal(whole.numpy(), x)
    rows = F.embedding(ys + 0, weight.detach().t())  # an index that the program checks
    tx.synchronize(rows)
    assert rows.shape == (SIZE, 4)
    step = tx.compile(lambda: _step(xs, ys, weight))
    first = step().item()
    assert step().item() < first
    bad = tx.distribute(np.full(SIZE // 2, 7), mesh, P("data"), local=True)
    with pytest.raises(IndexError, match="7"):
        F.cross_entropy(xs @ weight, bad)


def _step(x: tx.Tensor, y: tx.Tensor, w: tx.Tensor) -> tx.Tensor:
    loss = F.cross_entropy(x @ w, y)
    loss.backward()
    with tx.no_grad():
        w -= 0.5 * w.grad
        w.grad = None
    return loss


def dies(index: int, mesh: Any) -> None:
    x, y, w = data()
    xs, ys = (tx.distribute(a, mesh, P("data")) for a in (x, y))
    weight = tx.distribute(w, mesh).requires_grad_()
    losses_of(xs, ys, weight, 1)
    print("BEGAN", flush=True)
    if index == 1:
        os._exit(7)
    losses_of(xs, ys, weight, 10_000, pause=0.05)


if __name__ == "__main__":
    place, number, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    tx.connect_processes(place, 2, number, timeout=60, heartbeat=5)
    assert jax.device_count() == 4
    {"everything": everything, "dies": dies}[what](number, jax.make_mesh((4,), ("data",)))
    print("DONE", flush=True)
