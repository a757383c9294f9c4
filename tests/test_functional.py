"""``nn.functional`` against PyTorch, values and every gradient; short cases also written down."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torsh_fx as tx
from tolerances import close

F = tx.nn.functional


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def numbers(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(dtype)


class Case:
    """``fn(F, tensor, *leaves)`` for leaves of the given shapes, in this library and in PyTorch."""

    def __init__(self, name: str, fn: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
        self.name, self.fn, self.shapes = name, fn, shapes

    def run(self, module: Any) -> list[Any]:
        leaves = [
            module.tensor(numbers(*s, seed=k), requires_grad=True, dtype=module.float64)
            for k, s in enumerate(self.shapes)
        ]
        out = self.fn(module.nn.functional, module.tensor, *leaves)
        w = module.tensor(np.cos(np.arange(math.prod(out.shape))).reshape(tuple(out.shape)))
        (out * w).sum().backward()
        return [out.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]


def reduced(loss: Callable[[str], Any]) -> Any:
    """All three reductions in one result."""
    return loss("mean") + 2 * loss("sum") + loss("none")


def w3(x: Any) -> Any:
    """A weight per class in x's library and dtype."""
    return tx.tensor(CLASSES, dtype=x.dtype) if isinstance(x, tx.Tensor) else x.new_tensor(CLASSES)


C = [0, 2, 1, 2]
GRID = [[[0, 1, 2], [2, -100, 0]], [[1, 1, 0], [2, 2, -100]]]
CLASSES = (0.5, 2.0, 1.0)

CASES = [
    Case("relu", lambda F, t, x: F.relu(x), (3, 4)),
    Case("gelu", lambda F, t, x: F.gelu(x), (3, 4)),
    Case("gelu-tanh", lambda F, t, x: F.gelu(x, approximate="tanh"), (3, 4)),
    Case("leaky_relu", lambda F, t, x: F.leaky_relu(x), (3, 4)),
    Case("leaky_relu-slope", lambda F, t, x: F.leaky_relu(x, 0.3), (3, 4)),
    Case("leaky_relu-negative", lambda F, t, x: F.leaky_relu(x, negative_slope=-1), (3, 4)),
    Case("sigmoid-tanh", lambda F, t, x: F.sigmoid(x) * F.tanh(x), (3, 4)),
    Case("softmax", lambda F, t, x: F.softmax(x, 1), (3, 4)),
    Case("softmax-first", lambda F, t, x: F.softmax(x, dim=-3), (2, 3, 4)),
    Case("log_softmax", lambda F, t, x: F.log_softmax(x, -1), (3, 4)),
    Case("linear", lambda F, t, x, w, b: F.linear(x, w, b), (3, 4), (2, 4), (2,)),
    Case("linear-batches", lambda F, t, x, w, b: F.linear(x, w, b), (2, 3, 4), (5, 4), (5,)),
    Case("linear-vectors", lambda F, t, x, w, b: F.linear(x, w, b), (4,), (2, 4), (2,)),
    Case("linear-one-output", lambda F, t, x, w: F.linear(x, w), (3, 4), (4,)),
    Case("linear-no-bias", lambda F, t, x, w: F.linear(x, w), (3, 4), (2, 4)),
    Case("mse_loss", lambda F, t, x, y: reduced(lambda r: F.mse_loss(x, y, reduction=r)), (3, 4), (3, 4)),
    Case("nll_loss", lambda F, t, x: reduced(lambda r: F.nll_loss(x, t(C), reduction=r)), (4, 3)),
    Case(
        "nll_loss-weight-ignore",
        lambda F, t, x: reduced(lambda r: F.nll_loss(x, t(C), weight=w3(x), ignore_index=2, reduction=r)),
        (4, 3),
    ),
    Case("nll_loss-one", lambda F, t, x: F.nll_loss(x, t(1)), (3,)),
    Case(
        "nll_loss-2d",
        lambda F, t, x: reduced(lambda r: F.nll_loss(x, t(GRID), weight=w3(x), reduction=r)),
        (2, 3, 2, 3),
    ),
    Case("cross_entropy", lambda F, t, x: reduced(lambda r: F.cross_entropy(x, t(C), reduction=r)), (4, 3)),
    Case(
        "cross_entropy-weight-ignore-smooth",
        lambda F, t, x: reduced(
            lambda r: F.cross_entropy(x, t(C), weight=w3(x), ignore_index=0, reduction=r, label_smoothing=0.2)
        ),
        (4, 3),
    ),
    Case("cross_entropy-smooth", lambda F, t, x: F.cross_entropy(x, t(C), label_smoothing=0.1), (4, 3)),
    Case("cross_entropy-smooth-all", lambda F, t, x: F.cross_entropy(x, t(C), label_smoothing=1.0), (4, 3)),
    Case("cross_entropy-one", lambda F, t, x: F.cross_entropy(x, t(1), label_smoothing=0.1), (3,)),
    Case(
        "cross_entropy-2d",
        lambda F, t, x: reduced(lambda r: F.cross_entropy(x, t(GRID), weight=w3(x), reduction=r, label_smoothing=0.1)),
        (2, 3, 2, 3),
    ),
    Case(
        "cross_entropy-probabilities",
        lambda F, t, x, y: reduced(
            lambda r: F.cross_entropy(x, F.softmax(y, 1), w3(x), reduction=r, label_smoothing=0.1)
        ),
        (4, 3),
        (4, 3),
    ),
    Case("cross_entropy-probabilities-2d", lambda F, t, x, y: F.cross_entropy(x, y), (2, 3, 2), (2, 3, 2)),
    Case("cross_entropy-probabilities-one", lambda F, t, x, y: F.cross_entropy(x, y, w3(x)), (3,), (3,)),
    Case("unfold", lambda F, t, x: F.unfold(x, 2), (2, 3, 4, 5)),
    Case("unfold-all", lambda F, t, x: F.unfold(x, (2, 3), dilation=(2, 1), padding=(1, 2), stride=2), (2, 2, 5, 6)),
    Case("unfold-one-image", lambda F, t, x: F.unfold(x, 2, stride=(1, 2)), (3, 4, 4)),
]


CONFIGURATIONS: list[tuple[str, dict[str, Any]]] = [
    ("plain", {}),
    ("stride-padding", {"stride": 2, "padding": 1}),
    ("dilation", {"dilation": 2, "padding": 2}),
    ("groups", {"groups": 2, "padding": 1}),
    ("depthwise", {"groups": 4}),
    ("same", {"padding": "same", "dilation": 2}),
    ("valid", {"padding": "valid", "stride": 2}),
]
TRANSPOSED: list[tuple[str, dict[str, Any]]] = [
    ("plain", {}),
    ("stride-padding", {"stride": 2, "padding": 1, "output_padding": 1}),
    ("dilation", {"dilation": 2}),
    ("groups", {"groups": 2, "stride": 2}),
]


def convolutions() -> list[Case]:
    cases = []
    for n, extents, kernel in ((1, (7,), (3,)), (2, (5, 6), (3, 2)), (3, (4, 5, 3), (2, 3, 2))):
        for name, options in CONFIGURATIONS:
            if n == 3 and name in ("valid", "dilation", "depthwise", "groups"):
                continue
            groups = options.get("groups", 1)

            def conv(F: Any, t: Any, x: Any, w: Any, b: Any, n: int = n, options: dict[str, Any] = options) -> Any:
                return getattr(F, f"conv{n}d")(x, w, b, **options)

            cases.append(Case(f"conv{n}d-{name}", conv, (2, 4, *extents), (4, 4 // groups, *kernel), (4,)))
        for name, options in TRANSPOSED:
            if n == 3 and name in ("groups", "dilation"):
                continue
            groups = options.get("groups", 1)

            def back(F: Any, t: Any, x: Any, w: Any, b: Any, n: int = n, options: dict[str, Any] = options) -> Any:
                return getattr(F, f"conv_transpose{n}d")(x, w, b, **options)

            out = 3 * groups
            cases.append(Case(f"conv_transpose{n}d-{name}", back, (2, 4, *extents), (4, 3, *kernel), (out,)))
    cases += [
        Case("conv1d-one", lambda F, t, x, w: F.conv1d(x, w), (2, 5), (3, 2, 2)),
        Case("conv2d-one", lambda F, t, x, w, b: F.conv2d(x, w, b, padding=1), (2, 4, 4), (3, 2, 2, 2), (3,)),
        Case("conv3d-one", lambda F, t, x, w: F.conv3d(x, w), (2, 3, 3, 3), (1, 2, 2, 2, 2)),
        Case("conv_transpose2d-one", lambda F, t, x, w: F.conv_transpose2d(x, w, stride=2), (2, 3, 3), (2, 3, 2, 2)),
        Case(
            "conv2d-pairs",
            lambda F, t, x, w: F.conv2d(x, w, stride=(2, 1), padding=(0, 1)),
            (1, 2, 5, 5),
            (2, 2, 3, 3),
        ),
        Case("conv2d-no-batch", lambda F, t, x, w: F.conv2d(x, w), (0, 2, 4, 4), (3, 2, 2, 2)),
    ]
    return cases


@pytest.mark.parametrize("case", [*CASES, *convolutions()], ids=lambda case: case.name)
def test_against_torch(case, torch):
    got, want = case.run(tx), case.run(torch)
    for k, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        close(ours, theirs, gradient=k > 0, what=f"{case.name}, {'value' if k == 0 else f'gradient {k - 1}'}")


# -- written down -----------------------------------------------------------------------------


def leaf(data: Any) -> tx.Tensor:
    return tx.tensor(data, requires_grad=True)


def check(out: tx.Tensor, value: Any, *leaves_and_gradients: Any) -> None:
    out.sum().backward()
    close(out.detach().numpy(), np.asarray(value, np.float32))
    for x, gradient in zip(leaves_and_gradients[::2], leaves_and_gradients[1::2], strict=True):
        close(x.grad.numpy(), np.asarray(gradient, np.float32), gradient=True)


def test_activations():
    x = leaf([-1.0, 0.0, 2.0])
    check(F.relu(x), [0, 0, 2], x, [0, 0, 1])
    x = leaf([-1.0, 0.0, 2.0])
    check(F.leaky_relu(x, 0.25), [-0.25, 0, 2], x, [0.25, 0.25, 1])
    x = leaf([-30.0, 0.0, 30.0])
    check(F.gelu(x), [0, 0, 30], x, [0, 0.5, 1])
    x = leaf([-30.0, 0.0, 30.0])
    check(F.gelu(x, approximate="tanh"), [0, 0, 30], x, [0, 0.5, 1])
    x = leaf([0.0, 0.0])
    check(F.softmax(x, 0), [0.5, 0.5], x, [0, 0])
    x = leaf([0.0, math.log(3)])
    check(F.log_softmax(x, 0), [-math.log(4), math.log(0.75)], x, [0.5, -0.5])
    x = leaf([-math.inf, 0.0])
    check(F.log_softmax(x, 0), [-math.inf, 0], x, [1, -1])


def test_integers_become_floating():
    assert F.softmax(tx.tensor([0, 0]), 0).tolist() == [0.5, 0.5]
    assert F.log_softmax(tx.tensor([[0], [0]]), 1, dtype=tx.float64).dtype == tx.float64
    assert F.relu(tx.tensor([-1, 2])).tolist() == [0, 2]


def test_linear():
    x, w, b = leaf([[1.0, 2.0]]), leaf([[1.0, 0.0], [0.0, 3.0]]), leaf([0.5, -0.5])
    check(F.linear(x, w, b), [[1.5, 5.5]], x, [[1, 3]], w, [[1, 2], [1, 2]], b, [1, 1])


def test_losses():
    x, y = leaf([1.0, 3.0]), leaf([0.0, 0.0])
    check(F.mse_loss(x, y), 5, x, [1, 3], y, [-1, -3])
    logs = leaf([[-1.0, -2.0], [-3.0, -4.0]])
    check(F.nll_loss(logs, tx.tensor([0, 1])), 2.5, logs, [[-0.5, 0], [0, -0.5]])
    logs = leaf([[-1.0, -2.0], [-3.0, -4.0]])
    weight = tx.tensor([1.0, 3.0])
    check(F.nll_loss(logs, tx.tensor([0, 1]), weight), 13 / 4, logs, [[-0.25, 0], [0, -0.75]])
    x = leaf([[0.0, 0.0]])
    check(F.cross_entropy(x, tx.tensor([1])), math.log(2), x, [[0.5, -0.5]])
    x = leaf([[0.0, 0.0]])
    check(F.cross_entropy(x, tx.tensor([[0.25, 0.75]])), math.log(2), x, [[0.25, -0.25]])


def test_everything_ignored():
    x = leaf([[1.0, 2.0]])
    loss = F.cross_entropy(x, tx.tensor([-100]))
    assert math.isnan(loss.item())
    assert F.cross_entropy(x, tx.tensor([-100]), reduction="sum").item() == 0.0


def test_a_saturated_row():
    x = leaf([[0.0, 50.0, -50.0]])
    check(F.cross_entropy(x, tx.tensor([1])), 0, x, [[0, 0, 0]])
    x = leaf([[0.0, 1000.0]])
    check(F.cross_entropy(x, tx.tensor([0])), 1000, x, [[-1, 1]])


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_dtypes_of_targets(dtype):
    x = tx.tensor([[0.0, 1.0], [2.0, 0.0]])
    target = tx.tensor([1, 0], dtype=dtype)
    assert F.nll_loss(x, target).item() == -1.5
    assert F.one_hot(target).tolist() == [[0, 1], [1, 0]]


def test_one_hot(torch):
    assert F.one_hot(tx.tensor([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]
    for data, classes in (([2, 0], -1), ([2, 0], 5), ([[0, 1], [2, 0]], 3), (1, 2), ([], 3)):
        ours = F.one_hot(tx.tensor(data, dtype=tx.int64), classes)
        theirs = torch.nn.functional.one_hot(torch.tensor(data, dtype=torch.int64), classes)
        assert ours.tolist() == theirs.tolist()
        assert ours.shape == tuple(theirs.shape)
        assert ours.dtype == tx.int64
    assert not F.one_hot(tx.tensor([1])).requires_grad


def test_unfold():
    x = leaf([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]])
    columns = [[1, 2, 4, 5], [2, 3, 5, 6], [4, 5, 7, 8], [5, 6, 8, 9]]
    check(F.unfold(x, 2), [columns], x, [[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]])


def test_convolutions_written_down():
    x, w, b = leaf([[[1.0, 2.0, 3.0]]]), leaf([[[1.0, -1.0]]]), leaf([10.0])
    check(F.conv1d(x, w, b), [[[9, 9]]], x, [[[1, 0, -1]]], w, [[[3, 5]]], b, [2])
    x, w = leaf([[[1.0, 2.0, 3.0]]]), leaf([[[1.0, -1.0]]])
    check(F.conv1d(x, w, padding=1, stride=2), [[[-1, -1]]], x, [[[-1, 1, -1]]], w, [[[2, 4]]])
    x, w = leaf([[[1.0, 2.0]]]), leaf([[[1.0, 10.0]]])
    check(F.conv_transpose1d(x, w), [[[1, 12, 20]]], x, [[[11, 11]]], w, [[[3, 3]]])
    x, w = leaf(np.ones((1, 1, 2, 2), np.float32)), leaf(np.ones((1, 1, 2, 2), np.float32))
    check(F.conv2d(x, w), [[[[4]]]], x, np.ones((1, 1, 2, 2)), w, np.ones((1, 1, 2, 2)))
    x, w = leaf(np.ones((1, 2, 2, 2), np.float32)), leaf(np.full((4, 1, 1, 1), 2, np.float32))
    check(F.conv2d(x, w, groups=2), np.full((1, 4, 2, 2), 2), x, np.full((1, 2, 2, 2), 4), w, np.full((4, 1, 1, 1), 4))


def test_convolution_is_unfold_and_matmul():
    x, w = leaf(numbers(2, 3, 5, 5)), leaf(numbers(4, 3, 2, 2, seed=1))
    a, b = x.detach().requires_grad_(), w.detach().requires_grad_()
    direct = F.conv2d(x, w, stride=2, padding=1)
    columns = b.reshape(4, -1) @ F.unfold(a, 2, stride=2, padding=1)
    close(direct.detach().numpy(), columns.detach().reshape(2, 4, 3, 3).numpy())
    (direct * direct).sum().backward()
    (columns * columns).sum().backward()
    close(x.grad.numpy(), a.grad.numpy(), gradient=True)
    close(w.grad.numpy(), b.grad.numpy(), gradient=True)
    assert direct.grad_fn.name().startswith("conv2d(")
    assert "stride=[2, 2], padding=" in direct.grad_fn.name()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_stays_half(dtype):
    x = tx.tensor(numbers(1, 2, 4), dtype=dtype, requires_grad=True)
    w = tx.tensor(numbers(2, 2, 2, seed=1), dtype=dtype, requires_grad=True)
    out = F.gelu(F.conv1d(x, w))
    loss = F.cross_entropy(out, tx.tensor([[0, 1, 1]]))
    loss.backward()
    assert {t.dtype.name for t in (out, loss, x.grad, w.grad)} == {dtype}


def test_depthwise_and_separable_are_grouped_convolutions():
    x = tx.tensor(np.arange(36, dtype=np.float32).reshape(1, 2, 3, 6) / 10, requires_grad=True)
    depth = tx.tensor(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 1, 2, 2), requires_grad=True)
    point = tx.tensor(np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4, 1, 1), requires_grad=True)
    ours = F.separable_conv2d(x, depth, point, tx.ones(3), stride=(1, 2), padding=1)
    (ours * ours).sum().backward()
    got = [ours.detach(), x.grad, depth.grad, point.grad]
    for t in (x, depth, point):
        t.grad = None
    plain = F.conv2d(F.conv2d(x, depth, None, (1, 2), 1, 1, groups=2), point, tx.ones(3))
    (plain * plain).sum().backward()
    for a, b in zip(got, [plain.detach(), x.grad, depth.grad, point.grad], strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    assert F.depthwise_conv2d(x[0], depth).shape == (4, 2, 5)
    with pytest.raises(tx.ShapeMismatchError, match="depthwise_conv2d"):
        F.depthwise_conv2d(tx.ones(3), depth)
