from . import rules as rules
from .tensor import Tensor
from . import methods as _m
_m.attach()
from .arithmetic import *
from .creation import *
from .shaping import *
from .reducing import *
from .indexing import gather, index_select, take_along_dim, masked_fill
from .dtypes import *
from .state import no_grad, enable_grad, set_grad_enabled, is_grad_enabled, eager
from .rules import AutogradError, ShapeMismatchError, TorshError
from . import autograd
from .custom import custom_op
from . import nn, functional
from .random import *
from .random import Generator, manual_seed, rand, randn, randint, randperm
