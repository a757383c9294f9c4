"""Ops with several results: one node whose value is a list, and a node for each result that picks it.

NOTE [several]: the op is evaluated once however many of its results are used, and so is its
derivative: the gradient of such a node is a dict of those of its results, as of a ``Joint``,
and its pullback is again an op with several results, one per operand.  So forward, backward
and every further derivative are one step each.  Nobody ever holds the node of the list: it
stays inside its program.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .dtypes import is_floating
from .graph import batched
from .rules.applying import vary_alike
from .rules.call import Aval

_LIST = np.dtype(object)

Around = Callable[[], contextlib.AbstractContextManager[Any]]


class Several:
    """The call of a node whose value is a list of arrays, computed by a JAX function.

    Args:
        name: for people.
        fn: takes arrays, gives a list of arrays.
        avals, outs: of its operands and results.
        around: makes the context in which ``fn`` and its derivatives are traced.
        wide: makes the same call on float64 operands.
        careful: does it run somebody else's Python when it runs?
        n_active: only as many results, the first, can have a gradient.
    """

    foreign = False
    present: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        avals: Sequence[Aval],
        outs: Sequence[Aval],
        around: Around = contextlib.nullcontext,
        wide: Callable[[], Several] | None = None,
        careful: bool = False,
        n_active: int | None = None,
    ) -> None:
        self.name, self.fn, self.around, self.careful, self._wide = name, fn, around, careful, wide
        self.avals, self.n, self.outs = tuple(avals), len(avals), tuple(outs)
        self.n_active = len(self.outs) if n_active is None else n_active
        self.out = Aval((len(self.outs),), _LIST)
        self.of: tuple[Several, tuple[int, ...], tuple[int, ...]] | None = None  # whose pullback it is
        self.picks = tuple([Pick(self, k) for k in range(len(self.outs))])
        self._pullbacks: dict[Any, Several] = {}  # its own: a call that nobody uses any more takes them along

    def __repr__(self) -> str:
        return self.name

    def describe(self, runtime: dict[str, Any]) -> str:
        return self.name

    def forward(self, *args: Any) -> list[Any]:
        """All results."""
        with self.around():
            return list(self.fn(*vary_alike(args)))

    def missing(self) -> str | None:
        return None

    def active(self, i: int) -> bool:
        """May operand ``i`` have a gradient?"""
        return is_floating(self.avals[i].dtype)

    def residual_keys(self, mask: tuple[bool, ...]) -> tuple[int | str, ...]:
        """What its pullback reads: all operands."""
        return tuple(range(self.n)) if any(mask) else ()

    def pullback(self, given: tuple[int, ...], wanted: tuple[int, ...], batch: int | None = None) -> Several:
        """Operands and the gradients of the results ``given`` to the gradients of the operands ``wanted``.

        With ``batch``, gradients have a leading axis of that extent, over which it is mapped.
        """
        found = self._pullbacks.get((given, wanted, batch))
        if found is None:
            found = self._pullbacks[given, wanted, batch] = Several(
                f"{self.name}_vjp",
                jax.jit(self._gradients(given, wanted, batch)),
                (*self.avals, *(batched(self.outs[k], batch) for k in given)),
                [batched(self.avals[i], batch) for i in wanted],
                self.around,
                None if self._wide is None else lambda: self.widened().pullback(given, wanted, batch),
                self.careful,
            )
            found.of = (self, given, wanted) if batch is None else None
        return found

    def with_pullback(self, given: tuple[int, ...], wanted: tuple[int, ...], *args: Any) -> tuple[list[Any], Any]:
        """All results and, as a function, what ``pullback`` is of: the forward is then computed once for both."""
        with self.around():
            pull, outs = self._pulled(given, wanted, args)

        def gradients(*gs: Any) -> list[Any]:
            with self.around():
                return list(pull(list(gs)))

        return outs, gradients

    def _pulled(self, given: tuple[int, ...], wanted: tuple[int, ...], args: Sequence[Any]) -> tuple[Any, list[Any]]:
        def of_wanted(*moving: Any) -> tuple[list[Any], list[Any]]:
            full = list(args)
            for i, x in zip(wanted, moving, strict=True):
                full[i] = x
            outs = list(self.fn(*vary_alike(full)))
            return [outs[k] for k in given], outs  # those not given have no cotangent, not one of zeros

        _, pull, outs = jax.vjp(of_wanted, *(args[i] for i in wanted), has_aux=True)
        return pull, outs

    def _gradients(self, given: tuple[int, ...], wanted: tuple[int, ...], batch: int | None) -> Callable[..., Any]:
        def gradients(*args: Any) -> list[Any]:
            pull, _ = self._pulled(given, wanted, args[: self.n])
            gs = list(args[self.n :])
            return list(pull(gs) if batch is None else jax.vmap(pull)(gs))

        return gradients

    def widened(self) -> Several:
        """The same on operands whose floating dtypes are float64."""
        assert self._wide is not None
        return self._wide()


class Pick:
    """The call of a node that shows result ``k`` of a list."""

    n = 1
    foreign = False
    present: tuple[str, ...] = ()

    def __init__(self, whole: Several, k: int) -> None:
        self.whole, self.k, self.out, self.avals = whole, k, whole.outs[k], (whole.out,)

    @property
    def name(self) -> str:
        return self.whole.name

    def __repr__(self) -> str:
        return f"{self.whole.name}[{self.k}]"

    def describe(self, runtime: dict[str, Any]) -> str:
        return repr(self)

    def forward(self, values: Any) -> Any:
        """The result."""
        return values[self.k]

    def missing(self) -> str | None:
        return None

    def active(self, i: int) -> bool:
        """May it have a gradient?"""
        return self.k < self.whole.n_active and is_floating(self.out.dtype)

    def residual_keys(self, mask: tuple[bool, ...]) -> tuple[int | str, ...]:
        """Its gradient is handed on as it is."""
        return ()

    def widened(self) -> Pick:
        """The same of a list of float64."""
        return self.whole.widened().picks[self.k]


def joined(a: Any, b: Any, add: Callable[[Any, Any], Any]) -> Any:
    """The sum of two gradients of one vertex: single ones, dicts of those of its results, or None for nothing."""
    if a is None or b is None:
        return b if a is None else a
    if not isinstance(a, dict):
        return add(a, b)
    return {**a, **b, **{k: joined(a[k], b[k], add) for k in a.keys() & b.keys()}}
