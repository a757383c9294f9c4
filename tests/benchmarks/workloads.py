"""The workloads, by name."""

from __future__ import annotations

from attention import attention
from convolution import cnn
from dense import factorisation, mlp
from sequences import chain, lstm

WORKLOADS = {
    w.name: w
    for w in (
        mlp(8, 16, 32, quick=True),
        mlp(64, 64, 128, quick=True),
        mlp(256, 784, 512),
        attention(8, 32, 64, quick=True),
        attention(8, 128, 256),
        cnn(64, 1, 8, 8, quick=True),
        cnn(64, 1, 28, 28),
        lstm(),
        chain(),
        factorisation(),
    )
}
