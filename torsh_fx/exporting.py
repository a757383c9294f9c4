"""Leaving Python: a tape or function as StableHLO that bare JAX can run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export as jax_export
from jax.extend.core import Literal

from .artefact import FORMAT, Exported
from .lift import Inside, is_tensor
from .rules import ArgumentTypeError, ArgumentValueError, AutogradError, TorshError
from .rules.kinds import shown
from .state import here, no_grad, own_trace
from .tape import Tape
from .tensor import from_array

PLATFORMS = ("cpu", "cuda", "tpu")

Spec = jax.ShapeDtypeStruct


def export(
    fn: Callable[..., Any],
    *args: Any,
    vjp_order: int = 0,
    platforms: Sequence[str] = PLATFORMS,
    shapes: Any = None,
    constraints: Sequence[str] = (),
    narrow: bool = False,
) -> Exported:
    """``fn`` as an artefact of StableHLO that a process with bare JAX can run.

    Tensors it captures are frozen into it as they are now.  ``args`` are an example; none
    of their numbers matter.  An index that is an argument is not checked where it runs.

    Args:
        fn: a function of Tensors (or arrays) in tuples, lists and dicts, that returns such.
        args: an example of its arguments.
        vjp_order: how often the artefact can be differentiated.
        platforms: what it is to run on, all in one file.
        shapes: per argument (or one for all) a text such as ``"batch, ..."`` that leaves
            extents open by name, or None for those of the example.
        constraints: what holds between open extents, such as ``"batch >= 2"``.
        narrow: take and give 32-bit numbers where ``fn`` has 64: it computes as it is
            written and rounds what comes out, once.

    Returns:
        An ``Exported``.

    Raises:
        AutogradError: ``fn`` draws random numbers, calls back into Python, reads a value, does what
            open extents cannot do, or gives integers that may not fit 32 bits with ``narrow``.
        ArgumentTypeError: an argument or result is neither Tensor nor array.
        ArgumentValueError: ``vjp_order``, ``platforms`` or ``shapes`` make no sense.

    Gradient: with ``vjp_order``, JAX's of the exported program.
    Source: ``jax.export``.
    Example:
        >>> made = export(lambda x: x.sum(1), ones(2, 3), shapes="batch, ...")
        >>> made(ones(5, 3))
        tensor([3., 3., 3., 3., 3.])
    """
    if not callable(fn):
        raise ArgumentTypeError(f"[export] expected a function, got {shown(fn)}")
    leaves, tree = jax.tree.flatten(args, is_leaf=is_tensor)
    for x in leaves:
        if not is_tensor(x) and not isinstance(x, (jax.Array, np.ndarray)):
            raise ArgumentTypeError(f"[export] arguments must be Tensors or arrays, got {shown(x)} among them")
    as_tensor = [is_tensor(x) for x in leaves]
    with no_grad():  # what it captures is frozen: no gradient of it is lost
        inside = Inside(fn, "export")

    def pure(*arrays: Any) -> Any:
        given = jax.tree.leaves(arrays)
        wrapped = [from_array(a) if t else a for a, t in zip(given, as_tensor, strict=True)]
        return jax.tree.map(_bare, inside(*jax.tree.unflatten(tree, wrapped)), is_leaf=is_tensor)

    specs = jax.tree.unflatten(tree, [Spec(x.shape, x.dtype) for x in leaves])
    return _exported(pure, specs, vjp_order, platforms, shapes, constraints, narrow, [])


def export_tape(
    tape: Tape,
    *,
    vjp_order: int = 0,
    platforms: Sequence[str] = PLATFORMS,
    shapes: Any = None,
    constraints: Sequence[str] = (),
    constants: bool = False,
    narrow: bool = False,
) -> Exported:
    """The body of ``Tape.export``."""
    drawn = next((e for e in tape.entries if e.node.call.name.startswith("random_")), None)
    if drawn is not None:
        raise AutogradError(_DRAWS.format(f"{drawn.node.call.name} at {drawn.where}"))
    if shapes is not None:
        if tape._fn is None or constants:
            raise ArgumentValueError(
                "[export] a tape's extents are baked into what it recorded; open ones need the function, to run it "
                "again: use torsh_fx.record(fn)(*example), without constants=True, or torsh_fx.export(fn, *example)"
            )
        arguments = {"vjp_order": vjp_order, "platforms": platforms, "constraints": constraints, "narrow": narrow}
        example = [np.zeros(n.aval.shape, n.aval.dtype) for n in tape.inputs]
        tensors = [from_array(jnp.asarray(x)) for x in example]
        return export(tape._fn, *jax.tree.unflatten(tape._in_tree, tensors), shapes=shapes, **arguments)  # type: ignore[arg-type]
    specs: Any = tuple([Spec(n.aval.shape, n.aval.dtype) for n in tape.inputs])
    if tape._in_tree is not None:
        specs = jax.tree.unflatten(tape._in_tree, specs)
    listed = tape.constants
    if constants:
        specs = ([Spec(c.shape, c.node.aval.dtype) for c in listed], *specs)
    names = [f"{c.node.aval.dtype}{list(c.shape)}" for c in listed] if constants else []
    pure = tape.as_jax(constants=constants)
    return _exported(pure, tuple(specs), vjp_order, platforms, None, (), narrow, names)


def _exported(
    pure: Callable[..., Any],
    specs: tuple[Any, ...],
    vjp_order: int,
    platforms: Sequence[str],
    shapes: Any,
    constraints: Sequence[str],
    narrow: bool,
    constants: list[str],
) -> Exported:
    if not isinstance(vjp_order, int) or isinstance(vjp_order, bool) or vjp_order < 0:
        raise ArgumentValueError(f"[export] vjp_order must be an integer of at least 0, got {shown(vjp_order)}")
    if isinstance(platforms, str) or not platforms or not all(p in (*PLATFORMS, "rocm") for p in platforms):
        raise ArgumentValueError(f"[export] platforms are some of {[*PLATFORMS, 'rocm']}, got {platforms!r}")
    with jax.enable_x64(True), own_trace():
        made = _opened(specs, shapes, constraints)
        if narrow:
            _check_integers(pure, made)
            dtypes = [s.dtype for s in jax.tree.leaves(made)]
            pure, made = _narrowed(pure, dtypes), jax.tree.map(lambda s: Spec(s.shape, _narrow(s.dtype)), made)
        inner = _run(pure, made, tuple(platforms), symbolic=shapes is not None)
        again = inner
        for _ in range(vjp_order):  # what has no derivative is to say so here
            again = again.vjp()
        if shapes is not None:
            _check_like(pure, specs, inner, narrow)
    wide = any(a.dtype.itemsize == 8 for a in (*inner.in_avals, *inner.out_avals))
    from . import __version__

    about = {
        "format": FORMAT,
        "torsh_fx": __version__,
        "jax": jax.__version__,
        "platforms": list(inner.platforms),
        "inputs": [f"{a.dtype}[{', '.join(map(str, a.shape))}]" for a in inner.in_avals],
        "outputs": [f"{a.dtype}[{', '.join(map(str, a.shape))}]" for a in inner.out_avals],
        "vjp_order": vjp_order,
        "x64": wide,
        "narrow": narrow,
        "constants": constants,
    }
    return Exported(inner, about)


def _opened(specs: tuple[Any, ...], shapes: Any, constraints: Sequence[str]) -> tuple[Any, ...]:
    if shapes is None:
        return specs
    try:
        found: tuple[Any, ...] = jax_export.symbolic_args_specs(specs, shapes, constraints=constraints)
    except (ValueError, TypeError, KeyError) as error:
        raise ArgumentValueError(f"[export] shapes {shapes!r} do not fit the arguments: {error}") from error
    for example, opened in zip(jax.tree.leaves(specs), jax.tree.leaves(found), strict=True):
        pairs = zip(example.shape, opened.shape, strict=False)
        if len(example.shape) != len(opened.shape) or any(isinstance(new, int) and new != old for old, new in pairs):
            raise ArgumentValueError(
                f"[export] shapes {shapes!r} make {list(opened.shape)} of an argument of shape {list(example.shape)}"
            )
    return found


def _run(pure: Callable[..., Any], specs: tuple[Any, ...], platforms: tuple[str, ...], symbolic: bool) -> Any:
    here().draws.append(_NoDraws())
    try:
        return jax_export.export(jax.jit(pure), platforms=platforms)(*specs)
    except TorshError:
        raise
    except Exception as error:
        if symbolic and (type(error).__module__.startswith("jax") or isinstance(error, (TypeError, ValueError))):
            raise AutogradError(
                "[export] the function does something that extents left open by shapes= cannot do; say more in "
                f"constraints=, or leave the extent fixed: {error}"
            ) from error
        if isinstance(error, NotImplementedError):
            what = "calls back into Python, which no artefact can hold" if "callback" in str(error) else "cannot leave"
            raise AutogradError(f"[export] the function {what}: {error}") from error
        raise
    finally:
        here().draws.pop()


class _NoDraws:
    """Stands where draws are noted while a function is exported."""

    def note(self, op: str, generator: Any) -> None:
        raise AutogradError(_DRAWS.format(op))


_DRAWS = (
    "[export] {} draws random numbers, which the artefact would repeat at every call: leave it out (training=False), "
    "or make the numbers an argument"
)


def _check_like(pure: Callable[..., Any], specs: tuple[Any, ...], inner: Any, narrow: bool) -> None:
    """With the example's extents, the artefact must give what the function gives without open ones."""
    example = jax.tree.map(lambda s: Spec(s.shape, _narrow(s.dtype)), specs) if narrow else specs
    plain = jax.tree.leaves(jax.eval_shape(pure, *example))
    for want, got in zip(plain, inner.out_avals, strict=True):
        if want.dtype != got.dtype or len(want.shape) != len(got.shape):
            raise AutogradError(
                f"[export] with open extents a result is {got.dtype}{list(got.shape)}, with those of the example "
                f"{want.dtype}{list(want.shape)}: a number made from an extent took part; cast it to the dtype it "
                "should have"
            )


# -- 32 bits ---------------------------------------------------------------------------------


def _narrow(dtype: Any) -> Any:
    return {"float64": np.dtype("float32"), "int64": np.dtype("int32")}.get(np.dtype(dtype).name, np.dtype(dtype))


def _narrowed(pure: Callable[..., Any], dtypes: Sequence[Any]) -> Callable[..., Any]:
    """``pure`` with 32-bit doors: what comes in is widened, what goes out rounded."""

    def with_doors(*arrays: Any) -> Any:
        flat, tree = jax.tree.flatten(arrays)
        given = [a.astype(d) for a, d in zip(flat, dtypes, strict=True)]
        return jax.tree.map(lambda out: out.astype(_narrow(out.dtype)), pure(*jax.tree.unflatten(tree, given)))

    return with_doors


def _bare(x: Any) -> Any:
    if is_tensor(x):
        return x.jax()
    if isinstance(x, jax.Array):
        return x
    raise ArgumentTypeError(f"[export] the function must return Tensors or arrays, got {shown(x)}")


# Ops that only rearrange their first operand, and ops whose results are places.
_REARRANGED = {"reshape", "permute", "expand", "narrow", "select", "clone", "flip", "stride", "squeeze", "unsqueeze"}
_PLACES = {"argmax", "argmin", "argsort"}


def _check_integers(pure: Callable[..., Any], specs: tuple[Any, ...]) -> None:
    """Refuse an int64 result of which we cannot say that it fits int32."""
    jaxpr = jax.make_jaxpr(pure)(*specs).jaxpr
    makers = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}

    def fits(v: Any) -> bool:
        while v in makers and makers[v].primitive.name in _REARRANGED:
            v = makers[v].invars[0]
        if v not in makers:
            return v in jaxpr.invars
        eqn = makers[v]
        source = eqn.invars[0].aval if eqn.invars else None
        if eqn.primitive.name in _PLACES:
            dim = eqn.params["call"].kwargs.get("dim")
            places = math.prod(source.shape) if dim is None else source.shape[dim]  # type: ignore[union-attr]
            return isinstance(places, int) and places < 2**31
        narrow = source is not None and source.dtype.kind in "biu" and source.dtype.itemsize <= 4
        return eqn.primitive.name == "convert" and narrow and source.dtype.name != "uint32"  # type: ignore[union-attr]

    for k, v in enumerate(jaxpr.outvars):
        if v.aval.dtype.name in ("int64", "uint64") and (isinstance(v, Literal) or not fits(v)):
            raise AutogradError(
                f"[export] narrow=True: result {k} is {v.aval.dtype} and may hold what int32 cannot; cast it in the "
                "function, to int32 or a float"
            )
