"""Tensors on a mesh of eight devices: the losses of one device, layouts as asked for, the right collectives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import torsh_fx as tx

pytestmark = pytest.mark.skipif(jax.device_count() < 8, reason="needs eight devices")
F = tx.nn.functional
AUTO = (AxisType.Auto,)


def mesh_of(*shape: int, explicit: bool = False) -> jax.sharding.Mesh:
    names = ("data", "model")[: len(shape)]
    types = {} if explicit else {"axis_types": AUTO * len(shape)}
    return jax.make_mesh(shape, names, **types)


def spec_of(t: Any) -> Any:
    return t.detach().jax().sharding.spec


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# -- placing -------------------------------------------------------------------------------


@pytest.mark.parametrize("explicit", [False, True])
def test_a_leaf_stays_a_leaf(explicit: bool) -> None:
    mesh = mesh_of(4, 2, explicit=explicit)
    w = tx.tensor(numbers(8, 6), requires_grad=True)
    d = tx.distribute(w, mesh, P("data", "model"))
    assert d.is_leaf
    assert d.requires_grad
    assert spec_of(d) == P("data", "model")
    assert d.device.mesh.axis_names == ("data", "model")
    assert d.detach().jax().addressable_shards[0].data.shape == (2, 3)
    np.testing.assert_array_equal(d.detach().numpy(), w.detach().numpy())
    whole = tx.distribute(numbers(3), mesh)
    assert whole.detach().jax().is_fully_replicated
    with tx.no_grad():
        d *= 2
    np.testing.assert_array_equal(w.detach().numpy(), numbers(8, 6))  # a copy


def test_a_result_keeps_its_graph() -> None:
    mesh = mesh_of(8)
    w = tx.tensor(numbers(8, 2), requires_grad=True)
    y = tx.distribute(w * 2, mesh, P("data"))
    assert y.grad_fn is not None
    (y * y).sum().backward()
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), 8 * numbers(8, 2), rtol=1e-6)
    on_two = tx.tensor(numbers(8, 2), device=jax.devices()[2]).requires_grad_()  # from a device of the mesh
    tx.distribute(on_two * 2, mesh, P("data")).sum().backward()
    assert on_two.grad is not None
    assert on_two.grad.device == jax.devices()[2]
    gathered = tx.distribute(y, mesh, P())
    assert gathered.detach().jax().is_fully_replicated


def test_results_and_kin_lie_on_the_mesh() -> None:
    mesh = mesh_of(4, 2)
    x = tx.distribute(numbers(8, 4), mesh, P("data", "model"))
    assert spec_of(tx.zeros_like(x)) == spec_of(tx.full_like(x, 2.0)) == P("data", "model")
    assert x.new_zeros(3).jax().is_fully_replicated
    pending = (x * 2).sum(0)
    assert pending.device in (pending.device, mesh)
    assert (x + tx.ones(8, 4)).jax().sharding.mesh == x.jax().sharding.mesh  # what nobody placed comes along
    assert x.sum().cpu().device == jax.devices()[0]


REFUSED: list[tuple[str, Callable[[Any], Any], type[Exception], str]] = [
    ("divides", lambda m: tx.distribute(tx.ones(6, 4), m, P("data")), ValueError, r"axis 0.*\[6, 4\].*4 parts"),
    ("both", lambda m: tx.distribute(tx.ones(12), m, P(("data", "model"))), ValueError, r"axis 0.*\[12\].*8 parts"),
    ("name", lambda m: tx.distribute(tx.ones(8), m, P("rows")), ValueError, "'rows'.*'data': 4"),
    ("twice", lambda m: tx.distribute(tx.ones(8, 8), m, P("data", "data")), ValueError, "'data' twice"),
    ("rank", lambda m: tx.distribute(tx.ones(8), m, P("data", "model")), ValueError, r"2 axes.*\[8\]"),
    ("no mesh", lambda m: tx.distribute(tx.ones(8), "data", P()), TypeError, "mesh.*str"),
    ("no spec", lambda m: tx.distribute(tx.ones(8), m, 3), TypeError, "spec.*int"),
    ("no tensor", lambda m: tx.distribute("a", m), TypeError, "numbers"),
    ("result", lambda m: tx.distribute(tx.ones(6).requires_grad_() * 2, m, P("data")), ValueError, "axis 0.*4 parts"),
    (
        "other mesh",
        lambda m: tx.distribute(tx.ones(8), m, P("data")) * tx.distribute(tx.ones(8), mesh_of(8), P("data")),
        ValueError,
        r"\[mul\].*'data': 4.*'data': 8.*distribute",
    ),
    (
        "one device",
        lambda m: tx.distribute(tx.ones(8), m, P("data")) + tx.ones(8, device=jax.devices()[1]),
        ValueError,
        r"\[add\].*mesh.*:1.*distribute",
    ),
    ("function", lambda m: tx.shard_map(3, mesh=m, in_specs=P(), out_specs=P()), TypeError, "shard_map.*int"),
    ("shard_map", lambda m: tx.shard_map(tx.exp, mesh=3, in_specs=P(), out_specs=P()), TypeError, "mesh.*int"),
]


@pytest.mark.parametrize(("call", "error", "match"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused_at_the_line(call: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        call(mesh_of(4, 2))
    assert isinstance(caught.value, tx.TorshError)


# -- training ------------------------------------------------------------------------------

Params = dict[str, tx.Tensor]
Net = Callable[[Params, tx.Tensor], tx.Tensor]

DIGITS = {"w1": numbers(64, 32, seed=1) * 0.2, "b1": np.zeros(32, np.float32)}
DIGITS |= {"w2": numbers(32, 16, seed=2) * 0.2, "b2": np.zeros(16, np.float32)}


def digits_net(p: Params, x: tx.Tensor) -> tx.Tensor:
    return F.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


D, HEADS = 16, 4
SHAPES = {"q": (D, D), "k": (D, D), "v": (D, D), "o": (D, D), "up": (D, 32), "down": (32, D), "out": (D, 16)}
BLOCK = {name: numbers(*shape, seed=k) * 0.2 for k, (name, shape) in enumerate(SHAPES.items())}
BLOCK |= {"embed": numbers(16, D, seed=9) * 0.2, "scale": np.ones(D, np.float32), "shift": np.zeros(D, np.float32)}


def transformer(p: Params, tokens: tx.Tensor) -> tx.Tensor:
    """One causal layer: attention over ``HEADS``, two residual connections, and the next token's logits."""
    n, length = tokens.shape
    x = F.embedding(tokens, p["embed"])

    def heads(t: tx.Tensor) -> tx.Tensor:
        return t.reshape(n, length, HEADS, D // HEADS).permute(0, 2, 1, 3)

    h = F.layer_norm(x, (D,), p["scale"], p["shift"])
    q, k, v = (heads(h @ p[name]) for name in "qkv")
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + mixed.permute(0, 2, 1, 3).reshape(n, length, D) @ p["o"]
    x = x + F.gelu(x @ p["up"]) @ p["down"]
    return (x @ p["out"]).flatten(0, 1)


NETS: dict[str, tuple[Net, dict[str, Any], dict[str, P]]] = {
    "digits": (
        digits_net,
        DIGITS,
        {"w1": P(None, "model"), "b1": P("model"), "w2": P("model")},
    ),
    "transformer": (
        transformer,
        BLOCK,
        {"q": P(None, "model"), "k": P(None, "model"), "v": P(None, "model"), "o": P("model")}
        | {"up": P(None, "model"), "down": P("model"), "embed": P(None, "model")},
    ),
}


def batches(name: str) -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng(3)
    for _ in range(4):
        if name == "digits":
            x = rng.standard_normal((16, 64)).astype(np.float32)
            yield x, np.argmax(x @ numbers(64, 16), 1)
        else:
            text = np.cumsum(rng.integers(1, 3, (16, 9)), 1) % 16
            yield text[:, :-1], text[:, 1:].reshape(-1)


def train(name: str, place: Callable[[str, Any], tx.Tensor], batch: Callable[[Any], tx.Tensor], parts: int = 1) -> Any:
    net, values, _ = NETS[name]
    params = {k: place(k, v).requires_grad_() for k, v in values.items()}
    momentum = {k: tx.zeros_like(p) for k, p in params.items()}
    losses = []
    for x, y in batches(name):
        total = 0.0
        for xs, ys in zip(np.split(x, parts), np.split(y, parts), strict=True):
            loss = F.cross_entropy(net(params, batch(xs)), batch(ys)) / parts
            loss.backward()
            total += loss.item()
        with tx.no_grad():
            for k, p in params.items():
                assert p.grad is not None
                assert p.grad.shape == p.shape
                momentum[k].mul_(0.9).add_(p.grad)
                p -= 0.3 * momentum[k]
                p.grad = None
        losses.append(total)
    return losses, params


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    """Both nets on one device."""
    found = {name: train(name, lambda k, v: tx.tensor(v), tx.tensor) for name in NETS}
    assert all(losses[-1] < losses[0] for losses, _ in found.values())
    return found


WAYS = {
    "replicated": ((8,), None, False),
    "data": ((8,), "data", False),
    "tensor": ((1, 8), None, True),
    "both": ((4, 2), "data", True),
}


@pytest.mark.parametrize(
    ("name", "way", "explicit"),
    [*(("digits", way, False) for way in WAYS), ("transformer", "data", True), ("transformer", "both", False)],
)
def test_losses_of_one_device(name: str, way: str, explicit: bool, alone: dict[str, Any]) -> None:
    shape, axis, split = WAYS[way]
    mesh = mesh_of(*shape, explicit=explicit)
    specs = NETS[name][2] if split else {}
    losses, params = train(
        name,
        lambda k, v: tx.distribute(v, mesh, specs.get(k, P())),
        lambda a: tx.distribute(a, mesh, P(axis)),
    )
    want, one = alone[name]
    np.testing.assert_allclose(losses, want, rtol=2e-5)
    for k, p in params.items():
        assert spec_of(p) == specs.get(k, P()), k  # an update leaves a parameter where it was
        np.testing.assert_allclose(p.detach().numpy(), one[k].detach().numpy(), rtol=2e-3, atol=2e-5)


def test_gradients_add_up_over_micro_batches(alone: dict[str, Any]) -> None:
    mesh = mesh_of(4, 2)
    specs = NETS["digits"][2]
    place = lambda k, v: tx.distribute(v, mesh, specs.get(k, P()))  # noqa: E731
    losses, _ = train("digits", place, lambda a: tx.distribute(a, mesh, P("data")), parts=4)
    np.testing.assert_allclose(losses, alone["digits"][0], rtol=2e-5)


def test_gradients_lie_as_their_parameters() -> None:
    mesh = mesh_of(4, 2)
    x = tx.distribute(numbers(8, 4), mesh, P("data"))
    w = tx.distribute(numbers(4, 6), mesh, P(None, "model")).requires_grad_()
    b = tx.distribute(np.zeros(6, np.float32), mesh).requires_grad_()
    for _ in range(2):  # the second time it is added to
        ((x @ w + b) ** 2).sum().backward()
        assert w.grad is not None
        assert b.grad is not None
        assert (spec_of(w.grad), spec_of(b.grad)) == (P(None, "model"), P())
    want = jax.grad(lambda w: jnp.sum((numbers(8, 4) @ w) ** 2))(numbers(4, 6))
    np.testing.assert_allclose(w.grad.numpy(), 2 * want, rtol=1e-4, atol=1e-5)
    by_function = tx.grad(lambda w: ((x @ w) ** 2).sum())(w.detach())
    np.testing.assert_allclose(by_function.numpy(), want, rtol=1e-4, atol=1e-5)
    assert spec_of(by_function) == P(None, "model")


def test_a_compiled_step_and_transforms() -> None:
    mesh = mesh_of(4, 2)
    x = tx.distribute(numbers(8, 4), mesh, P("data"))
    w = tx.distribute(numbers(4, 6), mesh, P(None, "model")).requires_grad_()

    @tx.compile
    def step(x: tx.Tensor) -> tx.Tensor:
        loss = ((x @ w) ** 2).mean()
        loss.backward()
        with tx.no_grad():
            w.sub_(0.1 * w.grad)
            w.grad = None
        return loss

    plain = numbers(4, 6)
    f = jax.value_and_grad(lambda w: jnp.mean((numbers(8, 4) @ w) ** 2))
    for _ in range(3):
        value, g = f(plain)
        np.testing.assert_allclose(step(x).item(), value, rtol=1e-5)
        plain = plain - 0.1 * g
        assert spec_of(w) == P(None, "model")
    rows = tx.vmap(lambda row: (row @ w.detach()).sum())(x)
    np.testing.assert_allclose(rows.numpy(), (numbers(8, 4) @ plain).sum(1), rtol=1e-4)
    tape = tx.record(lambda x: tx.distribute(x @ w.detach(), mesh, P("data", "model")).sum())(x)
    np.testing.assert_allclose(jax.jit(tape.as_jax())(x.jax()), (numbers(8, 4) @ plain).sum(), rtol=1e-4)


def test_other_ways_to_differentiate_and_write() -> None:
    mesh = mesh_of(4, 2)
    x = tx.distribute(numbers(8, 4), mesh, P("data"))
    w = tx.distribute(numbers(4, 6), mesh, P(None, "model")).requires_grad_()
    plain = lambda w: jnp.sum((numbers(8, 4) @ w) ** 2)  # noqa: E731
    want = jax.grad(plain)(numbers(4, 6))
    (g,) = tx.autograd.grad(((x @ w) ** 2).sum(), w, create_graph=True)
    assert g.device == w.device.mesh  # still pending
    (second,) = tx.autograd.grad((g * g).sum(), w)
    np.testing.assert_allclose(
        second.numpy(), jax.grad(lambda w: jnp.sum(jax.grad(plain)(w) ** 2))(numbers(4, 6)), 1e-3
    )
    found = [
        tx.value_and_grad(lambda w: ((x @ w) ** 2).sum())(w)[1],
        tx.jit(tx.grad(lambda w: ((x @ w) ** 2).sum()))(w),
    ]
    with tx.eager():
        ((x @ w) ** 2).sum().backward()
    found.append(w.grad)
    for got in found:
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-4, atol=1e-4)
    with tx.no_grad():
        w[0] = 5
        w[:, 1].mul_(2)
    assert spec_of(w) == P(None, "model")
    assert w.detach().numpy()[0].tolist() == [5, 10, 5, 5, 5, 5]
    w.data = tx.ones(4, 6)
    assert spec_of(w) == P(None, "model")


def test_other_layouts_are_other_programs() -> None:
    """The same loop over parameters that lie elsewhere is compiled for there."""
    mesh = mesh_of(4, 2)
    for spec in (P(None, "model"), P("data"), P(None, "model"), P()):
        w = tx.distribute(numbers(4, 6), mesh, spec).requires_grad_()
        for _ in range(2):
            (w * w).sum().backward()
            with tx.no_grad():
                w -= 0.1 * w.grad
                w.grad = None
        assert spec_of(w) == spec
        np.testing.assert_allclose(w.detach().numpy(), numbers(4, 6) * 0.64, rtol=1e-5)


# -- what is compiled --------------------------------------------------------------------


def collectives(text: str) -> dict[str, list[tuple[int, ...]]]:
    """The shapes that each kind of collective gives."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for result, kind in re.findall(r"= (\S.*?) (all-reduce|all-gather|reduce-scatter|all-to-all)(?:-start)?\(", text):
        for shape in re.findall(r"[a-z]+\d+\[([\d,]*)\]", result):
            found.setdefault(kind, []).append(tuple(int(n) for n in shape.split(",") if n))
    return found


def program_of(way: str) -> dict[str, list[tuple[int, ...]]]:
    """The collectives of the training step's one program."""
    shape, axis, split = WAYS[way]
    mesh = mesh_of(*shape)
    specs = NETS["digits"][2] if split else {}
    params = {k: tx.distribute(v, mesh, specs.get(k, P())).requires_grad_() for k, v in DIGITS.items()}

    def step() -> None:
        x, y = next(batches("digits"))
        loss = F.cross_entropy(digits_net(params, tx.distribute(x, mesh, P(axis))), tx.distribute(y, mesh, P(axis)))
        loss.backward()
        with tx.no_grad():
            for p in params.values():
                p -= 0.1 * p.grad
                p.grad = None

    for _ in range(2):
        step()
    with tx.explain() as report:
        step()
    (text,) = report.hlo()
    return collectives(text)


def test_data_parallel_sums_gradients_and_gathers_nothing() -> None:
    found = program_of("data")
    summed = sorted(found.pop("all-reduce"))
    for shape in (DIGITS["w1"].shape, DIGITS["w2"].shape, DIGITS["b1"].shape, DIGITS["b2"].shape):
        assert shape in summed, (shape, summed)
    assert not found, found


def test_tensor_parallel_gathers_no_weight() -> None:
    for way in ("tensor", "both"):
        found = program_of(way)
        assert "all-reduce" in found
        gathered = found.get("all-gather", [])
        whole = {DIGITS["w1"].shape, DIGITS["w2"].shape, DIGITS["b1"].shape, (16, 64)}
        assert not whole & set(gathered), (way, found)


def test_replicated_needs_none() -> None:
    assert program_of("replicated") == {}


# -- shard_map --------------------------------------------------------------------------


def test_shard_map_is_differentiable() -> None:
    mesh = mesh_of(4, 2, explicit=True)
    x = tx.distribute(numbers(8, 4), mesh, P("data"))
    w = tx.distribute(numbers(4, 6), mesh, P(None, "model")).requires_grad_()
    seen = []

    def body(x: tx.Tensor, w: tx.Tensor) -> Any:
        seen.append((x.shape, w.shape))
        return jax.lax.psum((x @ w).tanh().sum(), ("data", "model"))

    total = tx.shard_map(body, mesh=mesh, in_specs=(P("data"), P(None, "model")), out_specs=P())
    loss = total(x, w) * 2 + (w * w).sum()
    loss.backward()
    assert seen[0] == ((2, 4), (4, 3))

    def plain(w: Any) -> Any:
        return 2 * jnp.sum(jnp.tanh(numbers(8, 4) @ w)) + jnp.sum(w * w)

    want, gradient = jax.value_and_grad(plain)(numbers(4, 6))
    np.testing.assert_allclose(loss.item(), want, rtol=1e-5)
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), gradient, rtol=1e-4, atol=1e-5)
    by_function = tx.grad(lambda w: total(x, w) * 2 + (w * w).sum())(w.detach())
    np.testing.assert_allclose(by_function.numpy(), gradient, rtol=1e-4, atol=1e-5)


def test_arrays_of_an_explicit_mesh_come_in() -> None:
    mesh = mesh_of(4, 2, explicit=True)
    array = jax.device_put(jnp.asarray(numbers(8, 4)), NamedSharding(mesh, P("data", "model")))
    w = tx.distribute(numbers(4, 6), mesh, P("model")).requires_grad_()
    with jax.set_mesh(mesh):
        (tx.as_tensor(array) @ w).sum().backward()
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), jax.grad(lambda w: (numbers(8, 4) @ w).sum())(numbers(4, 6)), rtol=1e-5)
