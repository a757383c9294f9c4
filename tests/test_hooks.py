"""Hooks: when they run, in which order, what they may change; PyTorch is the oracle for all of it."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx
from tolerances import close
from torsh_fx.hooking import hooked
from torsh_fx.stats import counts

saved_tensors_hooks = tx.autograd.graph.saved_tensors_hooks


def noted(x: Any) -> Any:
    if x is None or isinstance(x, (str, bool, int)):
        return x
    return [noted(y) for y in x] if isinstance(x, (tuple, list)) else np.round(x.detach().numpy(), 4).tolist()


def leaf(lib: Any, values: Any = (1.0, 2.0)) -> Any:
    return lib.tensor(list(values), requires_grad=True)


# -- PyTorch as the oracle ------------------------------------------------------------------------


def order(lib: Any, see: Callable[..., Any]) -> Any:
    x, w = leaf(lib), leaf(lib, (3.0, 4.0))
    y = x * w
    y.retain_grad()
    y.register_hook(lambda g: see("y first", g))
    y.grad_fn.register_prehook(lambda gs: (see("y before", gs), (gs[0] * 3,))[1])
    y.grad_fn.register_hook(lambda gi, go: see("y after", gi, go))
    y.register_hook(lambda g: (see("y second", g), g * 2)[1])
    y.register_hook(lambda g: see("retained?", y.grad is None, g))
    x.register_hook(lambda g: see("x", g))
    w.register_hook(lambda g: see("w", g))
    q, r = y.exp(), y * 3
    q.register_hook(lambda g: see("q", g))
    r.register_hook(lambda g: see("r", g))
    (q + r).sum().backward()
    return [x.grad, w.grad, y.grad]


def accumulation(lib: Any, see: Callable[..., Any]) -> Any:
    x = leaf(lib)
    acc = (x * 1).grad_fn.next_functions[0][0]
    acc.register_prehook(lambda gs: (see("before", gs), (gs[0] * 2,))[1])
    acc.register_hook(lambda gi, go: see("after", gi, go))
    x.register_post_accumulate_grad_hook(lambda p: see("stored", p is x, p.grad))
    x.register_hook(lambda g: (see("hook", g), g * 10)[1])
    for _ in range(2):
        (x * 3).sum().backward()
    return x.grad


def replaced(lib: Any, see: Callable[..., Any]) -> Any:
    x = leaf(lib)
    y = x * x
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 2, None))
    z = y * 3
    z.register_hook(lambda g: g + 1)
    z.sum().backward()
    return x.grad


def in_place_on_the_gradient(lib: Any, see: Callable[..., Any]) -> Any:
    x = leaf(lib)
    y = x * 2

    def zero(g: Any) -> None:
        g.mul_(0.5)

    y.register_hook(zero)
    y.register_hook(lambda g: see("then", g))
    (y * 4).sum().backward()
    return x.grad


def on_leaves_with_create_graph(lib: Any, see: Callable[..., Any]) -> Any:
    x = leaf(lib)
    x.register_hook(lambda g: (see(lib.is_grad_enabled(), g.requires_grad, g), g * x)[1])
    (g,) = lib.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()
    return [g, x.grad]


def a_hook_with_a_parameter(lib: Any, see: Callable[..., Any]) -> Any:
    x, w = leaf(lib), leaf(lib, (5.0, 7.0))
    y = x * x
    y.register_hook(lambda g: g * w)
    (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    y = x * x
    y.register_hook(lambda g: w)
    y.sum().backward()
    return [g, x.grad, w.grad, x.grad.requires_grad]


def grad_of_intermediates(lib: Any, see: Callable[..., Any]) -> Any:
    x = leaf(lib)
    y = x * 2
    y.register_hook(lambda g: (see("y", g), g * 10)[1])
    x.register_hook(lambda g: (see("x", g), g * 100)[1])
    x.register_post_accumulate_grad_hook(lambda p: see("never"))
    z = (y * y).sum()
    found = [lib.autograd.grad(z, t, retain_graph=True) for t in ([y], [y, x], [x])]
    return found


def written_in_place(lib: Any, see: Callable[..., Any]) -> Any:
    x = leaf(lib)
    y = x * 2
    y.register_hook(lambda g: see("old", g))
    y.retain_grad()
    y.mul_(3)
    y.register_hook(lambda g: see("new", g))
    y.sum().backward()
    with lib.no_grad():
        x.mul_(2)
    x.register_hook(lambda g: see("leaf", g))
    with lib.no_grad():
        x.mul_(2)
    (x * x).sum().backward()
    return [x.grad, y.grad]


def a_view_of_what_is_written(lib: Any, see: Callable[..., Any]) -> Any:
    x = leaf(lib)
    base = x * 2
    view = base[:1]
    view.register_hook(lambda g: see("old view", g))
    base.register_hook(lambda g: see("old base", g))
    base.mul_(3)
    (base.sum() + view.sum()).backward()
    return x.grad


def switched_flags(lib: Any, see: Callable[..., Any]) -> Any:
    x = leaf(lib)
    x.register_hook(lambda g: see("hook", g))
    x.requires_grad_(False)
    x.requires_grad_(True)
    (x * 2).sum().backward()
    return x.grad


def handles(lib: Any, see: Callable[..., Any]) -> Any:
    x = leaf(lib)
    first = x.register_hook(lambda g: see("first", g))
    second = x.register_hook(lambda g: (see("second"), third.remove())[0])
    third = x.register_hook(lambda g: see("third"))
    with x.register_hook(lambda g: g * 7) as inner:
        (x * 2).sum().backward()
    (x * 2).sum().backward()
    for handle in (first, first, second, third, inner):
        handle.remove()
    (x * 2).sum().backward()
    return x.grad


def the_root_and_a_leaf_root(lib: Any, see: Callable[..., Any]) -> Any:
    x = leaf(lib)
    y = (x * 2).sum()
    y.register_hook(lambda g: (see("root", g), g * 5)[1])
    y.backward()
    z = leaf(lib, (1.0,))
    z.register_hook(lambda g: g * 5)
    z.backward()
    return [x.grad, z.grad]


def a_retained_graph(lib: Any, see: Callable[..., Any]) -> Any:
    x = leaf(lib)
    y = x * 2
    y.register_hook(lambda g: see("y", g))
    z = (y * y).sum()
    z.backward(retain_graph=True)
    z.backward()
    return x.grad


def updates_in_the_backward(lib: Any, see: Callable[..., Any]) -> Any:
    ws = [leaf(lib), leaf(lib, (3.0, 4.0))]

    def update(w: Any) -> None:
        see(lib.is_grad_enabled())
        with lib.no_grad():
            w.sub_(w.grad * 0.1)
        w.grad = None

    for w in ws:
        w.register_post_accumulate_grad_hook(update)
    for _ in range(3):
        (ws[0] * ws[1]).sum().backward()
    return ws


def several_roots(lib: Any, see: Callable[..., Any]) -> Any:
    x = leaf(lib)
    x.register_hook(lambda g: see("x", g))
    y = x * 2
    y.register_hook(lambda g: (see("y", g), g * 10)[1])
    lib.autograd.backward([y.sum(), (y * y).sum(), y.sum()])
    return x.grad


def some_inputs(lib: Any, see: Callable[..., Any]) -> Any:
    x, w = leaf(lib), leaf(lib, (3.0, 4.0))
    for name, t in (("x", x), ("w", w)):
        t.register_hook(lambda g, name=name: (see(name, g), g * 10)[1])
        t.register_post_accumulate_grad_hook(lambda p, name=name: see("stored", name, p.grad))
    y = x * w
    y.register_hook(lambda g: see("y", g))
    y.sum().backward(inputs=[x])
    return [x.grad, w.grad is None]


def a_seed_with_a_history(lib: Any, see: Callable[..., Any]) -> Any:
    x, t = leaf(lib), leaf(lib, (3.0, 4.0))
    x.register_hook(lambda g: see(g))
    x.backward(t * 2)
    (x * 3).backward(t * 2, create_graph=True)
    return [x.grad, x.grad.requires_grad]


CASES = [
    several_roots,
    some_inputs,
    a_seed_with_a_history,
    order,
    accumulation,
    replaced,
    in_place_on_the_gradient,
    on_leaves_with_create_graph,
    a_hook_with_a_parameter,
    grad_of_intermediates,
    written_in_place,
    a_view_of_what_is_written,
    switched_flags,
    handles,
    the_root_and_a_leaf_root,
    a_retained_graph,
    updates_in_the_backward,
]


def run(program: Callable[..., Any], lib: Any) -> tuple[Any, list[Any]]:
    seen: list[Any] = []

    def see(*what: Any) -> None:
        seen.append(noted(what))

    return noted(program(lib, see)), seen


@pytest.mark.parametrize("program", CASES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("mode", ["recorded", "eager"])
def test_as_pytorch(program: Any, mode: str) -> None:
    torch = pytest.importorskip("torch")
    wanted = run(program, torch)
    with tx.eager() if mode == "eager" else tx.enable_grad():
        found = run(program, tx)
    assert found[1] == wanted[1]
    for a, b in zip(jax.tree.leaves(found[0]), jax.tree.leaves(wanted[0]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)


@pytest.mark.parametrize("seed", range(25))
def test_the_order_in_random_graphs_is_pytorchs(seed: int) -> None:
    torch = pytest.importorskip("torch")

    def program(lib: Any, see: Callable[..., Any]) -> Any:
        dice = random.Random(seed)
        leaves = [leaf(lib, (0.1 * k + 0.5, 0.3)) for k in range(4)]
        pool = list(leaves)
        for k, t in enumerate(leaves):
            t.register_hook(lambda g, k=k: see("leaf", k, g))
        for k in range(14):
            a, b = dice.choice(pool), dice.choice(pool[-6:])
            t = {"add": a + b, "mul": a * b, "sin": (a * 0.5).sin()}[dice.choice(["add", "mul", "sin"])]
            if dice.random() < 0.7:
                t.register_hook(lambda g, k=k: (see("op", k, g), g * 0.9)[1])
            pool.append(t)
        sum(t.sum() for t in pool[-3:]).backward()
        return [t.grad for t in leaves]

    found, wanted = run(program, tx), run(program, torch)
    assert [s[:2] for s in found[1]] == [s[:2] for s in wanted[1]]
    for a, b in zip(jax.tree.leaves((found[0], found[1])), jax.tree.leaves((wanted[0], wanted[1])), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-4) if not isinstance(a, str) else None


# -- refused ------------------------------------------------------------------------------------------


def test_what_cannot_have_hooks() -> None:
    t = tx.ones(2)
    x = tx.ones(2, requires_grad=True)
    with pytest.raises(tx.AutogradError, match=r"register_hook.*does not require grad"):
        t.register_hook(print)
    with pytest.raises(tx.AutogradError, match=r"register_post_accumulate_grad_hook.*does not require grad"):
        t.register_post_accumulate_grad_hook(print)
    with pytest.raises(tx.AutogradError, match=r"register_post_accumulate_grad_hook.*no leaf"):
        (x * 2).register_post_accumulate_grad_hook(print)
    for register in (x.register_hook, x.register_post_accumulate_grad_hook, (x * 2).grad_fn.register_hook):
        with pytest.raises(TypeError, match="must be a function, got int 3"):
            register(3)
    assert not hooked or x._slot not in hooked


@pytest.mark.parametrize(
    ("hook", "error", "match"),
    [
        (lambda g: 3, TypeError, "Tensor or None, got int 3"),
        (lambda g: (g,), TypeError, "Tensor or None, got tuple"),
        (lambda g: tx.ones(3), tx.ShapeMismatchError, r"expected \[2\], got \[3\]"),
        (lambda g: g.double(), TypeError, "same dtype float32, got float64"),
        (lambda g: {}["lost"], KeyError, "lost"),
    ],
)
def test_a_hook_that_fails_leaves_nothing_behind(hook: Any, error: Any, match: str) -> None:
    x, w = leaf(tx), leaf(tx)
    y = x * 2
    handle = y.register_hook(hook)
    loss = (y * w).sum()
    with pytest.raises(error, match=match):
        loss.backward()
    assert (x.grad, w.grad) == (None, None)
    handle.remove()
    loss.backward()
    assert x.grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("kind", "hook", "error", "match"),
    [
        ("register_prehook", lambda gs: gs[0], TypeError, "a tuple or None, got Tensor"),
        ("register_prehook", lambda gs: (gs[0], gs[0]), ValueError, r"1 gradient\(s\), got 2"),
        ("register_prehook", lambda gs: (tx.ones(3),), tx.ShapeMismatchError, "same shape"),
        ("register_hook", lambda gi, go: gi[0], TypeError, "a tuple or None, got Tensor"),
        ("register_hook", lambda gi, go: (), ValueError, r"1 gradient\(s\), got 0"),
    ],
)
def test_hooks_of_ops_that_fail(kind: str, hook: Any, error: Any, match: str) -> None:
    x = leaf(tx)
    y = x * 2
    getattr(y.grad_fn, kind)(hook)
    with pytest.raises(error, match=match):
        y.sum().backward()
    assert x.grad is None


def test_a_hook_after_the_accumulation_returns_nothing() -> None:
    x = leaf(tx)
    x.register_post_accumulate_grad_hook(lambda p: 3)
    with pytest.raises(TypeError, match="returns None, this one returned int 3"):
        (x * 2).sum().backward()


def test_a_gradient_of_none_goes_nowhere() -> None:
    x, w = leaf(tx), leaf(tx)
    y = x * 2
    y.grad_fn.register_prehook(lambda gs: (None,))
    y.register_hook(lambda g: None)
    (y * w).sum().backward()
    assert x.grad is None
    assert w.grad.tolist() == [2.0, 4.0]


# -- programs ---------------------------------------------------------------------------------------------


def step_of(kind: str, calls: list[int]) -> Callable[[], None]:
    w = tx.tensor([[1.0, 0.5], [0.25, 1.0]], requires_grad=True)

    def halve(g: Any) -> Any:
        calls.append(1)
        return g * 0.5

    def update(p: Any) -> None:
        calls.append(1)
        with tx.no_grad():
            p.sub_(p.grad * 0.01)
        p.grad = None

    if kind == "leaf":
        w.register_hook(halve)
    if kind == "accumulated":
        w.register_post_accumulate_grad_hook(update)

    def step() -> None:
        h = (w @ w).tanh()
        if kind == "intermediate":
            h.register_hook(halve)
        if kind == "op":
            h.grad_fn.register_hook(lambda gi, go: (halve(gi[0]),))
        (h * h).sum().backward()
        if kind != "accumulated":
            with tx.no_grad():
                w.sub_(0.01 * w.grad)
            w.grad = None

    step.w = w  # type: ignore[attr-defined]
    return step


@pytest.mark.parametrize("kind", ["leaf", "intermediate", "op", "accumulated"])
def test_a_hook_runs_each_step_and_stays_in_the_one_program(kind: str) -> None:
    calls: list[int] = []
    step = step_of(kind, calls)
    for _ in range(3):
        step()
    before = dict(counts)
    for _ in range(5):
        step()
    assert len(calls) == 8
    assert counts["programs run"] - before["programs run"] == 5
    assert counts["xla programs compiled"] == before["xla programs compiled"]


def test_a_hook_that_reads_is_right_too() -> None:
    x = leaf(tx)
    seen = []
    for _ in range(3):
        y = x * 3
        y.register_hook(lambda g: (seen.append(g.tolist()), g * float(g.sum()))[1])
        (y * y).sum().backward()
    assert seen == [[6.0, 12.0]] * 3
    assert x.grad.tolist() == [3 * 3 * 6.0 * 18, 3 * 3 * 12.0 * 18]


def test_loops_without_hooks_do_not_notice_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()  # of other tests: results that retain their gradient are asked for by every backward
    x, other = leaf(tx), leaf(tx)
    handle = other.register_hook(print)
    for _ in range(3):
        x.grad = None
        (x * x).sum().backward()
    monkeypatch.setattr("torsh_fx.backward.discover", None)  # known by its path: nothing is walked any more
    x.grad = None
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    handle.remove()
    assert other._slot not in hooked


# -- under transforms, in replays ---------------------------------------------------------------------------


def hooked_function(log: list[Any] | None = None) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        y = x * x
        y.register_hook(lambda g: (log.append(g.shape) if log is not None else None, g * x * 10)[1])
        return (y * 3).sum()

    return f


def test_tx_grad_runs_hooks() -> None:
    log: list[Any] = []
    f, x = hooked_function(log), tx.tensor([1.0, 2.0])
    wanted = [60.0, 240.0]  # 3 · 10 x · 2 x
    for _ in range(3):
        assert tx.grad(f)(x).tolist() == wanted
    assert len(log) == 3
    assert tx.grad(lambda x: tx.as_tensor(f(x).jax()))(x).tolist() == wanted  # traced
    assert tx.jit(tx.grad(f))(x).tolist() == wanted
    assert tx.value_and_grad(f)(x)[1].tolist() == wanted
    y = x.clone().requires_grad_()
    assert tx.grad(f)(y).tolist() == wanted
    tx.grad(f)(y).sum().backward()  # d/dx 60 x² with the hook in the second pass as well: it is x's consumer


def test_hooks_under_jax() -> None:
    def f(a: Any) -> Any:
        return hooked_function()(tx.as_tensor(a)).jax()

    a = jnp.array([1.0, 2.0])
    assert jax.grad(f)(a).tolist() == [60.0, 240.0]
    assert jax.jit(jax.grad(f))(a).tolist() == [60.0, 240.0]
    assert jax.grad(jax.checkpoint(f))(a).tolist() == [60.0, 240.0]
    assert jax.vmap(jax.grad(f))(jnp.stack([a, a + 1])).tolist() == [[60.0, 240.0], [240.0, 540.0]]
    assert jax.grad(lambda b: jax.vmap(f)(b).sum())(jnp.stack([a, a + 1])).tolist() == [[60.0, 240.0], [240.0, 540.0]]
    assert jax.jvp(f, (a,), (a,))[1].tolist() == 30.0  # forward mode has no gradients that a hook could see
    assert jax.jacfwd(jax.grad(f))(a).tolist() == [[120.0, 0.0], [0.0, 240.0]]


def test_hooks_on_arguments_under_jax() -> None:
    def f(a: Any) -> Any:
        x = tx.as_tensor(a)
        first = x.register_hook(lambda g: g * 10)
        x.register_hook(lambda g: g + 1)
        gone = x.register_hook(lambda g: g * 1000)
        gone.remove()
        del first
        return (x * x).sum().jax()

    assert jax.grad(f)(jnp.array([1.0, 2.0])).tolist() == [21.0, 41.0]
    assert tx.grad(lambda x: (x.register_hook(lambda g: g * 10), (x * x).sum())[1])(tx.ones(2)).tolist() == [20.0] * 2


def test_a_hook_that_comes_late_under_a_trace_is_an_error() -> None:
    def f(a: Any) -> Any:
        x = tx.as_tensor(a)
        y = x * 2
        z = y * 3
        y.register_hook(lambda g: g * 10)
        return (z + y).sum().jax()

    with pytest.raises(tx.AutogradError, match=r"register_hook.*used already"):
        jax.grad(f)(jnp.array([1.0]))


def test_a_backward_inside_a_trace_runs_hooks_once() -> None:
    def f(a: Any) -> Any:
        x = tx.as_tensor(a).requires_grad_()
        x.register_hook(lambda g: g + 1)
        y = x * x
        y.register_hook(lambda g: g * 10)
        y.sum().backward()
        return x.grad.jax()

    assert jax.jit(f)(jnp.array([1.0, 2.0])).tolist() == [21.0, 41.0]
    assert jax.vmap(f)(jnp.array([[1.0], [2.0]])).tolist() == [[21.0], [41.0]]


def test_a_replay_runs_hooks() -> None:
    f = hooked_function()
    tape = tx.record(f)(tx.tensor([0.0, 0.0]))
    a = jnp.array([1.0, 2.0])
    assert jax.grad(tape.as_jax())(a).tolist() == [60.0, 240.0]
    assert jax.jit(jax.grad(tape.as_jax()))(a).tolist() == [60.0, 240.0]
    assert tape.as_jax()(a).tolist() == f(tx.tensor([1.0, 2.0], requires_grad=True)).item()


def test_what_a_hook_reads_is_that_of_the_replay() -> None:
    mask = tx.tensor([1.0, 0.0])

    def f(x: Any) -> Any:
        scale = x.exp()
        y = x * x
        y.register_hook(lambda g: g * scale * mask + y)
        return y.sum()

    def wanted(a: Any) -> Any:
        return (jnp.exp(a) * jnp.asarray(mask.tolist()) + a * a) * 2 * a

    a = jnp.array([0.5, 2.0])
    tape = tx.record(f)(tx.tensor([0.0, 0.0]))
    for g in (
        jax.grad(tape.as_jax()),
        jax.jit(jax.grad(tape.as_jax())),
        jax.grad(lambda a: f(tx.as_tensor(a)).jax()),
        jax.jit(jax.grad(lambda a: f(tx.as_tensor(a)).jax())),
        lambda a: tx.grad(f)(tx.tensor(a)).jax(),
    ):
        np.testing.assert_allclose(g(a), wanted(a), rtol=1e-6)
    np.testing.assert_allclose(jax.jacfwd(jax.grad(tape.as_jax()))(a), jax.jacfwd(wanted)(a), rtol=1e-6)


def test_what_a_hook_reads_from_outside_is_read_anew_by_a_replay() -> None:
    mask = tx.tensor([1.0, 0.0])

    def f(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: g * mask)
        return y.sum()

    tape = tx.record(f)(tx.tensor([0.0, 0.0]))
    assert jax.grad(tape.as_jax())(jnp.ones(2)).tolist() == [2.0, 0.0]
    mask.fill_(5.0)
    assert jax.grad(tape.as_jax())(jnp.ones(2)).tolist() == [10.0, 10.0]


def test_a_hook_that_reads_what_comes_later() -> None:
    def f(x: Any) -> Any:
        y = x * x
        y.register_hook(lambda g: g * later)
        later = y * 3
        return later.sum()

    x = tx.tensor([2.0], requires_grad=True)
    f(x).backward()
    assert x.grad.tolist() == [3 * 12.0 * 4]
    tape = tx.record(f)(tx.tensor([2.0]))
    assert tape.as_jax()(jnp.array([3.0])).tolist() == 27.0
    with pytest.raises(tx.AutogradError, match=r"register_hook.*computed after"):
        jax.grad(tape.as_jax())(jnp.array([3.0]))
    with pytest.raises(tx.AutogradError, match=r"register_hook.*not there yet"):
        jax.grad(lambda a: f(tx.as_tensor(a)).jax())(jnp.array([3.0]))


def test_a_replay_sees_all_uses_and_hooks_of_inputs_and_constants() -> None:
    w = tx.tensor([3.0], requires_grad=True)
    early = w.register_hook(lambda g: g * 100)

    def f(x: Any) -> Any:
        y = x * w
        z = y * 3
        y.register_hook(lambda g: g * 10)  # z uses it already: a replay knows
        return (z + y * y).sum()

    tape = tx.record(f)(tx.tensor([1.0], requires_grad=True))
    a, b = jnp.array([2.0]), jnp.array([3.0])
    gradient = jax.grad(tape.as_jax(constants=True), (0, 1))([b], a)
    assert gradient[1].tolist() == [10 * (3 + 2 * 6) * 3.0]
    assert gradient[0][0].tolist() == [100 * 10 * (3 + 2 * 6) * 2.0]
    early.remove()
    assert jax.grad(tape.as_jax(constants=True))([b], a)[0].tolist() == [10 * (3 + 2 * 6) * 2.0]


def test_a_backward_on_a_tape_is_recorded_with_its_hooks() -> None:
    def step(x: Any) -> Any:
        x = x.clone().detach().requires_grad_()
        y = x * x
        y.register_hook(lambda g: g * 10)
        (y * y).sum().backward()
        return x.grad

    tape = tx.record(step)(tx.tensor([1.0]))
    assert tape.as_jax()(jnp.array([2.0])).tolist() == [10 * 4 * 8.0]


def test_hooks_of_ops_are_refused_where_they_would_be_lost() -> None:
    x = leaf(tx)
    with tx.record(inputs=[x]), pytest.raises(tx.AutogradError, match="trace or a tape does not follow"):
        (x * 2).grad_fn.register_hook(print)

    def f(a: Any) -> Any:
        y = tx.as_tensor(a).requires_grad_() * 2
        y.grad_fn.register_prehook(print)
        return y.jax()

    with pytest.raises(tx.AutogradError, match="trace or a tape does not follow"):
        jax.jit(f)(1.0)
    tape = tx.record(lambda x: (x * 2).sum())(x)
    tape.nodes[0].hooks = None
    with tx.record(inputs=[x]) as tape:
        y = x * 2
        z = y.sum()
    y.grad_fn.register_hook(lambda gi, go: None)
    assert tape.as_jax()(jnp.array([1.0, 2.0])).item() == z.item() == 6.0
    with pytest.raises(tx.AutogradError, match="grad_fn has hooks"):
        jax.grad(tape.as_jax())(jnp.array([1.0, 2.0]))


@pytest.mark.parametrize("where", ["outside", "inside"])
def test_in_a_compiled_step(where: str) -> None:
    w = tx.tensor([1.0, 2.0], requires_grad=True)
    calls = []

    def hook(g: Any) -> Any:
        return g * 10

    if where == "outside":
        w.register_hook(lambda g: (calls.append(1), hook(g))[1])

    @tx.compile
    def step() -> Any:
        y = w * 2
        if where == "inside":
            y.register_hook(hook)
        y.sum().backward()
        g = w.grad.detach()
        w.grad = None
        return g

    for _ in range(4):
        assert step().tolist() == [20.0, 20.0]
    assert len(calls) == (4 if where == "outside" else 0)
    late = w.register_hook(lambda g: g + 1)
    assert step().tolist() == [21.0, 21.0]
    late.remove()
    assert step().tolist() == [20.0, 20.0]


def test_registered_in_a_compiled_step_for_good() -> None:
    w = tx.tensor([1.0], requires_grad=True)

    @tx.compile
    def step() -> Any:
        w.register_hook(lambda g: g * 2)
        (w * 1).sum().backward()
        g = w.grad.detach()
        w.grad = None
        return g

    assert [step().item() for _ in range(3)] == [2.0, 4.0, 8.0]


def test_in_a_checkpoint() -> None:
    calls = []

    def block(x: Any) -> Any:
        h = x * x
        h.register_hook(lambda g: (calls.append(1), g * 10)[1])
        return h * 3

    x = leaf(tx)
    tx.checkpoint(block)(x).sum().backward()
    assert x.grad.tolist() == [60.0, 120.0]
    assert calls == [1]
    x.grad = None
    tx.checkpoint(lambda x: (x.register_hook(lambda g: g * 10), x * x)[1])(x * 1).sum().backward()
    assert x.grad.tolist() == [20.0, 40.0]


# -- life times, copies --------------------------------------------------------------------------------------


def _with_a_hook_on_itself(x: Any) -> Any:
    z = x * 2
    z.register_hook(lambda g: g * z)
    z.tolist()  # no longer pending
    return z


def test_a_hook_keeps_nothing_alive() -> None:
    gc.disable()
    try:
        x = leaf(tx)
        y = x * 2
        handle = y.register_hook(lambda g: g)
        vertex, hook = weakref.ref(y._edge), weakref.ref(next(iter(y._edge.hooks.own.values())))
        y.sum().backward()
        del y
        assert vertex() is None
        assert hook() is None
        handle.remove()
        vertex = weakref.ref(_with_a_hook_on_itself(x)._edge)
    finally:
        gc.enable()
    gc.collect()
    assert vertex() is None


def test_copies_and_pickles_have_no_hooks() -> None:
    x = leaf(tx)
    x.register_hook(lambda g: g * 10)
    twin = copy.deepcopy(x)
    with pytest.warns(UserWarning, match="hooks of a tensor are not pickled"):
        data = pickle.dumps(x)
    for t in (twin, pickle.loads(data)):
        (t * 2).sum().backward()
        assert t.grad.tolist() == [2.0, 2.0]
    alias = x.detach().requires_grad_()
    (alias * 2).sum().backward()
    assert alias.grad.tolist() == [2.0, 2.0]


# -- saved tensors -----------------------------------------------------------------------------------------------


def packs(lib: Any, see: Callable[..., Any]) -> Any:
    def pack(t: Any) -> Any:
        see("pack", t, t.requires_grad, t.is_leaf)
        return t

    def unpack(t: Any) -> Any:
        see("unpack", t)
        return t

    x, y = leaf(lib), leaf(lib, (0.5, 0.25))
    with lib.autograd.graph.saved_tensors_hooks(pack, unpack):
        z = (x * y).exp() + x + (x * x) * 2 + y.tanh()
        lib.no_grad()(lambda: x * y)()
        x.detach() * 2
    (z * x).sum().backward()
    return [x.grad, y.grad]


def packs_that_change(lib: Any, see: Callable[..., Any]) -> Any:
    x = leaf(lib)
    with lib.autograd.graph.saved_tensors_hooks(lambda t: (t * 2, "note"), lambda p: p[0] + 1):
        y = x * x
        with lib.autograd.graph.saved_tensors_hooks(lambda t: t * 0, lambda t: t):
            z = y.exp()
    (z.sum() + y.sum()).backward()
    return x.grad


def packs_that_read(lib: Any, see: Callable[..., Any]) -> Any:
    x = leaf(lib)
    h = x
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy(), lambda a: lib.tensor(a)):
        for _ in range(3):
            h = h * h * 0.5
    h.sum().backward(retain_graph=True)
    h.sum().backward()
    return x.grad


def packs_twice_differentiated(lib: Any, see: Callable[..., Any]) -> Any:
    x = leaf(lib)
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t.detach() * 1, lambda t: t):
        y = (x * x * x).sum()
    (g,) = lib.autograd.grad(y, x, create_graph=True)
    g.sum().backward()
    return [g, x.grad]


def packs_of_a_function(lib: Any, see: Callable[..., Any]) -> Any:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            out = x * 3
            ctx.save_for_backward(x, out, x * 2)
            return out

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            a, b, c = ctx.saved_tensors
            return g * a * b * c

    x = leaf(lib)
    with lib.autograd.graph.saved_tensors_hooks(
        lambda t: (see("pack", t), t)[1], lambda t: (see("unpack", t), t * 2)[1]
    ):
        y = F.apply(x)
    y.sum().backward()
    return x.grad


SAVING = [packs, packs_that_change, packs_that_read, packs_twice_differentiated, packs_of_a_function]


@pytest.mark.parametrize("program", SAVING, ids=lambda f: f.__name__)
@pytest.mark.parametrize("mode", ["recorded", "eager"])
def test_saved_tensors_as_pytorch(program: Any, mode: str) -> None:
    torch = pytest.importorskip("torch")
    wanted = run(program, torch)
    with tx.eager() if mode == "eager" else tx.enable_grad():
        found = run(program, tx)
    assert sorted(map(str, found[1])) == sorted(map(str, wanted[1]))  # of a product's operands, which is first?
    for a, b in zip(jax.tree.leaves(found[0]), jax.tree.leaves(wanted[0]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)


def write_to(t: Any) -> Any:
    return t.mul_(2)


@pytest.mark.parametrize(
    ("pack", "unpack", "error", "match"),
    [
        (write_to, lambda t: t, tx.AutogradError, "must not write"),
        (lambda t: t, lambda t: 3, TypeError, "unpack must return a Tensor, got int 3"),
        (lambda t: t, lambda t: tx.ones(3), tx.ShapeMismatchError, r"expected \[2\], got \[3\]"),
        (lambda t: t, lambda t: t.double(), TypeError, "dtype.*float32, got float64"),
        (lambda t: 1 / 0, lambda t: t, ZeroDivisionError, "division"),
    ],
)
def test_wrong_packing(pack: Any, unpack: Any, error: Any, match: str) -> None:
    x = leaf(tx)

    def step() -> None:
        with saved_tensors_hooks(pack, unpack):
            y = x.exp()
        y.sum().backward()

    with pytest.raises(error, match=match):
        step()
    assert x.grad is None
    assert x.tolist() == [1.0, 2.0]
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_packing_has_no_say_under_a_trace_or_on_a_tape() -> None:
    x = leaf(tx)
    for call in (
        lambda: jax.jit(lambda a: (tx.as_tensor(a) * 2).jax())(1.0),
        lambda: tx.grad(lambda x: (x * x).sum())(tx.ones(2)),
        lambda: tx.record(lambda x: x * x)(x),
    ):
        with saved_tensors_hooks(lambda t: t, lambda t: t), pytest.raises(tx.AutogradError, match="has no say"):
            call()
    with pytest.raises(TypeError, match="pack must be a function"):
        saved_tensors_hooks(3, lambda t: t)


def test_packed_values_are_let_go_of() -> None:
    def peak(packing: bool) -> int:
        x = tx.ones(8, requires_grad=True)
        h = x
        with saved_tensors_hooks(lambda t: t.sum(), lambda s: tx.ones(8)) if packing else tx.enable_grad():
            for _ in range(5):
                h = (h * 1.5) * (h * 0.5)
        h.tolist()
        found, stack = set(), [h._edge]
        while stack:
            vertex = stack.pop()
            stack += [e for e in vertex.edges if e is not None and not e.is_leaf]
            found |= {id(n) for n in (vertex, *vertex.inputs) if n.value is not None and n.aval.shape == (8,)}
        return len(found)

    assert peak(packing=True) < peak(packing=False) / 3


def test_inputs_and_retained_results_have_gradients_behind_their_hooks() -> None:
    """``.grad`` of a result is what its hooks made of it, whoever asked; ``grad`` gives what they get."""
    torch = pytest.importorskip("torch")

    def program(lib: Any) -> list[Any]:
        a, b = (lib.tensor(v, requires_grad=True) for v in ([1.0, 2.0], [3.0, 4.0]))
        found = []
        for retained in (False, True):
            y = a * b
            if retained:
                y.retain_grad()
            y.register_hook(lambda g: g * 2)
            (y * 3).sum().backward(inputs=[y, b])
            found += [y.grad, b.grad]
        y = a * b
        y.retain_grad()
        y.register_hook(lambda g: g * 2)
        found += [*lib.autograd.grad((y * 3).sum(), [y, a]), y.grad, a.grad]
        return [None if t is None else t.tolist() for t in found]

    assert program(tx) == program(torch)
    assert program(tx)[0] == [6.0, 6.0]


def test_a_batch_of_seeds_passes_hooks_and_functions() -> None:
    torch = pytest.importorskip("torch")

    def program(lib: Any, with_hook: bool) -> list[Any]:
        class Cube(lib.autograd.Function):  # type: ignore[name-defined, misc]
            generate_vmap_rule = True

            @staticmethod
            def forward(x: Any) -> Any:
                return x**3

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                ctx.save_for_backward(*inputs)

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                (x,) = ctx.saved_tensors
                return 5 * g * x * x

        a, b = (lib.tensor(v, requires_grad=True) for v in ([1.0, 2.0], [3.0, 4.0]))
        seeds = lib.tensor([[1.0, 0.0], [0.5, 2.0], [0.0, 1.0]])
        y = a * b
        if with_hook:
            y.register_hook(lambda g: g * g)
            y = y.sin()
        else:
            y = Cube.apply(y)
        found = lib.autograd.grad(y, [a, b], seeds, is_grads_batched=True, create_graph=True)
        return [*found, *lib.autograd.grad(sum((g * g).sum() for g in found), [a, b])]

    for with_hook in (True, False):
        for mine, theirs in zip(program(tx, with_hook), program(torch, with_hook), strict=True):
            close(mine.detach().numpy(), theirs.detach().numpy())
    x = tx.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g)
    assert tx.autograd.grad(y, x, tx.zeros(0, 2), is_grads_batched=True)[0].shape == (0, 2)
    y = x * 2
    y.register_hook(lambda g: g)
    with pytest.raises(tx.AutogradError, match="input 1 is not used"):
        tx.autograd.grad(y, [x, tx.ones(2, requires_grad=True)], tx.eye(2), is_grads_batched=True)
