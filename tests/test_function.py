"""``autograd.Function`` and ``custom_op``: PyTorch's values, calls and errors, and one gradient in every mode."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx
from torsh_fx.stats import counts

Function, once_differentiable = tx.autograd.Function, tx.autograd.function.once_differentiable
X = [0.5, -1.5, 2.0]


class Cube(Function):
    """The combined form; saves an input."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


class Scaled(Function):
    """The form with ``setup_context``: sin(k x) y, a number among the arguments, a result saved."""

    @staticmethod
    def forward(x: Any, y: Any, k: float = 2.0) -> Any:
        return (x * k).sin() * y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, y, ctx.k = inputs
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        gx = (x * ctx.k).cos() * ctx.k * y * g if ctx.needs_input_grad[0] else None
        gy = (x * ctx.k).sin() * g if ctx.needs_input_grad[1] else None
        return gx, gy, None

    @staticmethod
    def jvp(ctx: Any, tx_: Any, ty: Any, _: Any) -> Any:
        x, y = ctx.saved_tensors
        return (x * ctx.k).cos() * ctx.k * y * tx_ + (x * ctx.k).sin() * ty


class Two(Function):
    """Two results, one of them saved; the second has a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        e = x.exp()
        ctx.save_for_backward(e, y)
        return e, e * y

    @staticmethod
    def backward(ctx: Any, ge: Any, gp: Any) -> Any:
        e, y = ctx.saved_tensors
        return ge * e + gp * e * y, gp * e


class Wrong(Function):
    """A backward that is not the derivative: whoever differentiates the forward instead is found out."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x * 10


def plain(name: str) -> Callable[..., Any]:
    """The same on arrays, differentiated by JAX."""
    return {
        "Cube": lambda x: jnp.sum(x**3 * W),
        "Scaled": lambda x: jnp.sum(jnp.sin(3 * x) * (x * x) * W),
        "Two": lambda x: jnp.sum((jnp.exp(x) * 2 + jnp.exp(x) * x * x) * W),
    }[name]


W = np.array([1.0, 2.0, -3.0])


def through(name: str) -> Callable[[Any], Any]:
    """A scalar computed by the function, from a Tensor."""
    w = tx.tensor(W)

    def cube(x: Any) -> Any:
        return (Cube.apply(x) * w).sum()

    def scaled(x: Any) -> Any:
        return (Scaled.apply(x, x * x, 3.0) * w).sum()

    def two(x: Any) -> Any:
        e, p = Two.apply(x, x * x)
        return ((e * 2 + p) * w).sum()

    return {"Cube": cube, "Scaled": scaled, "Two": two}[name]


NAMES = ["Cube", "Scaled", "Two"]


def on_arrays(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda a: f(tx.as_tensor(a)).jax()


@pytest.fixture
def x64() -> Any:
    with jax.enable_x64(True):
        yield


def close(found: Any, wanted: Any) -> None:
    found = found.detach() if isinstance(found, tx.Tensor) else found
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-9, atol=1e-9)


# -- one derivative in every mode ------------------------------------------------------------


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", NAMES)
class TestEveryMode:
    def test_backward(self, name: str) -> None:
        for context in (tx.enable_grad(), tx.eager()):
            with context:
                x = tx.tensor(np.array(X), requires_grad=True)
                through(name)(x).backward()
                close(x.grad, jax.grad(plain(name))(jnp.array(X)))

    def test_backward_within_a_jit(self, name: str) -> None:
        def step(a: Any) -> Any:
            x = tx.as_tensor(a).requires_grad_()
            through(name)(x).backward()
            return x.grad.jax()

        close(jax.jit(step)(jnp.array(X)), jax.grad(plain(name))(jnp.array(X)))

    def test_double_and_triple_backward(self, name: str) -> None:
        x = tx.tensor(np.array(X), requires_grad=True)
        (g,) = tx.autograd.grad(through(name)(x), x, create_graph=True)
        (h,) = tx.autograd.grad(g.sum(), x, create_graph=True)
        (k,) = tx.autograd.grad(h.sum(), x)
        wanted = [plain(name)]
        for _ in range(3):
            wanted.append(jax.grad(lambda x, f=wanted[-1]: jnp.sum(f(x))))
        close(g, wanted[1](jnp.array(X)))
        close(h, wanted[2](jnp.array(X)))
        close(k, wanted[3](jnp.array(X)))

    def test_tx_grad_recorded_and_traced(self, name: str) -> None:
        f, x = through(name), tx.tensor(np.array(X))
        wanted = jax.grad(plain(name))(jnp.array(X))
        for _ in range(3):
            close(tx.grad(f)(x), wanted)
        close(tx.grad(lambda x: tx.as_tensor(f(x).jax()))(x), wanted)  # JAX in it: traced
        close(tx.jit(tx.grad(f))(x), wanted)
        close(tx.grad(lambda x: tx.grad(f)(x).sum())(x), jax.hessian(plain(name))(jnp.array(X)).sum(0))

    def test_jax_transforms(self, name: str) -> None:
        f, a = on_arrays(through(name)), jnp.array(X)
        close(jax.grad(f)(a), jax.grad(plain(name))(a))
        close(jax.jit(jax.grad(f))(a), jax.grad(plain(name))(a))
        close(jax.grad(jax.jit(f))(a), jax.grad(plain(name))(a))
        close(jax.grad(jax.checkpoint(f))(a), jax.grad(plain(name))(a))
        close(jax.hessian(f)(a), jax.hessian(plain(name))(a))
        close(jax.jacrev(jax.grad(f))(a), jax.hessian(plain(name))(a))
        close(jax.jvp(f, (a,), (a,))[1], jax.jvp(plain(name), (a,), (a,))[1])
        close(
            jax.grad(lambda a: jax.jvp(f, (a,), (a,))[1])(a), jax.grad(lambda a: jax.jvp(plain(name), (a,), (a,))[1])(a)
        )

    def test_vmap(self, name: str) -> None:
        f, batch = on_arrays(through(name)), jnp.array([X, [1.0, 2.0, 3.0]])
        close(jax.vmap(f)(batch), jax.vmap(plain(name))(batch))
        close(jax.vmap(jax.grad(f))(batch), jax.vmap(jax.grad(plain(name)))(batch))
        close(jax.grad(lambda b: jax.vmap(f)(b).sum())(batch), jax.vmap(jax.grad(plain(name)))(batch))
        close(jax.vmap(jax.hessian(f))(batch), jax.vmap(jax.hessian(plain(name)))(batch))
        close(jax.jit(jax.vmap(jax.grad(f)))(batch), jax.vmap(jax.grad(plain(name)))(batch))

    def test_a_replay(self, name: str) -> None:
        tape = tx.record(through(name))(tx.tensor(np.array([1.0, 1.0, 1.0])))
        f, a = tape.as_jax(), jnp.array(X)
        close(f(a), plain(name)(a))
        close(jax.grad(f)(a), jax.grad(plain(name))(a))
        close(jax.jit(jax.hessian(f))(a), jax.hessian(plain(name))(a))
        close(jax.jvp(f, (a,), (a,))[1], jax.jvp(plain(name), (a,), (a,))[1])
        assert tx.crosscheck(through(name), tx.tensor(np.array(X)), torch=False).ok

    def test_in_a_compiled_step(self, name: str) -> None:
        x = tx.tensor(np.array(X), requires_grad=True)

        @tx.compile
        def step() -> Any:
            loss = through(name)(x)
            loss.backward()
            with tx.no_grad():
                x.sub_(0.01 * x.grad)
            x.grad = None
            return loss

        a, wanted = jnp.array(X), []
        for _ in range(4):
            wanted.append(plain(name)(a))
            a = a - 0.01 * jax.grad(plain(name))(a)
        close([step().item() for _ in range(4)], wanted)
        close(x, a)

    def test_in_a_checkpoint(self, name: str) -> None:
        x = tx.tensor(np.array(X), requires_grad=True)
        tx.checkpoint(through(name))(x * 1).backward()
        close(x.grad, jax.grad(plain(name))(jnp.array(X)))


def test_what_runs_is_backward_not_the_derivative_of_forward() -> None:
    wanted = [10.0, 20.0]

    def f(x: Any) -> Any:
        return Wrong.apply(x).sum()

    x = tx.tensor([1.0, 2.0], requires_grad=True)
    f(x).backward()
    assert x.grad.tolist() == wanted
    assert tx.grad(f)(tx.tensor([1.0, 2.0])).tolist() == wanted
    assert jax.grad(on_arrays(f))(jnp.array([1.0, 2.0])).tolist() == wanted
    assert jax.grad(tx.record(f)(tx.tensor([0.0, 0.0])).as_jax())(jnp.array([1.0, 2.0])).tolist() == wanted
    assert jax.vmap(jax.grad(lambda a: Wrong.apply(tx.as_tensor(a)).jax()))(jnp.array([1.0, 2.0])).tolist() == wanted
    assert tx.jvp(Wrong.apply, (x.detach(),), (tx.ones(2),))[1].tolist() == wanted  # the transpose of backward
    (g,) = tx.autograd.grad(f(x), x, create_graph=True)
    assert tx.autograd.grad(g.sum(), x)[0].tolist() == [10.0, 10.0]
    assert jax.hessian(on_arrays(f))(jnp.array([1.0, 2.0])).tolist() == [[10.0, 0.0], [0.0, 10.0]]


def test_python_runs_at_each_step_in_one_program() -> None:
    w = tx.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    seen: list[str] = []

    class Noted(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            seen.append("forward")
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append("backward")
            return 2 * ctx.saved_tensors[0] * g

    def step() -> None:
        Noted.apply(w @ w).sum().backward()
        with tx.no_grad():
            w.sub_(0.001 * w.grad)
        w.grad = None

    for _ in range(3):
        step()
    before = dict(counts)
    for _ in range(4):
        step()
    assert counts["programs run"] - before["programs run"] == 4
    assert counts["xla programs compiled"] == before["xla programs compiled"]
    assert seen == ["forward", "backward"] * 7


# -- PyTorch as the oracle -----------------------------------------------------------------------


def cases() -> dict[str, Callable[[Any, list[Any]], Any]]:
    """Programs that run on PyTorch and on us; each returns numbers, and notes what its functions saw."""

    def leaf(lib: Any, values: Any = (1.0, 2.0)) -> Any:
        return lib.tensor(list(values), requires_grad=True)

    def noted(t: Any) -> Any:
        return None if t is None else t.tolist()

    def function(lib: Any, **methods: Any) -> Any:
        return type("F", (lib.autograd.Function,), {k: staticmethod(m) for k, m in methods.items()})

    def materialized(lib: Any, seen: list[Any]) -> Any:
        def backward(ctx: Any, *gs: Any) -> Any:
            seen.append([noted(g) for g in gs])
            return gs[0] * 2 + gs[2] * 3

        f = function(lib, forward=lambda ctx, x: (x * 2, "text", x * 3, x > 1), backward=backward)
        x = leaf(lib)
        outs = f.apply(x)
        seen.append([outs[1], outs[0].requires_grad, outs[3].requires_grad])
        outs[2].sum().backward()
        return x.grad

    def not_materialized(lib: Any, seen: list[Any]) -> Any:
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        def backward(ctx: Any, *gs: Any) -> Any:
            seen.append([noted(g) for g in gs])
            return gs[1] * 3

        x = leaf(lib)
        function(lib, forward=forward, backward=backward).apply(x)[1].sum().backward()
        return x.grad

    def non_differentiable(lib: Any, seen: list[Any]) -> Any:
        def forward(ctx: Any, x: Any) -> Any:
            a, b = x * 2, x * 3
            ctx.mark_non_differentiable(b)
            return a, b

        def backward(ctx: Any, *gs: Any) -> Any:
            seen.append([noted(g) for g in gs])
            return gs[0] * 2

        x = leaf(lib)
        a, b = function(lib, forward=forward, backward=backward).apply(x)
        seen.append([a.requires_grad, b.requires_grad, b.grad_fn is None, a.is_leaf])
        (a * b).sum().backward()
        return x.grad

    def none(lib: Any, seen: list[Any]) -> Any:
        x, y = leaf(lib), leaf(lib)
        f = function(lib, forward=lambda ctx, x, y: x * y, backward=lambda ctx, g: (None, g * 5))
        f.apply(x * 2, y).sum().backward()
        return [x.grad, y.grad]

    def extra_nones(lib: Any, seen: list[Any]) -> Any:
        x = leaf(lib)
        function(lib, forward=lambda ctx, x: x * 2, backward=lambda ctx, g: (g, None, None)).apply(x).sum().backward()
        return x.grad

    def cast_and_summed(lib: Any, seen: list[Any]) -> Any:
        x = leaf(lib)
        f = function(lib, forward=lambda ctx, x: x * 2, backward=lambda ctx, g: lib.ones(3, 2, dtype=lib.float64))
        f.apply(x).sum().backward()
        return x.grad

    def flags(lib: Any, seen: list[Any]) -> Any:
        def forward(ctx: Any, x: Any, y: Any, k: Any, z: Any) -> Any:
            seen.append([lib.is_grad_enabled(), list(ctx.needs_input_grad), x.requires_grad])
            out = x * y * k
            seen.append(out.requires_grad)
            return out

        def backward(ctx: Any, g: Any) -> Any:
            seen.append([lib.is_grad_enabled(), list(ctx.needs_input_grad), g.requires_grad])
            return g, g, None, None

        x, y = leaf(lib), lib.tensor([3.0, 4.0])
        f = function(lib, forward=forward, backward=backward)
        f.apply(x, y, 2, lib.tensor([1, 2])).sum().backward()
        lib.autograd.grad((f.apply(x, y, 2, y) ** 2).sum(), x, create_graph=True)
        with lib.no_grad():
            seen.append(f.apply(x, y, 2, None).requires_grad)
        seen.append(f.apply(y, y, 2, None).requires_grad)
        return x.grad

    def saved(lib: Any, seen: list[Any]) -> Any:
        def forward(ctx: Any, x: Any) -> Any:
            out = x * 3
            ctx.save_for_backward(x, None, out, x.exp())
            return out

        def backward(ctx: Any, g: Any) -> Any:
            x, nothing, out, e = ctx.saved_tensors
            seen.append([x.is_leaf, nothing, out.grad_fn is None, e.requires_grad])
            return g * x * out * e

        x = leaf(lib)
        f = function(lib, forward=forward, backward=backward)
        (g,) = lib.autograd.grad(f.apply(x).sum(), x, create_graph=True)
        return [g, *lib.autograd.grad(g.sum(), x)]

    def attributes(lib: Any, seen: list[Any]) -> Any:
        def forward(ctx: Any, x: Any, n: Any) -> Any:
            ctx.n, ctx.x = n, x
            return x**n

        f = function(lib, forward=forward, backward=lambda ctx, g: (g * ctx.n * ctx.x ** (ctx.n - 1), None))
        x = leaf(lib)
        f.apply(x, 3).sum().backward()
        return x.grad

    def returned_input(lib: Any, seen: list[Any]) -> Any:
        x = leaf(lib)
        f = function(lib, forward=lambda ctx, x: x, backward=lambda ctx, g: -g)
        y = f.apply(x)
        seen.append([y is x, y.is_leaf])
        (y * 2).sum().backward()
        return [x.grad, y]

    def dirty(lib: Any, seen: list[Any]) -> Any:
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(2)
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x

        f = function(lib, forward=forward, backward=lambda ctx, g: g * 2 * ctx.saved_tensors[0])
        x = leaf(lib)
        y = x * 3
        z = f.apply(y)
        seen.append([z is y, y._version])
        (y * y).sum().backward()
        return [x.grad, y]

    def hooks_around(lib: Any, seen: list[Any]) -> Any:
        f = function(lib, forward=lambda ctx, x: (x * 2, x * 3), backward=lambda ctx, a, b: a * 2 + b * 3)
        x = leaf(lib)
        a, b = f.apply(x)
        b.register_hook(lambda g: g * 10)
        a.grad_fn.register_prehook(lambda gs: seen.append(["before", [noted(g) for g in gs]]))
        b.grad_fn.register_hook(lambda gi, go: seen.append(["after", noted(gi[0]), [noted(g) for g in go]]))
        b.retain_grad()
        b.sum().backward()
        return [x.grad, b.grad]

    def twice_used(lib: Any, seen: list[Any]) -> Any:
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            seen.append([noted(g), noted(h)])
            return g * h, g + h

        f = function(lib, forward=lambda ctx, x, y: (x + y, x - y), backward=backward)
        x = leaf(lib)
        a, b = f.apply(x, x)
        (a * a * 3 + b).sum().backward()
        return x.grad

    def keywords(lib: Any, seen: list[Any]) -> Any:
        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            seen.append([len(inputs), inputs[1], output.requires_grad])
            ctx.k = inputs[1]

        f = function(lib, forward=lambda x, k=3: x * k, setup_context=setup, backward=lambda ctx, g: (g * ctx.k, None))
        x = leaf(lib)
        (f.apply(x) + f.apply(k=5, x=x)).sum().backward()
        return x.grad

    def vjp_name(lib: Any, seen: list[Any]) -> Any:
        x = leaf(lib)
        function(lib, forward=lambda ctx, x: x * 2, vjp=lambda ctx, g: g * 7).apply(x).sum().backward()
        return x.grad

    def a_penalty(lib: Any, seen: list[Any]) -> Any:
        f = function(
            lib,
            forward=lambda ctx, x: (ctx.save_for_backward(x), x.sin())[1],
            backward=lambda ctx, g: g * ctx.saved_tensors[0].cos(),
        )
        x, w = leaf(lib), leaf(lib, (0.3, 0.7))
        (g,) = lib.autograd.grad((f.apply(x * w) * w).sum(), x, create_graph=True)
        ((g - 1) ** 2).sum().backward()
        return [x.grad, w.grad]

    return {name: f for name, f in locals().items() if name not in ("leaf", "noted", "function")}


def plainly(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [plainly(v) for v in value]
    return value.detach().tolist() if hasattr(value, "detach") else value


@pytest.mark.parametrize("name", cases())
def test_as_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    program = cases()[name]
    theirs: list[Any] = []
    ours: list[Any] = []
    wanted, found = plainly(program(torch, theirs)), plainly(program(tx, ours))
    assert ours == theirs
    np.testing.assert_equal(np.array(found, object).shape, np.array(wanted, object).shape)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)


# -- what is refused -----------------------------------------------------------------------------------


def made(**methods: Any) -> Any:
    return type("F", (Function,), {k: staticmethod(m) for k, m in methods.items()})


def double(ctx: Any, x: Any, *others: Any) -> Any:
    return x * 2


@pytest.mark.parametrize(
    ("backward", "args", "error", "match"),
    [
        (lambda ctx, g: g, (2.0,), tx.AutogradError, "2 in all, got 1"),
        (lambda ctx, g: (g, g), (), tx.AutogradError, "1 in all, got 2"),
        (lambda ctx, g: (g, g), (2.0,), tx.AutogradError, "argument 1, which is no Tensor"),
        (lambda ctx, g: tx.ones(3), (), tx.ShapeMismatchError, r"argument 0.*expected \[2\], got \[3\]"),
        (lambda ctx, g: tx.ones(1), (), tx.ShapeMismatchError, r"expected \[2\], got \[1\]"),
        (lambda ctx, g: 3.0, (), TypeError, "gradient 0 is float 3.0"),
        (lambda ctx, g: [g], (), TypeError, "gradient 0 is list"),
    ],
)
def test_wrong_gradients(backward: Any, args: Any, error: Any, match: str) -> None:
    x = tx.tensor([1.0, 2.0], requires_grad=True)
    y = tx.tensor([1.0, 2.0], requires_grad=True)
    f = made(forward=double, backward=backward)
    with pytest.raises(error, match=rf"\[function\(F\)\].*{match}") as caught:
        (f.apply(x, *args) + y).sum().backward()
    assert isinstance(caught.value, tx.TorshError)
    assert x.grad is None
    assert y.grad is None
    with pytest.raises(error, match=match):  # JAX says the same
        jax.grad(lambda a: f.apply(tx.as_tensor(a), *args).sum().jax())(jnp.array([1.0, 2.0]))
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_what_is_missing_is_named() -> None:
    x = tx.tensor([1.0], requires_grad=True)
    with pytest.raises(tx.AutogradError, match=r"F.*must define forward"):
        made().apply(x)
    y = made(forward=double).apply(x)
    with pytest.raises(tx.AutogradError, match=r"function\(F\)\] cannot be differentiated: F defines no backward"):
        y.backward()
    with pytest.raises(tx.AutogradError, match=r"function\(F\)\].*no backward"):
        jax.grad(lambda a: made(forward=double).apply(tx.as_tensor(a)).jax())(1.0)
    with pytest.raises(tx.AutogradError, match="not instantiated"):
        Cube()
    with pytest.raises(tx.AutogradError, match="two names for one thing"):
        made(forward=double, backward=double, vjp=double).apply(x)
    with pytest.raises(tx.AutogradError, match="needs setup_context"):
        made(forward=double, vmap=double).apply(x)
    with pytest.raises(TypeError, match=r"does not take these arguments.*missing"):
        Scaled.apply(x)


@pytest.mark.parametrize(
    ("mark", "match"),
    [
        (lambda ctx, x: ctx.save_for_backward(3), "save_for_backward.*argument 0 is int 3"),
        (lambda ctx, x: ctx.save_for_forward(x, "s"), "save_for_forward.*argument 1 is str 's'"),
        (lambda ctx, x: ctx.mark_dirty(None), "mark_dirty.*NoneType"),
        (lambda ctx, x: ctx.mark_non_differentiable(2.0), "mark_non_differentiable.*float"),
        (lambda ctx, x: ctx.set_materialize_grads(1), "set_materialize_grads.*True or False, got int 1"),
    ],
)
def test_wrong_marks(mark: Any, match: str) -> None:
    x = tx.tensor([1.0], requires_grad=True)
    with pytest.raises(TypeError, match=match):
        made(forward=lambda ctx, x: (mark(ctx, x), x * 2)[1], backward=lambda ctx, g: g).apply(x)


def test_impossible_writes_leave_everything_as_it_was() -> None:
    def forward(ctx: Any, x: Any, back: bool = True) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x if back else x * 1

    f = made(forward=forward, backward=lambda ctx, g: (g * 2, None))
    x = tx.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(tx.AutogradError, match="a leaf that requires grad"):
        f.apply(x, True)
    assert x.tolist() == [1.0, 2.0]
    y = x * 1
    with pytest.raises(tx.AutogradError, match="marked dirty must be returned"):
        f.apply(y, False)
    assert y.tolist() == [1.0, 2.0]
    view = y[:1]
    with pytest.raises(tx.AutogradError, match="must be no view"):
        f.apply(view, True)
    assert (view.tolist(), y.tolist()) == ([1.0], [1.0, 2.0])
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_graph_is_used_once() -> None:
    x = tx.tensor([2.0], requires_grad=True)
    y = Cube.apply(x)
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [24.0]
    with pytest.raises(tx.AutogradError, match=r"function\(Cube\)\].*freed.*retain_graph"):
        y.backward()


def test_once_differentiable() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * g

    def f(x: Any) -> Any:
        return (Once.apply(x) ** 2).sum()

    x = tx.tensor([1.0, 2.0], requires_grad=True)
    f(x).backward()
    assert x.grad.tolist() == [4.0, 32.0]
    (g,) = tx.autograd.grad(f(x), x, create_graph=True)
    with pytest.raises(tx.AutogradError, match=r"once_differentiable.*second time"):
        g.sum().backward()
    (g,) = tx.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    assert not g.requires_grad  # as in PyTorch: the incoming gradient is a constant
    a = jnp.array([1.0, 2.0])
    assert jax.grad(on_arrays(f))(a).tolist() == [4.0, 32.0]
    assert jax.jvp(on_arrays(f), (a,), (a,))[1].tolist() == 68.0
    for order in (jax.hessian, lambda f: jax.jacrev(jax.grad(f)), lambda f: jax.jacfwd(jax.jacfwd(f))):
        with pytest.raises(tx.AutogradError, match="once_differentiable"):
            order(on_arrays(f))(a)
    with pytest.raises(TypeError, match="decorates a function"):
        once_differentiable(3)


def test_forward_mode_of_a_nonlinear_backward_needs_a_jvp() -> None:
    f = made(forward=double, backward=lambda ctx, g: g.clamp(-1, 1))
    with pytest.raises(tx.AutogradError, match=r"function\(F\)\] forward mode needs a jvp"):
        tx.jvp(f.apply, (tx.ones(2),), (tx.ones(2),))


def test_jvp_is_what_forward_mode_runs() -> None:
    ran: list[str] = []
    g = made(
        forward=lambda x: (x * 2, x * 3),
        setup_context=lambda ctx, inputs, output: None,
        backward=lambda ctx, a, b: (ran.append("backward"), a)[1],
        jvp=lambda ctx, t: (ran.append("jvp"), (t * 100, None))[1],
    )
    _, tangent = tx.jvp(g.apply, (tx.ones(2),), (tx.ones(2),))
    assert [t.tolist() for t in tangent] == [[100.0, 100.0], [0.0, 0.0]]
    assert set(ran) == {"jvp"}
    for wrong, error, match in [
        (lambda ctx, t: t, tx.AutogradError, "one tangent per result.*2 in all, got 1"),
        (lambda ctx, t: (t, 3), TypeError, "tangent 1 is int"),
        (lambda ctx, t: (t, tx.ones(5)), tx.ShapeMismatchError, r"expected \[2\], got \[5\]"),
    ]:
        g.jvp = staticmethod(wrong)
        with pytest.raises(error, match=match):
            tx.jvp(g.apply, (tx.ones(2),), (tx.ones(2),))


# -- vmap ------------------------------------------------------------------------------------------------


class HostSort(Function):
    """A forward that only NumPy can do, with a batching of its own."""

    calls: list[str]

    @staticmethod
    def forward(x: Any, axis: int) -> Any:
        HostSort.calls.append("forward")
        host = x.detach().numpy()
        order = np.argsort(host, axis)
        return tx.tensor(np.take_along_axis(host, order, axis)), tx.tensor(np.argsort(order, axis))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.axis = inputs[1]
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        (back,) = ctx.saved_tensors
        return tx.take_along_dim(g, back, ctx.axis), None

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, axis: int) -> Any:
        HostSort.calls.append(f"vmap {info.batch_size} {in_dims}")
        assert info.randomness == "error"
        (at, _) = in_dims
        x = x.permute(at, *[k for k in range(x.ndim) if k != at])
        return HostSort.apply(x, axis if axis < 0 else axis + 1), (0, 0)


def test_vmap_of_the_users_own() -> None:
    HostSort.calls = []
    batch = jnp.array([[3.0, 1.0, 2.0], [5.0, 6.0, 4.0]])
    weights = tx.tensor([1.0, 10.0, 100.0])

    def f(a: Any) -> Any:
        return (HostSort.apply(tx.as_tensor(a), 0)[0] * weights).sum().jax()

    assert jax.vmap(f)(batch).tolist() == [321.0, 654.0]
    assert jax.vmap(f, in_axes=1)(batch.T).tolist() == [321.0, 654.0]
    assert HostSort.calls == ["vmap 2 (0, None)", "forward", "vmap 2 (1, None)", "forward"]
    wanted = [[100.0, 1.0, 10.0], [10.0, 100.0, 1.0]]
    assert jax.grad(lambda b: jax.vmap(f)(b).sum())(batch).tolist() == wanted
    assert jax.grad(f)(batch[0]).tolist() == wanted[0]
    assert jax.vmap(jax.grad(f))(batch).tolist() == wanted
    x = tx.tensor([3.0, 1.0, 2.0], requires_grad=True)
    (HostSort.apply(x, 0)[0] * weights).sum().backward()
    assert x.grad.tolist() == wanted[0]
    with pytest.raises(tx.AutogradError, match=r"a value was read inside jax\.jit"):
        jax.jit(f)(batch[0])


@pytest.mark.parametrize(
    ("vmap", "match"),
    [
        (lambda info, in_dims, x: x, "results and where each"),
        (lambda info, in_dims, x: (x, (0, 0)), "one batch axis"),
        (lambda info, in_dims, x: (x, "0"), "one batch axis"),
        (lambda info, in_dims, x: (3, 0), "must return Tensors, got int 3"),
    ],
)
def test_wrong_vmap(vmap: Any, match: str) -> None:
    f = made(forward=lambda x: x * 2, setup_context=lambda ctx, i, o: None, backward=lambda ctx, g: g, vmap=vmap)
    with pytest.raises(TypeError, match=rf"function\(F\)\] vmap.*{match}"):
        tx.vmap(f.apply)(tx.ones(2, 3))


def test_generate_vmap_rule_and_unmapped_arguments() -> None:
    f = type("G", (Scaled,), {"generate_vmap_rule": True})
    x, y = jnp.array([0.5, 1.0]), jnp.float32(2.0)

    def loss(x: Any, y: Any) -> Any:
        return jax.vmap(lambda a: f.apply(tx.as_tensor(a), tx.as_tensor(y), 3.0).jax())(x).sum()

    np.testing.assert_allclose(jax.grad(loss, 1)(x, y), jnp.sin(3 * x).sum(), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(loss, 0)(x, y), 3 * jnp.cos(3 * x) * y, rtol=1e-6)
    with pytest.raises(tx.AutogradError, match="not both"):
        type("H", (HostSort,), {"generate_vmap_rule": True}).apply(tx.ones(2), 0)


# -- graphs, memory, values --------------------------------------------------------------------------------


def test_values_are_those_that_were_used() -> None:
    x = tx.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    z = Cube.apply(y)
    with tx.no_grad():
        y.mul_(100)
    z.sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_a_dropped_call_is_freed() -> None:
    x = tx.tensor([1.0, 2.0], requires_grad=True)
    gc.disable()
    try:
        y = Cube.apply(x * 2)
        vertex = weakref.ref(y._edge.joint)
        y.sum().backward()
        del y
        assert vertex() is None
    finally:
        gc.enable()


def test_a_numpy_forward_works_in_a_plain_loop() -> None:
    class Host(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            host = x.detach().numpy()
            ctx.save_for_backward(tx.tensor(np.cos(host)))
            return tx.tensor(np.sin(host))

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return tx.tensor(ctx.saved_tensors[0].numpy() * g.numpy())

    for _ in range(3):
        x = tx.tensor([0.5, 1.0], requires_grad=True)
        (Host.apply(x * 2) * 3).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 6 * np.cos([1.0, 2.0]), rtol=1e-6)


def test_a_loop_that_differentiates_through_its_past() -> None:
    x = tx.tensor([0.1, 0.2], requires_grad=True)
    h, a = x, jnp.array([0.1, 0.2])

    def plain_loop(a: Any) -> Any:
        h = a
        for _ in range(3):
            h = h + h**3
        return h.sum()

    for _ in range(3):
        h = h + Cube.apply(h)
        h.tolist()  # a program of its own
    h.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), jax.grad(plain_loop)(a), rtol=1e-6)


def test_a_tape_follows_what_ctx_holds() -> None:
    class Held(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.pair = {"x": x, "parts": [y.exp(), 2.0]}
            return x * y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            e, two = ctx.pair["parts"]
            return g * e * two, g * ctx.pair["x"]

    tape = tx.record(lambda x, y: Held.apply(x, y).sum())(tx.tensor([1.0]), tx.tensor([0.0]))
    gx, gy = jax.grad(tape.as_jax(), (0, 1))(jnp.array([5.0]), jnp.array([1.0]))
    np.testing.assert_allclose([*gx, *gy], [2 * np.e, 5.0], rtol=1e-6)


def test_what_a_backward_reaches_is_that_of_the_replay() -> None:
    def f(x: Any) -> Any:
        scale = x.exp()
        double_ = made(forward=lambda ctx, x: x * 2, backward=lambda ctx, g: g * scale)
        return double_.apply(x).sum()

    a = jnp.array([0.5, 1.0])
    tape = tx.record(f)(tx.tensor([0.0, 0.0]))
    for g in (jax.grad(tape.as_jax()), jax.jit(jax.grad(on_arrays(f))), lambda a: tx.grad(f)(tx.tensor(a)).jax()):
        np.testing.assert_allclose(g(a), jnp.exp(a), rtol=1e-6)


def test_inside_a_trace_and_a_tape_at_once() -> None:
    def f(a: Any) -> Any:
        tape = tx.record(lambda x: Wrong.apply(x).sum())(tx.as_tensor(a))
        return tape.as_jax()(a * 2)

    assert jax.grad(f)(jnp.array([1.0])).tolist() == [40.0]


def test_no_grad_makes_constants_everywhere() -> None:
    def f(x: Any) -> Any:
        with tx.no_grad():
            y = Wrong.apply(x)
        return (y * x).sum()

    assert tx.grad(f)(tx.tensor([3.0])).tolist() == [6.0]
    assert jax.grad(on_arrays(f))(jnp.array([3.0])).tolist() == [6.0]
    assert jax.grad(tx.record(f)(tx.tensor([1.0])).as_jax())(jnp.array([3.0])).tolist() == [6.0]


# -- custom_op ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["vjp", "jvp", "both"])
def test_custom_op_derivatives(which: str) -> None:
    ran: list[str] = []
    op = tx.custom_op("mixed", lambda x, n, y: x**3 * y * n)

    def back(g: Any, x: Any, n: Any, y: Any) -> Any:
        ran.append("vjp")
        return 3 * x**2 * y * n * g, None, x**3 * n * g

    def forth(operands: Any, tangents: Any) -> Any:
        ran.append("jvp")
        (x, n, y), (tx_, tn, ty) = operands, tangents
        assert tn is None
        return 3 * x**2 * y * n * tx_ + x**3 * n * ty

    if which != "jvp":
        op.register_vjp(back)
    if which != "vjp":
        op.register_jvp(forth)
    n = tx.tensor([2, 3])

    def f(x: Any, y: Any) -> Any:
        return op(x, n, y).sum()

    def plain(x: Any, y: Any) -> Any:
        return (x**3 * y * jnp.array([2, 3])).sum()

    a, b = jnp.array([1.5, -2.0]), jnp.array([0.5, 3.0])
    x, y = tx.tensor(a, requires_grad=True), tx.tensor(b, requires_grad=True)
    f(x, y).backward()
    wanted = jax.grad(plain, (0, 1))(a, b)
    np.testing.assert_allclose([x.grad.numpy(), y.grad.numpy()], wanted, rtol=1e-6)
    assert set(ran) == {"jvp" if which == "jvp" else "vjp"}
    ran.clear()
    out = tx.jvp(f, (x.detach(), y.detach()), (tx.ones(2), tx.ones(2)))[1]
    np.testing.assert_allclose(out.item(), jax.jvp(plain, (a, b), (jnp.ones(2), jnp.ones(2)))[1], rtol=1e-6)
    assert set(ran) == {"vjp" if which == "vjp" else "jvp"}
    np.testing.assert_allclose(tx.grad(f)(x.detach(), y.detach()).numpy(), wanted[0], rtol=1e-6)
    tape = tx.record(f)(x.detach(), y.detach())
    np.testing.assert_allclose(jax.hessian(tape.as_jax())(a, b), jax.hessian(plain)(a, b), rtol=1e-5, atol=1e-5)
    batched = jax.vmap(jax.grad(tape.as_jax()))(jnp.stack([a, b]), jnp.stack([b, a]))
    np.testing.assert_allclose(batched, jax.vmap(jax.grad(plain))(jnp.stack([a, b]), jnp.stack([b, a])), rtol=1e-5)


def test_a_jvp_of_the_wrong_shape_and_a_second_one() -> None:
    op = tx.custom_op("odd", lambda x: x * 2)
    op.register_jvp(lambda operands, tangents: jnp.ones(7))
    with pytest.raises(tx.ShapeMismatchError, match=r"custom\(odd\).*expected \[2\], got \[7\]"):
        tx.jvp(op, (tx.ones(2),), (tx.ones(2),))
    with pytest.raises(tx.AutogradError, match="already has a derivative"):
        op.register_jvp(lambda operands, tangents: tangents[0])
