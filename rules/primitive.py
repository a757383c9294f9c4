"""One JAX primitive an op, with the row's explicit VJP as its reverse mode.

The JVP of an op emits the op itself and, unless the op is linear, a *tangent*
primitive: linear in the tangents, its residuals only those the rule names, its
transpose the explicit VJP.  Everything JAX derives (grad, jvp, hessian, vmap,
checkpoint, scan, shard_map) follows from these two.

NOTE [avals]: an abstract value carries more than shape and dtype (the mesh,
what varies over it).  Output avals therefore come from tracing the forward on
the real avals, and operands are first cast to vary alike; without that the
gradient of a replicated operand under ``shard_map`` is silently wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import NamedSharding, PartitionSpec

from .context import under_x64
from .errors import ArgumentTypeError, AutogradError, OutOfRangeError
from .op import Aval, Call, Constant, Missing, Row, check_number, missing_derivative

# -- applying a row ----------------------------------------------------------


@under_x64
def apply(row: Row, args: Sequence[Any], params: dict[str, Any]) -> jax.Array:
    """Check, then bind the row's primitive on arrays or tracers."""
    arrays, call, values = as_operands(row, args, params)
    return bind(call, *arrays, *values)


@under_x64
def bind_call(call: Call, *args: Any) -> Any:
    """Bind a call whose runtime numbers may still be Python's."""
    values = [
        as_runtime(call.op, name, v, args[: call.n]) for name, v in zip(call.present, args[call.n :], strict=True)
    ]
    return bind(call, *(jnp.asarray(a) for a in args[: call.n]), *values)


def bind(call: Call, *args: Any) -> jax.Array:
    """Bind ``call`` on operands followed by runtime parameters (arrays all)."""
    out: jax.Array = call.op.primitive.bind(*_vary_alike(args), call=call)
    return out


def as_operands(row: Row, args: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], Call, list[Any]]:
    """Arrays, the checked call and runtime values in the order the call wants them."""
    static, runtime = row.split(params)
    like = next((a.dtype for a in args if hasattr(a, "dtype")), None)
    arrays = [as_array(row.name, a, like) for a in args]
    call = row.call(tuple(Aval(tuple(a.shape), np.dtype(a.dtype)) for a in arrays), static, tuple(runtime))
    known = {k: v for k, v in runtime.items() if not isinstance(v, jax.core.Tracer)}
    for name, value in runtime.items():
        if row.runtime[name] == "scalar":
            check_number(row.name, name, value)
    if row.bounds_fn is not None:
        given = {**dict(zip(row.operands, arrays, strict=False)), **runtime}
        for name, (extent, what) in row.bounds_fn(call).items():
            if not isinstance(given[name], jax.core.Tracer):
                check_indices(row.name, given[name], extent, what)
    if row.values_fn is not None and len(known) == len(runtime):
        row.values_fn(call, **known)
    values = [as_runtime(row, name, runtime[name], arrays) for name in call.present]
    return arrays, call, values


def check_indices(op: str, index: Any, extent: Any, what: str) -> None:
    """Refuse an index array with an entry outside [0, extent)."""
    host = np.asarray(index)
    if host.size and not np.issubdtype(host.dtype, np.integer):
        raise ArgumentTypeError(f"[{op}] indices must be integers, got {host.dtype}")
    bad = host[(host < 0) | (host >= extent)]
    if bad.size:
        raise OutOfRangeError(f"[{op}] index {int(bad.flat[0])} is out of range for {what}")


def as_array(op: str, value: Any, like: Any) -> Any:
    """An operand as an array; a Python number takes the dtype ``like``."""
    if isinstance(value, jax.Array):
        return value
    if isinstance(value, (bool, int, float)):
        # A Python number does not widen: it takes the dtype of its neighbour.
        if like is None:
            like = np.float32 if isinstance(value, float) else None
        return jnp.asarray(value, dtype=like)
    if isinstance(value, (np.ndarray, np.generic)):
        return jnp.asarray(value)
    raise ArgumentTypeError(f"[{op}] operands must be arrays or numbers, got {type(value).__name__} {value!r}")


def as_runtime(row: Row, name: str, value: Any, arrays: Sequence[Any]) -> Any:
    """A runtime parameter as the array that its op computes with."""
    if row.runtime[name] == "scalar":
        # Formed in float64 and rounded once: float32(0.1) lies on max=0.1.
        number = value if isinstance(value, jax.Array) else np.asarray(value)
        dtype = arrays[0].dtype if arrays else number.dtype
        if not jnp.issubdtype(dtype, jnp.floating) and jnp.issubdtype(number.dtype, jnp.floating):
            if isinstance(value, jax.core.Tracer) or not float(number).is_integer():
                raise ArgumentTypeError(f"[{row.name}] {name} {value} would be cut to {dtype}; cast the operand first")
        return jnp.asarray(number).astype(dtype)
    array = jnp.asarray(value)
    if not jnp.issubdtype(array.dtype, jnp.integer) and array.size:
        raise ArgumentTypeError(f"[{row.name}] {name} must hold integers, got {array.dtype}")
    return array.astype(jnp.int64)


def _vary_alike(args: Sequence[Any]) -> list[Any]:
    varying = [jax.typeof(a).manual_axis_type.varying for a in args]
    joined = frozenset[Any]().union(*varying) if varying else frozenset()
    if not joined:
        return list(args)
    return [
        jax.lax.pcast(a, tuple(joined - v), to="varying") if joined - v else a
        for a, v in zip(args, varying, strict=True)
    ]


# -- linear maps: what a tangent primitive computes ---------------------------


class Linear:
    """The derivative of a call in its active operands: eval forward, transpose back."""

    def __init__(self, call: Call, mask: tuple[bool, ...]) -> None:
        self.call = call
        self.mask = mask
        self.keys = call.residual_keys(mask)
        self.n_constants = len(self.keys) + len(call.present)

    def __repr__(self) -> str:
        return repr(self.call)

    def _environment(self, constants: Sequence[Any]) -> dict[str, Any]:
        split = len(self.keys)
        residuals = dict(zip(self.keys, constants[:split], strict=True))
        return self.call.environment(residuals, self.call.runtime(constants[split:]))

    def eval(self, *args: Any) -> Any:
        env = self._environment(args[: self.n_constants])
        given = iter(args[self.n_constants :])
        return self.call.tangent([next(given) if active else None for active in self.mask], env)

    def transpose(self, *args: Any) -> list[Any]:
        """Constants and the cotangent in, one cotangent per active operand out."""
        env = self._environment(args[: self.n_constants])
        return [self.call.cotangent(i, args[-1], env) for i, active in enumerate(self.mask) if active]


class BatchedLinear:
    """A linear map under vmap: unmapped tangents get the sum over the batch."""

    def __init__(self, inner: Any, dims: tuple[int | None, ...], vmap: Callable[..., Any]) -> None:
        self.inner, self.dims, self.vmap = inner, dims, vmap
        self.n_constants = inner.n_constants

    def __repr__(self) -> str:
        return f"vmap({self.inner!r})"

    def eval(self, *args: Any) -> Any:
        return self.vmap(self.inner.eval, self.dims)(*args)

    def transpose(self, *args: Any) -> list[Any]:
        dims = (*self.dims[: self.n_constants], 0)
        outs = self.vmap(lambda *a: tuple(self.inner.transpose(*a)), dims)(*args)
        return [
            jnp.sum(o, axis=0, dtype=o.dtype) if d is None else jnp.moveaxis(o, 0, d)
            for o, d in zip(outs, self.dims[self.n_constants :], strict=True)
        ]


class BatchedCall:
    """A call under vmap, for rows that have no batching of their own."""

    def __init__(self, inner: Any, dims: tuple[int | None, ...], vmap: Callable[..., Any]) -> None:
        self.inner, self.dims, self.vmap = inner, dims, vmap
        self.op, self.n, self.present = inner.op, inner.n, inner.present

    def __repr__(self) -> str:
        return f"vmap({self.inner!r})"

    def forward(self, *args: Any) -> Any:
        return self.vmap(self.inner.forward, self.dims)(*args)

    def residual_keys(self, mask: tuple[bool, ...]) -> tuple[int | str, ...]:
        keys: tuple[int | str, ...] = self.inner.residual_keys(mask)
        return keys

    def linear(self, mask: tuple[bool, ...]) -> BatchedLinear:
        constants = [0 if isinstance(k, str) else self.dims[k] for k in self.residual_keys(mask)]
        constants += self.dims[self.n :]
        tangents = [d for d, active in zip(self.dims[: self.n], mask, strict=True) if active]
        return BatchedLinear(_linear(self.inner, mask), (*constants, *tangents), self.vmap)


@functools.cache
def _linear(call: Any, mask: tuple[bool, ...]) -> Any:
    return call.linear(mask) if isinstance(call, BatchedCall) else Linear(call, mask)


@functools.cache
def _batched(kind: type, inner: Any, dims: tuple[int | None, ...], name: Any, spmd: Any) -> Any:
    def vmap(fn: Callable[..., Any], in_axes: Any) -> Callable[..., Any]:
        axis_name = {} if name is None else {"axis_name": name}
        return jax.vmap(fn, in_axes=tuple(in_axes), spmd_axis_name=spmd, **axis_name)

    return kind(inner, dims, vmap)


# -- the two primitives of a row ----------------------------------------------


def define_primitives(row: Row) -> None:
    """Create ``row``'s primitives and give JAX their rules."""
    row.primitive = Primitive(row.name)
    _define(row.primitive, lambda call: call.forward)
    ad.primitive_jvps[row.primitive] = under_x64(functools.partial(_jvp, row))
    ad.primitive_transposes[row.primitive] = under_x64(functools.partial(_transpose_op, row))
    batching.fancy_primitive_batchers[row.primitive] = under_x64(functools.partial(_batch_op, row))
    if not row.differentiable:
        return
    tangent = row.tangent_primitive = Primitive(row.name + "_tangent")
    _define(tangent, lambda call: call.eval)
    ad.primitive_jvps[tangent] = under_x64(functools.partial(_jvp_of_tangent, tangent))
    ad.primitive_transposes[tangent] = under_x64(_transpose_tangent)
    batching.fancy_primitive_batchers[tangent] = under_x64(functools.partial(_batch_tangent, row))


def _define(primitive: Any, function: Callable[[Any], Callable[..., Any]]) -> None:
    # The memo of compiled functions is what makes eager calls cheap.
    @functools.cache
    def jitted(call: Any) -> Any:
        return jax.jit(_laid_out(function(call)))

    # Tracing depends on the ambient mesh, which avals alone do not show.
    @functools.lru_cache(maxsize=4096)
    def out_aval(call: Any, avals: tuple[Any, ...], mesh: Any) -> Any:
        return jax.make_jaxpr(_laid_out(function(call)))(*avals).out_avals[0]

    def lower(*args: Any, call: Any) -> Any:
        return _laid_out(function(call))(*args)

    primitive.def_impl(under_x64(lambda *args, call: jitted(call)(*args)))
    primitive.def_abstract_eval(under_x64(lambda *avals, call: out_aval(call, avals, jax.sharding.get_abstract_mesh())))
    mlir.register_lowering(primitive, under_x64(mlir.lower_fun(lower, multiple_results=False)))


def _is_zero(t: Any) -> bool:
    return type(t) is ad.Zero or getattr(t, "dtype", None) == jax.dtypes.float0


def _zero(out: Any) -> Any:
    return ad.Zero(jax.typeof(out).to_tangent_aval())


def _jvp(row: Row, primals: Sequence[Any], tangents: Sequence[Any], *, call: Any) -> tuple[Any, Any]:
    out = row.primitive.bind(*primals, call=call)
    mask = tuple(not _is_zero(t) for t in tangents[: call.n])
    for name, t in zip(call.present, tangents[call.n :], strict=True):
        if not _is_zero(t):
            raise AutogradError(
                f"[{row.name}] has no derivative for its parameter {name!r}; "
                "wrap the value in jax.lax.stop_gradient if none is wanted"
            )
    if not any(mask) or not row.differentiable:
        return out, _zero(out)
    for i, active in enumerate(mask):
        if active and isinstance(row.rule(i), Missing):
            raise missing_derivative(call, i)
    active_tangents = [t for t, m in zip(tangents, mask, strict=False) if m]
    runtime = primals[call.n :]
    constant = tuple(isinstance(row.rule(i), Constant) for i in range(call.n))
    if row.jointly_linear and all(m or c for m, c in zip(mask, constant, strict=True)):
        moved = [t if m else p for p, t, m in zip(primals, tangents, mask, strict=False)]
        return out, row.primitive.bind(*moved, *runtime, call=call)
    if row.kind == "bilinear":
        terms = [
            row.primitive.bind(*primals[:i], t, *primals[i + 1 :], call=call)
            for i, t in enumerate(tangents[: call.n])
            if mask[i]
        ]
        return out, functools.reduce(ad.add_jaxvals, terms)
    linear = _linear(call, mask)
    constants = [out if isinstance(k, str) else primals[k] for k in call.residual_keys(mask)]
    return out, row.tangent_primitive.bind(*constants, *runtime, *active_tangents, call=linear)


def _jvp_of_tangent(tangent: Any, primals: Sequence[Any], tangents: Sequence[Any], *, call: Any) -> tuple[Any, Any]:
    out = tangent.bind(*primals, call=call)
    n = call.n_constants
    terms = []
    if any(not _is_zero(t) for t in tangents[n:]):
        ts = [ad.instantiate_zeros(t) for t in tangents[n:]]
        terms.append(tangent.bind(*primals[:n], *ts, call=call))
    moving = [i for i in range(n) if not _is_zero(tangents[i])]
    if moving:

        def of_residuals(*values: Any) -> Any:
            args = list(primals)
            for i, value in zip(moving, values, strict=True):
                args[i] = value
            return _laid_out(call.eval)(*args)

        terms.append(jax.jvp(of_residuals, tuple(primals[i] for i in moving), tuple(tangents[i] for i in moving))[1])
    return out, functools.reduce(ad.add_jaxvals, terms) if terms else _zero(out)


def _transpose_tangent(ct: Any, *args: Any, call: Any) -> list[Any]:
    n = call.n_constants
    if type(ct) is ad.Zero:
        return [None] * len(args)
    like = [a.aval if ad.is_undefined_primal(a) else jax.typeof(a) for a in args[n:]]
    return [None] * n + _run_transpose(call.transpose, [*args[:n], ct], like)


def _transpose_op(row: Row, ct: Any, *args: Any, call: Any) -> list[Any]:
    """Reverse mode of an op that is linear in the operands left undefined."""
    if type(ct) is ad.Zero:
        return [None] * len(args)
    mask = tuple(ad.is_undefined_primal(a) for a in args[: call.n])
    jointly = row.jointly_linear and all(m or isinstance(row.rule(i), Constant) for i, m in enumerate(mask))
    for i, undefined in enumerate(mask):
        if undefined and not jointly and row.operand_name(i) not in row.linear_in:
            raise AutogradError(f"[{call!r}] is not linear in {row.operand_name(i)!r}, it cannot be transposed")
    linear = _linear(call, mask)
    keys = call.residual_keys(mask)
    if any(isinstance(k, str) or ad.is_undefined_primal(args[k]) for k in keys):
        raise AutogradError(f"[{call!r}] is not linear in all of its undefined operands together")
    constants = [args[k] for k in keys] + list(args[call.n :])
    like = [a.aval for a, m in zip(args, mask, strict=False) if m]
    found = iter(_run_transpose(linear.transpose, [*constants, ct], like))
    return [next(found) if m else None for m in mask] + [None] * (len(args) - call.n)


def _run_transpose(transpose: Callable[..., list[Any]], args: list[Any], like: list[Any]) -> list[Any]:
    """Apply a VJP; on meshes with explicit axes, under automatic sharding."""
    mesh = _explicit_mesh([*map(jax.typeof, args), *like])
    if mesh is None:
        return transpose(*args)
    shardings = tuple(NamedSharding(mesh, _spec(a)) for a in like)
    automatic = jax.sharding.auto_axes(lambda *a: tuple(transpose(*a)), out_sharding=shardings)
    return list(automatic(*args))


def _explicit_mesh(avals: Sequence[Any]) -> Any:
    """The mesh of the first aval that lies on explicit axes, or None."""
    explicit = jax.sharding.AxisType.Explicit
    return next((a.sharding.mesh for a in avals if explicit in a.sharding.mesh.axis_types), None)


def _spec(aval: Any) -> Any:
    # An array made before the mesh was set lies on none: it counts as replicated.
    return PartitionSpec(*[None] * aval.ndim) if aval.sharding.mesh.empty else aval.sharding.spec


def _laid_out(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn``, with a sharding of our choice where JAX finds the result's ambiguous.

    The result lies like the operands that broadcast to its shape; what they leave
    open is replicated.
    """

    def run(*args: Any) -> Any:
        mesh = _explicit_mesh([jax.typeof(a) for a in args])
        if mesh is None:
            return fn(*args)
        try:
            return fn(*args)
        except Exception as error:
            if type(error).__name__ != "ShardingTypeError":  # JAX keeps the class to itself
                raise
        avals = [jax.typeof(a) for a in args]
        shape = jax.eval_shape(fn, *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals)).shape
        automatic = jax.sharding.auto_axes(fn, out_sharding=NamedSharding(mesh, _joined(shape, avals)))
        return automatic(*args)

    return run


def _joined(shape: tuple[Any, ...], avals: Sequence[Any]) -> Any:
    axes: list[Any] = [None] * len(shape)
    used: set[Any] = set()
    for aval in avals:
        lead = len(shape) - aval.ndim
        if lead < 0 or any(have not in (1, want) for have, want in zip(aval.shape, shape[lead:], strict=True)):
            continue
        for i, axis in enumerate(_spec(aval), lead):
            names = set(axis) if isinstance(axis, tuple) else {axis} - {None}
            if names and axes[i] is None and not names & used:
                axes[i] = axis
                used |= names
    return PartitionSpec(*axes)


# -- vmap ----------------------------------------------------------------------


def _batch_op(row: Row, axis: Any, args: Sequence[Any], dims: Sequence[Any], *, call: Any) -> tuple[Any, int | None]:
    dims = tuple(dims)
    if all(d is None for d in dims):  # jacfwd: only other arguments are mapped
        return row.primitive.bind(*args, call=call), None
    if isinstance(call, Call):
        if row.kind == "elementwise":
            aligned, bigger = _align(call, args, dims, axis.size)
            return bind(bigger, *aligned), 0
        if row.batch_fn is not None:
            out = row.batch_fn(axis.size, args, dims, call)
            if out is not None:
                return out, 0
    return row.primitive.bind(*args, call=_batched(BatchedCall, call, dims, _name(axis), axis.spmd_name)), 0


def _batch_tangent(
    row: Row, axis: Any, args: Sequence[Any], dims: Sequence[Any], *, call: Any
) -> tuple[Any, int | None]:
    dims = tuple(dims)
    if all(d is None for d in dims):
        return row.tangent_primitive.bind(*args, call=call), None
    if isinstance(call, Linear) and row.kind == "elementwise":
        aligned, bigger = _align_tangent(call, args, dims, axis.size)
        return row.tangent_primitive.bind(*_vary_alike(aligned), call=bigger), 0
    batched = _batched(BatchedLinear, call, dims, _name(axis), axis.spmd_name)
    return row.tangent_primitive.bind(*args, call=batched), 0


def _name(axis: Any) -> Any:
    # An unnamed vmap carries a private sentinel; only a real name may be passed on.
    return axis.name if isinstance(axis.name, str) else None


def _front(array: Any, dim: int | None, rank: int) -> Any:
    """Batch axis first, then ones, then the operand's own axes, ``rank`` of them."""
    if dim is None:
        return array
    array = jnp.moveaxis(array, dim, 0)
    own = array.shape[1:]
    return array.reshape(array.shape[:1] + (1,) * (rank - len(own)) + own)


def _align(call: Call, args: Sequence[Any], dims: Sequence[Any], size: Any) -> tuple[list[Any], Call]:
    """An elementwise op on a batch is the same op on operands of one more axis."""
    rank = call.out.ndim
    out = [_front(a, d, rank) for a, d in zip(args, dims, strict=True)]
    if all(d is None for d in dims[: call.n]):  # only a runtime scalar is batched
        out[0] = jnp.broadcast_to(out[0], (size, *call.out.shape))
    avals = tuple(Aval(tuple(a.shape), np.dtype(a.dtype)) for a in out[: call.n])
    return out, call.op.call(avals, call.kwargs, call.present)


def _align_tangent(call: Linear, args: Sequence[Any], dims: Sequence[Any], size: Any) -> tuple[list[Any], Linear]:
    inner = call.call
    out = [_front(a, d, inner.out.ndim) for a, d in zip(args, dims, strict=True)]
    first = call.n_constants
    if all(d is None for d in dims[first:]):  # the batch comes from residuals alone
        out[first] = jnp.broadcast_to(out[first], (size, *inner.out.shape))
    known = dict(zip(call.keys, out, strict=False))
    tangents = iter(out[first:])
    avals = []
    for i, active in enumerate(call.mask):
        array = next(tangents) if active else known.get(i)
        avals.append(inner.avals[i] if array is None else Aval(tuple(array.shape), np.dtype(array.dtype)))
    bigger = inner.op.call(tuple(avals), inner.kwargs, inner.present)
    return out, _linear(bigger, call.mask)
