"""A compiled step at work: what it must find, what it runs, what it writes back.

A ``Plan`` is what one imperative run of a step did, without the values: one
program, where its inputs come from, and where its results go.  It knows Tensors
by number: first those that the step reaches, then other arguments, then the
gradients that are stored in them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from operator import attrgetter, is_
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .creation import as_tensor
from .dtypes import get_default_dtype
from .executor import _lock, run
from .graph import Guard, Node, leaf
from .hooking import hooked
from .program import Program
from .ranges import check
from .rules.context import config
from .running import launch, lost, shielded
from .state import here
from .storage import Cell
from .tensor import Tensor
from .traces import anything_frozen, is_frozen
from .trail import Event, lies, placed
from .watching import Watch, alike

getrefcount = sys.getrefcount
new = object.__new__

_TENSOR = ("a Tensor",)
_view = attrgetter("_view")


def switches() -> tuple[Any, ...]:
    """Everything around a call that decides what is recorded."""
    return (
        here().grad,
        get_default_dtype(),
        here().autocast,
        config.jax_enable_x64,
        config.jax_default_matmul_precision,
        config.jax_default_device,
        config.jax_numpy_dtype_promotion,
        config.jax_numpy_rank_promotion,
        jax.sharding.get_abstract_mesh(),
    )


class Inputs:
    """The arguments of a call: what stands where, and the Tensors among them."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.spec: list[Any] = []
        self.tensors: list[Tensor] = []
        self.objects: list[Any] = []
        self.containers: list[tuple[Any, list[Any]]] = []
        if all(map(is_, map(type, args), repeat(Tensor))):
            self.args: Any = args
            self.tensors += args
            self.spec += repeat(_TENSOR, len(args))
        else:
            self.args = [self._take(a) for a in args]
        self.kwargs = self._take(kwargs) if kwargs else kwargs

    def _take(self, value: Any) -> Any:
        kind = value.__class__
        if kind is Tensor or isinstance(value, Tensor):
            self.spec.append(_TENSOR if kind is Tensor else kind)
            self.tensors.append(value)
            return value
        if isinstance(value, (jax.Array, np.ndarray)):
            return self._take(as_tensor(value))
        if kind in (list, tuple) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
            self.spec.append((kind, len(value)))
            if kind is list:
                self.containers.append((value, list(value)))
            parts = [self._take(v) for v in value]
            if all(a is b for a, b in zip(parts, value, strict=True)):
                return value
            return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
        if kind is dict:
            self.spec.append((kind, *value))
            self.containers.append((value, [*value, *value.values()]))
            taken = {k: self._take(v) for k, v in value.items()}
            return value if all(taken[k] is v for k, v in value.items()) else taken
        self.spec.append(value)
        self.objects.append(value)
        return value

    def with_bases(self) -> list[Tensor]:
        """The Tensors, and after each view those below it."""
        if all(map(is_, map(_view, self.tensors), repeat(None))):
            return self.tensors
        found = []
        for t in self.tensors:
            found.append(t)
            while t._view is not None:
                t = t._view.base
                found.append(t)
        return found

    def written(self) -> bool:
        """Did somebody change a list or dict among them since?"""
        return not all(
            alike([*now, *now.values()] if isinstance(now, dict) else now, before) for now, before in self.containers
        )


class Found(NamedTuple):
    """The Tensors of a call that its plan does not know yet."""

    others: list[Tensor]  # arguments, and what is below them if they are views
    stored: list[Tensor]  # gradients that are stored, in what the step reaches or in those
    late: list[Cell]  # of both


NOTHING: tuple[Found, list[int], list[Any]] = (Found([], [], []), [], [])


class Ref(int):
    """In what a step returns: a Tensor, by its number."""


class Step(NamedTuple):
    """What one run of a step did, as numbers of Tensors, cells, inputs and values.

    A value is the j-th that comes out, or ~k for the k-th input as it was.
    """

    sources: tuple[int, ...]  # per input of the program its cell, or ~c for the c-th constant
    constants: tuple[Cell, ...]
    places: tuple[int, ...]  # of the values that must come out
    avals: tuple[Any, ...]
    writes: tuple[tuple[int, int], ...]  # (cell, value)
    cleared: tuple[int, ...]  # Tensors that lose their gradient
    graded: tuple[tuple[int, int], ...]  # (Tensor, number of the Tensor that becomes its gradient)
    fresh: tuple[tuple[bool, int], ...]  # new Tensors: detached from that one (True), or of that value
    returned: Any


def _holders(things: list[Any]) -> list[int]:
    return list(map(getrefcount, things))


def _alone() -> int:
    """What ``_holders`` counts of a thing that has an owner and is in one other list."""
    owner = [object()]
    listed = list(owner)
    return _holders([listed[0]])[0]


_ALONE = _alone()


_nothing = contextlib.nullcontext()
_edge = attrgetter("_edge")
_grad = attrgetter("grad")
_slot = attrgetter("_slot")
_node = attrgetter("node")
_value = attrgetter("value")


def _partition(cells: list[Cell]) -> list[int]:
    """Which of the Tensors share storage: for each the first with its cell."""
    first: dict[int, int] = {}
    return [first.setdefault(id(c), k) for k, c in enumerate(cells)]


def _homes(cells: list[Cell]) -> list[Any]:
    return [lies(c.node) for c in cells] if placed else [None] * len(cells)


class Plan:
    """A step for arguments of one kind and Python state of one kind; see the module."""

    def __init__(self, watch: Watch, inputs: Inputs, around: tuple[Any, ...]) -> None:
        self.watch = watch
        self.spec = inputs.spec
        self.switches = around
        self.captured = watch.tensors
        self.number_of = {id(t): k for k, t in enumerate(self.captured)}
        self.own = [t._cell for t in self.captured]

    def start(self, inputs: Inputs) -> Found:
        """Note how the Tensors of the first call are, and give them."""
        captured = self.captured
        self.slots = [t._slot for t in captured if t._slot is not None]
        self.slotless = [t for t in captured if t._slot is None]
        self.edges = list(map(_edge, captured))
        self.bare = [s.grad is None for s in self.slots]
        self.all_bare = all(self.bare)
        if self.all_bare:  # all in one comparison
            self.edges += repeat(None, len(self.slots))
        self.own_ids = frozenset(map(id, self.own))
        found, self.order, self.kinds = self._located(inputs, list(map(_grad, self.slots)))
        cells = self.own + found.late
        self.partition = _partition(cells)
        self.distinct = self.partition == list(range(len(cells)))
        self.homes = _homes(cells)
        return found

    # -- what a call must find ---------------------------------------------------------------

    def replaces(self, other: Plan) -> bool:
        """Is ``other`` the same step as it was before what it reaches changed?  It would not fit again."""
        return self.event is other.event and alike(self.spec, other.spec) and self.order == other.order

    def fits(self, inputs: Inputs, around: tuple[Any, ...]) -> Found | None:
        """The Tensors of a call, if the plan is right for it."""
        if around != self.switches or not alike(inputs.spec, self.spec) or not self.watch.holds():
            return None
        captured = self.captured
        grads: list[Tensor | None] = []
        if self.all_bare:
            if not all(map(is_, chain(map(_edge, captured), map(_grad, self.slots)), self.edges)):
                return None
        elif not all(map(is_, map(_edge, captured), self.edges)):
            return None
        else:
            grads = list(map(_grad, self.slots))
            if list(map(is_, grads, repeat(None))) != self.bare:
                return None
        if any(map(_slot, self.slotless)):
            return None
        found, order, kinds = self._located(inputs, grads)
        if order != self.order or kinds != self.kinds:
            return None
        for g in found.stored:
            if g._edge is not None or g._view is not None:
                return None
        if hooked and not hooked.isdisjoint([*self.slots, *map(_slot, found.others)]):
            return None  # its Python is to run
        if found.late and not self._share_alike(found.late):
            return None
        if placed and _homes(self.own + found.late) != self.homes:
            return None
        if anything_frozen and any(is_frozen(self._cell(c, found).node) for c, _ in self.step.writes):
            return None  # recording it anew says what is wrong
        return found

    def _share_alike(self, late: list[Cell]) -> bool:
        if self.distinct:
            ids = list(map(id, late))
            return self.own_ids.isdisjoint(ids) and len({*ids}) == len(ids)
        return _partition(self.own + late) == self.partition

    def _located(self, inputs: Inputs, grads: list[Tensor | None]) -> tuple[Found, list[int], list[Any]]:
        """The Tensors, each argument's number, and what each must have in common with that of another call."""
        if self.all_bare and not inputs.tensors:
            return NOTHING
        found: list[Any] = []
        stored: list[Any] = []
        late: list[Any] = []
        order: list[int] = []
        kinds: list[Any] = []
        numbers, own = self.number_of, len(self.own)
        others: dict[int, int] = {}
        if not self.all_bare:
            stored += [g for g in grads if g is not None]
        for t in inputs.with_bases():
            key = id(t)
            number = numbers.get(key)
            if number is None:
                number = others.get(key)
            if number is None:
                number = others[key] = own + len(found)
                if t._view is not None:
                    t._node  # noqa: B018  derived anew if its base was written
                grad = None if t._slot is None else t._slot.grad
                if grad is not None:
                    stored.append(grad)
                cell = t._storage or t._cell
                found.append(t)
                late.append(cell)
                kinds.append((cell.node.aval, t._edge.__class__, t._view is None, grad is None))
            order.append(number)
        if stored:
            late += [g._cell for g in stored]
        return Found(found, stored, late), order, kinds

    def _cell(self, number: int, found: Found) -> Cell:
        own = len(self.own)
        return self.own[number] if number < own else found.late[number - own]

    def _thing(self, number: int, found: Found) -> Tensor:
        for part in (self.captured, found.others, found.stored):
            if number < len(part):
                return part[number]
            number -= len(part)
        raise IndexError(number)

    # -- what it does ----------------------------------------------------------------------

    def fill(
        self,
        known: int,
        step: Step,
        program: Program,
        event: Event,
        numbers: tuple[list[float], list[int]],
        draws: list[tuple[Any, int]],
        guards: Sequence[Guard],
        ranges: Sequence[tuple[int, Guard]],
    ) -> None:
        """Tell what the step did when it was recorded, with ``known`` Tensors."""
        self.step, self.program, self.event = step, program, event
        self.floats, self.ints = numbers
        self.draws = draws  # generators, and where their seeds and counters stand
        self.guards = guards
        self.ranges = ranges  # cells that hold indices, and what those must be
        at = {p: k for k, p in enumerate(program.kept)}
        order = [at[p] for p in step.places]
        self.picked = None if order == list(range(len(program.kept))) else order
        # What most steps do beside writing: return one new Tensor.
        one = step.fresh[0][1] if len(step.fresh) == 1 and not step.fresh[0][0] else -1
        plain = one >= 0 and isinstance(step.returned, Ref) and not step.cleared and not step.graded
        self.only = one if plain and step.returned >= known else None
        # Inputs in the order of the program: those whose memory it takes over, then the others.
        sources = [step.sources[k] for k in (*program.donated, *program.given)]
        place = {k: n for n, k in enumerate((*program.donated, *program.given))}
        self.writes = [(c, v if v >= 0 else ~place[~v]) for c, v in step.writes]
        self.fresh = [(alias, v if alias or v >= 0 else ~place[~v]) for alias, v in step.fresh]
        own, over = len(self.own), len(program.donated)
        input_of = {c: n for n, c in enumerate(sources[:over])}
        at_once = {c for c, v in self.writes if c in input_of and v >= 0 and c < own}
        self.inplace = [(input_of[c], self.own[c], v) for c, v in self.writes if c in at_once]
        self.others = [(c, v) for c, v in self.writes if c not in at_once]
        self.over, self.alone = over, [_ALONE] * over
        cells = [*self.own, *step.constants]
        late = cells[0] if cells else None  # any cell, where that of an argument will be
        self.cells = [step.constants[~c] if c < 0 else self.own[c] if c < own else late for c in sources]
        self.late = [(n, c - own) for n, c in enumerate(sources) if c >= own]

    def run(self, found: Found) -> Any:
        """Do the step; nothing is written unless all of it is there."""
        cells = self.cells
        if self.late:
            cells = cells.copy()
            for k, c in self.late:
                cells[k] = found.late[c]
        before = [(g, g.get_state()) for g, _ in self.draws]
        box: list[Any] = []  # filled by C code in one go: no signal comes between a donation and its result
        out: list[Any] = []
        try:
            ints = self.ints
            if before:
                ints = ints.copy()
                for generator, at in self.draws:
                    ints[at : at + 2] = generator.draw()
            with _lock if self.over else _nothing:
                nodes = list(map(_node, cells))
                arrays = list(map(_value, nodes))
                if any(map(is_, arrays, repeat(None))):
                    run([n for n in nodes if n.value is None])
                    arrays = list(map(_value, nodes))
                for c, guard in self.ranges:
                    check(guard, self._cell(c, found).node)
                alone = self._make_alone(nodes, arrays)
                self._execute(nodes, arrays, ints, box, out, found, alone)
        finally:
            if not box:
                for generator, state in reversed(before):
                    generator.set_state(state)
        return out[0]

    def _make_alone(self, nodes: list[Node], arrays: list[Any]) -> bool:
        """Does nobody else hold what the program writes over?  What somebody does is copied first."""
        over = self.over
        of_nodes, of_arrays = _holders(nodes[:over]), _holders(arrays[:over])
        if of_nodes == self.alone and of_arrays == self.alone:
            return True
        with jax.enable_x64(True):
            for k in range(over):
                if of_nodes[k] != _ALONE or of_arrays[k] != _ALONE:
                    arrays[k] = jnp.copy(arrays[k])
        return False

    def _execute(
        self,
        nodes: list[Node],
        arrays: list[Any],
        ints: list[int],
        box: list[Any],
        out: list[Any],
        found: Found,
        alone: bool,
    ) -> None:
        program, over = self.program, self.over

        def run_it() -> bool:
            if not program.ran or not program.whole:
                return program.run(self.in_order(nodes, arrays, ints), box, False)
            # What ``program.run`` would do, without putting anything in order.
            f, i = program.numbers(self.floats, ints)
            box.extend(map(program.segments[0].function, (arrays[:over],), (arrays[over:],), (f,), (i,)))
            return not over

        def destroyed() -> str:
            trail = self.in_order(nodes, arrays, ints)
            return lost(program, trail.leaves, trail.arrays)

        try:
            launch(program, self.guards, box, run_it, destroyed, "the compiled step")
        finally:
            if box:
                try:
                    self._commit(found, nodes, box[0], alone, out)
                except KeyboardInterrupt:
                    shielded(self._commit, found, nodes, box[0], alone, out)
                    raise

    def in_order(self, nodes: list[Node], arrays: list[Any], ints: list[int]) -> Any:
        """The same as if it were a trail."""
        order = (*self.program.donated, *self.program.given)
        by_input = dict(zip(order, zip(nodes, arrays, strict=True), strict=True))
        pairs = [by_input[k] for k in range(len(order))]
        return SimpleNamespace(
            leaves=[n for n, _ in pairs], arrays=[a for _, a in pairs], floats=self.floats, ints=ints
        )

    def _commit(self, found: Found, nodes: list[Node], values: list[Any], alone: bool, out: list[Any]) -> None:
        """Write everything back; may be begun again."""
        step = self.step
        if self.picked is not None:
            values = [values[k] for k in self.picked]
        avals = step.avals
        if alone:  # nobody holds these nodes: they may show the new value themselves
            for k, cell, v in self.inplace:
                nodes[k].value = values[v]
                cell.version += 1
        for c, v in self.others if alone else self.writes:
            cell = self._cell(c, found)
            cell.node = leaf(values[v], avals[v]) if v >= 0 else nodes[~v]
            cell.version += 1
        if self.only is not None:
            made = new(Tensor)
            made._at = leaf(values[self.only], avals[self.only])
            out[:] = [made]
            return
        for k in step.cleared:
            self._thing(k, found)._slot.grad = None  # type: ignore[union-attr]
        known = len(self.own) + len(found.late)
        fresh: list[Tensor] = []

        def thing(number: int) -> Tensor:
            return fresh[number - known] if number >= known else self._thing(number, found)

        for alias, v in self.fresh:
            if alias:
                fresh.append(thing(v).detach())
            else:
                made = new(Tensor)
                made._at = leaf(values[v], avals[v]) if v >= 0 else nodes[~v]
                fresh.append(made)
        for k, number in step.graded:
            self._thing(k, found)._slot.grad = thing(number)  # type: ignore[union-attr]
        out[:] = [rebuilt(step.returned, thing)]


def rebuilt(template: Any, thing: Callable[[int], Tensor]) -> Any:
    """What a step returns, with this call's Tensors."""
    kind = template.__class__
    if kind is Ref:
        return thing(template)
    if kind is list or kind is tuple:
        return kind([rebuilt(t, thing) for t in template])
    if kind is dict:
        return {k: rebuilt(t, thing) for k, t in template.items()}
    if kind is Tree or kind is Kin:
        return template.rebuilt(thing)
    return template


class Kin(NamedTuple):
    """A Tensor of a subclass."""

    kind: type[Tensor]
    number: Ref

    def rebuilt(self, thing: Callable[[int], Tensor]) -> Tensor:
        """This call's Tensor, as one of its class."""
        out = thing(self.number)
        out.__class__ = self.kind
        return out


class Tree(NamedTuple):
    """A named tuple or another registered pytree with Tensors in it."""

    structure: Any
    parts: list[Any]

    def rebuilt(self, thing: Callable[[int], Tensor]) -> Any:
        """The same with this call's Tensors."""
        return jax.tree.unflatten(self.structure, [rebuilt(p, thing) for p in self.parts])
