"""Running a trail: who still holds what, which program that needs, run, commit.

Where a trail's path ends is the key of its program.  What comes out is what
somebody can still read, told by reference counts: they also say which inputs
nobody will miss, so that XLA may write into their memory.  A run that was made
before, by the same path with the same holders, is one look into a dictionary.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from . import explaining
from .engine import Plan
from .graph import Node
from .liveness import Needs, held, needs
from .program import Program, build, forget_segments
from .programs import CACHE
from .regions import bring_back, missing, outermost, spans
from .running import launch, lost, shielded
from .several import Several
from .state import ambient_trace, here
from .stats import counts
from .traces import note_origins
from .trail import Trail

Store = Callable[[Sequence[Any]], None]


class Back(NamedTuple):
    """A backward at the end of a trail."""

    roots: Sequence[Any]  # the vertices it starts at
    plan: Callable[[], Plan]
    seeds: Sequence[Node | None]  # per root, None for ones
    existing: Sequence[Node | None]  # gradients already stored, per leaf
    retain: bool
    numbers: dict[int, tuple[Any, ...]]  # runtime references of vertices that earlier trails recorded
    store: Store  # takes the gradients, per leaf


def force(node: Node) -> Any:
    """The value of ``node``, computed if it is still pending."""
    if here().attempt is not None:
        here().attempt.look(node)
    if node.value is None:
        run([node])
    with _lock:  # no longer than another thread takes to write over it, see ``replaying``
        return node.value


def force_elsewhere(node: Node) -> None:
    """Compute what is pending, but not on this thread's trail."""
    if node.value is None and node.trail is not here().trail:
        run([node])


def run(wanted: Sequence[Node], used: Plan | None = None) -> None:
    """Compute ``wanted``, and with them all that this thread has recorded; nobody asks for the graph ``used`` again."""
    trail = here().trail
    if wanted and here().capture is not None:
        here().capture.refuse("a read")
    if any(n.trail is trail and n.value is None for n in wanted):
        flush(used=used)
    elsewhere = [n for n in wanted if n.value is None]
    if elsewhere:
        _run_elsewhere(elsewhere)


def flush(back: Back | None = None, cause: str = "a read", used: Plan | None = None) -> None:
    """Run what this thread has recorded; afterwards it records anew, also after a failure."""
    recorder = here()
    trail = recorder.trail
    if recorder.capture is not None:
        recorder.capture.refuse(cause)
    if recorder.attempt is not None:
        recorder.attempt.give_up()
    if trail.nodes or back is not None:
        recorder.trail = Trail()
        try:
            _run(trail, back, cause, used)
        finally:
            trail.over = True


# NOTE [threads]: a thread may read what another one has pending, and finds its way by
# the nodes of that thread's trail, which nobody counts as holders.  So nobody looks into
# a trail between the count that lets its program write over something and its end.
_lock = threading.RLock()


def _run(trail: Trail, back: Back | None, cause: str, used: Plan | None = None) -> None:
    counts["programs run"] += 1
    trail.tidy()
    traced = ambient_trace() is not None
    with _lock:
        needed, known, timed = _choose(trail, back, cause, traced, used)
        if needed.program.donated:
            _execute(trail, needed, back, known, traced, timed)
            return
    _execute(trail, needed, back, known, traced, timed)  # which may be somebody else's Python, and wait


def _choose(
    trail: Trail, back: Back | None, cause: str, traced: bool, used: Plan | None
) -> tuple[Needs, bool, explaining.Timed | None]:
    """What is needed of the trail and the program for it; was the pair known, and a clock if the program is new."""
    event = trail.event
    trail.arrays = [leaf.value for leaf in trail.leaves]
    who = held(trail)
    needed = None if traced else event.runs.get(who)
    known = needed is not None
    timed = None
    if needed is None:
        needed = needs(trail, back, donate=not traced, used=used)
        event.seen += 1
        program = CACHE.find(event, needed)
        if program is None:
            began = time.perf_counter()
            wide = CACHE.widened(event, needed)
            program = build(trail, wide, back, CACHE.worth_compiling(event, wide))
            timed = explaining.Timed(event, cause, program, began)
            CACHE.store(event, program)
        needed = needed._replace(program=program)
        if needed.steady and program.known and not traced:
            event.runs = {who: needed, **event.runs} if len(event.runs) < 32 else {who: needed}
    else:
        CACHE.hit(event)
    if explaining.listeners:
        explaining.note_run(cause, needed.program, trail)
    return needed, known, timed


def _execute(
    trail: Trail, needed: Needs, back: Back | None, known: bool, traced: bool, timed: explaining.Timed | None
) -> None:
    """Run and commit; nothing is committed unless all of it is there."""
    program: Program = needed.program
    box: list[Any] = []  # filled by C code in one go: no signal comes between a donation and its result

    def run_it() -> bool:
        if not traced:
            return program.run(trail, box, traced)
        note_origins(trail)
        with jax.ensure_compile_time_eval():  # NOTE [traces]: never leak a foreign tracer
            return program.run(trail, box, traced)

    try:
        launch(
            program,
            trail.guards,
            box,
            run_it,
            lambda: lost(program, trail.leaves, trail.arrays),
            "the recorded program",
        )
    finally:
        if box:
            try:
                _commit(trail, needed, back, box[0], known)
            except KeyboardInterrupt:
                shielded(_commit, trail, needed, back, box[0], known)
                raise
        if timed is not None:
            timed.stop()


def _commit(trail: Trail, needed: Needs, back: Back | None, found: Sequence[Any], known: bool) -> None:
    """Give the values that came out to those who wait for them."""
    with _lock:
        nodes, program = trail.nodes, needed.program
        if not nodes and program.kept:
            return  # begun again after its end
        if not known:
            _cut_loose(trail, needed)
        for place, kind, aval, value in zip(program.kept, program.kinds, program.room, found, strict=False):
            node = nodes[place]
            if node.trail is trail:  # else it was done before an interrupt
                if not known:
                    node.serial = trail.serial(node.code)
                if node.value is None:  # else another thread was faster
                    node.value = value
                node.kind, node.aval = kind, aval
                node.trail = None
        for place in needed.freed:
            nodes[place].freed = True
        if back is not None:
            back.store(found[len(program.kept) : len(found) - program.n_guards])
        trail.close()


def _cut_loose(trail: Trail, needed: Needs) -> None:
    """Write out the part of the graph that stays alive; whatever else was written out is let go."""
    gone: dict[int, Node] = {}

    def there(node: Node) -> Node:
        """An operand, or a blank in its place if its value is not kept."""
        place = node.code >> 1
        if node.trail is not trail or place in needed.valued or place in needed.recipes or node.value is not None:
            return node
        blank = gone.get(node.code)
        if blank is None:
            blank = gone[node.code] = Node(None, (), (), node.aval)
        return blank

    graph = set(needed.graph)
    staying = sorted(graph | needed.recipes)
    found = spans(trail)
    for place in staying:
        node = trail.nodes[place]
        if node.trail is trail:
            trail.fill(node)
    for place in staying:
        node = trail.nodes[place]
        if node.trail is trail:
            node.inputs = tuple(map(there, node.inputs))
            node.runtime = tuple(there(r) if isinstance(r, Node) else r for r in node.runtime)
            if place not in graph:
                node.edges = ()
    for place, node in enumerate(trail.nodes):
        if place not in graph and place not in needed.recipes and node.trail is trail and node.filled:
            node.inputs = node.runtime = node.edges = ()
    for place in staying:
        node = trail.nodes[place]
        if place not in needed.valued and node.trail is trail:
            if place in needed.recipes:
                node.region = (trail.base, outermost(found, place))
            node.serial, node.home, node.trail = trail.serial(node.code), None, None


def _run_elsewhere(wanted: Sequence[Node]) -> None:
    """Compute nodes of another thread's trail, or of one whose run failed, on copies of them."""
    trail = Trail()
    copies: dict[int, Node] = {}

    def copied(value: Any) -> Any:
        return copies.get(id(value), value)

    with _lock:  # NOTE [threads]
        originals = _pending(wanted)
        for node in originals:
            inputs = tuple(map(copied, node.inputs))
            copy = Node(node.call, inputs, tuple(map(copied, node.runtime)), node.aval, tuple(map(copied, node.edges)))
            copies[id(node)] = copy
            adopt(trail, copy)
            if node.guard is not None:
                copy.guard = node.guard.on(copied(node.guard.index))
                trail.watch(copy.guard)
    if originals:
        _run(trail, None, "a read")
    with _lock:
        for node in originals:
            if node.value is not None or node.call.__class__ is Several:
                continue  # its own thread was faster, or it is a list, which nobody but its program sees
            node.value = copies[id(node)].value
            if node.trail is None or node.trail.over:  # else its thread still goes by where it is on that trail
                node.serial, node.trail = node.serial, None
                if not node.edges:
                    node.inputs = node.runtime = ()


def clear_cache() -> None:
    """Forget every recorded step and its programs; what is pending is run first.

    Example:
        >>> clear_cache()
    """
    try:
        flush(cause="clear_cache()")
    finally:
        CACHE.clear()
        forget_segments()
        here().trail = Trail()


def adopt(trail: Trail, node: Node) -> None:
    """Put a node that was written out on ``trail``, where it is pending."""
    codes: Any = tuple([trail.code_of(n, e) for n, e in _pairs(node)])
    for r in node.runtime:
        if isinstance(r, Node):
            trail.code_of(r, None)
    twin = trail.extend(node.call, codes, node.runtime, node.mask(), node.home, None)
    trail.nodes[-1] = node
    node.event, node.code, node.trail = twin.event, twin.code, trail


def _pairs(node: Node) -> list[tuple[Node, Any]]:
    edges = node.edges or (None,) * len(node.inputs)
    return list(zip(node.inputs, edges, strict=True))


def _pending(wanted: Sequence[Node]) -> list[Node]:
    """Nodes without a value that ``wanted`` depend on, in program order."""
    found: dict[int, Node] = {}
    stack = list(wanted)
    while stack:
        node = stack.pop()
        if node.value is None and id(node) not in found:
            found[id(node)] = node
            stack.extend(node.inputs)
            stack.extend(r for r in node.runtime if isinstance(r, Node))
            if node.guard is not None:
                stack.append(node.guard.index)
    return sorted(found.values(), key=lambda n: (n.serial, n.code))


def residual_nodes(node: Node) -> list[Node]:
    """The values that the VJP of ``node`` reads."""
    keys = node.call.residual_keys(node.mask())
    return [node if isinstance(k, str) else node.inputs[k] for k in keys]


def bring_back_residuals(trail: Trail, plan: Plan) -> None:
    """Record again what the rules of earlier trails' vertices read and a checkpoint did not keep."""
    earlier = [v for v in plan.order if v.trail is not trail]
    read = (r for v in earlier for r in (*residual_nodes(v), *(r for r in v.runtime if isinstance(r, Node))))
    wanted = missing(read)
    if wanted:
        bring_back(trail, _pending(wanted), adopt)


def free(plan: Plan) -> None:
    """Mark the history that a backward walked as used up, and let go of it."""
    for node in plan.order:
        node.freed = True
        if node.value is not None and node.trail is None:
            node.inputs, node.runtime, node.guard = (), (), None


def backward_lock() -> Any:
    """Held while gradients are read, added to and stored: one backward at a time."""
    return _backward_lock


_backward_lock = threading.RLock()
