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
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .applying import apply
from .call import Constant, Missing, missing_derivative
from .context import under_x64
from .errors import AutogradError
from .layout import laid_out, run_transpose
from .linear import linear_of
from .op import Row
from .vmapping import batch_op, batch_tangent

# -- the two primitives of a row ----------------------------------------------


def define_primitives(row: Row) -> None:
    """Create ``row``'s primitives and give JAX their rules."""
    row.apply = functools.partial(apply, row)
    row.primitive = Primitive(row.name)
    _define(row.primitive, lambda call: call.forward)
    ad.primitive_jvps[row.primitive] = under_x64(functools.partial(_jvp, row))
    ad.primitive_transposes[row.primitive] = under_x64(functools.partial(_transpose_op, row))
    batching.fancy_primitive_batchers[row.primitive] = under_x64(functools.partial(batch_op, row))
    if not row.differentiable:
        return
    tangent = row.tangent_primitive = Primitive(row.name + "_tangent")
    _define(tangent, lambda call: call.eval)
    ad.primitive_jvps[tangent] = under_x64(functools.partial(_jvp_of_tangent, tangent))
    ad.primitive_transposes[tangent] = under_x64(_transpose_tangent)
    batching.fancy_primitive_batchers[tangent] = under_x64(functools.partial(batch_tangent, row))


def _define(primitive: Any, function: Callable[[Any], Callable[..., Any]]) -> None:
    # The memo of compiled functions is what makes eager calls cheap.
    @functools.cache
    def jitted(call: Any) -> Any:
        return jax.jit(laid_out(function(call)))

    # Tracing depends on the ambient mesh, which avals alone do not show.
    @functools.lru_cache(maxsize=4096)
    def out_aval(call: Any, avals: tuple[Any, ...], mesh: Any) -> Any:
        return jax.make_jaxpr(laid_out(function(call)))(*avals).out_avals[0]

    def lower(*args: Any, call: Any) -> Any:
        return laid_out(function(call))(*args)

    primitive.def_impl(under_x64(lambda *args, call: jitted(call)(*args)))
    primitive.def_abstract_eval(under_x64(lambda *avals, call: out_aval(call, avals, jax.sharding.get_abstract_mesh())))
    mlir.register_lowering(primitive, under_x64(mlir.lower_fun(lower, multiple_results=False)))


def _is_zero(t: Any) -> bool:
    return type(t) is ad.Zero or getattr(t, "dtype", None) == jax.dtypes.float0


def _zero(out: Any) -> Any:
    return ad.Zero(jax.typeof(out).to_tangent_aval())


def _jvp(row: Row, primals: Sequence[Any], tangents: Sequence[Any], *, call: Any) -> tuple[Any, Any]:
    out = row.primitive.bind(*primals, call=call)
    constant = tuple(isinstance(row.rules.get(row.operand_name(i)), Constant) for i in range(call.n))
    mask = tuple(not _is_zero(t) and not c for t, c in zip(tangents, constant, strict=False))
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
    linear = linear_of(call, mask)
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
            return laid_out(call.eval)(*args)

        terms.append(jax.jvp(of_residuals, tuple(primals[i] for i in moving), tuple(tangents[i] for i in moving))[1])
    return out, functools.reduce(ad.add_jaxvals, terms) if terms else _zero(out)


def _transpose_tangent(ct: Any, *args: Any, call: Any) -> list[Any]:
    n = call.n_constants
    if type(ct) is ad.Zero:
        return [None] * len(args)
    like = [a.aval if ad.is_undefined_primal(a) else jax.typeof(a) for a in args[n:]]
    return [None] * n + run_transpose(call.transpose, [*args[:n], ct], like)


def _transpose_op(row: Row, ct: Any, *args: Any, call: Any) -> list[Any]:
    """Reverse mode of an op that is linear in the operands left undefined."""
    if type(ct) is ad.Zero:
        return [None] * len(args)
    mask = tuple(ad.is_undefined_primal(a) for a in args[: call.n])
    jointly = row.jointly_linear and all(m or isinstance(row.rule(i), Constant) for i, m in enumerate(mask))
    for i, undefined in enumerate(mask):
        if undefined and not jointly and row.operand_name(i) not in row.linear_in:
            raise AutogradError(f"[{call!r}] is not linear in {row.operand_name(i)!r}, it cannot be transposed")
    linear = linear_of(call, mask)
    keys = call.residual_keys(mask)
    if any(isinstance(k, str) or ad.is_undefined_primal(args[k]) for k in keys):
        raise AutogradError(f"[{call!r}] is not linear in all of its undefined operands together")
    constants = [args[k] for k in keys] + list(args[call.n :])
    like = [a.aval for a, m in zip(args, mask, strict=False) if m]
    found = iter(run_transpose(linear.transpose, [*constants, ct], like))
    return [next(found) if m else None for m in mask] + [None] * (len(args) - call.n)
