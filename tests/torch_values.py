"""PyTorch's tensors and ours: converted, compared, described."""

from __future__ import annotations

from typing import Any

import numpy as np

import torsh_fx as tx
from tolerances import FORWARD, GRADIENT

try:
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
except ImportError as error:  # PyTorch, or expecttest, which its samples need
    op_db, MISSING = [], f"PyTorch's samples cannot be imported: {error}"
else:
    MISSING = ""


class OutsideError(Exception):
    """A sample uses what the library does not have at all."""


def converted(value: Any, known: dict[int, tx.Tensor]) -> Any:
    """``value`` with our tensors and dtypes for PyTorch's; one tensor stays one tensor."""
    if isinstance(value, torch.Tensor):
        if id(value) not in known:
            known[id(value)] = our_tensor(value)
        return known[id(value)]
    if isinstance(value, torch.dtype):
        return our_dtype(value)
    if isinstance(value, torch.device):
        if value.type != "cpu":
            raise OutsideError("another device")
        return value.type
    if isinstance(value, (torch.layout, torch.memory_format)):
        raise OutsideError("layouts and memory formats")
    if isinstance(value, complex):
        raise OutsideError("complex numbers")
    if isinstance(value, slice):
        return slice(*(converted(v, known) for v in (value.start, value.stop, value.step)))
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, (list, tuple)):
        return type(value)(converted(v, known) for v in value)
    if isinstance(value, dict):
        if "out" in value:
            raise OutsideError("out= arguments")
        return {k: converted(v, known) for k, v in value.items()}
    return value


def our_dtype(dtype: Any) -> Any:
    name = str(dtype).removeprefix("torch.")
    if dtype.is_complex:
        raise OutsideError("complex numbers")
    if name not in ("bool", "uint8") and not name.startswith(("int", "float32", "float64", "float16", "bfloat")):
        raise OutsideError(f"dtype {name}")
    return tx.dtypes.as_dtype(name)


def our_tensor(t: Any) -> tx.Tensor:
    if t.layout != torch.strided:
        raise OutsideError("sparse tensors")
    if t.device.type != "cpu":
        raise OutsideError("another device")
    if t.dim() > 32:
        raise OutsideError("more axes than NumPy has")
    return tx.tensor(host_of(t), dtype=our_dtype(t.dtype), requires_grad=t.requires_grad)


def host_of(t: Any) -> np.ndarray[Any, Any]:
    """A PyTorch tensor's values; bfloat16 as float32, which holds them."""
    t = t.detach()
    return (t.float() if t.dtype == torch.bfloat16 else t).numpy(force=True)  # type: ignore[no-any-return]


def tensors_in(tree: Any) -> list[Any]:
    """PyTorch's or our tensors and plain numbers in nested results, in order."""
    if tree is None:
        return []
    if isinstance(tree, (list, tuple)):
        return [t for part in tree for t in tensors_in(part)]
    if isinstance(tree, dict):
        return [t for part in tree.values() for t in tensors_in(part)]
    return [tree]


def is_floating(x: Any) -> bool:
    return x.dtype.is_floating_point if isinstance(x, torch.Tensor) else tx.dtypes.is_floating(x.dtype)


def compare(law: str, got: Any, known: Any, values: bool = True, loose: float | None = None) -> None:
    """Raise AssertionError unless ours is PyTorch's in shape, dtype and value."""
    if got is None or known is None:
        raise AssertionError(f"[{law}] a result is missing: {got!r} for {known!r}")
    if not isinstance(known, torch.Tensor):
        assert type(got) is type(known), f"[{law}] {type(got).__name__} instead of {type(known).__name__}"
        np.testing.assert_allclose(got, known, rtol=1e-6, err_msg=law)
        return
    a = got.detach().numpy() if isinstance(got, tx.Tensor) else np.asarray(got)
    b, dtype = host_of(known), our_dtype(known.dtype)
    assert a.shape == b.shape, f"[{law}] shape {list(a.shape)} instead of {list(b.shape)}"
    assert a.dtype == dtype, f"[{law}] dtype {a.dtype} instead of {dtype}"
    if values:
        rtol, atol = (FORWARD if law == "forward" else GRADIENT).get(dtype.name, (0.0, 0.0))
        rtol = rtol if loose is None or law == "forward" else max(loose, rtol)
        a, b = (v.astype(np.float64) if tx.dtypes.is_floating(dtype) else v for v in (a, b))
        with np.errstate(invalid="ignore"):
            size = np.abs(np.where(np.isfinite(b), b, 0)).max(initial=1.0) if rtol else 1.0
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol * size, err_msg=law)


def described(value: Any) -> str:
    """Arguments in short, as a failing sample is named."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, dict):
        return ", ".join(f"{k}={described(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(map(described, value)) + ")"
    return repr(value)
