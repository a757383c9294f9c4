"""Recording again what was recorded at the same place before, without looking at it twice.

The usual case of a loop, and the one whose microseconds count: a dictionary tells
from the row (or the function), the grad mode and the operands' codes where the
trail goes on.  What is not found there is recorded the long way, by ``apply``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

from .rules.op import Row
from .state import LOCAL
from .tensor import Tensor, take

P = ParamSpec("P")


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


def quick(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Let a function that records one op be known again by its arguments, before it looks at them.

    Whatever it does on its way to that op (defaults, names of axes, casts that turn
    out not to be needed) is then done once.  It is not done for ops whose values
    must be looked at, or that take numbers at run time.
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        recorder = LOCAL.now
        trail = recorder.trail
        key: list[Any] = [function, recorder.mode, len(args)]
        for value in (*args, *kwargs, *kwargs.values()) if kwargs else args:
            kind = value.__class__
            if kind is Tensor:
                at = value._at  # type: ignore[attr-defined]
                key.append(at.code if at.trail is trail else trail.code(value))
            else:
                key.append(kind)
                key.append(value)
                if kind is tuple:  # (0, 1) and (False, True) are equal
                    key += [v.__class__ for v in value]  # type: ignore[attr-defined]
        way = tuple(key)
        before = trail.event
        try:
            event = before.after.get(way)
        except TypeError:  # a list of axes
            return function(*args, **kwargs)
        if event is not None and recorder.trail is trail:
            return take(trail, event)
        out = function(*args, **kwargs)
        event = trail.event
        if (
            event.parent is before
            and out.__class__ is Tensor
            and out._at.trail is trail
            and out._at.event is event
            and not event.numbers
            and not event.call.op.checked
            and not event.call.op.context
            and recorder.mode is not None
        ):
            before.after[way] = event
        return out

    return wrapper
