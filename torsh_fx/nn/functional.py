"""``import torsh_fx.nn.functional as F``: the functions of ``torsh_fx.functional``, layers and pools beside them."""

from .. import functional, normalization, pooling, resizing
from ..functional import *  # noqa: F403
from ..normalization import *  # noqa: F403
from ..pooling import *  # noqa: F403
from ..resizing import *  # noqa: F403

__all__ = [*functional.__all__, *normalization.__all__, *pooling.__all__, *resizing.__all__]
