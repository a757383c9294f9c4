"""The tester tested: wrong rules must break a law, incomplete rows must be refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torsh_fx.rules.op import OPS, Fails, Row, Sample, register, seal
from torsh_fx.rules.primitive import define_primitives
from torsh_fx.rules.samples import EDGES, samples, unary, values

from laws import LAWS, Bundle, applicable, runnable, verify

DOC = """A planted row.

Gradient: planted.
Source: none.
Example: none.
"""


def plant(forward, kind="elementwise", check=None, **fields):
    """A row outside the table, ready to be called."""
    forward.__doc__ = DOC
    fields.setdefault("samples", unary(0.2, 2))
    row = Row(forward, kind, name=forward.__name__, **fields)
    define_primitives(row)
    row.check(check or (lambda *xs: (np.broadcast_shapes(*(x.shape for x in xs)), xs[0].dtype)))
    return row


def must_break(row, *laws):
    seal(row)
    bundle = Bundle(row)
    for law in laws:
        with pytest.raises((AssertionError, TypeError, ValueError)):
            LAWS[law][0](bundle)


def square(x):
    return x * x


def product(a, b):
    return a * b


def test_right_rule_passes():
    row = plant(square)
    row.vjp("x")(lambda g, x: 2 * x * g)
    verify(row)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(lambda g, x: -2 * x * g, id="wrong-sign"),
        pytest.param(lambda g, x: x * g, id="missing-factor"),
        pytest.param(lambda g, x: 2 * x * jnp.abs(g), id="not-linear-in-g"),
        pytest.param(lambda g, x: 2 * x * jnp.ones_like(g), id="ignores-g"),
        pytest.param(lambda g, x: 2 * jax.lax.stop_gradient(x) * g, id="second-order-lost"),
    ],
)
def test_wrong_vjp(rule, request):
    row = plant(square)
    row.vjp("x")(rule)
    if "second-order" in request.node.callspec.id:
        must_break(row, "second_order", "hessians")
    else:
        must_break(row, "vjp_differences", "vjp_plain")


def test_swapped_operands():
    row = plant(product, samples=samples(Sample((values(2, 3), values(2, 3, seed=1)))))
    row.vjp("a")(lambda g, a: g * a)
    row.vjp("b")(lambda g, b: g * b)
    must_break(row, "vjp_differences", "vjp_plain", "jvp_differences")


def test_forgotten_unbroadcast():
    # A general row folds for itself; this one forgets to.
    row = plant(product, "general", samples=samples(Sample((values(2, 3), values(3, seed=1)))))
    row.vjp("a")(lambda g, b: g * b)
    row.vjp("b")(lambda g, a: g * a)
    row.jvp(lambda ts, a, b: (0 if ts[0] is None else ts[0] * b) + (0 if ts[1] is None else a * ts[1]))
    must_break(row, "vjp_differences", "vjp_plain", "vmap_of_grad")


def test_nan_at_a_kink():
    def root(x):
        return jnp.where(x > 0, jnp.sqrt(x), jnp.zeros_like(x))

    row = plant(root, special=EDGES, torch="nn.functional.relu")
    row.vjp("x")(lambda g, x: jnp.where(x > 0, g, 0) * (jnp.abs(x) / x))
    pytest.importorskip("torch", reason="PyTorch is not installed")
    must_break(row, "special_points")


def test_nan_in_second_order_of_a_flat_tail():
    def tail(x):
        return jnp.tanh(x)

    row = plant(tail, special=(30.0,))
    # The branch not taken is infinite: 0·inf in its derivative.
    row.vjp("x")(lambda g, x: jnp.where(x > 20, 0, jnp.exp(jnp.exp(x))) * g)
    must_break(row, "special_points")


def test_wrong_jvp():
    row = plant(square, "general")
    row.vjp("x")(lambda g, x: 2 * x * g)
    row.jvp(lambda ts, x: 3 * x * ts[0])
    must_break(row, "jvp_differences", "adjoint", "hessians", "vjp_plain")


def test_residual_the_vjp_does_not_name():
    def grow(x):
        return jnp.exp(x)

    row = plant(grow, "general", samples=samples(Sample((values(2, 3),))))
    row.vjp("x")(lambda g, out: g * out)
    row.jvp(lambda ts, x: ts[0] * jnp.exp(x))
    must_break(row, "residuals")


def test_wrong_check():
    for lie in (lambda x: (x.shape, np.float32), lambda x: ((*x.shape, 1), x.dtype)):
        row = plant(square, check=lie)
        row.vjp("x")(lambda g, x: 2 * x * g)
        must_break(row, "check")


def test_wrong_batching():
    row = plant(lambda x: x.sum(), "linear", check=lambda x: ((), x.dtype), samples=samples(Sample((values(2, 3),))))
    row.vjp("x")(lambda g, avals: jnp.broadcast_to(g, avals[0].shape))
    row.batch(lambda size, args, dims, call: jnp.broadcast_to(args[0].sum(), (size,)))
    must_break(row, "vmap", "grad_of_vmap")


def test_not_linear():
    row = plant(square, "linear")
    row.vjp("x")(lambda g: g)
    must_break(row, "vjp_differences", "adjoint")


def test_scalar_baked_in():
    """A parameter that is not annotated is static, so another value is another program."""

    def scaled(x, *, c):
        return x * c

    row = plant(scaled, samples=samples(Sample((values(2),), {"c": 2.0})), check=lambda x, *, c: (x.shape, x.dtype))
    row.vjp("x")(lambda g, c: g * c)
    assert "runtime" not in set(applicable(row))
    with pytest.raises(Exception, match="hashable"):
        jax.jit(lambda x, c: row(x, c=c))(np.ones(2), 2.0)


def test_wrong_error():
    row = plant(square, errors=lambda: [Fails((values(2),), {}, ValueError, "never")])
    row.vjp("x")(lambda g, x: 2 * x * g)
    must_break(row, "errors")


def test_each_law_applies_somewhere():
    used = {name for row in runnable() for name in applicable(row)}
    assert used == set(LAWS)


# -- incomplete rows ----------------------------------------------------------------


def whole():
    row = plant(square)
    row.vjp("x")(lambda g, x: 2 * x * g)
    return row


def without_check(row):
    row.check_fn = None


def without_rule(row):
    row.rules.clear()


def rule_for_a_stranger(row):
    row.vjp("y")(lambda g: g)


def unknown_residual(row):
    row.vjp("x")(lambda g, nonsense: g)


def rules_of_a_constant(row):
    row.differentiable = False


def without_forward_mode(row):
    row.kind = "general"


def without_samples(row):
    row.samples = tuple


def without_section(section):
    def remove(row):
        row.__doc__ = row.__doc__.replace(section, "")

    return remove


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        pytest.param(without_check, "check", id="check"),
        pytest.param(without_rule, "vjp", id="no-rule"),
        pytest.param(rule_for_a_stranger, "vjp", id="stranger"),
        pytest.param(unknown_residual, "vjp", id="residual"),
        pytest.param(rules_of_a_constant, "vjp", id="constant-with-rules"),
        pytest.param(without_forward_mode, "jvp", id="jvp"),
        pytest.param(without_samples, "samples", id="samples"),
        *(pytest.param(without_section(s), "docstring", id=s) for s in ("Gradient:", "Source:", "Example:")),
    ],
)
def test_incomplete_row_is_refused(spoil, field):
    row = whole()
    seal(row)
    spoil(row)
    with pytest.raises(TypeError, match=f"{row.name}.*incomplete: {field}"):
        seal(row)


def test_two_rows_of_one_name():
    with pytest.raises(TypeError, match="twice"):
        register(OPS["exp"])
