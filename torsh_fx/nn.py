"""``torsh_fx.nn``: holds ``functional``."""

from . import functional as functional
