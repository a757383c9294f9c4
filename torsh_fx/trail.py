"""What a thread has recorded since its last run, and the paths that were recorded before.

Recording walks a trie.  Each event (an op, an operand that came from outside)
leads from one known place to the next, found by one look into a dictionary, so
a step that was seen before is recorded without checking or keying it again:
where the walk ends *is* the key of its program.  Events name operands by small
integers, never by values or ids, so equal steps take equal paths.

NOTE [codes]: an op's result at place p has the code ``2p``, plus 1 if it requires
grad through the op itself.  Any other operand (a leaf, a detached result, a
parameter that was written) has a negative code, made of where its value is, the
number of the k-th input or a place, and of the number of its edge, 0 for none.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from jax.sharding import NamedSharding

from .graph import Node, is_traced, kind_of, next_serial
from .meshes import Constraint

new = object.__new__

# NOTE [seams]: a loop that never reads must not grow, so from this many ops on a
# trail is run, at the next seam: where the ops begin to repeat, so that the next
# trail begins like this one and is the same program.  At twice the length, anywhere.
CAP = 5000

# And so that it does not pile up data: how many bytes of inputs that nobody else
# holds a trail keeps, about; see ``liveness.is_heavy``.
LIMIT = 1 << 28


# Stands where a tensor must be asked for its storage; see NOTE [at] in ``tensor``.
ELSEWHERE = Node(None, (), (), None)  # type: ignore[arg-type]


# Most events never lead to these, and every container more makes Python's collector work.
NOTHING: Any = MappingProxyType({})


class Event:
    """One step of a path: what happened, and what happened after it before."""

    __slots__ = (
        "__weakref__",
        "after",
        "call",
        "code",
        "codes",
        "familiar",
        "home",
        "key",
        "kind",
        "leaves",
        "mask",
        "n_bytes",
        "n_floats",
        "n_guards",
        "n_inputs",
        "n_ints",
        "n_nodes",
        "numbers",
        "parent",
        "programs",
        "runs",
        "seam",
        "seen",
        "stretches",
    )

    def __init__(self, parent: Event | None, key: Any) -> None:
        self.parent = parent
        self.key = key
        # What a trail holds after it; see NOTE [interrupts].
        self.n_nodes = self.n_inputs = self.n_floats = self.n_ints = 0
        self.n_bytes = self.n_guards = 0
        if parent is not None:
            self.n_nodes, self.n_inputs = parent.n_nodes, parent.n_inputs
            self.n_bytes, self.n_guards = parent.n_bytes, parent.n_guards
            self.n_floats, self.n_ints = parent.n_floats, parent.n_ints
        self.after: dict[Any, Event] = {}
        self.call: Any = None  # of an op; None for an operand that was entered
        self.code = 0  # of the op's result
        self.kind = 0
        self.codes: tuple[int, ...] = ()  # operands
        self.numbers: tuple[Any, ...] = ()  # ("f", k), ("i", k) or a code, per runtime parameter
        self.mask: tuple[bool, ...] = ()  # per operand: does it get a gradient?
        self.home: Any = None  # the devices that the result is bound to
        self.stretches: Any = NOTHING  # what whole functions recorded from here, see ``known``
        self.leaves: Any = NOTHING  # known backwards: root -> numbers of the slots reached
        # For the executor, where a path ends:
        self.runs: Any = NOTHING  # who held what -> how to run
        self.programs: Any = ()
        self.seen = 0
        self.seam = False  # a trail that came this far was run here
        self.familiar = False  # part of a path that was run
        Root.made += 1

    def step(self, key: Any) -> Event:
        """The event after this one that ``key`` describes in full."""
        found = self.after.get(key)
        if found is None:
            found = self.after.setdefault(key, Event(self, key))
        return found


class Root:
    """Where every trail starts; begun anew when the paths take too much room."""

    made = 0  # events since then
    event: Event

    @classmethod
    def clear(cls) -> None:
        cls.event = Event(None, None)
        cls.made = 0


Root.clear()


class Trail:
    """The ops recorded since the last run, in program order, and what came in from outside.

    NOTE [interrupts]: Ctrl-C may come between any two lines.  An event is therefore
    stored last, and what belongs to it is put where it says, not appended: what an
    op that was never finished has left behind is overwritten by the next.
    """

    __slots__ = (
        "arrays",
        "base",
        "breaks",
        "edges",
        "event",
        "floats",
        "guards",
        "hooks",
        "inputs",
        "ints",
        "leaves",
        "limit",
        "marked",
        "nodes",
        "numbered",
        "over",
        "period",
    )

    def __init__(self) -> None:
        self.event = Root.event
        self.nodes: list[Node] = []
        self.inputs: dict[Node, int] = {}
        self.leaves: list[Node] = []  # the node of each input
        self.arrays: list[Any] = []  # and its value, once the trail is run
        self.edges: list[Any] = []  # slots, and vertices that are not their value's own
        self.numbered: dict[Any, int] = {}
        self.floats: list[float] = []
        self.ints: list[int] = []
        self.guards: list[Any] = []
        self.base = next_serial()
        self.hooks = False  # has one of its nodes hooks?
        self.marked = False  # has it regions?  See ``regions``
        self.breaks: list[tuple[int, int]] = []
        self.period = 0  # after how many ops they repeat, once that was looked at
        self.over = False  # it was run, or never will be
        self.limit = LIMIT  # bytes of inputs at which it is looked at

    # -- operands ---------------------------------------------------------------------

    def code(self, t: Any) -> int | None:
        """The code of a Tensor; None if it has to be computed first, is traced, or may be too much to take in."""
        node: Node = t._at
        if node is ELSEWHERE:
            node = t._node if t._view is not None else t._storage.node
        if node.trail is self:
            return self.code_of(node, t._edge)
        where = self.inputs.get(node)
        if where is None:
            where = self.input(node) if self.event.n_bytes <= self.limit else None
            if where is None:
                return None
        edge = t._edge
        if edge is None:
            return ~(where << 17)
        number = self.numbered.get(edge)
        return ~(where << 17 | (self.edge(edge) if number is None else number) << 1)

    def code_of(self, node: Node, edge: Any) -> int | None:
        """``code`` for a value and its place in the graph."""
        if node.trail is self:
            if edge is node or (edge is None and not node.code & 1):
                return node.code
            place = node.code >> 1 << 17 | 1
            if edge is None:
                return ~place
            number = self.numbered.get(edge)
            return ~(place | (self.edge(edge) if number is None else number) << 1)
        where = self.inputs.get(node)
        if where is None:
            where = self.input(node)
            if where is None:
                return None
        if edge is None:
            return ~(where << 17)
        number = self.numbered.get(edge)
        return ~(where << 17 | (self.edge(edge) if number is None else number) << 1)

    def input(self, node: Node) -> int | None:
        """The number of a value from outside; None if it is not there yet or traced."""
        where = self.inputs.get(node)
        if where is not None:
            return where
        value = node.value
        if is_traced(value) or (value is None and not node.given):
            return None
        key = (node.kind, lies(node)) if placed else node.kind
        event = self.event.after.get(key)
        if event is None:
            event = Event(self.event, key)
            event.n_inputs += 1
            event.n_bytes += node.aval.size * node.aval.dtype.itemsize
            event = self.event.after.setdefault(key, event)  # whole, for other threads
        where = event.n_inputs - 1
        self.leaves[where:] = (node,)
        self.event = event
        self.inputs[node] = where
        return where

    def edge(self, edge: Any) -> int:
        """The number of the place in the graph that an operand's gradient goes to, in order of appearance."""
        number = self.numbered.get(edge)
        if number is None:
            if not edge.is_leaf:
                self.event = self.event.step(("vertex", edge.code if edge.trail is self else None))
            self.edges.append(edge)
            number = self.numbered[edge] = len(self.edges)
        return number

    def place(self, node: Node) -> int | None:
        """Where a value is, for programs: its place, or ~k as the k-th input; None if it is nowhere yet."""
        if node.trail is self:
            return node.code >> 1
        where = self.input(node)
        return None if where is None else ~where

    # -- ops ----------------------------------------------------------------------------

    def go(self, event: Event) -> Node:
        """Record the op of a known ``event``; its numbers must be there already."""
        node = new(Node)
        node.trail = self
        node.code = event.code
        node.event = event
        node.value = None
        self.nodes[event.code >> 1 :] = (node,)
        self.event = event
        return node

    def extend(
        self, call: Any, codes: tuple[int, ...], values: tuple[Any, ...], mask: tuple[bool, ...], home: Any, key: Any
    ) -> Node:
        """Record an op that was checked, and remember the way: ``key``, an event and a key, leads here from there."""
        numbers: list[Any] = []
        at_floats, at_ints = self.event.n_floats, self.event.n_ints
        floats: list[float] = []
        ints: list[int] = []
        for value in values:
            if isinstance(value, Node):
                numbers.append(self.code_of(value, None))
            elif isinstance(value, float):
                numbers.append(("f", at_floats + len(floats)))
                floats.append(value)
            else:
                numbers.append(("i", at_ints + len(ints)))
                ints.append(value)
        before = self.event
        event = before.step((call, codes, tuple(numbers), mask))
        if event.call is None:
            event.codes, event.numbers, event.mask, event.home = codes, tuple(numbers), mask, home
            event.n_nodes = before.n_nodes + 1
            event.n_floats, event.n_ints = at_floats + len(floats), at_ints + len(ints)
            event.code = before.n_nodes << 1 | any(mask)
            event.kind = kind_of(call.out)
            event.call = call
        if key is not None and key[0] is before:
            before.after[key[1]] = event
        self.floats[at_floats:] = floats
        self.ints[at_ints:] = ints
        return self.go(event)

    def bring(self, number: float) -> tuple[str, int]:
        """Take in a number that belongs to no op of this trail; its reference."""
        event = self.event.step(("number", number.__class__))
        if isinstance(number, float):
            place = self.event.n_floats
            event.n_floats = place + 1
            self.floats[place:] = (number,)
        else:
            place = self.event.n_ints
            event.n_ints = place + 1
            self.ints[place:] = (number,)
        self.event = event
        return ("f" if isinstance(number, float) else "i"), place

    def watch(self, guard: Any) -> None:
        """Let the program check an index."""
        code = self.code_of(guard.index, None)
        before = self.event
        event = before.step(("guard", code, guard.low, guard.extent))
        event.n_guards = before.n_guards + 1
        self.guards[before.n_guards :] = (guard,)
        self.event = event

    def tidy(self) -> None:
        """Drop what an op that was never finished has left behind."""
        event = self.event
        del self.nodes[event.n_nodes :], self.leaves[event.n_inputs :]
        del self.floats[event.n_floats :], self.ints[event.n_ints :], self.guards[event.n_guards :]

    # -- what the nodes of this trail are, for those who ask ------------------------------

    def node_at(self, code: int) -> Node:
        """The value that a code names."""
        place = where(code)
        return self.nodes[place] if place >= 0 else self.leaves[~place]

    def edge_at(self, code: int) -> Any:
        """Where the gradient of the operand that a code names goes."""
        if code >= 0:
            return self.nodes[code >> 1] if code & 1 else None
        number = ~code >> 1 & 0xFFFF
        return self.edges[number - 1] if number else None

    def fill(self, node: Node) -> None:
        """Write out what ``node``'s event says in numbers."""
        event = node.event
        node.inputs = tuple([self.node_at(c) for c in event.codes])
        node.runtime = tuple([self.number(r) for r in event.numbers])
        edges = tuple([self.edge_at(c) if m else None for c, m in zip(event.codes, event.mask, strict=False)])
        node.edges = edges if any(event.mask) else ()

    def close(self) -> None:
        """Let go of everything once it has run; trail and nodes would keep each other alive."""
        self.nodes = []
        self.leaves = []
        self.arrays = []
        self.edges = []
        self.guards = []
        self.inputs = {}
        self.numbered = {}

    def is_full(self) -> bool:
        """Is it to be run before it grows further?  See NOTE [seams]."""
        n = len(self.nodes)
        if n < CAP:
            return False
        last = self.nodes[-1].event
        if not last.seam and n < 2 * CAP:
            if not self.period:
                self.period = _period([e.call for e in self.events()]) or 2 * CAP
            last.seam = n % self.period == 0
            return bool(last.seam)
        return True

    def number(self, ref: Any) -> Any:
        """A runtime value by its reference."""
        if isinstance(ref, int):
            return self.node_at(ref)
        return (self.floats if ref[0] == "f" else self.ints)[ref[1]]

    def serial(self, code: int) -> int:
        """The serial number of a place; ``breaks`` are the traces and attempts that began meanwhile."""
        return next((serial for place, serial in reversed(self.breaks) if code >> 1 >= place), self.base)

    def events(self) -> list[Event]:
        """The ops' events, in program order."""
        found = []
        event: Event | None = self.event
        while event is not None:
            if event.call is not None:
                found.append(event)
            event = event.parent
        found.reverse()
        return found


def _period(calls: list[Any]) -> int:
    """After how many calls their end repeats, at least three times; 0 if it does not."""
    n = len(calls)
    for p in range(1, n // 3):
        if calls[-1] is calls[-1 - p] and calls[-p:] == calls[-2 * p : -p] == calls[-3 * p : -2 * p]:
            return p
    return 0


def where(code: int) -> int:
    """The place of the value that a code names, or ~k for the k-th input."""
    if code >= 0:
        return code >> 1
    value = ~code >> 17
    return value if ~code & 1 else ~value


# NOTE [devices]: values that nobody placed go wherever they are used, so nothing is
# looked at until the first array is bound to a device; from then on operands that
# are bound to different ones are refused as they are recorded, and how an input lies
# on a mesh is part of a program's key.
placed: list[bool] = []


def note_placed(value: Any) -> None:
    """Remember that arrays bound to a device exist."""
    if not placed and not is_traced(value) and value.committed:
        placed.append(True)


def home(node: Node) -> Any:
    """The devices a node's value is bound to, as a set, or the mesh of several; None for wherever."""
    if not placed:
        return None
    value = node.value
    if value is None:
        return node.home
    if is_traced(value) or not value.committed:
        return None
    return home_of(value.sharding)


def home_of(sharding: Any) -> Any:
    """The devices of a sharding as ``home`` names them."""
    if isinstance(sharding, NamedSharding) and sharding.num_devices > 1:
        return sharding.mesh
    return frozenset(sharding.device_set)


def layout(node: Node) -> Any:
    """How a value lies on a mesh of several devices, as far as that is known before it is computed; else None."""
    value = node.value
    if value is not None:
        if is_traced(value) or not value.committed:
            return None
        sharding = value.sharding
        return sharding if isinstance(sharding, NamedSharding) and sharding.num_devices > 1 else None
    if node.given:
        return layout(node.real)
    return node.call.sharding if isinstance(node.call, Constraint) else None


def lies(node: Node) -> Any:
    """What a program's key says of where an input is."""
    return layout(node) or home(node)


def layouts(trail: Trail, events: Sequence[Event]) -> dict[int, Any]:
    """How the values of leaves that the trail reads lie on their mesh."""
    found: dict[int, Any] = {}
    for code in {code for e in events for code, takes in zip(e.codes, e.mask, strict=False) if takes}:
        edge = trail.edge_at(code)
        if edge.is_leaf and id(edge) not in found:
            lying = layout(trail.node_at(code))
            if lying is not None:
                found[id(edge)] = lying
    return found
