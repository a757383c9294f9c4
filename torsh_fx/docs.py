"""Passages that many docstrings share, and putting them where they belong.

A function made by a factory has no docstring of its own to extend: it is
composed here, from its row's and from what all its siblings have in common.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_OPERANDS = """Args:
    a: a Tensor, a JAX array (a constant) or a number.
    b: likewise; one of the two is no number.{more}

Returns:
    The shapes broadcast together, {dtype}.

Raises:
    ArgumentTypeError: two numbers, or an operand that is neither Tensor nor number{types}.
    ArgumentValueError: {values}.
    ShapeMismatchError: the shapes do not broadcast."""

_PROMOTED = (
    "in PyTorch's result dtype: a number or a 0-d tensor\n"
    "    widens another operand's only from bool to integer to float"
)
_ALPHA = "\n    alpha: a number, or what else ``mul`` takes."
_ROUNDING = """
    rounding_mode: "floor" as ``floor_divide``; "trunc" towards 0, in integers
        among integers; None does not round."""

PRODUCT = _OPERANDS.format(more="", dtype=_PROMOTED, types="", values="a number beyond 64 bits")
ADDITION = _OPERANDS.format(more=_ALPHA, dtype=_PROMOTED, types="", values="a number beyond 64 bits")
DIVISION = _OPERANDS.format(
    more=_ROUNDING,
    dtype="in PyTorch's result dtype; integers\n    give the default dtype, unless rounded",
    types="",
    values="another rounding mode, or a number beyond float64",
)

POWER = """Args:
    x: a Tensor, a JAX array (a constant) or a number.
    exponent: likewise; one of the two is no number.

Returns:
    The shapes broadcast together, in PyTorch's result dtype.

Raises:
    ArgumentTypeError: two numbers, an operand that is neither Tensor nor number,
        or booleans to the power of booleans.
    ArgumentValueError: an integer x with a negative number as exponent.
    ShapeMismatchError: the shapes do not broadcast."""

CLAMP = """Args:
    x: a Tensor of any shape and dtype.
    min: the lower bound, a number or a Tensor that broadcasts; None for none.
    max: the upper bound, likewise.

Returns:
    The common shape in the promoted dtype; max everywhere where min > max.

Raises:
    ArgumentTypeError: a bound is neither number nor Tensor.
    ArgumentValueError: no bound, or one the dtype cannot hold.
    ShapeMismatchError: the shapes do not broadcast.

Gradient: g inside and on the bounds, else 0; a Tensor bound gets g where it was
strictly needed."""

WHERE = """Args:
    condition: a boolean Tensor.
    a: a Tensor or a number.
    b: likewise; all three broadcast.

Returns:
    The common shape in a's and b's promoted dtype; of two numbers int64 if both
    are integers, else the default dtype.

Raises:
    ArgumentTypeError: the condition is not boolean, or a or b is neither Tensor nor number.
    ArgumentValueError: a number the dtype cannot hold.
    ShapeMismatchError: the shapes do not broadcast.

Gradient: g to the one chosen, exactly 0 to the other, a selection."""

SQUARE = """Raises:
    ArgumentTypeError: x is no Tensor.

Gradient: 2x·g.
Source: ``rules.pow``.
Example:
    >>> square(tensor([1, -3])).tolist()
    [1, 9]"""

CLONE = """Returns:
    x's shape and dtype.

Raises:
    ArgumentTypeError: x is no Tensor.

Gradient: g.
Source: ``rules.clone``.
Example:
    >>> clone(tensor([1, 2])).add_(1).tolist()
    [2, 3]"""

_MADE = """Args:
    {own}
    dtype: by default {dtype}.
    device: where to put it, a JAX device or a name.
    requires_grad: make it a leaf that collects gradients.

Raises:
    ArgumentTypeError: {types}, or there is no such dtype.
    ArgumentValueError: {values},
        or there is no such device.
    AutogradError: ``requires_grad`` on integers or booleans.{more}

Gradient: none, there is no operand.
Source: a constant."""

_SIZE = "size: extents, one by one or as one sequence."
_EXTENT = "an extent is no integer"
_NEGATIVE = "an extent is negative or beyond any machine"
_DEFAULT = "the default dtype"
_MEMORY = "\n    TorshError: there is no memory for it."

CONSTANT = _MADE.format(own=_SIZE, dtype=_DEFAULT, types=_EXTENT, values=_NEGATIVE, more=_MEMORY)
FULL = _MADE.format(
    own="size: extents, one integer or a sequence.\n    fill_value: the number.",
    dtype="bool, int64 or the default dtype, as the number is",
    types=_EXTENT + ", the value no number",
    values=_NEGATIVE + ", the dtype cannot hold the number",
    more="",
)
ARANGE = _MADE.format(
    own="bounds: end; start and end; or start, end and step, which may be negative.\n"
    "    start, end, step: the same by name; 0 and 1 are the defaults of start and step.",
    dtype="int64 if all bounds are integers, else the default dtype",
    types="not 1 to 3 bounds, one that is no number",
    values="the step does not lead from start to end, the dtype cannot hold a number",
    more="",
)
LINSPACE = _MADE.format(
    own="start, end: the first and the last number.\n    steps: how many, [steps] in all.",
    dtype=_DEFAULT,
    types="a bound is no number, ``steps`` no integer",
    values="``steps`` is negative or beyond any machine",
    more="",
)
EYE = _MADE.format(
    own="n: rows.\n    m: columns, by default n.", dtype=_DEFAULT, types=_EXTENT, values=_NEGATIVE, more=""
)

LIKE = """Args:
    x: the tensor to imitate; its values are not read.
    dtype: by default x's.
    device: by default JAX's.
    requires_grad: make it a leaf that collects gradients.

Raises:
    ArgumentTypeError: x is no Tensor, or there is no such dtype or device.
    AutogradError: ``requires_grad`` on integers or booleans.

Gradient: none, x is only looked at.
Source: a constant."""

DRAWN = """Args:
    size: extents, one by one or as one sequence.
    generator: by default ``default_generator``; a draw counts it on.
    dtype: floating, by default the default dtype.
    device: where to put it, a JAX device or a name.
    requires_grad: make it a leaf that collects gradients.

Raises:
    ArgumentTypeError: an extent is no integer, the dtype not floating, or the
        generator none of ours.
    ArgumentValueError: an extent is negative.
    AutogradError: under ``jax.jit`` without a generator, where every call would
        draw the same.

Gradient: none, there is no operand."""

TRANSFORM = """Raises:
    AutogradError: ``fn`` uses a tensor from outside that requires grad, or a
        ``record`` is open around the call.
    Else what JAX's transform of that name raises, such as TypeError where there
    is nothing to differentiate.

Gradient: ``backward()`` goes through the result, as often as one likes."""

CONVOLUTION = """{n}-D {kind}, PyTorch's layouts and arguments.

{formula}

Args:
    input: [N, C, {dots}] or without N.
    weight: {weight}, in input's dtype.
    bias: [out].
    {params}: {counts}.
    groups: channels are convolved in that many independent groups.

Returns:
    [N, out, {dots}] or without N, in input's dtype.

Raises:
    ArgumentTypeError: dtypes differ or are not floating, or a parameter is no integer.
    ArgumentValueError: a rank, an extent, a group count or a parameter is impossible.
    ShapeMismatchError: weight does not take input's channels, or bias is not [out].

Gradient: {gradient};
to bias g summed over all other axes.
Source: ``rules.{name}``.
Example:
    >>> {name}(ones(1, 1{fours}), ones(1, 1{twos})).shape
    (1, 1{out})"""

IN_PLACE = """In-place ``{name}``: writes the result into this tensor and returns it.

The arguments are ``{name}``'s after the first, which is this tensor.

Raises:
    AutogradError: this is a leaf that requires grad and gradients are recorded,
        a view, a tensor with live views, or one that a trace has read.
    ShapeMismatchError: the result has another shape.
    ArgumentTypeError: the result is of a higher kind (bool, integer, float) than this.
    Else what ``{name}`` raises; nothing is written then.

Gradient: ``{name}``'s; what was computed from the old value keeps it.
Source: ``{name}``, its result cast to this dtype."""


def shared(passage: str) -> Callable[[F], F]:
    """Put ``passage`` into a function's docstring: after its own Args, before its Gradient, Source or Example."""

    def decorate(function: F) -> F:
        function.__doc__ = joined(function.__doc__, passage)
        return function

    return decorate


def joined(doc: str | None, passage: str) -> str:
    """``doc`` with ``passage`` where its sections belong; two lists of Args become one."""
    text = inspect.cleandoc(doc or "")
    found = re.search(r"^(Raises|Gradient|Source|Example):", text, re.MULTILINE)
    head, tail = (text[: found.start()], text[found.start() :]) if found else (text, "")
    head, gap = head.rstrip(), "\n\n"
    if passage.startswith("Args:\n") and "\nArgs:\n" in head:
        passage, gap = passage.removeprefix("Args:\n"), "\n"
    gap_after = "\n" if tail.startswith(("Source", "Example")) and "\nGradient:" in passage else "\n\n"
    return head + gap + passage + (gap_after + tail if tail else "")


def of_binary(row: Any, divides: bool) -> str:
    """The docstring of a function of two operands that records ``row``."""
    types = ", or both are boolean" if divides else ""
    values = "a number the common dtype cannot hold" + (", or integers divided by the number 0" if divides else "")
    dtype = _PROMOTED if row.differentiable else "bool"
    return joined(_of_row(row), _OPERANDS.format(more="", dtype=dtype, types=types, values=values))


def of_convolution(name: str, n: int) -> str:
    """The docstring of a convolution over ``n`` axes."""
    return CONVOLUTION.format(
        n=n,
        name=name,
        kind="convolution (cross-correlation)",
        formula="y[n,o,p] = Σ x[n,c,p·stride + k·dilation − padding]·w[o,c,k]",
        dots="·" * n,
        fours=", 4" * n,
        twos=", 2" * n,
        out=", 3" * n,
        weight=f"[out, C/groups, {'k' * n}]",
        params="stride, padding, dilation",
        counts=f'a number or {n}; padding also "same", "valid"',
        gradient="to input the transposed convolution of g, to weight the correlation of input with g",
    )


def of_transposed(name: str, n: int) -> str:
    """The docstring of a transposed convolution over ``n`` axes."""
    return CONVOLUTION.format(
        n=n,
        name=name,
        kind="transposed convolution",
        formula="y[n,o,p·stride + k·dilation − padding] += x[n,c,p]·w[c,o,k]",
        dots="·" * n,
        fours=", 4" * n,
        twos=", 2" * n,
        out=", 5" * n,
        weight=f"[C, out/groups, {'k' * n}]",
        params="stride, padding, output_padding, dilation",
        counts=f"a number or {n}",
        gradient="to input the convolution of g, to weight the correlation of g with input",
    )


def of_unary(row: Any, integers: bool) -> str:
    """The docstring of a function of one Tensor that records ``row``."""
    dtype = "in x's dtype" + ("" if integers else "; integers and booleans are cast to the default dtype first")
    passage = f"""Args:
    x: a Tensor of any shape and dtype, or a JAX array, which is a constant.

Returns:
    x's shape, {dtype if row.differentiable else "bool"}.

Raises:
    ArgumentTypeError: x is neither."""
    return joined(_of_row(row), passage)


def _of_row(row: Any) -> str:
    """A row's own words, its example on Tensors."""
    own = (row.__doc__ or "").partition("\nArgs:")[0].rstrip()
    return re.sub(r"jnp\.float32\((-?[\d.]+)\)", lambda m: f"tensor({float(m[1])})", own)
