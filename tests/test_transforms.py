"""tx.grad and friends: JAX's names, Tensors in and out, arrays in and out, any pytree."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx

X = np.array([[0.5, -1.0], [2.0, 0.25]], np.float32)


def cube(x):
    return (x * x * x).sum()


def both(value):
    return tx.tensor(value), jnp.asarray(value)


@pytest.mark.parametrize("x", both(X), ids=["tensor", "array"])
def test_grad_and_value_and_grad(x):
    value, gradient = tx.value_and_grad(cube)(x)
    assert type(gradient) is type(x)
    assert type(value) is type(x)
    np.testing.assert_allclose(np.asarray(gradient), 3 * X**2, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(tx.grad(cube)(x)), 3 * X**2, rtol=1e-6)
    np.testing.assert_allclose(float(value), (X**3).sum(), rtol=1e-6)


def test_argnums_aux_and_pytrees():
    def fn(params, y, scale):
        out = (params["w"] * y).sum() * scale
        return out, {"seen": params["w"] * 2}

    params = {"w": tx.tensor([1.0, 2.0])}
    y = tx.tensor([3.0, 4.0])
    (value, aux), (gp, gy) = tx.value_and_grad(fn, argnums=(0, 1), has_aux=True)(params, y, 2.0)
    assert value.item() == 22.0
    assert aux["seen"].tolist() == [2.0, 4.0]
    chex.assert_trees_all_equal_shapes_and_dtypes((gp, gy), (params, y))
    chex.assert_trees_all_close((gp, gy), ({"w": tx.tensor([6.0, 8.0])}, tx.tensor([2.0, 4.0])))
    gradient, aux = tx.grad(fn, has_aux=True)(params, y, scale=1.0)
    assert gradient["w"].tolist() == [3.0, 4.0]
    assert isinstance(aux["seen"], tx.Tensor)


def test_the_result_must_be_a_scalar():
    with pytest.raises(TypeError, match="scalar"):
        tx.grad(lambda x: x * 2)(tx.tensor([1.0, 2.0]))


def test_second_order_in_every_composition():
    x = tx.tensor([1.0, 2.0])
    want = np.diag([6.0, 12.0])
    for h in (
        tx.hessian(cube),
        tx.jacfwd(tx.grad(cube)),
        tx.jacrev(tx.grad(cube)),
        tx.jacfwd(tx.jacfwd(cube)),
        tx.jacrev(tx.jacfwd(cube)),
    ):
        np.testing.assert_allclose(h(x).numpy(), want, rtol=1e-6)
    assert tx.grad(lambda x: tx.grad(cube)(x).sum())(x).tolist() == [6.0, 12.0]


def test_jacobians_of_several_arguments():
    def fn(a, b):
        return a * b

    ja, jb = tx.jacrev(fn, argnums=(0, 1))(tx.tensor([1.0, 2.0]), tx.tensor([3.0, 4.0]))
    assert ja.tolist() == [[3.0, 0.0], [0.0, 4.0]]
    assert jb.tolist() == [[1.0, 0.0], [0.0, 2.0]]


def test_vjp_jvp_linearize():
    x, v = tx.tensor([1.0, 2.0]), tx.tensor([0.5, -1.0])
    out, pull = tx.vjp(lambda x: x * x, x)
    assert out.tolist() == [1.0, 4.0]
    assert pull(v)[0].tolist() == [1.0, -4.0]
    out, tangent = tx.jvp(lambda x: x * x, (x,), (v,))
    assert tangent.tolist() == [1.0, -4.0]
    out, push = tx.linearize(lambda x: x * x, x)
    assert push(v).tolist() == [1.0, -4.0]
    assert isinstance(out, tx.Tensor)


def test_vmap_axes_and_names():
    x = tx.tensor(X)
    assert tx.vmap(lambda r: r.sum())(x).tolist() == [-0.5, 2.25]
    assert tx.vmap(lambda r, s: r * s, in_axes=(1, None))(x, tx.tensor(2.0)).shape == (2, 2)
    np.testing.assert_allclose(tx.vmap(tx.grad(cube))(x).numpy(), 3 * X**2, rtol=1e-6)
    np.testing.assert_allclose(tx.grad(lambda x: tx.vmap(cube)(x).sum())(x).numpy(), 3 * X**2, rtol=1e-6)
    summed = tx.vmap(lambda r: tx.as_tensor(jax.lax.psum(r.jax(), "i")), axis_name="i")(x)
    np.testing.assert_allclose(summed.numpy(), np.broadcast_to(X.sum(0), X.shape))


def test_jit_sees_new_values_and_keeps_flags_apart():
    f = tx.jit(lambda x, y: (x * y).sum())
    assert f(tx.tensor([1.0, 2.0]), tx.tensor([3.0, 4.0])).item() == 11.0
    assert f(tx.tensor([1.0, 2.0]), tx.tensor([5.0, 4.0])).item() == 13.0
    x = tx.tensor([1.0, 2.0], requires_grad=True)
    f(x, tx.tensor([3.0, 4.0])).backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_checkpoint_recomputes_and_agrees():
    calls = []

    def fn(x):
        calls.append(1)
        return tx.sin(tx.sin(x)).sum()

    x = tx.tensor([0.3, -0.7])
    np.testing.assert_allclose(tx.grad(tx.checkpoint(fn))(x).numpy(), tx.grad(fn)(x).numpy(), rtol=1e-6)


def test_float64_with_the_flag_off():
    x = tx.tensor([1.0, 2.0], dtype=tx.float64)
    square = tx.jacfwd(lambda x: x * x)
    for g in (tx.grad(cube)(x), tx.hessian(cube)(x), square(x), tx.jit(cube)(x), tx.vmap(tx.sin)(x)):
        assert g.dtype == tx.float64
    assert not jax.config.jax_enable_x64


def test_raw_jax_inside_keeps_the_users_flag():
    seen = []

    def fn(x):
        seen.append(jnp.ones(2).dtype)
        return (x * tx.as_tensor(jnp.ones(2))).sum()

    assert tx.grad(fn)(tx.tensor([1.0, 2.0])).dtype == tx.float32
    assert set(seen) == {jnp.dtype("float32")}


class TestWithTheTape:
    """A transform's result belongs to the imperative graph when an argument does."""

    def test_the_value_differentiates(self):
        x = tx.tensor([1.0, 2.0], requires_grad=True)
        value, gradient = tx.value_and_grad(cube)(x)
        (value + (x * 2).sum()).backward()
        assert x.grad.tolist() == [5.0, 14.0]
        assert gradient.requires_grad

    def test_a_gradient_penalty_reaches_the_parameters(self):
        x = tx.tensor([1.0, 2.0], requires_grad=True)
        (tx.grad(cube)(x) ** 2).sum().backward()  # d/dx (3x²)² = 36x³
        np.testing.assert_allclose(x.grad.numpy(), [36.0, 288.0], rtol=1e-6)

    def test_vmap_and_history(self):
        x = tx.tensor(X, requires_grad=True)
        h = x * 2
        tx.vmap(cube)(h).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 2 * 3 * (2 * X) ** 2, rtol=1e-6)

    def test_under_no_grad_nothing_is_recorded_but_derivatives_are_taken(self):
        x = tx.tensor([1.0, 2.0], requires_grad=True)
        with tx.no_grad():
            gradient = tx.grad(cube)(x)
        assert gradient.tolist() == [3.0, 12.0]
        assert not gradient.requires_grad

    def test_a_captured_parameter_is_not_lost_in_silence(self):
        x, w = tx.tensor([1.0, 2.0]), tx.tensor([3.0, 4.0], requires_grad=True)
        with pytest.raises(tx.AutogradError, match="outside"):
            tx.grad(lambda x: (x * w).sum())(x)
        with pytest.raises(tx.AutogradError, match="outside"):
            tx.vmap(lambda r: r * w)(tx.tensor(X))
        with tx.no_grad():
            assert tx.grad(lambda x: (x * w).sum())(x).tolist() == [3.0, 4.0]
        assert tx.grad(lambda x: (x * w.detach()).sum())(x).tolist() == [3.0, 4.0]

    @pytest.mark.parametrize(
        "power",
        [
            lambda x: tx.jit(lambda x: x**4)(x),
            lambda x: tx.vmap(lambda r: r**4)(x),
            lambda x: tx.vjp(lambda x: x**4, x)[0],
            lambda x: tx.vjp(lambda x: x**5 / 5, x)[1](tx.ones(2).double())[0],
            lambda x: tx.vjp(lambda p: p * 1.0, x.detach())[1](x**4)[0],
            lambda x: tx.linearize(lambda x: x**4 / 4, x)[1](x),
            lambda x: tx.jvp(lambda x: x**4 / 4, (x,), (x,))[1],
            lambda x: tx.hessian(lambda x: (x**6).sum() / 30)(x).sum(1),
            lambda x: tx.jacfwd(tx.jacrev(lambda x: (x**6).sum() / 30))(x).sum(1),
        ],
        ids=["jit", "vmap", "vjp", "pullback", "cotangent", "pushforward", "jvp", "hessian", "jacfwd of jacrev"],
    )
    def test_as_many_derivatives_as_one_likes(self, power):
        x = tx.tensor([1.5, -2.0], dtype=tx.float64, requires_grad=True)
        at = np.array([1.5, -2.0])
        y = power(x)
        for want in (at**4, 4 * at**3, 12 * at**2, 24 * at):
            np.testing.assert_allclose(y.detach().numpy(), want, rtol=1e-12)
            (y,) = tx.autograd.grad(y.sum(), x, create_graph=True)

    def test_later_writes_do_not_reach_the_second_derivative(self):
        x, w = tx.tensor([1.0, 2.0], requires_grad=True), tx.tensor([3.0, 4.0])
        factor = np.array([2.0, 2.0], np.float32)
        results = [
            tx.vmap(lambda r, s: r * r * r * s)(x, w),
            tx.vmap(lambda r: r * r * r)(x) * tx.tensor([3.0, 4.0]),
            tx.jvp(lambda x: (x * w).sum() * x * x, (x,), (tx.ones(2),))[1],
            tx.jit(lambda x, f: x * x * x * f)(x, factor),
        ]
        first = [tx.autograd.grad(y.sum(), x, create_graph=True, retain_graph=True)[0] for y in results]
        want = [tx.autograd.grad(g.sum(), x, retain_graph=True)[0].tolist() for g in first]
        w.mul_(100)
        factor *= 100
        assert [tx.autograd.grad(g.sum(), x)[0].tolist() for g in first] == want
        assert want[0] == [18.0, 48.0]

    def test_a_function_that_cannot_be_staged_differentiates_once(self):
        def fn(r):
            return r * r if float(jnp.sum(jnp.ones(2))) > 1 else r

        x = tx.tensor([1.0, 2.0], requires_grad=True)
        y = tx.vmap(fn)(x).sum()
        (g,) = tx.autograd.grad(y, x, create_graph=True)
        assert g.tolist() == [2.0, 4.0]
        with pytest.raises(tx.AutogradError, match=r"differentiated once.*stages"):
            g.sum().backward()
        with pytest.raises(tx.AutogradError, match=r"vjp.*detach"):
            tx.vjp(fn, x)


def test_grad_mode_outside_does_not_reach_inside():
    with tx.no_grad():
        assert tx.grad(cube)(tx.tensor([1.0, 2.0])).tolist() == [3.0, 12.0]
        assert not tx.is_grad_enabled()


def test_an_exception_inside_restores_the_mode():
    def bad(x):
        raise KeyError("stop")

    with tx.no_grad():
        with pytest.raises(KeyError):
            tx.grad(bad)(tx.tensor([1.0]))
        assert not tx.is_grad_enabled()
    assert tx.is_grad_enabled()


def test_tensors_are_leaves_for_other_peoples_tree_tools():
    """chex walks our trees as it walks JAX's: a Tensor is a node with one array in it."""
    params = {"w": tx.tensor([1.0, 2.0], requires_grad=True), "b": tx.tensor(0.5)}
    doubled = jax.tree.map(lambda p: p * 2, params)
    chex.assert_trees_all_equal_structs(params, doubled)
    chex.assert_trees_all_close(doubled, {"w": tx.tensor([2.0, 4.0]), "b": tx.tensor(1.0)})
    chex.assert_tree_all_finite(params)
    with pytest.raises(AssertionError):
        chex.assert_trees_all_close(params, doubled)
