"""``import torsh_fx.nn.functional as F``: the functions of ``torsh_fx.functional``."""

from ..functional import *  # noqa: F403
from ..functional import __all__ as __all__
