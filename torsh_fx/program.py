"""Building the XLA program of a run: expand, put in order, cut into segments.

Backward is expanded here and only here: while a program is built the engine
emits VJP nodes; a program that is known needs none.  A long program is cut
into segments; equal segments (by their canonical form) are compiled once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .engine import Plan, propagate
from .graph import Node, add_nodes, pull
from .stats import counts

WHOLE = 1500  # up to here XLA sees all of it and fuses best
SEGMENT = 96  # divisible by most periods of a repeating chain
_COMPILED_SIZE = 4096

_compiled: OrderedDict[Any, Any] = OrderedDict()


class Step(NamedTuple):
    """One op of a program: what to call, where from, where to."""

    call: Any
    reads: tuple[int, ...]  # places of operands (~k: k-th input)
    runtime: tuple[Any, ...]  # ("f", k), ("i", k) or a place
    writes: int


class Segment(NamedTuple):
    """A stretch of a program that XLA compiles as one, and where its numbers come from."""

    function: Any  # jitted: (arrays, floats, ints) -> arrays
    reads: tuple[int, ...]
    floats: Any
    ints: Any
    writes: tuple[int, ...]


class Program:
    """A recorded computation, compiled: arrays and numbers in, values out."""

    def __init__(self, segments: Sequence[Segment], kept: Sequence[int], outputs: Sequence[int], n_guards: int) -> None:
        self.segments = segments
        self.kept = tuple(kept)  # places among the pending nodes whose values come out
        self.outputs = tuple(outputs)  # places of kept, gradients, guards
        self.n_guards = n_guards

    def __call__(self, arrays: list[Any], floats: list[float], ints: list[int]) -> tuple[Any, Any, Any]:
        f, i = np.array(floats, np.float64), np.array(ints, np.int64)
        if len(self.segments) == 1:  # the usual case takes and gives everything in order
            found = self.segments[0].function(arrays, f, i)
        else:
            values: dict[int, Any] = {~k: a for k, a in enumerate(arrays)}
            for s in self.segments:
                out = s.function([values[r] for r in s.reads], f[s.floats], i[s.ints])
                values.update(zip(s.writes, out, strict=True))
            found = [values[p] for p in self.outputs]
        kept, end = len(self.kept), len(found) - self.n_guards
        return found[:kept], found[kept:end], found[end:]


def build(
    request: Any,
    bits: int,
    plan: Plan | None,
    root: Any,
    seed: Node | None,
    existing: Sequence[Node | None],
) -> Program:
    """The program of ``request`` with the pending nodes of ``bits`` as outputs."""
    place = dict(request.index)
    runtime = dict(request.runtime)
    nodes = list(request.pending)
    gradients = _expand(request, plan, root, seed, existing, runtime) if plan is not None else []
    for node in _emitted(gradients, place):
        place[id(node)] = len(nodes)
        nodes.append(node)

    def at(node: Node) -> int:
        return place[id(node)] if id(node) in place else int(request.ref(node))

    steps = [Step(n.call, tuple(map(at, n.inputs)), runtime.get(id(n), ()), k) for k, n in enumerate(nodes)]
    for k, guard in enumerate(request.guards):
        steps.append(Step(_Bounds(guard.low, guard.extent), (at(guard.index),), (), len(nodes) + k))
    kept = [p for p in range(len(request.pending)) if bits >> p & 1]
    outputs = [*kept, *map(at, gradients), *range(len(nodes), len(steps))]
    inputs = (len(request.arrays), len(request.floats), len(request.ints))
    return Program(_segments(steps, outputs, inputs), kept, outputs, len(request.guards))


def _expand(
    request: Any,
    plan: Plan,
    root: Any,
    seed: Node | None,
    existing: Sequence[Node | None],
    runtime: dict[int, tuple[Any, ...]],
) -> list[Node]:
    """The engine's first use: VJP nodes for a program, unknown to the user's graph."""
    alive: list[Node] = []  # ids stand for nodes below, so none may be collected

    def emit(node: Node, g: Node) -> list[Node | None]:
        parts = [None if e is None else pull(node, i, g) for i, e in enumerate(node.edges)]
        for part in parts:
            if part is not None:
                runtime[id(part)] = runtime.get(id(node), ())
                alive.append(part)
        return parts

    found = propagate(plan, root, seed, emit, add_nodes)
    gradients = []
    for leaf, known in zip(plan.leaves, existing, strict=True):
        gradient = found[id(leaf)]
        gradients.append(gradient if known is None else add_nodes(known, gradient))
    return gradients


def _emitted(gradients: Sequence[Node], place: dict[int, int]) -> list[Node]:
    found: dict[int, Node] = {}
    stack = list(gradients)
    while stack:
        node = stack.pop()
        if node.value is None and id(node) not in place and id(node) not in found:
            found[id(node)] = node
            stack.extend(node.inputs)
    return sorted(found.values(), key=lambda n: n.serial)


class _Bounds:
    """Does an index array stay in [low, extent)?  Answers (is any bad, the first bad one)."""

    _known: ClassVar[dict[tuple[int, int], _Bounds]] = {}

    def __new__(cls, low: int, extent: int) -> _Bounds:
        if (low, extent) not in cls._known:
            made = cls._known[low, extent] = super().__new__(cls)
            made.low, made.extent = low, extent
        return cls._known[low, extent]

    low: int
    extent: int

    def forward(self, index: Any) -> Any:
        flat = index.reshape(-1)
        bad = (flat < self.low) | (flat >= self.extent)
        first = flat[jnp.argmax(bad)] if flat.size else jnp.int64(0)
        return jnp.stack([jnp.any(bad).astype(jnp.int64), first.astype(jnp.int64)])


def _segments(steps: list[Step], outputs: Sequence[int], inputs: tuple[int, int, int]) -> list[Segment]:
    if len(steps) <= WHOLE:
        return [_segment(steps, outputs, inputs)]
    chunks = [steps[k : k + SEGMENT] for k in range(0, len(steps), SEGMENT)]
    wanted = set(outputs)
    needed_after: list[set[int]] = []  # places read later than each chunk
    for chunk in reversed(chunks):
        needed_after.append(set(wanted))
        wanted.update(p for step in chunk for p in _places(step))
    needed_after.reverse()
    return [
        _segment(chunk, [step.writes for step in chunk if step.writes in later], (0, 0, 0))
        for chunk, later in zip(chunks, needed_after, strict=True)
    ]


def _places(step: Step) -> list[int]:
    return [*step.reads, *(r for r in step.runtime if not isinstance(r, tuple))]


def _segment(chunk: list[Step], writes: Sequence[int], inputs: tuple[int, int, int]) -> Segment:
    """Renumber a chunk from 0, so that equal chunks have equal keys.

    ``inputs`` says how many arrays, floats and integers it takes in the
    program's own order; what else it reads follows in order of first use.
    """
    arrays, n_floats, n_ints = inputs
    reads = [~k for k in range(arrays)]
    local = {place: place for place in reads}
    floats, ints = list(range(n_floats)), list(range(n_ints))
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
        operands = tuple(name(p) for p in step.reads)
        numbers: list[Any] = []
        for r in step.runtime:
            if not isinstance(r, tuple):
                numbers.append(name(r))
            else:
                vector = floats if r[0] == "f" else ints
                if r[1] not in vector:
                    vector.append(r[1])
                numbers.append((r[0], vector.index(r[1])))
        canonical.append((step.call, operands, tuple(numbers)))
    key = (tuple(canonical), tuple(map(name, writes)))
    function = _compiled.get(key)
    if function is None:
        function = _compiled[key] = jax.jit(_interpreter(*key))
        counts["xla programs compiled"] += 1
        while len(_compiled) > _COMPILED_SIZE:
            _compiled.popitem(last=False)
    else:
        _compiled.move_to_end(key)
    return Segment(function, tuple(reads), np.array(floats, np.intp), np.array(ints, np.intp), tuple(writes))


def _interpreter(canonical: tuple[Any, ...], writes: tuple[int, ...]) -> Any:
    def program(arrays: list[Any], floats: Any, ints: Any) -> list[Any]:
        values: list[Any] = []

        def fetch(ref: Any) -> Any:
            if isinstance(ref, tuple):
                return (floats if ref[0] == "f" else ints)[ref[1]]
            return arrays[~ref] if ref < 0 else values[ref]

        for call, operands, numbers in canonical:
            values.append(call.forward(*map(fetch, operands), *map(fetch, numbers)))
        return [fetch(w) for w in writes]

    return program
