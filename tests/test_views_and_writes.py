"""Views and writes in place: values, gradients, what is refused, and that a refusal changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torsh_fx as tx
from tolerances import close


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(1.0, 1 + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def leaf(data: Any) -> tx.Tensor:
    return tx.tensor(data, requires_grad=True)


def grad_of(x: tx.Tensor) -> Any:
    assert x.grad is not None
    return x.grad.tolist()


# -- views -----------------------------------------------------------------------------------

# Functions of a [2, 3, 4] tensor that read the same in both libraries, with one result or several.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.reshape(4, 6),
    "reshape-unknown": lambda x: x.reshape(-1, 2),
    "reshape-tuple": lambda x: x.reshape((6, 4)),
    "view": lambda x: x.view(3, 8),
    "permute": lambda x: x.permute(2, 0, 1),
    "permute-negative": lambda x: x.permute((-1, 0, -2)),
    "transpose": lambda x: x.transpose(0, 2),
    "transpose-negative": lambda x: x.transpose(-1, 1),
    "t": lambda x: x[0].t(),
    "t-vector": lambda x: x[0, 0].t(),
    "T": lambda x: x[0].T,
    "mT": lambda x: x.mT,
    "expand": lambda x: x[:, :1].expand(2, 5, 4),
    "expand-in-front": lambda x: x[0].expand(2, -1, 4),
    "expand_as": lambda x: x[:1, :, :1].expand_as(x),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "unsqueeze-last": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x[:, :1].squeeze(),
    "squeeze-axis": lambda x: x[:1, :1].squeeze(0),
    "squeeze-nothing": lambda x: x.squeeze(1),
    "squeeze-axes": lambda x: x[:1, :1].squeeze((0, 1)),
    "flatten": lambda x: x.flatten(),
    "flatten-part": lambda x: x.flatten(1),
    "flatten-first": lambda x: x.flatten(0, 1),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "narrow-negative": lambda x: x.narrow(-1, -3, 2),
    "narrow-nothing": lambda x: x.narrow(2, 4, 0),
    "select": lambda x: x.select(1, -1),
    "split": lambda x: x.split(3, dim=2),
    "split-sections": lambda x: x.split([1, 0, 3], 2),
    "chunk": lambda x: x.chunk(2, 1),
    "chunk-many": lambda x: x.chunk(5, -1),
    "unbind": lambda x: x.unbind(1),
    "flip": lambda x: x.flip((0, 2)),
    "view-of-view": lambda x: x.transpose(0, 1)[1:].reshape(4, 4).t()[::2],
    "contiguous": lambda x: x.transpose(0, 1).contiguous().view(-1),
}


def weighted(results: Any) -> Any:
    """One number from one or several results, every element with a weight of its own."""
    several = results if isinstance(results, tuple) else (results,)
    total: Any = 0
    for k, r in enumerate(several):
        flat = r.reshape(-1)
        total = total + (flat * flat).sum() * (k + 1)
        if flat.shape[0] > 1:
            total = total + flat[1:].sum() - 3 * flat[0]
    return total


@pytest.mark.parametrize("name", VIEWS)
def test_views(name, torch):
    host = numbers(2, 3, 4)
    x, p = leaf(host), torch.tensor(host, requires_grad=True)
    ours, theirs = VIEWS[name](x), VIEWS[name](p)
    weighted(ours).backward()
    weighted(theirs).backward()
    pairs = zip(ours, theirs, strict=True) if isinstance(ours, tuple) else [(ours, theirs)]
    for got, want in pairs:
        assert got.shape == tuple(want.shape)
        np.testing.assert_array_equal(got.detach().numpy(), want.detach().numpy())
    close(x.grad.numpy(), p.grad.numpy(), gradient=True)


def test_views_written_down():
    x = tx.tensor([[1, 2, 3], [4, 5, 6]])
    assert x.reshape(3, 2).tolist() == [[1, 2], [3, 4], [5, 6]]
    assert x.T.tolist() == x.t().tolist() == x.permute(1, 0).tolist() == [[1, 4], [2, 5], [3, 6]]
    assert x[:1].expand(2, 3).tolist() == [[1, 2, 3], [1, 2, 3]]
    assert [p.tolist() for p in x.split(2, 1)] == [[[1, 2], [4, 5]], [[3], [6]]]
    assert [p.tolist() for p in x.chunk(2)] == [[[1, 2, 3]], [[4, 5, 6]]]
    assert x.flip(1).tolist() == [[3, 2, 1], [6, 5, 4]]
    assert x.unsqueeze(0).shape == (1, 2, 3)
    assert x.flatten().tolist() == [1, 2, 3, 4, 5, 6]
    assert tx.tensor(5).flatten().shape == (1,)
    assert tx.tensor(5).reshape(1, 1).squeeze().shape == ()


def test_expand_adds_up():
    x = leaf([1.0, 2.0])
    (x.expand(3, 2) * tx.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])).sum().backward()
    assert grad_of(x) == [6.0, 60.0]


def test_joining():
    a, b = leaf([[1.0, 2.0]]), leaf([[3.0, 4.0], [5.0, 6.0]])
    y = tx.cat([a, b, a])
    (y * tx.tensor([[1.0], [2.0], [3.0], [4.0]])).sum().backward()
    assert y.tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [1.0, 2.0]]
    assert (grad_of(a), grad_of(b)) == ([[5.0, 5.0]], [[2.0, 2.0], [3.0, 3.0]])
    c, d = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    z = tx.stack((c, d), -1)
    (z * tx.tensor([1.0, 10.0])).sum().backward()
    assert z.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert (grad_of(c), grad_of(d)) == ([1.0, 1.0], [10.0, 10.0])
    assert tx.cat([tx.zeros(0), c]).tolist() == [1.0, 2.0]
    assert tx.cat([tx.tensor([1]), c]).dtype == tx.float32


# -- writing ------------------------------------------------------------------------------------

# In-place forms on an intermediate result; y is 3x, c a leaf that takes part.
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda y, c: y.add_(c),
    "add_-alpha": lambda y, c: y.add_(c, alpha=3),
    "add_-number": lambda y, c: y.add_(2),
    "sub_": lambda y, c: y.sub_(c),
    "sub_-alpha": lambda y, c: y.sub_(c, alpha=0.5),
    "mul_": lambda y, c: y.mul_(c),
    "div_": lambda y, c: y.div_(c),
    "pow_": lambda y, c: y.pow_(3),
    "remainder_": lambda y, c: y.remainder_(2.5),
    "clamp_": lambda y, c: y.clamp_(2.0, 7.0),
    "neg_": lambda y, c: y.neg_(),
    "exp_": lambda y, c: y.exp_(),
    "log_": lambda y, c: y.log_(),
    "sqrt_": lambda y, c: y.sqrt_(),
    "rsqrt_": lambda y, c: y.rsqrt_(),
    "reciprocal_": lambda y, c: y.reciprocal_(),
    "abs_": lambda y, c: y.abs_(),
    "relu_": lambda y, c: y.relu_(),
    "sigmoid_": lambda y, c: y.sigmoid_(),
    "tanh_": lambda y, c: y.tanh_(),
    "sin_": lambda y, c: y.sin_(),
    "cos_": lambda y, c: y.cos_(),
    "floor_": lambda y, c: y.floor_(),
    "ceil_": lambda y, c: y.ceil_(),
    "round_": lambda y, c: y.round_(),
    "trunc_": lambda y, c: y.trunc_(),
    "square_": lambda y, c: y.square_(),
    "zero_": lambda y, c: y.zero_(),
    "fill_": lambda y, c: y.fill_(1.5),
    "fill_-0d": lambda y, c: y.fill_(c[0]),
    "copy_": lambda y, c: y.copy_(c),
    "addcmul_": lambda y, c: y.addcmul_(c, c, value=0.5),
    "addcdiv_": lambda y, c: y.addcdiv_(c * c, c, value=2),
    "chained": lambda y, c: y.mul_(c).add_(c).mul_(2),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_on_intermediates(name, torch):
    def run(m: Any) -> tuple[Any, ...]:
        x = m.tensor([0.3, 1.1, 2.4], requires_grad=True)
        c = m.tensor([1.5, 0.5, 2.5], requires_grad=True)
        y = x * 3
        out = WRITES[name](y, c)
        assert out is y
        total = (y * m.tensor([1.0, 2.0, 3.0])).sum() + x.sum() + c.sum()
        total.backward()
        return y.detach().numpy(), x.grad.numpy(), c.grad.numpy()

    for ours, theirs in zip(run(tx), run(torch), strict=True):
        close(ours, theirs, gradient=True)


def test_augmented_assignment_on_intermediates():
    x, c = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = x + 0
    same = y
    y += c
    y *= 2
    y -= x
    y /= 4
    assert y is same
    y.sum().backward()
    assert y.tolist() == [(2 * 4 - 1) / 4, (2 * 6 - 2) / 4]
    assert (grad_of(x), grad_of(c)) == ([0.25, 0.25], [0.5, 0.5])
    z = tx.tensor([7.0, 8.0])
    z **= 2
    z //= 10
    z %= 4
    assert z.tolist() == [0.0, 2.0]


def test_a_constant_becomes_part_of_the_graph():
    x, total = leaf([1.0, 2.0]), tx.zeros(2)
    for k in range(3):
        total += x * k
    assert total.requires_grad
    total.sum().backward()
    assert grad_of(x) == [3.0, 3.0]


def test_overwriting_cuts_the_gradient():
    x = leaf([1.0, 2.0])
    y = x * 3
    y.zero_()
    assert y.requires_grad  # as in PyTorch: with gradient 0
    (y + x).sum().backward()
    assert grad_of(x) == [1.0, 1.0]
    z, v = x * 3, leaf([5.0, 6.0])
    z.copy_(v)
    z.sum().backward()
    assert grad_of(v) == [1.0, 1.0]
    assert grad_of(x) == [1.0, 1.0]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x.zero_(),
        lambda x: x.copy_(tx.ones(2)),
        lambda x: x.mul_(x),
        lambda x: x.__imul__(10),
        lambda x: x.__isub__(x),
    ],
    ids=["add_", "zero_", "copy_", "mul_", "imul", "isub"],
)
def test_a_leaf_is_not_written_while_recording(write):
    x = leaf([1.0, 2.0])
    y = x * x
    with pytest.raises(tx.AutogradError, match=r"leaf.*no_grad"):
        write(x)
    assert x.tolist() == [1.0, 2.0]
    assert x.is_leaf
    assert x.requires_grad
    y.sum().backward()
    assert grad_of(x) == [2.0, 4.0]
    with tx.no_grad():
        write(x)
    assert x.is_leaf
    assert x.requires_grad


def test_descent():
    x, target = tx.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]]), tx.tensor([1.0, 2.0, 0.5])
    p = leaf([0.0, 0.0])
    same, host = p, np.zeros(2)
    a, b = np.asarray(x.tolist()), np.asarray(target.tolist())
    for _ in range(4):
        ((x @ p - target) ** 2).mean().backward()
        with tx.no_grad():
            p -= 0.1 * p.grad
        p.grad.zero_()
        host -= 0.1 * (2 / 3) * a.T @ (a @ host - b)
    assert p is same
    assert p.is_leaf
    close(p.detach().numpy(), host.astype(np.float32))
    assert grad_of(p) == [0.0, 0.0]


def test_momentum_in_place():
    p, m = leaf([1.0, -2.0]), tx.zeros(2)
    w, v = np.array([1.0, -2.0]), np.zeros(2)
    for _ in range(3):
        (p**3).sum().backward()
        with tx.no_grad():
            m.mul_(0.9).add_(p.grad)
            p.add_(m, alpha=-0.1)
        p.grad = None
        v = 0.9 * v + 3 * w**2
        w = w - 0.1 * v
    close(p.detach().numpy(), w.astype(np.float32))


# -- D6: the graph holds values ---------------------------------------------------------------


def test_a_saved_operand_written_later():
    x, c = leaf([1.0, 2.0]), tx.tensor([3.0, 4.0])
    y = (x * c).sum()
    c.mul_(100)
    y.backward()
    assert grad_of(x) == [3.0, 4.0]
    assert c.tolist() == [300.0, 400.0]


def test_a_saved_result_written_later():
    x = leaf([0.0, 1.0])
    out = x.exp()
    out.detach().zero_()
    assert out.tolist() == [0.0, 0.0]
    out = x.exp()
    kept = out * 1
    out.mul_(0)
    kept.sum().backward()
    close(x.grad.numpy(), np.exp(np.array([0, 1], np.float32)))


def test_a_tensor_written_with_itself():
    """PyTorch refuses this in backward; here the graph holds the values that were multiplied."""
    x = leaf([1.0, 2.0])
    y = x * 3
    y.mul_(y)
    y.sum().backward()
    assert grad_of(x) == [18.0, 36.0]


def test_a_leaf_written_between_forward_and_backward():
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    with tx.no_grad():
        x.fill_(50)
    y.backward()
    assert grad_of(x) == [2.0, 4.0]
    (x * x).sum().backward()
    assert grad_of(x) == [102.0, 104.0]


def test_a_result_read_before_and_after():
    x = leaf([1.0, 2.0])
    y = x * 2
    before = y.detach().numpy()
    y.add_(1)
    assert before.tolist() == [2.0, 4.0]
    assert y.tolist() == [3.0, 5.0]


# -- refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "error", "match"),
    [
        (lambda i, v: i.add_(1.5), TypeError, r"add_.*float32.*int64"),
        (lambda i, v: i.div_(2), TypeError, r"div_.*float32.*int64"),
        (lambda i, v: i.exp_(), TypeError, r"exp_.*float32.*int64"),
        (lambda i, v: i.__itruediv__(2), TypeError, r"div_.*float32.*int64"),
        (lambda i, v: v.add_(tx.ones(2, 2)), ValueError, r"add_.*shape"),
        (lambda i, v: v.mul_(tx.ones(3, 1)), ValueError, r"mul_.*shape"),
        (lambda i, v: v.copy_(tx.ones(2, 2)), ValueError, r"expand"),
        (lambda i, v: i.add_(tx.ones(3)), ValueError, r"add"),
    ],
)
def test_shape_and_dtype_stay(write, error, match):
    i, v = tx.tensor([1, 2]), tx.tensor([1.0, 2.0])
    with pytest.raises(error, match=match) as caught:
        write(i, v)
    assert isinstance(caught.value, tx.TorshError)
    assert (i.tolist(), i.dtype) == ([1, 2], tx.int64)
    assert (v.tolist(), v.dtype) == ([1.0, 2.0], tx.float32)
    i.add_(1)
    v.add_(i)
    assert v.tolist() == [3.0, 5.0]


def test_narrower_and_wider_sources():
    v = tx.tensor([1.0, 2.0])
    v += tx.tensor([0.5, 0.5], dtype=tx.float64)
    assert (v.tolist(), v.dtype) == ([1.5, 2.5], tx.float32)
    v.copy_(tx.tensor(3))
    assert (v.tolist(), v.dtype) == ([3.0, 3.0], tx.float32)
    i = tx.tensor([1, 2], dtype=tx.int8)
    i += 1
    i.copy_(tx.tensor([2.7, -2.7]))
    assert (i.tolist(), i.dtype) == ([2, -2], tx.int8)
    h = tx.tensor([1.0], dtype=tx.bfloat16)
    h *= 3.0
    assert (h.tolist(), h.dtype) == ([3.0], tx.bfloat16)


def test_a_gradient_is_written_like_any_tensor():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (x + y).sum().backward()
    x.grad.mul_(10)
    assert (grad_of(x), grad_of(y)) == ([10.0, 10.0], [1.0, 1.0])
    kept = x.grad
    (x + y).sum().backward()
    assert kept is x.grad
    assert (grad_of(x), grad_of(y)) == ([11.0, 11.0], [2.0, 2.0])
