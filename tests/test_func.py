"""tx.func beside torch.func: names, order, structures, nesting, and the imperative tape."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx
from tolerances import close
from twins import agree, both_refuse, compare, leaf

X = np.array([[0.3, -1.2, 0.7], [2.0, 0.1, -0.4], [0.5, 0.6, 1.1], [-0.2, 0.9, 0.3]])
Y = np.array([0.5, -1.5, 2.0])


def scalar(x, y):
    return (x.sin() @ y).exp().sum()


def several(x, y):
    return (x * y).sin(), (x @ y).cos()


def at(lib):
    return leaf(lib, X, requires_grad=False), leaf(lib, Y, requires_grad=False)


def test_names_and_order():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for name in tx.func.__all__:
        ours = list(inspect.signature(getattr(tx.func, name)).parameters.values())
        theirs = [p for p in inspect.signature(getattr(torch.func, name)).parameters.values() if p.name[0] != "_"]
        assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs], name


FUNCTIONS = {
    "grad": lambda F, x, y: F.grad(scalar)(x, y),
    "grad by two": lambda F, x, y: F.grad(scalar, (1, 0))(x, y),
    "grad by the last": lambda F, x, y: F.grad(scalar, -1)(x, y),
    "grad of trees": lambda F, x, y: F.grad(lambda p, c: scalar(p["x"], p["y"]) * c)({"x": x, "y": y}, 3.0),
    "grad with aux": lambda F, x, y: F.grad(lambda x, y: (scalar(x, y), [x * 2]), has_aux=True)(x, y),
    "grad_and_value": lambda F, x, y: F.grad_and_value(scalar, 1)(x, y),
    "grad_and_value aux": lambda F, x, y: F.grad_and_value(lambda x, y: (scalar(x, y), x), has_aux=True)(x, y),
    "vjp": lambda F, x, y: (lambda out, pull: (out, pull(out)))(*F.vjp(several, x, y)),
    "vjp aux": lambda F, x, y: (lambda out, pull, aux: (pull(out), aux))(*F.vjp(lambda a: (a * a, a), x, has_aux=True)),
    "jvp": lambda F, x, y: F.jvp(several, (x, y), (x, y)),
    "jvp aux": lambda F, x, y: F.jvp(lambda a: (a * a, a), (x,), (x,), has_aux=True),
    "jvp strict": lambda F, x, y: F.jvp(several, (x, y), (x, y), strict=True),
    "linearize": lambda F, x, y: (lambda out, push: (out, push(x, y)))(*F.linearize(several, x, y)),
    "jacrev": lambda F, x, y: F.jacrev(several)(x, y),
    "jacrev by two": lambda F, x, y: F.jacrev(several, (0, 1))(x, y),
    "jacrev by one of a tuple": lambda F, x, y: F.jacrev(several, (1,))(x, y),
    "jacrev aux": lambda F, x, y: F.jacrev(lambda x, y: (several(x, y), y), 1, has_aux=True)(x, y),
    "jacfwd": lambda F, x, y: F.jacfwd(several, 1)(x, y),
    "jacfwd by two": lambda F, x, y: F.jacfwd(several, (0, 1))(x, y),
    "jacfwd aux": lambda F, x, y: F.jacfwd(lambda x, y: (several(x, y), y), 1, True)(x, y),
    "hessian": lambda F, x, y: F.hessian(scalar, 1)(x, y),
    "hessian by two": lambda F, x, y: F.hessian(scalar, (0, 1))(x, y),
    "vmap": lambda F, x, y: F.vmap(lambda r, y: (r * y).sum(), (0, None))(x, y),
    "vmap other axes": lambda F, x, y: F.vmap(lambda c, s: c * s, (1, 0), 1)(x, y),
    "vmap negative axes": lambda F, x, y: F.vmap(lambda c, s: (c * s, {"a": c}), (-1, -1), (0, {"a": -1}))(x, y),
    "vmap of trees": lambda F, x, y: F.vmap(lambda p, k: p["x"] * p["y"] * k, ({"x": 1, "y": 0}, None))(
        {"x": x, "y": y}, 2.0
    ),
    "vmap keywords": lambda F, x, y: F.vmap(lambda r, y: r * y)(x, y=y),
    "vmap one out_dim": lambda F, x, y: F.vmap(lambda r: r * 2, out_dims=(1,))(x),
    "vmap None": lambda F, x, y: F.vmap(lambda r, y: (r * y, y * 2, "text"), (0, None), (0, None, None))(x, y),
    "vmap of grad": lambda F, x, y: F.vmap(F.grad(lambda r, y: (r * y).sin().sum()), (0, None))(x, y),
    "grad of vmap": lambda F, x, y: F.grad(lambda x: F.vmap(lambda r: (r * y).sin())(x).sum())(x),
    "vmap of vmap": lambda F, x, y: F.vmap(F.vmap(lambda a, b: (a * b).sin()), (0, None))(x, y),
    "vmap of hessian": lambda F, x, y: F.vmap(F.hessian(lambda r: (r**3 * y).sum()))(x),
    "jacrev of jacfwd": lambda F, x, y: F.jacrev(F.jacfwd(lambda y: (y**3).sin()))(y),
    "jvp of grad": lambda F, x, y: F.jvp(F.grad(lambda y: (y**4).sum()), (y,), (y,)),
    "vjp of vjp": lambda F, x, y: F.vjp(lambda y: F.vjp(lambda z: z**4, y)[1](y)[0], y)[1](y),
    "grad of grad": lambda F, x, y: F.grad(lambda y: (F.grad(lambda z: (z**4).sum())(y) ** 2).sum())(y),
    "grad of jvp": lambda F, x, y: F.grad(lambda y: F.jvp(lambda z: z**3, (y,), (y,))[1].sum())(y),
}


@pytest.mark.parametrize("call", FUNCTIONS.values(), ids=FUNCTIONS)
def test_values_and_structures(call):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    agree(call(tx.func, *at(tx)), call(torch.func, *at(torch)))


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_chunks(size):
    def program(lib):
        x, y = at(lib)
        return [
            lib.func.jacrev(several, (0, 1), chunk_size=size)(x, y),
            lib.func.jacrev(lambda x, y: (several(x, y), x), 1, has_aux=True, chunk_size=size)(x, y),
            lib.func.vmap(lambda r, y: (r * y, r.sum()), (0, None), (1, 0), chunk_size=size)(x, y),
            lib.func.vmap(lambda c: c * 2, 1, chunk_size=size)(x),
        ]

    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    agree(program(tx), program(torch))


# Not linearize: PyTorch folds its primals into constants.
CONNECTED = ["grad", "vjp aux", "jvp aux", "jacfwd", "hessian", "vmap other axes", "vmap of grad", "vjp of vjp"]


@pytest.mark.parametrize("name", CONNECTED)
def test_the_tape_goes_through_twice(name):
    """backward() and a second derivative through results of transforms, as PyTorch's autograd has them."""

    def program(lib):
        x, y = leaf(lib, X[:2]), leaf(lib, Y)
        out = FUNCTIONS[name](lib.func, x * 1.0, y * 1.0)
        flat = jax.tree.leaves(out, is_leaf=lambda t: hasattr(t, "detach"))
        total = sum((t.sin() * (k + 1)).sum() for k, t in enumerate(flat))
        first = lib.autograd.grad(total, [x, y], create_graph=True, allow_unused=True)
        first = [g for g in first if g is not None]
        sum((g * g).sum() for g in first).backward()
        return [*first, x.grad, y.grad]

    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    agree(program(tx), program(torch))


def test_backward_inside():
    """The imperative tape inside transforms."""

    def inner(x):
        w = (x * 1.0).detach().requires_grad_()
        (w**3).sum().backward()
        return (w.grad * x).sum()

    x = leaf(tx, Y, requires_grad=False)
    close(tx.func.grad(inner)(x).numpy(), 3 * Y**2, gradient=True)  # what backward() gave is a constant

    def second(x):
        (g,) = tx.autograd.grad((x**4).sum(), x, create_graph=True)
        return (g * x).sum()

    close(
        tx.func.vmap(tx.func.grad(lambda r: second(r.requires_grad_())))(leaf(tx, X, requires_grad=False)).numpy(),
        16 * X**3,
    )


def test_against_jax():
    def f(x, y):
        return (jnp.sin(x) @ y).sum() ** 2

    x, y = at(tx)
    with jax.enable_x64(True):
        want = jax.hessian(f, (0, 1))(jnp.array(X), jnp.array(Y))
        rows = jax.vmap(jax.grad(lambda r, y: jnp.sin(r) @ y), (0, None))(jnp.array(X), jnp.array(Y))
    ours = tx.func.hessian(lambda x, y: (x.sin() @ y).sum() ** 2, (0, 1))(x, y)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(want), strict=True):
        close(a, np.asarray(b), gradient=True)
    close(
        tx.func.vmap(tx.func.grad(lambda r, y: r.sin() @ y), (0, None))(x, y).numpy(), np.asarray(rows), gradient=True
    )


def test_under_jax_and_its_own_jit():
    x, y = at(tx)
    want = tx.func.jacrev(several, 1)(x, y)
    for got in (tx.jit(tx.func.jacrev(several, 1, chunk_size=2))(x, y), jax.jit(tx.func.jacfwd(several, 1))(x, y)):
        for a, b in zip(got, want, strict=True):
            close(a.numpy(), b.numpy(), gradient=True)


def test_a_function_that_was_refused_is_fine_for_others():
    """What a wrapper has learnt of one function is not held against another."""
    y = leaf(tx, Y, requires_grad=False)
    with pytest.raises(tx.ShapeMismatchError):
        tx.func.grad(lambda y: y * 2)(y)
    before = tx.stats()["programs run"]
    tx.func.grad(lambda y: (y * y).sum())(y).tolist()
    assert tx.stats()["programs run"] > before  # recorded, not traced


class TestRandomness:
    def test_error(self):
        x, _ = at(tx)
        with pytest.raises(tx.AutogradError, match=r"random_uniform.*vmap.*randomness='same'"):
            tx.func.vmap(lambda r: r + tx.rand(3))(x)
        with pytest.raises(tx.AutogradError, match=r"random_normal.*jacfwd"):
            tx.func.jacfwd(lambda r: r * tx.randn(3))(x[0])
        tx.func.vmap(lambda r: r * 2)(x)
        assert tx.rand(2).shape == (2,)

    @pytest.mark.parametrize("size", [None, 3])
    @pytest.mark.parametrize("how", ["same", "different"])
    def test_same_and_different(self, how, size):
        x = tx.zeros(4, 3)

        def draws():
            tx.manual_seed(5)
            return tx.func.vmap(lambda r: r + tx.rand(3) + tx.rand(3), randomness=how, chunk_size=size)(x).numpy()

        found = draws()
        np.testing.assert_array_equal(found, draws())
        assert len({tuple(row) for row in found.tolist()}) == (1 if how == "same" else 4)
        tx.manual_seed(5)
        whole = tx.func.vmap(lambda r: r + tx.rand(3) + tx.rand(3), randomness=how)(x).numpy()
        np.testing.assert_array_equal(found, whole)  # in chunks or not
        assert tx.default_generator.get_state() == (5, 2)

    def test_nested(self):
        x = tx.zeros(2, 3)
        tx.manual_seed(1)
        inner = tx.func.vmap(lambda e: e + tx.rand(()), randomness="different")
        assert len(set(tx.func.vmap(inner, randomness="different")(x).reshape(-1).tolist())) == 6
        tx.manual_seed(1)
        rows = tx.func.vmap(inner, randomness="same")(x)
        assert rows[0].tolist() == rows[1].tolist()
        assert len(set(rows[0].tolist())) == 3

    def test_jacfwd_takes_one_draw(self):
        tx.manual_seed(3)
        jacobian = tx.func.jacfwd(lambda r: r * tx.rand(3), randomness="same")(tx.ones(3))
        tx.manual_seed(3)
        assert jacobian.tolist() == tx.diag(tx.rand(3)).tolist()


class Layer:
    def __init__(self, lib, *values):
        self.weight = leaf(lib, values[0])
        self.bias = leaf(lib, values[1])

    def __call__(self, x):
        return x @ self.weight + self.bias


class Net:
    """A model without any base class, with a buffer that it counts on."""

    def __init__(self):
        self.layers = [Layer(tx, X.T[:, :2], [0.1, 0.2]), Layer(tx, [[1.0], [2.0]], [0.5])]
        self.scale = {"out": tx.tensor(2.0, dtype=tx.float64)}
        self.calls = tx.tensor(0)
        self.tied = self.layers[0].bias

    def __call__(self, x, power=1):
        self.calls = self.calls + 1
        for layer in self.layers:
            x = layer(x).tanh()
        return x * self.scale["out"] ** power + self.tied.sum()


class TestFunctionalCall:
    def test_values_gradients_and_everything_is_back(self):
        net, x = Net(), leaf(tx, X, requires_grad=False)
        before = net(x)
        weight, calls = net.layers[0].weight, net.calls
        params = {"layers.0.weight": leaf(tx, X.T[:, :2] * 2), "scale.out": tx.tensor(3.0, dtype=tx.float64)}
        got = tx.func.functional_call(net, params, x)
        assert net.layers[0].weight is weight
        assert net.scale["out"].item() == 2.0
        twin = Net()
        twin.layers[0].weight, twin.scale["out"] = params["layers.0.weight"], params["scale.out"]
        assert got.tolist() == twin(x).tolist()
        assert net(x).tolist() == before.tolist()
        got.sum().backward()
        assert weight.grad is None
        assert params["layers.0.weight"].grad is not None
        assert net.calls is not calls  # what it was not given stays its own

    def test_under_grad_and_vmap(self):
        net, x = Net(), leaf(tx, X, requires_grad=False)
        names = {"w": "layers.1.weight", "b": "layers.1.bias"}
        params = {"layers.1.weight": tx.tensor([[1.0], [2.0]]).double(), "layers.1.bias": tx.tensor([0.5]).double()}
        params |= {"layers.0.weight": net.layers[0].weight.detach(), "layers.0.bias": net.layers[0].bias.detach()}
        found = tx.func.grad(lambda p: (tx.func.functional_call(net, p, x) ** 2).sum())(params)
        (net(x) ** 2).sum().backward()
        for name in names.values():
            owner, key = net.layers[1], name.split(".")[-1]
            close(found[name].numpy(), getattr(owner, key).grad.numpy(), gradient=True)
        ensemble = {k: tx.stack([v, v * 2]) for k, v in params.items()}
        both = tx.func.vmap(lambda p: tx.func.functional_call(net, p, x))(ensemble)
        for k in (0, 1):
            one = tx.func.functional_call(net, {n: v[k] for n, v in ensemble.items()}, (x,), {"power": 1})
            close(both[k].numpy(), one.detach().numpy())

    def test_tied_tensors(self):
        net, x = Net(), leaf(tx, X, requires_grad=False)
        bias, twin = leaf(tx, [1.0, 1.0]), leaf(tx, [2.0, 2.0])
        tied = tx.func.functional_call(net, {"tied": bias}, x)
        assert tied.tolist() == tx.func.functional_call(net, {"layers.0.bias": bias}, x).tolist()
        loose = tx.func.functional_call(net, {"tied": bias}, x, tie_weights=False)
        assert loose.tolist() != tied.tolist()
        with pytest.raises(tx.ArgumentValueError, match=r"one Tensor.*tie_weights"):
            tx.func.functional_call(net, {"tied": bias, "layers.0.bias": twin}, x)
        assert net.tied is net.layers[0].bias

    def test_after_an_error_everything_is_back(self):
        net = Net()
        weight = net.layers[0].weight
        with pytest.raises(tx.TorshError):
            tx.func.functional_call(net, {"layers.0.weight": tx.ones(7, 7)}, leaf(tx, X))
        assert net.layers[0].weight is weight

    def test_several_dicts_and_what_is_rebound(self):
        net, x = Net(), leaf(tx, X, requires_grad=False)
        given = {"calls": tx.tensor(10)}
        tx.func.functional_call(net, given, x)
        assert (given["calls"].item(), net.calls.item()) == (11, 0)
        scale, bias = {"scale.out": tx.tensor(1.0).double()}, {"layers.1.bias": leaf(tx, [0.0])}
        merged = tx.func.functional_call(net, {**scale, **bias}, x)
        assert tx.func.functional_call(net, (scale, bias), x).tolist() == merged.tolist()

    def test_as_pytorch(self):
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        linear = torch.nn.Linear(3, 2).double()
        weight, bias = X[:2], [0.5, -0.5]
        layer = Layer(tx, weight.T, bias)
        want = torch.func.functional_call(
            linear, {"weight": leaf(torch, weight), "bias": leaf(torch, bias)}, leaf(torch, X)
        )
        got = tx.func.functional_call(layer, {"weight": leaf(tx, weight.T)}, leaf(tx, X))
        agree(got, want)


def refused():
    F = tx.func
    x, v = tx.tensor([[1.0, 2.0], [3.0, 4.0]]), tx.tensor([1.0, 2.0])
    i = tx.tensor([1, 2])
    net = Net()
    return [
        ("grad: not a scalar", lambda: F.grad(lambda v: v * 2)(v), ValueError, r"\[grad\].*0-d.*\[2\]"),
        ("grad: one element", lambda: F.grad(lambda v: v[:1])(v), ValueError, r"\[grad\].*0-d.*\[1\]"),
        ("grad: no Tensor", lambda: F.grad(lambda v: 3.0)(v), TypeError, r"\[grad\].*Tensor.*3.0"),
        ("grad: no pair", lambda: F.grad(lambda v: v.sum(), has_aux=True)(v), TypeError, r"\[grad\].*pair"),
        ("grad: no such argument", lambda: F.grad(lambda v: v.sum(), 1)(v), IndexError, r"\[grad\].*argument 1"),
        ("grad: argnums text", lambda: F.grad(lambda v: v.sum(), "a")(v), TypeError, r"\[grad\] argnums.*'a'"),
        ("grad: argnums empty", lambda: F.grad(lambda v: v.sum(), ())(v), ValueError, r"\[grad\] argnums"),
        ("grad: argnums twice", lambda: F.grad(lambda v: v.sum(), (0, -1))(v), ValueError, r"\[grad\] argnums.*twice"),
        ("grad: a number", lambda: F.grad(lambda v: v * v)(3.0), TypeError, r"\[grad\].*Tensors.*3.0"),
        ("grad: integers", lambda: F.grad(lambda v: v.sum())(i), TypeError, r"\[grad\].*floating.*int64"),
        ("grad_and_value: nothing", lambda: F.grad_and_value(lambda v: v)([]), ValueError, "at least one Tensor"),
        ("vjp: a number", lambda: F.vjp(lambda v: v, 3.0), TypeError, r"\[vjp\] primals.*3.0"),
        ("vjp: nothing", lambda: F.vjp(lambda: v), ValueError, r"\[vjp\] primals"),
        ("vjp: result", lambda: F.vjp(lambda v: i, v), TypeError, r"\[vjp\] the result.*int64"),
        ("vjp: structure", lambda: F.vjp(lambda v: v, v)[1]((v, v)), ValueError, r"\[vjp\] cotangents.*structure"),
        ("vjp: shape", lambda: F.vjp(lambda v: v, v)[1](x), ValueError, r"\[vjp\] cotangents.*\[2\].*\[2, 2\]"),
        ("vjp: dtype", lambda: F.vjp(lambda v: v, v)[1](v.double()), TypeError, r"\[vjp\].*float32.*float64"),
        ("jvp: a list", lambda: F.jvp(lambda v: v, [v], [v]), TypeError, r"\[jvp\] primals must be a tuple"),
        ("jvp: structure", lambda: F.jvp(lambda v: v, (v,), (v, v)), ValueError, r"\[jvp\] tangents.*structure"),
        ("jvp: shape", lambda: F.jvp(lambda v: v, (v,), (x,)), ValueError, r"\[jvp\] tangents.*\[2\]"),
        ("jvp: strict", lambda: F.jvp(lambda v: tx.ones(2), (v,), (v,), strict=True), RuntimeError, r"\[jvp\].*strict"),
        ("linearize: tangents", lambda: F.linearize(lambda v: v, v)[1](v, v), ValueError, r"\[linearize\] tangents"),
        ("jacrev: chunk_size", lambda: F.jacrev(lambda v: v, chunk_size=0)(v), ValueError, r"\[jacrev\] chunk_size.*0"),
        ("jacrev: result", lambda: F.jacrev(lambda v: "a")(v), TypeError, r"\[jacrev\] the result.*'a'"),
        ("jacfwd: randomness", lambda: F.jacfwd(lambda v: v, randomness="maybe")(v), ValueError, "jacfwd.*'maybe'"),
        ("jacfwd: integers", lambda: F.jacfwd(lambda v: v)(i), TypeError, r"\[jacfwd\].*int64"),
        ("hessian: argument", lambda: F.hessian(lambda v: v.sum(), 3)(v), IndexError, r"\[hessian\].*argument 3"),
        ("vmap: nothing", lambda: F.vmap(lambda: v)(), ValueError, r"\[vmap\].*positional"),
        ("vmap: None", lambda: F.vmap(lambda v: v, None)(v), ValueError, r"\[vmap\] in_dims.*None"),
        ("vmap: all None", lambda: F.vmap(lambda v: v, (None,))(v), ValueError, r"\[vmap\] nothing is mapped"),
        ("vmap: extents", lambda: F.vmap(lambda a, b: a)(x, tx.ones(3)), ValueError, r"\[vmap\].*\[2, 3\]"),
        ("vmap: a number", lambda: F.vmap(lambda a, b: a)(x, 3.0), TypeError, r"\[vmap\].*3.0.*None"),
        ("vmap: an axis", lambda: F.vmap(lambda v: v, 2)(x), IndexError, r"\[vmap\].*axis 2.*\[2, 2\]"),
        ("vmap: structure", lambda: F.vmap(lambda v: v, (0, 0))(x), ValueError, r"\[vmap\] in_dims.*fit"),
        ("vmap: out structure", lambda: F.vmap(lambda v: v, out_dims=(0, 0))(x), ValueError, r"\[vmap\] out_dims.*fit"),
        ("vmap: result", lambda: F.vmap(lambda v: "a")(x), TypeError, r"\[vmap\].*'a'.*None"),
        ("vmap: out_dim", lambda: F.vmap(lambda v: v, out_dims=2)(x), IndexError, r"\[vmap\].*place 2"),
        ("vmap: differs", lambda: F.vmap(lambda v: v, out_dims=None)(x), ValueError, r"\[vmap\].*differs.*out_dim"),
        ("vmap: randomness", lambda: F.vmap(lambda v: v, randomness="no"), ValueError, r"\[vmap\] randomness.*'no'"),
        ("vmap: chunk_size", lambda: F.vmap(lambda v: v, chunk_size=-1), ValueError, r"\[vmap\] chunk_size.*-1"),
        ("call: a function", lambda: F.functional_call(lambda v: v, {}, v), TypeError, "function.*argument"),
        ("call: a Tensor", lambda: F.functional_call(v, {}, v), TypeError, "callable object"),
        ("call: no dict", lambda: F.functional_call(net, 3, v), TypeError, "dict.*3"),
        ("call: no Tensor", lambda: F.functional_call(net, {"calls": 3}, v), TypeError, "Tensors by name.*'calls'"),
        ("call: twice", lambda: F.functional_call(net, [{"a": v}, {"a": v}], v), ValueError, "'a'.*more than one"),
        ("call: nowhere", lambda: F.functional_call(net, {"layers.9.bias": v}, v), ValueError, "nowhere.*'9'"),
        ("call: strict", lambda: F.functional_call(net, {"w": v}, v, strict=True), ValueError, r"\['w'\].*layers.0"),
    ]


@pytest.mark.parametrize("k", range(len(refused())), ids=[row[0] for row in refused()])
def test_refusals(k):
    _, call, error, match = refused()[k]
    with pytest.raises(tx.TorshError, match=match) as caught:
        call()
    assert isinstance(caught.value, error)
    assert tx.func.grad(lambda v: (v * v).sum())(tx.tensor([1.0, 2.0])).tolist() == [2.0, 4.0]


def test_pytorch_refuses_these_too():
    refusals = [
        (lambda lib, x, y: lib.func.grad(lambda x: x * 2)(x), tx.ShapeMismatchError, "0-d"),
        (lambda lib, x, y: lib.func.vmap(lambda x, y: x)(x, y), ValueError, r"\[4, 3\]"),
        (lambda lib, x, y: lib.func.vjp(several, x, y)[1](x), ValueError, "structure"),
        (lambda lib, x, y: lib.func.vmap(lambda r: r + lib.rand(3))(x), tx.AutogradError, "randomness"),
        (lambda lib, x, y: lib.func.jvp(lambda x: y, (x,), (x,), strict=True), tx.AutogradError, "strict"),
    ]
    for call, error, match in refusals:
        both_refuse(lambda lib, call=call: call(lib, *at(lib)), error, match)


def test_programs_are_known_again():
    """A loop over func.grad and a batched vjp compiles nothing after its third step."""

    def step():
        x, y = at(tx)
        g = tx.func.grad(scalar)(x, y)
        (rows,) = tx.autograd.grad(x.requires_grad_() * y, x, tx.ones(2, 4, 3, dtype=tx.float64), is_grads_batched=True)
        return (g + rows[0]).sum().item()

    for _ in range(3):
        step()
    before = tx.stats()["xla programs compiled"]
    step()
    assert tx.stats()["xla programs compiled"] == before


def test_compare_is_not_blind():
    with pytest.raises(AssertionError):
        compare(lambda lib: lib.ones(2) * (2 if lib is tx else 3))
