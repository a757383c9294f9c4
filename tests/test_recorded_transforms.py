"""value_and_grad and checkpoint in a plain loop: recorded, with the results that JAX's trace gives."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx
from torsh_fx import attempting, program, programs, transforms

X = [[0.5, -1.0], [2.0, 0.25]]


def T(data: Any, **options: Any) -> tx.Tensor:
    return tx.tensor(data, **options)


@pytest.fixture(autouse=True)
def nothing_given_up() -> None:
    attempting._traced.clear()


def outcome(run: Callable[[], Any]) -> Any:
    """What a call gives, as plain data: values, or what it raises."""
    tx.manual_seed(5)
    try:
        out = run()
    except Exception as error:
        return type(error), str(error)
    flat, tree = jax.tree.flatten(out, is_leaf=lambda t: isinstance(t, tx.Tensor))
    kinds = [type(t) for t in flat]
    wants = [t.requires_grad if isinstance(t, tx.Tensor) else None for t in flat]
    values = [np.asarray(t.detach() if isinstance(t, tx.Tensor) else t) for t in flat]
    return str(tree), kinds, [v.dtype for v in values], wants, values, tx.default_generator.get_state()


def compare(fn: Callable[..., Any], make: Callable[[], tuple[Any, ...]], recorded: bool | None, **options: Any) -> Any:
    """The same outcome on both ways; ``recorded`` is whether ``tx.value_and_grad`` held out, None if either will do."""
    attempting._traced.clear()
    argnums, has_aux = options.pop("argnums", 0), options.pop("has_aux", False)
    ours = outcome(lambda: tx.value_and_grad(fn, argnums, has_aux)(*make(), **options))
    gave_up = bool(attempting._traced) or len(ours) == 2  # its error is the trace's
    theirs = outcome(lambda: transforms._traced_value_and_grad(fn, argnums, has_aux, make(), options))
    if len(theirs) == 2:
        assert ours == theirs
    else:
        assert ours[:4] == theirs[:4]
        for a, b in zip(ours[4], theirs[4], strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
        assert ours[5] == theirs[5]
    if recorded is not None:
        assert gave_up != recorded
    return ours


def cube(x: tx.Tensor) -> tx.Tensor:
    return (x * x * x).sum()


class TestTheSameOnBothWays:
    @pytest.mark.parametrize("dtype", [tx.float32, tx.float64, tx.float16, tx.bfloat16], ids=str)
    def test_dtypes(self, dtype):
        compare(cube, lambda: (T(X).to(dtype),), True)

    @pytest.mark.parametrize("argnums", [0, 1, -1, (0, 1), (1, 0), [1]], ids=str)
    def test_argnums(self, argnums):
        compare(
            lambda a, b, c: (a * b * b).sum() * c,
            lambda: (T([1.0, 2.0]), T([3.0, 4.0]), 2.0),
            None if argnums == -1 else True,
            argnums=argnums,
        )

    def test_trees_aux_and_keywords(self):
        def fn(params, n, *, scale):
            h = params["layers"][0] @ params["layers"][1]
            return (h * h).mean() * scale, {"h": h, "n": n + 1, "max": h.argmax()}

        params = {"layers": [T(X), T([[1.0], [2.0]])], "unused": T([1.0])}
        compare(fn, lambda: (params, 3), True, has_aux=True, scale=T(0.5))

    def test_numbers_that_change(self):
        for n in (2, 3, 2.5):
            compare(lambda x, n: (x**2 * n).sum(), lambda n=n: (T(X), n), True)

    def test_an_argument_that_is_not_used(self):
        compare(lambda a, b: cube(a), lambda: (T(X), T([1.0, 2.0])), True, argnums=(0, 1))

    def test_draws(self):
        compare(lambda x: (x * tx.rand(2, 2)).sum(), lambda: (T(X),), True)
        compare(lambda x: (x * tx.rand(2, 2) * tx.as_tensor(jnp.sin(x.jax()))).sum(), lambda: (T(X),), False)

    @pytest.mark.parametrize("cut", ["detach", "no_grad", "data", "detach_"])
    def test_what_is_cut(self, cut):
        def fn(x):
            h = x * 2
            if cut == "no_grad":
                with tx.no_grad():
                    c = h * 1.0
            else:
                c = {"detach": h.detach, "data": lambda: h.data, "detach_": (h * 1).detach_}[cut]()
            return (c * x).sum()

        compare(fn, lambda: (T(X),), True)

    def test_writes_to_what_it_made(self):
        def fn(x):
            h = x * 2
            h *= x
            with tx.no_grad():
                h += 1
            total = tx.zeros(2, 2)
            total += h * h
            return total.sum()

        compare(fn, lambda: (T(X),), True)

    def test_an_argument_is_written_but_not_the_callers(self):
        def fn(x, y):
            x *= 2
            return (x * x * y).sum()

        x, y = T(X), T(X)
        compare(fn, lambda: (x, y), False)
        assert x.tolist() == X

    def test_a_write_to_a_tensor_from_outside(self):
        count, seen = tx.zeros(()), tx.zeros(2, 2)

        def counting(x):
            count.add_(1)
            return cube(x)

        compare(counting, lambda: (T(X),), False)
        assert count.item() == 2.0  # once on each way

        def keeping(x):
            with tx.no_grad():
                seen.copy_(x * 2)
            return cube(x)

        compare(keeping, lambda: (T(X),), False)
        assert seen.tolist() == (2 * np.array(X)).tolist()

        def leaking(x):
            seen.data = x * 3
            return cube(x)

        compare(leaking, lambda: (T(X),), False)

    @pytest.mark.parametrize(
        "look",
        [
            lambda x: x.jax(),
            lambda x: jax.tree.leaves(x)[0],
            lambda x: jax.tree.leaves({"h": x * 2})[0] / 2,
            lambda x: x.detach().jax() + x.jax() * 0,
            lambda x: tx.jit(lambda x: x * 1)(x).jax(),
        ],
    )
    def test_a_value_that_is_taken_out_keeps_its_gradient(self, look):
        compare(lambda x: tx.as_tensor(jnp.sin(look(x))).sum() + cube(x), lambda: (T(X),), False)

    def test_taken_out_of_an_intermediate(self):
        compare(lambda x: tx.as_tensor(jnp.sin((x * 2).jax())).sum() + cube(x), lambda: (T(X),), False)

    @pytest.mark.parametrize(
        "look",
        [
            lambda x: bool(x.sum() > 0),
            lambda x: x.detach().numpy(),
            lambda x: (x.argmax() + 0).item(),
            lambda x: repr(x) and x.tolist(),
            lambda x: x[x > 0].sum(),
        ],
    )
    def test_a_look_at_a_value_is_the_same_or_the_same_error(self, look):
        compare(lambda x: (cube(x), look(x))[0], lambda: (T(X),), False)

    def test_a_swallowed_error_does_not_hide_that_it_gave_up(self):
        def fn(x):
            try:
                scale = float(x.sum())
            except BaseException:
                scale = 7.0
            return cube(x) * scale

        got = compare(fn, lambda: (T(X),), False)
        assert got[4][0] == 7 * np.float32((np.array(X) ** 3).sum())

    def test_questions_about_the_graph(self):
        compare(lambda x: cube(x) * (2.0 if x.requires_grad else 3.0), lambda: (T(X),), False)
        compare(lambda x: cube(x) * (2.0 if (x * 2).is_leaf else 3.0), lambda: (T(X),), False)
        compare(lambda x: cube(x) * (2.0 if (x * 2).grad_fn is None else 3.0), lambda: (T(X),), False)

    def test_a_backward_inside(self):
        def fn(x):
            p = T([[3.0, 4.0]], requires_grad=True)
            (p * p * x.detach()).sum().backward()
            return (p.grad * x).sum()

        compare(fn, lambda: (T(X),), False)

    @pytest.mark.parametrize("transform", [tx.jit, tx.vmap, tx.checkpoint])
    def test_a_transform_inside(self, transform):
        recorded = transform is tx.checkpoint
        compare(lambda x: transform(lambda r: tx.sin(r) * 2)(x).sum() + cube(x), lambda: (T(X),), recorded)

    def test_foreign_control_flow_that_uses_an_argument(self):
        def fn(x):
            out, _ = jax.lax.scan(
                lambda s, _: (s + (tx.as_tensor(s) * x).jax(), None), jnp.ones((2, 2)), None, length=2
            )
            return tx.as_tensor(out).sum()

        compare(fn, lambda: (T(X),), False)

    def test_draws_are_taken_back_however_it_ends(self):
        compare(lambda x: tx.rand(()) * 2, lambda: (T(X),), False)
        compare(lambda x: x * tx.rand(2, 2), lambda: (T(X),), False)
        compare(
            lambda x: ((x * tx.rand(2, 2)).sum(), T(X, requires_grad=True) * 2), lambda: (T(X),), True, has_aux=True
        )

    def test_custom_ops(self):
        plain, known = tx.custom_op("plain", jnp.sin), tx.custom_op("known", jnp.sin)
        known.register_vjp(lambda g, x: jnp.cos(x) * g)
        compare(lambda x: known(x).sum(), lambda: (T(X),), True)
        compare(lambda x: plain(x).sum(), lambda: (T(X),), False)

    @pytest.mark.parametrize(
        "fn",
        [
            lambda x: x * 2,
            lambda x: x.argmax(),
            lambda x: 3.0,
            lambda x: tx.ones(()),
            lambda x: x["a"],
            lambda x: (x, x),
        ],
    )
    def test_results_and_errors_that_are_not_usual(self, fn):
        compare(fn, lambda: (T(X),), False)

    @pytest.mark.parametrize(
        "args", [(T([1, 2]),), (jnp.ones(2),), (None,), ()], ids=["ints", "array", "none", "missing"]
    )
    def test_arguments_that_are_not_usual(self, args):
        compare(lambda *a: cube(T([1.0]) if a[0] is None else a[0] * 1.0), lambda: args, None)

    def test_captured_tensors(self):
        w, x = T([1.0, 2.0], requires_grad=True), T([3.0, 4.0])
        assert compare(lambda x: (x * w).sum(), lambda: (x,), False)[0] is tx.AutogradError
        assert compare(lambda x: (x.sum(), w * 2), lambda: (x,), False, has_aux=True)[0] is tx.AutogradError
        compare(lambda x: (x * w.detach()).sum(), lambda: (x,), True)
        with tx.no_grad():
            compare(lambda x: (x * w * w).sum(), lambda: (x,), True)
        assert w.grad is None

    def test_an_error_of_the_users(self):
        def fn(x):
            raise KeyError("mine")

        assert compare(fn, lambda: (T(X),), False)[0] is KeyError
        assert tx.is_grad_enabled()

    def test_one_tensor_twice(self):
        x = T(X)
        compare(lambda a, b: (a * a * b).sum(), lambda: (x, x), True, argnums=(0, 1))

    def test_pending_arguments_and_views(self):
        compare(lambda a: cube(a), lambda: (T(X) * 2,), True)
        compare(lambda a: cube(a), lambda: (T(X)[0],), True)

    def test_nested(self):
        compare(lambda x: tx.grad(cube)(x).sum(), lambda: (T(X),), True)
        compare(lambda x: tx.grad(lambda y: tx.grad(lambda z: (z**4).sum())(y).sum())(x).sum(), lambda: (T(X),), True)
        compare(lambda x: tx.grad(lambda y: (x * y * y).sum())(x * 2).sum(), lambda: (T(X),), False)
        compare(lambda x: tx.grad(lambda y: (x * y * y).sum())(T(X)).sum(), lambda: (T(X),), False)


class TestWithHistory:
    def test_the_same_values(self):
        compare(lambda x, y: (x * x * y).sum(), lambda: (T(X, requires_grad=True), T(X)), True, argnums=(0, 1))
        compare(lambda x, y: (x * x * y).sum(), lambda: (T(X), T(X, requires_grad=True) * 2), True)
        compare(lambda x: ((x * x).sum(), x * 3), lambda: (T(X, requires_grad=True),), True, has_aux=True)

    def test_gradients_reach_every_argument(self):
        def grads(value_and_grad):
            x, y = T(X, requires_grad=True), T(X, requires_grad=True)
            (value, aux), (gx,) = value_and_grad(x, y * 2)
            (value + (aux * aux).sum() + (gx**3).sum()).backward()
            return x.grad.tolist(), y.grad.tolist()

        def fn(x, y):
            return (x * x * y).sum(), x * y

        ours = grads(tx.value_and_grad(fn, (0,), True))
        assert not attempting._traced
        np.testing.assert_allclose(
            ours, grads(lambda *a: transforms._traced_value_and_grad(fn, (0,), True, a, {})), rtol=1e-5
        )

    def test_as_many_orders_as_one_likes(self):
        x = T([1.0, 2.0], requires_grad=True)
        (g,) = (tx.grad(lambda x: (x**4).sum())(x),)
        (h,) = tx.autograd.grad(g.sum(), x, create_graph=True)
        (t,) = tx.autograd.grad(h.sum(), x)
        np.testing.assert_allclose(h.tolist(), [12.0, 48.0])
        np.testing.assert_allclose(t.tolist(), [24.0, 48.0])

    def test_a_product_with_the_hessian(self):
        x, v = T([1.0, 2.0], requires_grad=True), T([0.5, -1.0])
        (hv,) = tx.autograd.grad((tx.grad(cube)(x) * v).sum(), x)
        np.testing.assert_allclose(hv.tolist(), [3.0, -12.0])

    def test_what_would_lose_its_place_is_traced(self):
        compare(lambda x, y: cube(x), lambda: (T(X, requires_grad=True), T(X, requires_grad=True)), False)
        compare(lambda x: (x * 2).sum(), lambda: (T(X, requires_grad=True),), False)
        w = T(X, requires_grad=True)
        assert compare(lambda x: (x * w).sum(), lambda: (w,), False)[0] is tx.AutogradError


class TestALoop:
    def test_compiles_nothing_after_its_third_step(self):
        def loss(params, x, scale):
            return (((tx.tanh(x @ params["w"]) + params["b"]) ** 2).mean() * scale), x.shape[0]

        step = tx.value_and_grad(loss, has_aux=True)
        params = {"w": tx.randn(3, 4), "b": tx.zeros(4)}
        for k in range(10):
            if k == 3:
                before = tx.stats()
            (value, n), grads = step(params, tx.randn(5, 3), 0.5 + k)
            params = {name: p - (0.1 / (k + 1)) * grads[name] for name, p in params.items()}
            assert not value.requires_grad
            assert n == 5
        after = tx.stats()
        assert after["xla programs compiled"] == before["xla programs compiled"]
        assert after["misses"] == before["misses"]
        assert after["programs run"] - before["programs run"] == 7

    def test_a_new_function_each_step_is_known_too(self):
        w = tx.randn(3)
        for k in range(8):
            if k == 3:
                before = tx.stats()["xla programs compiled"]
            x = tx.randn(3)
            w = w - 0.1 * tx.grad(lambda w, x=x: ((w * x).sum() - 1) ** 2)(w)
        assert tx.stats()["xla programs compiled"] == before

    def test_the_same_ops_by_other_arguments_are_not_mixed_up(self):
        a, b = T([1.0, 2.0]), T([3.0, 4.0])
        w = T([3.0, 4.0], requires_grad=True)

        def fn(a, b):
            return (a * a * b).sum()

        for _ in range(3):
            assert tx.grad(fn, (0, 1))(a, b)[1].tolist() == [1.0, 4.0]
            assert tx.grad(fn, 0)(a, b).tolist() == [6.0, 16.0]
            assert tx.grad(fn, 1)(a, b).tolist() == [1.0, 4.0]
            assert [g.tolist() for g in tx.grad(lambda b, a: fn(a, b), (0, 1))(b, a)] == [[1.0, 4.0], [6.0, 16.0]]
            with tx.no_grad():
                assert tx.grad(lambda a: fn(a, w))(a).tolist() == [6.0, 16.0]
        assert w.grad is None

    def test_a_function_that_was_given_up_is_called_once_from_then_on(self):
        calls = []

        def fn(x):
            calls.append(1)
            return tx.as_tensor(jnp.sin(x.jax())).sum()

        tx.grad(fn)(T(X))
        assert len(calls) == 2
        tx.grad(fn)(T(X))
        assert len(calls) == 3

    def test_a_deferred_index_check_still_speaks(self):
        def fn(x, i):
            return x[i + 0].sum()

        with pytest.raises(tx.OutOfRangeError):
            tx.grad(fn)(T([1.0, 2.0]), T([5]))
        assert tx.grad(fn)(T([1.0, 2.0]), T([1])).tolist() == [0.0, 1.0]


def block(x: tx.Tensor, w: tx.Tensor) -> tx.Tensor:
    return tx.tanh(tx.tanh(x @ w) @ w)


def train(block: Callable[..., Any], how: str, blocks: int = 3) -> list[Any]:
    """Loss and gradients of a chain of blocks."""
    tx.manual_seed(1)
    weights = [tx.randn(4, 4, dtype=tx.float64, requires_grad=True) for _ in range(blocks)]
    h = x = tx.randn(5, 4, dtype=tx.float64)
    for w in weights:
        h = block(h, w)
    loss = (h * h).sum()
    if how == "read":
        loss.item()
    if how == "retain":
        loss.backward(retain_graph=True)
        x = x + 1  # something else in between
        x.tolist()
    if how == "retain, read":
        loss.item()
        loss.backward(retain_graph=True)
        loss.backward(retain_graph=True)
    if how == "create_graph":
        grads = tx.autograd.grad(loss, weights, create_graph=True)
        loss = sum((g * g).sum() for g in grads)
    if how == "read, create_graph":
        loss.item()
        grads = tx.autograd.grad(loss, weights, create_graph=True)
        loss = sum((g * g).sum() for g in grads)
    loss.backward()
    out = [loss.item(), *(w.grad.numpy() for w in weights)]
    with pytest.raises(tx.AutogradError, match="freed"):
        loss.backward()
    return out


HOW = ["plain", "read", "retain", "retain, read", "create_graph", "read, create_graph"]


class TestCheckpoint:
    @pytest.mark.parametrize("how", HOW)
    def test_the_same_gradients(self, how):
        for a, b in zip(train(tx.checkpoint(block), how), train(block, how), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        assert not attempting._traced

    @pytest.mark.parametrize(("how", "inner"), [*zip(HOW, ["first", "last", "both"] * 2, strict=True)])
    def test_nested_and_random(self, how, inner):
        def drop(x, w):
            return tx.tanh(x @ w) * (tx.rand(5, 4) > 0.3).to(tx.float64)

        def make(wrap):
            a = wrap(drop) if inner != "last" else drop
            b = wrap(drop) if inner != "first" else drop
            return lambda x, w: tx.sin(b(tx.exp(a(x, w) * 0.1), w))

        once = train(make(lambda f: f), how)
        for a, b in zip(train(tx.checkpoint(make(tx.checkpoint)), how), once, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        assert not attempting._traced

    def test_a_loop_compiles_nothing_after_its_third_step(self):
        for how in ("plain", "retain, read"):
            for k in range(5):
                if k == 3:
                    before = tx.stats()["xla programs compiled"]
                train(tx.checkpoint(block), how)
            assert tx.stats()["xla programs compiled"] == before

    @pytest.mark.parametrize("how", ["plain", "read"])
    def test_in_segments_and_op_by_op(self, how, monkeypatch):
        want = train(block, how)
        monkeypatch.setattr(program, "WHOLE", 10)
        monkeypatch.setattr(program, "SEGMENT", 6)
        tx.clear_cache()
        for a, b in zip(train(tx.checkpoint(block), how), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        monkeypatch.undo()
        tx.clear_cache()
        monkeypatch.setattr(programs.CACHE, "credit", 0.0)
        before = programs.CACHE.credit
        for a, b in zip(train(tx.checkpoint(block), how), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        assert before < 1

    def test_a_result_that_nobody_uses_and_one_that_is_held(self):
        x = T(X, requires_grad=True)
        f = tx.checkpoint(lambda x: (tx.tanh(x), tx.sin(x).exp()))
        kept = f(x)
        f(x)[0].sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 1 - np.tanh(np.float32(X)) ** 2, rtol=1e-5)
        x.grad = None
        kept[1].sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.exp(np.sin(X)) * np.cos(X), rtol=1e-5)

    def test_two_roots_over_one_region(self):
        def grads(wrap):
            x = T(X, requires_grad=True)
            a, b = wrap(lambda x: (tx.tanh(tx.sin(x)) * x, tx.exp(tx.sin(x)) * x))(x)
            a, b = a.sum(), b.sum()
            first = a.item()
            (a * 2).backward()
            (b * 3).backward()
            return first, x.grad.numpy()

        np.testing.assert_allclose(grads(tx.checkpoint)[1], grads(lambda f: f)[1], rtol=1e-5)

    def test_indices_and_deferred_checks_inside(self):
        def fn(x, i):
            return tx.sin(x[i + 0]) * tx.sin(tx.sin(x))[i + 1]

        for read in (False, True):
            got = []
            for f in (fn, tx.checkpoint(fn)):
                x = T([0.1, 0.2, 0.3], requires_grad=True)
                y = f(x, T([0, 1, 0])).sum()
                if read:
                    y.item()
                y.backward()
                got.append(x.grad.tolist())
            np.testing.assert_allclose(got[1], got[0], rtol=1e-6)
        assert not attempting._traced

    def test_parameters_that_it_closes_over(self):
        w, x = T(X, requires_grad=True), T(X)
        tx.checkpoint(lambda x: tx.tanh(x @ w).sum())(x).backward()
        other = T(X, requires_grad=True)
        tx.tanh(x @ other).sum().backward()
        assert w.grad.tolist() == other.grad.tolist()

    def test_a_value_that_is_taken_out_keeps_its_gradient(self):
        x = T(X, requires_grad=True)
        tx.checkpoint(lambda x: tx.as_tensor(jnp.sin(x.jax())).sum())(x).backward()
        np.testing.assert_allclose(x.grad.numpy(), np.cos(X), rtol=1e-6)
        assert attempting._traced

    def test_a_read_inside_says_what_to_do(self):
        x = T(X, requires_grad=True)
        with pytest.raises(tx.AutogradError, match="return it from the function"):
            tx.checkpoint(lambda x: x.sum() * (x.sum().item() + 1))(x)
        (x * 2).sum().backward()
        assert x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]

    def test_a_write_inside_is_not_the_callers(self):
        def fn(h):
            h *= 2
            return (h * h).sum()

        x = T(X, requires_grad=True)
        h = x * 1
        tx.checkpoint(fn)(h).backward()
        assert h.tolist() == X
        np.testing.assert_allclose(x.grad.numpy(), 8 * np.array(X))

    def test_options_and_switches(self):
        x = T(X, requires_grad=True)
        for options in ({"policy": jax.checkpoint_policies.everything_saveable}, {"prevent_cse": False}):
            x.grad = None
            tx.checkpoint(cube, **options)(x).backward()
            np.testing.assert_allclose(x.grad.numpy(), 3 * np.array(X) ** 2, rtol=1e-6)
        with tx.no_grad():
            assert not tx.checkpoint(cube)(x).requires_grad
        with tx.eager():
            assert tx.checkpoint(cube)(x).requires_grad
        np.testing.assert_allclose(
            jax.grad(lambda a: tx.checkpoint(cube)(tx.as_tensor(a)).jax())(jnp.array(X)),
            3 * np.array(X) ** 2,
            rtol=1e-6,
        )


MEASURE = """
import re, sys
import jax
import torsh_fx as tx
from torsh_fx import program

seen = []
jit = jax.jit

def spy(function, **options):
    made = jit(function, **options)
    def run(*args):
        seen.append(made.lower(*args).compile())
        return made(*args)
    return run

program.jax = type("jax", (), {**vars(jax), "jit": spy})
weights = [tx.randn(64, 64, requires_grad=True) for _ in range(8)]
for read in (False, True):
    for wrap in (lambda f: f, tx.checkpoint):
        block = wrap(lambda h, w: tx.tanh(tx.tanh(tx.tanh(h @ w) @ w) @ w))
        del seen[:]
        h = tx.randn(256, 64)
        for w in weights:
            h = block(h, w)
        loss = (h * h).sum()
        if read:
            loss.item()
        loss.backward()
        texts = [c.as_text() for c in seen]
        print(sum(len(re.findall(r"= \\S+ tanh\\(", t)) for t in texts),
              seen[-1].memory_analysis().temp_size_in_bytes, seen[0].memory_analysis().output_size_in_bytes)
        for w in weights:
            w.grad = None
"""


def test_a_checkpoint_really_recomputes():
    """In a process of its own, with all of XLA's optimisations."""
    env = {k: v for k, v in os.environ.items() if k not in ("JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS")}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], env={**env, "JAX_PLATFORMS": "cpu"}, capture_output=True, text=True, check=True
    )
    rows = [[int(n) for n in re.findall(r"\d+", line)] for line in done.stdout.splitlines()]
    (kept, kept_bytes, _), (again, again_bytes, _), (split, _, out), (split_again, _, out_again) = rows
    assert kept == split == 24
    assert again >= 44  # of the last block's last tanh the value is at hand
    assert split_again >= 24 + 16
    assert again_bytes < 0.75 * kept_bytes
    assert out_again < 0.5 * out
