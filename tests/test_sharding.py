"""Rows on eight devices give what they give on one: under ``shard_map`` and on explicit meshes."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from tolerances import close
from torsh_fx import rules

N = 8

pytestmark = pytest.mark.skipif(jax.device_count() < N, reason="needs eight devices")


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).uniform(0.2, 0.9, shape).astype(np.float32)


BATCH = numbers(16, 4)
INDEX = np.random.default_rng(5).integers(0, 4, (16, 4))

# Functions of a batch sharded along its first axis and of weights on every device.
# ``local`` ones treat each row of the batch alone, so they also run under shard_map.
ELEMENTWISE = [n for n, r in rules.OPS.items() if r.kind == "elementwise" and r.tests and not r.params]


def elementwise(name):
    row = rules.OPS[name]
    n = len(row.operands)
    if name.startswith("bitwise"):  # on integers; the product has a gradient to compare

        def of_bits(x, w):
            whole = [rules.convert(rules.mul(a, 4.0), dtype="int64") for a in (x, w)]
            return rules.mul(rules.convert(row(*whole[:n]), dtype="float32"), rules.mul(x, w))

        return of_bits
    return lambda x, w: row(*(x, w, w + 0.1)[:n])


LOCAL = {
    **{name: (elementwise(name), numbers(4, seed=1)) for name in ELEMENTWISE},
    "mul_scalar": (lambda x, w: rules.mul_scalar(x * w, scalar=1.5), numbers(4)),
    "pow": (lambda x, w: rules.pow(x * w, exponent=3), numbers(4)),
    "clamp": (lambda x, w: rules.clamp(x * w, min=0.2, max=0.5), numbers(4)),
    "leaky_relu": (lambda x, w: rules.leaky_relu(x - w, negative_slope=0.1), numbers(4)),
    "matmul": (rules.matmul, numbers(4, 3)),
    "matmul-batched": (lambda x, w: rules.matmul(rules.reshape(x, shape=(-1, 2, 2)), w), numbers(2, 3)),
    "matmul-vector": (rules.matmul, numbers(4)),
    "sum_dim": (lambda x, w: rules.sum_dim(rules.mul(x, w), dims=[1]), numbers(4)),
    "mean_dim": (lambda x, w: rules.mean_dim(rules.mul(x, w), dims=[1], keepdim=True), numbers(4)),
    "amax": (lambda x, w: rules.amax(rules.mul(x, w), dims=[1]), numbers(4)),
    "softmax": (lambda x, w: rules.softmax(rules.mul(x, w), dim=1), numbers(4)),
    "log_softmax": (lambda x, w: rules.log_softmax(rules.mul(x, w), dim=1), numbers(4)),
    "permute": (
        lambda x, w: rules.permute(rules.reshape(rules.mul(x, w), shape=(-1, 2, 2)), axes=(0, 2, 1)),
        numbers(4),
    ),
    "reshape": (lambda x, w: rules.reshape(rules.mul(x, w), shape=(-1, 2, 2)), numbers(4)),
    "expand": (lambda x, w: rules.mul(x, rules.expand(w, shape=(x.shape[0], 4))), numbers(4)),
    "narrow": (lambda x, w: rules.narrow(rules.mul(x, w), dim=1, start=1, length=2), numbers(4)),
    "select": (lambda x, w: rules.select(rules.mul(x, w), dim=1, index=2), numbers(4)),
    "stride": (lambda x, w: rules.stride(rules.mul(x, w), dim=1, step=2), numbers(4)),
    "flip": (lambda x, w: rules.flip(rules.mul(x, w), dims=(1,)), numbers(4)),
    "clone": (lambda x, w: rules.clone(rules.mul(x, w)), numbers(4)),
    "convert": (
        lambda x, w: rules.convert(rules.mul(*(rules.convert(a, dtype="float64") for a in (x, w))), dtype="float32"),
        numbers(4),
    ),
    "concat": (lambda x, w: rules.concat(x, rules.mul(x, w), dim=1), numbers(4)),
    "stack": (lambda x, w: rules.stack(x, rules.mul(x, w), dim=1), numbers(4)),
    "where": (lambda x, w: rules.where(rules.gt(x, 0.5), x, w), numbers(4)),
    "take": (lambda x, w: rules.take(w, rules.convert(rules.mul(x, 4.0), dtype="int64"), dim=0), numbers(4)),
    "take-along-batch": (lambda x, w: rules.take(rules.mul(x, w), jnp.array([3, 0, 3]), dim=1), numbers(4)),
    "argmax": (
        lambda x, w: rules.mul(rules.convert(rules.argmax(x, dim=1, keepdim=True), dtype="float32"), rules.mul(x, w)),
        numbers(4),
    ),
    "take_along_dim": (
        lambda x, w: rules.take_along_dim(rules.mul(x, w), rules.convert(rules.mul(x, 4.0), dtype="int64"), dim=1),
        numbers(4),
    ),
    "conv1d": (lambda x, w: rules.conv1d(rules.reshape(x, shape=(-1, 1, 4)), w), numbers(2, 1, 3)),
}
# These mix the rows of the batch.
GLOBAL = {
    "sum": (lambda x, w: rules.sum(rules.mul(x, w)), numbers(4)),
    "mean": (lambda x, w: rules.mean(rules.mul(x, w)), numbers(4)),
    "sum_dim-batch": (lambda x, w: rules.sum_dim(rules.mul(x, w), dims=[0]), numbers(4)),
    "mean_dim-batch": (lambda x, w: rules.mean_dim(rules.mul(x, w), dims=[0], keepdim=True), numbers(4)),
    "matmul-over-batch": (lambda x, w: rules.matmul(rules.permute(x, axes=(1, 0)), rules.mul(x, w)), numbers(4)),
    "gather": (
        lambda x, w: rules.gather(rules.mul(x, w), index_map=[0, 63, 5, 5], shape=(4,)),
        numbers(4),
    ),
    "take-batch": (lambda x, w: rules.take(rules.mul(x, w), jnp.array([15, 0, 0]), dim=0), numbers(4)),
    "narrow-batch": (lambda x, w: rules.narrow(rules.mul(x, w), dim=0, start=3, length=8), numbers(4)),
    "flip-batch": (lambda x, w: rules.flip(rules.mul(x, w), dims=(0,)), numbers(4)),
    "concat-batch": (lambda x, w: rules.concat(x, rules.mul(x, w), dim=0), numbers(4)),
    "softmax-batch": (lambda x, w: rules.softmax(rules.mul(x, w), dim=0), numbers(4)),
}


def weight_of(out):
    """A weight per element, the same for every row of the batch, so that shards can be added."""
    if out.ndim < 2:
        return jnp.ones(out.shape, out.dtype)
    return jnp.cos(jnp.arange(int(np.prod(out.shape[1:])))).reshape(out.shape[1:]).astype(out.dtype)


def loss(f, x, w):
    out = f(x, w)
    if not jnp.issubdtype(out.dtype, jnp.floating):
        out = rules.convert(out, dtype="float32")
    # sin makes the cotangent depend on the value; plain jnp, so that only the row is on trial.
    return jnp.sum(jnp.sin(out.astype(jnp.float32)) * weight_of(out).astype(jnp.float32))


def on_one_device(f, w):
    graded = jax.jit(jax.value_and_grad(functools.partial(loss, f), argnums=(0, 1)))
    return graded(BATCH, w)


def gradable(name):
    row = rules.OPS.get(name)
    return row is None or (row.differentiable and row.name != "floor_divide")


@pytest.mark.parametrize("name", LOCAL)
def test_shard_map(name):
    f, w = LOCAL[name]
    mesh = jax.make_mesh((N,), ("d",), axis_types=(AxisType.Auto,))
    one = functools.partial(loss, f)

    def mapped(body, out_specs, check):
        return jax.shard_map(body, mesh=mesh, in_specs=(P("d"), P()), out_specs=out_specs, check_vma=check)

    def total(x, w):
        return jax.lax.psum(one(x, w), "d")

    def inside(check):
        def body(x, w):
            gx, gw = jax.grad(one, argnums=(0, 1))(x, w)
            # Without varying types JAX cannot know that w is shared: the user sums.
            return gx, gw if check else jax.lax.psum(gw, "d")

        return mapped(body, (P("d"), P()), check)

    if not gradable(name):
        close(jax.jit(mapped(total, P(), True))(BATCH, w), np.asarray(jax.jit(one)(BATCH, w)))
        return

    @jax.jit
    def everything(x, w):
        values = [mapped(total, P(), check)(x, w) for check in (True, False)]
        outside = [jax.grad(mapped(total, P(), check), argnums=(0, 1))(x, w) for check in (True, False)]
        return values, outside, [inside(check)(x, w) for check in (True, False)]

    value, grads = on_one_device(f, w)
    values, outside, within = everything(BATCH, w)
    for got in values:
        close(got, value)
    for which, found in zip(("outside", "inside"), (outside, within), strict=True):
        for check, got in zip((True, False), found, strict=True):
            for g, want in zip(got, grads, strict=True):
                close(g, want, gradient=True, what=f"gradient {which}, check_vma={check}")


@pytest.mark.parametrize("name", [*LOCAL, *GLOBAL])
def test_explicit_mesh(name):
    f, w = {**LOCAL, **GLOBAL}[name]
    mesh = jax.make_mesh((N,), ("d",))
    assert mesh.axis_types == (AxisType.Explicit,)
    one = functools.partial(loss, f)
    graded = jax.value_and_grad(one, argnums=(0, 1)) if gradable(name) else one
    want = jax.tree.leaves(jax.jit(graded)(BATCH, w))
    with jax.set_mesh(mesh):
        x = jax.device_put(BATCH, NamedSharding(mesh, P("d", None)))
        shared = jax.device_put(w, NamedSharding(mesh, P()))
        got = jax.jit(graded)(x, shared)
        if gradable(name):
            assert got[1][0].sharding.spec == P("d", None)
    for g, expected in zip(jax.tree.leaves(got), want, strict=True):
        close(g, expected, gradient=True)


@pytest.mark.parametrize("name", ["maximum", "pow_tensor", "matmul", "log_softmax", "take_along_dim", "amax"])
def test_explicit_mesh_second_order(name):
    f, w = LOCAL[name]
    mesh = jax.make_mesh((N,), ("d",))

    def slope(x, w):
        return sum(jnp.sum(jnp.cos(g)) for g in jax.grad(functools.partial(loss, f), argnums=(0, 1))(x, w))

    want = jax.jit(jax.grad(slope, argnums=(0, 1)))(BATCH, w)
    with jax.set_mesh(mesh):
        x = jax.device_put(BATCH, NamedSharding(mesh, P("d", None)))
        got = jax.jit(jax.grad(slope, argnums=(0, 1)))(x, jax.device_put(w, NamedSharding(mesh, P())))
    for g, expected in zip(got, want, strict=True):
        close(g, expected, gradient=True)


@pytest.mark.parametrize("name", ["maximum", "matmul", "sum_dim-batch", "gather"])
def test_explicit_mesh_outside_jit(name):
    f, w = {**LOCAL, **GLOBAL}[name]
    mesh = jax.make_mesh((N,), ("d",))
    graded = jax.value_and_grad(functools.partial(loss, f), argnums=(0, 1))
    want = jax.tree.leaves(graded(BATCH, w))
    with jax.set_mesh(mesh):
        x = jax.device_put(BATCH, NamedSharding(mesh, P("d", None)))
        got = jax.tree.leaves(graded(x, jax.device_put(w, NamedSharding(mesh, P()))))
    for g, expected in zip(got, want, strict=True):
        close(g, expected, gradient=True)


def test_two_explicit_axes():
    """Data and model parallel at once: the batch over one axis, the columns of a weight over the other."""
    w = numbers(4, 6)
    mesh = jax.make_mesh((4, 2), ("data", "model"))

    def total(x, w):
        return rules.sum(rules.mul(rules.tanh(rules.matmul(x, w)), 0.5))

    want = jax.value_and_grad(total, argnums=(0, 1))(BATCH, w)
    with jax.set_mesh(mesh):
        x = jax.device_put(BATCH, NamedSharding(mesh, P("data", None)))
        split = jax.device_put(w, NamedSharding(mesh, P(None, "model")))
        got = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))(x, split)
        assert got[1][1].sharding.spec == P(None, "model")
    for g, expected in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        close(g, expected, gradient=True)


def test_explicit_mesh_under_vmap():
    """Mapping over the sharded axis itself."""
    w = numbers(4, 3)
    mesh = jax.make_mesh((N,), ("d",))

    def f(x, w):
        return jnp.sum(jax.vmap(lambda row, w: rules.sin(rules.matmul(row, w)), (0, None))(x, w))

    want = jax.grad(f, argnums=(0, 1))(BATCH, w)
    with jax.set_mesh(mesh):
        x = jax.device_put(BATCH, NamedSharding(mesh, P("d", None)))
        got = jax.jit(jax.grad(f, argnums=(0, 1)))(x, jax.device_put(w, NamedSharding(mesh, P())))
    for g, expected in zip(got, want, strict=True):
        close(g, expected, gradient=True)


def test_second_order_under_shard_map():
    w = numbers(4, 3)
    mesh = jax.make_mesh((N,), ("d",), axis_types=(AxisType.Auto,))

    def total(w, x):
        return jax.lax.psum(jnp.sum(rules.tanh(rules.matmul(x, w))), "d")

    mapped = jax.shard_map(total, mesh=mesh, in_specs=(P(), P("d")), out_specs=P())
    plain = jax.hessian(lambda w: jnp.sum(jnp.tanh(BATCH @ w)))(w)
    close(jax.jit(jax.hessian(mapped))(w, BATCH), plain, gradient=True)


def test_results_do_not_depend_on_an_earlier_mesh():
    """The memo of abstract values is not shared between a mesh and none."""
    w = numbers(4)
    f = jax.grad(lambda w, x: rules.sum(rules.mul(rules.sin(x), w)))
    want = jax.jit(f)(w, BATCH)
    with jax.set_mesh(jax.make_mesh((N,), ("d",))):
        sharded = jax.jit(f)(w, jax.device_put(BATCH, P("d", None)))
    close(sharded, want)
    close(jax.jit(f)(w, BATCH), want)
