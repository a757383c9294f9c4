"""Writes through views: base and siblings see them, gradients pass into and around them.

NumPy's views alias as ours do, so it is the oracle of values; PyTorch, where it
is installed, of gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx

View = Callable[[Any], Any]

# Views of a [2, 3, 4] array, written alike for NumPy and for Tensors.
VIEWS: dict[str, View] = {
    "integer": lambda x: x[1],
    "negative": lambda x: x[-1, 0],
    "element": lambda x: x[1, 2, 3],
    "slice": lambda x: x[:, 1:3],
    "step": lambda x: x[:, ::2],
    "step-from": lambda x: x[..., 1::2],
    "all": lambda x: x[...],
    "newaxis": lambda x: x[:, None, 1],
    "reshape": lambda x: x.reshape(6, 4),
    "transposed": lambda x: x.T if isinstance(x, np.ndarray) else x.permute(2, 1, 0),
    "of-a-view": lambda x: x[1].reshape(2, 6)[1, 2:5],
    "deep": lambda x: x.reshape(6, 4)[1:5:2].reshape(2, 2, 2)[1][:, 1],
    "empty": lambda x: x[:, 3:],
    "diagonal": lambda x: _diagonal(x),
}


def _diagonal(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return x.diagonal(1, 1, 2)
    part = np.diagonal(x, 1, 1, 2)
    part.flags.writeable = True
    return part


WRITES: dict[str, Callable[[Any], Any]] = {
    "add": lambda v: v.__iadd__(10.0),
    "mul": lambda v: v.__imul__(v + 1),
    "fill": lambda v: v.fill(7.0) if isinstance(v, np.ndarray) else v.fill_(7.0),
}


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(1.0, 1 + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("state", ["pending", "computed", "eager"])
def test_base_and_siblings_see_a_write(view, write, state):
    host = numbers(2, 3, 4) * 2
    base = tx.tensor(numbers(2, 3, 4)) * 2
    if state == "computed":
        base.tolist()
    with tx.eager() if state == "eager" else tx.enable_grad():
        sibling, alias = base.reshape(-1)[3:20], base.detach()
        part = VIEWS[view](base)
        host_part = VIEWS[view](host)
        if host_part.ndim == 0 or isinstance(host_part, np.generic):
            host_part = host[1:2, 2:3, 3:4]
        WRITES[write](host_part)
        WRITES[write](part)
    assert base.tolist() == host.tolist()
    assert part.tolist() == np.asarray(VIEWS[view](host)).tolist()
    assert sibling.tolist() == host.reshape(-1)[3:20].tolist()
    assert alias.tolist() == host.tolist()
    assert part._version == base._version == alias._version >= 1


def test_writes_from_both_sides_in_turn():
    host, base = numbers(3, 4), tx.tensor(numbers(3, 4))
    row, column = base[1], base.t()[2]
    for k in range(1, 4):
        host[1] += k
        host[:, 2] *= k
        host -= 1
        row += k
        column *= k
        base -= 1
        if k == 2:
            row.tolist()
    assert base.tolist() == host.tolist()
    assert (row.tolist(), column.tolist()) == (host[1].tolist(), host[:, 2].tolist())


INDICES: list[Any] = [
    0,
    (1, 2),
    (slice(None), 1),
    (..., 2),
    (slice(0, 2), slice(1, None, 2)),
    (None, 0),
    [0, 1],
    ([0, 1], [2, 0]),
    (slice(None), [0, 2], 1),
    ([1, 0], slice(None), [3, 1]),
    (-1, -1, -1),
    slice(-2, None),
    [[0, 1], [1, 0]],
    (slice(None), slice(None), [True, False, True, False]),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_setitem_values(index):
    part = numbers(2, 3, 4)[index]
    for value in (5.0, np.float32(-1.0) * numbers(*part.shape), part.sum(keepdims=True).reshape((1,) * part.ndim)):
        host, x = numbers(2, 3, 4), tx.tensor(numbers(2, 3, 4))
        host[index] = value
        x[index] = value if isinstance(value, float) else tx.tensor(value)
        assert x.tolist() == host.tolist()


@pytest.mark.parametrize("index", [i for i in INDICES if i != [[0, 1], [1, 0]]], ids=str)  # which names rows twice
def test_setitem_gradients_go_into_the_value_and_around_it(index):
    def program(x: Any, v: Any) -> Any:
        y = x * 2
        y[index] = v * 3
        return (y * y).sum()

    x = tx.tensor(numbers(2, 3, 4), requires_grad=True)
    v = tx.tensor(numbers(*numbers(2, 3, 4)[index].shape), requires_grad=True)
    program(x, v).backward()
    where = np.zeros((2, 3, 4))
    where[index] = 1
    np.testing.assert_allclose(x.grad.numpy(), np.where(where == 1, 0, 8 * numbers(2, 3, 4)))
    np.testing.assert_allclose(v.grad.numpy(), 18 * numbers(*v.shape))
    gx, gv = tx.grad(program, argnums=(0, 1))(x.detach(), v.detach())
    np.testing.assert_array_equal(gx.numpy(), x.grad.numpy())
    np.testing.assert_array_equal(gv.numpy(), v.grad.numpy())


def test_masks():
    host, x = numbers(3, 4), tx.tensor(numbers(3, 4), requires_grad=True)
    y = x * 1
    y[y > 5] = 0.0
    y[tx.tensor([True, False, False])] = tx.tensor([1.0, 2.0, 3.0, 4.0])
    y.sum().backward()
    expected = np.where(host > 5, 0, host)
    expected[0] = [1, 2, 3, 4]
    assert y.tolist() == expected.tolist()
    assert x.grad.tolist() == [[0.0] * 4, [1.0] + [0.0] * 3, [0.0] * 4]


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "through-a-row": lambda lib, x: _through_a_row(x),
    "what-was-read-before": lambda lib, x: _read_before(x),
    "overwritten-whole": lambda lib, x: _overwritten(x),
    "chunks": lambda lib, x: _chunks(x),
    "loop": lambda lib, x: _loop(lib, x),
    "value-of-itself": lambda lib, x: _itself(x),
}


def _through_a_row(x: Any) -> Any:
    y = x * 2
    y[1].mul_(y[0])
    return y * y


def _read_before(x: Any) -> Any:
    y = x * 2
    square = y * y  # the graph holds the value it saw
    y[0].zero_()
    return square + y


def _overwritten(x: Any) -> Any:
    y = x * 2
    y.view(-1).copy_((x * 3).reshape(-1))
    return y


def _chunks(x: Any) -> Any:
    y = x.exp()
    first, second = y.chunk(2, 1)
    first.add_(second)
    second.mul_(first)
    return y


def _loop(lib: Any, x: Any) -> Any:
    out = lib.zeros(3, 4)
    for k in range(3):
        out[k] = x[k] * (out[k - 1] + 1) if k else x[k]
    return out


def _itself(x: Any) -> Any:
    y = x * 1
    y[:, 1:] = y[:, :-1] * 2
    return y


# PyTorch refuses the others: it has lost the values that its rules need, or splits are not to be written.
@pytest.mark.parametrize("name", ["overwritten-whole", "loop", "value-of-itself"])
def test_gradients_as_pytorch_has_them(name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    found = []
    for lib in (tx, torch):
        x = lib.tensor(numbers(3, 4) / 7, requires_grad=True)
        out = PROGRAMS[name](lib, x)
        (out * out).sum().backward()
        found.append((out.detach().numpy(), x.grad.numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_the_functional_paths_and_differences(name):
    def program(x: tx.Tensor) -> tx.Tensor:
        out = PROGRAMS[name](tx, x)
        return (out * out).sum()

    x = tx.tensor(numbers(3, 4) / 7, dtype=tx.float32)
    assert tx.crosscheck(program, x).ok


def test_under_jit_and_vmap():
    def write(x: tx.Tensor) -> tx.Tensor:
        y = x * 2
        y[0] = 5.0
        y.t()[1].add_(1)
        return y

    expected = numbers(2, 3) * 2
    expected[0] = 5
    expected[:, 1] += 1
    assert tx.jit(write)(tx.tensor(numbers(2, 3))).tolist() == expected.tolist()
    assert tx.vmap(write)(tx.tensor(numbers(4, 2, 3)))[0].tolist() == expected.tolist()
    raw = jax.jit(lambda a: write(tx.from_jax(a) if hasattr(tx, "from_jax") else tx.as_tensor(a)).jax())
    assert raw(jnp.asarray(numbers(2, 3))).tolist() == expected.tolist()


class TestRefused:
    def test_expanded_memory(self):
        x = tx.tensor([1.0, 2.0, 3.0])
        wide = x.expand(2, 3)
        for write in (lambda: wide.add_(1), lambda: wide[0].zero_(), lambda: wide.__setitem__(0, 5.0)):
            with pytest.raises(tx.AutogradError, match=r"expanded view.*clone"):
                write()
        assert x.tolist() == [1.0, 2.0, 3.0]

    def test_a_view_of_a_leaf_that_requires_grad(self):
        x = tx.tensor([[1.0, 2.0]], requires_grad=True)
        row = x[0]
        with pytest.raises(tx.AutogradError, match=r"view of a leaf.*no_grad"):
            row.zero_()
        with pytest.raises(tx.AutogradError, match=r"leaf.*no_grad"):
            x[0, 0] = 3.0
        with tx.no_grad():
            row.mul_(3)
            x[0, 1] = 4.0
        assert x.tolist() == [[3.0, 4.0]]
        assert x.is_leaf
        (x * x).sum().backward()
        assert x.grad.tolist() == [[6.0, 8.0]]

    def test_shapes_and_types(self):
        x = tx.tensor(numbers(2, 3))
        for index, value, error in (
            (0, tx.ones(2), ValueError),
            (([0, 1],), tx.ones(4, 5), ValueError),
            (5, 1.0, IndexError),
            (([0, 7],), 1.0, IndexError),
            (0, "text", TypeError),
            (0, [1.0, 2.0, 3.0], TypeError),
            (1.5, 1.0, TypeError),
        ):
            with pytest.raises(error) as caught:
                x[index] = value
            assert isinstance(caught.value, tx.TorshError)
        assert x.tolist() == numbers(2, 3).tolist()
        x[0] = True
        assert x[0].tolist() == [1.0, 1.0, 1.0]


def test_requires_grad_of_what_was_written_over_stays():
    x = tx.tensor([1.0, 2.0], requires_grad=True)
    y = (x * 2).zero_()
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_a_view_made_under_no_grad_stays_a_constant_and_one_made_outside_does_not():
    x = tx.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    outside = y[:1]
    with tx.no_grad():
        inside = y[:1]
        y += 1
        assert outside.requires_grad  # derived anew in here, yet part of the graph
    assert not inside.requires_grad
    assert (outside.tolist(), inside.tolist()) == ([3.0], [3.0])


def both(program: Callable[[Any], Any]) -> tuple[Any, Any]:
    """What a program of the library gives, ours and PyTorch's."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    return program(tx), program(torch)


@pytest.mark.parametrize("take", [lambda y: y[0], lambda y: y.t()[1:], lambda y: y.view(-1)[2:].view(2, 2)])
def test_a_detached_view_is_written_behind_the_back_of_its_graph(take):
    def program(lib: Any) -> Any:
        x = lib.tensor(numbers(2, 3), requires_grad=True)
        y = x * 2
        take(y).detach().mul_(3)
        take(x).detach().add_(1)  # a leaf, too, and outside no_grad
        (y * lib.tensor(numbers(2, 3))).sum().backward()
        return x.tolist(), y.tolist(), x.grad.tolist(), y.grad_fn is not None

    ours, theirs = both(program)
    assert ours == theirs


def test_a_detached_view_gets_a_graph_of_its_own():
    def program(lib: Any) -> Any:
        x, c = lib.tensor(numbers(2, 3), requires_grad=True), lib.tensor(2.0, requires_grad=True)
        y = x * 2
        apart = y[0].detach()
        apart.mul_(c)
        apart.sum().backward()
        y.sum().backward()
        return apart.requires_grad, y.tolist(), x.grad.tolist(), c.grad.tolist()

    ours, theirs = both(program)
    assert ours == theirs


RESHAPES: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda x: x.transpose(0, 2).reshape(-1),
    "transposed-part": lambda x: x.transpose(0, 1).reshape(3, 8),
    "transposed-kept": lambda x: x.transpose(0, 1).reshape(3, 2, 2, 2),
    "slice": lambda x: x[:, 1:].reshape(2, 8),
    "slice-across": lambda x: x[:, 1:].reshape(16),
    "step": lambda x: x[..., ::2].reshape(12),
    "step-across": lambda x: x[..., 1::2].reshape(2, -1),
    "column": lambda x: x[:, :, 1].reshape(6),
    "expanded": lambda x: x[:, :1].expand(2, 2, 4).reshape(-1),
    "expanded-kept": lambda x: x[:1].expand(3, 3, 4).reshape(3, 12),
    "diagonal": lambda x: x.diagonal(0, 0, 1).reshape(-1),
    "diagonal-kept": lambda x: x[:, 0, :2].diagonal().reshape(1, 2),
    "flatten": lambda x: x.mT.flatten(1),
    "flatten-kept": lambda x: x[1].flatten(),
    "flatten-nothing": lambda x: x[0].flatten(0, 0),
    "ones": lambda x: x[:, :1, :1].permute(2, 0, 1).reshape(1, 1, 2),
    "empty": lambda x: x[:, 3:].transpose(0, 2).reshape(-1),
    "contiguous": lambda x: x[1].contiguous(),
    "contiguous-copied": lambda x: x[:, 1].contiguous(),
    "deep": lambda x: x.reshape(6, 4)[1:5:2].reshape(2, 2, 2).transpose(1, 2).reshape(2, 4),
}


@pytest.mark.parametrize("name", RESHAPES)
def test_a_reshape_is_a_view_where_pytorch_has_one_and_a_copy_elsewhere(name):
    def program(lib: Any) -> Any:
        x = lib.tensor(numbers(2, 3, 4), requires_grad=True)
        y = x * 1
        part = RESHAPES[name](y)
        seen = part.tolist(), part.is_contiguous()
        if "expanded-kept" not in name:
            part.mul_(3)
        y.sum().backward()
        return *seen, y.tolist(), x.grad.tolist()

    ours, theirs = both(program)
    assert ours == theirs


def test_a_retained_gradient_follows_a_view_whose_base_is_written():
    def program(lib: Any) -> Any:
        x = lib.tensor(numbers(2, 3), requires_grad=True)
        y = x * 2
        row = y[0]
        row.retain_grad()
        y.mul_(3)
        (row * row).sum().backward()
        return row.grad.tolist(), x.grad.tolist()

    ours, theirs = both(program)
    assert ours == theirs


def test_sums_of_products_and_fills_keep_the_dtype_they_are_written_to():
    def program(lib: Any) -> Any:
        x, wide = lib.ones(2), lib.tensor([1.5, 2.0], dtype=lib.float64)
        n = lib.tensor([1, 2])
        filled = n.masked_fill(n > 1, -2.5)
        out = (x.clone().addcmul_(wide, wide), x.clone().addcdiv_(wide, wide), filled, n.masked_fill_(n > 1, -2.5))
        return [(str(t.dtype).removeprefix("torch."), t.tolist()) for t in out]

    ours, theirs = both(program)
    assert ours == theirs


@pytest.mark.parametrize("view", [lambda b: b[1:3], lambda b: b.view(2, 2), lambda b: b.detach()[:2], lambda b: b.T])
@pytest.mark.parametrize("through", ["view", "base", "base while recording"])
def test_a_view_that_was_made_a_leaf_stays_one(view: Any, through: str) -> None:
    base = tx.zeros(4)
    v = view(base).requires_grad_()
    for k in (1.0, 2.0):
        if through == "base while recording":
            base.add_(1.0)
        else:
            with tx.no_grad():
                (v if through == "view" else base).add_(1.0)
        assert v.is_leaf
        assert v.requires_grad
        v.grad = None
        (v * v).sum().backward()
        np.testing.assert_array_equal(v.grad.numpy(), np.full(v.shape, 2 * k))
    factor = tx.tensor(3.0, requires_grad=True)
    base.mul_(factor)  # from here on it has a history
    v.sum().backward()
    assert factor.grad is not None or v._view.base is not base
