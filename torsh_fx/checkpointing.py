"""``checkpoint`` on the imperative path: the function is recorded, marked as a region."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from .attempting import Attempt, possible, remember
from .lift import is_tensor
from .regions import BEGIN, END, mark
from .state import here
from .tensor import Tensor


def checkpointed(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], traced: Callable[[], Any]
) -> Any:
    """``fn(*args, **kwargs)`` as a region of the trail, see ``regions``; what ``traced`` gives if that is not possible.

    Nothing may be read inside, since the region would end there, see NOTE [attempts].
    """
    flat, tree = jax.tree.flatten((args, kwargs), is_leaf=is_tensor)
    if not (here().grad and possible(fn, "checkpoint") and all(type(t) is Tensor for t in flat if is_tensor(t))):
        return traced()
    out = None
    with Attempt(strict=False) as attempt:
        own = [_handle(attempt, t) if is_tensor(t) else t for t in flat]
        trail = here().trail
        mark(trail, BEGIN)
        try:
            a, k = jax.tree.unflatten(tree, own)
            out = fn(*a, **k)
        finally:
            mark(trail, END)
    if attempt.over:
        del own
        attempt.undo()
        out = traced()
        remember(fn, "checkpoint")
    return out


def _handle(attempt: Attempt, t: Tensor) -> Tensor:
    """The same value and place in the graph, but what is written to it is not written to ``t``."""
    node, edge = t._node, t._current_edge()
    if edge is not None:
        attempt.arguments.add(node)
    out = Tensor(node, edge)
    out._stop = t._stop
    return out
