"""``explain``: what ran, what forced it, and why a program was not known.

Misses are always noted, they are rare and cost a compilation anyway.  Runs are
counted by the line that forced them only while somebody asks.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from typing import Any, NamedTuple

import jax

from .graph import aval_of, caller_line
from .stats import counts
from .trail import Event

SHOWN = 8  # lines and misses in a report, which is to fit a screen


class Miss(NamedTuple):
    """A program that was not known."""

    where: str  # the line that forced it
    cause: str
    ops: int
    whole: bool  # compiled as one, rather than run op by op
    why: Parting
    seconds: list[float]  # filled once it has run


misses: deque[Miss] = deque(maxlen=32)
listeners: list[Explanation] = []
spent = [0.0]  # seconds that all misses took


class Explanation:
    """What ran since it was made, or since its ``with`` block began; print it."""

    def __init__(self, whole: bool) -> None:
        self.since = dict.fromkeys(counts, 0) if whole else dict(counts)
        self.until: dict[str, int] | None = None
        self.spent = 0.0 if whole else spent[0]
        self.lines: Counter[tuple[str, str]] = Counter()
        self.misses: list[Miss] = list(misses) if whole else []
        self.ran: list[Ran] = []

    def __enter__(self) -> Explanation:
        self.__init__(whole=False)  # type: ignore[misc]
        listeners.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        listeners.remove(self)
        self.until = dict(counts)
        self.spent = spent[0] - self.spent

    @property
    def counts(self) -> dict[str, int]:
        """Programs run, hits, misses and XLA compilations in its time."""
        now = self.until or counts
        return {name: now[name] - self.since[name] for name in counts}

    @property
    def compile_seconds(self) -> float:
        """Seconds spent on programs that were not known: tracing, compiling, the first run."""
        return self.spent if self.until is not None else spent[0] - self.spent

    def hlo(self) -> list[str]:
        """The text of each program that ran in the ``with`` block, as XLA compiled it; compiled once more for that.

        Collectives are found there by name: ``all-reduce``, ``all-gather``.

        Raises:
            AutogradError: a program was too long to be compiled as one, or was run op by op.
        """
        return [r.program.text(r.arrays, r.floats, r.ints) for r in self.ran]

    def __str__(self) -> str:
        c = self.counts
        lines = [
            f"{c['programs run']} programs run: {c['hits']} known, {c['misses']} new "
            f"({c['xla programs compiled']} compiled by XLA, {self.compile_seconds:.2f} s with their first run)"
        ]
        if self.lines:
            lines.append("forced by")
            lines += [f"  {n:6d} x {cause} at {where}" for (where, cause), n in self.lines.most_common(SHOWN)]
            lines += _more(len(self.lines) - SHOWN, "line")
        if self.misses:
            lines.append("new because")
            for m in self.misses[-SHOWN:]:
                took = f"{m.seconds[0]:.2f} s" if m.seconds else "not run"
                how = "" if m.whole else ", run op by op since graphs here did not come back"
                lines.append(f"  {m.where}, {m.cause}: {m.ops} op(s), {took}{how}")
                lines.append(f"    {m.why}")
            lines += _more(len(self.misses) - SHOWN, "earlier one")
        return "\n".join(lines)

    __repr__ = __str__


def _more(n: int, what: str) -> list[str]:
    return [f"  ... and {n} {what}{'s' if n > 1 else ''}"] if n > 0 else []


def explain() -> Explanation:
    """What the executor ran and why, in plain words.

    Returns:
        An object to print.  As it is, it tells of everything since the start; as a
        context manager, of its block, with the lines of your code that forced each
        run.  ``counts``, ``lines``, ``misses`` and ``compile_seconds`` hold the same.

    Example:
        >>> with explain() as report:
        ...     tensor([1.0, 2.0]).sum().item()
        3.0
        >>> report.counts["programs run"]
        1
        >>> print(report)  # doctest: +ELLIPSIS
        1 programs run: ...
    """
    return Explanation(whole=True)


class Ran(NamedTuple):
    """A program that ran, and what it ran on."""

    program: Any
    arrays: tuple[Any, ...]  # avals with shardings
    floats: int
    ints: int


def note_run(cause: str, program: Any, trail: Any) -> None:
    """Somebody listens: count a run under the line that forced it."""
    where = caller_line()
    like = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding if a.committed else None) for a in trail.arrays]
    ran = Ran(program, tuple(like), len(trail.floats), len(trail.ints))
    for listener in listeners:
        listener.lines[where, cause] += 1
        if ran not in listener.ran:
            listener.ran.append(ran)


class Timed:
    """Measures what a new program takes until it has run."""

    def __init__(self, event: Event, cause: str, program: Any, began: float) -> None:
        self.miss = Miss(caller_line(), cause, program.steps, program.known, parting(event), [])
        self.began = began
        misses.append(self.miss)
        for listener in listeners:
            listener.misses.append(self.miss)
        _remember(event)

    def stop(self) -> None:
        """It has run, or failed to."""
        seconds = time.perf_counter() - self.began
        self.miss.seconds.append(seconds)
        spent[0] += seconds


def _remember(event: Event | None) -> None:
    while event is not None and not event.familiar:
        event.familiar = True
        event = event.parent


class Parting(NamedTuple):
    """Where a path leaves those that were run before."""

    end: Event
    here: Event | None  # the first event that was new; None if all were known
    known: Event | None  # what was known in its place
    again: bool  # the whole path was run before

    def __str__(self) -> str:
        if self.here is None:
            if self.end.programs[:-1]:
                return "the same ops were known, but other results are held now, or memory that was free is not"
            if self.again:
                return "the same ops were run before, op by op, and came back"
            return "the same ops were part of a longer program, now a value is needed before its end"
        ops, at = 0, self.here.parent
        while at is not None:
            ops += at.call is not None
            at = at.parent
        before = f"after {ops} op{'s' if ops != 1 else ''} alike, " if ops else ""
        if self.known is not None:
            return f"{before}{_describe(self.here)} where {_describe(self.known)} was known"
        if not ops:
            return "nothing like it was run before"
        return f"{before}{_describe(self.here)} comes where a known program ended"


def parting(event: Event) -> Parting:
    """Where the path to ``event`` is new, to be told when somebody asks."""
    at, here = event, None
    while at.parent is not None and not at.familiar:
        at, here = at.parent, at
    if here is None:
        return Parting(event, None, None, event.seen > 1)
    others = [e for e in at.after.values() if e is not here and e.familiar]
    alike = [e for e in others if _kind(e) == _kind(here)] or others
    return Parting(event, here, alike[-1] if alike else None, False)


def _kind(event: Event) -> Any:
    if event.call is not None:
        return event.call.name
    key = event.key
    return key[0] if isinstance(key, tuple) and isinstance(key[0], str) else "input"


def _describe(event: Event) -> str:
    if event.call is not None:
        shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in event.call.avals)
        return f"[{event.call.describe(dict.fromkeys(event.call.present, '·'))}] of ({shapes})"
    kind = _kind(event)
    if kind == "input":
        aval = aval_of(event.key[0] if isinstance(event.key, tuple) else event.key)
        return f"an input {aval.dtype}{list(aval.shape)}"
    if kind == "backward":
        stored = sum(c is not None for c in event.key[2][len(event.key[1]) :])
        return f"backward() with {stored} gradients already stored" + (", graph retained" if event.key[3] else "")
    if kind == "checkpoint":
        return "the end of a checkpoint" if event.key[1] == "end" else "a checkpoint"
    if kind == "gradient":
        return f"value_and_grad() by {len(event.key[2])} tensor(s)"
    return f"an operand of another kind ({kind})"
