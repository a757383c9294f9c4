"""A compiled step at work: what it must find, what it runs, what it writes back.

A ``Plan`` is what one imperative run of a step did, without the values: one
program, where its inputs come from, and where its results go.  It knows Tensors
by number: first those that the step reaches, then other arguments, then the
gradients that are stored in them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .creation import as_tensor
from .dtypes import get_default_dtype
from .executor import _check, _lost, _shielded, run
from .graph import Guard, Node, leaf
from .program import Program
from .rules import TorshError
from .rules.context import Surroundings, config
from .state import here
from .storage import Cell
from .tensor import Tensor
from .traces import anything_frozen, is_frozen
from .trail import Event, home, placed
from .watching import Watch, alike

getrefcount = sys.getrefcount
new = object.__new__

_TENSOR = ("a Tensor",)


def switches() -> tuple[Any, ...]:
    """Everything around a call that decides what is recorded."""
    return (here().grad, get_default_dtype(), config.jax_default_device, *Surroundings.now())


class Inputs:
    """The arguments of a call: what stands where, and the Tensors among them."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.spec: list[Any] = []
        self.tensors: list[Tensor] = []
        self.objects: list[Any] = []
        self.containers: list[tuple[Any, list[Any]]] = []
        self.args = [self._take(a) for a in args]
        self.kwargs = self._take(kwargs) if kwargs else kwargs

    def _take(self, value: Any) -> Any:
        kind = value.__class__
        if kind is Tensor:
            self.spec.append(_TENSOR)
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

    def written(self) -> bool:
        """Did somebody change a list or dict among them since?"""
        return not all(
            alike([*now, *now.values()] if isinstance(now, dict) else now, before) for now, before in self.containers
        )


class Found(NamedTuple):
    """The Tensors of a call."""

    things: list[Tensor]  # those the step reaches, then other arguments
    stored: list[Tensor]  # gradients that are stored in them
    cells: list[Cell]  # of both, each once


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


class Numbers(NamedTuple):
    """What runs a program beside arrays: see ``Trail``."""

    arrays: list[Any]
    leaves: list[Node]
    floats: list[float]
    ints: list[int]


def _holders(things: list[Any]) -> list[int]:
    return list(map(getrefcount, things))


def _alone() -> int:
    """What ``_holders`` counts of a thing that has an owner and is in one other list."""
    owner = [object()]
    listed = list(owner)
    return _holders([listed[0]])[0]


_ALONE = _alone()


class Plan:
    """A step for arguments of one kind and Python state of one kind; see the module."""

    def __init__(self, watch: Watch, inputs: Inputs, around: tuple[Any, ...]) -> None:
        self.watch = watch
        self.spec = inputs.spec
        self.switches = around
        self.captured = watch.tensors
        self.numbers_of = {id(t): k for k, t in enumerate(self.captured)}
        self.own = [t._cell for t in self.captured]

    def start(self, inputs: Inputs) -> Found:
        """Note how the Tensors of the first call are, and give them."""
        things, self.order = self._things(inputs)
        self.views = [k for k, t in enumerate(things) if t._view is not None]
        self.avals = [t._aval for t in things[len(self.captured) :]]
        self.state = self._state_of(things)
        found = self._with_gradients(things)
        self.partition = self._partition(found)
        self.homes = self._homes(found)
        return found

    # -- what a call must find ---------------------------------------------------------------

    def fits(self, inputs: Inputs, around: tuple[Any, ...]) -> Found | None:
        """The Tensors of a call, if the plan is right for it."""
        if around != self.switches or not alike(inputs.spec, self.spec) or not self.watch.holds():
            return None
        things, order = self._things(inputs)
        if order != self.order or self._state_of(things) != self.state:
            return None
        if inputs.tensors and [t._aval for t in things[len(self.captured) :]] != self.avals:
            return None
        for k in self.views:
            things[k]._node  # noqa: B018  derived anew where its base was written
        found = self._with_gradients(things)
        for g in found.stored:
            if g._edge is not None or g._view is not None:
                return None
        if len(found.cells) > len(self.own) and self._partition(found) != self.partition:
            return None
        if placed and self._homes(found) != self.homes:
            return None
        for c, _ in self.step.writes:
            cell = found.cells[c]
            if cell.views:
                cell.views = [r for r in cell.views if r() is not None]
            if cell.views or (anything_frozen and is_frozen(cell.node)):
                return None  # recording it anew says what is wrong
        return found

    def _things(self, inputs: Inputs) -> tuple[list[Tensor], list[int]]:
        """All Tensors but gradients, each once, and the number of each argument."""
        if not inputs.tensors:
            return self.captured, []
        things, order = self.captured.copy(), []
        numbers = self.numbers_of
        others: dict[int, int] = {}
        for t in inputs.tensors:
            key = id(t)
            number = numbers.get(key)
            if number is None:
                number = others.get(key)
                if number is None:
                    number = others[key] = len(things)
                    things.append(t)
            order.append(number)
        return things, order

    def _state_of(self, things: list[Tensor]) -> list[Any]:
        """What Python sees of each: does it require grad, has it a gradient, is it a view?"""
        return [
            (t._edge.__class__, t._slot is None or t._slot.grad is None, t._view is None)  # type: ignore[union-attr]
            for t in things
        ]

    def _with_gradients(self, things: list[Tensor]) -> Found:
        stored = [t._slot.grad for t in things if t._slot is not None and t._slot.grad is not None]
        if len(things) == len(self.captured) and not stored:
            return Found(things, stored, self.own)
        cells = [*self.own, *(t._cell for t in things[len(self.own) :]), *(g._cell for g in stored)]
        return Found(things, stored, cells)

    def _partition(self, found: Found) -> list[int]:
        """Which of the Tensors share storage: for each the first with its cell."""
        first: dict[int, int] = {}
        return [first.setdefault(id(c), k) for k, c in enumerate(found.cells)]

    def _homes(self, found: Found) -> list[Any]:
        return [home(c.node) for c in found.cells] if placed else [None] * len(found.cells)

    # -- what it does ----------------------------------------------------------------------

    def fill(
        self,
        step: Step,
        program: Program,
        event: Event,
        numbers: tuple[list[float], list[int]],
        draws: list[tuple[Any, int]],
        guards: Sequence[Guard],
    ) -> None:
        """Tell what the step did when it was recorded."""
        self.step, self.program, self.event = step, program, event
        self.floats, self.ints = numbers
        self.draws = draws  # generators, and where their seeds and counters stand
        self.guards = guards
        at = {p: k for k, p in enumerate(program.kept)}
        order = [at[p] for p in step.places]
        self.picked = None if order == list(range(len(program.kept))) else order
        # Overwritten storage whose memory the program takes over: (input, value).
        cell_of = {step.sources[k]: k for k in program.donated}
        self.inplace = [(cell_of[c], v) for c, v in step.writes if c in cell_of and v >= 0]
        self.others = [(c, v) for c, v in step.writes if not (c in cell_of and v >= 0)]

    def run(self, found: Found) -> Any:
        """Do the step; nothing is written unless all of it is there."""
        step, program = self.step, self.program
        cells = found.cells
        constants = step.constants
        nodes = [cells[s].node if s >= 0 else constants[~s].node for s in step.sources]
        pending = [n for n in nodes if n.value is None]
        if pending:
            run(pending)
        arrays = [n.value for n in nodes]
        alone = self._make_alone(nodes, arrays)
        ints = self.ints
        before = [(g, g.get_state()) for g, _ in self.draws]
        box: list[Any] = []  # filled by C code in one go: no signal comes between a donation and its result
        out: list[Any] = []
        try:
            if before:
                ints = ints.copy()
                for generator, at in self.draws:
                    ints[at : at + 2] = generator.draw()
            numbers = Numbers(arrays, nodes, self.floats, ints)
            try:
                with jax.enable_x64(True):
                    program.run(numbers, box, False)
                if program.n_guards or program.careful:
                    values, box = box[0], []  # not to be committed before it is known to be right
                    _check(self.guards, values[len(values) - program.n_guards :])
                    box.append(jax.block_until_ready(values))
            except jax.errors.JaxRuntimeError as error:  # out of memory, a callback that raised
                raise TorshError(f"XLA could not run the compiled step: {error}{_lost(numbers, program)}") from error
        finally:
            if box:
                _shielded(self._commit, found, nodes, box[0], alone, out)
            else:
                for generator, state in reversed(before):
                    generator.set_state(state)
        return out[0]

    def _make_alone(self, nodes: list[Node], arrays: list[Any]) -> bool:
        """Does nobody else hold what the program writes over?  What somebody does is copied first."""
        if not self.inplace:
            return True
        mine = [nodes[k] for k, _ in self.inplace]
        memory = [arrays[k] for k, _ in self.inplace]
        total = [_ALONE] * len(mine)
        if _holders(mine) == total and _holders(memory) == total:
            return True
        with jax.enable_x64(True):
            for (k, _), a, b in zip(self.inplace, _holders(mine), _holders(memory), strict=True):
                if a != total[0] or b != total[0]:
                    arrays[k] = jnp.copy(arrays[k])
        return False

    def _commit(self, found: Found, nodes: list[Node], values: list[Any], alone: bool, out: list[Any]) -> None:
        """Write everything back; may be begun again."""
        step = self.step
        if self.picked is not None:
            values = [values[k] for k in self.picked]
        cells, avals = found.cells, step.avals
        if alone:  # nobody holds these nodes: they may show the new value themselves
            for k, v in self.inplace:
                nodes[k].value = values[v]
        for c, v in self.others if alone else step.writes:
            cells[c].node = leaf(values[v], avals[v]) if v >= 0 else nodes[~v]
        for c, _ in step.writes:
            cells[c].version += 1
        things = found.things
        for k in step.cleared:
            things[k]._slot.grad = None  # type: ignore[union-attr]
        known = [*things, *found.stored]
        for alias, v in step.fresh:
            if alias:
                known.append(known[v].detach())
            else:
                made = new(Tensor)
                made._at = leaf(values[v], avals[v]) if v >= 0 else nodes[~v]
                known.append(made)
        for k, number in step.graded:
            things[k]._slot.grad = known[number]  # type: ignore[union-attr]
        out[:] = [rebuilt(step.returned, known)]


def rebuilt(template: Any, known: list[Tensor]) -> Any:
    """What a step returns, with this call's Tensors."""
    kind = template.__class__
    if kind is Ref:
        return known[template]
    if kind is list or kind is tuple:
        return kind([rebuilt(t, known) for t in template])
    if kind is dict:
        return {k: rebuilt(t, known) for k, t in template.items()}
    if kind is Tree:
        return template.rebuilt(known)
    return template


class Tree(NamedTuple):
    """A named tuple or another registered pytree with Tensors in it."""

    structure: Any
    parts: list[Any]

    def rebuilt(self, known: list[Tensor]) -> Any:
        """The same with this call's Tensors."""
        return jax.tree.unflatten(self.structure, [rebuilt(p, known) for p in self.parts])
