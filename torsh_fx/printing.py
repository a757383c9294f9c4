"""repr of Tensors in PyTorch's layout."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .dtypes import bool_, float32, int64

PRECISION = 4
THRESHOLD = 1000
EDGE = 3
LINE = 80


def show(t: Any) -> str:
    """``tensor([1., 2.], dtype=..., grad_fn=...)``; a traced value shows its type only."""
    node = t._node
    name = type(t).__name__ if type(t).__name__ != "Tensor" else "tensor"
    if node.value is not None and isinstance(node.value, jax.core.Tracer):
        body = f"<traced, shape={list(t.shape)}>"
        return f"{name}({body}, dtype={t.dtype}{_suffix(t)})"
    if not isinstance(node.value, (jax.Array, type(None))):  # a place in a tree of avals or sentinels
        return f"{name}({node.value!r})"
    host = np.asarray(t._host())
    empty = host.size == 0 and host.ndim > 1
    body = f"[], size={tuple(host.shape)}" if empty else _body(host, len(name) + 1)
    plain = t.dtype in (float32, int64, bool_) and host.size
    dtype = "" if plain or (host.size == 0 and t.dtype == float32) else f", dtype={t.dtype}"
    return f"{name}({body}{dtype}{_suffix(t)})"


def _suffix(t: Any) -> str:
    if t.grad_fn is not None:
        return f", grad_fn={t.grad_fn!r}"
    return ", requires_grad=True" if t.requires_grad else ""


def _body(host: np.ndarray[Any, Any], indent: int) -> str:
    if host.dtype.kind not in "biu":
        host = host.astype(np.float64)
    one = _formatter(_shown(host))
    return _nested(host, one, indent, host.size > THRESHOLD)


def _shown(host: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements that will be printed, flat."""
    if host.size > THRESHOLD:
        for axis in range(host.ndim):
            if host.shape[axis] > 2 * EDGE:
                ends = [*range(EDGE), *range(host.shape[axis] - EDGE, host.shape[axis])]
                host = np.take(host, ends, axis=axis)
    return host.reshape(-1)


def _formatter(flat: np.ndarray[Any, Any]) -> Any:
    if flat.dtype == bool:
        width = max((len(str(bool(v))) for v in flat), default=0)
        return lambda v: str(bool(v)).rjust(width)
    if flat.dtype.kind in "iu":
        width = max((len(str(int(v))) for v in flat), default=0)
        return lambda v: str(int(v)).rjust(width)
    regular = flat[np.isfinite(flat) & (flat != 0)]  # only these count for the width, as in PyTorch
    finite = np.abs(regular)
    if finite.size == 0:
        style = "{:.0f}."
    else:
        low, high = float(finite.min()), float(finite.max())
        whole = bool((finite == np.rint(finite)).all())
        if whole and high / low <= 1000 and high <= 1e8:
            style = "{:.0f}."
        elif high / low > 1000 or high > 1e8 or low < 1e-4:
            style = f"{{:.{PRECISION}e}}"
        else:
            style = f"{{:.{PRECISION}f}}"

    def one(v: Any) -> str:
        return style.format(v) if np.isfinite(v) else str(float(v))

    width = max((len(one(v)) for v in regular), default=0)
    return lambda v: one(v).rjust(width)


def _nested(host: np.ndarray[Any, Any], one: Any, indent: int, summarise: bool) -> str:
    if host.ndim == 0:
        return str(one(host)).strip()
    n = host.shape[0]
    cut = summarise and n > 2 * EDGE
    rows = [*range(EDGE), *range(n - EDGE, n)] if cut else range(n)
    if host.ndim == 1:
        return _line([one(host[k]) for k in rows], indent, cut)
    parts = [_nested(host[k], one, indent + 1, summarise) for k in rows]
    if cut:
        parts.insert(EDGE, "...")
    gap = ",\n" * (host.ndim - 1)
    return "[" + (gap[:1] + gap[1::2] + " " * (indent + 1)).join(parts) + "]"


def _line(parts: list[str], indent: int, cut: bool) -> str:
    if cut:
        parts.insert(EDGE, " ...")
    width = max((len(p) for p in parts), default=0) + 2
    per_line = max(1, (LINE - indent) // max(width, 1))
    lines = [", ".join(parts[k : k + per_line]) for k in range(0, len(parts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
