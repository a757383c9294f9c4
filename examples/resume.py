"""Train with checkpoints, kill the process in the middle, resume, and end with the same parameters.

    python -m pip install 'torsh_fx[safetensors,examples]'
    python examples/resume.py

A classifier of handwritten digits is trained with momentum and dropout, once without interruption.
Then a process that does the same is killed (SIGKILL) while it trains, and another one goes on from
the checkpoint that it left. The files they end with are equal, byte for byte.
"""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from torsh_fx.interop import safetensors

import torsh_fx as tx
from torsh_fx.nn import functional as F

EPOCHS, KILLED_AFTER, BATCH, RATE, MOMENTUM = 6, 3, 64, 0.1, 0.9


def start():
    """What training starts from, and what a checkpoint holds: parameters, momentum, random numbers, progress."""
    generator = tx.Generator()
    generator.manual_seed(0)
    w1, w2 = (tx.randn(n, m, generator=generator) * (2 / n) ** 0.5 for n, m in ((64, 128), (128, 10)))
    params = {"w1": w1, "b1": tx.zeros(128), "w2": w2, "b2": tx.zeros(10)}
    return {
        "params": {name: p.detach().requires_grad_() for name, p in params.items()},
        "velocity": {name: tx.zeros_like(p) for name, p in params.items()},
        "generator": generator,
        "epoch": 0,
    }


def loss_of(p, x, y, generator):
    hidden = F.dropout(F.relu(x @ p["w1"] + p["b1"]), 0.2, generator=generator)
    return F.cross_entropy(hidden @ p["w2"] + p["b2"], y)


def train(folder):
    tx.persistent_cache(folder.parent / "compiled")  # the processes after the first compile nothing
    checkpoint = folder / "checkpoint.safetensors"
    state = start()
    if checkpoint.exists():
        state = safetensors.load(checkpoint, like=state)
        print(f"resumed after epoch {state['epoch']}", flush=True)
    params, velocity = state["params"], state["velocity"]
    pixels, labels = load_digits(return_X_y=True)
    pixels = (pixels / 16).astype(np.float32)
    while state["epoch"] < EPOCHS:
        order = np.random.default_rng(state["epoch"]).permutation(len(pixels))
        total = 0.0
        for begin in range(0, len(order) - BATCH, BATCH):
            rows = order[begin : begin + BATCH]
            loss = loss_of(params, tx.tensor(pixels[rows]), tx.tensor(labels[rows]), state["generator"])
            loss.backward()
            with tx.no_grad():
                for name, p in params.items():
                    velocity[name].mul_(MOMENTUM).add_(p.grad)
                    p -= RATE * velocity[name]
                    p.grad = None
            total += loss.item() / (len(order) // BATCH)
        state["epoch"] += 1
        safetensors.save(state, checkpoint, metadata={"example": "resume"})
        print(f"epoch {state['epoch']}: loss {total:.4f}, saved", flush=True)


def run(folder, kill_after=None):
    """Train in a process of its own; kill it in the epoch after ``kill_after``."""
    child = subprocess.Popen([sys.executable, __file__, str(folder)], stdout=subprocess.PIPE, text=True)
    for line in child.stdout:
        print(line.rstrip())
        if kill_after is not None and line.startswith(f"epoch {kill_after}:"):
            child.send_signal(signal.SIGKILL)
            print("killed")
            break
    child.stdout.close()
    return child.wait()


def main():
    with tempfile.TemporaryDirectory() as temporary:
        whole, cut = Path(temporary) / "whole", Path(temporary) / "cut"
        for folder in (whole, cut):
            folder.mkdir()
        print("without interruption:")
        train(whole)
        print("interrupted:")
        assert run(cut, kill_after=KILLED_AFTER) == -signal.SIGKILL
        print("and resumed:")
        assert run(cut) == 0
        a, b = ((folder / "checkpoint.safetensors").read_bytes() for folder in (whole, cut))
        assert a == b, "the resumed run must end where the other one did"
        params = safetensors.load_file(cut / "checkpoint.safetensors")
        print(f"all {len(params)} arrays of both runs are equal, byte for byte ({len(a):,} bytes)")


if __name__ == "__main__":
    train(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
