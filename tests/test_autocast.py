"""``autocast`` and the precision of products: which dtype is computed in, on every path, and never a stale program."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx
from tolerances import close
from torsh_fx import autocasting, rules

F = tx.nn.functional


def leaf(*shape: int, dtype: Any = np.float32, seed: int = 0) -> tx.Tensor:
    numbers = np.random.default_rng(seed).standard_normal(shape)
    return tx.tensor(numbers.astype(dtype), requires_grad=True)


def name(t: Any) -> str:
    return str(t.dtype).removeprefix("torch.")


# -- which ops are cast -----------------------------------------------------------------------

NARROW: dict[str, Callable[[Any, Any], Any]] = {
    "@": lambda m, x: x @ x,
    "matmul": lambda m, x: m.matmul(x, x),
    "mm": lambda m, x: m.mm(x, x),
    "mv": lambda m, x: m.mv(x, x[0]),
    "bmm": lambda m, x: m.bmm(x[None], x[None]),
    "addmm": lambda m, x: m.addmm(x[0], x, x),
    "addmv": lambda m, x: m.addmv(x[0], x, x[0]),
    "addr": lambda m, x: m.addr(x, x[0], x[0]),
    "addbmm": lambda m, x: m.addbmm(x, x[None], x[None]),
    "baddbmm": lambda m, x: m.baddbmm(x, x[None], x[None]),
    "einsum": lambda m, x: m.einsum("ij,kj->ik", x, x),
    "linear": lambda m, x: m.nn.functional.linear(x, x, x[0]),
    "conv1d": lambda m, x: m.nn.functional.conv1d(x[None], x[None], x[0, :1]),
    "conv2d": lambda m, x: m.nn.functional.conv2d(x[None, None], x[None, None], x[0, :1]),
    "conv_transpose1d": lambda m, x: m.nn.functional.conv_transpose1d(x[None], x[:, :, None]),
    "attention": lambda m, x: m.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
}
WIDE: dict[str, Callable[[Any, Any], Any]] = {
    "exp": lambda m, x: x.exp(),
    "log": lambda m, x: m.log(x),
    "pow": lambda m, x: x**2,
    "rpow": lambda m, x: 2**x,
    "reciprocal": lambda m, x: 1 / x,
    "rsqrt": lambda m, x: m.rsqrt(x),
    "sum": lambda m, x: x.sum(),
    "sum over an axis": lambda m, x: x.sum(0),
    "prod": lambda m, x: x.prod(),
    "cumsum": lambda m, x: x.cumsum(0),
    "softmax": lambda m, x: x.softmax(-1),
    "log_softmax": lambda m, x: m.log_softmax(x, -1),
    "softplus": lambda m, x: m.nn.functional.softplus(x),
    "norm": lambda m, x: m.linalg.norm(x),
    "cdist": lambda m, x: m.cdist(x, x),
    "layer_norm": lambda m, x: m.nn.functional.layer_norm(x, x.shape[-1:]),
    "group_norm": lambda m, x: m.nn.functional.group_norm(x, 1),
    "cosine_similarity": lambda m, x: m.nn.functional.cosine_similarity(x, x),
    "mse_loss": lambda m, x: m.nn.functional.mse_loss(x, x * 2),
    "l1_loss": lambda m, x: m.nn.functional.l1_loss(x, x * 2),
    "smooth_l1_loss": lambda m, x: m.nn.functional.smooth_l1_loss(x, x * 2),
    "cross_entropy": lambda m, x: m.nn.functional.cross_entropy(x, m.tensor([0, 1, 0])),
    "bce_with_logits": lambda m, x: m.nn.functional.binary_cross_entropy_with_logits(x, x),
    "interpolate": lambda m, x: m.nn.functional.interpolate(x[None], scale_factor=2),
}
AS_IT_COMES: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda m, x: x + x,
    "*": lambda m, x: x * 2.0,
    "relu": lambda m, x: m.relu(x),
    "gelu": lambda m, x: m.nn.functional.gelu(x),
    "tanh": lambda m, x: x.tanh(),
    "sigmoid": lambda m, x: x.sigmoid(),
    "mean": lambda m, x: x.mean(),
    "max": lambda m, x: x.max(),
    "reshape": lambda m, x: x.reshape(-1),
    "sqrt": lambda m, x: x.sqrt(),
    "batch_norm": lambda m, x: m.nn.functional.batch_norm(x, None, None, training=True),
}


@pytest.mark.parametrize("kind", ["narrow", "wide", "as it comes"])
def test_what_is_cast(kind: str) -> None:
    """Every op with float32, bfloat16 and float64 operands."""
    ops = {"narrow": NARROW, "wide": WIDE, "as it comes": AS_IT_COMES}[kind]
    for op, run in ops.items():
        for dtype in ("float32", "bfloat16", "float64"):
            x = (leaf(3, 3).detach().abs() * 0.3 + 0.1).to(dtype)
            with tx.autocast(tx.bfloat16):
                got = run(tx, x)
            cast = {"narrow": "bfloat16", "wide": "float32", "as it comes": dtype}[kind]
            assert got.dtype.name == ("float64" if dtype == "float64" else cast), (op, dtype)
            want = run(tx, x.double())
            coarse = "bfloat16" if dtype == "bfloat16" or kind == "narrow" else dtype
            close(got.double().numpy(), want.numpy(), dtype=coarse, what=op)


def test_the_lists_name_ops_that_exist() -> None:
    assert set(rules.__all__) >= autocasting.NARROW | autocasting.WIDE
    assert not autocasting.NARROW & autocasting.WIDE


def test_the_widest_of_several() -> None:
    narrow, wide = tx.ones(3, dtype=tx.bfloat16), tx.ones(3)
    with tx.autocast(tx.bfloat16):
        for call in (tx.dot, tx.cross, lambda a, b: tx.tensordot(a, b, 1)):
            assert call(narrow, wide).dtype == call(wide, wide).dtype == tx.float32
            assert call(narrow, narrow).dtype == tx.bfloat16
        assert tx.zeros(3).scatter_add(0, tx.tensor([0]), narrow[:1]).dtype == tx.float32


def test_mixed_operands_meet_in_the_narrow_dtype() -> None:
    x, w, b = tx.ones(2, 3, dtype=tx.bfloat16), tx.ones(4, 3), tx.ones(4, dtype=tx.float16)
    with pytest.raises(tx.ArgumentTypeError, match="one dtype"):
        F.linear(x, w, b)
    with tx.autocast(tx.bfloat16):
        assert F.linear(x, w, b).dtype == tx.bfloat16
        assert (x @ w.T).dtype == tx.bfloat16
        assert tx.matmul(tx.ones(2, 2, dtype=tx.int64), tx.ones(2, 2, dtype=tx.int64)).dtype == tx.int64


def test_batch_norm_between_convolutions() -> None:
    """The input is narrow, parameters and running statistics are not, and stay so."""
    x, w = leaf(2, 3, 4, 4), leaf(3, 3, 1, 1)
    scale, shift, mean, var = tx.ones(3, requires_grad=True), tx.zeros(3, requires_grad=True), tx.zeros(3), tx.ones(3)
    with tx.autocast("cpu"):
        y = F.conv2d(x, w)
        z = F.batch_norm(y, mean, var, scale, shift, training=True)
        assert F.batch_norm(y, mean, var, scale, shift).dtype == tx.bfloat16
        assert F.instance_norm(y, weight=scale).dtype == tx.bfloat16
    assert (z.dtype, mean.dtype) == (tx.bfloat16, tx.float32)
    assert mean.abs().sum().item() > 0
    z.float().square().mean().backward()
    assert scale.grad is not None
    assert scale.grad.dtype == tx.float32


# -- as in PyTorch ----------------------------------------------------------------------------


def test_narrow_ops_are_pytorch_s() -> None:
    """PyTorch's CPU list has the same products; what it leaves narrow and we widen is its accelerators' list."""
    torch = pytest.importorskip("torch")
    numbers = np.random.default_rng(0).standard_normal((3, 3)).astype(np.float32)
    for op, run in NARROW.items():
        if op in ("mv", "addmv", "addr"):
            continue  # on the accelerators' list alone
        x, y = tx.tensor(numbers, requires_grad=True), torch.tensor(numbers, requires_grad=True)
        with tx.autocast("cpu", dtype=tx.bfloat16):
            got = run(tx, x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            want = run(torch, y)
        assert name(got) == name(want), op
        got.float().sum().backward()
        want.float().sum().backward()
        assert x.grad is not None
        assert name(x.grad) == name(y.grad) == "float32"
        close(got.detach().float().numpy(), want.detach().float().numpy(), dtype="bfloat16", what=op)
        close(x.grad.numpy(), y.grad.numpy(), dtype="bfloat16", gradient=True, what=op)


# -- forms, nesting, threads ------------------------------------------------------------------


def current() -> str:
    return (tx.ones(2, 2) @ tx.ones(2, 2)).dtype.name


def test_call_forms() -> None:
    forms: dict[str, Any] = {
        "bfloat16": tx.autocast(tx.bfloat16),
        "float16": tx.autocast("float16"),
    }
    for wanted, block in forms.items():
        with block:
            assert current() == wanted
    for wanted, args, params in (
        ("bfloat16", (), {}),
        ("bfloat16", ("cpu",), {}),
        ("float16", ("cuda",), {}),
        ("float16", ("cuda:0",), {"cache_enabled": False}),
        ("bfloat16", ("cuda", tx.bfloat16), {}),
        ("float16", (), {"device_type": "cpu", "dtype": tx.float16, "enabled": True}),
        ("bfloat16", (jax.devices()[0],), {}),
        ("float32", ("cuda", tx.bfloat16, False), {}),
        ("float32", (tx.float16,), {"enabled": False}),
    ):
        with tx.autocast(*args, **params):
            assert current() == wanted, (args, params)
    assert current() == "float32"


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: tx.autocast("abacus"), ValueError, "kind of device.*'abacus'"),
        (lambda: tx.autocast("cpu", "real"), TypeError, "no dtype 'real'"),
        (lambda: tx.autocast(tx.float64), ValueError, "bfloat16 or float16, got float64"),
        (lambda: tx.autocast("cpu", tx.int8), ValueError, "bfloat16 or float16, got int8"),
        (lambda: tx.autocast(tx.bfloat16, tx.float16), TypeError, "two dtypes"),
        (lambda: tx.autocast("cpu", enabled="yes"), TypeError, "enabled must be True or False"),
        (lambda: tx.autocast("cpu")(3), TypeError, "function to decorate"),
    ],
)
def test_bad_arguments(make: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        make()
    assert isinstance(caught.value, tx.TorshError)
    assert current() == "float32"


def test_nesting() -> None:
    block = tx.autocast(tx.bfloat16)
    with block:
        with tx.autocast(tx.float16):
            assert (current(), tx.get_autocast_dtype().name) == ("float16", "float16")
        with tx.autocast(enabled=False):
            assert (current(), tx.is_autocast_enabled()) == ("float32", False)
            with block:
                assert current() == "bfloat16"
        assert tx.is_autocast_enabled()
        with pytest.raises(KeyError), tx.autocast(tx.float16):
            raise KeyError
        assert current() == "bfloat16"
    assert (current(), tx.is_autocast_enabled(), tx.get_autocast_dtype().name) == ("float32", False, "bfloat16")


def test_as_decorator() -> None:
    @tx.autocast("cpu", dtype=tx.float16)
    def product() -> str:
        return current()

    @tx.autocast(tx.bfloat16)
    def each() -> Iterator[str]:
        yield current()
        yield current()

    assert (product(), product.__name__, current()) == ("float16", "product", "float32")
    names = each()
    assert (next(names), current(), next(names)) == ("bfloat16", "float32", "bfloat16")
    with tx.autocast(enabled=False):
        assert product() == "float16"


def test_belongs_to_a_thread() -> None:
    seen = []
    with tx.autocast(tx.bfloat16):
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
    assert seen == ["float32"]


# -- gradients, on every path -----------------------------------------------------------------


@tx.autocast(tx.bfloat16)
def loss_of(w: tx.Tensor, b: tx.Tensor, x: Any) -> tx.Tensor:
    h = F.linear(x, w, b).relu()
    return (h @ h.T).exp().mean() + F.mse_loss(h, x)


def by_hand(w: Any, b: Any, x: Any) -> Any:
    """The same in plain JAX, with the casts written out."""
    low, full = jnp.bfloat16, jnp.float32
    h = jax.nn.relu(jnp.matmul(x.astype(low), w.astype(low).T) + b.astype(low))
    return jnp.exp(jnp.matmul(h, h.T).astype(full)).mean() + jnp.square(h.astype(full) - x).mean()


def test_gradients_are_those_of_the_casts_written_out() -> None:
    """By backward, recorded and eager, tx.grad, the replayed tape, and in a compiled step."""
    w, b, x = leaf(3, 3, seed=1), leaf(3, seed=2), leaf(4, 3, seed=3).detach()
    with tx.no_grad():
        w.mul_(0.3)
    arrays = w.detach().jax(), b.detach().jax(), x.jax()
    want = jax.grad(by_hand, (0, 1))(*arrays)

    def check(way: str, found: Any) -> None:
        for got, wanted in zip(found, want, strict=True):
            assert str(got.dtype) == "float32", way
            close(np.asarray(got), np.asarray(wanted), dtype="float16", gradient=True, what=way)

    def backward() -> list[Any]:
        for t in (w, b):
            t.grad = None
        loss_of(w, b, x).backward()
        return [t.grad.numpy() for t in (w, b) if t.grad is not None]

    for _ in range(3):
        check("backward", backward())
    with tx.eager():
        check("eager", backward())
    check("tx.grad", [g.numpy() for g in tx.grad(loss_of, (0, 1))(w.detach(), b.detach(), x)])
    saved = tx.checkpoint(loss_of)
    check("tx.checkpoint", [g.numpy() for g in tx.grad(saved, (0, 1))(w.detach(), b.detach(), x)])
    with tx.autocast("cpu"):
        outside = tx.grad(tx.checkpoint(inspect.unwrap(loss_of)), (0, 1))(w.detach(), b.detach(), x)
    check("a block around tx.grad", [g.numpy() for g in outside])
    jitted = tx.jit(tx.grad(loss_of, (0, 1)))
    check("tx.jit", [g.numpy() for g in jitted(w.detach(), b.detach(), x)])
    tape = tx.record(loss_of)(w.detach(), b.detach(), x)
    check("replay", jax.grad(tape.as_jax(), (0, 1))(*arrays))
    check("jax.jit of the replay", jax.jit(jax.grad(tape.as_jax(), (0, 1)))(*arrays))

    @tx.compile
    def step() -> Any:
        w.grad = b.grad = None
        loss_of(w, b, x).backward()

    for _ in range(2):
        step()
        check("tx.compile", [t.grad.numpy() for t in (w, b) if t.grad is not None])


def test_double_backward() -> None:
    x = tx.tensor([[1.5, 0.5], [-1.0, 2.0]], requires_grad=True)
    with tx.autocast(tx.bfloat16):
        y = (x @ x).sum()
    (g,) = tx.autograd.grad(y, [x], create_graph=True)
    assert g.dtype == tx.float32
    (second,) = tx.autograd.grad((g * g).sum(), [x])
    exact = jax.grad(lambda v: (jax.grad(lambda u: (u @ u).sum())(v) ** 2).sum())(x.detach().jax())
    assert second.dtype == tx.float32
    close(second.numpy(), np.asarray(exact), dtype="bfloat16", gradient=True)


def test_an_inplace_write_keeps_the_dtype() -> None:
    x = tx.full((2, 2), 0.5, dtype=tx.bfloat16)
    with tx.autocast(tx.bfloat16):
        x.exp_()
        y = tx.zeros(2, 2)
        y += x @ x
    assert (x.dtype, y.dtype) == (tx.bfloat16, tx.float32)


# -- no stale program -------------------------------------------------------------------------


def alternating(product: Callable[[], str]) -> None:
    for _ in range(3):
        assert product() == "float32"
        with tx.autocast(tx.bfloat16):
            assert product() == "bfloat16"
            with tx.autocast(tx.float16):
                assert product() == "float16"
            with tx.autocast(enabled=False):
                assert product() == "float32"


def test_the_same_line_in_and_out() -> None:
    x = leaf(3, 3)
    alternating(lambda: (x @ x).dtype.name)
    alternating(lambda: F.linear(x, x).dtype.name)
    alternating(lambda: tx.einsum("ij,jk->ik", x, x).dtype.name)


def test_values_follow_the_block() -> None:
    """1 + 2⁻¹⁰ is a float32 and no bfloat16."""
    x = tx.full((1, 1), 1 + 2**-10)
    w = tx.ones(1, 1)
    for _ in range(3):
        assert (x @ w).item() == 1 + 2**-10
        with tx.autocast(tx.bfloat16):
            assert (x @ w).item() == 1.0


def test_inside_what_jax_has_traced() -> None:
    """JAX's own caches know of the block, too."""
    traces = []

    @jax.jit
    def product(a: Any) -> Any:
        traces.append(1)
        return (tx.as_tensor(a) @ tx.as_tensor(a)).jax()

    a = jnp.ones((2, 2))
    alternating(lambda: str(product(a).dtype))
    assert len(traces) == 3
    mapped = jax.jit(jax.vmap(lambda r: (tx.as_tensor(r) @ tx.as_tensor(r)).jax()))
    alternating(lambda: str(mapped(a).dtype))


def test_inside_tx_jit_and_tx_compile() -> None:
    x = tx.ones(2, 2)
    jitted, step = tx.jit(lambda v: v @ v), tx.compile(lambda v: v @ v)
    alternating(lambda: jitted(x).dtype.name)
    alternating(lambda: step(x).dtype.name)
    inside = tx.compile(tx.autocast(tx.float16)(lambda v: v @ v))
    assert [inside(x).dtype.name for _ in range(2)] == ["float16", "float16"]


def test_direct_and_composed_ops_at_one_place() -> None:
    """A row that a function records for itself is not taken for the function's result."""
    x = tx.full((2, 2), 0.5, dtype=tx.bfloat16)
    with tx.autocast(tx.bfloat16):
        for _ in range(3):
            assert F.mse_loss(x, x * 2).dtype == tx.float32
            assert x.exp().dtype == tx.float32
            assert ((x - x * 2) ** 2).dtype == tx.float32
            assert x.softmax(0).dtype == tx.float32


# -- the precision of float32 -----------------------------------------------------------------


@pytest.fixture
def precision() -> Iterator[None]:
    before = jax.config.jax_default_matmul_precision
    yield
    jax.config.update("jax_default_matmul_precision", before)


def precisions_in(run: Callable[[Any], Any], *shape: int) -> set[str]:
    text = jax.jit(lambda a: run(tx.as_tensor(a)).jax()).lower(jnp.ones(shape)).as_text()
    return set(re.findall(r"HIGHEST|HIGH|DEFAULT", text)) or {"DEFAULT"}


@pytest.mark.usefixtures("precision")
def test_float32_matmul_precision() -> None:
    """In the products of forward and backward, and in convolutions."""

    def product(v: Any) -> Any:
        return v @ v

    def convolution(v: Any) -> Any:
        return F.conv1d(v[None], v[None])

    def gradient(v: Any) -> Any:
        return tx.grad(lambda u: (u @ u).sum())(v)

    assert tx.get_float32_matmul_precision() == "highest"
    assert precisions_in(product, 3, 3) == {"HIGHEST"}
    for word, inner in (("high", "HIGH"), ("medium", "DEFAULT"), ("highest", "HIGHEST")) * 2:
        tx.set_float32_matmul_precision(word)
        assert tx.get_float32_matmul_precision() == word
        for run in (product, convolution, gradient):
            assert precisions_in(run, 3, 3) == {inner}, (run, word)


@pytest.mark.usefixtures("precision")
def test_the_precision_is_part_of_the_key() -> None:
    """The same line is another program under another precision, and the gradient's products follow."""
    x = leaf(3, 3)
    step = tx.compile(lambda v: v @ v)
    for word in ("highest", "medium", "highest"):
        tx.set_float32_matmul_precision(word)
        y = x @ x
        calls = {y._node.event.call.kwargs["precision"]}
        y.sum().backward()
        assert calls == {"default" if word == "medium" else "highest"}
        step(x.detach())
    assert "recorded 2 time(s)" in repr(step)
    with jax.default_matmul_precision("high"):  # JAX's own context goes before
        assert tx.get_float32_matmul_precision() == "high"
    assert tx.get_float32_matmul_precision() == "highest"


def test_unknown_precision() -> None:
    for bad in ("exact", None, 3):
        with pytest.raises(tx.ArgumentValueError, match="'highest', 'high' or 'medium'"):
            tx.set_float32_matmul_precision(bad)  # type: ignore[arg-type]
    assert tx.get_float32_matmul_precision() == "highest"
