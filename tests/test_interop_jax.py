"""JAX functions lifted to Tensors: the gradient is the plain JAX one, whatever way it is asked for."""

from __future__ import annotations

import copy
import functools
import gc
import operator
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from torsh_fx.interop.jax import Value, lift, lower
from torsh_fx.rules import ArgumentTypeError, AutogradError

import torsh_fx as tx
from torsh_fx.program import Program


def is_tensor(x: Any) -> bool:
    return isinstance(x, tx.Tensor)


def tensors(tree: Any) -> Any:
    """The arrays of a pytree as Tensors that require grad."""
    return jax.tree.map(lambda a: tx.tensor(np.asarray(a), requires_grad=True), tree)


def grads(tree: Any) -> Any:
    return jax.tree.map(lambda t: np.asarray(t.grad.jax()), tree, is_leaf=is_tensor)


def assert_close(got: Any, expected: Any, rtol: float = 2e-5) -> None:
    got, expected = jax.tree.leaves(got), jax.tree.leaves(expected)
    assert len(got) == len(expected) > 0
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6)


def count(fn: Callable[[], object]) -> dict[str, int]:
    before = tx.stats()
    fn()
    return {k: v - before[k] for k, v in tx.stats().items()}


RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 3)).astype(np.float32)
PARAMS = {"w": RNG.standard_normal((3, 2)).astype(np.float32), "b": np.zeros(2, np.float32)}


def model(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["w"] + params["b"])


def loss(params: Any, x: Any) -> Any:
    y = model(params, x)
    return {"loss": (y**2).mean(), "y": y}


def mixed(w: Any) -> Any:
    """Of Tensors: two results of one function, both used."""
    a, b = lift(two)(w, jnp.array([1.0, 3.0], jnp.float32))
    return a.sum() * b


def two(w: Any, v: Any) -> Any:
    return jnp.sin(w) * v, (w**3).sum()


def plain(w: Any) -> Any:
    a, b = two(w, jnp.array([1.0, 3.0], jnp.float32))
    return a.sum() * b


W = np.array([0.7, -1.2], np.float32)


class TestGradients:
    def test_of_a_tree_of_parameters(self):
        params = tensors(PARAMS)
        out = lift(loss)(params, X)
        assert is_tensor(out["y"])
        assert out["loss"].requires_grad
        out["loss"].backward()
        assert_close(grads(params), jax.grad(lambda p: loss(p, X)["loss"])(PARAMS))
        assert_close(out["y"].detach().numpy(), loss(PARAMS, X)["y"])

    @pytest.mark.parametrize(
        "way", ["backward", "autograd.grad", "tx.grad", "tx.jit", "replay", "jit of replay", "eager"]
    )
    def test_every_way(self, way: str):
        expected = jax.grad(plain)(jnp.asarray(W))
        w = tx.tensor(W, requires_grad=True)
        if way in ("backward", "eager"):
            with tx.eager() if way == "eager" else tx.enable_grad():
                mixed(w).backward()
            got = w.grad
        elif way == "autograd.grad":
            (got,) = tx.autograd.grad(mixed(w), w)
        elif way.startswith("tx"):
            of = tx.grad(mixed)
            got = (tx.jit(of) if way == "tx.jit" else of)(tx.tensor(W))
        else:
            of = jax.grad(tx.record(mixed)(tx.tensor(W)).as_jax())
            got = (jax.jit(of) if way.startswith("jit") else of)(jnp.asarray(W))
        assert_close(np.asarray(got.jax() if is_tensor(got) else got), expected)

    def test_crosscheck(self):
        report = tx.crosscheck(mixed, tx.tensor(W), reference=plain, torch=False)
        assert report.ok
        assert {r.verdict for r in report.rows} == {"ok"}

    def test_of_second_and_third_order(self):
        w = tx.tensor(W, requires_grad=True)
        (g,) = tx.autograd.grad(mixed(w), w, create_graph=True)
        (h,) = tx.autograd.grad((g * g).sum(), w, create_graph=True)
        h.sum().backward()
        second = jax.grad(lambda v: (jax.grad(plain)(v) ** 2).sum())
        assert_close(h.detach().numpy(), second(jnp.asarray(W)), 1e-4)
        assert_close(w.grad.numpy(), jax.grad(lambda v: second(v).sum())(jnp.asarray(W)), 1e-4)
        assert_close(tx.hessian(mixed)(tx.tensor(W)).numpy(), jax.hessian(plain)(jnp.asarray(W)), 1e-4)

    def test_batched(self):
        xs = np.stack([W, 2 * W, -W])
        assert_close(tx.vmap(mixed)(tx.tensor(xs)).numpy(), jax.vmap(plain)(jnp.asarray(xs)))
        got = tx.vmap(tx.grad(mixed))(tx.tensor(xs))
        assert_close(got.numpy(), jax.vmap(jax.grad(plain))(jnp.asarray(xs)))
        w = tx.tensor(W, requires_grad=True)
        a, b = lift(two)(w, jnp.ones(2))
        seeds = tx.tensor(np.eye(2, dtype=np.float32))
        (got,) = tx.autograd.grad((a * b,), w, (seeds,), is_grads_batched=True)
        jacobian = jax.jacrev(lambda v: (lambda a, b: a * b)(*two(v, jnp.ones(2))))(jnp.asarray(W))
        assert_close(got.numpy(), jacobian)

    def test_in_somebody_elses_jit(self):
        def inside(w: Any) -> Any:
            t = tx.as_tensor(w).requires_grad_()
            mixed(t).backward()
            return t.grad.jax()

        assert_close(jax.jit(inside)(jnp.asarray(W)), jax.grad(plain)(jnp.asarray(W)))
        assert_close(jax.jit(jax.grad(lambda w: mixed(tx.as_tensor(w)).jax()))(jnp.asarray(W)), jax.grad(plain)(W))

    def test_results_that_are_not_used_bring_no_nan(self):
        """They have no cotangent; one of zeros, times the infinite slope of a log at 0, would be NaN."""
        w = tx.zeros(2, requires_grad=True)
        used, _ = lift(lambda w: (w.sum(), jnp.log(w)))(w)
        used.backward()
        assert w.grad.tolist() == [1.0, 1.0]

    def test_only_what_requires_grad_gets_one(self):
        w, x = tx.tensor(W, requires_grad=True), tx.tensor(W)
        y, n = lift(lambda w, x, k: (w * x, k + 1))(w, x, tx.tensor([1, 2]))
        assert (y.requires_grad, n.requires_grad) == (True, False)
        y.sum().backward()
        assert x.grad is None
        with tx.no_grad():
            assert not lift(two)(w, W)[0].requires_grad
        assert not lift(two)(w.detach(), W)[0].requires_grad

    def test_an_aux_result_is_outside_the_graph(self):
        w = tx.tensor(W, requires_grad=True)
        fn = lift(lambda w, s: ((w * s).sum(), {"mean": 0.9 * s + 0.1 * w}), has_aux=True)
        state = jnp.ones(2)
        for _ in range(3):  # the next step's graph does not hang on the last one's
            w.grad = None
            y, aux = fn(w, state)
            assert (y.requires_grad, aux["mean"].requires_grad) == (True, False)
            y.backward()
            assert_close(w.grad.numpy(), np.asarray(state.jax() if is_tensor(state) else state))
            state = aux["mean"]
        with pytest.raises(ArgumentTypeError, match="has_aux"):
            lift(lambda w: w, has_aux=True)(w)

    def test_after_a_read_and_twice(self):
        w = tx.tensor(W, requires_grad=True)
        y = mixed(w)
        assert np.isfinite(y.item())
        y.backward(retain_graph=True)
        y.backward()
        assert_close(w.grad.numpy(), 2 * jax.grad(plain)(jnp.asarray(W)))
        with pytest.raises(AutogradError, match="freed"):
            y.backward()

    def test_in_place_writes_do_not_reach_what_was_used(self):
        w = tx.tensor(W, requires_grad=True)
        y = mixed(w)
        with tx.no_grad():
            w.mul_(100.0)
        y.backward()
        assert_close(w.grad.numpy(), jax.grad(plain)(jnp.asarray(W)))

    def test_hooks(self):
        w, seen = tx.tensor(W, requires_grad=True), []
        a, b = lift(two)(w, np.ones(2, np.float32))
        a.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
        (a.sum() + b).backward()
        assert seen == [[1.0, 1.0]]
        assert_close(w.grad.numpy(), 2 * np.cos(W) + 3 * W**2)

    def test_saved_tensors_hooks(self):
        w, packed = tx.tensor(W, requires_grad=True), []

        def pack(t: Any) -> Any:
            packed.append(t.shape)
            return t.detach().numpy()

        with tx.autograd.graph.saved_tensors_hooks(pack, tx.tensor):
            y = mixed(w)
        y.backward()
        assert packed
        assert_close(w.grad.numpy(), jax.grad(plain)(jnp.asarray(W)))

    def test_inside_checkpoint(self):
        w = tx.tensor(W, requires_grad=True)
        tx.checkpoint(lambda w: tx.exp(mixed(w * 2)))(w).backward()
        assert_close(w.grad.numpy(), jax.grad(lambda v: jnp.exp(plain(v * 2)))(jnp.asarray(W)))


class TestRobustness:
    """What recorded ops must do, lifted ones do as well."""

    def grads_of(self, w: Any) -> Any:
        got = w.grad.numpy()
        w.grad = None
        return got

    def test_read_and_differentiated_by_another_thread(self):
        w = tx.tensor(W, requires_grad=True)
        a, b = lift(two)(w, W)
        got: list[Any] = []

        def other() -> None:
            got.append(b.item())
            (a.sum() + b).backward()

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert got == [pytest.approx((W**3).sum(), rel=1e-5)]
        assert_close(a.detach().numpy(), np.sin(W) * W)
        assert_close(self.grads_of(w), np.cos(W) * W + 3 * W**2)

    def test_intermediate_gradients(self):
        w = tx.tensor(W, requires_grad=True)
        h = w * 2
        a, b = lift(two)(h, np.ones(2, np.float32))
        of_h, of_a, of_b = tx.autograd.grad(a.sum() * b, [h, a, b], retain_graph=True)
        expected = jax.grad(lambda h: (lambda a, b: a.sum() * b)(*two(h, np.ones(2, np.float32))))(2 * W)
        assert_close(of_h.numpy(), expected)
        assert_close(of_a.numpy(), np.full(2, ((2 * W) ** 3).sum()))
        assert_close(of_b.numpy(), np.sin(2 * W).sum())
        a.retain_grad()
        (a * a).sum().backward()
        assert_close(a.grad.numpy(), 2 * np.sin(2 * W))

    def test_hooks_of_the_op_see_the_gradients_of_all_results(self):
        w, seen = tx.tensor(W, requires_grad=True), []
        a, b = lift(two)(w, np.ones(2, np.float32))
        (op, _), *_ = a.grad_fn.next_functions
        assert op.name() == b.grad_fn.next_functions[0][0].name() == "lift(two)"
        op.register_prehook(lambda gs: seen.append([None if g is None else g.tolist() for g in gs]))
        op.register_hook(lambda of_operands, gs: (of_operands[0] * 2, None))
        (b * 3).backward(retain_graph=True)
        assert_close(self.grads_of(w), 18 * W**2)
        (a.sum() + b).backward()
        assert_close(self.grads_of(w), 2 * (np.cos(W) + 3 * W**2))
        assert seen == [[None, 3.0], [[1.0, 1.0], 1.0]]

    def test_a_long_program(self):
        w, fn = tx.tensor(W, requires_grad=True), lift(lambda x: (jnp.tanh(x) * 1.01, x))

        def chain(x: Any, cell: Any) -> Any:
            for _ in range(600):
                x = cell(x)
            return x.sum()

        for read in (False, True):
            y = chain(w, lambda x: fn(x)[0])
            if read:
                y.item()
            y.backward()
            expected = jax.grad(lambda x: jax.lax.fori_loop(0, 600, lambda _, x: jnp.tanh(x) * 1.01, x).sum())(W)
            assert_close(self.grads_of(w), expected, 1e-3)

    def test_after_a_program_that_failed(self):
        def fails(x: Any) -> Any:
            raise RuntimeError("on purpose")

        w = tx.tensor(W, requires_grad=True)
        bad = lift(lambda x: jax.pure_callback(fails, jax.ShapeDtypeStruct((2,), np.float32), x))(tx.ones(2))
        a, b = lift(two)(w, np.ones(2, np.float32))
        with pytest.raises(tx.rules.TorshError, match="on purpose"):
            bad.numpy()
        assert_close(a.detach().numpy(), np.sin(W))
        picked = a[tx.tensor([5]) + 0]
        with pytest.raises(IndexError):
            picked.sum().backward()
        assert w.grad is None
        b.backward()
        assert_close(self.grads_of(w), 3 * W**2)

    @pytest.mark.parametrize("seed", range(6))
    def test_random_programs(self, seed: int):
        rng = np.random.default_rng(seed)
        kinds = rng.integers(0, 5, 7)

        def run(x: Any, fn: Any, read: bool) -> Any:
            total = 0.0
            for kind in kinds:
                if kind == 0:
                    a, b = fn(x, jnp.ones(2, jnp.float32))
                    x = a + b * 0.1
                elif kind == 1:
                    x = fn(x, jnp.full(2, 0.5, jnp.float32))[0]
                elif kind == 2:
                    x = x * 1.25
                elif kind == 3:
                    total = total + fn(x, x)[1]
                elif read:
                    assert np.isfinite(x.sum().item())
            return x.sum() + total

        t = tx.tensor(W, requires_grad=True)
        for read in (False, True, False):
            run(t, lift(two), read).backward()
            assert_close(self.grads_of(t), jax.grad(lambda x: run(x, two, False))(W), 1e-4)


class TestOwnDerivatives:
    def test_a_custom_vjp_is_what_differentiates(self):
        @jax.custom_vjp
        def clipped(x: Any) -> Any:
            return x * 2

        clipped.defvjp(lambda x: (clipped(x), None), lambda _, g: (jnp.full_like(g, 7.0),))
        w = tx.tensor(W, requires_grad=True)
        lift(clipped)(w).sum().backward()
        assert w.grad.tolist() == [7.0, 7.0]
        assert tx.grad(lambda w: lift(clipped)(w).sum())(tx.tensor(W)).tolist() == [7.0, 7.0]

    def test_a_custom_jvp_is_what_differentiates(self):
        @jax.custom_jvp
        def f(x: Any) -> Any:
            return x * 2

        f.defjvp(lambda p, t: (f(*p), 5 * t[0]))
        w = tx.tensor(W, requires_grad=True)
        lift(f)(w).sum().backward()
        assert w.grad.tolist() == [5.0, 5.0]

    def test_a_pallas_kernel_with_its_own_vjp(self):
        pl = pytest.importorskip("jax.experimental.pallas")

        def kernel(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = x_ref[...] * x_ref[...]

        def run(x: Any) -> Any:
            return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x)

        square = jax.custom_vjp(run)
        square.defvjp(lambda x: (run(x), x), lambda x, g: (2 * x * g,))
        w = tx.tensor(W, requires_grad=True)
        (lift(square)(w) * 3).sum().backward()
        assert_close(w.grad.numpy(), 6 * W)

    def test_control_flow(self):
        def rnn(w: Any, xs: Any) -> Any:
            def cell(h: Any, x: Any) -> Any:
                h = jnp.tanh(w * h + x)
                return h, h

            return jax.lax.scan(cell, jnp.zeros(2, jnp.float32), xs)[1].sum()

        xs = RNG.standard_normal((5, 2)).astype(np.float32)
        w = tx.tensor(W, requires_grad=True)
        lift(rnn)(w, xs).backward()
        assert_close(w.grad.numpy(), jax.grad(rnn)(W, xs))

    def test_a_forward_is_computed_once_for_value_and_gradient(self, monkeypatch: pytest.MonkeyPatch):
        def rnn(w: Any, xs: Any) -> Any:
            return jax.lax.scan(lambda h, x: (jnp.tanh(h @ w + x),) * 2, xs[0], xs)[1].sum()

        w, xs = tx.tensor(np.eye(3, dtype=np.float32), requires_grad=True), tx.tensor(X)
        texts: list[str] = []
        run = Program.run

        def look(program: Program, trail: Any, box: list[Any], traced: bool) -> bool:
            assert not program.donated
            texts.append(program.segments[0].function.lower([], trail.arrays, None, None).as_text())
            return run(program, trail, box, traced)

        monkeypatch.setattr(Program, "run", look)
        y = lift(rnn)(w, xs)
        y.backward()
        assert [t.count("stablehlo.while") for t in texts] == [2]
        assert_close(w.grad.numpy(), jax.grad(rnn)(np.eye(3, dtype=np.float32), X))

    def test_no_derivative_is_an_error(self):
        def host(x: Any) -> Any:
            return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((2,), np.float32), x)

        w = tx.tensor(W, requires_grad=True)
        y = lift(host)(w)
        assert_close(y.detach().numpy(), np.sin(W))
        with pytest.raises(ValueError, match="JVP"):
            y.sum().backward()
        assert w.grad is None


class TestManyDevices:
    """``shard_map`` inside a lifted function, and a lifted function inside ``shard_map``."""

    mesh = property(lambda _: jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,)))

    def arrays(self) -> tuple[Any, Any]:
        w, x = RNG.standard_normal((3, 2)), RNG.standard_normal((8, 3))
        places = [jax.sharding.NamedSharding(self.mesh, s) for s in (P(), P("d"))]
        return tuple(jax.device_put(a.astype(np.float32), s) for a, s in zip((w, x), places, strict=True))

    def test_a_region_on_the_tape(self):
        def local(w: Any, x: Any) -> Any:
            return jax.lax.psum(jnp.tanh(x @ w).sum(), "d")

        fn = jax.shard_map(local, mesh=self.mesh, in_specs=(P(), P("d")), out_specs=P())
        w, x = self.arrays()
        t = tx.as_tensor(w).requires_grad_()
        for _ in range(2):
            t.grad = None
            lift(fn)(t, tx.as_tensor(x)).backward()
            assert_close(t.grad.numpy(), jax.grad(lambda w: jnp.tanh(x @ w).sum())(w))

    def test_in_a_region(self):
        def inner(w: Any, x: Any) -> Any:
            return jnp.tanh(x @ w).sum() * jax.lax.axis_index("d")

        def region(inner: Any) -> Any:
            def local(w: Any, x: Any) -> Any:
                return jax.lax.psum(inner(w, x), "d")

            return jax.shard_map(local, mesh=self.mesh, in_specs=(P(), P("d")), out_specs=P())

        def lifted(w: Any, x: Any) -> Any:
            return lift(inner)(tx.as_tensor(w), tx.as_tensor(x)).jax()

        w, x = self.arrays()
        assert_close(region(lifted)(w, x), region(inner)(w, x))
        assert_close(jax.grad(region(lifted))(w, x), jax.grad(region(inner))(w, x))

    def test_named_axes_of_a_vmap(self):
        def fn(x: Any) -> Any:
            return x / jax.lax.psum(1, "batch") + jax.lax.pmean(x, "batch")

        for n in (2, 4):  # the extent is a number in what was traced
            xs = RNG.standard_normal((n, 3)).astype(np.float32)
            got = tx.vmap(lift(fn), axis_name="batch")(tx.tensor(xs))
            assert_close(got.numpy(), jax.vmap(fn, axis_name="batch")(xs))


class TestModels:
    def test_linen(self):
        nn = pytest.importorskip("flax.linen")

        class Net(nn.Module):
            @nn.compact
            def __call__(self, x: Any) -> Any:
                return nn.Dense(2)(nn.relu(nn.Dense(8)(x)))

        net = Net()
        variables = net.init(jax.random.key(0), X)
        params = tensors(variables)
        lift(net.apply)(params, X).sum().backward()
        assert_close(grads(params), jax.grad(lambda v: net.apply(v, X).sum())(variables))

    def test_nnx_with_state(self):
        nnx = pytest.importorskip("flax.nnx")

        class Net(nnx.Module):
            def __init__(self, rngs: Any) -> None:
                self.first = nnx.Linear(3, 8, rngs=rngs)
                self.norm = nnx.BatchNorm(8, rngs=rngs)
                self.drop = nnx.Dropout(0.5, rngs=rngs)
                self.last = nnx.Linear(8, 2, rngs=rngs)

            def __call__(self, x: Any) -> Any:
                return self.last(self.drop(nnx.relu(self.norm(self.first(x)))))

        graph, state, rest = nnx.split(Net(nnx.Rngs(0)), nnx.Param, ...)

        def forward(state: Any, rest: Any, x: Any) -> Any:
            net = nnx.merge(graph, state, rest)
            return net(x), nnx.state(net, nnx.Not(nnx.Param))

        def scored(state: Any, rest: Any) -> Any:
            y, new = forward(state, jax.tree.map(jnp.asarray, rest), X)  # Flax minds whose trace a Variable is of
            return (y**2).sum(), new

        step, params = lift(forward, has_aux=True), tensors(state)
        reference = jax.jit(jax.grad(scored, has_aux=True))
        ours, theirs = rest, rest
        for _ in range(3):  # statistics, counts and keys go round: no mask is drawn twice
            for p in jax.tree.leaves(params, is_leaf=is_tensor):
                p.grad = None
            y, ours = step(params, ours, X)
            (y**2).sum().backward()
            expected, theirs = reference(state, theirs)
            assert_close(grads(params), expected, 1e-4)
        values = [
            x
            for x in jax.tree.leaves(ours, is_leaf=lambda x: isinstance(x, (tx.Tensor, Value)))
            if isinstance(x, Value)
        ]
        assert values
        arrays = jax.tree.map(lambda x: x.jax(), ours, is_leaf=lambda x: isinstance(x, (tx.Tensor, Value)))
        assert jax.tree.structure(arrays) == jax.tree.structure(theirs)

    def test_equinox(self):
        eqx = pytest.importorskip("equinox")
        net = eqx.nn.MLP(3, 2, 8, 2, key=jax.random.key(1))
        whole = jax.tree.map(lambda a: tx.tensor(a, requires_grad=True) if eqx.is_array(a) else a, net)

        def forward(net: Any, x: Any) -> Any:
            return jax.vmap(net)(x).sum()

        lift(forward)(whole, X).backward()
        expected = eqx.filter_grad(forward)(net, X)
        assert_close([t.grad.numpy() for t in jax.tree.leaves(whole, is_leaf=is_tensor) if is_tensor(t)], expected)
        arrays, static = eqx.partition(net, eqx.is_array)
        params = tensors(arrays)
        lift(lambda p, x: forward(eqx.combine(p, static), x))(params, X).backward()
        assert_close(grads(params), expected)

    def test_optax_losses(self):
        optax = pytest.importorskip("optax")
        logits = tx.tensor(X, requires_grad=True)
        labels = np.array([0, 2, 1, 1], np.int32)
        lift(optax.softmax_cross_entropy_with_integer_labels)(logits, labels).mean().backward()
        expected = jax.grad(lambda x: optax.softmax_cross_entropy_with_integer_labels(x, labels).mean())(X)
        assert_close(logits.grad.numpy(), expected)


class TestPrograms:
    def test_a_step_is_one_known_program_from_the_third_on(self):
        tx.clear_cache()
        params, step = tensors(PARAMS), lift(loss)

        def steps(n: int) -> None:
            for k in range(n):
                out = step(params, tx.tensor(X))
                (out["loss"] * 2).backward()
                with tx.no_grad():
                    for p in params.values():
                        p -= 0.1 / (1 + k) * p.grad
                        p.grad = None

        steps(2)
        got = count(lambda: steps(10))
        assert (got["programs run"], got["misses"], got["xla programs compiled"]) == (10, 0, 0)

    def test_under_compile(self):
        plain_w, w = tx.tensor(W, requires_grad=True), tx.tensor(W, requires_grad=True)

        def step(w: Any, v: Any) -> Any:
            y = mixed(w) * v.sum()
            y.backward()
            with tx.no_grad():
                w.sub_(0.01 * w.grad)
            w.grad = None
            return y.detach()

        compiled = tx.compile(functools.partial(step, w))
        for k in range(4):
            v = tx.tensor(np.full(2, k, np.float32))
            assert compiled(v).item() == pytest.approx(step(plain_w, v).item(), rel=1e-4)
        assert "recorded 1 time" in repr(compiled)

    def test_numbers_are_no_part_of_the_program(self):
        w, fn = tx.tensor(W, requires_grad=True), lift(lambda w, rate, scale=1.0: (w * rate).sum() * scale)

        def step(k: int) -> None:
            w.grad = None
            fn(w, 0.1 * k, scale=2.0 + k).backward()
            np.testing.assert_allclose(w.grad.numpy(), np.float32(0.1 * k) * (2.0 + k), rtol=1e-6)

        for k in range(3):
            step(k)
        assert count(lambda: [step(k) for k in range(3, 9)])["misses"] == 0

    def test_numbers_that_are_looked_at_are(self):
        fn = lift(lambda w, rate: w * rate if rate > 0.5 else -w)
        w = tx.tensor(W)
        assert_close(fn(w, 0.25).numpy(), -W)
        assert_close(fn(w, 2.0).numpy(), 2 * W)
        assert_close(fn(w, 0.25).numpy(), -W)
        signed = lift(lambda w, z: w if str(z) == "0.0" else -w)
        signed._staged.looks = True  # as if it had looked
        assert_close(signed(w, 0.0).numpy(), W)
        assert_close(signed(w, -0.0).numpy(), -W)

    def test_static_arguments_are_told_apart(self):
        w = tx.tensor(X)
        fn = lift(lambda x, axis, keep: jnp.sum(x, axis=axis, keepdims=keep))
        for _ in range(2):
            assert fn(w, 0, False).shape == (3,)
            assert fn(w, 1, False).shape == (4,)
            assert fn(w, 1, True).shape == (4, 1)
        kind = lift(lambda x, n: x * (2 if n is True else 3))
        assert [kind(w, n)[0, 0].item() / X[0, 0] for n in (1, True, 1)] == pytest.approx([3, 2, 3])

    def test_staging_again_and_again_is_told(self):
        fn = lift(lambda w, n: w * n)
        for n in range(31):
            fn(tx.ones(2), n)
        with pytest.warns(RuntimeWarning, match="32th time"):
            fn(tx.ones(2), 31)

    def test_a_fresh_lambda_each_step_does_not_grow_the_process(self):
        tx.clear_cache()
        tx.set_cache_size(16)
        try:
            w, refs = tx.tensor(W, requires_grad=True), []

            def step(k: int) -> None:
                big = jnp.full(1000, k, jnp.float32)
                refs.append(weakref.ref(big))
                y = lift(lambda w: w * big[:2])(w)
                if k < 20:
                    y.sum().backward()
                    assert_close(w.grad.numpy(), np.full(2, k, np.float32))
                    w.grad = None

            for k in range(60):
                step(k)
            tx.clear_cache()
            gc.collect()
            assert sum(r() is not None for r in refs) == 0
        finally:
            tx.set_cache_size(1024)

    def test_a_function_is_known_again_and_not_kept(self):
        class Model:
            def __init__(self, factor: float) -> None:
                self.factor, self.calls = factor, 0

            def __eq__(self, other: object) -> bool:
                return True  # and yet another

            __hash__ = None

            def __call__(self, x: Any) -> Any:
                self.calls += 1
                return x * self.factor

            def twice(self, x: Any) -> Any:
                self.calls += 1
                return x * self.factor * 2

        models = [Model(2.0), Model(3.0)]
        for _ in range(3):
            assert [lift(m)(tx.ones(2))[0].item() for m in models] == [2.0, 3.0]
            assert [lift(m.twice)(tx.ones(2))[0].item() for m in models] == [4.0, 6.0]
        assert [m.calls for m in models] == [2, 2]
        refs = [weakref.ref(m) for m in models]
        del models
        gc.collect()
        assert [r() for r in refs] == [None, None]

    def test_constants_are_operands(self):
        big = jnp.asarray(RNG.standard_normal(2).astype(np.float32))
        w, fn = tx.tensor(W, requires_grad=True), lift(lambda w: w * big)

        def step() -> None:
            w.grad = None
            fn(w).sum().backward()
            assert_close(w.grad.numpy(), big)

        for _ in range(3):
            step()
        assert count(lambda: [step() for _ in range(4)])["misses"] == 0
        tape = tx.record(lambda w: fn(w))(tx.tensor(W))
        assert len(tape.constants) == 1
        assert tx.crosscheck(lambda w: lift(lambda w: jax.jit(jnp.tanh)(w * big))(w), tx.tensor(W), torch=False).ok
        key = jax.random.key(1)
        drawn = lift(lambda w: w * jax.random.normal(key, (2,)))(w)
        assert_close(drawn.detach().numpy(), W * jax.random.normal(key, (2,)))

    def test_lifting_again_finds_the_same(self):
        assert lift(model) is lift(model) is lift(lift(model))
        assert lift(model) is not lift(model, has_aux=True)

        class Holder:
            def apply(self, x: Any) -> Any:
                return x

        holder = Holder()
        assert lift(holder.apply) is lift(holder.apply)
        assert lift(Holder().apply) is not lift(holder.apply)
        assert copy.deepcopy(lift(model)) is lift(model)


class TestKeysAndDtypes:
    @pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey])
    def test_keys(self, make: Any):
        key = make(3)
        got = lift(lambda k: jax.random.normal(k, (4,)))(key)
        assert_close(got.numpy(), jax.random.normal(key, (4,)))
        first, second = lift(lambda k: tuple(jax.random.split(k)))(key)
        assert isinstance(first, Value)
        again = lift(lambda k: jax.random.normal(k, (4,)))(second)
        assert_close(again.numpy(), jax.random.normal(jax.random.split(key)[1], (4,)))
        assert jax.random.normal(first.jax(), ()) == jax.random.normal(jax.random.split(key)[0], ())
        assert "Value(" in repr(first)

    def test_other_implementations_of_keys(self):
        key = jax.random.key(3, impl="rbg")
        assert_close(lift(lambda k: jax.random.uniform(k, (4,)))(key).numpy(), jax.random.uniform(key, (4,)))

    @pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
    def test_dtypes_are_kept(self, dtype: str):
        w = tx.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
        y = lift(lambda w: w * 0.1)(w)
        assert y.dtype == w.dtype
        y.sum().backward()
        assert w.grad.dtype == w.dtype

    def test_the_users_own_flags(self):
        def fn(x: Any) -> Any:
            return jnp.ones(2) * 1.5, jnp.arange(2), x

        a, n, _ = lift(fn)(tx.ones(2))
        assert (a.dtype.name, n.dtype.name) == ("float32", "int32")
        a, n, _ = lift(fn)(tx.ones(2, dtype="float64"))  # 64-bit types are on where an operand needs them
        assert (a.dtype.name, n.dtype.name) == ("float64", "int64")
        with jax.enable_x64(True):
            assert lift(fn)(tx.ones(2))[0].dtype.name == "float64"
        with jax.numpy_dtype_promotion("strict"), pytest.raises(Exception, match="promotion"):
            lift(lambda a, b: a + b)(tx.ones(2), tx.ones(2, dtype="bfloat16"))

    def test_matmul_precision(self):
        x = tx.ones(2, 2)
        with jax.default_matmul_precision("float32"):
            tape = tx.record(lambda x: lift(jnp.matmul)(x, x))(x)
        assert "HIGHEST" in lower(tape).as_text()
        tape = tx.record(lambda x: lift(jnp.matmul)(x, x))(x)
        assert "HIGHEST" not in lower(tape).as_text()

    def test_what_is_no_array_comes_back_as_it_is(self):
        out = lift(lambda x: {"x": x, "name": "hi", "none": None, "n": 3})(tx.ones(1))
        assert (out["name"], out["none"], out["n"].item()) == ("hi", None, 3)

    def test_integers_round_a_loop(self):
        fn = lift(lambda n: n + jnp.uint32(1))
        n = np.uint32(4)
        for _ in range(3):
            n = fn(n)
        assert (n.jax(), n.jax().dtype) == (7, np.uint32)


class Parameter(tx.Tensor):
    """A subclass, as models have them."""


def test_subclasses_of_tensor():
    w = tx.tensor(W).as_subclass(Parameter).requires_grad_()
    for _ in range(2):
        w.grad = None
        y = lift(lambda p: p["w"] * 2)({"w": w})
        assert type(y) is tx.Tensor
        y.sum().backward()
        assert w.grad.tolist() == [2.0, 2.0]


class TestRefused:
    def test_captured_tensors_that_require_grad(self):
        w = tx.tensor(W, requires_grad=True)
        for fn in (lambda x: x * w, lambda x: x * w.jax(), lambda x: (w * 2 * x).jax(), lambda x: jnp.stack([w, w])):
            with pytest.raises(AutogradError, match="require"):
                lift(fn)(tx.ones(2))
        assert_close(lift(lambda x: x * w.detach().jax())(tx.ones(2)).numpy(), W)
        with tx.no_grad():
            assert_close(lift(lambda x: x * w.jax())(tx.ones(2)).numpy(), W)

    def test_a_captured_tensor_cannot_be_written_any_more(self):
        t = tx.tensor(W)
        assert_close(lift(lambda x: x * t.jax())(tx.ones(2)).numpy(), W)
        with pytest.raises(AutogradError, match="constant"):
            t.add_(1.0)

    def test_looking_at_values(self):
        with pytest.raises(AutogradError, match="looks at the value"):
            lift(lambda x: x if x.sum() > 0 else -x)(tx.ones(2))
        with pytest.raises(AutogradError, match="looks at the value"):
            lift(lambda x: np.asarray(x))(tx.ones(2))

    def test_bad_arguments(self):
        with pytest.raises(ArgumentTypeError, match="takes a function"):
            lift(3)  # type: ignore[arg-type]
        with pytest.raises(ArgumentTypeError, match="hashable"):
            lift(lambda x, s: x)(tx.ones(2), {1, 2})
        with pytest.raises(ArgumentTypeError, match="complex"):
            lift(jnp.fft.fft)(tx.ones(2))
        with pytest.raises(ArgumentTypeError, match="lower takes a Tape"):
            lower(lambda x: x)  # type: ignore[arg-type]

    def test_errors_of_the_function_come_out_and_change_nothing(self):
        w, fn = tx.tensor(W, requires_grad=True), lift(lambda w, x: w @ x)
        with pytest.raises(TypeError):
            fn(w, np.ones(3, np.float32))
        fn(w, np.ones(2, np.float32)).backward()
        assert w.grad.tolist() == [1.0, 1.0]

    def test_results_that_are_tensors(self):
        assert_close(lift(lambda x: tx.as_tensor(x) * 2)(tx.tensor(W)).numpy(), 2 * W)


class TestLower:
    def test_text(self):
        tape = tx.record(lambda x: lift(jnp.tanh)(x).sum())(tx.tensor(W))
        lowered = lower(tape)
        assert "stablehlo.tanh" in lowered.as_text()
        assert_close(lowered.compile()(jnp.asarray(W)), np.tanh(W).sum())
        assert "tanh" in str(tape.jaxpr())
        wide = tx.record(lambda d: d["x"].exp())({"x": tx.ones(2, dtype="float64")})
        assert "f64" in lower(wide).as_text()


class TestJaxArray:
    def test_where_nothing_is_lost(self):
        x = tx.tensor([1, 2])
        assert jnp.asarray(x).dtype == np.int64
        assert jnp.stack([x, x]).shape == (2, 2)
        assert jnp.concatenate([tx.tensor(W), jnp.ones(1)]).shape == (3,)

    @pytest.mark.parametrize("function", [jnp.sin, jnp.asarray, lambda w: jnp.stack([w, w]), jnp.sum])
    def test_where_a_gradient_would_be(self, function: Any):
        w = tx.tensor(W, requires_grad=True)
        for t in (w, w * 2):
            with pytest.raises(AutogradError):
                function(t)
        lift(function)(w).sum().backward()
        assert w.grad is not None

    def test_where_a_tape_or_trace_would_freeze_it(self):
        x = tx.tensor(W)
        with tx.record(), pytest.raises(AutogradError, match="tape"):
            jnp.stack([x, x])
        with pytest.raises(AutogradError, match="lift"):
            jax.jit(lambda t: jnp.stack([t, t]))(x)
        with pytest.raises(AutogradError, match="lift"):
            tx.grad(lambda t: jnp.stack([t, t]).sum())(x)

    @pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "pow", "floordiv", "mod", "lt", "eq", "matmul"])
    def test_operators_of_arrays_leave_it_to_the_tensor(self, name: str):
        w = tx.tensor(np.abs(W), requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            out = getattr(operator, name)(jnp.ones(2), w)
        assert is_tensor(out)
        assert out.requires_grad == (name not in ("lt", "eq"))
