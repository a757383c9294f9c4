"""One imperative run of a step that computes nothing, to learn what it does.

Before it every Tensor that the step reaches is given a placeholder as its value,
afterwards what it finds in the Tensors, and what the step returned, is written
down as numbers (``replaying.Step``), and the Tensors are put back as they were.
Whatever of the step is alive then has been kept by somebody in a way that a
replay would not repeat: that is refused.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from . import executor, explaining
from .engine import Plan as Walk
from .graph import Guard, Node, Slot, caller_line, is_ours, next_serial
from .joint import Vertex
from .liveness import Needs, needs
from .program import build, ones_of
from .programs import CACHE
from .random import Generator
from .replaying import Found, Inputs, Kin, Plan, Ref, Step, Tree
from .rules import AutogradError
from .state import LOCAL, here
from .stats import counts
from .storage import Cell
from .tensor import Tensor
from .trail import Trail, home, placed
from .views import root_of
from .watching import Watch, shared_sources


class Argument(Node):
    """Stands for a value from outside while a step is captured: nobody in the step may look at it.

    Other threads see the value.
    """

    __slots__ = ("real", "trail_of")

    given = True

    def __init__(self, real: Node, trail_of: Trail) -> None:
        self.real: Any = real
        self.trail_of = trail_of
        self.aval = real.aval
        self.trail = None
        self.code = 0
        self.serial = real.serial
        if placed:
            self.home = home(real)

    @property
    def value(self) -> Any:
        return None if LOCAL.now.trail is self.trail_of else self.real.value

    @property
    def exported(self) -> Any:
        return self.real.exported

    @exported.setter
    def exported(self, value: Any) -> None:
        self.real.exported = value


class Before(NamedTuple):
    """A Tensor as it was."""

    tensor: Tensor
    node: Node
    seen: int  # of a view: which version of its base
    edge: Any
    grad: Tensor | None
    retains: bool
    stop: bool


class Capture:
    """What the recorder asks and tells while a step is captured."""

    def __init__(self, plan: Plan, found: Found) -> None:
        self.trail = Trail()
        self.ranges: list[Guard] = []  # of indices that come in: each call checks them before it runs
        self.born = next_serial()
        self.reason: str | None = None  # why the step cannot be replayed
        self.draws: list[tuple[Generator, int]] = []
        self.sets = False  # the step sets a generator's state
        self.states: dict[Generator, tuple[int, int]] = {}  # of generators, before the first draw
        self.things = [*plan.captured, *found.others, *found.stored]
        self.cells = plan.own + found.late
        self.before = [
            Before(t, c.node, _seen(t), t._edge, None if t._slot is None else t._slot.grad, t._retains, t._stop)
            for t, c in zip(self.things, self.cells, strict=True)
        ]
        self.arguments: dict[int, Argument] = {}  # by cell
        for c in self.cells:
            if id(c) not in self.arguments:
                self.arguments[id(c)] = Argument(c.node, self.trail)

    # -- what the recorder calls -----------------------------------------------------------

    def refuse(self, cause: str) -> None:
        """Nothing can be computed now."""
        if cause == "a read":
            raise AutogradError(
                f"a value was read inside a compiled step, at {caller_line()}, where it does not exist yet: return the "
                "Tensor and read it outside, or use torsh_fx.where instead of if"
            )
        raise AutogradError(f"{cause} inside a compiled step, at {caller_line()}, is not possible")

    def note_read(self, t: Tensor) -> None:
        """A value was read that the step did not make or get: it may be another one next time."""
        if t._node.serial < self.born:
            self.reason = "it reads a Tensor that it reaches in a way that cannot be followed"

    def ones(self, aval: Any) -> Node:
        """The implicit seed of a backward, as an op of the step."""
        return self.trail.extend(ones_of(aval), (), (), (), None, None)

    def note_array(self, filename: str) -> None:
        """Code in that file made a Tensor of a NumPy array."""
        if not is_ours(filename):  # ``arange`` makes one of numbers
            self.reason = "it makes a Tensor of a NumPy array, which may be another one next time"

    def drew(self, generator: Generator, seed: Any, counter: Any) -> None:
        """The next two integers on the trail are a draw of ``generator``."""
        if type(seed) is not int or type(counter) is not int:
            self.reason = "it draws from a generator whose state is an array"
            return
        self.states.setdefault(generator, (seed, counter))
        self.draws.append((generator, self.trail.event.n_ints))

    def seeds(self, generator: Generator) -> None:
        """``generator`` is about to be given another state."""
        self.states.setdefault(generator, generator.get_state())
        self.reason = "it sets the state of a random generator"
        self.sets = True

    def check(self, plan: Walk) -> None:
        """Refuse a backward that leaves the step."""
        if any(map(self._is_outside, plan.order)):
            raise AutogradError(
                "backward() inside a compiled step reaches a part of the graph that was recorded outside of it: "
                "detach() what comes from outside, or compute it in the step"
            )
        for slot in plan.leaves:
            if slot.hooks and self._is_outside(slot):
                self.reason = "a hook of a Tensor from outside runs in it"

    def note_hook(self, vertex: Any) -> None:
        """The hooks of a tensor change."""
        if self._is_outside(vertex):
            self.reason = "it changes the hooks of a Tensor from outside"

    def _is_outside(self, vertex: Any) -> bool:
        return vertex.trail is not self.trail and (vertex.trail is not None or vertex.serial < self.born)

    # -- before and after ------------------------------------------------------------------

    def hide(self) -> None:
        """Put placeholders where values are."""
        for c in self.cells:
            c.node = self.arguments[id(c)]

    def restore(self, failed: bool) -> None:
        """Put values and gradients back as they were; after a failure everything.

        Versions only grow: a view of what the step wrote looks again.
        """
        for b, c in zip(self.before, self.cells, strict=True):
            t = b.tensor
            c.node = b.node
            if t._view is not None:
                t._view.version = b.seen
            if failed or t._view is not None:
                t._edge, t._retains, t._stop = b.edge, b.retains, b.stop
            if t._slot is not None:
                t._slot.grad = b.grad

    def rewind(self) -> None:
        """Set generators back to where they were."""
        for generator, state in self.states.items():
            generator.set_state(state)


def _seen(t: Tensor) -> int:
    return 0 if t._view is None else t._view.version


def capture(
    fn: Callable[..., Any], inputs: Inputs, around: tuple[Any, ...], cut: bool
) -> tuple[Plan, Found, str | None, explaining.Timed | None]:
    """The plan of one call, its Tensors, why it is right for this call only, if so, and a clock if it is new."""
    recorder = here()
    if recorder.trail.nodes:
        executor.flush(cause="a compiled step")
    watch = Watch((fn, *inputs.objects))
    for t in (*watch.tensors, *inputs.tensors):
        t._node  # noqa: B018  a view is derived now, not in the step
    plan = Plan(watch, inputs, around)
    found = plan.start(inputs)
    executor.run([n for n in (c.node for c in plan.own + found.late) if n.value is None])
    session = Capture(plan, found)
    sources = shared_sources()
    outer, grad = recorder.trail, recorder.grad
    recorder.trail, recorder.capture = session.trail, session
    try:
        session.hide()
        step = _Reading(session, found).step(fn(*inputs.args, **inputs.kwargs))
        session.restore(failed=False)
        _refuse_kept(session.trail)
    except BaseException:
        session.restore(failed=True)
        session.rewind()
        raise
    finally:
        recorder.trail, recorder.capture = outer, None
    reason = session.reason or watch.reason
    changed = watch.difference()
    if changed is not None:
        reason = f"it changes {changed}"
    if recorder.grad != grad:
        reason = "it switches grad mode"
    elif watch.drawn() or shared_sources() != sources:
        reason = "it draws from a generator of Python's or NumPy's"
    elif inputs.written():
        reason = "it changes a list or dict that is an argument"
    elif any(t._view is not None for t in watch.tensors):
        reason = "it uses a view from outside, which a plan would keep alive"
    if session.sets:
        session.draws = []  # the numbers that were drawn are used, once
    else:
        session.rewind()  # the run draws them again
    timed = _build(plan, step, session, cut)
    return plan, found, reason, timed


class _Reading:
    """Writes down what a step has done, see ``Step``."""

    def __init__(self, session: Capture, found: Found) -> None:
        self.session = session
        self.trail = session.trail
        self.found = found
        self.things = session.things[: len(session.things) - len(found.stored)]
        self.numbers: dict[int, int] = {}  # of Tensors
        self.cells: dict[int, int] = {}  # storage -> number of the first Tensor that has it
        for k, (t, c) in enumerate(zip(session.things, session.cells, strict=True)):
            self.numbers.setdefault(id(t), k)
            self.cells.setdefault(id(c), k)
        self.known = len(session.things)
        self.made: list[tuple[bool, int]] = []
        self.roots: list[Tensor] = []  # of views that are returned

    def step(self, out: Any) -> Step:
        """All of it, given what the step has returned."""
        self._check_edges()
        writes = []
        for key, k in list(self.cells.items()):
            node, t = self.session.cells[k].node, self.session.things[k]
            if node is not self.session.arguments[key] and t._view is None:  # a view looks again
                writes.append((k, self._value(node)))
        self._check_views({k for k, _ in writes})
        cleared, graded = [], []
        for k, t in enumerate(self.things):
            before, after = self.session.before[k].grad, None if t._slot is None else t._slot.grad
            if after is None and before is not None:
                cleared.append(k)
            elif after is not None and after is not before:
                graded.append((k, self._number(after)))
        returned = self._template(out)
        if any(id(r) in self.numbers or id(r._cell) in self.cells for r in self.roots):
            raise AutogradError(
                "a compiled step cannot return a view of a Tensor that it was given or returns as well: the view would "
                "not follow later writes; return its clone()"
            )
        sources, constants = self._sources()
        places = sorted({v for _, v in writes if v >= 0} | {v for alias, v in self.made if not alias and v >= 0})
        at = {p: j for j, p in enumerate(places)}
        return Step(
            sources,
            constants,
            tuple(places),
            tuple(self.trail.nodes[p].aval for p in places),
            tuple((k, at.get(v, v)) for k, v in writes),
            tuple(cleared),
            tuple(graded),
            tuple((alias, n if alias else at.get(n, n)) for alias, n in self.made),
            returned,
        )

    def _check_edges(self) -> None:
        for b in self.session.before:
            edge = b.tensor._edge
            if edge is b.edge or b.tensor._view is not None:
                continue
            if isinstance(edge, Node):
                raise AutogradError(
                    f"a compiled step leaves a Tensor of shape {list(b.tensor.shape)} with the history of its new "
                    f"value ([{edge.describe()}]): write it under torsh_fx.no_grad(), or write a detach()ed value"
                )
            self.session.reason = "it switches requires_grad of a Tensor"
        for g in self.found.stored:
            if g._edge is not None or g._view is not None:
                self.session.reason = "a gradient has a history, or is a view"

    def _check_views(self, written: set[int]) -> None:
        for t in self.things:
            if t._view is not None and self.cells[id(root_of(t)._cell)] in written:
                self.session.reason = "it writes a Tensor of which another is a view"

    def _value(self, node: Node) -> int:
        """The place of a value, or ~k for the k-th input."""
        place = self.trail.place(node)
        if place is None:
            raise AutogradError("a compiled step cannot use a Tensor that another thread has not computed yet")
        return place

    def _number(self, t: Tensor) -> int:
        """The number of a Tensor that is returned or becomes a gradient."""
        number = self.numbers.get(id(t))
        if number is not None:
            return number
        node, edge = t._node, t._edge
        if isinstance(edge, Slot) or (isinstance(edge, Node) and not edge.freed):
            raise AutogradError(
                f"a compiled step cannot return a Tensor that requires grad (shape {list(t.shape)}): its graph would "
                "exist in no later call; call backward() in the step, return detach(), or use torsh_fx.no_grad()"
            )
        number = self.numbers[id(t)] = self.known + len(self.made)
        if t._view is not None:
            root = t
            while root._view is not None:
                root = root._view.base
            self.roots.append(root)
        owner = self.cells.setdefault(id(t._cell), number)
        self.made.append((True, owner) if owner != number else (False, self._value(node)))
        return number

    def _template(self, value: Any) -> Any:
        kind = value.__class__
        if kind is Tensor:
            return Ref(self._number(value))
        if isinstance(value, Tensor):
            return Kin(kind, Ref(self._number(value)))
        if kind is list or kind is tuple:
            return kind([self._template(v) for v in value])
        if kind is dict:
            return {k: self._template(v) for k, v in value.items()}
        parts, structure = jax.tree.flatten(value, is_leaf=lambda x: isinstance(x, Tensor))
        if any(isinstance(p, Tensor) for p in parts):
            return Tree(structure, [self._template(p) for p in parts])
        return value

    def _sources(self) -> tuple[tuple[int, ...], tuple[Cell, ...]]:
        owners = {id(a): self.cells[key] for key, a in self.session.arguments.items()}
        sources: list[int] = []
        constants: list[Cell] = []
        for node in self.trail.leaves:
            owner = owners.get(id(node))
            if owner is None:
                if node.serial < self.session.born:
                    self.session.reason = "it uses a Tensor that it reaches in a way that cannot be followed"
                owner = ~len(constants)
                constants.append(Cell(node))
            sources.append(owner)
        return tuple(sources), tuple(constants)


def _refuse_kept(trail: Trail) -> None:
    """What is still alive has been put somewhere, and a replay would not put it there."""
    if any(isinstance(e, Vertex) for e in trail.edges):
        _let_functions_go(trail)
    kept = needs(trail, None, donate=False).bits
    if kept:
        gc.collect()  # a cycle holds nothing for anybody
        kept = needs(trail, None, donate=False).bits
    if kept:
        node = trail.nodes[kept.bit_length() - 1]
        raise AutogradError(
            f"a Tensor that a compiled step made ([{node.describe()}], shape {list(node.aval.shape)}) is kept where "
            "later calls would not put theirs, such as an attribute or a list: return it, or write it in place into a "
            "Tensor made outside, e.g. self.m.copy_(...), that the step reaches by names, attributes or arguments"
        )


def _let_functions_go(trail: Trail) -> None:
    """No backward comes here any more, and users' functions hold what they read."""
    trail.edges = [Slot(e.aval) if isinstance(e, Vertex) else e for e in trail.edges]
    trail.numbered = {e: k + 1 for k, e in enumerate(trail.edges)}
    for node in trail.nodes:
        if node.filled:
            node.edges = ()


def _build(plan: Plan, step: Step, session: Capture, cut: bool) -> explaining.Timed | None:
    """Give the plan its program: one that is known for the same path, or a new one."""
    trail = session.trail
    read_later = {~v for _, v in step.writes if v < 0} | {~v for alias, v in step.fresh if not alias and v < 0}
    written = {c for c, _ in step.writes}
    over = {
        k: leaf.aval
        for k, (leaf, source) in enumerate(zip(trail.leaves, step.sources, strict=True))
        if source in written and k not in read_later
    }
    event = trail.event
    needed = Needs(sum(1 << p for p in step.places), frozenset(), (), (), over, False)
    began = time.perf_counter()
    program = CACHE.find(event, needed, cut)
    timed = None
    if program is None:
        counts["misses"] += 1
        program = build(trail, needed, None, True, cut)
        timed = explaining.Timed(event, "a compiled step", program, began)
        CACHE.store(event, program)
    nowhere = Node(None, (), (), None)  # type: ignore[arg-type]
    guards = [g.on(nowhere) for g in trail.guards]
    number = {id(a): k for k, a in reversed(list(enumerate(session.arguments[id(c)] for c in session.cells)))}
    ranges = [(number[id(g.index)], g.on(nowhere)) for g in session.ranges]
    numbers = trail.floats, trail.ints
    plan.fill(len(session.things), step, program, event, numbers, session.draws, guards, ranges)
    trail.close()
    return timed
