"""The engine: the two-phase walk on hand-made graphs, and E1 to E10 through Tensors."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import torsh_fx as tx
from torsh_fx.engine import discover, propagate


class V:
    """A vertex that scales its gradient by ``factor`` along each edge."""

    def __init__(self, name: str, *edges: V | None, factor: float = 1.0, why: str | None = None) -> None:
        self.name, self.edges, self.factor, self.why = name, list(edges), factor, why
        self.runs = 0

    @property
    def is_leaf(self) -> bool:
        return not self.edges

    def describe(self) -> str:
        return self.name

    def missing(self) -> str | None:
        return self.why


def emit(v: V, g: float) -> list[float | None]:
    v.runs += 1
    return [None if e is None else g * v.factor for e in v.edges]


def walk(root: V, seed: float = 1.0) -> dict[int, float]:
    return propagate(discover([root]), [(root, seed)], emit, lambda a, b: a + b)


class TestHandMade:
    def test_a_leaf_can_be_its_own_root(self):
        leaf = V("leaf")
        assert walk(leaf, 3.0) == {id(leaf): 3.0}

    def test_a_value_used_twice_accumulates_once_per_edge(self):
        leaf = V("leaf")
        assert walk(V("mul", leaf, leaf, factor=5.0))[id(leaf)] == 10.0

    def test_a_node_waits_for_its_longest_consumer(self):
        leaf = V("leaf")
        h = V("h", leaf, factor=2.0)
        long = h
        for _ in range(5):
            long = V("step", long)
        root = V("add", h, long)
        assert walk(root)[id(leaf)] == 4.0
        assert h.runs == 1

    def test_a_self_loop_names_the_op(self):
        v = V("mul")
        v.edges = [v]
        with pytest.raises(tx.AutogradError, match=r"mul.*own output"):
            discover([v])

    def test_a_loop_on_an_operand_that_needs_no_gradient_does_not_count(self):
        leaf = V("leaf")
        assert walk(V("mul", None, leaf))[id(leaf)] == 1.0

    def test_a_cycle_below_the_root(self):
        a, b = V("a"), V("b")
        a.edges, b.edges = [b], [a]
        root = V("root", a)
        with pytest.raises(tx.AutogradError, match=r"2 of 3 nodes.*\[(a|b)\]"):
            discover([root])
        assert a.runs == b.runs == root.runs == 0

    def test_nodes_stuck_below_a_cycle_are_counted(self):
        leaf = V("leaf")
        a, b = V("a"), V("b", leaf)
        a.edges, b.edges = [b], [a, leaf]
        with pytest.raises(tx.AutogradError, match="3 of 4"):
            discover([V("root", a)])

    def test_a_cycle_through_the_root_is_all_of_it(self):
        root, b = V("root"), V("b")
        root.edges, b.edges = [b], [root]
        with pytest.raises(tx.AutogradError, match="2 of 2"):
            discover([root])

    def test_a_missing_derivative_is_found_before_any_rule_runs(self):
        leaf = V("leaf")
        bad = V("custom(f)", leaf, why="none is registered")
        root = V("mul", bad)
        with pytest.raises(tx.AutogradError, match=r"custom\(f\).*none is registered"):
            walk(root)
        assert root.runs == 0

    def test_a_node_scheduled_before_its_gradient_is_an_error(self):
        leaf = V("leaf")
        a = V("a", leaf)
        plan = discover([V("root", a)])
        with pytest.raises(tx.AutogradError, match=r"\[root\].*before its gradient"):
            propagate(plan, [(a, 1.0)], emit, lambda x, y: x + y)

    def test_forty_stacked_diamonds_are_linear(self):
        leaf = V("leaf")
        node = leaf
        nodes = []
        for _ in range(40):
            node = V("add", V("l", node), V("r", node))
            nodes.append(node)
        assert walk(node)[id(leaf)] == 2.0**40
        assert all(n.runs == 1 for n in nodes)

    def test_a_chain_of_a_hundred_thousand(self):
        leaf = V("leaf")
        node = leaf
        for _ in range(100_000):
            node = V("step", node)
        assert walk(node)[id(leaf)] == 1.0


def leaf(*values: float) -> tx.Tensor:
    return tx.tensor(list(values), requires_grad=True)


class TestThroughTensors:
    def test_e1_depth_and_diamonds(self):
        x = tx.tensor(1.0, requires_grad=True)
        y = x
        for _ in range(60):
            y = y + y
        y.backward()
        assert x.grad.item() == 2.0**60

    def test_e2_one_tensor_in_every_slot(self):
        x = leaf(1.0, 2.0)
        (tx.cat([x, x]) * tx.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
        assert x.grad.tolist() == [4.0, 6.0]
        x.grad = None
        tx.maximum(x, x).sum().backward()
        assert x.grad.tolist() == [1.0, 1.0]

    def test_e3_two_handles_are_one_node_and_two_tensors_are_not(self):
        x = leaf(1.0, 2.0)
        same, other = x, leaf(1.0, 2.0)
        (x * same + other).sum().backward()
        assert x.grad.tolist() == [2.0, 4.0]
        assert other.grad.tolist() == [1.0, 1.0]

    def test_e4_accumulation_adds_and_keeps_the_object(self):
        x = leaf(1.0, 2.0)
        (x * x).sum().backward()
        first = x.grad
        (x * 3).sum().backward()
        assert x.grad is first
        assert first.tolist() == [5.0, 7.0]
        assert not first.requires_grad

    def test_e4_gradients_do_not_alias_the_seed_or_each_other(self):
        x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
        seed = tx.tensor([1.0, 1.0])
        (x + y).backward(seed)
        x.grad.zero_()
        assert y.grad.tolist() == [1.0, 1.0]
        assert seed.tolist() == [1.0, 1.0]

    def test_e4_leaf_as_root(self):
        x = tx.tensor(2.0, requires_grad=True)
        x.backward()
        x.backward()
        assert x.grad.item() == 2.0

    def test_e4_threads_accumulate_atomically(self):
        x = leaf(1.0, 2.0)

        def work() -> None:
            for _ in range(20):
                (x * 2.0).sum().backward()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert x.grad.tolist() == [160.0, 160.0]

    def test_e5_frozen_and_unreached_leaves_keep_none(self):
        x, frozen, unused = leaf(1.0), tx.tensor([2.0]), leaf(3.0)
        unused * 2
        (x * frozen).sum().backward()
        assert frozen.grad is None
        assert unused.grad is None

    def test_e5_what_was_recorded_counts(self):
        x, w = tx.tensor([1.0]), leaf(5.0)
        y = x * w
        x.requires_grad_()
        y.sum().backward()
        assert x.grad is None
        assert w.grad.tolist() == [1.0]

    def test_e5_shapes_of_frozen_operands_are_checked(self):
        with pytest.raises(tx.ShapeMismatchError):
            tx.cat([leaf(1.0, 2.0), tx.zeros(2, 2)], 0)

    def test_e6_backward_records_nothing(self):
        x = leaf(1.0, 2.0)
        y = (x * x).sum()
        y.backward()
        assert x.grad.grad_fn is None
        assert x.grad.is_leaf

    def test_e7_custom_op_without_derivative(self):
        x = leaf(1.0, 2.0)
        y = tx.custom_op("conv2d", lambda a: a * 2)(x).sum()
        with pytest.raises(tx.AutogradError, match=r"conv2d.*stride, padding, dilation.*im2col"):
            y.backward()
        assert x.grad is None

    def test_e8_what_backward_refuses(self):
        x = leaf(1.0, 2.0)
        with pytest.raises(tx.AutogradError, match="does not require grad"):
            tx.tensor(1.0).backward()
        with pytest.raises(tx.AutogradError, match=r"\[2\]"):
            (x * 2).backward()
        with pytest.raises(tx.ShapeMismatchError) as error:
            (x * 2).backward(tx.tensor([[1.0, 1.0]]))
        assert error.value.expected == (2,)
        assert error.value.got == (1, 2)
        assert x.grad is None
        (x * 2).sum().reshape(1, 1).backward()
        assert x.grad.tolist() == [2.0, 2.0]

    def test_e10_a_failing_walk_writes_nothing(self):
        a, b = leaf(1.0), leaf(2.0)
        bad = tx.custom_op("bad", lambda x: x + 1)
        bad.register_vjp(lambda g, x: (_ for _ in ()).throw(ValueError("rule failed")))
        with pytest.raises(ValueError, match="rule failed"):
            (a * 2 + bad(b)).sum().backward()
        assert a.grad is None
        assert b.grad is None
        (a * 2).sum().backward()
        assert a.grad.tolist() == [2.0]

    def test_d8_a_second_backward_needs_retain_graph(self):
        x = leaf(1.0, 2.0)
        y = (x * x).sum()
        y.backward(retain_graph=True)
        y.backward()
        assert x.grad.tolist() == [4.0, 8.0]
        with pytest.raises(tx.AutogradError, match="retain_graph"):
            y.backward()
        assert x.grad.tolist() == [4.0, 8.0]

    def test_two_heads_on_one_trunk(self):
        x = leaf(0.5, -0.5)
        h = tx.tanh(x * x)
        a, b = (h * 2).sum(), (h * h).sum()
        a.backward(retain_graph=True)
        first = x.grad.numpy().copy()
        b.backward()
        v = np.array([0.5, -0.5], np.float32)
        t = np.tanh(v * v)
        np.testing.assert_allclose(first, 2 * (1 - t**2) * 2 * v, rtol=1e-6)
        np.testing.assert_allclose(x.grad.numpy(), (2 + 2 * t) * (1 - t**2) * 2 * v, rtol=1e-6)

    def test_double_backward_and_retain_grad(self):
        x = leaf(0.2, -0.4)
        y = tx.exp(x * 3).sum()
        (g,) = tx.autograd.grad(y, x, create_graph=True)
        g.sum().backward()
        v = np.array([0.2, -0.4])
        np.testing.assert_allclose(g.detach().numpy(), 3 * np.exp(3 * v), rtol=1e-6)
        np.testing.assert_allclose(x.grad.numpy(), 9 * np.exp(3 * v), rtol=1e-6)
        z = leaf(1.0, 2.0)
        h = z * 3
        h.retain_grad()
        (h * h).sum().backward()
        assert h.grad.tolist() == [6.0, 12.0]
        assert z.grad.tolist() == [18.0, 36.0]

    def test_a_long_chain_in_pieces(self):
        x = leaf(1.0, 2.0)
        y = x
        for _ in range(5000):
            y = y * 1.0 + 0.001
        y.sum().backward()
        assert x.grad.tolist() == [1.0, 1.0]
