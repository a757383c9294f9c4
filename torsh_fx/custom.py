"""Custom ops on Tensors: any JAX function as one recorded op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .arithmetic import operand
from .rules import ArgumentTypeError, register_jvp, register_vjp
from .rules.context import Surroundings
from .rules.op import OPS
from .tensor import Tensor, apply


class CustomOp:
    """What ``custom_op`` returns: a callable on Tensors that can learn its derivative.

    Calling it takes Tensors or JAX arrays and returns one Tensor, whose shape and
    dtype are those of what the function returns.

    Raises:
        ArgumentTypeError: an operand is neither Tensor nor JAX array, or the
            function does not return one array.

    Gradient: the registered derivative; without one, an AutogradError when it is asked for.
    Source: ``rules.custom``.
    """

    def __init__(self, name: str, fn: Callable[..., Any]) -> None:
        self.name = name
        self.fn = fn

    def __call__(self, *operands: Any) -> Tensor:
        tensors = [operand(self.name, x) for x in operands]
        return apply(OPS["custom"], *tensors, name=self.name, fn=self.fn, around=Surroundings.now())

    def register_vjp(self, derivative: Callable[..., Any]) -> Callable[..., Any]:
        """Register ``derivative(g, *operands) -> gradient per operand`` on JAX arrays; usable as decorator.

        Args:
            derivative: gets the cotangent and the operands; a gradient may be None for
                zero, and need be in no tuple if it is the only one.  Linear in g, it
                also is forward mode's, unless ``register_jvp`` gives that.

        Returns:
            ``derivative``.

        Raises:
            ArgumentTypeError: it is no function.
            AutogradError: in reverse, it does not give one gradient per operand.

        Example:
            >>> op = custom_op("cube", lambda x: x**3)
            >>> rule = op.register_vjp(lambda g, x: (3 * x**2 * g,))
            >>> x = tensor([2.0], requires_grad=True)
            >>> op(x).sum().backward()
            >>> x.grad.tolist()
            [12.0]
        """
        if not callable(derivative):
            raise ArgumentTypeError(f"[{self.name}] a derivative must be a function, got {type(derivative).__name__}")
        register_vjp(self.fn, derivative)
        return derivative

    def register_jvp(self, derivative: Callable[..., Any]) -> Callable[..., Any]:
        """Register ``derivative(operands, tangents) -> tangent of the result`` on JAX arrays; usable as decorator.

        Args:
            derivative: gets two tuples; the tangent of an operand that does not move is zero, of
                one that is not floating None.  Linear in the tangents, it also is reverse mode's,
                unless ``register_vjp`` gives that.

        Returns:
            ``derivative``.

        Raises:
            ArgumentTypeError: it is no function.
            AutogradError: there is one already.
            ShapeMismatchError: when it is used, its tangent does not have the result's shape.

        Example:
            >>> op = custom_op("cube", lambda x: x**3)
            >>> rule = op.register_jvp(lambda operands, tangents: 3 * operands[0] ** 2 * tangents[0])
            >>> x = tensor([2.0], requires_grad=True)
            >>> op(x).sum().backward()
            >>> x.grad.tolist()
            [12.0]
        """
        if not callable(derivative):
            raise ArgumentTypeError(f"[{self.name}] a derivative must be a function, got {type(derivative).__name__}")
        register_jvp(self.fn, derivative)
        return derivative

    def __repr__(self) -> str:
        return f"<custom_op {self.name}>"


def custom_op(name: str, fn: Callable[..., Any]) -> CustomOp:
    """Make a JAX function an op on Tensors.

    Args:
        name: diagnostic name, shown as ``custom(name)``.
        fn: a pure function of JAX arrays that returns one array; traced under
            the caller's own ``jax_enable_x64``.

    Returns:
        A callable on Tensors.  Without a registered derivative, a backward that
        reaches it is an AutogradError, never a silent zero.

    Raises:
        ArgumentTypeError: the name is no string, or ``fn`` no function.

    Gradient: what ``register_vjp`` or ``register_jvp`` was given.
    Source: ``rules.custom``.
    Example:
        >>> double = custom_op("double", lambda x: 2 * x)
        >>> double.register_vjp(lambda g, x: 2 * g) is not None
        True
        >>> x = tensor([1.0], requires_grad=True)
        >>> double(x).sum().backward()
        >>> x.grad.tolist()
        [2.0]
    """
    if not isinstance(name, str) or not callable(fn):
        raise ArgumentTypeError("custom_op needs a name and a function")

    def own(*xs: Any) -> Any:  # a derivative registered here must not leak to other uses of fn
        return fn(*xs)

    return CustomOp(name, own)
