"""Timing steps side by side: rounds in which every column runs once, in an order drawn anew."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Run = Callable[[], Any]  # what it returns has item(), which waits for it
Times = dict[str, list[float]]  # seconds a call, by column, a number a round

ROUND = 0.03  # seconds that a column's turn in a round shall take
WARM = 5  # calls before anything is timed


def seconds(run: Run, calls: int) -> float:
    """Seconds a call, of ``calls`` in a row with one wait at the end."""
    began = time.perf_counter()
    for _ in range(calls):
        out = run()
    out.item()
    return (time.perf_counter() - began) / calls


def calls_a_round(run: Run) -> int:
    seconds(run, WARM)
    once = min(seconds(run, 1) for _ in range(3))
    several = min(max(int(ROUND / once), 1), 50)
    return min(max(int(ROUND / seconds(run, several)), 1), 5000)


def interleaved(runs: Mapping[str, Run], rounds: int) -> Times:
    """Each round calls each column as often as fits its turn, after one call that is not counted.

    That call brings the column's data back into the caches and lets threads
    that the column before left spinning go to sleep.
    """
    calls = {name: calls_a_round(run) for name, run in runs.items()}
    found: Times = {name: [] for name in runs}
    draw = random.Random(0)
    for _ in range(rounds):
        for name in draw.sample(list(runs), len(runs)):
            seconds(runs[name], 1)
            found[name].append(seconds(runs[name], calls[name]))
    return found


def ratios(of: Sequence[float], to: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(of, to, strict=True)]


def median_and_quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high
