"""Recording again what was recorded at the same place before, without looking at it twice.

The usual case of a loop, and the one whose microseconds count: a dictionary tells
from the row (or the function), the grad mode and the operands' codes where the
trail goes on.  What is not found there is recorded the long way, by ``apply``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

from .dtypes import get_default_dtype
from .graph import Node
from .rules.call import Call
from .rules.op import Row
from .state import LOCAL
from .tensor import Tensor, as_view, take
from .trail import Event, Trail

P = ParamSpec("P")
R = TypeVar("R", Tensor, tuple[Tensor, ...])
new: Any = object.__new__

LONGEST = 256  # ops of one function
_PLAIN = frozenset((int, float, bool, str, type(None)))
MOST = 16  # functions, or different arguments, at one place


def known(row: Row, a: Tensor, b: Tensor | None = None) -> Tensor | None:
    """Record ``row``, which has no parameters, if it was recorded at this place before."""
    recorder = LOCAL.now
    trail = recorder.trail
    at = a._at
    code = at.code if at.trail is trail else trail.code(a)
    key: tuple[Any, ...]
    if b is None:
        key = (row, recorder.mode, code)
    else:
        at = b._at
        key = (row, recorder.mode, code, at.code if at.trail is trail else trail.code(b))
        if row.context:
            key += tuple([read() for read in row.context.values()])
    event = trail.event.after.get(key)
    if event is None or recorder.trail is not trail:  # deriving a view may have run the trail
        return None
    return take(trail, event)


def known_scalar(row: Row, a: Tensor, number: float) -> Tensor | None:
    """The same for a row with a tensor and one number, named ``scalar``."""
    recorder = LOCAL.now
    trail = recorder.trail
    at = a._at
    code = at.code if at.trail is trail else trail.code(a)
    event = trail.event.after.get((row, recorder.mode, code, "scalar", float))
    if event is None or recorder.trail is not trail:
        return None
    trail.floats[event.n_floats - 1 :] = (number,)
    return take(trail, event)


class Stretch(NamedTuple):
    """The ops that a function recorded, one after the other, and their numbers."""

    events: tuple[Event, ...]
    floats: tuple[float, ...]
    ints: tuple[int, ...]
    around: tuple[tuple[Callable[[], Any], Any], ...]  # what the ops' calls depend on besides, as it was
    outs: tuple[tuple[int, tuple[int, Row, dict[str, Any]] | None], ...]  # which are results; of what argument a view
    several: bool  # the function gives a tuple

    def take(self, trail: Trail, args: tuple[Any, ...]) -> Any:
        """Record them again, if nothing around them has changed; the function's result, else None."""
        for read, value in self.around:
            if read() != value:
                return None
        events = self.events
        last = events[-1]
        made = []
        for event in events:
            node = new(Node)
            node.trail, node.code, node.event, node.value = trail, event.code, event, None
            made.append(node)
        if self.floats:
            trail.floats[last.n_floats - len(self.floats) :] = self.floats
        if self.ints:
            trail.ints[last.n_ints - len(self.ints) :] = self.ints
        trail.nodes[events[0].code >> 1 :] = made
        trail.event = last
        outs = []
        for place, view in self.outs:
            node = made[place]
            out = new(Tensor)
            out._at = node
            if node.code & 1:
                out._edge = node
            if view is not None:
                as_view(out, view[1], args[view[0]], view[2])
            outs.append(out)
        return tuple(outs) if self.several else out


def quick(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function that records some ops be known again by its arguments, before it looks at them.

    Whatever it does on its way to its result (defaults, names of axes, checks, the ops
    between) is then done once.  It must be a function of its arguments and of what the
    rows name as context; it is called each time if one of its ops must look at values.
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        recorder = LOCAL.now
        trail = recorder.trail
        key: list[Any] = [function, recorder.mode, len(args)]
        usual = True
        for value in (*args, *kwargs, *kwargs.values()) if kwargs else args:
            kind = value.__class__
            if kind is Tensor:
                at = value._at  # type: ignore[attr-defined]
                key.append(at.code if at.trail is trail else trail.code(value))
                continue
            key.append(kind)
            key.append(value)
            if kind is tuple:  # (0, 1) and (False, True) are equal
                key += [v.__class__ for v in value]  # type: ignore[attr-defined]
                usual = usual and _PLAIN.issuperset(key[-len(value) :])  # type: ignore[arg-type]
            elif kind is float and not value:
                key.append(repr(value))  # so are 0.0 and -0.0
            elif kind not in _PLAIN:
                usual = False
        if not usual:
            return function(*args, **kwargs)
        way = tuple(key)
        before = trail.event
        stretch = before.stretches.get(way)
        if stretch is not None and recorder.trail is trail:
            out = stretch.take(trail, args)
            if out is not None:
                return out  # type: ignore[no-any-return]
        out = function(*args, **kwargs)
        if recorder.mode is not None and recorder.trail is trail and len(before.stretches) < MOST:
            found = _since(before, trail, out, args)
            if found is not None:
                before.stretches = {**before.stretches, way: found}
        return out

    return wrapper


def _since(before: Event, trail: Trail, result: Any, args: tuple[Any, ...]) -> Stretch | None:
    """What was recorded since ``before``, if it can be recorded again without its function."""
    last = event = trail.event
    if last is before or last.n_guards != before.n_guards:
        return None
    events: list[Event] = []
    around: dict[Any, Any] = {get_default_dtype: get_default_dtype()}
    while event is not before:
        call = event.call
        if not isinstance(call, Call) or len(events) == LONGEST or call.op.bounds_fn is not None:
            return None
        around.update((read, read()) for read in call.op.context.values())
        events.append(event)
        assert event.parent is not None
        event = event.parent
    events.reverse()
    several = result.__class__ is tuple
    outs = [_out(out, events, args) for out in (result if several else (result,))]
    if not outs or None in outs:
        return None
    floats, ints = tuple(trail.floats[before.n_floats :]), tuple(trail.ints[before.n_ints :])
    return Stretch(tuple(events), floats, ints, tuple(around.items()), tuple(outs), several)  # type: ignore[arg-type]


def _out(out: Any, events: list[Event], args: tuple[Any, ...]) -> tuple[int, Any] | None:
    """Which of the events made a result, and the argument it is a view of; None if it is something else."""
    if out.__class__ is not Tensor:
        return None
    node, view = out._node, out._view
    if node.event not in events or out._edge is not (node if node.code & 1 else None):
        return None
    if view is None:
        return events.index(node.event), None
    number = next((k for k, t in enumerate(args) if t is view.base), None)
    return None if number is None else (events.index(node.event), (number, view.row, view.params))
