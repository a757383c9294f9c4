"""PyTorch's ``torch.func``: its names and its order of arguments, over the transforms of ``torsh_fx``.

They nest with each other and with JAX's, and ``backward()`` goes through their results.
"""

from .calling import functional_call as functional_call
from .derivatives import grad as grad
from .derivatives import grad_and_value as grad_and_value
from .derivatives import hessian as hessian
from .derivatives import jacfwd as jacfwd
from .derivatives import jacrev as jacrev
from .derivatives import jvp as jvp
from .derivatives import linearize as linearize
from .derivatives import vjp as vjp
from .mapping import vmap as vmap

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "vjp",
    "vmap",
]
