"""autograd.functional: values, structures and strict errors beside PyTorch's, and JAX's derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx
from tolerances import close
from twins import both_refuse, compare, leaf

X, Y = [0.5, -1.0, 2.0], [[0.3, 0.4], [1.0, -0.2]]


def one_to_one(lib):
    return lambda x: x.sin() * x.sum(), (X,)


def several_to_one(lib):
    return lambda x, y: x.exp().sum() * y.cos(), (X, Y)


def several_to_several(lib):
    return lambda x, y: ((x * x).sin() * y.sum(), x.sum() * y.exp(), y * 2), (X, Y)


def linear_and_independent(lib):
    return lambda x, y: (x * 3, (y * y).sum()), (X, Y)


def branching(lib):
    return lambda x: x * x if x.sum() > 0 else x, (X,)


MAPS = [one_to_one, several_to_one, several_to_several, linear_and_independent, branching]


def cubic(lib):
    return lambda x: (x**3).sum(), (X,)


def mixed(lib):
    return lambda x, y: (x**2).sum() * (y**3).sum() + x.sin().prod(), (X, Y)


def independent(lib):
    return lambda x, y: (x**3).sum(), (X, Y)


def affine(lib):
    return lambda x: (x * 3).sum(), (X,)


SCALARS = [cubic, mixed, independent, affine]
names = [f.__name__ for f in MAPS]
scalar_names = [f.__name__ for f in SCALARS]


def call(lib, name, case, *more, leaves=False, **options):
    """``lib.autograd.functional.name`` at the case's point, one Tensor or a tuple."""
    func, values = case(lib)
    inputs = tuple(leaf(lib, v, requires_grad=leaves) for v in values)
    vector = [tuple(leaf(lib, np.cos(v), requires_grad=leaves) for v in vs) for vs in more]
    given = [p if len(p) > 1 else p[0] for p in (inputs, *vector)]
    return getattr(lib.autograd.functional, name)(func, *given, **options), (inputs, *vector)


@pytest.mark.parametrize("case", MAPS, ids=names)
@pytest.mark.parametrize("vectorize", [False, True], ids=["loop", "batch"])
def test_jacobian(case, vectorize):
    compare(lambda lib: call(lib, "jacobian", case, vectorize=vectorize)[0])


@pytest.mark.parametrize("case", MAPS[:4], ids=names[:4])
def test_jacobian_by_columns(case):
    def program(lib):
        return call(lib, "jacobian", case, vectorize=True, strategy="forward-mode")[0]

    compare(program)
    by_columns = call(tx, "jacobian", case, strategy="forward-mode")[0]
    by_rows = call(tx, "jacobian", case)[0]
    for a, b in zip(jax.tree.leaves(by_columns), jax.tree.leaves(by_rows), strict=True):
        close(a, b, gradient=True)


@pytest.mark.parametrize("case", SCALARS, ids=scalar_names)
@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_hessian(case, strategy):
    def program(lib):
        return call(lib, "hessian", case, vectorize=True, outer_jacobian_strategy=strategy)[0]

    compare(program)
    compare(lambda lib: call(lib, "hessian", case)[0])


@pytest.mark.parametrize("name", ["hvp", "vhp"])
@pytest.mark.parametrize("case", SCALARS, ids=scalar_names)
def test_products_with_the_hessian(name, case):
    compare(lambda lib: call(lib, name, case, case(lib)[1])[0])


@pytest.mark.parametrize("case", MAPS, ids=names)
def test_products_with_the_jacobian(case):
    compare(lambda lib: call(lib, "jvp", case, case(lib)[1])[0])

    def program(lib):
        func, values = case(lib)
        out = func(*[leaf(lib, v) for v in values])
        outs = out if isinstance(out, tuple) else (out,)
        return call(lib, "vjp", case, [o.detach().numpy() for o in outs])[0]

    compare(program)


def test_vectors_that_may_be_left_out():
    def program(lib):
        x, f = leaf(lib, [2.0]), lib.autograd.functional
        return [product(lambda x: x**3, x) for product in (f.vjp, f.jvp, f.hvp, f.vhp)]

    compare(program)


@pytest.mark.parametrize("name", ["jacobian", "jvp", "vjp", "hessian", "hvp", "vhp"])
def test_create_graph(name):
    """What comes out is differentiable by inputs and vectors, also under no_grad."""

    def program(lib):
        more = {"jvp": [(X,)], "vjp": [(X,)], "hvp": [(X,)], "vhp": [(X,)]}.get(name, [])
        with lib.no_grad():
            case = one_to_one if name in ("jacobian", "jvp", "vjp") else cubic
            out, given = call(lib, name, case, *more, leaves=True, create_graph=True)
        last = out[-1] if isinstance(out, tuple) else out
        by = [t for part in given for t in part]
        return [out, lib.autograd.grad(last.sin().sum(), by), [t.grad for t in by]]

    compare(program)


def test_without_create_graph_nothing_has_a_graph():
    func = tx.autograd.functional
    x = leaf(tx, X)
    found = [
        func.jacobian(lambda x: x * x, x),
        func.hessian(lambda x: (x**3).sum(), x),
        *func.vjp(lambda x: (x * x).sum(), x),
        *func.jvp(lambda x: x * x, x, x),
        *func.hvp(lambda x: (x**3).sum(), x, x),
        *func.vhp(lambda x: (x**3).sum(), x, x),
    ]
    assert not [t for t in found if t.requires_grad]
    assert x.grad is None


def test_against_jax():
    with jax.enable_x64(True):
        at, y = jnp.array(X), jnp.array(Y)
        f = lambda x, y: jnp.sin(x) * jnp.exp(y).sum()  # noqa: E731
        want = jax.jacobian(f, (0, 1))(at, y)
        g = lambda x: (x[0] * jnp.sin(x[1]) * x[2] ** 3).sum()  # noqa: E731
        second = jax.hessian(g)(at)
    ours = tx.autograd.functional.jacobian(lambda x, y: x.sin() * y.exp().sum(), (leaf(tx, X), leaf(tx, Y)))
    for got, known in zip(ours, want, strict=True):
        close(got.numpy(), np.asarray(known), gradient=True)
    found = tx.autograd.functional.hessian(lambda x: x[0] * x[1].sin() * x[2] ** 3, leaf(tx, X))
    close(found.numpy(), np.asarray(second), gradient=True)


@pytest.mark.parametrize("vectorize", [False, True])
def test_nothing_to_differentiate(vectorize):
    x = leaf(tx, X)
    assert tx.autograd.functional.jacobian(lambda x: x[:0], x, vectorize=vectorize).shape == (0, 3)
    empty = tx.zeros(0, dtype=tx.float64)
    assert tx.autograd.functional.jacobian(lambda x: x.sum(), empty, vectorize=vectorize).shape == (0,)


STRICT = [
    ("jacobian", "an output of nothing", lambda lib, x, y: lib.ones(2), False, "output 0.*independent of the inputs"),
    ("jacobian", "an input", lambda lib, x, y: x * 2, False, "independent of input 1"),
    ("jacobian", "a constant derivative", lambda lib, x, y: x * 2 + y.sum() ** 2, True, "constant"),
    ("vjp", "an output", lambda lib, x, y: lib.ones(()), False, "output 0.*independent of the inputs"),
    ("vjp", "an input", lambda lib, x, y: x.sum(), False, "independent of input 1"),
    ("vjp", "a constant derivative", lambda lib, x, y: x.sum() + y.sum() ** 2, True, "constant"),
    ("jvp", "an input", lambda lib, x, y: x * 2, False, "independent of input 1"),
    ("hessian", "a linear function", lambda lib, x, y: x.sum() + (y**2).sum(), False, "constant"),
    ("hessian", "an input", lambda lib, x, y: (x**2).sum(), False, "independent of input 1"),
    ("hessian", "a separable function", lambda lib, x, y: (x**2).sum() + (y**2).sum(), False, "independent of input 1"),
    ("vhp", "a linear function", lambda lib, x, y: x.sum() + (y**2).sum(), False, "constant"),
    ("hvp", "an input", lambda lib, x, y: (x**2).sum(), False, "independent of input 1"),
]


@pytest.mark.parametrize(
    ("name", "what", "func", "create_graph", "match"), STRICT, ids=[f"{row[0]}: {row[1]}" for row in STRICT]
)
def test_strict(name, what, func, create_graph, match):
    def program(lib):
        inputs = (leaf(lib, X), leaf(lib, Y))
        more = (inputs,) if name in ("jvp", "hvp", "vhp") else ()
        return getattr(lib.autograd.functional, name)(
            lambda x, y: func(lib, x, y), inputs, *more, strict=True, create_graph=create_graph
        )

    both_refuse(program, tx.AutogradError, rf"\[{name}\].*{match}.*strict")


REFUSED = [
    (lambda f, x: f.jacobian(lambda x: x, 3), TypeError, r"\[jacobian\] inputs.*3"),
    (lambda f, x: f.jacobian(lambda x: x, (x, "a")), TypeError, r"\[jacobian\] inputs.*'a'"),
    (lambda f, x: f.jacobian(lambda x: "a", x), TypeError, r"\[jacobian\] outputs of func.*'a'"),
    (lambda f, x: f.jacobian(lambda x: [x], x), TypeError, r"\[jacobian\] outputs of func.*list"),
    (lambda f, x: f.jacobian(lambda x: x, x, strategy="sideways"), ValueError, r"\[jacobian\].*'sideways'"),
    (lambda f, x: f.hessian(lambda x: x.sum(), x, outer_jacobian_strategy="up"), ValueError, r"\[hessian\].*'up'"),
    (lambda f, x: f.hessian(lambda x: x * 2, x), ValueError, r"\[hessian\].*one element.*\[3\]"),
    (lambda f, x: f.hessian(lambda x: (x.sum(), x.sum()), x), ValueError, r"\[hessian\].*one element.*2 Tensors"),
    (lambda f, x: f.vhp(lambda x: x * 2, x, x), ValueError, r"\[vhp\].*one element"),
    (lambda f, x: f.hvp(lambda x: (x.sum(),), x, x), ValueError, r"\[hvp\].*one element"),
    (lambda f, x: f.vjp(lambda x: x * 2, x), ValueError, r"\[vjp\] v is needed"),
    (lambda f, x: f.jvp(lambda x: x * 2, x), ValueError, r"\[jvp\] v is needed"),
    (lambda f, x: f.vjp(lambda x: x * 2, x, (x, x)), ValueError, r"\[vjp\] v.*1.*2"),
    (lambda f, x: f.vjp(lambda x: x * 2, x, x[:2]), ValueError, r"v\[0\].*\[3\].*\[2\]"),
    (lambda f, x: f.hvp(lambda x: (x * x).sum(), x, 3.0), TypeError, r"\[hvp\] v.*3"),
]


@pytest.mark.parametrize(("call", "error", "match"), REFUSED)
def test_refusals(call, error, match):
    both_refuse(lambda lib: call(lib.autograd.functional, leaf(lib, X)), error, match)


def test_other_refusals():
    with pytest.raises(tx.ArgumentTypeError, match=r"v\[0\].*float64.*float32"):
        tx.autograd.functional.vjp(lambda x: x * 2, leaf(tx, X), tx.ones(3))
    with pytest.raises(tx.AutogradError, match="floating"):
        tx.autograd.functional.jacobian(lambda x: x * 2, tx.tensor([1, 2]))
