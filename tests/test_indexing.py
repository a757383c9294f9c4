"""Reading by index: every form against NumPy and PyTorch with gradients, bounds, and what is compiled."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx
from tolerances import close
from torsh_fx import stats


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(1.0, 1 + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def arrays(index: Any, make: Any) -> Any:
    """``index`` with its NumPy arrays turned into ``make``'s."""
    if isinstance(index, tuple):
        return tuple(arrays(e, make) for e in index)
    return make(index) if isinstance(index, np.ndarray) else index


A = np.array
MASK = numbers(3, 4) % 3 == 0
ROWS = A([True, False, True])
BASIC: list[Any] = [
    0,
    -1,
    slice(None),
    slice(1, 3),
    slice(-2, None),
    slice(None, -1),
    slice(2, 1),
    slice(0, 100),
    slice(-100, 2),
    slice(None, None, 2),
    slice(1, None, 3),
    None,
    ...,
    (),
    (1, 2),
    (-1, -2),
    (slice(None), 1),
    (slice(1, 3), slice(None, None, 2)),
    (..., 0),
    (0, ...),
    (None, 1),
    (1, None),
    (slice(None), None, slice(1, 2)),
    (..., None),
    (1, ..., 2),
    (slice(None), slice(None), ...),
    np.int64(1),
    (np.int32(-1), slice(None, None, np.int64(2))),
]
ADVANCED: list[Any] = [
    [0, 2],
    [2, 2, 0],
    [-1, -3],
    [],
    A([[0, 1], [2, 0]]),
    A([], np.int64),
    A(1),
    (A([0, 2]), A([1, 3])),
    (A([0, 2]), A([-1, -4])),
    (A([[0], [2]]), A([1, 3])),
    (A([0, 0, 0]), A([1, 1, 2])),
    (slice(None), [0, 0, 3]),
    ([0, 2], slice(1, 3)),
    ([0, 1], 2),
    (1, [0, 3]),
    (A([0, 2]), None),
    (None, A([0, 2])),
    (..., A([0, 2])),
    A([0, 1], np.int32),
    A([0, 1], np.uint8),
    ROWS,
    [True, False, True],
    MASK,
    ~MASK & MASK,
    (slice(None), A([True, False, False, True])),
    (ROWS, 1),
    (ROWS, A([0, 3])),
    (ROWS, slice(1, 3)),
    (..., A([True, False, False, True])),
    True,
    False,
    A(True),
    (True, A([0, 1])),
]
CUBE: list[Any] = [
    (A([0, 1]), slice(None), A([2, 0])),
    (slice(None), A([0, 1]), A([2, 0])),
    (A([0, 1]), A([2, 0])),
    (A([1, 0]), slice(None), 2),
    (A([1]), None, A([0, 2])),
    (slice(None), A([[0, 1], [2, 2]])),
    (A([[True, False, True], [False, True, False]]),),
    (slice(None), A([[True, False, True, True], [False, True, False, False], [True, True, False, False]])),
    (slice(0, 1), A([0, 2]), slice(1, None, 2)),
    (..., A([0, 1]), A([0, 3])),
    (A([0, 1]), ..., A([0, 3])),
    (A([0]), A([[1], [2]]), A([0, 1])),
]
FORMS = [*((numbers(3, 4), i) for i in (*BASIC, *ADVANCED)), *((numbers(2, 3, 4), i) for i in CUBE)]


def label(index: Any) -> str:
    if isinstance(index, tuple):
        return "-".join(map(label, index)) or "empty"
    return str(index.tolist() if isinstance(index, np.ndarray) else index).replace(" ", "")


@pytest.mark.parametrize(("host", "index"), FORMS, ids=[f"{h.ndim}d-{label(i)}" for h, i in FORMS])
def test_forms(host, index):
    x = tx.tensor(host, requires_grad=True)
    want = host[index]
    w = 1 + np.cos(np.arange(want.size, dtype=np.float32)).reshape(want.shape)
    got = x[arrays(index, tx.tensor)]
    assert got.shape == want.shape
    (got * tx.tensor(w)).sum().backward()
    np.testing.assert_array_equal(got.detach().numpy(), want)
    grad = np.zeros_like(host)
    np.add.at(grad, index, w)
    close(x.grad.numpy(), grad, gradient=True)


def test_forms_against_torch(torch):
    for host, index in FORMS:
        if getattr(index, "dtype", None) == np.uint8:
            continue  # once a mask in PyTorch, integers here and in NumPy
        x, p = tx.tensor(host), torch.tensor(host)
        assert x[arrays(index, tx.tensor)].shape == tuple(p[arrays(index, torch.tensor)].shape), label(index)


def test_an_integer_beside_an_array_is_a_view_as_in_torch():
    """NumPy would broadcast the 0 with the array and put the array's axis first."""
    host = numbers(2, 3, 4)
    x = tx.tensor(host)
    assert x[0, :, tx.tensor([2, 0])].tolist() == host[0][:, [2, 0]].tolist()


def test_kinds_of_index():
    """NumPy, JAX and our arrays, lists and tuples say the same."""
    x = tx.tensor(numbers(3, 4))
    want = [[9.0, 10.0, 11.0, 12.0], [1.0, 2.0, 3.0, 4.0]]
    for index in ([2, 0], np.array([2, 0]), jnp.array([2, 0]), tx.tensor([2, 0]), tx.tensor([1, 0]) * 2):
        assert x[index].tolist() == want
    assert x[tx.tensor(1), tx.tensor(2)].item() == 7.0
    assert x[tx.tensor(1) : tx.tensor(2)].tolist() == [[5.0, 6.0, 7.0, 8.0]]
    assert x[x > 10].tolist() == [11.0, 12.0]
    assert x[jnp.array([True, False, False])].tolist() == [[1.0, 2.0, 3.0, 4.0]]


def test_what_is_a_view():
    x = tx.tensor(numbers(3, 4), requires_grad=True)
    for index, name in ((0, "select"), (slice(1, 2), "narrow"), (None, "reshape"), (slice(None, None, 2), "stride")):
        assert x[index].grad_fn.name().startswith(f"view({name}")
    assert x[[0, 1]].grad_fn.name() == "index_select(dim=0)"
    assert x[...] is not x


def test_second_order():
    x = tx.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x[tx.tensor([0, 0, 2])] ** 3
    (g,) = tx.autograd.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [6.0, 0.0, 27.0]
    g.sum().backward()
    assert x.grad.tolist() == [12.0, 0.0, 18.0]


# -- named functions ------------------------------------------------------------------------


def test_gather(torch):
    host, index = numbers(3, 4), np.array([[0, 2, 2, 1], [2, 0, 0, 0]])
    x, p = tx.tensor(host, requires_grad=True), torch.tensor(host, requires_grad=True)
    y, q = x.gather(0, tx.tensor(index)), p.gather(0, torch.tensor(index))
    (y * y).sum().backward()
    (q * q).sum().backward()
    assert y.tolist() == q.tolist() == [[1.0, 10.0, 11.0, 8.0], [9.0, 2.0, 3.0, 4.0]]
    assert x.grad.tolist() == p.grad.tolist()
    assert tx.take_along_dim(x, tx.tensor([[1], [0], [3]]), -1).tolist() == [[2.0], [5.0], [12.0]]
    assert tx.gather(tx.tensor(5.0), 0, tx.tensor(0)).item() == 5.0


def test_gather_repeats_add_up():
    x = tx.tensor([0.5], requires_grad=True)
    (tx.gather(x, 0, tx.tensor([0, 0])) * tx.tensor([0.25, 0.5])).sum().backward()
    assert x.grad.tolist() == [0.75]


def test_index_select(torch):
    host = numbers(2, 3, 2)
    for dim in (0, 1, -1):
        index = [1, 0, 1]
        x, p = tx.tensor(host, requires_grad=True), torch.tensor(host, requires_grad=True)
        y, q = x.index_select(dim, tx.tensor(index)), p.index_select(dim, torch.tensor(index))
        (y * y).sum().backward()
        (q * q).sum().backward()
        assert y.tolist() == q.tolist()
        assert x.grad.tolist() == p.grad.tolist()
    assert tx.index_select(tx.tensor([1.0, 2.0]), 0, tx.tensor(1)).tolist() == [2.0]


def test_masked_fill():
    x = tx.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x.masked_fill(tx.tensor([True, False]), -1)
    (y * y).sum().backward()
    assert y.tolist() == [[-1.0, 2.0], [-1.0, 4.0]]
    assert x.grad.tolist() == [[0.0, 4.0], [0.0, 8.0]]
    value = tx.tensor(0.5, requires_grad=True)
    x.masked_fill(x > 2, value).sum().backward()
    assert value.grad.item() == 2.0
    assert tx.tensor([1, 2]).masked_fill(tx.tensor([True, False]), 7).tolist() == [7, 2]


def test_embedding_lookup():
    table = tx.tensor(numbers(5, 2), requires_grad=True)
    y = table[tx.tensor([[1, 3, 1], [1, 0, 3]])]
    assert y.shape == (2, 3, 2)
    y.sum().backward()
    assert table.grad.tolist() == [[1.0, 1.0], [3.0, 3.0], [0.0, 0.0], [2.0, 2.0], [0.0, 0.0]]


# -- what is compiled ---------------------------------------------------------------------------


def test_other_starts_are_the_same_program():
    tx.clear_cache()
    x = tx.tensor(np.arange(64.0, dtype=np.float32).reshape(32, 2), requires_grad=True)

    def step(k: int) -> float:
        loss = (x[k : k + 4] * x[k]).sum() + x[-k - 1, 1]
        loss.backward()
        return loss.item()

    def expected(k: int) -> float:
        h = np.arange(64.0).reshape(32, 2)
        return float((h[k : k + 4] * h[k]).sum() + h[-k - 1, 1])

    assert step(0) == expected(0)
    assert step(1) == expected(1)  # now .grad exists, another program
    before = stats()["xla programs compiled"]
    assert [step(k) for k in range(2, 12)] == [expected(k) for k in range(2, 12)]
    assert stats()["xla programs compiled"] == before


def test_other_indices_are_the_same_program():
    x = tx.tensor(np.arange(12.0, dtype=np.float32))
    assert x[[1, 2, 3]].sum().item() == 6.0
    before = stats()["xla programs compiled"]
    for index in ([4, 5, 6], [0, 0, 11], [-1, -2, -3]):
        assert x[index].sum().item() == float(np.arange(12.0)[index].sum())
    assert stats()["xla programs compiled"] == before


# -- bounds ----------------------------------------------------------------------------------------


def line() -> int:
    import sys

    return sys._getframe(1).f_lineno


@pytest.mark.parametrize(
    ("use", "op"),
    [
        (lambda x, i: x[i], "getitem"),
        (lambda x, i: x[:, i], "getitem"),
        (lambda x, i: x[i, [0, 1]], "getitem"),
        (lambda x, i: x[[0, 0], i * 0 + tx.tensor([1, 3]) * 3], "getitem"),
        (lambda x, i: x.index_select(1, i), "take"),
        (lambda x, i: x.gather(0, i.reshape(1, 2)), "take_along_dim"),
        (lambda x, i: tx.nn.functional.nll_loss(x, i), "take_along_dim"),
    ],
    ids=["getitem", "getitem-second-axis", "getitem-pair", "getitem-inner", "index_select", "gather", "nll_loss"],
)
def test_pending_index_out_of_range(use, op):
    x = tx.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    pending = tx.tensor([1, 3]) * 3
    other = x * 5
    y = use(x, pending)  # recorded: nothing is known yet
    with pytest.raises(tx.OutOfRangeError, match=rf"{op}.*index [39].*test_indexing.py:\d+") as caught:
        y.tolist()
    assert isinstance(caught.value, IndexError)
    with pytest.raises(tx.OutOfRangeError, match=r"index [39]"):
        y.sum().backward()
    assert x.grad is None
    assert other.tolist() == [[5.0, 10.0], [15.0, 20.0]]
    assert pending.tolist() == [3, 9]
    other.sum().backward()
    assert x.grad.tolist() == [[5.0, 5.0], [5.0, 5.0]]


def test_the_line_that_made_the_index():
    x, pending = tx.ones(3), tx.tensor([1, 2]) * 4
    made = line() + 1
    y = x[pending]
    with pytest.raises(tx.OutOfRangeError, match=rf"index 4 .*axis 0.*extent 3.*:{made}$"):
        y.tolist()
    y = x[-pending]
    with pytest.raises(tx.OutOfRangeError, match=rf"index -4 .*axis 0.*extent 3.*:{made + 3}$"):
        y.tolist()


def test_nothing_of_the_program_is_committed():
    x = tx.tensor([1.0, 2.0], requires_grad=True)
    x.grad = tx.tensor([10.0, 10.0])
    loss = (x * x).sum() + x[tx.tensor([1, 1]) * 2].sum()
    with pytest.raises(tx.OutOfRangeError):
        loss.backward()
    assert x.grad.tolist() == [10.0, 10.0]
    (x * x).sum().backward()
    assert x.grad.tolist() == [12.0, 14.0]


def test_pending_index_in_range():
    x = tx.tensor([1.0, 2.0, 3.0], requires_grad=True)
    i = tx.tensor([0, 1]) * -1
    y = x[i]
    y.sum().backward()
    assert y.tolist() == [1.0, 3.0]
    assert x.grad.tolist() == [1.0, 0.0, 1.0]


def test_inside_a_trace_a_gather_never_reads_a_neighbour():
    def read(a: Any, i: Any) -> Any:
        return tx.as_tensor(a)[tx.as_tensor(i)].jax()

    out = jax.jit(read)(jnp.arange(3.0), jnp.array([1, 7]))
    assert out[0] == 1.0
    assert np.isnan(out[1])


def test_inside_a_trace_a_pair_of_indices_never_reads_a_neighbour():
    def read(a: Any, i: Any, j: Any) -> Any:
        return tx.as_tensor(a)[tx.as_tensor(i), tx.as_tensor(j)].jax()

    table = jnp.arange(12.0).reshape(3, 4)
    out = jax.jit(read)(table, jnp.array([0, 0, 1, -4, -1]), jnp.array([3, 7, -9, 1, -1]))
    np.testing.assert_array_equal(out, [3.0, np.nan, np.nan, np.nan, 11.0])


def test_mask_inside_a_trace():
    with pytest.raises(tx.AutogradError, match="where"):
        jax.jit(lambda a: tx.as_tensor(a)[tx.as_tensor(a) > 0].sum().jax())(jnp.ones(2))


def test_index_of_another_dtype_out_of_range():
    x = tx.ones(3)
    for index in (np.array([3], np.int32), np.array([200], np.uint8), jnp.array([-4])):
        with pytest.raises(tx.OutOfRangeError, match="getitem"):
            x[index]
