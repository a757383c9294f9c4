"""Bad input for PyTorch's conveniences: facts, shapes, agreement, and the switches of dtypes and precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import torsh_fx as tx

TYPE, VALUE, INDEX, SHAPE = (TypeError,), (ValueError,), (IndexError,), (tx.ShapeMismatchError, ValueError)


def mesh() -> Any:
    """A mesh of one device."""
    return jax.make_mesh((1,), ("d",))


Row = tuple[str, Callable[[Any], Any], tuple[type[Exception], ...], str]

ROWS: list[Row] = [
    # switches
    ("autocast: device", lambda w: tx.autocast("abacus"), VALUE, "autocast.*'abacus'"),
    ("autocast: dtype", lambda w: tx.autocast(tx.float32), VALUE, "autocast.*float32"),
    ("autocast: enabled", lambda w: tx.autocast("cpu", enabled=1), TYPE, "autocast.*enabled.*1"),
    ("default_dtype: integer", lambda w: tx.default_dtype("int64").__enter__(), TYPE, "floating.*int64"),
    ("set_float32_matmul_precision: word", lambda w: tx.set_float32_matmul_precision("low"), VALUE, "'low'"),
    # facts
    ("size: axis", lambda w: w.x.size(2), INDEX, "size.*axis 2"),
    ("stride: axis", lambda w: w.x.stride(2), INDEX, "stride.*axis 2"),
    ("stride: 0-d", lambda w: w.s.stride(0), INDEX, "stride.*0-d"),
    ("numel: text", lambda w: tx.numel("a"), TYPE, "numel.*str"),
    ("is_complex: text", lambda w: tx.is_complex("a"), TYPE, "is_complex.*str"),
    ("is_floating_point: None", lambda w: tx.is_floating_point(None), TYPE, "is_floating_point.*NoneType"),
    ("is_same_size: list", lambda w: w.x.is_same_size([2, 3]), TYPE, "is_same_size.*list"),
    ("is_nonzero: several", lambda w: w.x.is_nonzero(), (tx.AutogradError,), "6 elements"),
    ("result_type: text", lambda w: tx.result_type(w.x, "a"), TYPE, "result_type.*str"),
    ("can_cast: text", lambda w: tx.can_cast("real", "float32"), TYPE, "dtype 'real'"),
    ("finfo: integer", lambda w: tx.finfo("int64"), TYPE, "finfo.*int64.*iinfo"),
    ("iinfo: floating", lambda w: tx.iinfo("float32"), TYPE, "iinfo.*float32.*finfo"),
    ("cuda: number", lambda w: tx.ones(1).cuda(99), VALUE, "device 'cuda:99'"),
    # leaving Python
    ("export: no function", lambda w: tx.export(3, w.x), TYPE, "export.*function.*int"),
    ("export: argument", lambda w: tx.export(tx.exp, 3.0), TYPE, "export.*Tensors or arrays.*float"),
    ("export: result", lambda w: tx.export(lambda x: 3, w.x), TYPE, "export.*must return.*int"),
    ("export: platform", lambda w: tx.export(tx.exp, w.x, platforms=["abacus"]), VALUE, "platforms.*abacus"),
    ("export: order", lambda w: tx.export(tx.exp, w.x, vjp_order=1.5), VALUE, "vjp_order.*1.5"),
    ("export: shapes", lambda w: tx.export(tx.exp, w.x, shapes="a, b, c"), VALUE, r"a, b, c.*\[2, 3\]"),
    ("export: constraints", lambda w: tx.export(tx.exp, w.x, shapes="a, b", constraints=["a"]), VALUE, "shapes"),
    ("load_export: number", lambda w: tx.load_export(3), TYPE, "load_export.*path or bytes.*int"),
    ("load_export: bytes", lambda w: tx.load_export(b"abc"), VALUE, "load_export.*cut short"),
    # many devices
    ("distribute: mesh", lambda w: tx.distribute(w.x, 3), TYPE, "distribute.*mesh.*int"),
    ("distribute: spec", lambda w: tx.distribute(w.x, mesh(), 3.5), TYPE, "distribute.*spec.*float"),
    ("distribute: name", lambda w: tx.distribute(w.x, mesh(), "rows"), VALUE, "distribute.*'rows'"),
    ("distribute: text", lambda w: tx.distribute("a", mesh()), TYPE, "numbers"),
    ("shard_map: function", lambda w: tx.shard_map(3, mesh=mesh(), in_specs=None, out_specs=None), TYPE, "shard_map"),
    ("shard_map: mesh", lambda w: tx.shard_map(tx.exp, mesh=3, in_specs=None, out_specs=None), TYPE, "mesh.*int"),
    ("connect_processes: address", lambda w: tx.connect_processes("here", 2, 0), VALUE, "address.*'here'"),
    ("synchronize: number", lambda w: tx.synchronize(3), TYPE, "synchronize.*int"),
    # made like another
    ("new_tensor: text", lambda w: w.x.new_tensor("a"), TYPE, "numbers"),
    ("new_tensor: overflow", lambda w: w.i8.new_tensor(300), VALUE, "300 does not fit in int8"),
    ("new_zeros: extent", lambda w: w.x.new_zeros(-3), VALUE, "zeros.*negative"),
    ("new_ones: text", lambda w: w.x.new_ones("a"), TYPE, "ones.*integer"),
    ("new_empty: dtype", lambda w: w.x.new_empty(2, dtype="real"), TYPE, "dtype 'real'"),
    ("new_full: value", lambda w: w.x.new_full((2,), "a"), TYPE, "full.*number"),
    ("new_full: overflow", lambda w: w.i8.new_full((2,), 300), VALUE, "300 does not fit in int8"),
    # agreement
    ("allclose: dtypes", lambda w: tx.allclose(w.v, w.d), TYPE, "isclose.*float32.*float64"),
    ("equal: dtypes", lambda w: tx.equal(w.v, w.d), TYPE, "equal.*float32.*float64"),
    ("equal: list", lambda w: tx.equal(w.v, [1.0]), TYPE, "equal.*list"),
    ("isclose: tolerance", lambda w: tx.isclose(w.v, w.v, rtol=-1.0), VALUE, "isclose.*rtol.*-1"),
    ("isclose: shapes", lambda w: tx.isclose(w.x, tx.ones(4)), SHAPE, "eq"),
    # shapes
    ("movedim: axis", lambda w: tx.movedim(w.x, 2, 0), INDEX, "movedim.*axis 2"),
    ("movedim: twice", lambda w: tx.movedim(w.x, (0, 0), (0, 1)), INDEX, "movedim.*twice"),
    ("movedim: counts", lambda w: tx.movedim(w.x, (0, 1), 0), VALUE, "movedim.*as many"),
    ("unflatten: axis", lambda w: w.x.unflatten(2, (1, 3)), INDEX, "unflatten.*axis 2"),
    ("unflatten: extents", lambda w: w.x.unflatten(1, (2, 2)), SHAPE, "unflatten.*axis 1"),
    ("unflatten: two open", lambda w: w.x.unflatten(1, (-1, -1)), SHAPE, "unflatten"),
    ("tensor_split: parts", lambda w: w.x.tensor_split(0), VALUE, "tensor_split.*at least 1"),
    ("tensor_split: text", lambda w: w.x.tensor_split("a"), TYPE, "tensor_split.*integer"),
    ("tensor_split: axis", lambda w: w.x.tensor_split(2, 5), INDEX, "tensor_split.*axis 5"),
    ("sum_to_size: size", lambda w: w.x.sum_to_size(2, 2), SHAPE, "sum_to_size"),
    ("sum_to_size: rank", lambda w: w.v.sum_to_size(1, 3), SHAPE, "sum_to_size"),
    ("reshape_as: text", lambda w: w.x.reshape_as("a"), TYPE, "reshape_as.*str"),
    ("reshape_as: count", lambda w: w.x.reshape_as(w.v), SHAPE, "reshape"),
    ("unfold: axis", lambda w: w.x.unfold(2, 1, 1), INDEX, "unfold.*axis 2"),
    ("unfold: size", lambda w: w.x.unfold(1, 4, 1), VALUE, "windows.*extent 3"),
    ("unfold: step", lambda w: w.x.unfold(1, 1, 0), VALUE, "windows.*stride.*0"),
    ("unfold: text", lambda w: w.x.unfold(1, "a", 1), TYPE, "windows.*integer"),
    ("H: rank", lambda w: w.v.H, INDEX, "at least 2 axes"),
    ("mH: rank", lambda w: w.v.mH, INDEX, "at least 2 axes"),
    ("adjoint: rank", lambda w: w.v.adjoint(), INDEX, "at least 2 axes"),
    ("diff: bool", lambda w: w.b.diff(), TYPE, "sub.*boolean"),
    ("diff: times", lambda w: w.v.diff(-1), VALUE, "diff.*-1"),
    ("diff: 0-d", lambda w: w.s.diff(), VALUE, "diff.*axis"),
    ("broadcast_tensors: shapes", lambda w: tx.broadcast_tensors(w.x, tx.ones(4)), SHAPE, "broadcast_tensors"),
    ("broadcast_tensors: text", lambda w: tx.broadcast_tensors(w.x, "a"), TYPE, "broadcast_tensors.*str"),
    ("atleast_1d: text", lambda w: tx.atleast_1d("a"), TYPE, "atleast_1d.*str"),
    ("atleast_2d: None", lambda w: tx.atleast_2d(None), TYPE, "atleast_2d.*NoneType"),
    ("as_subclass: no class", lambda w: w.x.as_subclass(int), TYPE, "as_subclass.*subclass of Tensor.*int"),
    ("atleast_3d: list", lambda w: tx.atleast_3d([1.0]), TYPE, "atleast_3d.*float"),
    # Python's and NumPy's
    ("in: text", lambda w: "a" in w.x, TYPE, "in a Tensor.*'a'"),
    ("reduce: NumPy's", lambda w: np.add.reduce(w.x), TYPE, r"np.add.reduce.*NumPy"),
    ("sub: a boolean", lambda w: w.x - True, TYPE, "sub.*boolean"),
    ("add: alpha", lambda w: w.i.add(w.i, alpha=0.5), TYPE, "add.*alpha.*int64"),
]


def _side_by_side() -> list[Row]:
    rows: list[Row] = []
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        function = getattr(tx, name)
        rows += [
            (f"{name}: one tensor", lambda w, f=function: f(w.x), TYPE, f"{name}.*sequence.*Tensor"),
            (f"{name}: nothing", lambda w, f=function: f([]), TYPE, f"{name}.*sequence"),
            (f"{name}: text", lambda w, f=function: f([w.x, "a"]), TYPE, f"{name}.*str"),
            (f"{name}: extents", lambda w, f=function: f([tx.ones(2, 3, 4), tx.ones(3, 2, 5)]), SHAPE, "cat"),
        ]
    return rows


ROWS += _side_by_side()
