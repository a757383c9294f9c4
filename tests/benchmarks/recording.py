"""What a tiny op costs us to record and PyTorch to run, in graphs of different lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from columns import IMPERATIVE, PYTORCH, torch_or_none
from timing import Times, interleaved

import torsh_fx as tx

SHORT, LONG = 64, 1024
RECORD, READ = "record", "record, key and run"


def measure_recording(rounds: int) -> Times:
    """Seconds an op: PyTorch's, ours recorded only (short and long graph), ours recorded, keyed and run."""
    torch = torch_or_none()
    runs = {
        (IMPERATIVE, RECORD, SHORT): _chain(tx, SHORT, read=False),
        (IMPERATIVE, RECORD, LONG): _chain(tx, LONG, read=False),
        (IMPERATIVE, READ, SHORT): _chain(tx, SHORT, read=True),
    }
    if torch:
        runs[PYTORCH, READ, SHORT] = _chain(torch, SHORT, read=True)
        runs[PYTORCH, READ, LONG] = _chain(torch, LONG, read=True)
    times = interleaved({label(*key): run for key, run in runs.items()}, rounds)
    return {label(*key): [t / key[2] for t in times[label(*key)]] for key in runs}


def label(column: str, what: str, length: int) -> str:
    return f"{column}: {what}, {length} ops"


class _Nothing:
    """Nothing to wait for."""

    def item(self) -> None:
        return None


def _chain(lib: Any, length: int, read: bool) -> Callable[[], Any]:
    x = lib.tensor(np.ones(1, np.float32), requires_grad=True)
    y = lib.tensor(np.ones(1, np.float32))
    nothing = _Nothing()

    def run() -> Any:
        h = x
        for _ in range(length):
            h = h * y
        return h if read else nothing

    return run
