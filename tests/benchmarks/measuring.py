"""Measuring one workload: build every column, see that they agree, time them side by side."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from columns import BY_HAND, COLUMNS, FUNCTIONAL, Step, by_hand
from hlo import same_program
from timing import Times, interleaved, ratios
from workload import Workload

ROLLED = "by hand, lax.scan"


@dataclass
class Measured:
    """What was found for a workload."""

    name: str
    times: Times
    first: dict[str, float]  # seconds of the first step: tracing, compiling, running
    same: bool  # XLA made one and the same program of the functional path and of the one by hand

    def ratio(self, of: str, to: str) -> list[float] | None:
        """One ratio a round, or None where a column is missing; 1 where the program is the same."""
        if of not in self.times or to not in self.times:
            return None
        if self.same and {of, to} == {FUNCTIONAL, BY_HAND}:
            return [1.0] * len(self.times[of])
        return ratios(self.times[of], self.times[to])


def measure(w: Workload, rounds: int, columns: Collection[str]) -> Measured:
    steps = {name: step for name in columns if (step := COLUMNS[name](w)) is not None}
    if w.rolled is not None and BY_HAND in steps:
        steps[ROLLED] = by_hand(w, w.rolled)
    first = {name: _first(step) for name, step in steps.items()}
    _check_agreement(w, steps)
    texts = [
        program().as_text() for name in (FUNCTIONAL, BY_HAND) if name in steps and (program := steps[name].program)
    ]
    same = len(texts) == 2 and same_program(*texts)
    times = interleaved({name: step.run for name, step in steps.items()}, rounds)
    return Measured(w.name, times, first, same)


def _first(step: Step) -> float:
    began = time.perf_counter()
    step.run().item()
    return time.perf_counter() - began


def _check_agreement(w: Workload, steps: dict[str, Step]) -> None:
    """Every column has to move the parameters alike, else the times mean nothing."""
    for step in steps.values():
        step.run()
    moves = {n: [new - old for new, old in zip(s.params(), w.params, strict=True)] for n, s in steps.items()}
    reference, expected = next(iter(moves.items()))
    for name, found in moves.items():
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            grain = np.abs(w.params[k]).max() * np.finfo(np.float32).eps
            worst, allowed = np.abs(a - b).max(), 0.01 * np.abs(b).max() + 8 * grain
            if not worst <= allowed:
                raise AssertionError(f"{w.name}: {name} moves parameter {k} otherwise than {reference}, by {worst:.2g}")
