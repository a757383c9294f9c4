"""PyTorch's names: second names are the same functions, conveniences do what PyTorch's do, absent ones say so."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torsh_fx as tx
from tolerances import close
from torsh_fx import absent
from torsh_fx.aliases import ALIASES


def leaf(data: Any, **options: Any) -> tx.Tensor:
    return tx.tensor(data, requires_grad=True, **options)


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


# -- second names -----------------------------------------------------------------------------


def test_aliases_are_the_same_functions() -> None:
    for alias, name in ALIASES.items():
        for form in ("", "_"):
            if hasattr(tx.Tensor, name + form):
                assert getattr(tx.Tensor, alias + form) is getattr(tx.Tensor, name + form), alias
        if hasattr(tx, alias):
            assert getattr(tx, alias) is getattr(tx, name), alias
    assert tx.concatenate is tx.cat
    assert tx.row_stack is tx.vstack
    assert tx.asarray is tx.as_tensor
    assert tx.conv2d is tx.nn.functional.conv2d


def test_aliases_are_pytorchs_names() -> None:
    torch = pytest.importorskip("torch")
    for alias in ALIASES:
        assert hasattr(torch.Tensor, alias), alias
    invented = [n for n in dir(tx.Tensor) if not n.startswith("_") and hasattr(tx.Tensor, n)]
    assert [n for n in invented if not hasattr(torch.Tensor, n)] == OURS


OURS = ["gelu", "jax", "leaky_relu", "vecdot"]  # methods that PyTorch does not have


def test_aliases_give_what_they_name() -> None:
    x = tx.tensor([-1.5, 0.5])
    assert x.absolute().tolist() == [1.5, 0.5]
    assert x.clip(0, 1).tolist() == [0.0, 0.5]
    assert x.multiply(2).subtract(1).divide(2).negative().tolist() == [2.0, 0.0]
    assert x.greater(0).tolist() == [False, True]
    assert x.absolute_() is x
    assert x.tolist() == [1.5, 0.5]
    x.clip_(max=1.0).multiply_(3)
    assert x.tolist() == [3.0, 1.5]


# -- facts ------------------------------------------------------------------------------------


def test_facts() -> None:
    x = tx.zeros(2, 3, 4, dtype=tx.float64)
    assert (x.numel(), tx.numel(x), x.nelement(), x.ndimension(), x.nbytes, x.itemsize) == (24, 24, 24, 3, 192, 8)
    assert [tx.is_tensor(v) for v in (x, 1.0, np.ones(2))] == [True, False, False]
    assert [x.stride(), x.stride(-1), tx.zeros(()).stride(), tx.zeros(0, 2).stride()] == [(12, 4, 1), 1, (), (2, 1)]
    assert [tx.is_floating_point(x), x.is_complex(), x.is_signed(), tx.ones(1).byte().is_signed()] == [
        True,
        False,
        True,
        False,
    ]
    assert [x.is_cpu, x.is_cuda, x.is_sparse, x.is_quantized] == [True, False, False, False]
    assert x.is_same_size(tx.zeros(2, 3, 4))
    assert not x.is_same_size(tx.zeros(4, 3, 2))
    assert [tx.ones(1).is_nonzero(), tx.zeros(1).is_nonzero()] == [True, False]
    assert [t.dtype.name for t in (x.byte(), x.char(), x.short())] == ["uint8", "int8", "int16"]
    with pytest.raises(IndexError, match=r"\[stride\] axis 3"):
        x.stride(3)
    assert (tx.pi, tx.e, tx.inf, tx.newaxis) == (math.pi, math.e, math.inf, None)
    assert math.isnan(tx.nan)


def test_limits() -> None:
    torch = pytest.importorskip("torch")
    for name in ("float64", "float32", "float16", "bfloat16"):
        ours, theirs = tx.finfo(getattr(tx, name)), torch.finfo(getattr(torch, name))
        for field in ("eps", "max", "min", "tiny", "bits", "smallest_normal", "dtype"):
            assert getattr(ours, field) == getattr(theirs, field), (name, field)
        assert ours.resolution == pytest.approx(theirs.resolution, rel=1e-2)
    assert tx.finfo().bits == 32
    for name in ("int64", "int32", "int16", "int8", "uint8"):
        ours, theirs = tx.iinfo(name), torch.iinfo(getattr(torch, name))
        assert (ours.max, ours.min, ours.bits) == (theirs.max, theirs.min, theirs.bits)
    for a, b in itertools.product(("float64", "float32", "float16", "int64", "uint8", "bool"), repeat=2):
        assert tx.can_cast(a, b) == torch.can_cast(getattr(torch, a), getattr(torch, b)), (a, b)


# -- made like another ---------------------------------------------------------------------------


def test_made_like_another() -> None:
    x = tx.ones(2, dtype=tx.float16)
    made = (x.new_zeros(2, 3), x.new_ones((2, 3)), x.new_full((2, 3), 7), x.new_empty(2, 3))
    assert {(t.shape, t.dtype) for t in made} == {((2, 3), tx.float16)}
    assert made[2].tolist() == [[7.0] * 3] * 2
    i = tx.tensor([1, 2])
    assert (i.new_tensor([3.7]).tolist(), i.new_tensor([3.7], dtype=tx.float32).dtype) == ([3], tx.float32)
    assert i.new_ones(2, dtype=tx.float32, requires_grad=True).requires_grad
    source = np.ones(2)
    copied = x.new_tensor(source)
    source[:] = 5
    assert copied.tolist() == [1.0, 1.0]


# -- agreement -------------------------------------------------------------------------------


def test_agreement() -> None:
    torch = pytest.importorskip("torch")
    values = [0.0, -0.0, 1.0, 1.0 + 1e-6, 1.1, 1e-9, math.inf, -math.inf, math.nan]
    pairs = np.array(list(itertools.product(values, repeat=2)))
    for options in ({}, {"equal_nan": True}, {"rtol": 0.2}, {"atol": 0.2}, {"rtol": 0.0, "atol": 0.0}):
        for dtype in ("float64", "float32"):
            ours = tx.isclose(*(tx.tensor(v, dtype=dtype) for v in pairs.T), **options)
            theirs = torch.isclose(*(torch.tensor(v, dtype=getattr(torch, dtype)) for v in pairs.T), **options)
            assert ours.tolist() == theirs.tolist(), (options, dtype)
    a, b = tx.tensor([2**62, 5, 200], dtype=tx.int64), tx.tensor([2**62 + 1, 5, 201], dtype=tx.int64)
    assert tx.isclose(a, b).tolist() == [True, True, False]
    small = tx.tensor([3, 250], dtype=tx.uint8)
    assert tx.isclose(small, tx.tensor([250, 3], dtype=tx.uint8)).tolist() == [False, False]
    assert tx.allclose(tx.ones(2), tx.ones(2) + 1e-7)
    assert not tx.ones(2).allclose(tx.zeros(2))
    assert tx.equal(a, a)
    assert not tx.equal(a, b)
    assert not tx.equal(tx.ones(2), tx.ones(3))
    assert not tx.equal(tx.tensor([math.nan]), tx.tensor([math.nan]))
    assert isinstance(tx.allclose(a, a), bool)


# -- shapes, against PyTorch ---------------------------------------------------------------------

SHAPED: dict[str, Callable[[Any, Any], Any]] = {
    "movedim": lambda m, x: m.movedim(x, (0, -1), (1, 0)),
    "moveaxis": lambda m, x: m.moveaxis(x, 2, 0),
    "swapaxes": lambda m, x: m.swapaxes(x, 0, -1),
    "unflatten": lambda m, x: m.unflatten(x, -1, (2, -1)),
    "unflatten method": lambda m, x: x.unflatten(2, (2, 2)),
    "tensor_split": lambda m, x: m.tensor_split(x, 2, 1)[0],
    "tensor_split at": lambda m, x: m.cat([2 * p for p in m.tensor_split(x, (1, -1), 2)], 2),
    "sum_to_size": lambda m, x: x.sum_to_size(1, 3, 1),
    "sum_to_size fewer": lambda m, x: x.sum_to_size(3, 4),
    "reshape_as": lambda m, x: x.reshape_as(m.zeros(4, 6)),
    "view_as": lambda m, x: x.view_as(m.zeros(24)),
    "ravel": lambda m, x: m.ravel(x),
    "broadcast_to": lambda m, x: m.broadcast_to(x, (2, 2, 3, 4)),
    "broadcast_tensors": lambda m, x: m.broadcast_tensors(x, m.zeros(5, 1, 1, 1))[0],
    "hstack": lambda m, x: m.hstack([x, x * 2]),
    "hstack of vectors": lambda m, x: m.hstack([x[0, 0], x[0, 1], x[0, 0, 0]]),
    "vstack": lambda m, x: m.vstack([x[0, 0], x[0, 1]]),
    "dstack": lambda m, x: m.dstack([x[0], x[1]]),
    "column_stack": lambda m, x: m.column_stack([x[0, :, 0], x[1]]),
    "atleast_3d": lambda m, x: m.atleast_3d(x[0, 0]) * m.atleast_3d(x[0, 0, 0]) + m.atleast_3d(x[0])[:1, :1],
    "atleast_2d": lambda m, x: m.atleast_2d(x[0, 0]) * m.atleast_1d(x[0, 0, 0]),
    "diff": lambda m, x: m.diff(x),
    "diff twice": lambda m, x: x.diff(2, dim=1),
    "diff with ends": lambda m, x: m.diff(x, prepend=x[..., :1], append=x[..., :2], dim=-1),
    "diff of nothing": lambda m, x: m.diff(x, n=7),
    "unfold": lambda m, x: x.unfold(2, 2, 1),
    "unfold steps": lambda m, x: x.unfold(1, 2, 3) * 2 + x.unfold(0, 1, 1)[..., :1, :1].sum(),
    "unfold of a number": lambda m, x: x[0, 0, 0].unfold(0, 1, 1),
    "adjoint": lambda m, x: x.adjoint() + x.mH,
}


@pytest.mark.parametrize("name", SHAPED)
def test_shapes_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    data = numbers(2, 3, 4)
    x, y = leaf(data), torch.tensor(data, requires_grad=True)
    got, want = SHAPED[name](tx, x), SHAPED[name](torch, y)
    assert got.shape == tuple(want.shape)
    close(got.detach().numpy(), want.detach().numpy())
    weights = numbers(*got.shape, seed=1)
    (got * tx.tensor(weights)).sum().backward()
    (want * torch.tensor(weights)).sum().backward()
    assert x.grad is not None
    close(x.grad.numpy(), y.grad.numpy(), gradient=True)


def test_slices_are_views() -> None:
    x = tx.zeros(6)
    slices = x.unfold(0, 2, 3)
    slices.fill_(1)
    slices[1, 0] = 5
    assert x.tolist() == [1.0, 1.0, 0.0, 5.0, 1.0, 0.0]
    x.zero_()
    assert slices.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    overlapping = x.unfold(0, 3, 1)
    for write in (lambda: overlapping.zero_(), lambda: overlapping[0].add_(1)):
        with pytest.raises(tx.AutogradError, match="no meaning"):
            write()
    assert x.unfold(0, 6, 1).fill_(2).tolist() == [[2.0] * 6]
    assert x.tolist() == [2.0] * 6
    y = leaf(numbers(2, 6)) * 1
    y.unfold(1, 2, 2)[:, 0] *= 3
    y.sum().backward()
    assert tx.tensor([True, False, True]).unfold(0, 2, 1).tolist() == [[True, False], [False, True]]


def test_a_gradient_around_and_into_a_write_through_slices() -> None:
    torch = pytest.importorskip("torch")

    def run(m: Any) -> Any:
        base, new = (m.tensor(v, requires_grad=True) for v in (numbers(2, 6), numbers(2, 2, 2, seed=1)))
        y = base * 2
        y.unfold(1, 2, 3).copy_(new * new)
        (y * y).sum().backward()
        return base.grad.tolist(), new.grad.tolist()

    for got, want in zip(run(tx), run(torch), strict=True):
        np.testing.assert_allclose(got, want)


# -- absent -----------------------------------------------------------------------------------


def test_absent_names_say_what_to_do() -> None:
    x = tx.ones(2)
    for name in absent.ABSENT:
        assert not hasattr(x, name), name
        assert not hasattr(tx.Tensor, name), name
        with pytest.raises(AttributeError, match=rf"Tensor has no {name}: .{{20}}") as caught:
            getattr(x, name)
        assert isinstance(caught.value, tx.TorshError)
    for name in absent.ABSENT_HERE:
        assert not hasattr(tx, name), name
        with pytest.raises(AttributeError, match=rf"torsh_fx has no '{name}': .{{20}}"):
            getattr(tx, name)
    with pytest.raises(AttributeError, match="torsh_fx has no 'nonsense'"):
        tx.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="nonsense"):
        x.nonsense  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="nonsense"):
        from torsh_fx import nonsense  # noqa: F401


def test_absent_names_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    for name in absent.ABSENT:
        assert hasattr(torch.Tensor, name) or name in ("view_as_complex", "moveaxis_", "movedim_"), name
    for name in absent.ABSENT_HERE:
        assert hasattr(torch, name), name


_TOUCHED = """
abs add all allclose amax any argmax argsort backward bmm bool byte chunk clamp clone contiguous copy_ cos
cpu cuda cumsum data detach device diagonal dim div double dtype eq exp expand expand_as fill_ flatten
flip float floor gather ge grad grad_fn gt half index_add_ index_select int inverse is_contiguous is_cuda
is_floating_point is_leaf isnan item le log long lt masked_fill masked_fill_ masked_select matmul max mean
median min mm mul ndim ndimension ne neg new_full new_ones new_tensor new_zeros nonzero norm numel numpy
permute pow prod register_hook relu repeat repeat_interleave requires_grad requires_grad_ reshape
retain_grad roll round scatter scatter_ scatter_add_ select shape sigmoid sign sin size softmax sort split
sqrt square squeeze std stride sub sum t tan tanh to tolist topk transpose tril triu type_as unbind unfold
unique unsqueeze var view view_as where zero_ T
"""


def test_what_a_script_touches_is_there() -> None:
    """Methods that PyTorch code uses most, by hand; each is here, or says what to do instead."""
    touched = _TOUCHED.split()
    lacking = [n for n in touched if not hasattr(tx.Tensor, n)]
    assert lacking == []
    assert all(inspect.getdoc(getattr(tx.Tensor, n)) for n in touched)
