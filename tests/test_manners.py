"""A Tensor among Python's and NumPy's things: copies that share what was shared, ufuncs, membership, weak refs."""

from __future__ import annotations

import copy
import gc
import io
import math
import operator
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx
from tolerances import close


def leaf(data: Any, **options: Any) -> tx.Tensor:
    return tx.tensor(data, requires_grad=True, **options)


def grad_of(x: tx.Tensor) -> Any:
    assert x.grad is not None
    return x.grad.tolist()


# -- copies ---------------------------------------------------------------------------------


def test_a_shallow_copy_shares_storage() -> None:
    x = leaf([1.0, 2.0])
    x.grad = tx.ones(2)
    x.note = "kept"  # type: ignore[attr-defined]
    c = copy.copy(x)
    assert (c.is_leaf, c.requires_grad, c.grad, c.note) == (True, True, None, "kept")  # type: ignore[attr-defined]
    with tx.no_grad():
        c.mul_(10)
    assert x.tolist() == [10.0, 20.0]
    (c * 2).sum().backward()
    assert (grad_of(c), grad_of(x)) == ([2.0, 2.0], [1.0, 1.0])
    result = copy.copy(x * 2)
    assert result.is_leaf
    assert result.requires_grad
    assert not copy.copy(tx.tensor([1])).requires_grad


def test_a_deep_copy_is_one_s_own() -> None:
    x = leaf([1.0, 2.0])
    x.grad = tx.tensor([3.0, 4.0])
    x.note = ["kept"]  # type: ignore[attr-defined]
    c = copy.deepcopy(x)
    assert (c.tolist(), grad_of(c), c.requires_grad) == ([1.0, 2.0], [3.0, 4.0], True)
    assert c.note == ["kept"]  # type: ignore[attr-defined]
    assert c.note is not x.note  # type: ignore[attr-defined]
    with tx.no_grad():
        c.zero_()
        c.grad.zero_()  # type: ignore[union-attr]
    assert (x.tolist(), grad_of(x)) == ([1.0, 2.0], [3.0, 4.0])


def test_deep_copies_remember_each_other() -> None:
    x = leaf([1.0, 2.0])
    x.grad = tx.ones(2)
    for things in ([x, x.grad], [x.grad, x]):
        a, b = copy.deepcopy(things)
        tensor, gradient = (a, b) if a.requires_grad else (b, a)
        assert tensor.grad is gradient
    twice = copy.deepcopy([x, x])
    assert twice[0] is twice[1]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_deep_copies_share_what_was_shared(order: tuple[int, ...]) -> None:
    def things(m: Any) -> list[Any]:
        x = m.tensor([[1.0, 2.0], [3.0, 4.0]])
        found = [x, x[0], x.detach(), x.t()]
        return [found[k] for k in order]

    def told(m: Any) -> Any:
        originals = things(m)
        copies = copy.deepcopy(originals)
        copies[order.index(1)].mul_(10)
        copies[order.index(2)][1, 0] = -1
        return [c.tolist() for c in copies], [o.tolist() for o in originals]

    copies, originals = told(tx)
    by_name = dict(zip(order, copies, strict=True))
    assert by_name[0] == by_name[2] == [[10.0, 20.0], [-1.0, 4.0]]
    assert (by_name[1], by_name[3]) == ([10.0, 20.0], [[10.0, -1.0], [20.0, 4.0]])
    assert dict(zip(order, originals, strict=True))[0] == [[1.0, 2.0], [3.0, 4.0]]
    torch = pytest.importorskip("torch")
    assert told(torch) == (copies, originals)


def test_a_parameter_and_its_alias_deep_copied() -> None:
    x = leaf([1.0, 2.0])
    for things in ([x, x.detach()], [x.detach(), x]):
        copies = copy.deepcopy(things)
        plain, parameter = sorted(copies, key=lambda t: t.requires_grad)
        plain.zero_()
        assert parameter.tolist() == [0.0, 0.0]
        (parameter * 3).sum().backward()
        assert grad_of(parameter) == [3.0, 3.0]
    assert x.tolist() == [1.0, 2.0]


def test_a_result_refuses_to_be_deep_copied() -> None:
    x = leaf([1.0, 2.0])
    for result in (x * 2, (x * 2)[0], x[0]):
        with pytest.raises(tx.AutogradError, match=r"leaves.*detach"):
            copy.deepcopy(result)
    copy.deepcopy((x * 2).detach())


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles(protocol: int) -> None:
    x = leaf([1.0, math.nan, -math.inf])
    x.grad = tx.tensor([3.0, 4.0, 5.0])
    x.note = {"kept": 1}  # type: ignore[attr-defined]
    y = pickle.loads(pickle.dumps(x, protocol))
    assert (y.requires_grad, y.is_leaf, y.note, grad_of(y)) == (True, True, {"kept": 1}, [3.0, 4.0, 5.0])
    np.testing.assert_array_equal(y.detach().numpy(), x.detach().numpy())
    with tx.no_grad():
        y.zero_()
    assert x[0].item() == 1.0
    result = pickle.loads(pickle.dumps(x * 2, protocol))
    assert (result.requires_grad, result.is_leaf) == (True, True)
    file = io.BytesIO()
    pickle.dump({"a": tx.arange(3), "views": tx.zeros(2, 2)[0]}, file, protocol)
    file.seek(0)
    loaded = pickle.load(file)
    assert (loaded["a"].tolist(), loaded["views"].tolist()) == ([0, 1, 2], [0.0, 0.0])


# -- NumPy ----------------------------------------------------------------------------------

_UFUNCS = """
add subtract multiply divide floor_divide remainder power maximum minimum fmax fmin fmod arctan2 hypot
logaddexp copysign less less_equal greater greater_equal equal not_equal logical_and logical_or
logical_xor
"""
UFUNCS = _UFUNCS.split()
_UNARY = """
negative absolute sign exp exp2 expm1 log log2 log10 log1p sqrt square reciprocal sin cos tan arcsin
arccos arctan sinh cosh tanh arcsinh arctanh floor ceil trunc rint isnan isinf isfinite deg2rad rad2deg
degrees radians fabs logical_not
"""
UNARY = _UNARY.split()


def test_numpys_functions_are_ours() -> None:
    a, b = np.array([0.3, -0.7, 0.5]), np.array([0.2, 0.9, -0.4])
    for name in UFUNCS:
        ufunc = getattr(np, name)
        with np.errstate(all="ignore"):
            want = ufunc(a, b)
        for got in (ufunc(tx.tensor(a), tx.tensor(b)), ufunc(a, tx.tensor(b)), ufunc(tx.tensor(a), b)):
            assert isinstance(got, tx.Tensor), name
            close(got.numpy(), want, what=name)
        assert isinstance(ufunc(2.0, tx.tensor(b)), tx.Tensor)
    for name in UNARY:
        with np.errstate(all="ignore"):
            want = getattr(np, name)(a)
        got = getattr(np, name)(tx.tensor(a))
        assert isinstance(got, tx.Tensor), name
        close(got.numpy(), want, what=name)
    assert np.invert(tx.tensor([1, 2])).tolist() == [-2, -3]
    assert np.left_shift(tx.tensor([1, 2]), 2).tolist() == [4, 8]
    assert np.matmul(np.eye(2), tx.ones(2, dtype=tx.float64)).tolist() == [1.0, 1.0]


def test_numpys_functions_are_recorded() -> None:
    """A tensor that requires grad is never taken for its bare value."""
    x = leaf([0.5, 1.5, 2.0])
    n = np.array([1.0, 2.0, 3.0], np.float32)
    total = np.sin(x) * n + n * x + np.add(x, 1) * np.float32(2) + np.exp(x) / n - n**x
    total.sum().backward()
    want = jax.grad(lambda v: (jnp.sin(v) * n + n * v + (v + 1) * 2 + jnp.exp(v) / n - n**v).sum())(x.detach().jax())
    assert isinstance(total, tx.Tensor)
    close(np.asarray(grad_of(x), np.float32), np.asarray(want), gradient=True)


OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne"]


@pytest.mark.parametrize("name", OPERATORS)
def test_arrays_beside_tensors(name: str) -> None:
    function = getattr(operator, name)
    n, x = np.array([2.0, 3.0], np.float32), tx.tensor([3.0, 2.0])
    for got, want in ((function(n, x), function(n, x.numpy())), (function(x, n), function(x.numpy(), n))):
        assert isinstance(got, tx.Tensor)
        assert got.tolist() == want.tolist()
    assert function(np.float64(2), x).dtype == function(x, np.float64(2)).dtype  # a NumPy scalar is a number
    assert (x + np.ones(2)).dtype == tx.float64  # an array is a tensor of its dtype


def test_arrays_in_place() -> None:
    x = tx.tensor([1.0, 2.0])
    alias = x.detach()
    x += np.array([1.0, 1.0])
    x *= np.float64(2)
    assert (alias.tolist(), x.dtype) == ([4.0, 6.0], tx.float32)
    n = np.zeros(2, np.float32)
    n[:] = x
    assert n.tolist() == [4.0, 6.0]
    with pytest.raises(tx.AutogradError, match="detach"):
        n[:] = leaf([1.0, 2.0])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.add.reduce(x),
        lambda x: np.multiply.outer(x, np.ones(2)),
        lambda x: np.add(x, 1, out=np.zeros(2)),
        lambda x: np.sin(x, where=np.array([True, False])),
        lambda x: np.spacing(x),
        lambda x: np.modf(x),
        lambda x: np.add.at(np.zeros(2), [0, 1], x),
    ],
)
def test_what_numpy_cannot_do_says_so(call: Callable[[Any], Any]) -> None:
    with pytest.raises(tx.ArgumentTypeError, match=r"np\..*NumPy cannot do this to a Tensor.*detach\(\).numpy\(\)"):
        call(leaf([1.0, 2.0]))


def test_as_an_array() -> None:
    x = tx.tensor([1.0, 2.0])
    own = np.array(x)
    own[0] = 9
    assert (x.tolist(), own.tolist()) == ([1.0, 2.0], [9.0, 2.0])
    assert not np.asarray(x).flags.writeable
    assert np.asarray(x, dtype=np.int32).dtype == np.int32
    assert np.array(x, copy=True).flags.writeable
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(x, dtype=np.int32, copy=False)
    for read in (np.asarray, np.array, lambda v: np.stack([v, v]), lambda v: np.concatenate([v, v])):
        with pytest.raises(tx.AutogradError, match="detach"):
            read(leaf([1.0]))
    assert np.concatenate([x, x]).tolist() == [1.0, 2.0, 1.0, 2.0]
    assert x.__array_priority__ > np.zeros(1).__array_priority__


# -- membership, order, numbers ---------------------------------------------------------------


def test_membership() -> None:
    m = tx.tensor([[1.0, 2.0], [3.0, math.nan]])
    assert 2 in m
    assert 2.0 in m
    assert tx.tensor(3.0) in m
    assert tx.tensor([1.0, 2.0]) in m
    assert 7 not in m
    assert math.nan not in m
    assert True in tx.tensor([False, True])
    for stranger in ("a", None, [1.0]):
        with pytest.raises(tx.ArgumentTypeError, match="in a Tensor"):
            stranger in m  # noqa: B015
    assert m in [m]
    assert "a" not in [m]


def test_reversed_and_sorted() -> None:
    x = leaf([3.0, 1.0, 2.0])
    y = reversed(x)
    assert isinstance(y, tx.Tensor)
    assert (y.tolist(), [v.item() for v in sorted(x)]) == ([2.0, 1.0, 3.0], [1.0, 2.0, 3.0])
    (y * tx.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert grad_of(x) == [100.0, 10.0, 1.0]
    assert reversed(tx.tensor(1.5)).item() == 1.5
    assert (max(x).item(), min(x).item()) == (3.0, 1.0)


def test_numbers() -> None:
    s = leaf(-2.5)
    assert (complex(s), round(s).item(), round(tx.tensor(1.26), 1).item()) == (-2.5 + 0j, -2.0, pytest.approx(1.3))
    assert [math.floor(s), math.ceil(s), math.isnan(s), math.sqrt(-s)] == [-3, -2, False, 2.5**0.5]
    assert "ab"[tx.tensor(True)] == "b"
    assert abs(s).item() == 2.5
    for convert in (float, int, complex, bool):
        with pytest.raises(tx.TorshError, match=r"one element|ambiguous"):
            convert(tx.ones(2))
        with pytest.raises(tx.TorshError, match=r"one element|ambiguous"):
            convert(tx.ones(0))
    with pytest.raises(TypeError, match="integer tensor"):
        "ab"[tx.tensor(1.0)]


def test_format() -> None:
    """As in PyTorch a 0-d tensor formats as its number; ``str`` shows the tensor."""
    s = leaf(1.5)
    assert [f"{s}", f"{s:.2f}", f"{tx.tensor(3)}", f"{tx.tensor(True)}"] == ["1.5", "1.50", "3", "True"]
    assert str(s) == "tensor(1.5000, requires_grad=True)"
    assert f"{tx.tensor([1.0])}" == "tensor([1.])"
    assert f"{tx.tensor([1.5]):.2f}" == "1.50"
    with pytest.raises(TypeError, match="exactly one element"):
        f"{tx.ones(2):.2f}"
    seen = []
    jax.jit(lambda a: seen.append(f"{tx.as_tensor(a)}"))(1.0)
    assert seen == ["tensor(<traced, shape=[]>, dtype=float32)"] or "traced" in seen[0]


def test_logical_operators_write_in_place() -> None:
    b, i = tx.tensor([True, True]), tx.tensor([7, 7])
    both = b.detach(), i.detach()
    b &= tx.tensor([True, False])
    b |= tx.tensor([False, False])
    b ^= True
    i //= 2
    i <<= 2
    i >>= 1
    i &= 12
    assert [t.tolist() for t in both] == [[False, True], [4, 4]]


# -- identity, references, attributes ----------------------------------------------------------


def test_identity() -> None:
    a, b = tx.ones(2), tx.ones(2)
    assert hash(a) == hash(a)
    assert len({a, b}) == 2
    seen = {a: "a", b: "b"}
    a.add_(1)
    assert seen[a] == "a"
    assert [a, b].index(a) == 0


def test_weak_references() -> None:
    x = leaf([1.0])
    known: weakref.WeakValueDictionary[str, tx.Tensor] = weakref.WeakValueDictionary(x=x)
    gone: list[str] = []
    weakref.finalize(x, gone.append, "x")
    reference = weakref.ref(x)
    y = x * 2
    assert reference() is x
    del x
    y.sum().backward()  # the graph holds the leaf's slot, not the handle
    gc.collect()
    assert (reference(), dict(known), gone) == (None, {}, ["x"])


def test_attributes() -> None:
    x = tx.ones(2)
    x.tag = "mine"  # type: ignore[attr-defined]
    assert x.tag == "mine"  # type: ignore[attr-defined]
    assert {"tag", "backward", "add_", "grad", "T"} <= set(dir(x))
    del x.tag  # type: ignore[attr-defined]
    assert not hasattr(x, "tag")


class Mine(tx.Tensor):
    """A subclass as people write them: a method, nothing else."""

    def doubled(self) -> tx.Tensor:
        return self * 2


class Named(tx.Tensor):
    """One that is built in ``__new__``, as ``torch.nn.Parameter`` is."""

    name: str

    def __new__(cls, data: Any, name: str) -> Named:
        out = tx.Tensor._make_subclass(cls, tx.as_tensor(data), True)
        out.name = name
        return out

    def __init__(self, data: Any, name: str) -> None:
        super().__init__(data)


def test_results_are_of_the_subclass() -> None:
    m = Mine([[1.0, 2.0], [3.0, 4.0]])
    assert repr(m) == "Mine([[1., 2.],\n      [3., 4.]])"
    plain = tx.ones(2, 2)
    many = [
        m + 1,
        1 + m,
        1.5 * m,
        m * 0.5,
        plain + m,
        m @ plain,
        m[0],
        m.T,
        m.sum(),
        m.detach(),
        m.clone(),
        m.doubled(),
    ]
    many += [m.split(1)[0], m.max(0).values, tx.zeros_like(m) * m, m.double(), tx.nn.functional.linear(plain, m), -m]
    many += [copy.copy(m), copy.deepcopy(m), pickle.loads(pickle.dumps(m))]
    for _ in range(4):  # known places must not forget the class
        many += [m + 1, plain * m, m.relu(), tx.nn.functional.softmax(m, 0)]
    assert {type(t) for t in many} == {Mine}
    assert [many[0].tolist(), many[5].tolist()] == [[[2.0, 3.0], [4.0, 5.0]], [[3.0, 3.0], [7.0, 7.0]]]
    assert type(plain + 1) is tx.Tensor
    before = m.detach()
    m += 1
    assert type(m) is Mine
    assert before.tolist() == m.tolist() == [[2.0, 3.0], [4.0, 5.0]]


def test_subclasses_differentiate() -> None:
    m = Mine([1.0, 2.0]).requires_grad_()
    for _ in range(3):
        m.grad = None
        (m * m).sum().backward()
        assert m.grad is not None
        assert (type(m.grad), m.grad.tolist()) == (tx.Tensor, [2.0, 4.0])
        with tx.no_grad():
            m -= 0.0 * m.grad
    assert m.is_leaf
    x = tx.ones(2, requires_grad=True)
    seen = x.as_subclass(Mine)
    assert (type(seen), seen.is_leaf, seen.requires_grad) == (Mine, False, True)
    seen.doubled().sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]
    p = Named([1.0, 2.0], "weight")
    assert (type(p), p.name, p.is_leaf, p.requires_grad, p.tolist()) == (Named, "weight", True, True, [1.0, 2.0])
    value, grad = tx.value_and_grad(lambda w: (w.doubled() * w).sum())(Mine([3.0]))
    assert (value.item(), grad.tolist()) == (18.0, [12.0])


def test_subclasses_elsewhere() -> None:
    m = Mine([1.0, 2.0])
    assert type(jax.jit(lambda t: t.doubled())(m)) is Mine
    assert type(jax.tree.map(lambda v: v, m)) is Mine

    @tx.compile
    def step(t: tx.Tensor) -> tuple[tx.Tensor, tx.Tensor]:
        return t.doubled() if isinstance(t, Mine) else t, m * t

    for _ in range(4):
        assert [type(t) for t in step(m)] == [Mine, Mine]
        assert [t.tolist() for t in step(m)] == [[2.0, 4.0], [1.0, 4.0]]
        assert [type(t) for t in step(tx.ones(2))] == [tx.Tensor, Mine]
    tape = tx.record(lambda t: t.doubled())(m)
    assert tape.replay(tx.ones(2)).tolist() == [2.0, 2.0]
    for wrap in (tx.jit, tx.vmap, tx.checkpoint):
        for t in (Mine([1.0, 2.0]), Mine([1.0, 2.0]).requires_grad_()):
            out = wrap(lambda t: t.doubled() if isinstance(t, Mine) else t)(t)
            assert (type(out), out.tolist()) == (Mine, [2.0, 4.0])
            if t.requires_grad:
                out.sum().backward()
                assert t.grad is not None
                assert t.grad.tolist() == [2.0, 2.0]
    with pytest.raises(tx.ArgumentTypeError, match=r"__torch_function__.*override the methods"):

        class Other(tx.Tensor):
            @classmethod
            def __torch_function__(cls, *args: Any) -> Any:
                return None

    with pytest.raises(tx.ArgumentTypeError, match=r"as_subclass.*subclass of Tensor.*int"):
        m.as_subclass(int)  # type: ignore[arg-type]
    with pytest.raises(tx.ArgumentTypeError, match="data must be a Tensor, got list"):
        tx.Tensor._make_subclass(Mine, [1.0])  # type: ignore[arg-type]
    with pytest.raises(tx.ArgumentTypeError, match="make Tensors"):
        tx.Tensor([1.0])  # type: ignore[arg-type]


def test_attributes_of_a_subclass_travel() -> None:
    m = Mine([1.0, 2.0])
    m.unit, m._hidden = "kg", [1]
    for twin in (copy.copy(m), copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert (type(twin), twin.unit, twin._hidden, twin.tolist()) == (Mine, "kg", [1], [1.0, 2.0])
    assert copy.deepcopy(m)._hidden is not m._hidden


def test_repr_of_more() -> None:
    torch = pytest.importorskip("torch")
    texts = """
    tensor([inf, nan, -inf]) | tensor([1.0, inf]).double() | tensor([[nan]]) | zeros(0, 2, 3) | zeros(2, 0, dtype=int64)
    ones(30, 30) | arange(10000).reshape(100, 100) | full((1001,), 0.5) | zeros(3, 1, 1001) | tensor(inf)
    tensor([1.5, nan]).half() | tensor([1, 2]).bool() | tensor([1e-20, inf]) | tensor([-0.0]) | zeros(1, 0)
    tensor([[1.0, 2.0]], requires_grad=True) | tensor(3, dtype=uint8) | tensor([]).long() | ones(2, 2)[0] | ones(2, 3).T
    """
    scope = {"inf": math.inf, "nan": math.nan}
    for text in (t.strip() for line in texts.strip().splitlines() for t in line.split("|")):
        theirs = repr(eval(text, {**vars(torch), **scope})).replace("torch.", "")
        assert repr(eval(text, {**vars(tx), **scope})) == theirs, text
