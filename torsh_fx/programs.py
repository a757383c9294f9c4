"""The cache of programs: which are known, what is worth compiling, what is forgotten.

A program belongs to the event where its path ends.  The cache lists those events
in order of use and forgets the least used ones, with the stretch of their path
that leads nowhere else.

NOTE [storm]: a stream of graphs that never come back must not compile each of
them.  Compiling costs credit, which hits bring back; without credit a path that
is seen for the first time is run op by op, through executables of single ops.
A path that comes back is always compiled, so a loop has its program by its third
step at the latest.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict

from .liveness import Needs
from .program import Program
from .rules import ArgumentTypeError, ArgumentValueError
from .rules.kinds import shown
from .stats import counts
from .trail import NOTHING, Event, Root

CREDIT = 24.0  # programs that may be compiled at first sight
REGAIN = 0.5  # what a hit brings back
TINY = 3  # a path this short is always compiled: its op-by-op run would cost as much
EVENTS = 400_000  # all paths together
VARIANTS = 4  # programs of one path, for different holders
PATIENCE = 8  # wasteful uses before a program is made for what is really needed


class Cache:
    """Programs by the event that their path ends at, least recently used first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.credit = CREDIT
        self._ends: OrderedDict[Event, None] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return sum(len(e.programs) for e in list(self._ends))

    def hit(self, event: Event) -> None:
        """Note that a known program is used."""
        counts["hits"] += 1
        if self.credit < CREDIT:
            self.credit += REGAIN
        with contextlib.suppress(KeyError):  # another thread has just forgotten it
            self._ends.move_to_end(event)

    def find(self, event: Event, needs: Needs, cut: bool = True) -> Program | None:
        """A program that gives at least what is needed and overwrites at most what may be; in one piece if not ``cut``.

        One that gives much more, or leaves memory unused, is replaced once it was
        used so a few times: holders who come and go do not compile a program each.
        """
        best: Program | None = None
        for program in event.programs:
            fits = program.bits & needs.bits == needs.bits and needs.donatable.keys() >= set(program.donated)
            fits = fits and (cut or program.whole)
            if fits and (best is None or program.waste(needs) < best.waste(needs)):
                best = program
        if best is None:
            return None
        if best.waste(needs) and len(event.programs) < VARIANTS:
            best.wasted += 1
            if best.wasted > PATIENCE:
                best.wasted = 0
                return None
        self.hit(event)
        return best

    def widened(self, event: Event, needs: Needs) -> Needs:
        """What a new program is to give: of a path with several programs all that they give, and what all may take.

        Else holders that are others each time would make a program each.
        """
        if len(event.programs) < VARIANTS:
            return needs
        bits, donatable = needs.bits, needs.donatable
        for program in event.programs:
            bits |= program.bits
            donatable = {k: aval for k, aval in donatable.items() if k in program.donated}
        return needs._replace(bits=bits, donatable=donatable)

    def worth_compiling(self, event: Event, needs: Needs) -> bool:
        """Is the program of a path that has none to be compiled as a whole?"""
        counts["misses"] += 1
        return self.credit >= 1 or event.seen > 1 or needs.bits.bit_length() <= TINY

    def store(self, event: Event, program: Program) -> None:
        """Keep a new program, unless it was put together from single ops."""
        with self._lock:
            self._ends[event] = None
            self._ends.move_to_end(event)
            if program.known:
                self.credit = max(0.0, self.credit - 1)
                event.programs = (*event.programs, program)
            while len(self._ends) > self.size or (Root.made > EVENTS and self._ends):
                _forget(self._ends.popitem(last=False)[0])

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._ends.clear()
            Root.clear()
            self.credit = CREDIT

    def resize(self, size: int) -> None:
        """Keep at most ``size`` paths from now on."""
        with self._lock:
            self.size = size
            while len(self._ends) > size:
                _forget(self._ends.popitem(last=False)[0])


def _forget(event: Event) -> None:
    """Drop the programs of ``event`` and the part of its path that leads nowhere else."""
    event.programs, event.runs = (), NOTHING
    child: Event | None = event
    while child is not None and child.parent is not None and not child.after and not child.programs:
        parent = child.parent
        keys = [k for k, e in list(parent.after.items()) if e is child]
        for key in keys:
            del parent.after[key]
        if parent.stretches:
            parent.stretches = {way: s for way, s in parent.stretches.items() if s.events[0] is not child}
        Root.made -= bool(keys)  # else it was forgotten while a trail was there, and came back
        child = parent


CACHE = Cache(1024)


def set_cache_size(size: int) -> None:
    """Keep at most ``size`` different recorded steps and their programs; the least used are forgotten.

    Args:
        size: how many, at least 1; 1024 at the start.

    Raises:
        ArgumentTypeError: it is no integer.
        ArgumentValueError: it is less than 1.

    Example:
        >>> set_cache_size(1024)
    """
    if isinstance(size, bool) or not isinstance(size, int):
        raise ArgumentTypeError(f"set_cache_size takes an integer, got {shown(size)}")
    if size < 1:
        raise ArgumentValueError(f"set_cache_size takes at least 1, got {size}")
    CACHE.resize(size)
