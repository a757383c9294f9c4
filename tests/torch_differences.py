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


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _where(x: Any, condition: Any, other: Any) -> Any:
    return tx.where(condition, x, other)


def _zeroed(x: Any) -> Any:
    return x.clone().zero_()


# PyTorch's table calls these otherwise than by their name.
NAMES: dict[str, Callable[..., Any]] = {"where": _where, "zero_": _zeroed}

# The same name for another thing: absent here.
HOMONYMS = {"unfold": "ours is nn.functional.unfold, PyTorch's method is a sliding view"}

# Shape and dtype only: their values are random or left open.
VALUES_FREE = words("empty empty_like rand_like randint randn randn_like")


def _number_first(sample: Any) -> bool:
    return not hasattr(sample.input, "dtype") or any(isinstance(a, (int, float)) for a in sample.args)


_NUMBERS = words(
    "eq ne lt le gt ge max.binary min.binary maximum minimum logical_and logical_or logical_xor __radd__ __rmul__"
)


def _always(_: Any) -> bool:
    return True


def _wants_gradient(sample: Any) -> bool:
    return bool(sample.input.requires_grad)


def _integers(sample: Any) -> bool:
    return str(sample.input.dtype) != "torch.bool"


SECOND = ("gradient", "double backward", "forward mode")
BITWISE = "operators on booleans only: bits of integers are refused"
FLOOR = "a gradient of floor division is refused, PyTorch's is 0"
DECIMALS = "round takes no decimals"

DIFFERENCES: tuple[Difference, ...] = (
    Difference("zero_", SECOND, _always, "the result has no history, as its gradient is 0 everywhere"),
    Difference("div.floor_rounding", ("forward", *SECOND), _wants_gradient, FLOOR),
    *(Difference(name, ("forward",), _integers, BITWISE) for name in ("__rand__", "__ror__", "__rxor__")),
    *(Difference(f"round.decimals_{name}", ("forward",), _always, DECIMALS) for name in ("0", "3", "neg_3")),
    *(Difference(name, ("error",), _number_first, "a number is taken on either side") for name in sorted(_NUMBERS)),
)

# Entries of which fewer samples pass than the others must: each is a gap to be closed, and fails here once it is.
BELOW_SHARE = frozenset(d.op for d in DIFFERENCES if d.why in (BITWISE, DECIMALS)) | {"zero_", "div.floor_rounding"}
