"""Train on handwritten digits over eight devices, data parallel: the losses of one device.

    python examples/data_parallel.py

Eight devices of the host stand for eight GPUs.  The loop is the one of one device; what
changes is where tensors lie: the batch in parts, the parameters whole on each device.
XLA's program then sums the gradients, and nothing else goes from device to device.
"""

import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
from jax.sharding import PartitionSpec as P
from sklearn.datasets import load_digits

import torsh_fx as tx
from torsh_fx.nn import functional as F

BATCH, STEPS, RATE, HIDDEN = 256, 60, 0.5, 64


def parameters():
    rng = np.random.default_rng(0)
    shapes = ((64, HIDDEN), (HIDDEN,), (HIDDEN, 10), (10,))
    return [(rng.standard_normal(s) * (0.2 if len(s) > 1 else 0)).astype(np.float32) for s in shapes]


def net(params, x):
    w1, b1, w2, b2 = params
    return F.relu(x @ w1 + b1) @ w2 + b2


def train(pixels, labels, place, place_batch):
    params = [place(p).requires_grad_() for p in parameters()]
    rng = np.random.default_rng(1)
    losses = []
    for _ in range(STEPS):
        rows = rng.integers(0, len(pixels), BATCH)
        x, y = place_batch(pixels[rows]), place_batch(labels[rows])
        loss = F.cross_entropy(net(params, x), y)
        loss.backward()
        with tx.no_grad():
            for p in params:
                p -= RATE * p.grad
                p.grad = None
        losses.append(loss.item())
    return losses, params


def main():
    pixels, labels = load_digits(return_X_y=True)
    pixels = (pixels / 16).astype(np.float32)
    alone, _ = train(pixels, labels, tx.tensor, tx.tensor)

    mesh = jax.make_mesh((8,), ("data",))
    with tx.explain() as report:
        together, params = train(
            pixels,
            labels,
            place=lambda p: tx.distribute(p, mesh),  # whole on each device
            place_batch=lambda b: tx.distribute(b, mesh, P("data")),  # 32 rows on each
        )
    for step in (0, 20, 40, STEPS - 1):
        print(f"step {step:2d}  one device {alone[step]:.6f}  eight devices {together[step]:.6f}")
    print(f"the first layer lies on {len(params[0].detach().jax().devices())} devices, as {params[0].device.spec}")
    text = report.hlo()[-1]  # of the program that most steps ran
    print(f"its program: {text.count(' all-reduce(')} all-reduce, {text.count(' all-gather(')} all-gather")
    assert np.allclose(alone, together, rtol=1e-4), "the losses should not depend on the number of devices"
    assert " all-reduce(" in text
    assert " all-gather(" not in text
    assert together[-1] < 0.3


if __name__ == "__main__":
    main()
