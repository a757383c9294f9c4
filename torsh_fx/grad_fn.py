"""``grad_fn``: the op that made a tensor, for people to look at, and for hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .hooks import RemovableHandle


class GradFn:
    """The op that made a tensor, as ``grad_fn`` shows it; of a leaf, what adds to its ``.grad``."""

    __slots__ = ("_vertex",)

    def __init__(self, vertex: Any) -> None:
        self._vertex = getattr(vertex, "joint", vertex)  # of a function's result, the function

    def name(self) -> str:
        """Diagnostic name with parameters."""
        return str(self._vertex.describe())

    @property
    def next_functions(self) -> tuple[tuple[GradFn | None, int], ...]:
        """The ops (or leaves) that its operands' gradients go to."""
        return tuple((None if e is None else GradFn(e), getattr(e, "index", 0)) for e in self._vertex.edges)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(gradients)`` before the op's rule runs, with a tuple of the gradients of its results.

        A tuple that it returns takes their place.

        Returns:
            A handle whose ``remove()`` takes the hook away.

        Raises:
            ArgumentTypeError: ``hook`` is no function, or returns something else.
            AutogradError: on a tape or under a trace, where it would be lost.

        Example:
            >>> x = tensor([1.0, 2.0], requires_grad=True)
            >>> y = x * 3
            >>> handle = y.grad_fn.register_prehook(lambda gs: (gs[0] * 10,))
            >>> y.sum().backward()
            >>> x.grad.tolist()
            [30.0, 30.0]
        """
        from .hooks import register_on_vertex

        return register_on_vertex(self._vertex, "meet", hook)

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(operand_gradients, gradients)`` after the op's rule has run, with two tuples.

        A tuple that it returns takes the place of the first.

        Returns:
            A handle whose ``remove()`` takes the hook away.

        Raises:
            ArgumentTypeError: ``hook`` is no function, or returns something else.
            AutogradError: on a tape or under a trace, where it would be lost.

        Example:
            >>> x = tensor([1.0, 2.0], requires_grad=True)
            >>> y = x * 3
            >>> handle = y.grad_fn.register_hook(lambda of_operands, gs: (of_operands[0] + gs[0],))
            >>> y.sum().backward()
            >>> x.grad.tolist()
            [4.0, 4.0]
        """
        from .hooks import register_on_vertex

        return register_on_vertex(self._vertex, "leave", hook)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GradFn) and other._vertex is self._vertex

    def __hash__(self) -> int:
        return id(self._vertex)

    def __repr__(self) -> str:
        return f"<grad_fn {self.name()}>"
