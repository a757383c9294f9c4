"""``einsum``: a sum of products by letters, as matrix products of pairs from left to right."""

from __future__ import annotations

import string
from typing import Any

from .arithmetic import operand
from .autocasting import narrow
from .rearranging import diagonal
from .reducing import matmul
from .reducing import sum as sum_of
from .rules import ArgumentTypeError, ArgumentValueError, ShapeMismatchError
from .shaping import expand, permute, reshape
from .tensor import Tensor

_LETTERS = set(string.ascii_letters)


@narrow
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sum of products by letters: ``"ij,jk->ik"`` is the matrix product.

    Args:
        equation: for each operand a letter an axis, commas between; ``...`` stands for
            axes that broadcast; behind ``->`` the result's letters, else those that
            occur once, in alphabetical order.
        operands: Tensors of one dtype, one by one or as one list.

    Returns:
        The axes that the result names, that dtype.

    Raises:
        ArgumentValueError: the equation does not make sense or does not fit the operands.
        ShapeMismatchError: one letter for different extents.
        ArgumentTypeError: the equation is no text, or the dtypes differ.

    Gradient: to each operand that of the products it takes part in.
    Source: ``rules.matmul``, ``rules.permute``, ``rules.sum_dim`` and ``rules.diagonal``.
    Example:
        >>> einsum("ij,j->i", tensor([[1, 2], [3, 4]]), tensor([1, 1])).tolist()
        [3, 7]
    """
    if not isinstance(equation, str):
        raise ArgumentTypeError(f"[einsum] the equation must be text, got {type(equation).__name__}")
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    tensors = [operand("einsum", x) for x in given]
    inputs, output = _parsed(equation, tensors)
    for x in tensors[1:]:
        if x.dtype != tensors[0].dtype:
            raise ArgumentTypeError(f"[einsum] operands must have one dtype, got {tensors[0].dtype} and {x.dtype}")
    _sizes(equation, inputs, tensors)
    parts = [_distinct(x, letters) for x, letters in zip(tensors, inputs, strict=True)]
    x, letters = parts[0]
    for k, (y, others) in enumerate(parts[1:], 1):
        wanted = {*output, *(letter for part in parts[k + 1 :] for letter in part[1])}
        x, letters = _pair(x, letters, y, others, wanted)
    x, letters = _summed(x, letters, set(output))
    return permute(x, *(letters.index(letter) for letter in output))


def _parsed(equation: str, tensors: list[Tensor]) -> tuple[list[list[str]], list[str]]:
    """One name an axis: letters, and numbers for the axes that ``...`` stands for."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors) or not tensors:
        raise ArgumentValueError(f"[einsum] {equation!r} names {len(terms)} operand(s), got {len(tensors)}")
    inputs = []
    for term, x in zip(terms, tensors, strict=True):
        before, dots, after = term.partition("...")
        rest = x.ndim - len(before) - len(after)
        if not {*before, *after} <= _LETTERS or rest < 0 or (rest and not dots):
            raise ArgumentValueError(f"[einsum] {term!r} of {equation!r} does not fit shape {list(x.shape)}")
        inputs.append([*before, *(str(k) for k in range(rest - 1, -1, -1)), *after])
    every = [name for letters in inputs for name in letters]
    broad = sorted({name for name in every if name.isdigit()}, key=int, reverse=True)
    if not arrow:
        return inputs, [*broad, *sorted({n for n in every if not n.isdigit() and every.count(n) == 1})]
    before, dots, after = right.partition("...")
    output = [*before, *(broad if dots else ()), *after]
    if len(set(output)) != len(output) or not set(output) <= set(every):
        raise ArgumentValueError(f"[einsum] the result of {equation!r} names an axis twice, or one that no operand has")
    return inputs, output


def _sizes(equation: str, inputs: list[list[str]], tensors: list[Tensor]) -> None:
    """Refuse one letter for different extents; 1 broadcasts."""
    sizes: dict[str, int] = {}
    for letters, x in zip(inputs, tensors, strict=True):
        for letter, extent in zip(letters, x.shape, strict=True):
            known = sizes.get(letter, 1)
            if 1 not in (known, extent) and known != extent:
                raise ShapeMismatchError(
                    f"[einsum] {letter!r} of {equation!r} stands for extents {known} and {extent}",
                    expected=(known,),
                    got=(extent,),
                )
            sizes[letter] = extent if known == 1 else known


def _distinct(x: Tensor, letters: list[str]) -> tuple[Tensor, list[str]]:
    """A letter that occurs twice in one operand means the diagonal."""
    letters = list(letters)
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            i = letters.index(letter)
            j = letters.index(letter, i + 1)
            if x.shape[i] != x.shape[j]:
                raise ShapeMismatchError(
                    f"[einsum] {letter!r} needs one extent within an operand", expected=(x.shape[i],), got=(x.shape[j],)
                )
            x = diagonal(x, 0, i, j)
            del letters[j], letters[i]
            letters.append(letter)
    return x, letters


def _summed(x: Tensor, letters: list[str], wanted: set[str]) -> tuple[Tensor, list[str]]:
    away = [k for k, letter in enumerate(letters) if letter not in wanted]
    if not away:
        return x, letters
    total = sum_of(x, away)
    return (total if total.dtype == x.dtype else total.to(x.dtype)), [n for n in letters if n in wanted]


def _pair(x: Tensor, left: list[str], y: Tensor, right: list[str], wanted: set[str]) -> tuple[Tensor, list[str]]:
    """Two operands become one: axes that both have and nobody wants are summed, by a matrix product."""
    x, left = _summed(x, left, wanted | set(right))
    y, right = _summed(y, right, wanted | set(left))
    x, y = _alike(x, left, y, right), _alike(y, right, x, left)
    batch = [n for n in left if n in right and n in wanted]
    inside = [n for n in left if n in right and n not in wanted]
    rows, columns = [n for n in left if n not in right], [n for n in right if n not in left]
    extent = dict(zip([*left, *right], [*x.shape, *y.shape], strict=True))

    def laid_out(t: Tensor, letters: list[str], groups: tuple[list[str], list[str]]) -> Tensor:
        order = [letters.index(n) for n in (*batch, *groups[0], *groups[1])]
        return reshape(permute(t, *order), *(_size(extent, g) for g in (batch, *groups)))

    product = matmul(laid_out(x, left, (rows, inside)), laid_out(y, right, (inside, columns)))
    names = [*batch, *rows, *columns]
    return reshape(product, *(extent[n] for n in names)), names


def _alike(x: Tensor, letters: list[str], other: Tensor, others: list[str]) -> Tensor:
    """x with its axes of extent 1 broadcast to the other operand's."""
    shape = [
        other.shape[others.index(n)] if extent == 1 and n in others else extent
        for n, extent in zip(letters, x.shape, strict=True)
    ]
    return expand(x, *shape) if tuple(shape) != x.shape else x


def _size(extent: dict[str, int], names: list[str]) -> int:
    total = 1
    for name in names:
        total *= extent[name]
    return total
