"""What the comparison with PyTorch's samples must be told: other names, free values, known differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torsh_fx as tx


class Difference(NamedTuple):
    """Samples of an op that are not PyTorch's, and why that is so."""

    op: str  # PyTorch's name, name.variant, or the class of a family (BinaryUfuncInfo)
    laws: tuple[str, ...]
    when: Callable[[Any], bool]  # of PyTorch's sample
    why: str


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _where(x: Any, condition: Any, other: Any) -> Any:
    return tx.where(condition, x, other)


def _zeroed(x: Any) -> Any:
    return x.clone().zero_()


def _embedded(weight: Any, index: Any, **options: Any) -> Any:
    return tx.nn.functional.embedding(index, weight, **options)  # type: ignore[attr-defined]


def _einsum(operands: Any, equation: str) -> Any:
    return tx.einsum(equation, *operands)


def _solution(a: Any, b: Any, driver: str) -> Any:
    return tx.linalg.lstsq(a, b, driver=driver)[:2]


def _singular(a: Any, b: Any) -> Any:
    return tx.linalg.pinv(a @ b.mT)


# PyTorch's table calls these otherwise than by their name; it says nothing of those that we lack.
NAMES: dict[str, Callable[..., Any]] = {
    "where": _where,
    "zero_": _zeroed,
    "nn.functional.embedding": _embedded,
    "einsum": _einsum,
    "linalg.lstsq.grad_oriented": _solution,
    "linalg.pinv.singular": _singular,
    "unfold": tx.Tensor.unfold,
}

# The same name for another thing: absent here.
HOMONYMS: dict[str, str] = {}


def _always(_: Any) -> bool:
    return True


def _drops(sample: Any) -> bool:
    return bool(sample.kwargs.get("training", True))


# Shape and dtype only, for such samples: their values are random or left open.
VALUES_FREE: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(words("empty empty_like new_empty rand_like randint randn randn_like"), _always),
    "nn.functional.dropout": _drops,
    "nn.functional.scaled_dot_product_attention": lambda sample: bool(sample.kwargs.get("dropout_p")),
}

# Gradients that PyTorch itself computes to fewer digits: the relative tolerance, and why.
LOOSE: dict[str, tuple[float, str]] = {
    "nn.functional.hardsigmoid": (1e-7, "PyTorch's backward has 1/6 in float32"),
    "logcumsumexp": (5e-3, "PyTorch's subtracts logarithms as large as x, 1e4 in some samples"),
}


def _number_and_tensor(sample: Any) -> bool:
    numbers = [isinstance(v, (int, float)) for v in (sample.input, *sample.args)]
    return numbers in ([True, False], [False, True])


def _filled_twice(sample: Any) -> bool:
    _, index, value = sample.args
    return hasattr(value, "grad_fn") and index.unique().numel() < index.numel()


_DERIVATIVES = ("gradient", "double backward", "forward mode")

DIFFERENCES: tuple[Difference, ...] = (
    Difference("BinaryUfuncInfo", ("error",), _number_and_tensor, "a number is taken on either side"),
    Difference(
        "index_fill",
        _DERIVATIVES,
        _filled_twice,
        "a place named twice is filled once, so the value's gradient counts it once; PyTorch counts it twice",
    ),
    Difference(
        "linalg.norm.subgradients_at_zero",
        ("double backward",),
        _always,
        "the gradient at 0 is the constant 0, and so is the second; PyTorch's second is NaN",
    ),
    Difference(
        "nn.functional.batch_norm",
        ("forward",),
        lambda sample: sample.input.dim() == 1,
        "one axis that is empty; ours asks for a batch and channels in any case",
    ),
)

# Entries of which fewer samples pass than the others must: each is a gap to be closed, and fails here once it is.
BELOW_SHARE: frozenset[str] = words("index_fill linalg.norm.subgradients_at_zero nn.functional.batch_norm")
