"""PyTorch's imperative autograd on JAX.

``import torsh_fx as tx``: Tensors with ``backward()`` whose ops are JAX primitives
with explicit VJPs, recorded, replayable as pure JAX functions, compiled by XLA.
"""

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING as _TYPE_CHECKING

from numpy import newaxis as newaxis

from . import autograd as autograd
from . import func as func
from . import functional as functional
from . import linalg as linalg
from . import nn as nn
from . import rules as rules
from .activations import celu as celu
from .activations import hardshrink as hardshrink
from .activations import prelu as prelu
from .activations import selu as selu
from .activations import threshold as threshold
from .agreeing import allclose as allclose
from .agreeing import equal as equal
from .agreeing import isclose as isclose
from .arithmetic import abs as abs
from .arithmetic import abs as absolute
from .arithmetic import acos as acos
from .arithmetic import acos as arccos
from .arithmetic import add as add
from .arithmetic import asin as arcsin
from .arithmetic import asin as asin
from .arithmetic import atan as arctan
from .arithmetic import atan as atan
from .arithmetic import ceil as ceil
from .arithmetic import clamp as clamp
from .arithmetic import clamp as clip
from .arithmetic import clone as clone
from .arithmetic import cos as cos
from .arithmetic import cosh as cosh
from .arithmetic import div as div
from .arithmetic import div as divide
from .arithmetic import div as true_divide
from .arithmetic import eq as eq
from .arithmetic import exp as exp
from .arithmetic import floor as floor
from .arithmetic import floor_divide as floor_divide
from .arithmetic import ge as ge
from .arithmetic import ge as greater_equal
from .arithmetic import gt as greater
from .arithmetic import gt as gt
from .arithmetic import isfinite as isfinite
from .arithmetic import isinf as isinf
from .arithmetic import isnan as isnan
from .arithmetic import le as le
from .arithmetic import le as less_equal
from .arithmetic import log as log
from .arithmetic import log2 as log2
from .arithmetic import log10 as log10
from .arithmetic import logical_and as logical_and
from .arithmetic import logical_not as logical_not
from .arithmetic import logical_or as logical_or
from .arithmetic import logical_xor as logical_xor
from .arithmetic import lt as less
from .arithmetic import lt as lt
from .arithmetic import maximum as maximum
from .arithmetic import minimum as minimum
from .arithmetic import mul as mul
from .arithmetic import mul as multiply
from .arithmetic import ne as ne
from .arithmetic import ne as not_equal
from .arithmetic import neg as neg
from .arithmetic import neg as negative
from .arithmetic import pow as pow
from .arithmetic import reciprocal as reciprocal
from .arithmetic import relu as relu
from .arithmetic import remainder as remainder
from .arithmetic import round as round
from .arithmetic import rsqrt as rsqrt
from .arithmetic import sigmoid as sigmoid
from .arithmetic import sign as sgn
from .arithmetic import sign as sign
from .arithmetic import sin as sin
from .arithmetic import sinh as sinh
from .arithmetic import sqrt as sqrt
from .arithmetic import square as square
from .arithmetic import sub as sub
from .arithmetic import sub as subtract
from .arithmetic import tan as tan
from .arithmetic import tanh as tanh
from .arithmetic import trunc as fix
from .arithmetic import trunc as trunc
from .arithmetic import where as where
from .artefact import load_export as load_export
from .autocasting import autocast as autocast
from .autocasting import get_autocast_dtype as get_autocast_dtype
from .autocasting import is_autocast_enabled as is_autocast_enabled
from .compiling import compile as compile
from .counting import argwhere as argwhere
from .counting import bincount as bincount
from .counting import histc as histc
from .counting import nonzero as nonzero
from .counting import unique as unique
from .creation import arange as arange
from .creation import as_tensor as as_tensor
from .creation import as_tensor as asarray
from .creation import empty as empty
from .creation import empty_like as empty_like
from .creation import eye as eye
from .creation import from_numpy as from_numpy
from .creation import full as full
from .creation import full_like as full_like
from .creation import linspace as linspace
from .creation import ones as ones
from .creation import ones_like as ones_like
from .creation import tensor as tensor
from .creation import zeros as zeros
from .creation import zeros_like as zeros_like
from .crosscheck import Report as Report
from .crosscheck import crosscheck as crosscheck
from .custom import CustomOp as CustomOp
from .custom import custom_op as custom_op
from .devices import as_device as device
from .distances import cosine_similarity as cosine_similarity
from .distances import pairwise_distance as pairwise_distance
from .dlpack import from_dlpack as from_dlpack
from .dtypes import bfloat16 as bfloat16
from .dtypes import bool_ as bool
from .dtypes import bool_ as bool_
from .dtypes import default_dtype as default_dtype
from .dtypes import float16 as float16
from .dtypes import float16 as half
from .dtypes import float32 as float
from .dtypes import float32 as float32
from .dtypes import float64 as double
from .dtypes import float64 as float64
from .dtypes import get_default_dtype as get_default_dtype
from .dtypes import int8 as int8
from .dtypes import int16 as int16
from .dtypes import int16 as short
from .dtypes import int32 as int
from .dtypes import int32 as int32
from .dtypes import int64 as int64
from .dtypes import int64 as long
from .dtypes import promote_types as promote_types
from .dtypes import set_default_dtype as set_default_dtype
from .dtypes import uint8 as uint8
from .einsums import einsum as einsum
from .elementary import acosh as acosh
from .elementary import acosh as arccosh
from .elementary import addcdiv as addcdiv
from .elementary import addcmul as addcmul
from .elementary import asinh as arcsinh
from .elementary import asinh as asinh
from .elementary import atan2 as arctan2
from .elementary import atan2 as atan2
from .elementary import atanh as arctanh
from .elementary import atanh as atanh
from .elementary import bitwise_and as bitwise_and
from .elementary import bitwise_left_shift as bitwise_left_shift
from .elementary import bitwise_not as bitwise_not
from .elementary import bitwise_or as bitwise_or
from .elementary import bitwise_right_shift as bitwise_right_shift
from .elementary import bitwise_xor as bitwise_xor
from .elementary import clamp_max as clamp_max
from .elementary import clamp_min as clamp_min
from .elementary import copysign as copysign
from .elementary import deg2rad as deg2rad
from .elementary import erf as erf
from .elementary import erfc as erfc
from .elementary import erfinv as erfinv
from .elementary import exp2 as exp2
from .elementary import expm1 as expm1
from .elementary import fmax as fmax
from .elementary import fmin as fmin
from .elementary import fmod as fmod
from .elementary import frac as frac
from .elementary import hypot as hypot
from .elementary import lerp as lerp
from .elementary import log1p as log1p
from .elementary import logaddexp as logaddexp
from .elementary import logaddexp2 as logaddexp2
from .elementary import nan_to_num as nan_to_num
from .elementary import rad2deg as rad2deg
from .elementary import sinc as sinc
from .elementary import xlogy as xlogy
from .executor import clear_cache as clear_cache
from .explaining import explain as explain
from .exporting import export as export
from .facts import can_cast as can_cast
from .facts import finfo as finfo
from .facts import iinfo as iinfo
from .facts import is_complex as is_complex
from .facts import is_floating_point as is_floating_point
from .facts import is_tensor as is_tensor
from .facts import numel as numel
from .facts import result_type as result_type
from .functional import conv1d as conv1d
from .functional import conv2d as conv2d
from .functional import conv3d as conv3d
from .functional import conv_transpose1d as conv_transpose1d
from .functional import conv_transpose2d as conv_transpose2d
from .functional import conv_transpose3d as conv_transpose3d
from .functional import gelu as gelu
from .functional import leaky_relu as leaky_relu
from .functional import unfold as unfold
from .indexing import gather as gather
from .indexing import index_select as index_select
from .indexing import masked_fill as masked_fill
from .joining import atleast_1d as atleast_1d
from .joining import atleast_2d as atleast_2d
from .joining import atleast_3d as atleast_3d
from .joining import broadcast_tensors as broadcast_tensors
from .joining import column_stack as column_stack
from .joining import diff as diff
from .joining import dstack as dstack
from .joining import hstack as hstack
from .joining import movedim as moveaxis
from .joining import movedim as movedim
from .joining import tensor_split as tensor_split
from .joining import unflatten as unflatten
from .joining import vstack as row_stack
from .joining import vstack as vstack
from .layers import bilinear as bilinear
from .layers import dropout as dropout
from .linalg import cholesky as cholesky
from .linalg import det as det
from .linalg import inv as inverse
from .linalg import logdet as logdet
from .linalg import matrix_power as matrix_power
from .linalg import norm_of as norm
from .linalg import pinv as pinverse
from .linalg import slogdet as slogdet
from .methods import attach as _attach
from .normalization import group_norm as group_norm
from .normalization import layer_norm as layer_norm
from .normalization import rms_norm as rms_norm
from .ordering import aminmax as aminmax
from .ordering import argsort as argsort
from .ordering import bucketize as bucketize
from .ordering import kthvalue as kthvalue
from .ordering import median as median
from .ordering import mode as mode
from .ordering import nanmedian as nanmedian
from .ordering import searchsorted as searchsorted
from .ordering import sort as sort
from .ordering import topk as topk
from .persist import from_environment as _from_environment
from .persist import persistent_cache as persistent_cache
from .placing import distribute as distribute
from .placing import shard_map as shard_map
from .precision import get_float32_matmul_precision as get_float32_matmul_precision
from .precision import set_float32_matmul_precision as set_float32_matmul_precision
from .processes import connect_processes as connect_processes
from .processes import synchronize as synchronize
from .products import addbmm as addbmm
from .products import addmm as addmm
from .products import addmv as addmv
from .products import addr as addr
from .products import baddbmm as baddbmm
from .products import bmm as bmm
from .products import cdist as cdist
from .products import cross as cross
from .products import dot as dot
from .products import inner as inner
from .products import kron as kron
from .products import mm as mm
from .products import mv as mv
from .products import outer as ger
from .products import outer as outer
from .products import tensordot as tensordot
from .products import vecdot as vecdot
from .programs import set_cache_size as set_cache_size
from .pytree import register as _register
from .random import Generator as Generator
from .random import default_generator as default_generator
from .random import manual_seed as manual_seed
from .random import rand as rand
from .random import rand_like as rand_like
from .random import randint as randint
from .random import randn as randn
from .random import randn_like as randn_like
from .random import randperm as randperm
from .rearranging import diag as diag
from .rearranging import diag_embed as diag_embed
from .rearranging import diagonal as diagonal
from .rearranging import fliplr as fliplr
from .rearranging import flipud as flipud
from .rearranging import meshgrid as meshgrid
from .rearranging import repeat_interleave as repeat_interleave
from .rearranging import roll as roll
from .rearranging import rot90 as rot90
from .rearranging import tile as tile
from .rearranging import trace as trace
from .rearranging import tril as tril
from .rearranging import triu as triu
from .reducing import all as all
from .reducing import amax as amax
from .reducing import amin as amin
from .reducing import any as any
from .reducing import argmax as argmax
from .reducing import argmin as argmin
from .reducing import log_softmax as log_softmax
from .reducing import logsumexp as logsumexp
from .reducing import matmul as matmul
from .reducing import max as max
from .reducing import mean as mean
from .reducing import min as min
from .reducing import softmax as softmax
from .reducing import sum as sum
from .rules import ArgumentTypeError as ArgumentTypeError
from .rules import ArgumentValueError as ArgumentValueError
from .rules import AutogradError as AutogradError
from .rules import MissingError as MissingError
from .rules import OperandError as OperandError
from .rules import OutOfRangeError as OutOfRangeError
from .rules import ShapeMismatchError as ShapeMismatchError
from .rules import TorshError as TorshError
from .scans import cummax as cummax
from .scans import cummin as cummin
from .scans import cumprod as cumprod
from .scans import cumsum as cumsum
from .scans import logcumsumexp as logcumsumexp
from .scans import prod as prod
from .scattering import index_add as index_add
from .scattering import index_copy as index_copy
from .scattering import index_fill as index_fill
from .scattering import index_put as index_put
from .scattering import masked_scatter as masked_scatter
from .scattering import masked_select as masked_select
from .scattering import scatter as scatter
from .scattering import scatter_add as scatter_add
from .scattering import scatter_reduce as scatter_reduce
from .scattering import take as take
from .scattering import take_along_dim as take_along_dim
from .shaping import cat as cat
from .shaping import cat as concat
from .shaping import cat as concatenate
from .shaping import chunk as chunk
from .shaping import chunk as unsafe_chunk
from .shaping import expand as broadcast_to
from .shaping import expand as expand
from .shaping import flatten as flatten
from .shaping import flatten as ravel
from .shaping import flip as flip
from .shaping import narrow as narrow
from .shaping import permute as permute
from .shaping import reshape as reshape
from .shaping import select as select
from .shaping import split as split
from .shaping import split as split_with_sizes
from .shaping import split as unsafe_split
from .shaping import squeeze as squeeze
from .shaping import stack as stack
from .shaping import t as t
from .shaping import transpose as swapaxes
from .shaping import transpose as swapdims
from .shaping import transpose as transpose
from .shaping import unbind as unbind
from .shaping import unsqueeze as unsqueeze
from .state import eager as eager
from .state import enable_grad as enable_grad
from .state import is_grad_enabled as is_grad_enabled
from .state import no_grad as no_grad
from .state import set_grad_enabled as set_grad_enabled
from .statistics import count_nonzero as count_nonzero
from .statistics import nanmean as nanmean
from .statistics import nansum as nansum
from .statistics import std as std
from .statistics import std_mean as std_mean
from .statistics import var as var
from .statistics import var_mean as var_mean
from .stats import stats as stats
from .tape import Tape as Tape
from .tape import record as record
from .tensor import Tensor as Tensor
from .transforms import checkpoint as checkpoint
from .transforms import grad as grad
from .transforms import hessian as hessian
from .transforms import jacfwd as jacfwd
from .transforms import jacrev as jacrev
from .transforms import jit as jit
from .transforms import jvp as jvp
from .transforms import linearize as linearize
from .transforms import value_and_grad as value_and_grad
from .transforms import vjp as vjp
from .transforms import vmap as vmap

__all__ = [
    "ArgumentTypeError",
    "ArgumentValueError",
    "AutogradError",
    "CustomOp",
    "Generator",
    "MissingError",
    "OperandError",
    "OutOfRangeError",
    "Report",
    "ShapeMismatchError",
    "Tape",
    "Tensor",
    "TorshError",
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "addbmm",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "addr",
    "all",
    "allclose",
    "amax",
    "amin",
    "aminmax",
    "any",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "as_tensor",
    "asarray",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "autocast",
    "autograd",
    "baddbmm",
    "bfloat16",
    "bilinear",
    "bincount",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bmm",
    "bool",
    "bool_",
    "broadcast_tensors",
    "broadcast_to",
    "bucketize",
    "can_cast",
    "cat",
    "cdist",
    "ceil",
    "celu",
    "checkpoint",
    "cholesky",
    "chunk",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clear_cache",
    "clip",
    "clone",
    "column_stack",
    "compile",
    "concat",
    "concatenate",
    "connect_processes",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "copysign",
    "cos",
    "cosh",
    "cosine_similarity",
    "count_nonzero",
    "cross",
    "crosscheck",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "custom_op",
    "default_dtype",
    "default_generator",
    "deg2rad",
    "det",
    "device",
    "diag",
    "diag_embed",
    "diagonal",
    "diff",
    "distribute",
    "div",
    "divide",
    "dot",
    "double",
    "dropout",
    "dstack",
    "e",
    "eager",
    "einsum",
    "empty",
    "empty_like",
    "enable_grad",
    "eq",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expand",
    "explain",
    "expm1",
    "export",
    "eye",
    "finfo",
    "fix",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "float",
    "float16",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frac",
    "from_dlpack",
    "from_numpy",
    "full",
    "full_like",
    "func",
    "functional",
    "gather",
    "ge",
    "gelu",
    "ger",
    "get_autocast_dtype",
    "get_default_dtype",
    "get_float32_matmul_precision",
    "grad",
    "greater",
    "greater_equal",
    "group_norm",
    "gt",
    "half",
    "hardshrink",
    "hessian",
    "histc",
    "hstack",
    "hypot",
    "iinfo",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_select",
    "inf",
    "inner",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "inverse",
    "is_autocast_enabled",
    "is_complex",
    "is_floating_point",
    "is_grad_enabled",
    "is_tensor",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "kron",
    "kthvalue",
    "layer_norm",
    "le",
    "leaky_relu",
    "lerp",
    "less",
    "less_equal",
    "linalg",
    "linearize",
    "linspace",
    "load_export",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logcumsumexp",
    "logdet",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "long",
    "lt",
    "manual_seed",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "matmul",
    "matrix_power",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "mm",
    "mode",
    "moveaxis",
    "movedim",
    "mul",
    "multiply",
    "mv",
    "nan",
    "nan_to_num",
    "nanmean",
    "nanmedian",
    "nansum",
    "narrow",
    "ne",
    "neg",
    "negative",
    "newaxis",
    "nn",
    "no_grad",
    "nonzero",
    "norm",
    "not_equal",
    "numel",
    "ones",
    "ones_like",
    "outer",
    "pairwise_distance",
    "permute",
    "persistent_cache",
    "pi",
    "pinverse",
    "pow",
    "prelu",
    "prod",
    "promote_types",
    "rad2deg",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "ravel",
    "reciprocal",
    "record",
    "relu",
    "remainder",
    "repeat_interleave",
    "reshape",
    "result_type",
    "rms_norm",
    "roll",
    "rot90",
    "round",
    "row_stack",
    "rsqrt",
    "rules",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "select",
    "selu",
    "set_cache_size",
    "set_default_dtype",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "sgn",
    "shard_map",
    "short",
    "sigmoid",
    "sign",
    "sin",
    "sinc",
    "sinh",
    "slogdet",
    "softmax",
    "sort",
    "split",
    "split_with_sizes",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "stats",
    "std",
    "std_mean",
    "sub",
    "subtract",
    "sum",
    "swapaxes",
    "swapdims",
    "synchronize",
    "t",
    "take",
    "take_along_dim",
    "tan",
    "tanh",
    "tensor",
    "tensor_split",
    "tensordot",
    "threshold",
    "tile",
    "topk",
    "trace",
    "transpose",
    "tril",
    "triu",
    "true_divide",
    "trunc",
    "uint8",
    "unbind",
    "unflatten",
    "unfold",
    "unique",
    "unsafe_chunk",
    "unsafe_split",
    "unsqueeze",
    "value_and_grad",
    "var",
    "var_mean",
    "vecdot",
    "vjp",
    "vmap",
    "vstack",
    "where",
    "xlogy",
    "zeros",
    "zeros_like",
]

__version__ = "0.1.0"

if not _TYPE_CHECKING:  # to type checkers an unknown name is an error
    from .absent import missing as __getattr__  # noqa: F401

_attach()
_register()
_from_environment()
