"""Tensors inside other people's traces: jit, vmap, grad, scan; and what must not leak out of them."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx


def test_ops_on_tracers_record_edges_so_backward_works_inside_jit():
    @jax.jit
    def gradient(a: jax.Array) -> jax.Array:
        x = tx.tensor(a, requires_grad=True)
        (x * x * x).sum().backward()
        return x.grad.jax()

    np.testing.assert_allclose(gradient(jnp.array([1.0, 2.0])), [3.0, 12.0])


def test_backward_inside_vmap():
    def gradient(a: jax.Array) -> jax.Array:
        x = tx.tensor(a, requires_grad=True)
        (x * x).sum().backward()
        return x.grad.jax()

    np.testing.assert_allclose(jax.vmap(gradient)(jnp.ones((3, 2))), 2 * np.ones((3, 2)))


def test_concrete_work_inside_a_trace_stays_concrete():
    kept = {}
    w = tx.tensor([1.0, 2.0])

    def user(a: jax.Array) -> jax.Array:
        kept["sum"] = (w * 3).sum()
        kept["item"] = kept["sum"].item()
        kept["zeros"] = tx.zeros(2)
        kept["made"] = tx.tensor([5.0])
        kept["index"] = w[tx.tensor([1])]
        return a + 1

    for transform in (jax.jit, jax.vmap, lambda f: jax.grad(lambda a: f(a).sum())):
        kept.clear()
        transform(user)(jnp.ones(3))
        assert kept["item"] == 9.0
        assert kept["sum"].item() == 9.0
        assert kept["zeros"].tolist() == [0.0, 0.0]
        assert kept["made"].tolist() == [5.0]
        assert kept["index"].tolist() == [2.0]


def test_a_tensor_read_by_a_foreign_jit_refuses_a_later_write():
    c = tx.tensor([1.0, 2.0])
    f = jax.jit(lambda a: (tx.as_tensor(a) * c).sum().jax())
    assert f(jnp.ones(2)) == 3.0
    with pytest.raises(tx.AutogradError, match="argument"):
        c += 1
    with pytest.raises(tx.AutogradError, match="argument"):
        c.zero_()
    assert c.tolist() == [1.0, 2.0]
    assert f(jnp.ones(2)) == 3.0


def test_what_a_foreign_jit_only_finds_waiting_may_still_be_written():
    w, x = tx.tensor([1.0, 2.0], requires_grad=True), tx.tensor([3.0, 4.0])
    (w * x).sum().backward()
    with tx.no_grad():
        w -= w.grad
    f = jax.jit(lambda a: (tx.as_tensor(a) * (tx.ones(2) + 1)).jax())  # computes the update along with the constant
    assert f(jnp.ones(2)).tolist() == [2.0, 2.0]
    with tx.no_grad():
        w -= w.grad
    x += 1
    assert w.tolist() == [-5.0, -6.0]
    assert x.tolist() == [4.0, 5.0]


@pytest.mark.parametrize("read", ["an op", "jax", "item"])
@pytest.mark.parametrize("late", [False, True])
def test_what_is_behind_a_constant_of_a_foreign_jit_refuses_a_later_write(read: str, late: bool):
    c, other = tx.tensor([1.0, 2.0]), tx.tensor([5.0, 6.0])
    d = other * 2  # waits when the trace begins

    def fn(a):
        t = None if late else tx.as_tensor(a)
        h, unread = c * 2 + 1, d * 2
        t = tx.as_tensor(a) if t is None else t
        if read == "an op":
            return (t * h).jax() + 0 * (t * 2).jax(), unread
        constant = h.jax() if read == "jax" else (h[0] + 0).item()
        return t.jax() * constant, unread

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = jax.jit(lambda a: fn(a)[0])(jnp.ones(2))
    assert out.tolist() == ([3.0, 3.0] if read == "item" else [3.0, 5.0])
    with pytest.raises(tx.AutogradError, match="argument"):
        c += 1
    other += 1
    assert c.tolist() == [1.0, 2.0]
    assert other.tolist() == [6.0, 7.0]


def test_a_view_read_by_a_foreign_jit_freezes_its_base():
    c = tx.tensor([1.0, 2.0])
    jax.jit(lambda a: (tx.as_tensor(a) * c[0]).jax())(jnp.ones(2))
    with pytest.raises(tx.AutogradError, match="argument"):
        c += 1


def test_scan_bodies_freeze_what_they_read():
    c = tx.tensor([1.0, 2.0])
    jax.lax.scan(lambda s, _: ((tx.as_tensor(s) * c).jax(), None), jnp.ones(2), None, length=2)
    with pytest.raises(tx.AutogradError, match="argument"):
        c += 1


def test_plain_grad_and_vmap_hold_nothing_and_freeze_nothing():
    c = tx.tensor([1.0, 2.0])
    jax.grad(lambda a: (tx.as_tensor(a) * c).sum().jax())(jnp.ones(2))
    jax.vmap(lambda a: (tx.as_tensor(a) * c).jax())(jnp.ones((2, 2)))
    c += 1
    np.testing.assert_allclose(jax.grad(lambda a: (tx.as_tensor(a) * c).sum().jax())(jnp.ones(2)), [2.0, 3.0])


def test_a_tracer_cannot_be_written_into_a_tensor_from_outside():
    out = tx.zeros(2)

    def leak(a: jax.Array) -> jax.Array:
        t = tx.as_tensor(a)
        out.copy_(t)
        return a

    for transform in (jax.jit, jax.vmap):
        with pytest.raises(tx.AutogradError, match="outside the trace"):
            transform(leak)(jnp.ones((2, 2)) if transform is jax.vmap else jnp.ones(2))
    assert out.tolist() == [0.0, 0.0]


def test_a_tracer_may_be_written_into_a_tensor_made_inside():
    def inside(a: jax.Array) -> jax.Array:
        acc = tx.zeros(2)
        acc += tx.as_tensor(a)
        acc *= 2
        return acc.jax()

    np.testing.assert_allclose(jax.jit(inside)(jnp.ones(2)), [2.0, 2.0])


def test_reading_a_traced_value_says_what_to_do():
    @jax.jit
    def read(a: jax.Array) -> jax.Array:
        return a if tx.as_tensor(a).sum() > 0 else -a

    with pytest.raises(tx.AutogradError, match="return it from the function"):
        read(jnp.ones(2))


def test_repr_of_a_traced_tensor():
    shown: list[str] = []
    jax.jit(lambda a: (shown.append(repr(tx.as_tensor(a))), a)[1])(jnp.ones(2))
    assert "traced" in shown[-1]
    assert "[2]" in shown[-1]


def test_data_dependent_shapes_are_a_typed_error_under_a_trace():
    with pytest.raises(tx.AutogradError, match="where"):
        jax.jit(lambda a: (tx.as_tensor(a)[tx.as_tensor(a) > 0]).jax())(jnp.ones(2))


@pytest.mark.parametrize("how", ["detach", "no_grad", "data"])
def test_what_is_cut_is_cut_on_all_three_ways(how: str):
    def fn(x: tx.Tensor) -> tx.Tensor:
        if how == "no_grad":
            with tx.no_grad():
                c = x * 1.0
        else:
            c = x.detach() if how == "detach" else x.data
        return (c * x).sum()

    x = tx.tensor([2.0, 3.0], requires_grad=True)
    fn(x).backward()
    plain = x.detach()
    for g in (
        x.grad,
        tx.grad(fn)(plain),
        tx.as_tensor(jax.grad(lambda a: fn(tx.as_tensor(a)).jax())(plain.jax())),
        tx.as_tensor(jax.grad(tx.record(fn)(plain).as_jax())(plain.jax())),
    ):
        assert g.tolist() == [2.0, 3.0]


def test_backward_inside_gives_constants_on_all_three_ways():
    def fn(x: tx.Tensor) -> tx.Tensor:
        p = tx.tensor([3.0, 4.0], requires_grad=True)
        (p * p * x.detach()).sum().backward()  # p.grad = 2·p·x, without a graph
        return (p.grad * x).sum()

    x = tx.tensor([1.0, 2.0], requires_grad=True)
    fn(x).backward()
    want = [6.0, 16.0]
    assert x.grad.tolist() == want
    assert tx.grad(fn)(x.detach()).tolist() == want
    assert tx.as_tensor(jax.grad(tx.record(fn)(x.detach()).as_jax())(x.detach().jax())).tolist() == want


def test_a_function_of_tensors_is_jitted_as_a_pytree():
    x = tx.tensor([1.0, 2.0])
    out = jax.jit(lambda t: t * 2)(x)
    assert isinstance(out, tx.Tensor)
    assert out.tolist() == [2.0, 4.0]


def test_requires_grad_does_not_show_in_the_tree():
    a, b = tx.tensor([1.0], requires_grad=True), tx.tensor([2.0])
    assert jax.tree.structure(a) == jax.tree.structure(b)
    assert jax.tree.map(lambda p, g: p - g, [a], [b])[0].tolist() == [-1.0]
    f = jax.jit(lambda t: t.jax() * 2)
    f(a), f(b)
    assert f._cache_size() == 1


def test_flattening_a_result_with_history_is_refused():
    y = tx.tensor([1.0], requires_grad=True) * 2
    with pytest.raises(tx.AutogradError, match="detach"):
        jax.tree.leaves(y)
    assert jax.tree.leaves(y.detach())[0].tolist() == [2.0]


def test_unflattening_takes_any_leaf_and_collapses_nesting():
    x = tx.tensor([1.0, 2.0])
    tree = jax.tree.structure(x)
    marker = object()
    assert jax.tree.leaves(jax.tree.unflatten(tree, [marker])) == [marker]
    assert jax.tree.unflatten(tree, [x]) is x
    assert jax.tree.map(lambda _: None, [x]) is not None
    assert jax.eval_shape(lambda t: t * 2, x).shape == (2,)


def test_a_draw_under_a_foreign_jit_needs_a_generator():
    with pytest.raises(tx.AutogradError, match="Generator"):
        jax.jit(lambda a: a + tx.rand(2).jax())(jnp.ones(2))
    f = jax.jit(lambda g, a: a * tx.rand(2, generator=g).jax())
    np.testing.assert_array_equal(f(tx.Generator(3), jnp.ones(2)), tx.rand(2, generator=tx.Generator(3)).numpy())
    assert not np.array_equal(f(tx.Generator(4), jnp.ones(2)), f(tx.Generator(3), jnp.ones(2)))


def test_foreign_code_in_a_custom_op_keeps_the_users_flags():
    seen = []

    def foreign(x: jax.Array) -> jax.Array:
        seen.append(jnp.ones(2).dtype)
        return x * jnp.ones(2)

    assert tx.custom_op("foreign", foreign)(tx.ones(2)).dtype == tx.float32
    assert set(seen) == {jnp.dtype("float32")}


def test_a_custom_op_runs_in_the_surroundings_it_was_called_in():
    seen = []

    def foreign(x: jax.Array) -> jax.Array:
        seen.append((jax.config.jax_default_matmul_precision, jax.config.jax_numpy_rank_promotion))
        return x * 2

    op = tx.custom_op("foreign", foreign)
    with jax.default_matmul_precision("bfloat16"), jax.numpy_rank_promotion("raise"):
        y = op(tx.ones(2))
    assert y.tolist() == [2.0, 2.0]  # read outside
    assert set(seen) == {("bfloat16", "raise")}
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("d")
    op = tx.custom_op("placed", lambda x: jax.lax.with_sharding_constraint(x * 2, spec))
    with jax.set_mesh(mesh):
        z = op(tx.ones(8))
    assert z.tolist() == [2.0] * 8
