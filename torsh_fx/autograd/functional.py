"""PyTorch's ``torch.autograd.functional``: Jacobians, Hessians and products of a function at a point.

The function is called once, imperatively: it may read values and branch on them.
Everything else is ``autograd.grad`` of what it recorded; a product with a tangent is
the gradient of a gradient by its seed, in which it is linear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..record import constant
from ..rules import ArgumentTypeError, ArgumentValueError, AutogradError, ShapeMismatchError
from ..rules.kinds import shown
from ..rules.op import OPS
from ..shaping import permute, reshape, stack
from ..state import enable_grad
from ..tensor import Tensor, apply
from .gradients import grad

Fn = Callable[..., Any]
Found = tuple[Tensor | None, ...]

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def vjp(func: Fn, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """``(func(*inputs), vᵀJ)``: the product of a vector with the Jacobian.

    Args:
        func: takes the inputs, returns a Tensor or a tuple of them.
        inputs: a Tensor or a tuple of them.
        v: of the outputs' structure, shapes and dtypes; None is 1 for one output of one element.
        create_graph: make both results differentiable by the inputs.
        strict: refuse what does not depend on an input instead of giving zeros.

    Returns:
        The outputs, and the product in the inputs' structure, shapes and dtypes.

    Raises:
        ArgumentTypeError: inputs, outputs or v are neither Tensor nor tuple of Tensors.
        ArgumentValueError: v is missing, or has another length.
        ShapeMismatchError: v has another shape.
        AutogradError: ``strict`` finds an independence.

    Source: ``autograd.grad``.
    Example:
        >>> out, product = autograd.functional.vjp(lambda x: x * x, tensor([1.0, 2.0]), tensor([1.0, 10.0]))
        >>> product.tolist()
        [2.0, 40.0]
    """
    at = _evaluate("vjp", func, inputs, create_graph, strict)
    seeds = _vector("vjp", v, at.outputs, "outputs of func")
    found = _pull(at.outputs, at.inputs, seeds, create_graph)
    product = _filled("vjp", found, at.inputs, strict, create_graph, "the output is independent of input {}")
    return at.result(), _packed(product, at.several)


def jvp(func: Fn, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """``(func(*inputs), J v)``: the product of the Jacobian with a vector.

    Args:
        func: takes the inputs, returns a Tensor or a tuple of them.
        inputs: a Tensor or a tuple of them.
        v: of the inputs' structure, shapes and dtypes; None is 1 for one input of one element.
        create_graph: make both results differentiable by the inputs.
        strict: refuse what does not depend on an input instead of giving zeros.

    Returns:
        The outputs, and the product in their structure, shapes and dtypes.

    Raises:
        ArgumentTypeError, ArgumentValueError, ShapeMismatchError, AutogradError: as ``vjp``.

    Source: the gradient of vᵀJ by v.
    Example:
        >>> out, product = autograd.functional.jvp(lambda x: x * x, tensor([1.0, 2.0]), tensor([1.0, 10.0]))
        >>> product.tolist()
        [2.0, 40.0]
    """
    at = _evaluate("jvp", func, inputs, create_graph, strict)
    tangents = _vector("jvp", v, at.inputs, "inputs")
    found = _push("jvp", at.outputs, at.inputs, tangents, create_graph, strict)
    product = _filled("jvp", found, at.outputs, strict, create_graph, "output {} is independent of the inputs")
    return at.result(), _packed(product, at.many)


def vhp(func: Fn, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """``(func(*inputs), vᵀH)``: the product of a vector with the Hessian; one walk cheaper than ``hvp``.

    Args:
        func: takes the inputs, returns a Tensor of one element.
        inputs: a Tensor or a tuple of them.
        v: of the inputs' structure, shapes and dtypes; None is 1 for one input of one element.
        create_graph: make both results differentiable by the inputs.
        strict: refuse what does not depend on an input instead of giving zeros.

    Returns:
        The output, and the product in the inputs' structure, shapes and dtypes.

    Raises:
        ArgumentTypeError, ArgumentValueError, ShapeMismatchError, AutogradError: as ``vjp``.

    Source: the gradient of v·∇func.
    Example:
        >>> out, product = autograd.functional.vhp(lambda x: (x * x * x).sum(), tensor([1.0, 2.0]), tensor([1.0, 1.0]))
        >>> product.tolist()
        [6.0, 12.0]
    """
    at, gradient, vector = _second("vhp", func, inputs, v, create_graph, strict)
    found = _pull(gradient, at.inputs, vector, create_graph)
    product = _filled("vhp", found, at.inputs, strict, create_graph, "the gradient is independent of input {}")
    return at.result(), _packed(product, at.several)


def hvp(func: Fn, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """``(func(*inputs), H v)``: the product of the Hessian with a vector.

    Args:
        func: takes the inputs, returns a Tensor of one element.
        inputs: a Tensor or a tuple of them.
        v: of the inputs' structure, shapes and dtypes; None is 1 for one input of one element.
        create_graph: make both results differentiable by the inputs.
        strict: refuse what does not depend on an input instead of giving zeros.

    Returns:
        The output, and the product in the inputs' structure, shapes and dtypes.

    Raises:
        ArgumentTypeError, ArgumentValueError, ShapeMismatchError, AutogradError: as ``vjp``.

    Source: the gradient of vᵀH by v.
    Example:
        >>> out, product = autograd.functional.hvp(lambda x: (x * x * x).sum(), tensor([1.0, 2.0]), tensor([1.0, 1.0]))
        >>> product.tolist()
        [6.0, 12.0]
    """
    at, gradient, vector = _second("hvp", func, inputs, v, create_graph, strict)
    found = _push("hvp", gradient, at.inputs, vector, create_graph, strict)
    product = _filled("hvp", found, at.inputs, strict, create_graph, "the gradient is independent of input {}")
    return at.result(), _packed(product, at.several)


def jacobian(
    func: Fn,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """All derivatives of ``func``'s outputs by its inputs.

    Args:
        func: takes the inputs, returns a Tensor or a tuple of them.
        inputs: a Tensor or a tuple of them.
        create_graph: make the result differentiable by the inputs.
        strict: refuse what does not depend on an input instead of giving zeros.
        vectorize: compute all rows (or columns) in one walk over a batch of seeds
            instead of one after the other.
        strategy: "reverse-mode", row by row, or "forward-mode", column by column.

    Returns:
        A Tensor of output.shape + input.shape; for a tuple of inputs a tuple of them, for a
        tuple of outputs a tuple of those.

    Raises:
        ArgumentTypeError: inputs or outputs are neither Tensor nor tuple of Tensors.
        ArgumentValueError: there is no such strategy.
        AutogradError: ``strict`` finds an independence.

    Source: ``autograd.grad`` with the unit vectors as seeds.
    Example:
        >>> autograd.functional.jacobian(lambda x: x * x, tensor([1.0, 2.0])).tolist()
        [[2.0, 0.0], [0.0, 4.0]]
    """
    forward = _is_forward("jacobian", strategy)
    at = _evaluate("jacobian", func, inputs, create_graph, strict)
    blocks = _blocks("jacobian", at, create_graph, strict, vectorize, forward)
    return _packed(tuple([_packed(row, at.several) for row in blocks]), at.many)


def hessian(
    func: Fn,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """All second derivatives of ``func``, which returns one element.

    Args:
        func: takes the inputs, returns a Tensor of one element.
        inputs: a Tensor or a tuple of them.
        create_graph: make the result differentiable by the inputs.
        strict: refuse what does not depend on an input instead of giving zeros.
        vectorize: compute all rows (or columns) in one walk over a batch of seeds.
        outer_jacobian_strategy: "reverse-mode" or "forward-mode", of the Jacobian of the gradient.

    Returns:
        A Tensor of input.shape + input.shape; for a tuple of inputs a tuple of tuples of
        input_i.shape + input_j.shape.

    Raises:
        ArgumentTypeError, ArgumentValueError, AutogradError: as ``jacobian``, or the
            output has more than one element.

    Source: ``jacobian`` of the gradient.
    Example:
        >>> autograd.functional.hessian(lambda x: (x * x * x).sum(), tensor([1.0, 2.0])).tolist()
        [[6.0, 0.0], [0.0, 12.0]]
    """
    forward = _is_forward("hessian", outer_jacobian_strategy)
    at = _evaluate("hessian", func, inputs, create_graph, strict)
    at = at._replace(outputs=_gradient("hessian", at, strict))
    blocks = _blocks("hessian", at, create_graph, strict, vectorize, forward)
    return _packed(tuple([_packed(row, at.several) for row in blocks]), at.several)


# -- a function at a point -------------------------------------------------------------------


class Evaluated(NamedTuple):
    """What a call has recorded."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    several: bool  # inputs: a tuple of them was given
    many: bool  # outputs: a tuple of them came
    create_graph: bool

    def result(self) -> Any:
        """The outputs as they came, without a graph unless one is wanted."""
        return _packed(self.outputs if self.create_graph else tuple([t.detach() for t in self.outputs]), self.many)


def _evaluate(op: str, func: Fn, given: Any, create_graph: bool, strict: bool) -> Evaluated:
    inputs, several = _tuple(op, "inputs", given)

    def fresh(x: Tensor) -> Tensor:
        return apply(OPS["clone"], x) if create_graph and x.requires_grad else x.detach().requires_grad_()

    with enable_grad():
        own = tuple([fresh(x) for x in inputs])
        outputs, many = _tuple(op, "outputs of func", func(*own))
    if strict:
        for k, out in enumerate(outputs):
            if not out.requires_grad:
                raise AutogradError(
                    f"[{op}] output {k} of func is independent of the inputs, which strict=True refuses"
                )
    return Evaluated(own, outputs, several, many, create_graph)


def _second(
    op: str, func: Fn, given: Any, v: Any, create_graph: bool, strict: bool
) -> tuple[Evaluated, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """A call, its gradient (which is differentiable), and the checked vector."""
    at = _evaluate(op, func, given, create_graph, strict)
    return at, _gradient(op, at, strict), _vector(op, v, at.inputs, "inputs")


def _gradient(op: str, at: Evaluated, strict: bool) -> tuple[Tensor, ...]:
    if at.many or at.outputs[0].numel() != 1:
        came = f"{len(at.outputs)} Tensors" if at.many else f"shape {list(at.outputs[0].shape)}"
        raise ArgumentValueError(f"[{op}] func must return one Tensor of one element, got {came}")
    found = _pull(at.outputs, at.inputs, (None,), True)
    return _filled(op, found, at.inputs, strict, True, "the output is independent of input {}")


def _tuple(op: str, what: str, given: Any) -> tuple[tuple[Tensor, ...], bool]:
    several = isinstance(given, tuple)
    found = given if several else (given,)
    for x in found:
        if not isinstance(x, Tensor):
            raise ArgumentTypeError(f"[{op}] {what} must be a Tensor or a tuple of Tensors, got {shown(x)}")
    return found, several


def _packed(found: tuple[Any, ...], several: bool) -> Any:
    return found if several else found[0]


def _vector(op: str, v: Any, like: Sequence[Tensor], what: str) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise ArgumentValueError(f"[{op}] v is needed, in the structure and shapes of the {what}")
        return (Tensor(constant(np.ones(like[0].shape, like[0].dtype))),)
    found, _ = _tuple(op, "v", v)
    if len(found) != len(like):
        raise ArgumentValueError(f"[{op}] v must be as many Tensors as the {what}, {len(like)}, got {len(found)}")
    for k, (x, y) in enumerate(zip(found, like, strict=True)):
        if x.shape != y.shape:
            raise ShapeMismatchError(f"[{op}] v[{k}] must have the shape of the {what}", expected=y.shape, got=x.shape)
        if x.dtype != y.dtype:
            raise ArgumentTypeError(f"[{op}] v[{k}] must have the dtype of the {what}, {y.dtype}, got {x.dtype}")
    return found


def _is_forward(op: str, strategy: str) -> bool:
    if strategy not in ("forward-mode", "reverse-mode"):
        raise ArgumentValueError(f"[{op}] a strategy is 'forward-mode' or 'reverse-mode', got {strategy!r}")
    return strategy == "forward-mode"


# -- products --------------------------------------------------------------------------------


def _pull(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    create_graph: bool,
    batched: bool = False,
) -> Found:
    """Per input the seeds' product with the Jacobian, None if no output depends on it."""
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    found: Found = grad(
        [o for o, _ in pairs],
        inputs,
        [s for _, s in pairs],
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
        is_grads_batched=batched,
    )
    return found


def _transposed(
    op: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor], strict: bool
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """Seeds for the outputs, and the gradient by the inputs that they give, differentiable by the seeds."""
    seeds = [_zeros(out).requires_grad_() for out in outputs]
    found = _pull(outputs, inputs, seeds, True)
    return seeds, _filled(op, found, inputs, strict, True, "the output is independent of input {}")


def _push(
    op: str,
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    tangents: Sequence[Tensor],
    create_graph: bool,
    strict: bool,
) -> Found:
    """Per output the Jacobian's product with the tangents."""
    seeds, pulled = _transposed(op, outputs, inputs, strict)
    return _pull(pulled, seeds, tangents, create_graph)


def _filled(
    op: str, found: Found, like: Sequence[Tensor], strict: bool, create_graph: bool, what: str
) -> tuple[Tensor, ...]:
    """Zeros for what does not depend on anything, unless that is refused."""
    if strict:
        for k, g in enumerate(found):
            if g is None:
                raise AutogradError(f"[{op}] {what.format(k)}, which strict=True refuses")
            if create_graph and not g.requires_grad:
                raise AutogradError(f"[{op}] a derivative by or of number {k} is constant, which strict=True refuses")
    return tuple([_zeros(x) if g is None else g for g, x in zip(found, like, strict=True)])


def _zeros(like: Tensor) -> Tensor:
    return Tensor(constant(np.zeros(like.shape, like.dtype)))


# -- whole matrices ---------------------------------------------------------------------------


def _blocks(
    op: str, at: Evaluated, create_graph: bool, strict: bool, vectorize: bool, forward: bool
) -> list[tuple[Tensor, ...]]:
    """Per output and input the derivatives, [*output, *input]."""
    found: list[Any]
    with enable_grad():
        if forward:
            seeds, pulled = _transposed(op, at.outputs, at.inputs, strict)
            columns = [_by_units(g, seeds, create_graph, vectorize) for g in pulled]
            turned = [[_turned(block, x) for block in column] for column, x in zip(columns, at.inputs, strict=True)]
            found = list(zip(*turned, strict=True))
        else:
            found = [_by_units(out, at.inputs, create_graph, vectorize) for out in at.outputs]
    blocks = []
    for i, (row, out) in enumerate(zip(found, at.outputs, strict=True)):
        like = [Tensor(constant(np.zeros((*out.shape, *x.shape), x.dtype))) for x in at.inputs]
        what = f"output {i} of {'func' if op == 'jacobian' else 'its gradient'} is independent of input {{}}"
        blocks.append(_filled(op, tuple(row), like, strict, create_graph, what))
    return blocks


def _by_units(out: Tensor, inputs: Sequence[Tensor], create_graph: bool, vectorize: bool) -> list[Tensor | None]:
    """The gradients of ``out`` for every unit vector as its seed, [*out, *input] per input."""
    n = out.numel()
    units = np.eye(n, dtype=out.dtype).reshape(n, *out.shape)
    found: list[Tensor | None]
    if vectorize:
        found = list(_pull((out,), inputs, (Tensor(constant(units)),), create_graph, batched=True))
    else:
        rows = [_pull((out,), inputs, (Tensor(constant(unit)),), create_graph) for unit in units]
        found = [None if any(g is None for g in column) else stack(column) for column in zip(*rows, strict=True)]
        found = found or [None] * len(inputs)  # of an output without elements
    return [None if g is None else reshape(g, (*out.shape, *x.shape)) for g, x in zip(found, inputs, strict=True)]


def _turned(block: Tensor | None, x: Tensor) -> Tensor | None:
    """[*x, *output] as [*output, *x]."""
    if block is None:
        return None
    axes = range(block.ndim)
    return permute(block, (*axes[x.ndim :], *axes[: x.ndim]))
