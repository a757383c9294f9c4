"""How exactly float32 is multiplied: PyTorch's words for JAX's setting."""

from __future__ import annotations

from .rules import ArgumentValueError
from .rules.context import config, matmul_precision

_JAX_WORDS = {"highest": "highest", "high": "high", "medium": "default"}
_WORDS = {
    "highest": ("highest", "float32", "F32_F32_F32"),
    "high": ("high", "tensorfloat32", "bfloat16_3x", "TF32_TF32_F32", "TF32_TF32_F32_X3", "BF16_BF16_F32_X3"),
}


def set_float32_matmul_precision(precision: str) -> None:
    """Set how exactly products and convolutions of float32 are computed, where the device has a faster way.

    It is JAX's own setting, ``jax_default_matmul_precision``, so plain JAX code follows too, and
    every program and every cache of JAX's knows of it.  ``jax.default_matmul_precision`` as a
    context goes before it.  CPUs compute all three alike.

    Args:
        precision: "highest", as it is from the start: exact float32; "high": TensorFloat32, or
            three bfloat16 products; "medium": the device's fastest, such as bfloat16.

    Raises:
        ArgumentValueError: another word.

    Gradient: products in it are computed likewise.
    Source: PyTorch's ``torch.set_float32_matmul_precision``.
    Example:
        >>> set_float32_matmul_precision("highest")
    """
    if not isinstance(precision, str) or precision not in _JAX_WORDS:
        raise ArgumentValueError(f"the precision must be 'highest', 'high' or 'medium', got {precision!r}")
    config.update("jax_default_matmul_precision", _JAX_WORDS[precision])


def get_float32_matmul_precision() -> str:
    """How exactly products and convolutions of float32 are computed here: "highest", "high" or "medium".

    Example:
        >>> get_float32_matmul_precision()
        'highest'
    """
    chosen = str(matmul_precision())
    return next((word for word, names in _WORDS.items() if chosen in names), "medium")
