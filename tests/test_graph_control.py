"""What may be differentiated, by what, how often: backward(inputs=), several roots, batches, higher orders."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx
from tolerances import close
from twins import both_refuse, compare, leaf

X, W = [0.5, -1.5], [2.0, 0.25]


def grads(*tensors):
    return [t.grad for t in tensors]


class TestInputs:
    """``backward(inputs=...)``."""

    def test_only_these_leaves(self):
        def program(lib):
            x, w = leaf(lib, X), leaf(lib, W)
            (x.sin() * w).sum().backward(inputs=[x])
            return grads(x, w)

        compare(program, times=3)

    def test_one_tensor_a_dict_and_repetitions(self):
        def program(lib):
            x, w, u = leaf(lib, X), leaf(lib, W), leaf(lib, X)
            (x * w * u).sum().backward(inputs=w)
            (x * w * u).sum().backward(inputs={"x": x, "again": x})
            (x * w * u).sum().backward(inputs=(x, w, x))
            return grads(x, w, u)

        compare(program, times=2)

    def test_a_result_is_filled_and_retains_from_then_on(self):
        def program(lib):
            x = leaf(lib, X)
            h = x * 3
            (h * h).sum().backward(inputs=[h], retain_graph=True)
            first = [None if h.grad is None else h.grad * 1, x.grad]
            (h * h).sum().backward()
            return [*first, *grads(h, x)]

        compare(program, times=2)

    def test_a_result_and_the_leaf_behind_it(self):
        def program(lib):
            x, w = leaf(lib, X), leaf(lib, W)
            h = x * w
            h.exp().sum().backward(inputs=[x, h])
            return grads(x, w, h)

        compare(program, times=2)

    def test_a_root_that_is_an_input(self):
        def program(lib):
            x = leaf(lib, [2.0])
            h = x * x
            h.backward(inputs=[h])
            x.backward(inputs=[x])
            return grads(x, h)

        compare(program, times=2)

    def test_what_is_not_reached_stays_none(self):
        def program(lib):
            x, u = leaf(lib, X), leaf(lib, W)
            (x * 2).sum().backward(inputs=[u])
            return grads(x, u)

        compare(program)

    def test_retained_results_on_the_way_are_filled(self):
        def program(lib):
            x, w = leaf(lib, X), leaf(lib, W)
            h, v = x * 2, w * 3
            h.retain_grad()
            v.retain_grad()
            (h * v).sum().backward(inputs=[x])
            return grads(x, w, h, v)

        compare(program)

    def test_only_what_was_walked_is_freed(self):
        def program(lib):
            x, w = leaf(lib, X), leaf(lib, W)
            h, v = x * x, w * w
            (h * v).sum().backward(inputs=[x])
            v.sum().backward()
            return grads(x, w)

        compare(program)
        x = leaf(tx, X)
        h = x * x
        (h * h).sum().backward(inputs=[x])
        with pytest.raises(tx.AutogradError, match=r"freed.*retain_graph"):
            h.sum().backward()

    def test_it_accumulates_and_keeps_the_object(self):
        x, w = leaf(tx, X), leaf(tx, W)
        for _ in range(3):
            (x * w).sum().backward(inputs=[x])
            (x * w).sum().backward()
            kept = x.grad
        assert x.grad is kept
        np.testing.assert_allclose(x.grad.numpy(), 6 * np.array(W))
        np.testing.assert_allclose(w.grad.numpy(), 3 * np.array(X))

    def test_after_the_history_ran(self):
        def program(lib):
            x, w = leaf(lib, X), leaf(lib, W)
            h = x.exp() * w
            h.sum().item()
            k = h * h
            k.sum().item()
            (k * w).sum().backward(inputs=[x], retain_graph=True)
            (k * w).sum().backward(inputs=[w])
            return grads(x, w)

        compare(program, times=3)

    def test_with_create_graph(self):
        def program(lib):
            x, w = leaf(lib, X), leaf(lib, W)
            (x * x * x * w).sum().backward(inputs=[x], create_graph=True)
            (g,) = lib.autograd.grad(x.grad.sum(), w)
            return [x.grad, w.grad, g]

        compare(program)

    def test_which_leaves_is_part_of_the_program(self):
        """The same graph, other inputs: never the program of the ones before."""
        for _ in range(2):
            for chosen in ([0], [1], [1, 0], [2], [0, 2]):
                leaves = [leaf(tx, X), leaf(tx, W), leaf(tx, [3.0, 4.0])]
                out = (leaves[0] * leaves[1] * leaves[2]).sum()
                out.backward(inputs=[leaves[k] for k in chosen])
                a, b, c = (t.detach().numpy() for t in leaves)
                for k, want in enumerate((b * c, a * c, a * b)):
                    if k in chosen:
                        np.testing.assert_allclose(leaves[k].grad.numpy(), want)
                    else:
                        assert leaves[k].grad is None

    def test_an_op_without_a_derivative_elsewhere_does_not_matter(self):
        x, w = leaf(tx, X), leaf(tx, W)
        out = (x * tx.custom_op("opaque", lambda a: a + 1)(w)).sum()
        out.backward(inputs=[x])
        assert x.grad.tolist() == [3.0, 1.25]
        with pytest.raises(tx.AutogradError, match="opaque"):
            (x * tx.custom_op("opaque", lambda a: a + 1)(w)).sum().backward(inputs=[w])

    @pytest.mark.parametrize(
        ("inputs", "error", "match"),
        [
            (lambda lib: [], ValueError, "inputs are empty"),
            (lambda lib: {}, ValueError, "inputs are empty"),
            (lambda lib: 3, TypeError, "inputs must be Tensors.*3"),
            (lambda lib: [None], TypeError, "inputs must be Tensors.*None"),
            (lambda lib: [leaf(lib, X, requires_grad=False)], tx.AutogradError, "does not require grad"),
        ],
        ids=["list", "dict", "number", "None", "no grad"],
    )
    def test_refusals(self, inputs, error, match):
        def program(lib):
            x = leaf(lib, X)
            try:
                (x * x).sum().backward(inputs=inputs(lib))
            finally:
                assert x.grad is None

        both_refuse(program, error, match)


class TestSeveralRoots:
    def test_shared_history_is_walked_and_freed_once(self):
        def program(lib):
            x, w = leaf(lib, X), leaf(lib, W)
            h = (x * w).exp()
            lib.autograd.backward([(h * h).sum(), h.sin().sum()])
            return grads(x, w)

        compare(program, times=3)
        x = leaf(tx, X)
        h = (x * x).exp()
        roots = [h.sum(), (h * h).sum()]
        before = tx.stats()["programs run"]
        tx.autograd.backward(roots)
        assert tx.stats()["programs run"] == before + 1
        with pytest.raises(tx.AutogradError, match=r"freed.*retain_graph"):
            roots[0].backward()

    def test_seeds_leaves_repetitions_and_roots_below_roots(self):
        def program(lib):
            x = leaf(lib, [1.5])
            y = x * 2
            v = leaf(lib, [3.0], requires_grad=False)
            lib.autograd.backward([y, y, x, y * y], [None, v, None, v])
            lib.autograd.backward((x,), v)
            return grads(x)

        compare(program, times=3)

    def test_roots_of_several_elements(self):
        def program(lib):
            x, w = leaf(lib, X), leaf(lib, W)
            lib.autograd.backward([x * w, (x + w).exp()], [w.detach(), x.detach()])
            return grads(x, w)

        compare(program, times=2)

    def test_roots_that_ran_already(self):
        def program(lib):
            x, w = leaf(lib, X), leaf(lib, W)
            h = (x * w).exp()
            a = (h * h).sum()
            a.item()
            b = (h * w).sum()
            b.item()
            lib.autograd.backward([b, a, x.sum()], retain_graph=True)
            lib.autograd.backward([a, h.sum()])
            return grads(x, w)

        compare(program, times=3)

    def test_inputs_of_some_roots(self):
        def program(lib):
            x, w = leaf(lib, X), leaf(lib, W)
            h = x * x
            a, b = (h * h).sum(), (w * w).sum()
            lib.autograd.backward([a, b], inputs=[x])
            b.backward()
            return grads(x, w)

        compare(program, times=2)

    def test_create_graph(self):
        def program(lib):
            x, w = leaf(lib, X), leaf(lib, W)
            lib.autograd.backward([(x**3 * w).sum(), (x * w).sum()], create_graph=True)
            return [x.grad, w.grad, *lib.autograd.grad(x.grad.sum() + w.grad.sum(), [x, w])]

        compare(program)

    def test_grad_of_several_outputs(self):
        def program(lib):
            x, w = leaf(lib, X), leaf(lib, W)
            h = (x * w).exp()
            a, b = (h * h).sum(), h * w
            v = leaf(lib, W, requires_grad=False)
            kept = lib.autograd.grad([a, b], [x, w, h], [None, v], retain_graph=True)
            created = lib.autograd.grad([a, b], [x, h], [None, v], create_graph=True)
            second = lib.autograd.grad(created[0].sum(), [x, w], retain_graph=True)
            last = lib.autograd.grad((a, b), {"w": w, "x": x}, [None, v])
            return [kept, created, second, last, x.grad]

        compare(program, times=2)
        x = leaf(tx, X)
        h = x * x
        a, b = h.sum(), (h * h).sum()
        tx.autograd.grad([a, b], x)
        with pytest.raises(tx.AutogradError, match=r"freed.*retain_graph"):
            tx.autograd.grad(a, x)

    def test_leaf_roots_of_other_shapes_are_other_programs(self):
        for dtype in (tx.float32, tx.float64):
            for shape in ((), (1,), (1, 1)):
                x = tx.zeros(*shape, dtype=dtype, requires_grad=True) if shape else tx.tensor(0.0, dtype=dtype)
                x.requires_grad_().backward()
                assert (x.grad.numpy().shape, x.grad.numpy().dtype) == (shape, dtype)

    @pytest.mark.parametrize(
        ("call", "error", "match"),
        [
            (lambda lib, x: lib.autograd.backward([x * 2, x.detach()]), tx.AutogradError, "does not require grad"),
            (lambda lib, x: lib.autograd.backward([x.sum(), x], [None]), ValueError, "2 tensors.*1"),
            (lambda lib, x: lib.autograd.backward([x.sum(), x]), tx.AutogradError, r"\[2\]"),
            (lambda lib, x: lib.autograd.backward([x, x], [x.detach(), lib.ones(3)]), ValueError, r"\[2\].*\[3\]"),
            (lambda lib, x: lib.autograd.backward(3), TypeError, "tensors must be Tensors.*3"),
            (lambda lib, x: lib.autograd.backward([x.sum(), "a"]), TypeError, "tensors must be Tensors.*'a'"),
            (lambda lib, x: lib.autograd.backward([x.sum()], inputs=[]), ValueError, "inputs are empty"),
            (lambda lib, x: lib.autograd.grad(x.sum(), []), ValueError, "inputs are empty"),
            (lambda lib, x: lib.autograd.grad(x.sum(), {}), ValueError, "inputs are empty"),
            (lambda lib, x: lib.autograd.grad(x.sum(), [x, 1]), TypeError, "inputs must be Tensors.*1"),
            (lambda lib, x: lib.autograd.grad([x.sum(), x.detach().sum()], x), tx.AutogradError, "not require grad"),
        ],
        ids=lambda v: None,
    )
    def test_refusals(self, call, error, match):
        def program(lib):
            x = leaf(lib, X)
            try:
                call(lib, x)
            finally:
                assert x.grad is None

        both_refuse(program, error, match)


class TestBatchesAndZeros:
    def test_rows_of_a_jacobian(self):
        def program(lib):
            x, w = leaf(lib, X), leaf(lib, W)
            y = (x * w).exp().cumsum(0)
            return lib.autograd.grad(y, [x, w], lib.eye(2, dtype=lib.float64), is_grads_batched=True)

        compare(program, times=2)

    def test_several_outputs_and_inner_targets(self):
        def program(lib):
            x, w = leaf(lib, X), leaf(lib, W)
            h = x @ w
            y = h * x
            seeds = [lib.arange(6.0, dtype=lib.float64).reshape(3, 2), lib.arange(3.0, dtype=lib.float64)]
            return lib.autograd.grad([y, h.sin()], [x, h, w], seeds, is_grads_batched=True)

        compare(program)

    def test_differentiable_again(self):
        def program(lib):
            x, seeds = leaf(lib, X), leaf(lib, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
            (g,) = lib.autograd.grad((x**4).sum() * x, x, seeds, is_grads_batched=True, create_graph=True)
            second = lib.autograd.grad(g.sin().sum(), [x, seeds], create_graph=True)
            return [g, second, lib.autograd.grad(second[0].sum(), x)]

        compare(program)

    def test_every_rule_agrees_with_one_at_a_time(self):
        x, w = leaf(tx, np.arange(12.0).reshape(3, 4) / 7 - 0.6), leaf(tx, np.arange(8.0).reshape(4, 2) / 5)
        outputs = [
            x @ w,
            x.log_softmax(1),
            tx.cat([x, x * 2], 1),
            tx.maximum(x, x.t().reshape(3, 4)),
            x.var(0),
            x[:, [0, 0, 2]],
            x.clamp(-0.3, 0.4),
            tx.nn.functional.gelu(x),
            x.sort(1)[0],
            x.reshape(2, 6).t(),
            tx.linalg.svd(w)[1],
            tx.nn.functional.conv2d(x.reshape(1, 1, 3, 4), w.reshape(1, 1, 4, 2)[:, :, :2]),
        ]
        for y in outputs:
            seeds = tx.tensor(np.random.randn(3, *y.shape))
            known = [tx.autograd.grad(y, [x, w], s, retain_graph=True, materialize_grads=True) for s in seeds.unbind()]
            found = tx.autograd.grad(y, [x, w], seeds, is_grads_batched=True, materialize_grads=True)
            for k in (0, 1):
                close(found[k].numpy(), np.stack([g[k].numpy() for g in known]), gradient=True, what=repr(y.grad_fn))

    def test_an_empty_batch(self):
        x = leaf(tx, X)
        (g,) = tx.autograd.grad(x * x, x, tx.zeros(0, 2, dtype=tx.float64), is_grads_batched=True)
        assert g.shape == (0, 2)

    def test_through_the_result_of_a_transform(self):
        x = leaf(tx, X)
        (g,) = tx.autograd.grad(tx.vmap(lambda r: r**3)(x), x, tx.eye(2, dtype=tx.float64), is_grads_batched=True)
        close(g.numpy(), np.diag(3 * np.array(X) ** 2))

    def test_unused_inputs(self):
        def program(lib):
            x, u = leaf(lib, X), leaf(lib, [1.0, 2.0, 3.0])
            some = lib.autograd.grad((x * x).sum(), [x, u], allow_unused=True, retain_graph=True)
            zeros = lib.autograd.grad((x * x).sum(), [x, u], materialize_grads=True)
            more = lib.autograd.grad((x * x).sum(), [x, u], materialize_grads=True, create_graph=True)
            return [some, zeros, more, [g.requires_grad for g in (*zeros, *more)]]

        compare(program)
        x, u = leaf(tx, X), leaf(tx, [1.0, 2.0, 3.0])
        seeds = tx.ones(4, 2, dtype=tx.float64)
        zeros = tx.autograd.grad(x * 2, [x, u], seeds, is_grads_batched=True, materialize_grads=True)
        assert [g.shape for g in zeros] == [(4, 2), (4, 3)]

    @pytest.mark.parametrize(
        ("call", "error", "match"),
        [
            (lambda lib, x: lib.autograd.grad(x.sum(), x, is_grads_batched=True), TypeError, "Tensor for output 0"),
            (lambda lib, x: lib.autograd.grad(x, x, x.detach(), is_grads_batched=True), ValueError, r"\[2, 2\].*\[2\]"),
            (lambda lib, x: lib.autograd.grad(x, x, x.sum(), is_grads_batched=True), ValueError, "leading axis.*0-d"),
            (
                lambda lib, x: lib.autograd.grad([x, x], x, [lib.ones(3, 2), lib.ones(2, 2)], is_grads_batched=True),
                ValueError,
                r"one extent.*\[3, 2\]",
            ),
            (
                lambda lib, x: lib.autograd.grad(x.sum(), x, allow_unused=False, materialize_grads=True),
                ValueError,
                "materialize_grads",
            ),
        ],
        ids=["no seed", "shape", "0-d", "extents", "materialize"],
    )
    def test_refusals(self, call, error, match):
        both_refuse(lambda lib: call(lib, leaf(lib, X)), error, match)


def rosenbrock(x):
    return ((1 - x[:-1]) ** 2).sum() + 10 * ((x[1:] - x[:-1] ** 2) ** 2).sum()


class TestHigherOrders:
    """Against PyTorch, and against ``jax.grad`` of the same function in plain JAX."""

    POINT = (0.3, -0.7, 1.2)

    def test_three_orders(self):
        def program(lib):
            x = leaf(lib, self.POINT)
            found = [(x.sin() * x.exp()).sum()]
            for _ in range(3):
                found += lib.autograd.grad(found[-1].sum(), x, create_graph=True)
            found[-1].sum().backward()
            return [*found, x.grad]

        ours = compare(program, times=2)
        with jax.enable_x64(True):
            derivative = lambda x: jnp.sin(x) * jnp.exp(x)  # noqa: E731
            at = jnp.array(self.POINT)
            for got in ours[1:]:
                derivative = jax.grad(lambda x, f=derivative: f(x).sum())
                close(got.detach().numpy(), np.asarray(derivative(at)), gradient=True)

    def test_hessian_vector_product(self):
        def program(lib):
            x, v = leaf(lib, self.POINT), leaf(lib, [1.0, -2.0, 0.5], requires_grad=False)
            (g,) = lib.autograd.grad(rosenbrock(x), x, create_graph=True)
            return [*lib.autograd.grad((g * v).sum(), x, retain_graph=True), *lib.autograd.grad(g, x, v)]

        ours = compare(program, times=2)
        with jax.enable_x64(True):
            at, v = jnp.array(self.POINT), jnp.array([1.0, -2.0, 0.5])
            want = jax.jvp(jax.grad(rosenbrock), (at,), (v,))[1]
        for got in ours:
            close(got.numpy(), np.asarray(want), gradient=True)

    def test_gradient_penalty(self):
        def program(lib):
            w, b, x = leaf(lib, [[0.5, -1.0], [2.0, 0.3]]), leaf(lib, [0.1, 0.2]), leaf(lib, [[1.0, 2.0], [-0.5, 0.4]])
            score = (x @ w + b).tanh().sum(1)
            (g,) = lib.autograd.grad(score.sum(), x, create_graph=True)
            loss = score.mean() + 10 * (((g * g).sum(1) ** 0.5 - 1) ** 2).mean()
            loss.backward(inputs=[w, b])
            return grads(w, b, x)

        ours = compare(program, times=2)

        def loss(w, b):
            x = jnp.array([[1.0, 2.0], [-0.5, 0.4]])
            score = lambda x: jnp.tanh(x @ w + b).sum(1)  # noqa: E731
            g = jax.grad(lambda x: score(x).sum())(x)
            return score(x).mean() + 10 * ((jnp.sqrt((g * g).sum(1)) - 1) ** 2).mean()

        with jax.enable_x64(True):
            want = jax.grad(loss, (0, 1))(jnp.array([[0.5, -1.0], [2.0, 0.3]]), jnp.array([0.1, 0.2]))
        for got, known in zip(ours, want, strict=False):
            close(got.numpy(), np.asarray(known), gradient=True)

    @pytest.mark.parametrize("how", ["imperative", "func.grad"])
    def test_maml(self, how):
        tasks = [([0.1, 0.9], [1.0, -1.0]), ([-0.4, 0.6], [0.5, 2.0])]

        def program(lib):
            w = leaf(lib, [0.3, -0.2])

            def loss(w, task):
                x, y = (leaf(lib, v, requires_grad=False) for v in task)
                return (((x * w[0]).tanh() + w[1] - y) ** 2).mean()

            total = 0.0
            for task in tasks:
                fast = w
                for _ in range(3):
                    if how == "imperative":
                        (g,) = lib.autograd.grad(loss(fast, task), fast, create_graph=True)
                    else:
                        g = lib.func.grad(loss)(fast, task)
                    fast = fast - 0.1 * g
                total = total + loss(fast, task)
            total.backward()
            return [total, w.grad]

        ours = compare(program, times=2)

        def outer(w):
            def loss(w, task):
                x, y = map(jnp.array, task)
                return ((jnp.tanh(x * w[0]) + w[1] - y) ** 2).mean()

            total = 0.0
            for task in tasks:
                fast = w
                for _ in range(3):
                    fast = fast - 0.1 * jax.grad(loss)(fast, task)
                total = total + loss(fast, task)
            return total

        with jax.enable_x64(True):
            close(ours[1].numpy(), np.asarray(jax.grad(outer)(jnp.array([0.3, -0.2]))), gradient=True)

    def test_a_seed_that_was_written_keeps_its_place(self):
        """Its gradient goes where the seed's did, though its value is another now."""

        def program(lib):
            x, s = leaf(lib, X), leaf(lib, W)
            seed = s * 2
            with lib.no_grad():
                seed.mul_(3)
            (g,) = lib.autograd.grad(x * x, x, seed, create_graph=True)
            return [g, *lib.autograd.grad(g.sum(), [x, s])]

        compare(program)

    def test_under_no_grad(self):
        def program(lib):
            x, s = leaf(lib, X), leaf(lib, W)
            y = x**3
            with lib.no_grad():
                (g,) = lib.autograd.grad(y, x, s, create_graph=True)
            return [g, *lib.autograd.grad(g.sum(), [x, s])]

        compare(program)
