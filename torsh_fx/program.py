"""Building the XLA program of a run: expand, put in order, cut into segments.

Backward is expanded here and only here: while a program is built the engine
emits VJP nodes; a program that is known needs none.  A long program is cut
into segments; equal segments (by their canonical form) are compiled once.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import opbyop
from .engine import Plan, propagate
from .graph import Node, add_call, pullback
from .lru import LRU
from .meshes import constraint
from .regions import Again
from .rules import AutogradError
from .several import Pick, Several, joined
from .stats import counts
from .steps import Step, append, last_reads
from .trail import layouts, placed, where

WHOLE = 1500  # up to here XLA sees all of it and fuses best
SPARED = 1 << 28  # bytes that a first run may take more for not writing over anything
SEGMENT = 60  # steps of a segment, about: small enough to compile fast, large enough to be worth a call

_compiled: LRU[Any, Any] = LRU(4096)


class Segment(NamedTuple):
    """A stretch of a program that XLA compiles as one, and where its numbers come from."""

    function: Any  # jitted: (arrays, floats, ints) -> arrays
    reads: tuple[int, ...]
    floats: Any
    ints: Any
    writes: tuple[int, ...]
    last: tuple[int, ...] = ()  # what nothing after it reads


class Program:
    """A recorded computation, compiled: arrays and numbers in, values out."""

    def __init__(self, segments: Sequence[Segment], outputs: Sequence[int], kept: Sequence[int], n_guards: int) -> None:
        self.segments = segments
        self.outputs = tuple(outputs)  # places of kept values, gradients, guards
        self.kept = tuple(kept)
        self.n_guards = n_guards
        self.bits = sum(1 << p for p in kept)
        self.donated: tuple[int, ...] = ()  # inputs whose memory it writes over
        self.given: tuple[int, ...] = ()  # the other inputs
        self.whole = True  # one segment
        self.careful = False  # runs somebody else's Python: its results are awaited
        self.known = True  # compiled, and worth keeping
        self.ran = False
        self.loose: Sequence[Step] = ()  # else its steps, run one by one
        self.fixed = False  # writes over nothing whatever is free
        self.wasted = 0
        self.steps = 0
        self.room: tuple[Any, ...] = ()  # avals of what comes out
        self.kinds: tuple[int, ...] = ()  # and of kept values, as numbers
        self._floats = _Packed(np.float64)
        self._ints = _Packed(np.int64)

    def waste(self, needs: Any) -> int:
        """Values that come out for nobody, and memory that could be written over."""
        for_nobody: int = (self.bits & ~needs.bits).bit_count()
        free = 0 if self.fixed else len(_matched(needs.donatable, self.room)) - len(self.donated)
        return for_nobody + free

    def run(self, trail: Any, box: list[Any], traced: bool) -> bool:
        """Put the list of what comes out into ``box``; does everything that went in still exist?

        The first time it writes over copies: if there is no memory for it, nothing is lost.
        """
        arrays = trail.arrays
        f, i = self.numbers(trail.floats, trail.ints, traced)
        if self.whole:  # takes and gives everything in order
            donated = [arrays[k] for k in self.donated]
            given = [arrays[k] for k in self.given] if donated else arrays
            if self.ran or not donated:
                box.extend(map(self.segments[0].function, (donated,), (given,), (f,), (i,)))
                self.ran = True
                return not donated
            spared: bool = sum(a.nbytes for a in donated) <= SPARED
            if spared:
                places = [a.sharding if a.committed else None for a in donated]
                donated = jax.device_put(donated, places, may_alias=False)
            with _interrupts_later():
                box.extend(map(self.segments[0].function, (donated,), (given,), (f,), (i,)))
            self.ran = True
            return spared
        if not self.known:
            box.append(opbyop.interpret(self.loose, self.outputs, trail))
            return True
        values: dict[int, Any] = {~k: a for k, a in enumerate(arrays)}
        floats, ints = np.array(trail.floats, np.float64), np.array(trail.ints, np.int64)
        for s in self.segments:
            sf = floats[s.floats] if len(s.floats) else None
            si = ints[s.ints] if len(s.ints) else None
            out = s.function([], [values[r] for r in s.reads], sf, si)
            values.update(zip(s.writes, out, strict=True))
            for r in s.last:
                del values[r]
        box.append([values[p] for p in self.outputs])
        self.ran = True
        return True

    def text(self, arrays: Sequence[Any], floats: int, ints: int) -> str:
        """What XLA compiled for inputs like ``arrays``, avals with shardings: its own text."""
        if not (self.whole and self.known):
            raise AutogradError("[explain] this program is run in parts, which have no one text")
        f = jax.ShapeDtypeStruct((floats,), np.float64) if floats else None
        i = jax.ShapeDtypeStruct((ints,), np.int64) if ints else None
        donated, given = [arrays[k] for k in self.donated], [arrays[k] for k in self.given]
        with jax.enable_x64(True):
            lowered = self.segments[0].function.lower(donated, given if donated else list(arrays), f, i)
            return str(lowered.compile().as_text())

    def numbers(self, floats: list[float], ints: list[int], traced: bool = False) -> tuple[Any, Any]:
        """Both kinds of numbers as a whole program takes them."""
        keep = self.whole and not traced
        return self._floats.of(floats, keep) if floats else None, self._ints.of(ints, keep) if ints else None


class _Packed:
    """Numbers of one kind as one array; those that did not change since the last run are on the device already."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.before: list[Any] = []
        self.array: Any = None

    def of(self, numbers: list[Any], keep: bool) -> Any:
        """``numbers`` as an array, to be kept for the next run or not."""
        # 1 and True, 0.0 and -0.0 are equal, and so are their int64; for floats the sign of 0 counts.
        if self.before == numbers and (self.dtype is np.int64 or 0.0 not in numbers):
            return self.array
        fresh = np.array(numbers, self.dtype)
        if keep:
            self.before, self.array = list(numbers), jax.numpy.asarray(fresh)
        return fresh


@contextlib.contextmanager
def _interrupts_later() -> Iterator[None]:
    """Hold Ctrl-C back: a compiled function's first call ends in Python code, after the donation."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[Any] = []
    signal.signal(signal.SIGINT, lambda *signal_and_frame: came.append(signal_and_frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came[0])


def build(trail: Any, needs: Any, back: Any, whole: bool, cut: bool = True) -> Program:
    """The program of ``trail`` that gives what is needed.

    With ``whole`` false it is put together from executables of single ops.  With ``cut`` a long one is cut.
    """
    events = trail.events()
    steps = [Step(e.call, tuple(map(where, e.codes)), _numbers(e.numbers), p) for p, e in enumerate(events)]
    gradients: list[int] = []
    if back is not None:
        gradients = _expand(trail, events, back, steps)
    flags = []
    for guard in trail.guards:
        flags.append(append(steps, bounds_of(guard.low, guard.extent), (trail.place(guard.index),), ()))
    kept = [p for p in range(len(events)) if needs.bits >> p & 1]
    outputs = [*kept, *gradients, *flags]
    steps = _reachable(steps, outputs)
    room = [trail.nodes[p].aval for p in kept]
    room += [leaf.aval for leaf in back.plan().leaves] if back is not None else []
    careful = any(step.call.name.startswith("custom") or getattr(step.call, "careful", False) for step in steps)
    one = whole and (len(steps) <= WHOLE or not cut)
    donated: tuple[int, ...] = ()
    fixed = not one or careful or bool(flags)
    if not fixed:
        donated = _matched(needs.donatable, tuple(room))
    given = tuple(k for k in range(len(trail.leaves)) if k not in donated)
    inputs = (donated, given, len(trail.floats), len(trail.ints))
    segments = [_segment(steps, outputs, inputs, False)] if one else _segments(steps, outputs) if whole else ()
    program = Program(segments, outputs, kept, len(flags))
    program.loose = () if whole else steps
    program.donated, program.given = donated, given
    program.whole, program.careful, program.fixed = one, careful, fixed
    program.known = whole
    program.room, program.kinds = tuple(room), tuple(events[p].kind for p in kept)
    program.steps = len(steps)
    return program


def _matched(donatable: dict[int, Any], room: Sequence[Any]) -> tuple[int, ...]:
    """Those inputs for which a result of the same shape and dtype comes out."""
    free = list(room)
    found = []
    for k, aval in donatable.items():
        if aval in free:
            free.remove(aval)
            found.append(k)
    return tuple(found)


def _numbers(numbers: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(where(r) if isinstance(r, int) else r for r in numbers)


def _expand(trail: Any, events: Sequence[Any], back: Any, steps: list[Step]) -> list[int]:
    """The engine's first use: VJP steps for a program, unknown to the user's graph.

    A gradient is the place where it will be.
    """
    plan: Plan = back.plan()
    again = Again(trail, steps)

    def at(node: Node) -> int:
        found = trail.place(node)
        assert found is not None, "every value that a rule reads is on the trail or was entered"
        return int(found)

    def emit_several(node: Node, gradients: dict[int, int]) -> list[int | None]:
        place = node.code >> 1 if node.trail is trail else None
        given = sorted(gradients)
        edges = plan.edges(node)
        wanted = [i for i, edge in enumerate(edges) if edge is not None]
        gs = [gradients[k] for k in given]
        reads = [again.read(place, at(n), gs[0]) for n in node.inputs]
        call = node.call.pullback(tuple(given), tuple(wanted))
        whole = append(steps, call, (*reads, *(again.tied.get(g, g) for g in gs)), ())
        parts: list[int | None] = [None] * len(edges)
        for i, pick in zip(wanted, call.picks, strict=True):
            parts[i] = append(steps, pick, (whole,), ())
        return parts

    def emit(node: Node, g: Any) -> list[Any]:
        if node.call.__class__ is Pick:
            return [None if edge is None else {node.call.k: g} for edge in plan.edges(node)]
        if node.call.__class__ is Several:
            return emit_several(node, g)
        own = node.trail is trail
        runtime = _numbers(events[node.code >> 1].numbers) if own else back.numbers[id(node)]
        place = node.code >> 1 if own else None
        runtime = tuple([again.read(place, r, g) if isinstance(r, int) else r for r in runtime])
        parts: list[Any] = []
        for i, edge in enumerate(plan.edges(node)):
            if edge is None:
                parts.append(None)
                continue
            call = pullback(node.call, i)
            if call.identity:
                parts.append(g)
                continue
            reads = [at(node) if isinstance(k, str) else at(node.inputs[k]) for k in call.keys]
            reads = [again.read(place, r, g) for r in reads]
            parts.append(append(steps, call, (*reads, again.tied.get(g, g)), runtime))
        return parts

    avals = {id(v): v.aval for v in (*plan.order, *plan.leaves)}
    aval_at: dict[int, Any] = {}

    def add(a: int, b: int) -> int:
        return append(steps, add_call(aval_at[a]), (a, b), ())

    def emit_known(node: Node, g: Any) -> list[Any]:
        parts = emit(node, g)
        for edge, part in zip(plan.edges(node), parts, strict=True):
            if part is not None and not isinstance(part, dict):
                aval_at[part] = avals[id(edge)]
        return parts

    def add_known(a: int, b: int) -> int:
        out = add(a, b)
        aval_at[out] = aval_at[a]
        return out

    seeds = []
    for root, given in zip(back.roots, back.seeds, strict=True):
        seed = at(given) if given is not None else append(steps, ones_of(root.aval), (), ())
        aval_at[seed] = root.aval
        seeds.append((root, seed))
    found = propagate(plan, seeds, emit_known, lambda a, b: joined(a, b, add_known))
    gradients = []
    lying = layouts(trail, events) if placed else {}
    for leaf, known in zip(plan.leaves, back.existing, strict=True):
        g = found[id(leaf)]
        if known is not None:
            g = append(steps, add_call(leaf.aval), (at(known), g), ())
        if id(leaf) in lying:  # a gradient lies as its parameter does
            g = append(steps, constraint(leaf.aval, lying[id(leaf)]), (g,), ())
        gradients.append(g)
    return gradients


def _reachable(steps: list[Step], outputs: Sequence[int]) -> list[Step]:
    """The steps that something which comes out depends on."""
    needed = {p for p in outputs if p >= 0}
    found = []
    for step in reversed(steps):
        if step.writes in needed:
            found.append(step)
            needed.update(p for p in step.places() if p >= 0)
    found.reverse()
    return found


class _Ones:
    """The implicit seed of a backward: a call without operands, so that XLA sees that it is ones."""

    name = "ones"
    n = 0
    foreign = False
    avals = present = ()

    def __init__(self, aval: Any) -> None:
        self.aval = self.out = aval

    def describe(self, runtime: dict[str, Any]) -> str:
        return self.name

    def forward(self) -> Any:
        return jnp.ones(self.aval.shape, self.aval.dtype)


class _Bounds:
    """Does an index array stay in [low, extent)?  Answers (is any bad, the first bad one)."""

    name = "bounds"
    n = 1
    present: tuple[str, ...] = ()

    def __init__(self, low: int, extent: int) -> None:
        self.low, self.extent = low, extent

    def forward(self, index: Any) -> Any:
        flat = index.reshape(-1)
        bad = (flat < self.low) | (flat >= self.extent)
        first = flat[jnp.argmax(bad)] if flat.size else jnp.int64(0)
        return jnp.stack([jnp.any(bad).astype(jnp.int64), first.astype(jnp.int64)])


# Calls are told apart by identity in the keys of programs, so there is one of each.
ones_of = functools.cache(_Ones)
bounds_of = functools.cache(_Bounds)


def _segments(steps: list[Step], outputs: Sequence[int]) -> list[Segment]:
    chunks = _chunks(steps)
    last_read = last_reads(chunks, outputs)
    found = []
    for k, chunk in enumerate(chunks):
        writes = [step.writes for step in chunk if last_read.get(step.writes, -1) > k]
        segment = _segment(chunk, writes, ((), (), 0, 0), True)
        found.append(segment._replace(last=tuple(r for r in segment.reads if last_read[r] == k)))
    return found


def _chunks(steps: list[Step]) -> list[list[Step]]:
    """Cut a long program where it repeats, so that equal stretches become equal segments.

    A loop's forward and its backward repeat with periods of their own; stretches
    of a whole number of periods are then all alike but for their first and last.
    """
    calls = [step.call for step in steps]
    chunks: list[list[Step]] = []
    loose = at = 0  # where steps begin that belong to no chunk yet, and where we look

    def cut(end: int) -> None:
        nonlocal loose
        while loose < end:
            chunks.append(steps[loose : min(loose + SEGMENT, end)])
            loose += len(chunks[-1])

    while at < len(steps):
        period, end = _repeats(calls, at)
        if not period:
            at += 1
            continue
        cut(at)
        size = period * max(1, SEGMENT // period)
        while at + size <= end:
            chunks.append(steps[at : at + size])
            at += size
        loose = at
        at = max(at, end)
    cut(len(steps))
    return chunks


def _repeats(calls: list[Any], at: int) -> tuple[int, int]:
    """The period with which calls repeat from ``at`` on for at least four segments, and where they stop to; or 0."""
    for period in range(1, SEGMENT + 1):
        if at + period < len(calls) and calls[at + period] is calls[at]:
            end = at
            while end + period < len(calls) and calls[end + period] is calls[end]:
                end += 1
            if end - at >= 4 * SEGMENT:
                return period, end + period
    return 0, at


def _segment(
    chunk: list[Step], writes: Sequence[int], inputs: tuple[Sequence[int], Sequence[int], int, int], part: bool
) -> Segment:
    """Renumber a chunk from 0, so that equal chunks have equal keys.

    ``inputs`` names the arrays it takes in order, those it may write over first,
    and how many floats and integers; what else it reads follows in order of first use.
    """
    donated, given, n_floats, n_ints = inputs
    reads = [~k for k in (*donated, *given)]
    local = {place: ~k for k, place in enumerate(reads)}
    floats, ints = list(range(n_floats)), list(range(n_ints))
    at = {"f": {k: k for k in floats}, "i": {k: k for k in ints}}
    made = {step.writes: k for k, step in enumerate(chunk)}

    def name(place: int) -> int:
        if place in made:
            return made[place]
        if place not in local:
            local[place] = ~len(reads)
            reads.append(place)
        return local[place]

    canonical = []
    for step in chunk:
        operands = tuple(map(name, step.reads))
        numbers: list[Any] = []
        for r in step.runtime:
            if not isinstance(r, tuple):
                numbers.append(name(r))
            else:
                known = at[r[0]]
                if r[1] not in known:
                    vector = floats if r[0] == "f" else ints
                    known[r[1]] = len(vector)
                    vector.append(r[1])
                numbers.append((r[0], known[r[1]]))
        canonical.append((step.call, operands, tuple(numbers)))
    key = (tuple(canonical), tuple(map(name, writes)), len(donated))
    function = _compiled.get((key, part))
    if function is None:
        # Of a long program the compilation is most of the cost, and its segments are small.
        options = {"xla_backend_optimization_level": "1"} if part else None
        function = jax.jit(_interpreter(*key), donate_argnums=(0,) if donated else (), compiler_options=options)
        _compiled[key, part] = function
        counts["xla programs compiled"] += 1
    return Segment(function, tuple(reads), np.array(floats, np.intp), np.array(ints, np.intp), tuple(writes))


def forget_segments() -> None:
    """Forget every compiled function."""
    _compiled.clear()
    opbyop.forget()


def _pulled_later(canonical: tuple[Any, ...]) -> dict[int, int]:
    """Steps with several results, and the step that is their pullback there."""
    first: dict[Any, int] = {}
    found: dict[int, int] = {}
    for k, (call, operands, _) in enumerate(canonical):
        if call.__class__ is Several:
            if call.of is not None:
                at = first.get((call.of[0], operands[: call.of[0].n]))
                if at is not None:
                    found.setdefault(at, k)
            first.setdefault((call, operands), k)
    return found


def _interpreter(canonical: tuple[Any, ...], writes: tuple[int, ...], donated: int) -> Any:
    later = _pulled_later(canonical)

    def program(over: list[Any], given: list[Any], floats: Any, ints: Any) -> list[Any]:
        arrays = [*over, *given]
        values: list[Any] = []

        def fetch(ref: Any) -> Any:
            if isinstance(ref, tuple):
                return (floats if ref[0] == "f" else ints)[ref[1]]
            return arrays[~ref] if ref < 0 else values[ref]

        pulls: dict[int, Any] = {}
        for k, (call, operands, numbers) in enumerate(canonical):
            if k in pulls:
                values.append(pulls.pop(k)(*map(fetch, operands[call.of[0].n :])))
            elif k in later:  # computed once for both, though XLA might not see it (a scan is another with residuals)
                _, given, wanted = canonical[later[k]][0].of
                outs, pulls[later[k]] = call.with_pullback(given, wanted, *map(fetch, operands))
                values.append(outs)
            else:
                values.append(call.forward(*map(fetch, operands), *map(fetch, numbers)))
        return [fetch(w) for w in writes]

    return program
