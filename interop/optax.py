"""Optax's optimisers on Tensors: gradients are read from ``.grad``, parameters are written in place.

The update is one lifted function, so it is a part of the one program of the training step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..creation import tensor
from ..dtypes import is_floating
from ..rules import ArgumentTypeError, ArgumentValueError, ShapeMismatchError
from ..rules.kinds import shown
from ..state import no_grad
from ..tensor import Tensor
from ..views import places, root_of
from ..writing import check_writable, write
from ._extras import needed
from ._optax_state import State, is_leaf, is_saved
from ._staging import Value, entered
from .jax import lift

optax = needed("optax", "optax")

__all__ = ["Optimizer"]


class Optimizer:
    """An Optax optimiser at work on parameters that are written in place.

    Args:
        params: Tensors: a list, a dict, any pytree, one Tensor, or pairs (name, Tensor).
        transform: an ``optax.GradientTransformation``; it sees parameters and gradients
            in the structure of ``params``, so masks and labels name them as there.

    A parameter whose ``.grad`` is None is left as it is, as in PyTorch: its gradient counts as
    zero for what is common, such as a global norm, while neither it nor its part of the state
    moves.  (What is one for all parameters, as Adam's count of steps, moves on.)

    ``state`` is Optax's own state with Tensors in it.  A hyperparameter of
    ``optax.inject_hyperparams`` is set by assigning a number there, and no number compiles
    anything: ``opt.state.hyperparams["learning_rate"] = 1e-4``.  The number is written into the
    Tensor that was there, in its dtype.  (A compiled step is recorded again then; a ``fill_`` of
    that Tensor it just reads.)

    Raises:
        ArgumentTypeError: a parameter is no floating Tensor, or ``transform`` is none of Optax's.
        ArgumentValueError: there are no parameters, one is a result of others, or given twice, or
            shows memory that it or another one shows, too.

    Gradient: none; a step is made as under ``no_grad``.
    Source: ``optax``, traced under the user's own flags.
    Example:
        >>> import optax
        >>> from torsh_fx.interop.optax import Optimizer
        >>> w = tensor([1.0, 2.0], requires_grad=True)
        >>> opt = Optimizer([w], optax.sgd(0.1))
        >>> (w * w).sum().backward()
        >>> opt.step()
        >>> opt.zero_grad()
        >>> w.detach()
        tensor([0.8000, 1.6000])
    """

    def __init__(self, params: Any, transform: Any) -> None:
        if not (callable(getattr(transform, "init", None)) and callable(getattr(transform, "update", None))):
            raise ArgumentTypeError(
                f"[Optimizer] transform must be Optax's, such as optax.adam(1e-3), got {shown(transform)}"
            )
        self.params = _named(params)
        self._params, self._tree = jax.tree.flatten(self.params, is_leaf=is_leaf)
        _check(self._params)
        self._transform = optax.with_extra_args_support(transform)

        def init(params: Any) -> Any:
            return self._transform.init(params)

        self._update = lift(self._updated)  # one function for all steps
        with no_grad():
            self._state = State(lift(init)(self.params))

    @property
    def state(self) -> Any:
        """Optax's state, with Tensors in it."""
        return self._state.tree

    def __repr__(self) -> str:
        return f"<Optimizer of {len(self._params)} parameter(s)>"

    def _reached(self) -> tuple[Any, ...]:
        """What a compiled step must find."""
        self._state.settle()
        return self._params, self._state.tree, self._update

    def _updated(self, grads: list[Any], state: Any, params: list[Any], extra: dict[str, Any]) -> Any:
        """On arrays: new parameters and new state."""
        known = [g is not None for g in grads]
        full = [jnp.zeros_like(p) if g is None else g for g, p in zip(grads, params, strict=True)]
        before = jax.tree.unflatten(self._tree, params)
        updates, new = self._transform.update(jax.tree.unflatten(self._tree, full), state, before, **extra)
        after = jax.tree.leaves(optax.apply_updates(before, updates))
        if not all(known):
            after = [a if k else p for a, k, p in zip(after, known, params, strict=True)]
            new = self._moved(new, state, known)
        return after, new

    def _moved(self, new: Any, old: Any, known: list[bool]) -> Any:
        """The new state, with what belongs to parameters without gradient as it was."""

        def masked(x: Any) -> bool:
            return isinstance(x, optax.MaskedNode)

        try:
            moves = optax.tree.map_params(
                self._transform,
                lambda x, moves: x if masked(x) else moves,
                new,
                jax.tree.unflatten(self._tree, known),
                transform_non_params=lambda _: True,
                is_leaf=masked,
            )
            return jax.tree.map(lambda m, now, before: now if m else before, moves, new, old)
        except Exception as error:  # whatever a transform of somebody's own makes of a placeholder
            raise ArgumentValueError(
                "[Optimizer] step() met a parameter without gradient, and Optax cannot tell which part of this "
                f"optimiser's state is that parameter's ({type(error).__name__}: {error}); leave it out of params, or "
                "give it a gradient of zeros"
            ) from error

    def step(self, **extra: Any) -> None:
        """Update parameters and state from the gradients that are there; without any nothing happens.

        Args:
            extra: what the transform's ``update`` takes besides, such as ``value=loss``.

        Raises:
            AutogradError: a parameter cannot be written, see ``Tensor.add_``.
            ArgumentTypeError: ``update`` needs something that was not given, or something was assigned
                to ``state`` that cannot stand there.  Nothing has changed by any error.
        """
        grads = [p.grad for p in self._params]
        if all(g is None for g in grads):
            return
        self._state.settle()
        with no_grad():
            extra = {k: v.detach() if isinstance(v, Tensor) else v for k, v in extra.items()}
            try:
                after, state = self._update(
                    [g if g is None else g.detach() for g in grads], self.state, self._params, extra
                )
            except TypeError as error:
                if "required keyword-only argument" not in str(error):
                    raise
                raise ArgumentTypeError(f"[Optimizer.step] give step() what Optax's update needs: {error}") from error
            for p, new in zip(self._params, after, strict=True):
                check_writable(p, new, "Optimizer.step")
            self._state.keep(state)
            for p, g, new in zip(self._params, grads, after, strict=True):
                if g is not None:
                    write(p, new, "Optimizer.step")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters: to None, or to zeros if they are to keep their Tensors."""
        for p in self._params:
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                with no_grad():
                    p.grad.zero_()

    def _settled(self) -> Iterator[tuple[str, Any]]:
        self._state.settle()
        return self._state.named()

    # -- saving --------------------------------------------------------------------------

    def state_dict(self) -> dict[str, np.ndarray[Any, Any]]:
        """The state as NumPy arrays, by their places in it: a plain dict to pickle or to put in any file.

        Example:
            >>> import optax
            >>> from torsh_fx.interop.optax import Optimizer
            >>> list(Optimizer([zeros(2)], optax.sgd(0.1, momentum=0.9)).state_dict())
            ['[0].trace[0]']
        """
        return {name: np.array(_host(x)) for name, x in self._settled()}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` gave, from arrays or Tensors.

        Raises:
            ArgumentTypeError: it is no mapping, or an array has another dtype.
            ArgumentValueError: it holds other places than this optimiser's state.
            ShapeMismatchError: an array has another shape.  Nothing is changed by any error.
        """
        if not isinstance(saved, Mapping):
            raise ArgumentTypeError(f"[load_state_dict] takes what state_dict() gave, got {shown(saved)}")
        current = dict(self._settled())
        missing, strange = current.keys() - saved.keys(), saved.keys() - current.keys()
        if missing or strange:
            raise ArgumentValueError(
                f"[load_state_dict] this is the state of another optimiser: missing {_listed(missing)}, "
                f"not expected {_listed(strange)}"
            )
        fresh = {name: _loaded(name, saved[name], x) for name, x in current.items()}
        leaves, tree = jax.tree.flatten(self.state, is_leaf=is_leaf)
        given = iter(fresh.values())
        with no_grad():
            self._state.keep(jax.tree.unflatten(tree, [next(given) if is_saved(x) else x for x in leaves]))


def _named(params: Any) -> Any:
    """The parameters as a pytree."""
    if isinstance(params, Tensor) or not isinstance(params, (Iterator, list, tuple)):
        return params
    listed = list(params) if isinstance(params, Iterator) else params
    pairs = [isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in listed]
    return dict(listed) if pairs and all(pairs) else listed


def _check(params: list[Any]) -> None:
    if not params:
        raise ArgumentValueError("[Optimizer] there are no parameters")
    for p in params:
        if not isinstance(p, Tensor) or not is_floating(p.dtype):
            what = f"a Tensor of {p.dtype}" if isinstance(p, Tensor) else shown(p)
            raise ArgumentTypeError(f"[Optimizer] parameters must be floating Tensors, got {what}")
        if not p.is_leaf:
            raise ArgumentValueError(
                f"[Optimizer] a parameter of shape {list(p.shape)} is a result of other Tensors, not a leaf: detach() "
                "it and let it require grad"
            )
    if len({id(p) for p in params}) < len(params):
        raise ArgumentValueError("[Optimizer] a parameter is given twice; it would be updated twice in a step")
    _check_memory(params)


def _check_memory(params: list[Any]) -> None:
    """Of parameters that show one storage, a step would keep the last write only where they overlap."""
    sharing: dict[int, list[Tensor]] = {}
    for p in params:
        sharing.setdefault(id(root_of(p)._cell), []).append(p)
    for group in sharing.values():
        if len(group) == 1 and group[0]._view is None:
            continue
        shown = np.concatenate([places(p).reshape(-1) for p in group])
        if len(np.unique(shown)) < len(shown):
            raise ArgumentValueError(
                f"[Optimizer] parameters of shapes {[list(p.shape) for p in group]} share memory, or one is an "
                "expanded view: an element would be updated several times in a step, of which the last counts; give "
                "the tensor below them, or a clone()"
            )


def _host(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.detach().numpy()
    if isinstance(x, Value):
        return x.tensor.detach().numpy()
    return np.asarray(x, np.float32) if x.__class__ is float else np.asarray(x)


def _loaded(name: str, given: Any, now: Any) -> Any:
    """What is to stand in the place of ``now``."""
    host = np.asarray(given.detach().numpy() if isinstance(given, Tensor) else given)
    expected = now._aval if isinstance(now, Tensor) else now.tensor._aval if isinstance(now, Value) else _host(now)
    if host.shape != tuple(expected.shape):
        raise ShapeMismatchError(f"[load_state_dict] {name} has another shape", expected=expected.shape, got=host.shape)
    if host.dtype != expected.dtype:
        raise ArgumentTypeError(f"[load_state_dict] {name} must be {expected.dtype}, got {host.dtype}")
    return Value(Tensor(entered(host)), now.impl) if isinstance(now, Value) else tensor(host)


def _listed(names: Iterable[Any]) -> str:
    found = sorted(map(str, names))
    return "nothing" if not found else ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
