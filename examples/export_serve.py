"""Train a classifier here, serve it from a process that has JAX and nothing else.

    python examples/export_serve.py

The trained net leaves as one file of StableHLO: any batch size, for CPU, GPU and TPU, with
its gradient.  The server is a second Python process in which importing torsh_fx is made
impossible; its answers are compared with ours, bit for bit.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import torsh_fx as tx
from torsh_fx.nn import functional as F

SERVER = """
import sys
sys.modules["torsh_fx"] = None  # importing it is an error from here on
import jax, numpy as np
from jax import export

model = export.deserialize(bytearray(open("digits.jax", "rb").read()))  # all there is to loading
x = np.load("requests.npy")
np.save("answers.npy", model.call(x))
# Which pixels speak for the answer?  The gradient came with the file.
np.save("pixels.npy", jax.grad(lambda x: model.call(x).max(1).sum())(x))
print(f"server: {len(x)} digits on {jax.default_backend()}, torsh_fx loaded: {sys.modules.get('torsh_fx') is not None}")
"""


def net(params, x):
    w1, b1, w2, b2 = params
    return F.log_softmax(F.relu(x @ w1 + b1) @ w2 + b2, 1)


def train(x_train, y_train):
    tx.manual_seed(0)
    params = [tx.randn(64, 64) * 0.2, tx.zeros(64), tx.randn(64, 10) * 0.2, tx.zeros(10)]
    for p in params:
        p.requires_grad_()
    x, y = tx.tensor(x_train), tx.tensor(y_train)
    for _ in range(200):
        F.nll_loss(net(params, x), y).backward()
        with tx.no_grad():
            for p in params:
                p -= 0.5 * p.grad
                p.grad = None
    return params


def serve(directory):
    env = {**os.environ, "XLA_FLAGS": os.environ.get("XLA_FLAGS", "")}
    subprocess.run([sys.executable, "-c", SERVER], cwd=directory, env=env, check=True, timeout=120)
    return (np.load(os.path.join(directory, name)) for name in ("answers.npy", "pixels.npy"))


def main():
    pixels, labels = load_digits(return_X_y=True)
    pixels = (pixels / 16).astype(np.float32)
    x_train, x_test, y_train, y_test = train_test_split(pixels, labels, random_state=0, stratify=labels)
    params = train(x_train, y_train)
    tape = tx.record(lambda x: net(params, x))(tx.tensor(x_train[:2]))
    made = tape.export(shapes="batch, 64", vjp_order=1)
    print(made)
    with tempfile.TemporaryDirectory() as directory:
        made.save(os.path.join(directory, "digits.jax"))
        np.save(os.path.join(directory, "requests.npy"), x_test)
        print(f"saved {os.path.getsize(os.path.join(directory, 'digits.jax')) / 1024:.0f} KiB, parameters included")
        answers, sensitivity = serve(directory)
    ours = made(x_test)
    accuracy = (answers.argmax(1) == y_test).mean()
    print(f"test accuracy as served {accuracy:.1%}; the same bits as here: {np.array_equal(answers, ours)}")
    assert np.array_equal(answers, ours)
    assert sensitivity.shape == x_test.shape
    assert accuracy > 0.95


if __name__ == "__main__":
    main()
