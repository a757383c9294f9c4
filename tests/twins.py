"""One program on PyTorch and on us: written once, since the names are the same, and compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torsh_fx as tx
from tolerances import close


def leaf(lib: Any, values: Any, requires_grad: bool = True) -> Any:
    """A float64 leaf of either library."""
    return lib.tensor(np.asarray(values, np.float64).tolist(), dtype=lib.float64, requires_grad=requires_grad)


def agree(ours: Any, theirs: Any, where: str = "result") -> None:
    """Assert equal structures and values; a list for a tuple counts as equal."""
    if isinstance(theirs, (tuple, list)):
        assert isinstance(ours, (tuple, list)), where
        assert len(ours) == len(theirs), where
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            agree(a, b, f"{where}[{k}]")
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), where
        for key in theirs:
            agree(ours[key], theirs[key], f"{where}[{key!r}]")
    elif hasattr(theirs, "detach"):
        assert isinstance(ours, tx.Tensor), f"{where}: {ours!r} instead of {theirs!r}"
        close(ours.detach().numpy(), theirs.detach().numpy(), gradient=True, what=where)
    else:
        assert ours == theirs, f"{where}: {ours!r} instead of {theirs!r}"


def compare(program: Callable[[Any], Any], times: int = 1) -> Any:
    """Assert that ``program(lib)`` gives the same on PyTorch and on us, each time and computed eagerly; our result."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    theirs = program(torch)
    for _ in range(times):
        ours = program(tx)
        agree(ours, theirs)
    with tx.eager():
        agree(program(tx), theirs)
    return ours


def both_refuse(program: Callable[[Any], Any], error: type[Exception], match: str) -> None:
    """Assert that PyTorch refuses ``program``, and we do with ``error``."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with pytest.raises(Exception):  # noqa: B017, PT011  whatever it raises
        program(torch)
    with pytest.raises(tx.TorshError, match=match) as caught:
        program(tx)
    assert isinstance(caught.value, error)
