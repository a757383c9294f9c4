"""The Tensor as an object: making, typing, reading, copying, printing; what is recorded on it and what is not."""

from __future__ import annotations

import math
import operator
import pickle
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx
from tolerances import close

NAMES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def leaf(data: Any, **options: Any) -> tx.Tensor:
    return tx.tensor(data, requires_grad=True, **options)


def grad_of(x: tx.Tensor) -> Any:
    assert x.grad is not None
    return x.grad.tolist()


# -- making -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (1.5, "float32", ()),
        (2, "int64", ()),
        (True, "bool", ()),
        ([1, 2.5], "float32", (2,)),
        ([[1, 2], [3, 4]], "int64", (2, 2)),
        ([True, False], "bool", (2,)),
        ([], "float32", (0,)),
        ([[], []], "float32", (2, 0)),
        (range(3), "int64", (3,)),
        (np.zeros((2, 3)), "float64", (2, 3)),
        (np.zeros(2, np.float16), "float16", (2,)),
        (np.int32(3), "int32", ()),
        (np.float64(3), "float64", ()),
        (jnp.ones(2, jnp.bfloat16), "bfloat16", (2,)),
        (np.arange(3, dtype=np.uint8), "uint8", (3,)),
    ],
)
def test_dtype_of_data(data, dtype, shape):
    t = tx.tensor(data)
    assert (t.dtype.name, t.shape) == (dtype, shape)
    assert (t.ndim, t.dim(), t.numel(), t.nelement()) == (len(shape), len(shape), math.prod(shape), math.prod(shape))
    assert t.size() == shape
    np.testing.assert_array_equal(t.numpy(), np.asarray(data).astype(t.dtype))


def test_dtype_given():
    for name in NAMES:
        dtype = getattr(tx, name if name != "bool" else "bool_")
        for spelled in (dtype, name):
            t = tx.tensor([1, 0], dtype=spelled)
            assert t.dtype == dtype
            assert t.tolist() == [1, 0]
            assert t.element_size() == dtype.itemsize
    assert [tx.tensor([1], dtype=d).dtype.name for d in (float, int, bool)] == ["float32", "int64", "bool"]
    assert [d.name for d in (tx.float, tx.double, tx.half, tx.long, tx.int)] == [
        "float32",
        "float64",
        "float16",
        "int64",
        "int32",
    ]


def test_default_dtype():
    assert tx.get_default_dtype() == tx.float32
    tx.set_default_dtype("float64")
    try:
        made = (tx.tensor(1.5), tx.zeros(1), tx.arange(0.5), tx.tensor([1]) / 2, tx.full((1,), 0.5), tx.rand(1))
        assert {t.dtype.name for t in made} == {"float64"}
        assert tx.tensor([1]).dtype == tx.int64
    finally:
        tx.set_default_dtype(tx.float32)


def test_data_is_copied():
    source = np.arange(4.0)
    x, y, z = tx.tensor(source), tx.from_numpy(source), tx.as_tensor(source)
    product = x * y
    source[:] = -1
    for t in (x, y, z):
        assert t.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert product.tolist() == [0.0, 1.0, 4.0, 9.0]
    assert tx.as_tensor(x) is x
    assert tx.tensor(x) is not x


def test_tensors_inside_lists():
    x = leaf([1.0, 2.0])
    t = tx.tensor([x, [3, 4]])
    assert t.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert not t.requires_grad


def test_makers():
    assert tx.zeros(2, 3).tolist() == tx.zeros((2, 3)).tolist() == tx.zeros([2, 3]).tolist() == [[0.0] * 3] * 2
    assert tx.ones(2, dtype=tx.int8).tolist() == [1, 1]
    assert tx.empty(0, 2).shape == (0, 2)
    assert tx.zeros().shape == ()
    for value, dtype in ((7, "int64"), (0.5, "float32"), (True, "bool")):
        t = tx.full((2,), value)
        assert (t.tolist(), t.dtype.name) == ([value] * 2, dtype)
    assert tx.full(2, -1, dtype=tx.uint8).tolist() == [255, 255]
    assert tx.full((), 0.5, dtype=bool).item() is True
    assert tx.eye(2).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert tx.eye(2, 3, dtype=tx.int64).tolist() == [[1, 0, 0], [0, 1, 0]]
    x = tx.ones(2, 1, dtype=tx.float16)
    for like in (tx.zeros_like, tx.ones_like, tx.empty_like, tx.rand_like, tx.randn_like):
        assert (like(x).shape, like(x).dtype) == ((2, 1), tx.float16)
    assert tx.full_like(x, 3).tolist() == [[3.0], [3.0]]
    assert tx.zeros_like(x, dtype=tx.int64).dtype == tx.int64
    assert tx.zeros(2, requires_grad=True).requires_grad


def test_ranges():
    assert tx.arange(3).tolist() == [0, 1, 2]
    assert tx.arange(3).dtype == tx.int64
    assert tx.arange(1, 4, 2).tolist() == [1, 3]
    assert tx.arange(3, 0, -1).tolist() == [3, 2, 1]
    assert tx.arange(0).tolist() == []
    assert tx.arange(1, 2, 0.5).tolist() == [1.0, 1.5]
    assert tx.arange(0.0, 1.0, 0.25).dtype == tx.float32
    assert tx.arange(2**40, 2**40 + 2).tolist() == [2**40, 2**40 + 1]
    assert tx.linspace(0, 1, 5).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert tx.linspace(1, 0, 2, dtype=tx.float64).tolist() == [1.0, 0.0]
    assert tx.linspace(3, 4, 1).tolist() == [3.0]


def test_device_names():
    cpu = jax.devices("cpu")[0]
    for device in (None, "cpu", "cpu:0", cpu):
        assert tx.ones(1, device=device).device == cpu
    if len(jax.devices("cpu")) > 1:
        x = tx.arange(3, device="cpu:1")
        assert x.device == jax.devices("cpu")[1]
        assert (x * 2).tolist() == [0, 2, 4]
        assert x.to("cpu:0").device == x.cpu().device == cpu


def test_sixty_four_bits_are_real():
    with jax.enable_x64(False):
        assert (tx.tensor(2**40) + 1).item() == 2**40 + 1
        assert (tx.tensor(1.0, dtype=tx.float64) / 3).item() == 1 / 3


def test_empty_tensors():
    x = leaf(np.zeros((0, 3), np.float32))
    y = (x * 2).sum()
    y.backward()
    assert (y.item(), grad_of(x)) == (0.0, [])
    assert x.grad.shape == (0, 3)
    assert math.isnan(x.detach().mean().item())


# -- promotion; every pair is in test_promotion ------------------------------------------------


def of(module: Any, name: str, dims: int) -> Any:
    return module.ones((1,) * dims, dtype=getattr(module, name))


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("float16", "bfloat16", "float32"),
        ("uint8", "int8", "int16"),
        ("bool", "uint8", "uint8"),
        ("int64", "float16", "float16"),
        ("float32", "float64", "float64"),
        ("int32", "int64", "int64"),
    ],
)
def test_promotion(a, b, result):
    assert (of(tx, a, 1) * of(tx, b, 1)).dtype.name == result
    assert (of(tx, b, 1) * of(tx, a, 1)).dtype.name == result
    assert (of(tx, a, 1) * of(tx, a, 0)).dtype.name == a


def test_a_0d_tensor_widens_only_the_kind():
    assert (of(tx, "float32", 1) * of(tx, "float64", 0)).dtype == tx.float32
    assert (of(tx, "int8", 1) * of(tx, "int64", 0)).dtype == tx.int8
    assert (of(tx, "int64", 1) * of(tx, "float16", 0)).dtype == tx.float16
    assert (of(tx, "bool", 1) + 1).dtype == tx.int64
    with pytest.raises(tx.ArgumentValueError, match="300 does not fit in int8"):
        of(tx, "int8", 1) + 300  # PyTorch wraps it to 44


def test_true_division_and_reductions_of_integers():
    i = tx.tensor([1, 7, -7])
    assert (i / 2).tolist() == [0.5, 3.5, -3.5]
    assert [t.dtype.name for t in (i / i, i / 2, 1 / i, i.sum(), i.bool().sum(), i.exp())] == [
        "float32",
        "float32",
        "float32",
        "int64",
        "int64",
        "float32",
    ]


# -- operators --------------------------------------------------------------------------------

BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}


@pytest.mark.parametrize("name", BINARY)
def test_operators(name):
    op = BINARY[name]
    a, b = np.array([[1.5, -2.0, 3.0]]), np.array([[2.0], [-2.0]])
    x, y = tx.tensor(a), tx.tensor(b)
    got = tx.cat([tx.stack([op(x, y), op(y, x)]).double(), tx.stack([op(x + y * 0, 2), op(2, x + y * 0)]).double()])
    want = np.concatenate([[op(a, b), op(b, a)], [op(a + b * 0, 2), op(2, a + b * 0)]])
    close(got.numpy(), want.astype(np.float64))
    for number in (np.float64(2), np.float32(2), np.int64(2)):
        left, right = op(number, tx.tensor([1.0, 3.0])), op(tx.tensor([1.0, 3.0]), number)
        assert isinstance(left, tx.Tensor)
        assert left.dtype == right.dtype == (tx.bool_ if name in ("lt", "le", "gt", "ge", "eq", "ne") else tx.float32)


def test_integer_arithmetic():
    i, j = tx.tensor([-7, 7, 5]), tx.tensor([2, -2, 3])
    assert (i // j).tolist() == [-4, -4, 1]
    assert (i % j).tolist() == [1, -1, 2]
    assert (i**2).tolist() == [49, 49, 25]
    assert (2 ** tx.tensor([0, 3, 10])).tolist() == [1, 8, 1024]
    assert (tx.tensor([2, -1, 1]) ** tx.tensor([-1, -3, -2])).tolist() == [0, -1, 1]
    assert (tx.tensor([1, -2], dtype=tx.int8) ** 7).tolist() == [1, -128]
    assert (-i).tolist() == [7, -7, -5]
    assert abs(i).tolist() == [7, 7, 5]
    assert (+i).tolist() == i.tolist()
    assert tx.maximum(i, 0).tolist() == [0, 7, 5]


def test_division_with_rounding():
    i = tx.tensor([-7, 7, 6])
    for b in (2, tx.tensor([2, 2, 2])):
        assert i.div(b, rounding_mode="trunc").tolist() == [-3, 3, 3]
        assert i.div(b, rounding_mode="floor").tolist() == [-4, 3, 3]
        assert i.div(b, rounding_mode="trunc").dtype == tx.int64
    assert tx.tensor([-7.0, 7.0]).div(2, rounding_mode="trunc").tolist() == [-3.0, 3.0]
    y = leaf([0.8])
    (tx.tensor([-2.4]) % y).sum().backward()  # -2.4/0.8 rounds to -3, but the remainder is that of -4
    assert grad_of(y) == [4.0]


def test_alpha():
    x, y = tx.tensor([1.0, 2.0]), tx.tensor([10.0, 20.0])
    assert x.add(y, alpha=0.5).tolist() == [6.0, 12.0]
    assert x.sub(y, alpha=2).tolist() == [-19.0, -38.0]
    assert x.sub(1, alpha=3).tolist() == [-2.0, -1.0]


def test_sign_of_nan_is_zero_as_in_torch():
    assert tx.tensor([math.nan, -0.0, 3.0, -2.0]).sign().tolist() == [0.0, 0.0, 1.0, -1.0]
    assert tx.tensor([-3, 0, 2]).sign().tolist() == [-1, 0, 1]


def test_logic():
    a, b = tx.tensor([True, True, False]), tx.tensor([True, False, False])
    assert (a & b).tolist() == [True, False, False]
    assert (a | b).tolist() == [True, True, False]
    assert (a ^ b).tolist() == [False, True, False]
    assert (~a).tolist() == [False, False, True]
    assert (True & b).tolist() == b.tolist()
    assert a.any().item()
    assert not a.all().item()


def test_gradients_through_operators(torch):
    def loss(m, x, y):
        n = np.float32(1.5)
        total = (x + y) * (x - y) / (y * y + 1) + x**2 - 3 * y + (2 - x) / (x + 5) + (-x) * n + n * y
        total = total + 2.0**x + (x + 4) ** y + m.maximum(x, y) + abs(x) + x % 0.7
        return (total * (x > 0) + (x @ y.T).sum() / 3).sum()

    a, b = np.array([[0.3, -1.2, 2.0]], np.float32), np.array([[1.0, 0.5, -0.7], [0.2, 1.1, 0.4]], np.float32)
    ours, theirs = (leaf(a), leaf(b)), [torch.tensor(v, requires_grad=True) for v in (a, b)]
    p, q = loss(tx, *ours), loss(torch, *theirs)
    p.backward()
    q.backward()
    close(p.detach().numpy(), q.detach().numpy())
    for x, y in zip(ours, theirs, strict=True):
        close(x.grad.numpy(), y.grad.numpy(), gradient=True)


def test_reflected_gradients():
    x = leaf([2.0, -4.0])
    ((3 - x) + (1.5 + x) * 2 + 2 * x + 8 / x).sum().backward()
    assert grad_of(x) == [-1 + 2 + 2 - 2.0, -1 + 2 + 2 - 0.5]


def test_a_stranger_may_answer():
    class Stranger:
        def __radd__(self, other: Any) -> str:
            return "mine"

        def __rmul__(self, other: Any) -> str:
            return "mine, too"

    assert tx.ones(2) + Stranger() == "mine"
    assert tx.ones(2) * Stranger() == "mine, too"
    with pytest.raises(TypeError):
        tx.ones(2) - Stranger()


# -- Python's protocols -------------------------------------------------------------------------


def test_equality_hash_and_in():
    a, b = tx.ones(2), tx.ones(2)
    assert (a == b).tolist() == [True, True]
    assert {a: 1, b: 2}[a] == 1
    assert len({a, b, a}) == 2
    assert a in [a, b]
    assert a in {a}
    assert (a == "one") is False
    assert (a != None) is True  # noqa: E711
    assert 1.0 in tx.tensor([0.0, 1.0])
    assert 2.0 not in tx.tensor([0.0, 1.0])


def test_iteration():
    x = leaf([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert len(x) == 3
    assert [row.tolist() for row in x] == x.tolist()
    a, b, c = x
    (a + 2 * b + 3 * c).sum().backward()
    assert grad_of(x) == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    total = sum(x)
    assert total.tolist() == [9.0, 12.0]


def test_numbers():
    x = leaf([1.5, 2.0])
    loss = (x * x).sum()
    assert (float(loss), int(loss), loss.item(), bool(loss)) == (6.25, 6, 6.25, True)
    assert isinstance(tx.tensor([4]).item(), int)
    assert isinstance(tx.tensor([True]).item(), bool)
    assert isinstance(tx.tensor(1.5, dtype=tx.bfloat16).item(), float)
    assert [10, 20, 30][tx.tensor(1)] == 20
    assert list(range(tx.tensor(2))) == [0, 1]
    assert f"{loss:.1f} {tx.tensor(3):03d}" == "6.2 003"
    assert f"{tx.tensor([1.0])}" == "tensor([1.])"
    with pytest.raises((ValueError, OverflowError)):
        int(tx.tensor(float("inf")))


def test_tolist():
    assert tx.tensor(2.5).tolist() == 2.5
    assert tx.tensor([[1, 2]]).tolist() == [[1, 2]]
    assert tx.tensor([1.5], dtype=tx.bfloat16).tolist() == [1.5]
    assert leaf([1.0]).tolist() == [1.0]


def test_numpy():
    x = tx.tensor([1.0, 2.0])
    host = x.numpy()
    with pytest.raises(ValueError, match="read-only"):
        host[0] = 5
    assert x.tolist() == [1.0, 2.0]
    with pytest.raises(tx.AutogradError, match="detach"):
        (leaf([1.0]) * 2).numpy()
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.stack([x.numpy(), x.numpy()]).shape == (2, 2)
    x.add_(1)
    assert host.tolist() == [1.0, 2.0]  # a snapshot
    assert leaf([1.0]).detach().numpy().tolist() == [1.0]
    assert isinstance(x.jax(), jax.Array)


# -- copies, casts, sharing ------------------------------------------------------------------------


def test_detach_shares_storage_and_nothing_else():
    x = leaf([1.0, 2.0])
    x.grad = tx.ones(2)
    d = x.detach()
    assert not d.requires_grad
    assert d.grad is None
    assert d.is_leaf
    d.mul_(10)
    assert x.tolist() == [10.0, 20.0]
    x.data.zero_()
    assert d.tolist() == [0.0, 0.0]
    fresh = x.detach().requires_grad_()
    (fresh * 3).sum().backward()
    assert grad_of(fresh) == [3.0, 3.0]
    assert grad_of(x) == [1.0, 1.0]


def test_detach_cuts_one_path():
    x = leaf([2.0, 3.0])
    y = x * x
    (y.detach() * x + y).sum().backward()
    assert grad_of(x) == [4.0 + 4.0, 9.0 + 6.0]
    z = x * 2
    z.detach_()
    assert z.is_leaf
    assert not z.requires_grad


def test_clone():
    x = leaf([1.0, 2.0])
    c = x.clone()
    (c * 3).sum().backward()
    assert grad_of(x) == [3.0, 3.0]
    d = x.detach().clone()
    d.zero_()
    assert x.tolist() == [1.0, 2.0]


def test_casts():
    x = leaf([1.5, -2.5])
    assert x.to(tx.float32) is x
    assert x.float() is x
    assert x.to("cpu") is x
    assert x.to(x) is x
    assert [x.double().dtype, x.half().dtype, x.bfloat16().dtype, x.long().dtype, x.int().dtype, x.bool().dtype] == [
        tx.float64,
        tx.float16,
        tx.bfloat16,
        tx.int64,
        tx.int32,
        tx.bool_,
    ]
    assert x.long().tolist() == [1, -2]
    assert x.type_as(tx.tensor([1], dtype=tx.int32)).dtype == tx.int32
    assert x.to(tx.float32, copy=True) is not x
    assert x.to("float64").dtype == x.to(dtype=float, device="cpu").double().dtype == tx.float64
    (x.double() * 2).sum().backward()
    assert grad_of(x) == [2.0, 2.0]
    assert x.grad.dtype == tx.float32
    assert not x.long().requires_grad
    assert x.contiguous() is x
    assert x.is_contiguous()
    assert x.is_floating_point()
    assert not x.long().is_floating_point()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_pickle(dtype):
    x = tx.tensor([1, 0], dtype=dtype)
    y = pickle.loads(pickle.dumps(x))
    assert (y.tolist(), y.dtype, y.requires_grad) == (x.tolist(), x.dtype, False)


# -- the graph as it shows ----------------------------------------------------------------------------


def test_leaves_and_results():
    x, c = leaf([1.0, 2.0]), tx.tensor([1.0, 2.0])
    y = x * c
    assert (x.is_leaf, x.requires_grad, x.grad_fn) == (True, True, None)
    assert (c.is_leaf, c.requires_grad, c.grad_fn) == (True, False, None)
    assert (y.is_leaf, y.requires_grad) == (False, True)
    assert (c * c).is_leaf
    for quiet in (x > 0, x.long(), x.argmax(), x.detach() * 2, x.isnan()):
        assert not quiet.requires_grad
    assert x.requires_grad_(False) is x
    assert not (x * 2).requires_grad
    x.requires_grad = True
    assert (x * 2).requires_grad
    assert y.requires_grad_() is y


def test_diagnostic_names():
    x, v, s = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf([1.0, 2.0]), leaf(1.0)
    i = tx.tensor([[0], [1]])
    named = {
        "add": x + v,
        "sub": x - v,
        "mul": x * v,
        "div": x / v,
        "mul_scalar": x * 2,
        "add_scalar": x + 2,
        "div_scalar": x / 2,
        "sum": x.sum(),
        "mean": x.mean(),
        "matmul": x @ x,
        "maximum": tx.maximum(x, v),
        "minimum": tx.minimum(x, v),
        "exp": x.exp(),
        "log": x.log(),
        "pow(exponent=2.0)": x**2,
        "pow(exponent=0.5)": x**0.5,
        "mean_dim(dims=[1], keepdim=False)": x.mean(-1),
        "sum_dim(dims=[0, 1], keepdim=True)": x.sum((0, -1), keepdim=True),
        "view(reshape)": x.reshape(4),
        "view(permute[1, 0])": x.permute(-1, 0),
        "view(expand)": v.expand(3, 2),
        "view(narrow(dim=0, start=1))": x.narrow(-2, 1, 1),
        "cat(dim=1)": tx.cat([x, x], -1),
        "stack(dim=0)": tx.stack([x, x]),
        "log_softmax(dim=1)": tx.log_softmax(x, -1),
        "leaky_relu(slope=0.01)": tx.nn.functional.leaky_relu(x),
        "clamp(min=0.0, max=None)": x.clamp(min=0),
        "clamp(min=-1.0, max=2.5)": x.clamp(-1, 2.5),
        "custom(mine)": tx.custom_op("mine", lambda a: a)(x),
        "gather": tx.gather(x, 1, i),
        "im2col": tx.nn.functional.unfold(x.reshape(1, 1, 2, 2), 1),
    }
    wrong = {}
    for name, t in named.items():
        fn = t.grad_fn
        if name == "im2col":  # the patches are arranged afterwards
            while fn is not None and fn.name().startswith("view"):
                fn = fn.next_functions[0][0]
        assert fn is not None
        if fn.name() != name:
            wrong[name] = fn.name()
    assert wrong.pop("gather", "").startswith(("gather", "take_along_dim"))  # PyTorch's gather, along one axis
    assert wrong == {}
    assert repr((x + v).grad_fn) == "<grad_fn add>"
    first, second = (x + s).grad_fn.next_functions
    assert first[0].name() == second[0].name() == "leaf"


def test_grad_fn_identity():
    x = leaf([1.0])
    y = x * 2
    assert y.grad_fn == y.grad_fn
    assert y.grad_fn != (x * 2).grad_fn
    assert hash(y.grad_fn) == hash(y.grad_fn)


def test_grad_is_assignable():
    x = leaf([1.0, 2.0])
    assert x.grad is None
    g = tx.tensor([5.0, 6.0])
    x.grad = g
    assert x.grad is g
    (x * 3).sum().backward()
    assert x.grad is g  # accumulation keeps the object
    assert g.tolist() == [8.0, 9.0]
    x.grad.zero_()
    assert g.tolist() == [0.0, 0.0]
    x.grad = None
    assert x.grad is None
    (x * 3).sum().backward()
    assert grad_of(x) == [3.0, 3.0]
    assert x.grad is not g


def test_gradients_do_not_alias():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    seed = tx.ones(2)
    (x + y).backward(seed)
    x.grad.zero_()
    assert grad_of(y) == [1.0, 1.0]
    assert seed.tolist() == [1.0, 1.0]
    seed.mul_(5)
    assert grad_of(y) == [1.0, 1.0]
    root = leaf(2.0)
    root.backward()
    assert grad_of(root) == 1.0


def test_one_element_is_a_scalar():
    x = leaf([[3.0]])
    (x * x).backward()
    assert grad_of(x) == [[6.0]]


def test_retained_gradient():
    x = leaf([1.0, 2.0])
    y = x * x
    y.retain_grad()
    (y * 3).sum().backward()
    assert (grad_of(y), grad_of(x)) == ([3.0, 3.0], [6.0, 12.0])


# -- grad mode -----------------------------------------------------------------------------------------


def test_modes_as_contexts():
    x = leaf([1.0])
    with tx.no_grad():
        assert not tx.is_grad_enabled()
        assert not (x * 2).requires_grad
        with tx.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
        with tx.set_grad_enabled(True):
            assert tx.is_grad_enabled()
        assert not tx.is_grad_enabled()
    assert tx.is_grad_enabled()
    with pytest.raises(KeyError), tx.no_grad():
        raise KeyError("stop")
    assert tx.is_grad_enabled()


def test_modes_as_decorators():
    @tx.no_grad()
    def quiet() -> bool:
        return tx.is_grad_enabled()

    @tx.no_grad
    def bare() -> bool:
        return tx.is_grad_enabled()

    @tx.set_grad_enabled(False)
    def off() -> bool:
        return tx.is_grad_enabled()

    assert tx.is_grad_enabled()

    @tx.enable_grad()
    def loud() -> bool:
        return tx.is_grad_enabled()

    @tx.no_grad()
    def fails() -> None:
        raise KeyError("stop")

    assert (quiet(), bare(), off(), quiet.__name__) == (False, False, False, "quiet")
    with tx.no_grad():
        assert loud()
    with pytest.raises(KeyError):
        fails()
    assert tx.is_grad_enabled()


def test_set_grad_enabled_as_a_call():
    tx.set_grad_enabled(False)
    try:
        assert not (leaf([1.0]) * 2).requires_grad
    finally:
        tx.set_grad_enabled(True)
    assert tx.is_grad_enabled()


def test_one_mode_object_used_twice():
    mode = tx.no_grad()
    with mode, mode:
        assert not tx.is_grad_enabled()
    assert tx.is_grad_enabled()
    again = tx.set_grad_enabled(False)
    tx.set_grad_enabled(True)
    with again:
        assert not tx.is_grad_enabled()
    assert tx.is_grad_enabled()


def test_modes_belong_to_a_thread():
    seen: list[bool] = []
    with tx.no_grad():
        thread = threading.Thread(target=lambda: seen.append(tx.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_what_counts_is_the_mode_at_the_call():
    x = leaf([1.0, 2.0])
    with tx.no_grad():
        y = x * 2
    z = x * y
    total = z.sum()
    with tx.no_grad():
        total.backward()
    assert grad_of(x) == [2.0, 4.0]


# -- repr ------------------------------------------------------------------------------------------------

inf, nan = float("inf"), float("nan")
SHOWN = {
    "tensor(1.0)": "tensor(1.)",
    "tensor([1.0, 2.5])": "tensor([1.0000, 2.5000])",
    "tensor([1, 20, -3])": "tensor([ 1, 20, -3])",
    "tensor([[True], [False]])": "tensor([[ True],\n        [False]])",
    "tensor([nan, 1.0])": "tensor([nan, 1.])",
    "tensor([0.5, inf, -3.0])": "tensor([ 0.5000,     inf, -3.0000])",
    "tensor([1e-5, 1.0])": "tensor([1.0000e-05, 1.0000e+00])",
    "tensor([])": "tensor([])",
    "zeros(0, 3)": "tensor([], size=(0, 3))",
    "tensor([1, 2], dtype=int32)": "tensor([1, 2], dtype=int32)",
    "tensor([1.5], dtype=float64)": "tensor([1.5000], dtype=float64)",
    "tensor([1.0], requires_grad=True)": "tensor([1.], requires_grad=True)",
    "arange(2000)": "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])",
}
ALSO = """
tensor(3.14159265) | tensor(1e-10) | tensor(123456789) | tensor(nan) | tensor(-inf) | tensor(True)
tensor(2, dtype=int8) | tensor([1e10, 1.0]) | tensor([inf, -1.5]) | tensor([nan]) | tensor([inf, nan])
tensor([5.0, inf]) | tensor([5e9, inf]) | tensor([0.0, -0.0]) | tensor([1234567.0]) | tensor([100000.0, 1.0])
tensor([0.1, 1000.0]) | tensor([0.0001]) | tensor([0.00001]) | tensor([123456.789]) | tensor([1e8]) | tensor([1e9])
tensor([99999999.0, 0.5]) | tensor([1e-38, 1.0]) | tensor([1.0, 1000.0]) | tensor([1.0, 10000.0])
tensor([[1.5, 2.0], [1000.25, 3.0]]) | tensor([1e-3, 1.0]) | tensor([1.5], dtype=float16)
tensor([1.5], dtype=bfloat16) | tensor([1, 2], dtype=uint8) | tensor([1.00001]) | tensor([[1], [20]]) | zeros(2, 2, 2)
zeros(1, 2, 2, 2) | zeros(2, 0) | zeros(2, 3, 0) | zeros(0, dtype=float64) | arange(3) | arange(24).reshape(2, 3, 4)
arange(30) * 1000 | arange(100).double() / 7 | linspace(0, 1, 50) | arange(40) - 20 | zeros(1001) | zeros(3, 400)
zeros(500, 2) | zeros(7, 200) | zeros(11, 11, 11) | arange(2000).reshape(2, 1000) | arange(2000).double() * 0.5
zeros(0, 3, dtype=int64) | tensor([65504.0], dtype=float16) | tensor([1e-7, 2e-7])
"""


@pytest.mark.parametrize("text", SHOWN)
def test_repr(text):
    scope = {"inf": inf, "nan": nan}
    assert repr(eval(text, {**vars(tx), **scope})) == SHOWN[text]
    assert str(eval(text, {**vars(tx), **scope})) == SHOWN[text]


def test_repr_is_torch_s(torch):
    scope = {"inf": inf, "nan": nan}
    texts = [t.strip() for line in ALSO.strip().splitlines() for t in line.split("|")]
    for text in (*SHOWN, *texts):
        theirs = repr(eval(text, {**vars(torch), **scope})).replace("torch.", "")
        assert repr(eval(text, {**vars(tx), **scope})) == theirs, text


def test_repr_of_results():
    x = leaf([1.0, 2.0])
    assert repr(x * 2) == "tensor([2., 4.], grad_fn=<grad_fn mul_scalar>)"
    assert repr((x * 2).detach()) == "tensor([2., 4.])"
    seen = []
    jax.jit(lambda a: seen.append(repr(tx.as_tensor(a))))(jnp.ones(2))
    assert seen == ["tensor(<traced, shape=[2]>, dtype=float32)"]
