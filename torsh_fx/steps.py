"""The ops of a program that is being built: what each calls, where from, where to, and who reads what last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Step(NamedTuple):
    """One op of a program: what to call, where from, where to."""

    call: Any
    reads: tuple[int, ...]  # places of operands (~k: k-th input)
    runtime: tuple[Any, ...]  # ("f", k), ("i", k) or a place
    writes: int

    def places(self) -> list[int]:
        """Everything it reads."""
        return [*self.reads, *places_of(self.runtime)]


def places_of(references: Iterable[Any]) -> list[int]:
    """Those of ``references`` that are places, not numbers."""
    return [r for r in references if not isinstance(r, tuple)]


def last_reads(stretches: Sequence[Sequence[Step]], outputs: Iterable[int]) -> dict[int, int]:
    """Which stretch of a program reads each place last; what comes out is read after all of them."""
    last = {p: k for k, stretch in enumerate(stretches) for step in stretch for p in step.places()}
    last.update(dict.fromkeys(outputs, len(stretches)))
    return last


def append(steps: list[Step], call: Any, reads: tuple[int, ...], runtime: tuple[Any, ...]) -> int:
    """Add a step at the end; the place that it writes."""
    steps.append(Step(call, reads, runtime, len(steps)))
    return len(steps) - 1
