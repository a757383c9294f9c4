"""Two 3×3 convolutions of 32 channels, a mean over space and a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from workload import Draws, Workload, zeros

CHANNELS, CLASSES = 32, 10


def network(lib: Any, params: Sequence[Any], data: Sequence[Any]) -> Any:
    f = lib.nn.functional
    (w1, b1, w2, b2, w3, b3), (x, labels) = params, data
    h = f.relu(f.conv2d(x, w1, b1, padding=1))
    h = f.relu(f.conv2d(h, w2, b2, padding=1))
    return f.cross_entropy(f.linear(h.mean((2, 3)), w3, b3), labels)


def network_by_hand(params: Sequence[Any], data: Sequence[Any]) -> Any:
    (w1, b1, w2, b2, w3, b3), (x, labels) = params, data

    def conv(x: Any, w: Any, b: Any) -> Any:
        out = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
        return jax.nn.relu(out + b[:, None, None])

    h = conv(conv(x, w1, b1), w2, b2)
    logs = jax.nn.log_softmax(h.mean((2, 3)) @ w3.T + b3)
    return -jnp.take_along_axis(logs, labels[:, None], 1).mean()


def cnn(batch: int, channels: int, height: int, width: int, quick: bool = False) -> Workload:
    d = Draws()
    params = [d.weight(CHANNELS, channels, 3, 3), zeros(CHANNELS), d.weight(CHANNELS, CHANNELS, 3, 3), zeros(CHANNELS)]
    params += [d.weight(CLASSES, CHANNELS), zeros(CLASSES)]
    data = [d.normal(batch, channels, height, width), d.integers(CLASSES, batch)]
    name = f"cnn {batch}x{channels}x{height}x{width}"
    return Workload(name, params, data, network, network_by_hand, quick=quick)
