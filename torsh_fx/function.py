"""``autograd.Function``: an operation with a derivative of the user's own, in PyTorch's two forms."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NoReturn

from .applied import Form
from .function_apply import VmapInfo, run
from .function_ctx import FunctionCtx
from .rules import ArgumentTypeError, ArgumentValueError, AutogradError
from .state import no_grad

__all__ = ["Function", "FunctionCtx", "VmapInfo", "once_differentiable"]


class Function:
    """Base of operations whose derivative the user writes; call them by ``apply``, never make instances.

    Static methods of a subclass:

    - ``forward(ctx, *args)``, or ``forward(*args)`` with ``setup_context(ctx, inputs, output)``:
      any ops on Tensors; they are not recorded for differentiation.  Results are Tensors
      (or anything else), one or a tuple.
    - ``backward(ctx, *gradients)``: one gradient or None per argument of forward, given those
      of the results.  A gradient is summed and cast to its argument's shape and dtype.
    - ``jvp(ctx, *tangents)``: forward mode, one tangent per result; without it the transpose
      of ``backward`` is used.
    - ``vmap(info, in_dims, *args)``: how a batch is computed, as ``(results, out_dims)``; it
      needs the form with ``setup_context``.  Without it (or with ``generate_vmap_rule``)
      the methods themselves are batched.

    They run as Python at each call, in a plain loop, under ``eager`` and in a backward; under
    a JAX trace and for a tape's replay JAX asks the same methods.

    Gradient: what ``backward`` says, in every mode and order.
    Source: the user.
    Example:
        >>> class Cube(Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x * x
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         (x,) = ctx.saved_tensors
        ...         return 3 * x * x * g
        >>> x = tensor(2.0, requires_grad=True)
        >>> Cube.apply(x).backward()
        >>> x.grad.item()
        12.0
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise AutogradError(f"[{type(self).__name__}] a Function is not instantiated: use {type(self).__name__}.apply")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The results, from ``ctx`` and the arguments; to be defined."""
        _undefined("forward")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what the derivatives need; where it is defined, ``forward`` takes no ``ctx``."""
        _undefined("setup_context")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """One gradient per argument; to be defined."""
        _undefined("backward")

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for ``backward``."""
        _undefined("vjp")

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """One tangent per result; may be defined."""
        _undefined("jvp")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """The results for a batch, and where their batch axes are; may be defined."""
        _undefined("vmap")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` on the arguments and record the call.

        Args:
            args: Tensors and anything else; only Tensors have gradients.
            kwargs: by the names of ``forward``'s parameters.

        Returns:
            What ``forward`` returns, in its place in the graph.  A result that is an argument
            or a view of one becomes a Tensor of its own, unless it is marked dirty.

        Raises:
            AutogradError: ``forward`` is missing, a mark is impossible; in backward, there is no
                ``backward``, or it gives another number of gradients.
            ArgumentTypeError: in backward, it gives something else than Tensors and None.
            ShapeMismatchError: in backward, a gradient cannot be summed to its argument's shape.
        """
        form = _form(cls)
        if kwargs or form.setup is not None:
            args = _bound(form, args, kwargs)
        return run(form, args)


def _undefined(name: str) -> NoReturn:
    raise AutogradError(f"this Function does not define {name}")


def _form(cls: type[Function]) -> Form:
    def own(name: str) -> Any:
        member = getattr(cls, name)
        return None if member is getattr(Function, name) else member

    forward, setup, vmap = own("forward"), own("setup_context"), own("vmap")
    if forward is None:
        raise AutogradError(f"[{cls.__name__}] a Function must define forward, as a static method")
    if own("backward") is not None and own("vjp") is not None:
        raise AutogradError(f"[{cls.__name__}] backward and vjp are two names for one thing: define one of them")
    if vmap is not None and cls.generate_vmap_rule:
        raise AutogradError(f"[{cls.__name__}] define vmap or set generate_vmap_rule, not both")
    if vmap is not None and setup is None:
        raise AutogradError(f"[{cls.__name__}] a Function with vmap needs setup_context, and a forward without ctx")
    return Form(cls.__name__, forward, setup, own("backward") or own("vjp"), own("jvp"), vmap)


def _bound(form: Form, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of forward by position, defaults filled in."""
    lead = () if form.setup is not None else (None,)
    try:
        bound = inspect.signature(form.forward).bind(*lead, *args, **kwargs)
    except TypeError as error:
        raise ArgumentTypeError(f"[{form.name}] forward does not take these arguments: {error}") from error
    bound.apply_defaults()
    if bound.kwargs:
        raise ArgumentValueError(
            f"[{form.name}] forward takes {list(bound.kwargs)} by name only, which has no gradient"
        )
    return tuple(bound.args[len(lead) :])


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a ``backward`` that cannot be differentiated itself: trying to is an error, no silent zero.

    Raises:
        ArgumentTypeError: it is no function.

    Example:
        >>> class Double(Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     @once_differentiable
        ...     def backward(ctx, g):
        ...         return g * 2
        >>> x = tensor(1.0, requires_grad=True)
        >>> Double.apply(x).backward()
        >>> x.grad.item()
        2.0
    """
    if not callable(backward):
        raise ArgumentTypeError(f"once_differentiable decorates a function, got {type(backward).__name__}")

    @functools.wraps(backward)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            return backward(ctx, *grads)

    wrapper._once = True  # type: ignore[attr-defined]
    return wrapper
