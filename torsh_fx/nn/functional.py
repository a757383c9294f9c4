"""``import torsh_fx.nn.functional as F``: layers, activations, losses and pools, under PyTorch's names."""

from .. import activations, distances, functional, layers, losses, normalization, pooling, resizing
from ..activations import *  # noqa: F403
from ..distances import *  # noqa: F403
from ..functional import *  # noqa: F403
from ..layers import *  # noqa: F403
from ..losses import *  # noqa: F403
from ..normalization import *  # noqa: F403
from ..pooling import *  # noqa: F403
from ..resizing import *  # noqa: F403

__all__ = sorted(
    [
        *activations.__all__,
        *distances.__all__,
        *functional.__all__,
        *layers.__all__,
        *losses.__all__,
        *normalization.__all__,
        *pooling.__all__,
        *resizing.__all__,
    ]
)
