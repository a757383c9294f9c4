"""What the comparison with PyTorch's samples must be told: other names, free values, known differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torsh_fx as tx


class Difference(NamedTuple):
    """Samples of an op that are not PyTorch's, and why that is so."""

    op: str  # PyTorch's name, or name.variant
    laws: tuple[str, ...]
    when: Callable[[Any], bool]  # of PyTorch's sample
    why: str


def _where(x: Any, condition: Any, other: Any) -> Any:
    return tx.where(condition, x, other)


def _zeroed(x: Any) -> Any:
    return x.clone().zero_()


# PyTorch's table calls these otherwise than by their name.
NAMES: dict[str, Callable[..., Any]] = {"where": _where, "zero_": _zeroed}

# The same name for another thing: absent here.
HOMONYMS = {"unfold": "ours is nn.functional.unfold, PyTorch's method is a sliding view"}

# Shape and dtype only: their values are random or left open.
VALUES_FREE = frozenset({"empty", "empty_like", "rand_like", "randint", "randn", "randn_like"})


def _number_first(sample: Any) -> bool:
    return not hasattr(sample.input, "dtype") or any(isinstance(a, (int, float)) for a in sample.args)


_NUMBERS = (
    "eq ne lt le gt ge max.binary min.binary maximum minimum logical_and logical_or logical_xor __radd__ __rmul__"
).split()

DIFFERENCES: tuple[Difference, ...] = tuple(
    Difference(name, ("error",), _number_first, "a number is taken on either side") for name in _NUMBERS
)
