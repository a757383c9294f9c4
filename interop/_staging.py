"""Staging a JAX function for ``lift``: traced once per signature, and from then on its jaxpr is what runs.

NOTE [staged]: what is recorded may be traced, differentiated and replayed later and
more than once.  All of that goes by one jaxpr, so it is the same function each time,
whatever its closure holds meanwhile.  Arrays that it closed over become operands, so
they are neither copied into programs nor kept alive by them.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun, jaxprs_in_params

from ..dtypes import ALL, float64, is_floating
from ..graph import Node, leaf
from ..record import constant
from ..rules import ArgumentTypeError, AutogradError
from ..rules.call import Aval
from ..rules.context import Surroundings
from ..rules.kinds import shown
from ..several import Several
from ..state import here
from ..tensor import Tensor
from ..trail import note_placed

LOOKS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


class Value:
    """What a lifted function returned that is no Tensor, as PRNG keys and unsigned integers are.

    It is computed with everything else, and lifted functions take it as an argument;
    ``jax()`` is its value for transforms and other JAX code.

    Example:
        >>> from torsh_fx.interop.jax import lift
        >>> key = lift(jax.random.split)(jax.random.key(0))
        >>> key.jax().shape
        (2,)
    """

    def __init__(self, tensor: Tensor, impl: Any = None) -> None:
        self.tensor, self.impl = tensor, impl

    def jax(self) -> jax.Array:
        """The array, computed now if it was pending."""
        value = self.tensor.jax()
        return value if self.impl is None else jax.random.wrap_key_data(value, impl=self.impl)

    def _reached(self) -> tuple[Tensor, ...]:
        """What a compiled step must find."""
        return (self.tensor,)

    def __repr__(self) -> str:
        return f"Value({self.jax()!r})"


class Numbers:
    """The call of a node that holds the Python floats among the arguments: programs do not know them."""

    name = "numbers"
    n = 0
    foreign = False
    avals: tuple[Aval, ...] = ()

    def __init__(self, count: int) -> None:
        self.present = tuple(map(str, range(count)))
        self.out = Aval((count,), float64)

    def __repr__(self) -> str:
        return self.name

    def describe(self, runtime: dict[str, Any]) -> str:
        return f"numbers({', '.join(map(str, runtime.values()))})"

    def forward(self, *numbers: Any) -> Any:
        """All in one array."""
        return jnp.stack([jnp.asarray(n, jnp.float64) for n in numbers])

    def missing(self) -> None:
        return None

    def active(self, i: int) -> bool:
        """There are no operands."""
        return False

    def residual_keys(self, mask: tuple[bool, ...]) -> tuple[int | str, ...]:
        return ()

    def widened(self) -> Numbers:
        """They are float64."""
        return self


numbers_of = functools.cache(Numbers)  # one of each: keys tell calls apart by identity


class Static(NamedTuple):
    """An argument, or part of a result, that is no array; 0.0 and -0.0, 1 and True are equal, but for their marks."""

    kind: type
    mark: str | None
    value: Any


class Array(NamedTuple):
    """An argument or part of a result that is an array; ``impl`` is a typed PRNG key's."""

    aval: Aval
    impl: Any = None


class Spec(NamedTuple):
    """What a function is called with, but for values; ``float`` stands for a number."""

    tree: Any
    leaves: tuple[Any, ...]
    around: Surroundings
    grad: bool


class Signature:
    """A function staged for arguments of one kind.

    Args:
        call: what is recorded.
        constants: the arrays that the function closed over.
        out_tree, outs: its result, and per part of it an ``Array`` or a ``Static``.
    """

    def __init__(self, call: Several, constants: tuple[Node, ...], out_tree: Any, outs: Sequence[Any]) -> None:
        self.call, self.constants, self.out_tree, self.outs = call, constants, out_tree, outs
        self.plain = all(map(_is_tensor, outs))

    def result(self, tensors: Sequence[Tensor]) -> Any:
        """What the function returns, of its arrays."""
        if self.plain:
            return jax.tree.unflatten(self.out_tree, tensors)
        given = iter(tensors)
        flat = []
        for out in self.outs:
            if out.__class__ is Static:
                flat.append(out.value)
                continue
            t = next(given)
            flat.append(t if _is_tensor(out) else Value(t, out.impl))
        return jax.tree.unflatten(self.out_tree, flat)


_TENSORS = frozenset(ALL)


def _is_tensor(out: Any) -> bool:
    return out.__class__ is Array and out.impl is None and out.aval.dtype in _TENSORS


def is_key(dtype: Any) -> bool:
    """Is it a dtype of typed PRNG keys?"""
    return bool(jnp.issubdtype(dtype, jax.dtypes.prng_key))


_impls: dict[Any, Any] = {}


def impl_of(key: Any) -> Any:
    """The implementation of a typed PRNG key, which makes it from its data."""
    if key.dtype not in _impls:
        _impls[key.dtype] = jax.random.key_impl(key)
    return _impls[key.dtype]


def entered(value: Any) -> Node:
    """A node for an array that JAX or NumPy made; of a typed key, for its data."""
    if not isinstance(value, jax.Array):
        return constant(value)
    if is_key(value.dtype):
        value = jax.random.key_data(value)
    note_placed(value)
    node = leaf(value)
    node.exported = value  # the caller may keep it
    return node


class Function(Protocol):
    """What is staged."""

    name: str
    has_aux: bool

    @property
    def fn(self) -> Callable[..., Any]:
        """The function itself."""


def stage(function: Function, spec: Spec, examples: Sequence[Any] | None = None) -> Signature:
    """Trace a function for arguments of one kind; what it raises comes out.

    ``examples``, tracers among them, say along which manual axes of a mesh an operand varies.
    """
    name, fn, has_aux, around = function.name, function.fn, function.has_aux, spec.around
    given = [x for x in spec.leaves if x.__class__ is Array]
    n_numbers = sum(x is float for x in spec.leaves)
    told: list[Any] = []

    def of_arrays(*values: Any) -> list[Any]:
        numbers, arrays = iter(values[:n_numbers]), iter(values[n_numbers:])
        full = [next(numbers) if x is float else x.value if x.__class__ is Static else None for x in spec.leaves]
        for k, x in enumerate(spec.leaves):
            if x.__class__ is Array:
                array = next(arrays)
                full[k] = array if x.impl is None else jax.random.wrap_key_data(array, impl=x.impl)
        args, kwargs = jax.tree.unflatten(spec.tree, full)
        out = fn(*args, **kwargs)
        if has_aux and not (isinstance(out, tuple) and len(out) == 2):
            raise ArgumentTypeError(f"[{name}] with has_aux the function must return (result, aux), got {shown(out)}")
        flat, tree = jax.tree.flatten(out, is_leaf=_is_leaf)
        found = [_given_back(x) for x in flat]
        first = len(jax.tree.leaves(out[0], is_leaf=_is_leaf)) if has_aux else len(flat)
        n_active = sum(x.__class__ is not Static for x, _ in found[:first])
        told[:] = [tree, found, n_active]
        arrays_out = [x for x, _ in found if x.__class__ is not Static]
        return [*arrays_out[:n_active], *map(jax.lax.stop_gradient, arrays_out[n_active:])]

    avals = [x.aval for x in given]
    jaxpr, closed_over = _traced(name, of_arrays, spec, n_numbers, avals, examples)
    out_tree, found, n_active = told
    made = iter(jaxpr.out_avals)
    outs = [x if x.__class__ is Static else Array(_aval(next(made)), impl) for x, impl in found]
    told.clear()  # holds tracers
    results = [x.aval for x in outs if x.__class__ is Array]
    for aval in results:
        _check_result(name, aval)
    constants = tuple([entered(c) for c in closed_over])
    numbers = (Aval((n_numbers,), float64),) if n_numbers else ()
    operands = (*numbers, *avals, *(n.aval for n in constants))

    def inside() -> contextlib.AbstractContextManager[None]:
        return around.entered(avals)

    call = Several(
        name,
        jax.jit(_as_function(jaxpr, n_numbers, closed_over)),
        operands,
        results,
        inside,
        _widening(function, spec),
        _calls_back(jaxpr.jaxpr),
        n_active,
    )
    return Signature(call, constants, out_tree, outs)


def _traced(
    name: str,
    of_arrays: Callable[..., Any],
    spec: Spec,
    n_numbers: int,
    avals: list[Aval],
    examples: Sequence[Any] | None,
) -> tuple[Any, list[Any]]:
    """The jaxpr, which takes what the function closed over as its last arguments, and that."""
    with spec.around.entered(avals), _nothing_lost(name):
        number = jax.ShapeDtypeStruct((), jnp.asarray(0.0).dtype, weak_type=True)
        given = [*[number] * n_numbers, *(examples or [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals])]
        closed = jax.make_jaxpr(of_arrays)(*given)
        constants = [c if isinstance(c, jax.Array) else jnp.asarray(c) for c in closed.consts]
        if not constants:
            return closed, constants

        def of_all(*args: Any) -> Any:
            return jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, args[len(given) :]))(*args[: len(given)])

        return jax.make_jaxpr(of_all)(*given, *constants), constants


def _as_function(closed: Any, n_numbers: int, constants: Sequence[Any]) -> Callable[..., Any]:
    """Numbers in one array if there are any, arrays, constants -> results."""
    dtypes = [v.aval.dtype for v in closed.jaxpr.invars[:n_numbers]]
    known = [(k - len(constants), c.dtype, impl_of(c) if is_key(c.dtype) else None) for k, c in enumerate(constants)]

    def function(*args: Any) -> Any:
        numbers = [args[0][k].astype(d) for k, d in enumerate(dtypes)]
        rest = list(args[bool(dtypes) :])
        for k, dtype, impl in known:  # in a replay in float64 they come as that
            rest[k] = rest[k].astype(dtype) if impl is None else jax.random.wrap_key_data(rest[k], impl=impl)
        return jaxpr_as_fun(closed)(*numbers, *rest)

    return function


def _is_leaf(x: Any) -> bool:
    return isinstance(x, Tensor)


def _widening(function: Function, spec: Spec) -> Callable[[], Several]:
    """What makes the same call of float64; what the function closed over it closes over once more.

    Calls live as long as programs do, so they do not keep the function alive, and all that it holds.
    """
    ref = weakref.ref(function)
    leaves = [
        Array(Aval(x.aval.shape, float64), x.impl) if x.__class__ is Array and is_floating(x.aval.dtype) else x
        for x in spec.leaves
    ]
    wide = spec._replace(leaves=tuple(leaves), around=spec.around._replace(x64=True))

    def widened() -> Several:
        function = ref()
        if function is None:
            raise AutogradError("a lifted function that was recorded is gone, and cannot be computed in float64")
        return stage(function, wide).call

    return widened


def _given_back(x: Any) -> tuple[Any, Any]:
    """A part of the result as an array, and the implementation of a key; or as it is."""
    if isinstance(x, Tensor):
        x = x.jax()
    if isinstance(x, jax.Array) and is_key(x.dtype):
        return jax.random.key_data(x), impl_of(x)
    if isinstance(x, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)):
        return jnp.asarray(x), None
    return Static(x.__class__, None, x), None


def _aval(value: Any) -> Aval:
    return Aval(tuple(value.shape), np.dtype(value.dtype))


def _check_result(name: str, aval: Aval) -> None:
    dtype = aval.dtype
    if dtype.kind == "c" or (is_floating(dtype) and dtype not in _TENSORS):
        raise ArgumentTypeError(f"[{name}] a result is {dtype}, of which there is no Tensor; cast it in the function")


def _calls_back(jaxpr: Any) -> bool:
    """Does it run Python when it runs?"""
    return bool(jaxpr.effects) or any(
        "callback" in e.primitive.name or any(map(_calls_back, jaxprs_in_params(e.params))) for e in jaxpr.eqns
    )


@contextlib.contextmanager
def _nothing_lost(name: str) -> Iterator[None]:
    """Refuse to read a Tensor from outside that requires grad: the jaxpr would hold its value as a constant."""

    def note(tensors: Sequence[Tensor]) -> None:
        for t in tensors:
            if here().grad and t._current_edge() is not None:
                raise AutogradError(
                    f"[{name}] the function uses a tensor of shape {list(t.shape)} from outside that requires grad; "
                    "its gradient would be lost: pass it as an argument, or detach() it"
                )

    recorder = here()
    before, recorder.reading = recorder.reading, note
    try:
        yield
    finally:
        recorder.reading = before


def looks(name: str, error: Exception) -> AutogradError:
    """The error for a function that looks at values."""
    return AutogradError(
        f"[{name}] the function looks at the value of an array in Python (by if, int(), NumPy or the like), which "
        "a staged function cannot: write it as jax.jit needs it, or pass that argument as a Python integer, "
        f"boolean or string, which are part of the program.  JAX says: {str(error).splitlines()[0]}"
    )


def static(name: str, x: Any) -> Static:
    """An argument that is part of the program; an ArgumentTypeError if it cannot be told from others."""
    try:
        hash(x)
    except TypeError as error:
        raise ArgumentTypeError(
            f"[{name}] an argument is {shown(x)}, neither an array nor hashable: pass arrays, Tensors, numbers and "
            "hashable values in a pytree"
        ) from error
    return Static(x.__class__, repr(x) if x.__class__ is float else None, x)
