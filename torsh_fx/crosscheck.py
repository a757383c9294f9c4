"""One gradient by every way there is, side by side.

``crosscheck`` differentiates a function by ``backward()``, by ``tx.grad``, by
``jax.grad`` of its replayed tape, by finite differences in float64, and where
they are at hand by ``jax.grad`` of a reference and by PyTorch.  At a kink (the
one-sided slopes differ) conventions may rightly differ; the report says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .backward import backward
from .creation import tensor
from .dtypes import float64, is_floating
from .random import default_generator
from .rules import ArgumentTypeError, AutogradError
from .rules.context import config
from .state import enable_grad, own_trace
from .tape import Tape, record
from .tensor import Tensor
from .transforms import grad

Fn = Callable[..., Any]

# Largest difference allowed, over the largest entry of the gradient: same
# arithmetic in another order, and against differences in float64.
TOLERANCE = {"float64": (1e-10, 1e-6), "float32": (2e-5, 2e-3), "bfloat16": (5e-2, 1e-1), "float16": (1e-2, 5e-2)}
ELEMENTS = 256  # finite differences look at no more elements of an input than this


class Row(NamedTuple):
    """One path's gradient of one input against ``backward()``'s.

    ``input`` is its position, −1 for a path not taken; ``where`` the element that
    differs most, by ``max_abs``, which ``max_rel`` divides by the largest entry.
    """

    path: str
    input: int
    max_abs: float
    max_rel: float
    where: tuple[int, ...]
    verdict: str  # "ok", "DIFFERS", "convention" or why the path was not taken


class Report:
    """What ``crosscheck`` found; prints as a table.

    ``rows`` holds a ``Row`` per path and input, ``gradients`` the arrays by path,
    None where a path was not taken.
    """

    def __init__(self, rows: list[Row], gradients: dict[str, list[np.ndarray[Any, Any]] | None]) -> None:
        self.rows = rows
        self.gradients = gradients

    @property
    def ok(self) -> bool:
        """Does every path that ran agree, kinks aside?

        Example:
            >>> crosscheck(lambda x: x.exp(), tensor([1.0]), torch=False).ok
            True
        """
        return all(r.verdict != "DIFFERS" for r in self.rows)

    def raise_if_failed(self) -> Report:
        """The report itself, or an AutogradError that holds the table.

        Raises:
            AutogradError: a path disagrees away from kinks.
        """
        if not self.ok:
            raise AutogradError(f"gradients disagree:\n{self}")
        return self

    def __repr__(self) -> str:
        head = ("path", "input", "max abs", "max rel", "where", "verdict")
        body = [
            (r.path, str(r.input), f"{r.max_abs:.1e}", f"{r.max_rel:.1e}", str(list(r.where)), r.verdict)
            if r.input >= 0
            else (r.path, "-", "-", "-", "-", r.verdict)
            for r in self.rows
        ]
        widths = [max(len(line[k]) for line in (head, *body)) for k in range(len(head))]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in (head, *body)
        )


def crosscheck(
    fn: Fn,
    *inputs: Any,
    reference: Fn | None = None,
    torch: bool = True,
    raise_on_failure: bool = False,
) -> Report:
    """Compare the gradient of ``fn`` by all paths.

    Args:
        fn: function of Tensors with one Tensor as result; results with several
            elements are summed with fixed uneven weights.
        inputs: Tensors or arrays; the floating ones are differentiated.
        reference: the same function in plain JAX, on arrays.
        torch: also try ``fn`` on PyTorch tensors, where PyTorch is installed.
        raise_on_failure: raise where paths disagree.

    Returns:
        A ``Report``: per path and input the largest absolute and relative
        difference from ``backward()``'s gradient and where it is.

    Raises:
        AutogradError: ``raise_on_failure`` and a path disagrees.
        ArgumentTypeError: no floating input, or ``fn`` does not return one Tensor.

    Gradient: at a kink, where one-sided slopes differ, a difference is reported as
    a convention and does not fail.
    Source: central differences in float64 of the replayed tape, among the paths.
    Example:
        >>> crosscheck(lambda x: (x * x).sum(), tensor([1.0, 2.0])).ok
        True
    """
    hosts = [_host(x) for x in inputs]
    active = [k for k, h in enumerate(hosts) if is_floating(h.dtype)]
    if not active:
        raise ArgumentTypeError("crosscheck needs at least one floating input")
    state = default_generator.get_state()

    def again(path: Callable[[], Any]) -> Any:
        default_generator.set_state(state)  # every path draws the same numbers
        return path()

    with enable_grad(), own_trace():
        tape = again(lambda: record(_scalar(fn))(*map(tensor, hosts)))
        base = again(lambda: _by_backward(fn, hosts, active))
        paths: dict[str, Any] = {"backward()": base}
        paths["tx.grad"] = again(lambda: _arrays(grad(_scalar(fn), tuple(active))(*map(tensor, hosts))))
        paths["replay"] = again(lambda: _by_replay(tape, hosts, active))
        paths["differences"], slopes = _by_differences(tape, hosts, active)
        if reference is not None:
            paths["reference"] = again(lambda: _by_reference(reference, hosts, active))
        if torch:
            paths["PyTorch"] = again(lambda: _by_torch(fn, hosts, active))
    default_generator.set_state(state)
    rows: list[Row] = []
    for path, found in paths.items():
        if isinstance(found, str):
            rows.append(Row(path, -1, 0.0, 0.0, (), found))
        elif path != "backward()":
            for k, ours, theirs, kinks in zip(active, base, found, slopes, strict=True):
                rows.append(_compare(path, k, ours, theirs, kinks, str(hosts[k].dtype)))
    report = Report(rows, {p: None if isinstance(g, str) else g for p, g in paths.items()})
    return report.raise_if_failed() if raise_on_failure else report


def _host(x: Any) -> np.ndarray[Any, Any]:
    t = x if isinstance(x, Tensor) else tensor(x)
    return np.asarray(t.detach().jax())


def _weights(shape: Sequence[int]) -> np.ndarray[Any, Any]:
    n = int(np.prod(shape))
    weights: np.ndarray[Any, Any] = 0.5 + np.abs(np.cos(1.7 * np.arange(n) + 0.3))
    return weights.reshape(shape)


def _scalar(fn: Fn) -> Fn:
    def wrapped(*args: Any) -> Any:
        out = fn(*args)
        if not isinstance(out, Tensor):
            raise ArgumentTypeError(f"crosscheck needs a function that returns one Tensor, got {type(out).__name__}")
        if out.ndim == 0:
            return out
        return (out * tensor(_weights(out.shape)).to(out.dtype)).sum()

    return wrapped


def _by_backward(fn: Fn, hosts: Sequence[Any], active: Sequence[int]) -> list[np.ndarray[Any, Any]]:
    args = [tensor(h, requires_grad=k in active) for k, h in enumerate(hosts)]
    backward((_scalar(fn)(*args),), (None,), None, False)
    return [np.zeros(hosts[k].shape) if args[k].grad is None else _double(args[k].grad) for k in active]


def _double(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(x.detach().jax() if isinstance(x, Tensor) else x).astype(np.float64)


def _arrays(tensors: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    return [_double(t) for t in tensors]


def _by_replay(tape: Tape, hosts: Sequence[Any], active: Sequence[int]) -> list[np.ndarray[Any, Any]]:
    with jax.enable_x64(True):
        arrays = [jnp.asarray(h) for h in hosts]
        return _arrays(jax.jit(jax.grad(tape.as_jax(), tuple(active)))(*arrays))


def _by_reference(reference: Fn, hosts: Sequence[Any], active: Sequence[int]) -> list[np.ndarray[Any, Any]]:
    def scalar(*arrays: Any) -> Any:
        out = reference(*arrays)
        return out if jnp.ndim(out) == 0 else jnp.sum(out * jnp.asarray(_weights(out.shape), out.dtype))

    with jax.enable_x64(any(h.dtype == float64 for h in hosts) or bool(config.jax_enable_x64)):
        return _arrays(jax.grad(scalar, tuple(active))(*map(jnp.asarray, hosts)))


def _by_differences(tape: Tape, hosts: Sequence[Any], active: Sequence[int]) -> Any:
    """Central differences of the tape in float64, and where the one-sided slopes differ."""
    wide = [h.astype(np.float64) if k in active else h for k, h in enumerate(hosts)]
    found, kinks = [], []
    with jax.enable_x64(True):
        arrays = [jnp.asarray(w) for w in wide]
        run = tape.in_float64(*arrays)
        centre = float(run(*arrays))
        for k in active:
            places = _spread(wide[k].size)
            step = 1e-6 * np.maximum(1.0, np.abs(wide[k].reshape(-1)[places]))

            def at(moves: Any, k: int = k, places: Any = places) -> Any:
                def one(place: Any, move: Any) -> Any:
                    moved = arrays[k].reshape(-1).at[place].add(move).reshape(arrays[k].shape)
                    return run(*arrays[:k], moved, *arrays[k + 1 :])

                return np.asarray(jax.jit(jax.vmap(one))(jnp.asarray(places), jnp.asarray(moves)))

            right, left = at(step), at(-step)
            slope = np.full(wide[k].size, np.nan)
            slope[places] = (right - left) / (2 * step)
            kink = np.zeros(wide[k].size, bool)
            up, down = (right - centre) / step, (centre - left) / step
            kink[places] = np.abs(up - down) > 1e-3 * np.maximum(1.0, np.maximum(np.abs(up), np.abs(down)))
            found.append(slope.reshape(wide[k].shape))
            kinks.append(kink.reshape(wide[k].shape))
    return found, kinks


def _spread(size: int) -> np.ndarray[Any, Any]:
    return np.arange(size) if size <= ELEMENTS else np.unique(np.linspace(0, size - 1, ELEMENTS).astype(int))


def _by_torch(fn: Fn, hosts: Sequence[Any], active: Sequence[int]) -> Any:
    try:
        import torch
    except ImportError:
        return "skipped: PyTorch is not installed (extra: torch)"
    try:
        args: list[Any] = [torch.tensor(h.astype(np.float32) if h.dtype.name == "bfloat16" else h) for h in hosts]
        for k in active:
            args[k].requires_grad_()
        out = fn(*args)
        if out.dim():
            out = (out * torch.tensor(_weights(tuple(out.shape)), dtype=out.dtype)).sum()
        out.backward()
        return [np.zeros(hosts[k].shape) if args[k].grad is None else _double(args[k].grad.numpy()) for k in active]
    except Exception as error:  # fn is the user's; not every function runs on PyTorch
        return f"skipped: the function does not run on PyTorch ({type(error).__name__})"


def _compare(path: str, k: int, ours: Any, theirs: Any, kinks: Any, dtype: str) -> Row:
    seen = ~np.isnan(theirs) if path == "differences" else np.ones(theirs.shape, bool)
    both = seen & ~(np.isnan(ours) & np.isnan(theirs)) & (ours != theirs)
    gap = np.where(both, np.abs(ours - theirs), 0.0)
    gap = np.where(np.isnan(gap), np.inf, gap)
    size = np.max(np.abs(np.where(np.isfinite(ours), ours, 0.0)), initial=0.0)
    where = tuple(int(i) for i in np.unravel_index(int(np.argmax(gap)), gap.shape)) if gap.size else ()
    max_abs = float(np.max(gap, initial=0.0))
    limit = TOLERANCE[dtype][path == "differences"] * max(size, 1e-3)
    max_rel = max_abs / size if size else max_abs
    wrong = gap > limit
    if not wrong.any():
        verdict = "ok"
    elif (wrong & ~kinks).any():
        verdict = "DIFFERS"
    else:
        verdict = f"convention: {int(wrong.sum())} element(s) at a kink, where one-sided slopes differ"
    return Row(path, k, max_abs, max_rel, where, verdict)
