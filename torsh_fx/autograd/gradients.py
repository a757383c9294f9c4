"""``backward`` and ``grad`` of several tensors at once: one walk over the history they share."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import executor
from ..backward import (
    Start,
    _emit,
    compute,
    drop,
    inputs_of,
    is_python,
    plan_of,
    seed_of,
    store_retained,
    tensors_of,
    vertex_of,
)
from ..backward import backward as backward_of
from ..creation import as_tensor, zeros
from ..graph import batched
from ..record import constant
from ..rules import ArgumentTypeError, ArgumentValueError, AutogradError, ShapeMismatchError
from ..shaping import stack
from ..state import here, set_grad_enabled
from ..tensor import Tensor, result


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | dict[str, Tensor] | None = None,
) -> None:
    """Add the gradients of all ``tensors`` to ``.grad`` of the leaves they depend on, in one walk.

    Args:
        tensors: one tensor or several; history that they share is walked, and freed, once.
        grad_tensors: a seed per tensor, of its shape and dtype; None is 1 for a tensor of
            one element.
        retain_graph: keep the graph for another backward; by default if ``create_graph``.
        create_graph: make the gradients differentiable themselves.
        inputs: add to ``.grad`` of these only, and walk only what leads to them.  A result
            among them retains its gradient.

    Raises:
        AutogradError: a tensor or input does not require grad, a tensor of several
            elements has no seed, the graph was freed, or an op has no derivative.
        ShapeMismatchError: a seed has another shape.
        ArgumentTypeError: a tensor or input is no Tensor, or a seed has another dtype.
        ArgumentValueError: not as many ``grad_tensors`` as tensors, or ``inputs`` is empty.

    Source: the VJPs of the rows that were recorded, in reverse.
    Example:
        >>> x = tensor([1.0, 2.0], requires_grad=True)
        >>> y = x * x
        >>> autograd.backward([y.sum(), y[0]])
        >>> x.grad.tolist()
        [4.0, 4.0]
    """
    roots = tensors_of("backward", "tensors", tensors)
    backward_of(roots, _seeds("backward", grad_tensors, len(roots)), retain_graph, create_graph, inputs)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Gradients of ``outputs`` with respect to ``inputs``, leaving ``.grad`` of leaves alone.

    A result on the way that has ``retain_grad()`` gets its ``.grad``, as in PyTorch.

    Args:
        outputs: one tensor or several (their gradients add up, in one walk).
        inputs: the tensors to differentiate by, leaves or intermediate results, one,
            several or a dict.
        grad_outputs: a seed per output, of its shape and dtype; None is 1 for an
            output of one element.
        retain_graph: keep the graph; by default if ``create_graph``.
        create_graph: make the result differentiable itself.
        only_inputs: PyTorch's, without effect.
        allow_unused: give None for an input the outputs do not depend on; by default
            if ``materialize_grads``.
        is_grads_batched: every seed has a leading axis of one extent b, over which the
            rules are mapped: b gradients in one walk, or, where it meets hooks or an
            ``autograd.Function``, which are Python, in b walks.
        materialize_grads: give zeros for an input the outputs do not depend on.

    Returns:
        One gradient per input, of its shape and dtype, with ``is_grads_batched`` after
        the leading axis: a tuple, or for a dict a dict.

    Raises:
        AutogradError: an output or input does not require grad, an input is unused
            and ``allow_unused`` is not set, or what ``backward`` raises.
        ArgumentValueError: not as many ``grad_outputs`` as outputs, no inputs, leading axes
            that differ, or ``materialize_grads`` with ``allow_unused=False``.
        ArgumentTypeError: an output or input is no Tensor, a seed has another dtype, or
            there is none with ``is_grads_batched``.
        ShapeMismatchError: a seed has another shape.

    Source: the VJPs of the rows that were recorded, in reverse.
    Example:
        >>> x = tensor(3.0, requires_grad=True)
        >>> (g,) = autograd.grad(x * x * x, x, create_graph=True)
        >>> autograd.grad(g, x)[0].item()
        18.0
        >>> y = x * 2
        >>> autograd.grad(y, x, tensor([1.0, 10.0]), is_grads_batched=True)[0].tolist()
        [2.0, 20.0]
    """
    if materialize_grads and allow_unused is False:
        raise ArgumentValueError("[grad] materialize_grads gives zeros for unused inputs, so allow_unused is not False")
    if not only_inputs:
        warnings.warn("only_inputs has no effect; autograd.backward accumulates", FutureWarning, stacklevel=2)
    roots, wanted = tensors_of("grad", "outputs", outputs), inputs_of("grad", inputs)
    seeds = _seeds("grad", grad_outputs, len(roots))
    if here().attempt is not None:
        here().attempt.give_up()
    with executor.backward_lock():
        vertices, targets = [vertex_of(t) for t in roots], [vertex_of(t) for t in wanted]
        batch = _batch_of(seeds) if is_grads_batched else None
        starts = [(v, _seed(t, g, batch)) for v, t, g in zip(vertices, roots, seeds, strict=True)]
        found = _gradients(starts, targets, retain_graph, create_graph, bool(allow_unused or materialize_grads), batch)
    if materialize_grads:
        found = [_zeros(t, batch, create_graph) if g is None else g for t, g in zip(wanted, found, strict=True)]
    return dict(zip(inputs, found, strict=True)) if type(inputs) is dict else tuple(found)


def _gradients(
    starts: Sequence[Start],
    targets: Sequence[Any],
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool,
    batch: int | None,
) -> list[Tensor | None]:
    """Per target its gradient; nothing is freed before everything that can fail has run."""
    plan, starts = plan_of(starts, targets)
    if batch is not None and is_python(plan):
        stacked = _one_by_one(starts, targets, create_graph, batch)
        if not allow_unused and None in stacked:
            raise AutogradError(_unused(stacked.index(None)))
        if not create_graph:
            compute([g._node for g in stacked if g is not None])
        if not (create_graph if retain_graph is None else retain_graph):
            drop(plan)
        return stacked
    found, retained = _emit(plan, starts, create_graph, {id(t) for t in targets}, batch)
    if batch is not None:
        retained = {}
    gradients = [found.get(id(t)) for t in targets]
    if not allow_unused and None in gradients:
        raise AutogradError(_unused(gradients.index(None)))
    if not create_graph:
        compute([*[g for g in gradients if g is not None], *retained.values()])
    store_retained(retained)
    if not (create_graph if retain_graph is None else retain_graph):
        drop(plan)
    return [None if g is None else result(g) for g in gradients]


def _one_by_one(starts: Sequence[Start], targets: Sequence[Any], create_graph: bool, batch: int) -> list[Tensor | None]:
    """The gradients of a batch of seeds where the way leads through Python: a walk a seed."""
    each = [
        _gradients(
            [(v, None if seed is None else seed[k]) for v, seed in starts], targets, True, create_graph, True, None
        )
        for k in range(batch)
    ]
    if not each:
        return [zeros(0, *t.aval.shape, dtype=t.aval.dtype) for t in targets]
    out: list[Tensor | None] = []
    with set_grad_enabled(create_graph):
        for parts in zip(*each, strict=True):
            there = [g for g in parts if g is not None]
            out.append(stack(there) if len(there) == batch else None)
    return out


def _unused(k: int) -> str:
    return f"input {k} is not used by the outputs; pass allow_unused=True to get None for it"


def _seeds(op: str, given: Any, n: int) -> tuple[Any, ...]:
    seeds = (given,) if isinstance(given, Tensor) else (None,) * n if given is None else tuple(given)
    if len(seeds) != n:
        what = "tensors" if op == "backward" else "outputs"
        raise ArgumentValueError(f"[{op}] {n} {what} need as many grad_{what}, got {len(seeds)}")
    return seeds


def _batch_of(seeds: Sequence[Any]) -> int:
    """The extent of the seeds' leading axes."""
    extents = []
    for k, seed in enumerate(seeds):
        if not isinstance(seed, Tensor):
            raise ArgumentTypeError(f"[grad] is_grads_batched needs a Tensor for output {k}, got {type(seed).__name__}")
        if seed.ndim == 0:
            raise ArgumentValueError(f"[grad] is_grads_batched needs a leading axis, grad_outputs[{k}] is 0-d")
        extents.append(seed.shape[0])
    if len(set(extents)) > 1:
        raise ArgumentValueError(f"[grad] is_grads_batched needs leading axes of one extent, got {extents}")
    return extents[0] if extents else 0


def _seed(root: Tensor, gradient: Any, batch: int | None) -> Tensor | None:
    if batch is None:
        return seed_of(root, gradient)
    expected = (batch, *root.shape)
    if gradient.shape != expected:
        raise ShapeMismatchError(
            "[grad] a batched gradient has its output's shape after the leading axis",
            expected=expected,
            got=gradient.shape,
        )
    if gradient.dtype != root.dtype:
        raise ArgumentTypeError(f"[grad] the gradient must have the output's dtype {root.dtype}, got {gradient.dtype}")
    return as_tensor(gradient)


def _zeros(like: Tensor, batch: int | None, requires_grad: bool) -> Tensor:
    aval = batched(like._aval, batch)
    return Tensor(constant(np.zeros(aval.shape, aval.dtype))).requires_grad_(requires_grad)
