"""The op table: JAX-traceable ops with explicit VJPs.  Knows nothing of Tensors.

Each op is a function of arrays (positional) and parameters (keyword) and works
under every JAX transform; ``vjp`` applies an op's explicit rule directly.
"""

from .activation import clamp as clamp
from .activation import clamp_number as clamp_number
from .activation import clamp_tensor as clamp_tensor
from .activation import gelu as gelu
from .activation import gelu_erf as gelu_erf
from .activation import leaky_relu as leaky_relu
from .activation import relu as relu
from .applying import vjp as vjp
from .binary import add as add
from .binary import add_scalar as add_scalar
from .binary import div as div
from .binary import div_scalar as div_scalar
from .binary import maximum as maximum
from .binary import minimum as minimum
from .binary import mul as mul
from .binary import mul_scalar as mul_scalar
from .binary import sub as sub
from .broadcast import broadcast_shapes as broadcast_shapes
from .broadcast import expand_grad_to_shape as expand_grad_to_shape
from .broadcast import reduce_grad_to_shape as reduce_grad_to_shape
from .comparison import all_ as all
from .comparison import any_ as any
from .comparison import ceil as ceil
from .comparison import eq as eq
from .comparison import floor as floor
from .comparison import floor_divide as floor_divide
from .comparison import ge as ge
from .comparison import gt as gt
from .comparison import isfinite as isfinite
from .comparison import isinf as isinf
from .comparison import isnan as isnan
from .comparison import le as le
from .comparison import logical_and as logical_and
from .comparison import logical_not as logical_not
from .comparison import logical_or as logical_or
from .comparison import logical_xor as logical_xor
from .comparison import lt as lt
from .comparison import ne as ne
from .comparison import remainder as remainder
from .comparison import round as round
from .comparison import sign as sign
from .comparison import trunc as trunc
from .conv import conv1d as conv1d
from .conv import conv2d as conv2d
from .conv import conv3d as conv3d
from .conv import conv_transpose1d as conv_transpose1d
from .conv import conv_transpose2d as conv_transpose2d
from .conv import conv_transpose3d as conv_transpose3d
from .convert import clone as clone
from .convert import convert as convert
from .convert import full as full
from .convert import graft as graft
from .custom import custom as custom
from .custom import register_jvp as register_jvp
from .custom import register_vjp as register_vjp
from .diagonal import diag_embed as diag_embed
from .diagonal import diagonal as diagonal
from .diagonal import tril as tril
from .diagonal import triu as triu
from .errors import ArgumentTypeError as ArgumentTypeError
from .errors import ArgumentValueError as ArgumentValueError
from .errors import AutogradError as AutogradError
from .errors import MissingError as MissingError
from .errors import OperandError as OperandError
from .errors import OutOfRangeError as OutOfRangeError
from .errors import ShapeMismatchError as ShapeMismatchError
from .errors import TorshError as TorshError
from .extremum import amax as amax
from .extremum import amin as amin
from .extremum import argmax as argmax
from .extremum import argmin as argmin
from .factor import cholesky as cholesky
from .factor import complement as complement
from .factor import eigh as eigh
from .factor import qr as qr
from .factor import svd as svd
from .im2col import im2col_2d as im2col_2d
from .indexing import gather as gather
from .indexing import take as take
from .indexing import take_along_dim as take_along_dim
from .indexing import where as where
from .inverse import det as det
from .inverse import inv as inv
from .inverse import pinv as pinv
from .inverse import slogdet as slogdet
from .inverse import solve as solve
from .inverse import solve_triangular as solve_triangular
from .join import concat as concat
from .join import stack as stack
from .linalg import affine as affine
from .linalg import matmul as matmul
from .logsumexp import logsumexp as logsumexp
from .losses import binary_cross_entropy as binary_cross_entropy
from .losses import huber_loss as huber_loss
from .losses import nll as nll
from .losses import smooth_l1_loss as smooth_l1_loss
from .norm import vector_norm as vector_norm
from .op import OPS as OPS
from .op import seal as _seal
from .order import argsort as argsort
from .order import searchsorted as searchsorted
from .padding import pad as pad
from .padding import roll as roll
from .pairs import atan2 as atan2
from .pairs import fmax as fmax
from .pairs import fmin as fmin
from .pairs import hypot as hypot
from .pairs import lerp as lerp
from .pairs import logaddexp as logaddexp
from .pairs import logaddexp2 as logaddexp2
from .pairs import xlogy as xlogy
from .parts import bitwise_and as bitwise_and
from .parts import bitwise_left_shift as bitwise_left_shift
from .parts import bitwise_not as bitwise_not
from .parts import bitwise_or as bitwise_or
from .parts import bitwise_right_shift as bitwise_right_shift
from .parts import bitwise_xor as bitwise_xor
from .parts import copysign as copysign
from .parts import fmod as fmod
from .parts import nan_to_num as nan_to_num
from .pooling import max_pool as max_pool
from .pooling import max_pool_indices as max_pool_indices
from .pooling import overlap_add as overlap_add
from .pooling import sum_pool as sum_pool
from .pooling import windows as windows
from .power import pow as pow
from .power import pow_number as pow_number
from .power import pow_tensor as pow_tensor
from .product import prod as prod
from .putting import overwrite as overwrite
from .putting import put as put
from .putting import select_scatter as select_scatter
from .putting import slice_scatter as slice_scatter
from .random import random_integers as random_integers
from .random import random_normal as random_normal
from .random import random_permutation as random_permutation
from .random import random_uniform as random_uniform
from .rectified import hardshrink as hardshrink
from .rectified import hardsigmoid as hardsigmoid
from .rectified import hardswish as hardswish
from .rectified import hardtanh as hardtanh
from .rectified import prelu as prelu
from .rectified import softshrink as softshrink
from .rectified import threshold as threshold
from .reduction import mean_all as mean
from .reduction import mean_dim as mean_dim
from .reduction import sum_all as sum
from .reduction import sum_dim as sum_dim
from .scan import cummax_indices as cummax_indices
from .scan import cummin_indices as cummin_indices
from .scan import cumprod as cumprod
from .scan import cumsum as cumsum
from .scan import logcumsumexp as logcumsumexp
from .scatter import index_add as index_add
from .scatter import index_copy as index_copy
from .scatter import scatter as scatter
from .scatter import scatter_add as scatter_add
from .scatter import scatter_reduce as scatter_reduce
from .shape import expand as expand
from .shape import permute as permute
from .shape import reshape as reshape
from .slicing import flip as flip
from .slicing import narrow as narrow
from .slicing import select as select
from .slicing import slab as slab
from .slicing import stride as stride
from .soft import elu as elu
from .soft import logsigmoid as logsigmoid
from .soft import mish as mish
from .soft import silu as silu
from .soft import softplus as softplus
from .softmax import log_softmax as log_softmax
from .softmax import softmax as softmax
from .special import acosh as acosh
from .special import asinh as asinh
from .special import atanh as atanh
from .special import erf as erf
from .special import erfc as erfc
from .special import erfinv as erfinv
from .special import exp2 as exp2
from .special import expm1 as expm1
from .special import log1p as log1p
from .special import sinc as sinc
from .standardize import rms_standardize as rms_standardize
from .standardize import standardize as standardize
from .unary import abs as abs
from .unary import acos as acos
from .unary import asin as asin
from .unary import atan as atan
from .unary import cos as cos
from .unary import cosh as cosh
from .unary import exp as exp
from .unary import log as log
from .unary import log2 as log2
from .unary import log10 as log10
from .unary import neg as neg
from .unary import reciprocal as reciprocal
from .unary import rsqrt as rsqrt
from .unary import sigmoid as sigmoid
from .unary import sin as sin
from .unary import sinh as sinh
from .unary import sqrt as sqrt
from .unary import tan as tan
from .unary import tanh as tanh

__all__ = [
    "OPS",
    "ArgumentTypeError",
    "ArgumentValueError",
    "AutogradError",
    "MissingError",
    "OperandError",
    "OutOfRangeError",
    "ShapeMismatchError",
    "TorshError",
    "abs",
    "acos",
    "acosh",
    "add",
    "add_scalar",
    "affine",
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "binary_cross_entropy",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "broadcast_shapes",
    "ceil",
    "cholesky",
    "clamp",
    "clamp_number",
    "clamp_tensor",
    "clone",
    "complement",
    "concat",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convert",
    "copysign",
    "cos",
    "cosh",
    "cummax_indices",
    "cummin_indices",
    "cumprod",
    "cumsum",
    "custom",
    "det",
    "diag_embed",
    "diagonal",
    "div",
    "div_scalar",
    "eigh",
    "elu",
    "eq",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expand",
    "expand_grad_to_shape",
    "expm1",
    "flip",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "full",
    "gather",
    "ge",
    "gelu",
    "gelu_erf",
    "graft",
    "gt",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "hypot",
    "im2col_2d",
    "index_add",
    "index_copy",
    "inv",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "leaky_relu",
    "lerp",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logcumsumexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsigmoid",
    "logsumexp",
    "lt",
    "matmul",
    "max_pool",
    "max_pool_indices",
    "maximum",
    "mean",
    "mean_dim",
    "minimum",
    "mish",
    "mul",
    "mul_scalar",
    "nan_to_num",
    "narrow",
    "ne",
    "neg",
    "nll",
    "overlap_add",
    "overwrite",
    "pad",
    "permute",
    "pinv",
    "pow",
    "pow_number",
    "pow_tensor",
    "prelu",
    "prod",
    "put",
    "qr",
    "random_integers",
    "random_normal",
    "random_permutation",
    "random_uniform",
    "reciprocal",
    "reduce_grad_to_shape",
    "register_jvp",
    "register_vjp",
    "relu",
    "remainder",
    "reshape",
    "rms_standardize",
    "roll",
    "round",
    "rsqrt",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "select",
    "select_scatter",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinc",
    "sinh",
    "slab",
    "slice_scatter",
    "slogdet",
    "smooth_l1_loss",
    "softmax",
    "softplus",
    "softshrink",
    "solve",
    "solve_triangular",
    "sqrt",
    "stack",
    "standardize",
    "stride",
    "sub",
    "sum",
    "sum_dim",
    "sum_pool",
    "svd",
    "take",
    "take_along_dim",
    "tan",
    "tanh",
    "threshold",
    "tril",
    "triu",
    "trunc",
    "vector_norm",
    "vjp",
    "where",
    "windows",
    "xlogy",
]

for _row in OPS.values():
    _seal(_row)
