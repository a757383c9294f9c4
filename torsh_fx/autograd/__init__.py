"""PyTorch's ``torch.autograd``: gradients of recorded graphs, and the switches of recording.

``functional`` holds Jacobians, Hessians and their products with vectors, ``Function`` is for ops with
a backward of one's own, ``graph`` for what is kept until backward.
"""

from .. import function as function
from .. import saving as graph
from ..function import Function as Function
from ..state import enable_grad as enable_grad
from ..state import is_grad_enabled as is_grad_enabled
from ..state import no_grad as no_grad
from ..state import set_grad_enabled as set_grad_enabled
from . import functional as functional
from .gradients import backward as backward
from .gradients import grad as grad

__all__ = [
    "Function",
    "backward",
    "enable_grad",
    "function",
    "functional",
    "grad",
    "graph",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]
