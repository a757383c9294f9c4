"""``torsh_fx.nn``: holds ``functional``, under the name PyTorch users import."""

from . import functional as functional

__all__ = ["functional"]
