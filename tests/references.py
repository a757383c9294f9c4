"""The same ops by NumPy and by PyTorch, for rows to be compared with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from torsh_fx.rules.op import Row

import references_breadth

erf = np.vectorize(math.erf, otypes=[np.float64])


def _axes(x: Any, dims: Any) -> tuple[int, ...]:
    return tuple(dims) if np.ndim(x) else ()


def _softmax(x: Any, dim: int) -> Any:
    x = np.asarray(x)
    if x.size == 0 or x.ndim == 0:
        return np.ones_like(x)
    e = np.exp(x - x.max(axis=dim, keepdims=True))
    return e / e.sum(axis=dim, keepdims=True)


def _narrow(x: Any, dim: int, start: int, length: int) -> Any:
    return np.take(x, range(start, start + length), axis=dim)


def _slice_scatter(x: Any, source: Any, dim: int, start: int, step: int = 1) -> Any:
    out = np.array(x)
    at = start + step * np.arange(np.shape(source)[dim])
    np.moveaxis(out, dim, 0)[at] = np.moveaxis(np.asarray(source), dim, 0)
    return out


def _put(x: Any, index: Any, source: Any) -> Any:
    out = np.array(x)
    out.reshape(-1)[np.asarray(index)] = np.asarray(source)
    return out


def _stride(x: Any, dim: int, step: int) -> Any:
    return np.take(x, range(0, x.shape[dim], step), axis=dim)


def _along(x: Any, index: Any, dim: int) -> Any:
    out = np.empty(index.shape, x.dtype)
    for at in np.ndindex(*index.shape):
        source = list(at)
        source[dim] = index[at]
        out[at] = x[tuple(source)]
    return out


def _im2col(x: Any, kernel: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = (np.broadcast_to(v, 2) for v in (kernel, stride, padding, dilation))
    n, c, h, w = x.shape
    x = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    oh, ow = (h + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (w + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    out = np.empty((n, oh, ow, c, kh, kw), x.dtype)
    for oy, ox, ky, kx in np.ndindex(oh, ow, kh, kw):
        out[:, oy, ox, :, ky, kx] = x[:, :, oy * sh + ky * dh, ox * sw + kx * dw]
    split = out.reshape(n * oh * ow, groups, c // groups * kh * kw)
    return np.swapaxes(split, 0, 1)


def _expand(x: Any, shape: Any) -> Any:
    lead = len(shape) - x.ndim
    return np.broadcast_to(x, [x.shape[i - lead] if e == -1 else e for i, e in enumerate(shape)])


def _arg(fn: Any) -> Any:
    return lambda x, dim, keepdim: fn(x, axis=dim if x.ndim else None, keepdims=keepdim)


def _reduce(fn: Any) -> Any:
    return lambda x, dims, keepdim: fn(x, axis=_axes(x, dims), keepdims=keepdim)


def _concat(*xs: Any, dim: int) -> Any:
    return np.concatenate([x for x in xs if x.shape != (0,)], axis=dim)


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


NUMPY: dict[str, Callable[..., Any]] = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x, negative_slope=0.01: np.where(x > 0, x, negative_slope * x),
    "gelu": _gelu,
    "gelu_erf": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "clamp": lambda x, min=None, max=None: np.clip(x, min, max),
    "clamp_tensor": np.clip,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "mul_scalar": lambda x, scalar: x * scalar,
    "add_scalar": lambda x, scalar: x + scalar,
    "div_scalar": lambda x, scalar: x / scalar,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "sum": np.sum,
    "mean": np.mean,
    "sum_dim": _reduce(np.sum),
    "mean_dim": _reduce(np.mean),
    "amax": _reduce(np.max),
    "amin": _reduce(np.min),
    "any": _reduce(np.any),
    "all": _reduce(np.all),
    "argmax": _arg(np.argmax),
    "argmin": _arg(np.argmin),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "round": np.round,
    "reshape": lambda x, shape: x.reshape(shape),
    "permute": lambda x, axes: np.transpose(x, axes),
    "expand": _expand,
    "narrow": _narrow,
    "slab": _narrow,
    "overwrite": lambda x, source: source,
    "put": _put,
    "slice_scatter": _slice_scatter,
    "select": lambda x, dim, index: np.take(x, index, axis=dim),
    "stride": _stride,
    "flip": lambda x, dims: np.flip(x, dims),
    "clone": lambda x: x,
    "convert": lambda x, dtype: x.astype(dtype),
    "full": lambda value, shape, dtype: np.full(shape, value, dtype),
    "gather": lambda x, index_map, shape: x.reshape(-1)[np.asarray(index_map)].reshape(shape),
    "take": lambda x, index, dim: np.take(x, index, axis=dim),
    "take_along_dim": _along,
    "im2col_2d": _im2col,
    "where": np.where,
    "concat": _concat,
    "stack": lambda *xs, dim: np.stack(xs, axis=dim),
    "matmul": np.matmul,
    "affine": lambda x, w, b, precision=None: x @ np.asarray(w).T + b,
    "pow": lambda x, exponent: np.power(x, float(exponent)),
    "pow_tensor": np.power,
    "log_softmax": lambda x, dim: np.log(_softmax(x, dim)),
    "softmax": _softmax,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": erf,
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "atan2": np.arctan2,
    "lerp": lambda start, end, weight: start + weight * (end - start),
    "bitwise_left_shift": np.left_shift,
    "bitwise_right_shift": np.right_shift,
    "logsumexp": _reduce(np.logaddexp.reduce),
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "neg": np.negative,
    **references_breadth.NUMPY,
}


def numpy_reference(row: Row) -> Callable[..., Any] | None:
    """NumPy's function for ``row``: the table's, or the one of the same name."""
    return NUMPY.get(row.name) or getattr(np, row.name, None)


# Where PyTorch names a parameter differently, or takes it by position.
RENAMED = {"dims": "dim", "axes": "dims"}
POSITIONAL = ("scalar", "exponent", "shape")
LISTED = ("concat", "stack")
BY_NAME = {  # parameters of PyTorch's function stand between its operands
    **dict.fromkeys(("scatter", "scatter_add", "scatter_reduce"), ("input", "index", "src")),
    **dict.fromkeys(("index_copy", "index_add"), ("input", "index", "source")),
}


def torch_reference(row: Row) -> Callable[..., Any] | None:
    """PyTorch's function for ``row`` on torch tensors and our parameters, or None."""
    if row.torch is None:
        return None
    import torch

    path, _, extra = row.torch.partition("(")
    fixed = dict(part.split("=") for part in extra.rstrip(")").split(",") if part)
    fn: Any = torch
    for part in path.split("."):
        fn = getattr(fn, part)

    def call(*args: Any, **params: Any) -> Any:
        if params.get("dims") == [] and row.name in ("sum_dim", "mean_dim", "amax", "amin"):
            return args[0] * 1  # PyTorch's empty list means all axes
        if row.name == "take_along_dim":
            return torch.gather(args[0], params["dim"], args[1])
        if row.name == "clamp_tensor":  # PyTorch's own backward fails on a scalar between larger bounds
            args = tuple(torch.broadcast_tensors(*args))
        positional = [params.pop(p) for p in POSITIONAL if p in params]
        named = {
            (p if row.name in ("flip", "roll") else RENAMED.get(p, p)): v for p, v in params.items() if p != "precision"
        }
        named.update({k: v.strip("'\"") for k, v in fixed.items()})
        if row.name in BY_NAME:
            return fn(**dict(zip(BY_NAME[row.name], args, strict=True)), **named)
        operands = [args] if row.name in LISTED else args
        return fn(*operands, *positional, **named)

    return call
