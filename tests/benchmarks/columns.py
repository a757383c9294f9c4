"""The columns: ways to take the same training step, each from the same parameters and data.

A step is forward, backward and SGD update, and has loss, gradients and new
parameters as results.  All compute in exact float32.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from workload import Workload

import torsh_fx as tx

PYTORCH = "PyTorch eager"
BY_HAND = "jax.jit by hand"
IMPERATIVE = "imperative loop"
FUNCTIONAL = "functional path"
COMPILED = "tx.compile"
WHOLE = "tx.compile, whole"


@dataclass
class Step:
    """A training step to call; what it returns has ``item()``, a number to wait for."""

    run: Callable[[], Any]
    params: Callable[[], list[np.ndarray]]
    program: Callable[[], Any] | None = None  # what XLA made of it, where there is one program


def torch_or_none() -> ModuleType | None:
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None


def _loop(lib: Any, w: Workload, wrap: Callable[[Any], Any] | None = None) -> Step:
    """The imperative step, one source for PyTorch and for us."""
    params = [lib.tensor(p, requires_grad=True) for p in w.params]
    data = [lib.tensor(d) for d in w.data]

    def step() -> Any:
        loss = w.loss(lib, params, data)
        loss.backward()
        with lib.no_grad():
            for p in params:
                p -= w.rate * p.grad
                p.grad = None
        return loss

    return Step(wrap(step) if wrap else step, lambda: [np.array(p.detach().numpy()) for p in params])


def pytorch(w: Workload) -> Step | None:
    torch = torch_or_none()
    return _loop(torch, w) if torch else None


def imperative(w: Workload) -> Step:
    return _loop(tx, w)


def compiled(w: Workload) -> Step | None:
    wrap = getattr(tx, "compile", None)
    return _loop(tx, w, wrap) if wrap else None


def compiled_whole(w: Workload) -> Step | None:
    """Of the long graphs, which are cut else."""
    return None if w.rolled is None else _loop(tx, w, tx.compile(whole=True))


def _jitted(w: Workload, loss_and_grads: Callable[..., Any], keep: bool = True) -> Step:
    """A whole step under ``jax.jit`` with its parameters donated, as an expert writes it."""

    @functools.partial(jax.jit, donate_argnums=0)
    def update(params: Sequence[Any], data: Sequence[Any]) -> Any:
        loss, grads = loss_and_grads(params, data)
        return loss, [p - w.rate * g for p, g in zip(params, grads, strict=True)], grads if keep else None

    params = [jnp.asarray(p) for p in w.params]
    data = [jnp.asarray(d) for d in w.data]

    def run() -> Any:
        nonlocal params
        loss, params, _ = update(params, data)  # the gradients go, as the loops' do with p.grad = None
        return loss

    return Step(run, lambda: [np.array(p) for p in params], lambda: update.lower(params, data).compile())


def by_hand(w: Workload, loss: Callable[..., Any] | None = None, keep: bool = True) -> Step:
    """Without ``keep``, the gradients are no result of the step."""
    value_and_grad = jax.value_and_grad(loss or w.by_hand)

    def exact(params: Sequence[Any], data: Sequence[Any]) -> Any:
        with jax.default_matmul_precision("highest"):  # the default on CPU, on a GPU what PyTorch and we compute
            return value_and_grad(params, data)

    return _jitted(w, exact, keep)


def functional(w: Workload) -> Step:
    """``jax.jit(tx.value_and_grad(fn))`` on arrays, the loss the same source as the imperative loop's."""

    def loss(params: Sequence[Any], data: Sequence[Any]) -> Any:
        return w.loss(tx, [tx.as_tensor(p) for p in params], [tx.as_tensor(d) for d in data]).jax()

    return _jitted(w, tx.value_and_grad(loss))


COLUMNS: dict[str, Callable[[Workload], Step | None]] = {
    PYTORCH: pytorch,
    BY_HAND: by_hand,
    IMPERATIVE: imperative,
    FUNCTIONAL: functional,
    COMPILED: compiled,
    WHOLE: compiled_whole,
}
