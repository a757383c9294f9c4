"""Running what was recorded: find it, key it, reuse or build its program, commit.

A run walks back from what is wanted to values that exist.  The nodes it meets,
in program order, are the program; its key holds ops, static parameters and
wiring, never a number, an id or a hash.  Numbers travel in one packed vector
each for floats and integers, so a changing learning rate is the same program.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .engine import Plan
from .graph import Guard, Node
from .program import Program, build
from .rules import OutOfRangeError, TorshError
from .state import ambient_trace
from .stats import counts
from .traces import freeze

CACHE_SIZE = 1024

_lock = threading.RLock()
_programs: OrderedDict[Any, list[tuple[int, Program]]] = OrderedDict()


def force(node: Node) -> Any:
    """The value of ``node``, computed if it is still pending."""
    if node.value is None:
        run([node])
    return node.value


def run(wanted: Sequence[Node]) -> None:
    """Compute ``wanted`` in one program and commit every value that is still held."""
    with _lock:
        request = Request([n for n in wanted if n.value is None], keep=True)
        if not request.pending:
            return
        program = _program(request)
    _execute(program, request)


def run_backward(
    plan: Plan, root: Any, also: Node, seed: Node, existing: Sequence[Node | None], retain: bool
) -> list[Node]:
    """Gradients of ``plan.leaves``, as nodes with values, in one program with what was pending.

    ``root`` is where the seed enters the graph, ``also`` a value to compute along
    the way, ``existing[k]`` a gradient already stored at leaf k, to be added to.
    Nothing is committed to leaves here; unless ``retain``, the graph is freed.
    """
    with _lock:
        residuals = [r for n in plan.order for r in residual_nodes(n)]
        roots = [also, seed, *residuals, *(e for e in existing if e is not None)]
        request = Request([n for n in roots if n.value is None], keep=False)
        del residuals, roots
        request.add_backward(plan, seed, existing, retain)
        program = _program(request, plan, root, seed, existing)
    gradients = _execute(program, request)
    if not retain:
        free(plan)
    return [Node(None, (), (), leaf.aval, value=g) for leaf, g in zip(plan.leaves, gradients, strict=True)]


def residual_nodes(node: Node) -> list[Node]:
    """The values that the VJP of ``node`` reads."""
    keys = node.call.residual_keys(node.mask())
    return [node if isinstance(k, str) else node.inputs[k] for k in keys]


def free(plan: Plan) -> None:
    """Mark the history that a backward walked as used up, and let go of it."""
    for node in plan.order:
        node.freed = True
        if node.value is not None:
            node.inputs, node.runtime, node.guard = (), (), None


class Request:
    """What a run needs, numbered: pending nodes, input arrays, scalars, and the key."""

    def __init__(self, wanted: Sequence[Node], keep: bool) -> None:
        self.pending = _pending(wanted)
        self.index = {id(n): p for p, n in enumerate(self.pending)}
        self.arrays: list[Any] = []
        self.floats: list[float] = []
        self.ints: list[int] = []
        self.guards: list[Guard] = []
        self.key: list[Any] = []
        self.runtime: dict[int, tuple[Any, ...]] = {}  # by node id: references to runtime values
        self._seen: dict[int, int] = {}
        self.leaves: list[Node] = []  # a node for each input array
        self.must: set[int] = {id(n) for n in wanted} if keep else set()
        self.planned: Sequence[Node] = ()
        self.freeing: Sequence[Node] = ()
        for node in self.pending:
            self.key.append(node.call)
            self.key.extend([self.ref(i) for i in node.inputs])
            if node.runtime:
                self.key.append(self.scalars(node))
            if node.guard is not None:
                self.guards.append(node.guard)
                self.key.append(("guard", self.ref(node.guard.index), node.guard.low, node.guard.extent))

    def ref(self, node: Node) -> int:
        """A number for a node: its place in the program, or ~place among the inputs."""
        place = self.index.get(id(node))
        if place is not None:
            return place
        value = node.value
        slot = self._seen.get(id(value))
        if slot is None:  # inputs are told apart by their array, not by the node that shows it
            slot = self._seen[id(value)] = len(self.arrays)
            self.arrays.append(value)
            self.leaves.append(node)
        return ~slot

    def scalars(self, node: Node) -> tuple[Any, ...]:
        """References to a node's runtime values; the numbers themselves stay out of the key."""
        refs: list[Any] = []
        for value in node.runtime:
            if isinstance(value, Node):
                refs.append(self.ref(value))
            elif isinstance(value, float):
                refs.append(("f", len(self.floats)))
                self.floats.append(value)
            else:
                refs.append(("i", len(self.ints)))
                self.ints.append(value)
        self.runtime[id(node)] = tuple(refs)
        return tuple(refs)

    def add_backward(self, plan: Plan, seed: Node, existing: Sequence[Node | None], retain: bool) -> None:
        place = {id(v): k for k, v in enumerate(plan.order)}
        place.update({id(v): ~k for k, v in enumerate(plan.leaves)})
        self.key.append("backward")
        self.key.append((self.ref(seed), *(None if e is None else self.ref(e) for e in existing)))
        for node in plan.order:
            at = self.index.get(id(node))
            self.key.append(tuple(None if e is None else place[id(e)] for e in node.edges))
            if at is not None:
                self.key.append(at)
            else:
                self.key.append(node.call)
                self.key.extend([self.ref(r) for r in residual_nodes(node)])
                if node.runtime:
                    self.key.append(self.scalars(node))
        self.planned = plan.order
        if not retain:
            self.freeing = plan.order

    def outputs(self) -> int:
        """Which pending nodes somebody can still read, as bits in program order."""
        inside: dict[int, int] = {id(n): 1 for n in self.planned}  # references from within: the plan's list,
        together = {id(n): n for n in (*self.pending, *self.planned)}
        for node in together.values():  # and operands, edges and runtime values of these nodes
            for other in (*node.inputs, *node.edges, *node.runtime):
                key = id(other)
                inside[key] = inside.get(key, 0) + 1
        keep = set(self.must)
        freeing = {id(n) for n in self.freeing}
        for node in self.pending:
            if node.edges and id(node) not in freeing and not node.freed:
                # A graph that stays alive: its backward will want these.
                keep.update(id(r) for r in residual_nodes(node))
        together.clear()
        node = other = None  # type: ignore[assignment]
        bits = 0
        for p in range(len(self.pending)):
            held = sys.getrefcount(self.pending[p]) - _ALONE - inside.get(id(self.pending[p]), 0)
            if held > 0 or id(self.pending[p]) in keep:
                bits |= 1 << p
        return bits


# What getrefcount says of an element that only its list holds; anybody else can read it.
_ALONE = sys.getrefcount([object()][0])


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
    return sorted(found.values(), key=_by_serial)


def _by_serial(node: Node) -> int:
    return node.serial


def _program(
    request: Request,
    plan: Plan | None = None,
    root: Any = None,
    seed: Node | None = None,
    existing: Sequence[Node | None] = (),
) -> Program:
    """The known program of a request, or a new one."""
    bits = request.outputs()
    key = tuple(request.key)
    program = _lookup(key, bits)
    if program is not None:
        counts["hits"] += 1
        return program
    counts["misses"] += 1
    program = build(request, bits, plan, root, seed, existing)
    _store(key, bits, program)
    return program


def _execute(program: Program, request: Request) -> Sequence[Any]:
    """Run, check, commit; returns the gradients.  No lock while XLA works: a callback may read Tensors."""
    counts["programs run"] += 1
    values, gradients, flags = _call(program, request)
    for guard, flag in zip(request.guards, flags, strict=True):
        bad, index = np.asarray(flag)
        if bad:  # nothing of this program is committed
            raise OutOfRangeError(f"[{guard.op}] index {index} is out of range for {guard.what}, at {guard.where}")
    with _lock:
        for place, value in zip(program.kept, values, strict=True):
            _commit(request.pending[place], value)
    return gradients  # type: ignore[no-any-return]


def _call(program: Program, request: Request) -> Any:
    try:
        with jax.enable_x64(True):
            if ambient_trace() is None:
                return program(request.arrays, request.floats, request.ints)
            freeze((*request.pending, *request.leaves))
            with jax.ensure_compile_time_eval():  # NOTE [traces]: never leak a foreign tracer
                return program(request.arrays, request.floats, request.ints)
    except jax.errors.JaxRuntimeError as error:  # out of memory, a callback that raised
        raise TorshError(f"XLA could not run the recorded program: {error}") from error


def _commit(node: Node, value: Any) -> None:
    if node.value is not None:  # another thread was faster
        return
    node.value = value
    node.depth = 0
    if not node.edges or node.freed:
        node.inputs, node.runtime = (), ()
    node.guard = None


def _lookup(key: Any, bits: int) -> Program | None:
    known = _programs.get(key)
    if known is not None:
        _programs.move_to_end(key)
        for have, program in known:
            if have & bits == bits:  # more outputs than needed are a hit too
                return program
    return None


def _store(key: Any, bits: int, program: Program) -> None:
    _programs.setdefault(key, []).append((bits, program))
    while len(_programs) > CACHE_SIZE:
        _programs.popitem(last=False)


def backward_lock() -> Any:
    """Held while gradients are read, added to and stored: one backward at a time."""
    return _backward_lock


_backward_lock = threading.RLock()
