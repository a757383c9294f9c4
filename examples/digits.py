"""Train a classifier on real handwritten digits, imperatively; then show that every path agrees.

    python examples/digits.py

Scikit-learn's 1,797 digits of 8 x 8 pixels, a two-layer net, SGD with momentum
in place.  Nothing is decorated: the loop is the one you would write in PyTorch.
Writes the loss curve to digits_loss.png beside the current directory.
"""

import time

import jax
import matplotlib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import torsh_fx as tx
from torsh_fx.nn import functional as F

matplotlib.use("Agg")
import matplotlib.pyplot as plt

EPOCHS, BATCH, RATE, MOMENTUM, HIDDEN = 40, 32, 0.1, 0.9, 128


def net(params, x):
    w1, b1, w2, b2 = params
    return F.relu(x @ w1 + b1) @ w2 + b2


def loss_of(params, x, y):
    return F.cross_entropy(net(params, x), y)


def parameters():
    def weight(n_in, n_out):
        return (tx.randn(n_in, n_out) * (2 / n_in) ** 0.5).requires_grad_()

    return [
        weight(64, HIDDEN),
        tx.zeros(HIDDEN, requires_grad=True),
        weight(HIDDEN, 10),
        tx.zeros(10, requires_grad=True),
    ]


def train(params, x_train, y_train):
    rng = np.random.default_rng(0)
    velocity = [tx.zeros_like(p) for p in params]
    curve = []
    for epoch in range(EPOCHS):
        rate = RATE * (1 - epoch / EPOCHS)  # a new number each epoch: no new program
        total = 0.0
        order = rng.permutation(len(x_train))
        for start in range(0, len(order), BATCH):  # the last batch is smaller
            rows = order[start : start + BATCH]
            x, y = tx.tensor(x_train[rows]), tx.tensor(y_train[rows])
            loss = loss_of(params, x, y)
            loss.backward()
            with tx.no_grad():
                for p, v in zip(params, velocity, strict=True):
                    v *= MOMENTUM
                    v += p.grad
                    p -= rate * v
                    p.grad = None
            total += loss.item() * len(rows)
        curve.append(total / len(order))
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:2d}  loss {curve[-1]:.4f}")
    return curve, (x, y)


def accuracy(params, x, y):
    with tx.no_grad():
        return (net(params, tx.tensor(x)).argmax(1) == tx.tensor(y)).float().mean().item()


def show_paths(params, x, y):
    """The last batch's gradient: functional, and by jax.grad of the replayed tape."""
    names = ("w1", "b1", "w2", "b2")
    plain = [p.detach() for p in params]
    value, grads = tx.value_and_grad(loss_of)(plain, x, y)
    tape = tx.record(loss_of)(plain, x, y)
    arrays = [p.jax() for p in plain]
    replayed = jax.jit(jax.grad(tape.as_jax()))(arrays, x.jax(), y.jax())
    print(f"\nlast batch: loss {value.item():.6f}; the tape has {len(tape)} ops and reads")
    print("\n".join(str(tape).splitlines()[:9]) + "\n  ...")
    for name, a, b in zip(names, grads, replayed, strict=True):
        gap = float(np.abs(a.numpy() - np.asarray(b)).max())
        print(f"  d loss/d {name}: value_and_grad and replay differ by at most {gap:.1e}")
        assert gap < 1e-6, name
    print("\ncross-check of all paths (PyTorch takes part where it is installed and runs the function):")
    report = tx.crosscheck(lambda w1, b1, w2, b2: loss_of((w1, b1, w2, b2), x, y), *plain, reference=reference(x, y))
    print(report.raise_if_failed())


def reference(x, y):
    """The same loss in plain JAX, by hand."""

    def loss(w1, b1, w2, b2):
        logits = jax.nn.relu(x.jax() @ w1 + b1) @ w2 + b2
        picked = jax.numpy.take_along_axis(jax.nn.log_softmax(logits), y.jax()[:, None], axis=1)
        return -picked.mean()

    return loss


def main():
    tx.manual_seed(0)
    pixels, labels = load_digits(return_X_y=True)
    pixels = (pixels / 16).astype(np.float32)
    x_train, x_test, y_train, y_test = train_test_split(pixels, labels, test_size=0.25, random_state=0, stratify=labels)
    began = time.perf_counter()
    params = parameters()
    curve, (x, y) = train(params, x_train, y_train)
    test = accuracy(params, x_test, y_test)
    seconds = time.perf_counter() - began
    compiled, ran = tx.stats()["xla programs compiled"], tx.stats()["programs run"]
    print(f"test accuracy {test:.1%} after {seconds:.1f} s; {compiled} XLA programs compiled, {ran} runs")
    assert test >= 0.97, "the net should reach 97 %"
    show_paths(params, x, y)
    plt.plot(range(1, EPOCHS + 1), curve)
    plt.xlabel("epoch")
    plt.ylabel("training loss")
    plt.title("digits")
    plt.savefig("digits_loss.png", dpi=100)
    print("\nloss curve saved to digits_loss.png")


if __name__ == "__main__":
    main()
