"""How far two results of one computation may lie apart: (rtol, atol) by dtype."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

FORWARD = {
    "float64": (1e-10, 1e-12),
    "float32": (2e-5, 1e-5),
    "bfloat16": (3e-2, 2e-2),
    "float16": (4e-3, 4e-3),
}
GRADIENT = {
    "float64": (1e-9, 1e-11),
    "float32": (1e-4, 1e-4),
    "bfloat16": (6e-2, 6e-2),
    "float16": (1e-2, 1e-2),
}
# Central differences in float64 with a step of 1e-5: truncation and cancellation.
DIFFERENCES = (1e-5, 1e-6)
STEP = 1e-5


def close(got: Any, want: Any, *, gradient: bool = False, dtype: Any = None, what: str = "") -> None:
    """Assert that shapes agree and values agree within the table's tolerance for ``dtype``."""
    assert np.shape(got) == np.shape(want), f"{what}: shape {np.shape(got)} instead of {np.shape(want)}"
    dtype = np.dtype(got.dtype if dtype is None else dtype)
    rtol, atol = (GRADIENT if gradient else FORWARD).get(dtype.name, (0.0, 0.0))
    wide = [np.asarray(a).astype(np.float64) if jnp.issubdtype(a.dtype, jnp.floating) else a for a in (got, want)]
    if jnp.issubdtype(dtype, jnp.floating):
        most = float(jnp.finfo(dtype).max)  # what the dtype cannot hold is infinite in it
        wide[1] = np.where(np.abs(wide[1]) > most, np.copysign(np.inf, wide[1]), wide[1])
    np.testing.assert_allclose(*wide, rtol=rtol, atol=atol, err_msg=what)


def near(got: Any, want: Any, what: str = "") -> None:
    """Assert agreement with finite differences."""
    assert np.shape(got) == np.shape(want), f"{what}: shape {np.shape(got)} instead of {np.shape(want)}"
    rtol, atol = DIFFERENCES
    scale = max(1.0, float(np.max(np.abs(want), initial=0.0)))
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=rtol, atol=atol * scale, err_msg=what)
