"""NumPy's counterparts of the rows that scan, sort, scatter, pool, normalise and factor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _running(fn: Any) -> Any:
    return lambda x, dim: fn(x, axis=dim) if np.ndim(x) else np.asarray(x)


def _running_place(better: Any) -> Any:
    def places(x: Any, dim: int) -> Any:
        out = np.zeros(x.shape, np.int64)
        if x.ndim == 0:
            return out
        lines, found = np.moveaxis(x, dim, -1), np.moveaxis(out, dim, -1)
        for at in np.ndindex(*lines.shape[:-1]):
            best = 0
            for k, value in enumerate(lines[at]):
                best = k if better(value, lines[at][best]) else best
                found[at][k] = best
        return out

    return places


def _norm(x: Any, ord: float, dims: Any, keepdim: bool) -> Any:
    axes, v = tuple(dims) if x.ndim else (), np.abs(x)
    if ord == 0:
        return np.sum(v != 0, axis=axes, keepdims=keepdim).astype(x.dtype)
    if np.isinf(ord):
        return (np.max if ord > 0 else np.min)(v, axis=axes, keepdims=keepdim)
    return np.sum(v**ord, axis=axes, keepdims=keepdim) ** (1 / ord)


def _argsort(x: Any, dim: int, descending: bool) -> Any:
    return np.argsort(-x if descending else x, axis=dim, kind="stable") if x.ndim else np.zeros((), np.int64)


def _searchsorted(boundaries: Any, x: Any, right: bool) -> Any:
    side = "right" if right else "left"
    if boundaries.ndim == 1:
        return np.searchsorted(boundaries, x, side=side)
    return np.stack([np.searchsorted(b, v, side=side) for b, v in zip(boundaries, x, strict=True)])


def _written(how: Any) -> Any:
    def write(x: Any, index: Any, src: Any, dim: int, **rest: Any) -> Any:
        out = x.copy()
        for at in np.ndindex(*index.shape):
            place = list(at)
            place[dim] = index[at]
            out[tuple(place)] = how(out[tuple(place)], src[at], **rest)
        return out

    return write


def _combined(old: Any, new: Any, reduce: str) -> Any:
    return {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce](old, new)


def _slices(accumulate: bool) -> Any:
    def write(x: Any, index: Any, source: Any, dim: int) -> Any:
        out = x.copy()
        into, new = np.moveaxis(out, dim, 0), np.moveaxis(source, dim, 0)
        for k, place in enumerate(index):
            into[place] = new[k] + (into[place] if accumulate else 0)
        return out

    return write


def _diagonal(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    return np.diagonal(x, offset, dim1, dim2)


def _diag_embed(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    n = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], n, n))
    for k in range(x.shape[-1]):
        out[..., k + max(-offset, 0), k + max(offset, 0)] = x[..., k]
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def _pad(x: Any, pads: Any, value: float) -> Any:
    grown = np.pad(x, [(max(a, 0), max(b, 0)) for a, b in pads], constant_values=value) if x.ndim else x
    return grown[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(grown.shape, pads, strict=True))]


def _windows(x: Any, dim: int, kernel: int, stride: int, low: int, high: int, dilation: int, fill: float = 0) -> Any:
    pads = [(low, high) if axis == dim % x.ndim else (0, 0) for axis in range(x.ndim)]
    padded = _pad(x, pads, fill)
    count = (padded.shape[dim] - dilation * (kernel - 1) - 1) // stride + 1
    places = [[w * stride + k * dilation for w in range(count)] for k in range(kernel)]
    return np.stack([np.take(padded, p, axis=dim) for p in places], axis=-1)


def _pool_places(x: Any, dim: int, stride: int, low: int, dilation: int, **rest: Any) -> Any:
    inside = _windows(x, dim=dim, stride=stride, low=low, dilation=dilation, fill=-np.inf, **rest)
    found = np.argmax(inside, axis=-1) * dilation - low
    starts = np.arange(found.shape[dim]) * stride
    return found + starts.reshape([-1 if axis == dim % x.ndim else 1 for axis in range(x.ndim)])


def _overlap_add(x: Any, dim: int, extent: int, stride: int, low: int, high: int, dilation: int) -> Any:
    lines = np.moveaxis(x, dim, -2)
    out = np.zeros((*lines.shape[:-2], low + extent + high))
    for w, k in np.ndindex(*lines.shape[-2:]):
        out[..., w * stride + k * dilation] += lines[..., w, k]
    return np.moveaxis(out[..., low : low + extent], -1, dim)


def _standardize(x: Any, dims: Any, eps: float) -> Any:
    moved = x - x.mean(axis=tuple(dims), keepdims=True)
    return moved / np.sqrt((moved**2).mean(axis=tuple(dims), keepdims=True) + eps)


def _rms(x: Any, dims: Any, eps: float) -> Any:
    return x / np.sqrt((x**2).mean(axis=tuple(dims), keepdims=True) + eps)


def _triangular(a: Any, b: Any, upper: bool, unit: bool) -> Any:
    t = np.triu(a) if upper else np.tril(a)
    return np.linalg.solve(t - (np.eye(a.shape[-1]) * (t - 1) if unit else 0), b)


def _eigh(x: Any) -> Any:
    found, vectors = np.linalg.eigh(x)
    return np.concatenate([vectors, found[..., None]], axis=-1)


def _qr(x: Any) -> Any:
    q, r = np.linalg.qr(x)
    return np.concatenate([np.swapaxes(q, -1, -2), r], axis=-1)


def _svd(x: Any) -> Any:
    u, s, v = np.linalg.svd(x, full_matrices=False)
    batch = s.shape[:-1]
    return np.concatenate([u.reshape(*batch, -1), s, v.reshape(*batch, -1)], axis=-1)


NUMPY: dict[str, Callable[..., Any]] = {
    "cumsum": _running(np.cumsum),
    "cumprod": _running(np.cumprod),
    "logcumsumexp": _running(np.logaddexp.accumulate),
    "cummax_indices": _running_place(np.greater_equal),
    "cummin_indices": _running_place(np.less_equal),
    "prod": lambda x, dims, keepdim: np.prod(x, axis=tuple(dims) if x.ndim else (), keepdims=keepdim),
    "vector_norm": _norm,
    "argsort": _argsort,
    "searchsorted": _searchsorted,
    "scatter": _written(lambda old, new: new),
    "scatter_add": _written(np.add),
    "scatter_reduce": _written(_combined),
    "index_copy": _slices(False),
    "index_add": _slices(True),
    "tril": lambda x, diagonal: np.tril(x, diagonal),
    "triu": lambda x, diagonal: np.triu(x, diagonal),
    "diagonal": _diagonal,
    "diag_embed": _diag_embed,
    "pad": _pad,
    "roll": lambda x, shifts, dims: np.roll(x, shifts, dims),
    "windows": _windows,
    "max_pool": lambda x, **params: _windows(x, fill=-np.inf, **params).max(axis=-1),
    "max_pool_indices": _pool_places,
    "sum_pool": lambda x, **params: _windows(x, **params).sum(axis=-1),
    "overlap_add": _overlap_add,
    "standardize": _standardize,
    "rms_standardize": _rms,
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "slogdet": lambda x: np.stack(np.linalg.slogdet(x), axis=-1),
    "solve": np.linalg.solve,
    "solve_triangular": _triangular,
    "pinv": lambda x, rtol: np.linalg.pinv(x, rtol=rtol),
    "cholesky": np.linalg.cholesky,
    "eigh": _eigh,
    "qr": _qr,
    "complement": lambda x: np.linalg.qr(x, mode="complete")[0][..., x.shape[-1] :],
    "svd": _svd,
}
