"""Steps whose structure is another each time, over fixed shapes: what never comes back must not compile a storm."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from columns import IMPERATIVE, PYTORCH, torch_or_none

import torsh_fx as tx

LAYERS, WARM, STEPS = 6, 100, 300


def measure_variety(batch: int, width: int) -> float:
    """Seconds of ``STEPS`` such steps, as a ratio to PyTorch's; both take the same ones, after ``WARM`` others."""
    torch = torch_or_none()
    if torch is None:
        return float("nan")
    return _seconds(tx, batch, width) / _seconds(torch, batch, width)


def _seconds(lib: Any, batch: int, width: int) -> float:
    step, draw = _random_step(lib, batch, width), random.Random(0)
    for _ in range(WARM):
        step(draw).item()
    began = time.perf_counter()
    for _ in range(STEPS):
        loss = step(draw)
    loss.item()
    return time.perf_counter() - began


def _random_step(lib: Any, batch: int, width: int) -> Callable[[random.Random], Any]:
    """A perceptron of two to six layers, each drawn from six weights and six activations, with skips and scaling."""
    numbers, f = np.random.default_rng(0), lib.nn.functional

    def tensor(*shape: int, scale: float = 1.0, grad: bool = True) -> Any:
        values = (numbers.standard_normal(shape) * scale).astype(np.float32)
        return lib.tensor(values, requires_grad=grad)

    weights = [tensor(width, width, scale=width**-0.5) for _ in range(LAYERS)]
    biases = [tensor(width, scale=0.0) for _ in range(LAYERS)]
    x, y = tensor(batch, width, grad=False), tensor(batch, width, grad=False)
    activations = [f.relu, lib.tanh, lib.sigmoid, f.gelu, lambda h: h * h * 0.1, lambda h: h.exp().clamp(max=2.0)]

    def step(draw: random.Random) -> Any:
        h, used = x, set()
        for _ in range(draw.randint(2, 6)):
            k = draw.randrange(LAYERS)
            used.add(k)
            new = draw.choice(activations)(f.linear(h, weights[k], biases[k]))
            if draw.random() < 0.5:
                new = new + h
            if draw.random() < 0.3:
                new = new / (1 + new.abs().mean())
            h = new
        loss = f.mse_loss(h, y)
        loss.backward()
        with lib.no_grad():
            for k in sorted(used):
                for p in (weights[k], biases[k]):
                    p -= 0.01 * p.grad
                    p.grad = None
        return loss

    return step


LABEL = f"{STEPS} steps of random structure, {{}}x{{}}: {IMPERATIVE} / {PYTORCH}"
