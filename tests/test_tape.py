"""Recording, listing, replaying: what ran, as a pure JAX function."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx


def net(x, w):
    return tx.log_softmax(tx.tanh(x @ w), 1).mean()


def inputs():
    rng = np.random.default_rng(0)
    return tx.tensor(rng.normal(size=(4, 3)).astype("f")), tx.tensor(rng.normal(size=(3, 2)).astype("f"))


def test_a_recorded_function_replays_under_every_transform():
    x, w = inputs()
    tape = tx.record(net)(x, w)
    f = tape.as_jax()
    a, b = x.jax(), w.jax()
    np.testing.assert_allclose(f(a, b), net(x, w).item(), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(f)(a, b), f(a, b), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(f, 1)(a, b), tx.grad(net, 1)(x, w).numpy(), rtol=1e-5, atol=1e-7)
    stacked = jnp.stack([a, 2 * a])
    np.testing.assert_allclose(jax.vmap(f, (0, None))(stacked, b), [f(a, b), f(2 * a, b)], rtol=1e-6)


def test_the_jaxpr_reads_as_the_ops():
    x, w = inputs()
    text = str(tx.record(net)(x, w).jaxpr())
    for name in ("matmul", "tanh", "log_softmax", "mean"):
        assert f" {name}[" in text


def test_the_listing_names_ops_shapes_and_lines():
    x, w = inputs()
    text = str(tx.record(net)(x, w))
    assert "in0: float32[4, 3]" in text
    assert "log_softmax(dim=1)" in text
    assert "test_tape.py:" in text
    assert text.splitlines()[-1].strip().startswith("return %")


def test_replay_gives_tensors_for_tensors_and_arrays_for_arrays():
    tape = tx.record(lambda x: x * 2)(tx.tensor([1.0, 2.0]))
    out = tape.replay(tx.tensor([3.0, 4.0]))
    assert isinstance(out, tx.Tensor)
    assert out.tolist() == [6.0, 8.0]
    assert isinstance(tape.replay(jnp.array([3.0, 4.0])), jax.Array)


def test_structures_of_arguments_and_results():
    tape = tx.record(lambda p, y: {"out": (p["a"] + y, p["b"])})({"a": tx.ones(2), "b": tx.zeros(2)}, tx.ones(2))
    out = tape.replay({"a": tx.ones(2) * 4, "b": tx.ones(2)}, tx.ones(2))
    assert out["out"][0].tolist() == [5.0, 5.0]
    assert out["out"][1].tolist() == [1.0, 1.0]
    with pytest.raises(tx.TorshError, match="structure"):
        tape.replay({"a": tx.ones(2)}, tx.ones(2))


class TestConstants:
    def test_they_are_listed_followed_and_rebound(self):
        w = tx.tensor([1.0, 2.0])
        tape = tx.record(lambda x: (x * w).sum())(tx.ones(2))
        (constant,) = tape.constants
        assert constant.tensor is w
        assert constant.shape == (2,)
        assert "const0: float32[2]" in str(tape)
        assert tape.replay(tx.ones(2)).item() == 3.0
        w *= 10
        assert tape.replay(tx.ones(2)).item() == 30.0  # never stale
        assert tape.replay(tx.ones(2), constants={0: tx.tensor([5.0, 5.0])}).item() == 10.0
        f = tape.as_jax(constants=True)
        np.testing.assert_allclose(jax.grad(f)([jnp.ones(2)], jnp.array([3.0, 4.0]))[0], [3.0, 4.0])

    def test_a_compiled_replay_freezes_the_tensor_it_read(self):
        w = tx.tensor([1.0, 2.0])
        f = jax.jit(tx.record(lambda x: (x * w).sum())(tx.ones(2)).as_jax())
        assert f(jnp.ones(2)) == 3.0
        with pytest.raises(tx.AutogradError, match="argument"):
            w *= 10

    def test_bad_bindings(self):
        w = tx.tensor([1.0, 2.0])
        tape = tx.record(lambda x: x * w)(tx.ones(2))
        with pytest.raises(tx.TorshError, match="constant 1"):
            tape.replay(tx.ones(2), constants={1: w})
        with pytest.raises(tx.ShapeMismatchError, match="constant 0"):
            tape.replay(tx.ones(2), constants={0: tx.ones(3)})


def test_inputs_that_do_not_fit():
    tape = tx.record(lambda x: x * 2)(tx.ones(2))
    with pytest.raises(tx.ShapeMismatchError, match="input 0"):
        tape.replay(tx.ones(3))
    with pytest.raises(tx.ArgumentTypeError, match="float32"):
        tape.replay(tx.ones(2, dtype=tx.float64))
    with pytest.raises(tx.TorshError, match="1 input"):
        tape.replay(tx.ones(2), tx.ones(2))


def test_the_context_manager_and_its_default_outputs():
    x = tx.tensor([1.0, 2.0])
    with tx.record(inputs=[x]) as tape:
        y = x * 3
        z = (y + 1).sum()
    assert z.item() == 11.0
    assert [n.call.name for n in tape.nodes] == ["mul_scalar", "add_scalar", "sum"]
    assert tape.replay(tx.tensor([2.0, 2.0])).item() == 14.0
    assert len(tape) == 3
    x * 5
    assert len(tape) == 3


def test_backward_inside_a_recorded_block_is_on_the_tape():
    x = tx.tensor([1.0, 2.0, 3.0])
    with tx.record(inputs=[x]) as tape:
        p = tx.tensor([1.0, 2.0, 3.0], requires_grad=True)
        (p * p * x).sum().backward()
        g = p.grad * 1.0
    assert g.tolist() == [2.0, 8.0, 18.0]
    assert "vjp(mul)" in str(tape)
    loss, again = tape.replay(tx.tensor([2.0, 2.0, 2.0]))  # what nothing in the block consumed
    assert loss.item() == 28.0
    assert again.tolist() == [4.0, 8.0, 12.0]


def test_a_training_step_with_in_place_updates_replays():
    def one_step(w, x):
        p = w.clone().detach().requires_grad_()
        loss = ((x * p) ** 2).sum()
        loss.backward()
        with tx.no_grad():
            p -= 0.1 * p.grad
        return p.detach()

    tape = tx.record(one_step)(tx.ones(2), tx.tensor([1.0, 2.0]))
    np.testing.assert_allclose(tape.replay(tx.tensor([2.0, 2.0]), tx.tensor([1.0, 2.0])).numpy(), [1.6, 0.4], rtol=1e-6)


def test_recorded_random_keys_are_replayed():
    tape = tx.record(lambda x: x + tx.rand(3))(tx.zeros(3))
    first, second = tape.replay(tx.zeros(3)), tape.replay(tx.zeros(3))
    assert first.tolist() == second.tolist()
    assert tx.rand(3).tolist() != first.tolist()


def test_one_tensor_given_twice_is_two_inputs():
    x = tx.tensor([1.0, 2.0])
    tape = tx.record(lambda a, b: a - b)(x, x)
    assert tape.replay(tx.tensor([5.0, 5.0]), x).tolist() == [4.0, 3.0]


def test_recording_survives_an_exception_and_is_closed():
    tapes = []

    def interrupted():
        with tx.record() as tape:
            tapes.append(tape)
            tx.ones(2) * 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    (tape,) = tapes
    size = len(tape)
    tx.ones(2) * 2
    assert len(tape) == size


def test_pending_constants_and_float64():
    w = tx.tensor([1.0, 2.0], dtype=tx.float64) * 3
    tape = tx.record(lambda x: x * w)(tx.ones(2, dtype=tx.float64))
    assert tape.replay(tx.ones(2, dtype=tx.float64)).dtype == tx.float64
    assert tape.replay(tx.ones(2, dtype=tx.float64)).tolist() == [3.0, 6.0]


def test_what_a_tape_cannot_follow_is_said():
    with pytest.warns(UserWarning, match="frozen"):
        tx.record(lambda x: x * (x.sum().item()))(tx.ones(2))
    with pytest.warns(UserWarning, match="frozen"):
        tx.record(lambda x: (x * 2)[x * 2 > 1])(tx.ones(2))
    with pytest.raises(tx.AutogradError, match="as_jax"):
        tx.record(lambda x: x * tx.grad(lambda y: (y * y).sum())(x))(tx.ones(2))
    with pytest.raises(tx.AutogradError, match="tracers"):
        tx.record(lambda x: x * tx.as_tensor(jax.jit(lambda a: (tx.as_tensor(a) * 2).jax())(jnp.ones(2))))(tx.ones(2))
    assert jax.jit(lambda a: tx.record(lambda x: x * 2)(tx.as_tensor(a)).replay(a * 3))(jnp.ones(2)).tolist() == [6, 6]


def test_looking_at_the_jaxpr_freezes_nothing():
    w = tx.tensor([1.0, 2.0])
    tape = tx.record(lambda x: x * w)(tx.ones(2))
    assert "mul" in str(tape.jaxpr())
    tx.crosscheck(lambda x: (x * w).sum(), tx.ones(2))
    w *= 2
    assert tape.replay(tx.ones(2)).tolist() == [2.0, 4.0]
