"""64-bit types are real inside our functions and the user's flags hold outside of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from laws import drawing
from torsh_fx import rules

WIDE = np.array([1.0, 1.0 + 1e-12, 3.0])


@pytest.fixture(autouse=True)
def narrow():
    with jax.enable_x64(False):
        yield


@pytest.fixture
def wide():
    with jax.enable_x64(True):
        return jnp.asarray(WIDE)


def square(x):
    return rules.mul(x, x)


def test_flag_is_off():
    assert jnp.asarray(WIDE).dtype == jnp.float32


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda f, x: f(x), id="eager"),
        pytest.param(lambda f, x: jax.jit(f)(x), id="jit"),
        pytest.param(lambda f, x: jax.vmap(f)(jnp.stack([x, x])), id="vmap"),
        pytest.param(lambda f, x: jax.jit(jax.vmap(f))(jnp.stack([x, x])), id="jit-vmap"),
        pytest.param(lambda f, x: jax.lax.scan(lambda c, _: (c, f(c)), x, None, length=2)[1], id="scan"),
        pytest.param(lambda f, x: jax.lax.cond(True, f, f, x), id="cond"),
        pytest.param(lambda f, x: jax.checkpoint(f)(x), id="checkpoint"),
    ],
)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_indices_are_int64(run, name):
    out = run(rules.OPS[name], jnp.arange(3.0))
    assert out.dtype == np.int64
    assert set(np.asarray(out).reshape(-1).tolist()) == {2 if name == "argmax" else 0}


def test_integer_sums_are_int64():
    big = np.array([2**31 - 1, 1], np.int32)
    for f in (rules.sum, jax.jit(rules.sum), jax.jit(lambda x: rules.sum_dim(x, dims=[0]))):
        out = f(jnp.asarray(big))
        assert out.dtype == np.int64
        assert out.item() == 2**31


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda x: square(x), id="eager"),
        pytest.param(lambda x: jax.jit(square)(x), id="jit"),
        pytest.param(lambda x: jax.vmap(square)(x), id="vmap"),
        pytest.param(lambda x: jax.jit(jax.vmap(square))(x), id="jit-vmap"),
        pytest.param(lambda x: jax.lax.scan(lambda c, _: (c, square(c)), x, None, length=1)[1][0], id="scan"),
        pytest.param(lambda x: jax.checkpoint(square)(x), id="checkpoint"),
    ],
)
def test_float64_stays(run, wide):
    out = run(wide)
    assert out.dtype == np.float64
    np.testing.assert_allclose(np.asarray(out), WIDE * WIDE, rtol=1e-15)


@pytest.mark.parametrize(
    "transform",
    [
        pytest.param(lambda f: jax.grad(f), id="grad"),
        pytest.param(lambda f: jax.jit(jax.grad(f)), id="jit-grad"),
        pytest.param(lambda f: jax.jacfwd(f), id="jacfwd"),
        pytest.param(lambda f: lambda x: jax.vmap(jax.grad(f))(jnp.stack([x, x]))[0], id="vmap-grad"),
        pytest.param(lambda f: jax.grad(jax.checkpoint(f)), id="checkpoint"),
    ],
)
def test_gradients_stay_float64(transform, wide):
    out = transform(lambda x: rules.sum(rules.sin(square(x))))(wide)
    assert out.dtype == np.float64
    if out.shape == WIDE.shape:
        np.testing.assert_allclose(np.asarray(out), 2 * WIDE * np.cos(WIDE**2), rtol=1e-13)


def test_second_order_stays_float64(wide):
    def slope(x):
        return rules.sum(jax.grad(lambda v: rules.sum(rules.sin(square(v))))(x))

    out = jax.jit(jax.grad(slope))(wide)
    assert out.dtype == np.float64
    want = 2 * np.cos(WIDE**2) - 4 * WIDE**2 * np.sin(WIDE**2)
    np.testing.assert_allclose(np.asarray(out), want, rtol=1e-12)


def test_indices_beyond_32_bits(wide):
    with jax.enable_x64(True):
        far = jnp.asarray(np.array([2**40, 1]))
    for f in (rules.neg, jax.jit(rules.neg)):
        assert np.asarray(f(far)).tolist() == [-(2**40), -1]


def test_memo_is_not_shared_across_the_flag():
    """The same call, traced with the flag off, on, and off again."""
    x = np.arange(3, dtype=np.float32)
    for flag in (False, True, False):
        with jax.enable_x64(flag):
            for f in (rules.argmax, jax.jit(lambda v: rules.argmax(v)), jax.vmap(lambda v: rules.argmax(v[None]))):
                assert f(x).dtype == np.int64
            assert jax.jit(lambda v: rules.exp(v))(x).dtype == np.float32


def test_one_program_for_both_flags():
    """A function jitted once works under either flag."""
    f = jax.jit(lambda x: (rules.argmax(x), rules.mean(x)))
    for flag in (True, False):
        with jax.enable_x64(flag):
            index, mean = f(np.arange(4, dtype=np.float32))
            assert (index.dtype, mean.dtype) == (np.int64, np.float32)


def test_float32_is_not_widened_by_constants():
    x = np.linspace(0.5, 1, 4, dtype=np.float32)
    for row in (rules.gelu, rules.gelu_erf, rules.log10, rules.log2, rules.rsqrt, rules.mean):
        for flag in (False, True):
            with jax.enable_x64(flag):
                assert row(x).dtype == np.float32
                assert jax.grad(lambda v, row=row: rules.sum(row(v)))(x).dtype == np.float32


def test_scalars_are_rounded_once():
    x = np.array([0.1], np.float32)
    assert rules.clamp(x, max=0.1)[0] == x[0]
    assert jax.grad(lambda v: rules.sum(rules.clamp(v, max=0.1)))(x)[0] == 1
    assert rules.mul_scalar(np.float32(1), scalar=0.1) == np.float32(0.1)


def test_users_strictness_does_not_reach_the_rules():
    a, b = np.ones((2, 3), np.float32), np.ones(3, np.float64)
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        assert rules.add(a, b).dtype == np.float64
        f = jax.jit(jax.grad(lambda a, b: rules.sum(rules.mul(rules.sub(a, b), 2.0)), argnums=(0, 1)))
        assert [g.shape for g in f(a, b.astype(np.float32))] == [(2, 3), (3,)]
        mapped = jax.vmap(jax.grad(lambda x: rules.mean(rules.softmax(rules.matmul(a, x), dim=0))))
        assert mapped(np.ones((4, 3), np.float32)).shape == (4, 3)
        with pytest.raises(ValueError, match="rank_promotion"):
            jnp.asarray(a) + jnp.asarray(b)


def test_outside_the_users_flags_hold(wide):
    square(wide)
    jax.jit(jax.grad(lambda x: rules.sum(square(x))))(wide)
    with pytest.raises(rules.ShapeMismatchError):
        rules.add(np.ones(2), np.ones(3))
    assert jnp.ones(2).dtype == jnp.float32
    assert jnp.asarray(WIDE).dtype == jnp.float32
    assert jax.config.jax_enable_x64 is False

    def mixed(x):  # our op in the middle of the user's own code
        before = jnp.ones(3)
        return before, rules.mul(x, before), jnp.arange(3)

    found = jax.jit(mixed)(np.ones(3, np.float32))
    assert [a.dtype for a in found] == [np.float32, np.float32, np.int32]


def test_custom_op_runs_under_the_users_flag():
    seen = []

    def fn(x):
        seen.append(jnp.ones(2).dtype)
        return x * jnp.ones(())

    for flag, want in ((False, np.float32), (True, np.float64)):
        seen.clear()
        with jax.enable_x64(flag):
            rules.custom("probe", fn, np.ones(2, np.float32))
        assert set(seen) == {np.dtype(want)}


@pytest.mark.parametrize("row", drawing(), ids=lambda row: row.name)
def test_draws_depend_on_seed_and_counter_alone(row):
    samples = row.samples()
    wants = [np.asarray(row(**s.params)) for s in samples]
    for flag in (False, True):
        with jax.enable_x64(flag):
            for found in ([row(**s.params) for s in samples], jax.jit(lambda: [row(**s.params) for s in samples])()):
                for got, want in zip(found, wants, strict=True):
                    np.testing.assert_array_equal(np.asarray(got), want)
    for sample, want in zip(samples, wants, strict=True):
        other = np.asarray(row(**{**sample.params, "counter": sample.params["counter"] + 1}))
        assert other.dtype == want.dtype
        assert other.shape == want.shape
        if want.size > 4:
            assert (other != want).any()
    for fails in row.errors():
        with pytest.raises(fails.error, match=fails.match):
            row(*fails.args, **fails.params)
