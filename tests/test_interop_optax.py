"""Optax's optimisers on Tensors, against the same loop in plain Optax and JAX."""

from __future__ import annotations

import builtins
import copy
import functools
import gc
import importlib
import pickle
import sys
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torsh_fx.rules import ArgumentTypeError, ArgumentValueError, AutogradError, ShapeMismatchError

import torsh_fx as tx

optax = pytest.importorskip("optax")

from torsh_fx.interop.optax import Optimizer  # noqa: E402

from torsh_fx.program import Program  # noqa: E402

RNG = np.random.default_rng(0)
INIT = {
    "w1": RNG.standard_normal((4, 8)).astype(np.float32) * 0.5,
    "b1": np.zeros(8, np.float32),
    "w2": RNG.standard_normal((8, 3)).astype(np.float32) * 0.5,
}
XS = RNG.standard_normal((20, 5, 4)).astype(np.float32)


def no_vectors(params: Any) -> Any:
    return jax.tree.map(lambda p: p.ndim > 1, params)


TRANSFORMS: dict[str, Callable[[], Any]] = {
    "sgd with momentum": lambda: optax.sgd(0.1, momentum=0.9, nesterov=True),
    "adamw": lambda: optax.adamw(1e-2, weight_decay=0.1),
    "clip and adam": lambda: optax.chain(optax.clip_by_global_norm(0.1), optax.adam(1e-2)),
    "lion": lambda: optax.lion(1e-3),
    "schedule": lambda: optax.adam(optax.warmup_cosine_decay_schedule(0.0, 1e-2, 5, 20)),
    "masked": lambda: optax.adamw(1e-2, weight_decay=0.5, mask=no_vectors),
    "two groups": lambda: optax.multi_transform(
        {"fast": optax.adam(1e-2), "still": optax.set_to_zero()}, {"w1": "fast", "b1": "still", "w2": "fast"}
    ),
    "every third step": lambda: optax.MultiSteps(optax.adam(1e-2), 3),
    "noise": lambda: optax.chain(optax.add_noise(0.1, 0.5, 0), optax.sgd(0.1)),
    "injected": lambda: optax.inject_hyperparams(optax.adamw)(learning_rate=1e-2),
}


def count(fn: Callable[[], object]) -> dict[str, int]:
    before = tx.stats()
    fn()
    return {k: v - before[k] for k, v in tx.stats().items()}


class Training:
    def __init__(self, transform: Any) -> None:
        self.params = {k: tx.tensor(v, requires_grad=True) for k, v in INIT.items()}
        self.opt = Optimizer(self.params, transform)

    def step(self, x: Any) -> Any:
        p = self.params
        loss = ((tx.tanh(x @ p["w1"] + p["b1"]) @ p["w2"]) ** 2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.detach()

    def values(self) -> dict[str, Any]:
        return {k: v.detach().numpy() for k, v in self.params.items()}


@functools.cache
def plain(name: str) -> dict[str, Any]:
    transform = TRANSFORMS[name]()
    params = {k: jnp.asarray(v) for k, v in INIT.items()}
    state = transform.init(params)

    def loss(p: Any, x: Any) -> Any:
        return ((jnp.tanh(x @ p["w1"] + p["b1"]) @ p["w2"]) ** 2).mean()

    @jax.jit
    def step(params: Any, state: Any, x: Any) -> Any:
        updates, state = transform.update(jax.grad(loss)(params, x), state, params)
        return optax.apply_updates(params, updates), state

    for x in XS:
        params, state = step(params, state, x)
    return jax.tree.map(np.asarray, params)


def assert_close(got: dict[str, Any], expected: dict[str, Any]) -> None:
    assert got.keys() == expected.keys()
    for k in got:
        np.testing.assert_allclose(got[k], expected[k], rtol=1e-4, atol=2e-6)


class TestAsPlainOptax:
    @pytest.mark.parametrize("name", TRANSFORMS)
    def test_twenty_steps_one_program_each(self, name: str):
        tx.clear_cache()
        training = Training(TRANSFORMS[name]())
        for x in XS[:2]:
            training.step(tx.tensor(x))
        got = count(lambda: [training.step(tx.tensor(x)) for x in XS[2:]])
        assert (got["programs run"], got["misses"], got["xla programs compiled"]) == (18, 0, 0)
        assert_close(training.values(), plain(name))

    @pytest.mark.parametrize("name", ["adamw", "clip and adam", "noise", "injected"])
    def test_under_compile(self, name: str):
        training = Training(TRANSFORMS[name]())
        step = tx.compile(training.step)
        for x in XS:
            assert np.isfinite(step(tx.tensor(x)).item())
        assert "recorded 2 time" in repr(step) or "recorded 1 time" in repr(step)
        assert_close(training.values(), plain(name))

    def test_eagerly(self):
        training = Training(TRANSFORMS["clip and adam"]())
        with tx.eager():
            for x in XS:
                training.step(tx.tensor(x))
        assert_close(training.values(), plain("clip and adam"))

    def test_in_float64_and_bfloat16(self):
        for dtype, tolerance in (("float64", 1e-12), ("bfloat16", 2e-2)):
            w = tx.tensor([1.0, -2.0], dtype=dtype, requires_grad=True)
            opt = Optimizer([w], optax.adam(0.1))
            with jax.enable_x64(True):
                p = jnp.asarray([1.0, -2.0], w.dtype)
                state = optax.adam(0.1).init([p])
            for _ in range(5):
                w.grad = None
                (w * w).sum().backward()
                opt.step()
                with jax.enable_x64(True):
                    updates, state = optax.adam(0.1).update([2 * p], state, [p])
                    p = optax.apply_updates([p], updates)[0]
            assert w.dtype.name == dtype
            got, expected = w.detach().numpy().astype(np.float64), np.asarray(p).astype(np.float64)
            np.testing.assert_allclose(got, expected, rtol=tolerance)


class TestPrograms:
    def test_a_learning_rate_that_is_set_compiles_nothing(self):
        training = Training(optax.inject_hyperparams(optax.sgd)(learning_rate=0.0))
        x, w = tx.tensor(XS[0]), training.params["w2"]

        def step(rate: float) -> None:
            before = w.detach().numpy()
            training.opt.state.hyperparams["learning_rate"] = rate
            training.step(x)
            np.testing.assert_allclose(w.detach().numpy(), before - rate * w.grad.numpy(), rtol=1e-5, atol=1e-7)

        for k in range(3):
            step(0.1 / (k + 1))
        assert count(lambda: [step(0.01 * k) for k in range(5)])["misses"] == 0

    def test_what_is_assigned_keeps_the_state_s_dtype(self):
        training = Training(optax.inject_hyperparams(optax.adam)(learning_rate=0.1))
        x, opt = tx.tensor(XS[0]), training.opt
        kept, rate = opt.state.hyperparams, opt.state.hyperparams["learning_rate"]
        for value in (0.5, np.float64(0.25), 1, np.float32(2), jnp.asarray(4.0), tx.tensor(8.0, dtype="float64")):
            kept["learning_rate"] = value
            before = training.values()
            training.step(x)
            assert opt.state.hyperparams["learning_rate"] is kept["learning_rate"] is rate
            assert rate.dtype == np.float32
            assert rate.item() == float(value.item() if isinstance(value, tx.Tensor) else value)
            moved = np.abs(training.values()["w2"] - before["w2"]).max()
            assert 0.2 * rate.item() < moved < 2 * rate.item()

    def test_what_cannot_be_assigned(self):
        training = Training(optax.inject_hyperparams(optax.adam)(learning_rate=0.1))
        x, opt = tx.tensor(XS[0]), training.opt
        training.step(x)
        before, values, rate = opt.state_dict(), training.values(), opt.state.hyperparams["learning_rate"]
        for value, error, match in (
            ("fast", ArgumentTypeError, "learning_rate.*'fast'|learning_rate.*str"),
            (None, ArgumentValueError, "structure"),
            (np.ones(2), ShapeMismatchError, "learning_rate"),
        ):
            opt.state.hyperparams["learning_rate"] = value
            for act in (opt.step, opt.state_dict, tx.compile(opt.step)):
                with pytest.raises(error, match=match):
                    act()
        opt.state.hyperparams["learning_rate"] = rate
        assert_close(training.values(), values)
        for k, v in opt.state_dict().items():
            np.testing.assert_array_equal(v, before[k])
        opt.state.inner_state[0].mu["w1"] = tx.tensor([1, 2])
        with pytest.raises(ShapeMismatchError, match=r"mu.*w1"):
            opt.step()

    def test_assigned_between_compiled_steps(self):
        training, plain = (Training(optax.inject_hyperparams(optax.sgd)(learning_rate=0.1)) for _ in range(2))
        step, x = tx.compile(training.step), tx.tensor(XS[0])
        for k, rate in enumerate((None, None, 0.5, None, np.float64(0.25), 0.125, None)):
            for t, act in ((training, step), (plain, plain.step)):
                if rate is not None and k % 2:
                    with tx.no_grad():
                        t.opt.state.hyperparams["learning_rate"].fill_(float(rate))
                elif rate is not None:
                    t.opt.state.hyperparams["learning_rate"] = rate
                act(x)
            assert_close(training.values(), plain.values())
        assert training.opt.state.hyperparams["learning_rate"].item() == 0.125

    def test_a_compiled_step_that_fails_leaves_the_state(self):
        training = Training(optax.inject_hyperparams(optax.adam)(learning_rate=0.1))
        x = tx.tensor(XS[0])
        training.step(x)
        kept: list[Any] = []
        before, values = training.opt.state_dict(), training.values()

        def wrong() -> None:
            training.step(x)
            kept.append(training.opt.state.hyperparams["learning_rate"] * 2)

        training.opt.state.hyperparams["learning_rate"] = 0.5
        with pytest.raises(AutogradError, match="kept"):
            tx.compile(wrong)()
        kept.clear()
        now = training.opt.state_dict()
        assert now.pop(".hyperparams['learning_rate']") == 0.5
        for k, v in now.items():
            np.testing.assert_array_equal(v, before[k])
        assert_close(training.values(), values)
        training.step(x)

    def test_nothing_grows(self):
        training = Training(optax.adamw(1e-3))
        x = tx.tensor(XS[0])

        def live() -> tuple[int, int]:
            training.step(x).item()
            gc.collect()
            return len(jax.live_arrays()), len(gc.get_objects())

        for _ in range(5):
            training.step(x)
        arrays, objects = live()
        for _ in range(500):
            training.step(x)
        after_arrays, after_objects = live()
        assert after_arrays <= arrays + 2
        assert after_objects <= objects + 300

    def test_state_and_parameters_are_written_over(self, monkeypatch: pytest.MonkeyPatch):
        training = Training(optax.adam(1e-3))
        x, run, donated = tx.tensor(XS[0]), Program.run, []

        def look(program: Program, trail: Any, box: list[Any], traced: bool) -> Any:
            done = run(program, trail, box, traced)
            donated.append(len(program.donated))
            return done

        for _ in range(5):
            training.step(x)
        monkeypatch.setattr(Program, "run", look)
        for _ in range(4):
            training.step(x)
        # Of three parameters their values, both moments and the gradients, which the next ones overwrite; the count.
        assert donated == [3 * 4 + 1] * 4

    def test_a_step_records_no_graph(self):
        w = tx.ones(2, requires_grad=True)
        opt = Optimizer([w], optax.adam(0.1))
        (w * w).sum().backward()
        opt.step()
        assert w.is_leaf
        assert not any(t.requires_grad for t in jax.tree.leaves(opt.state, is_leaf=lambda x: isinstance(x, tx.Tensor)))

    def test_gradients_with_a_history(self):
        w = tx.ones(2, requires_grad=True)
        opt = Optimizer([w], optax.sgd(0.5))
        (w * w).sum().backward(create_graph=True)
        opt.step()
        assert w.tolist() == [0.0, 0.0]
        assert w.is_leaf
        w.grad = None

    def test_accumulated_gradients(self):
        w = tx.ones(2, requires_grad=True)
        opt = Optimizer([w], optax.sgd(0.25))
        for _ in range(2):
            (w * w).sum().backward()
        opt.step()
        assert w.tolist() == [0.0, 0.0]


class TestWithoutGradients:
    @pytest.mark.parametrize("name", ["adamw", "sgd with momentum", "masked", "injected", "two groups", "schedule"])
    def test_neither_parameter_nor_its_state_moves(self, name: str):
        training = Training(TRANSFORMS[name]())
        training.step(tx.tensor(XS[0]))
        before, state = training.values(), training.opt.state_dict()
        training.params["b1"].grad = None
        training.opt.step()
        after, now = training.values(), training.opt.state_dict()
        np.testing.assert_array_equal(after["b1"], before["b1"])
        assert (after["w1"] != before["w1"]).any()
        own = [k for k in state if "b1" in k]
        assert own or name == "two groups"
        for k in own:
            np.testing.assert_array_equal(now[k], state[k])
        assert any((now[k] != state[k]).any() for k in state if "w1" in k)

    def test_the_others_move_as_if_its_gradient_were_zero(self):
        transform = optax.chain(optax.clip_by_global_norm(0.01), optax.adam(0.1))
        ours, zeros = Training(transform), Training(transform)
        for t in (ours, zeros):
            for k in ("w1", "w2"):
                t.params[k].grad = tx.ones(t.params[k].shape)
        zeros.params["b1"].grad = tx.zeros(8)
        ours.opt.step()
        zeros.opt.step()
        assert_close(ours.values(), zeros.values())

    def test_none_at_all(self):
        training = Training(optax.adam(0.1))
        before = training.opt.state_dict()
        training.opt.step()
        for k, v in training.opt.state_dict().items():
            np.testing.assert_array_equal(v, before[k])
        assert_close(training.values(), INIT)

    def test_frozen_parameters(self):
        a, b = tx.ones(2, requires_grad=True), tx.ones(2)
        opt = Optimizer({"a": a, "b": b}, optax.adamw(0.1, weight_decay=0.5))
        (a * b).sum().backward()
        opt.step()
        assert b.tolist() == [1.0, 1.0]
        assert a[0].item() < 1


class TestParameters:
    def test_what_they_may_be(self):
        def made() -> list[Any]:
            return [tx.ones(2, requires_grad=True), tx.ones(3, requires_grad=True)]

        for form in (
            lambda ps: ps,
            tuple,
            iter,
            lambda ps: {"a": ps[0], "b": {"c": ps[1]}},
            lambda ps: [("a", ps[0]), ("b", ps[1])],
            lambda ps: zip("ab", ps, strict=True),
            lambda ps: {"a": ps}.items(),
        ):
            ps = made()
            try:
                opt = Optimizer(form(ps), optax.sgd(1.0))
            except ArgumentTypeError:
                assert "items" in repr(form(ps))
                continue
            (ps[0].sum() + 2 * ps[1].sum()).backward()
            opt.step()
            assert [p[0].item() for p in ps] == [0.0, -1.0]
        one = tx.ones(2, requires_grad=True)
        opt = Optimizer(one, optax.sgd(1.0))
        one.sum().backward()
        opt.step()
        assert one.tolist() == [0.0, 0.0]

    def test_subclasses_of_tensor(self):
        class Parameter(tx.Tensor):
            pass

        w = tx.ones(2).as_subclass(Parameter).requires_grad_()
        opt = Optimizer([w], optax.sgd(1.0, momentum=0.9))
        w.sum().backward()
        opt.step()
        assert type(w) is Parameter
        assert w.tolist() == [0.0, 0.0]

    def test_parts_of_one_tensor(self):
        values = np.zeros((4, 3), np.float32)
        base, whole = tx.tensor(values), tx.tensor(values, requires_grad=True)
        parts = [base[:1].requires_grad_(), base[1:].T.requires_grad_()]
        opts = Optimizer(parts, optax.adam(0.1)), Optimizer([whole], optax.adam(0.1))
        for _ in range(3):
            (((parts[0] - 1) ** 2).sum() + ((parts[1] + 1) ** 3).sum()).backward()
            (((whole[:1] - 1) ** 2).sum() + ((whole[1:] + 1) ** 3).sum()).backward()
            for opt in opts:
                opt.step()
                opt.zero_grad()
        np.testing.assert_allclose(base.numpy(), whole.detach().numpy(), rtol=1e-6)
        assert all(p.is_leaf and p.requires_grad for p in parts)

    def test_memory_that_is_shown_twice_is_refused(self):
        b = tx.zeros(4, 3)
        for params in ([b[:2], b[1:]], [b[0].expand(3, 3)], [b, b.detach()], [b, b.T], [b[::2, 1], b[2]]):
            with pytest.raises(ArgumentValueError, match="share memory"):
                Optimizer(params, optax.sgd(0.1))
        Optimizer([b[::2], b[1::2, 1:], b[3, :1]], optax.sgd(0.1))

    def test_what_update_needs(self):
        w = tx.ones(2, requires_grad=True)
        opt = Optimizer([w], optax.polyak_sgd())
        w.sum().backward()
        with pytest.raises(ArgumentTypeError, match="value"):
            opt.step()
        opt.step(value=w.sum())
        assert w[0].item() < 1

    def test_nobody_else_keeps_it(self):
        w = tx.ones(2, requires_grad=True)
        opt = Optimizer([w], optax.adam(0.1))
        w.sum().backward()
        opt.step()
        ref = weakref.ref(opt)
        del opt
        gc.collect()
        assert ref() is None

    def test_names_are_those_of_masks_and_state(self):
        w = tx.ones(2, requires_grad=True)
        opt = Optimizer([("layer.w", w)], optax.sgd(0.1, momentum=0.9))
        assert list(opt.state_dict()) == ["[0].trace['layer.w']"]

    def test_refused(self):
        w = tx.ones(2, requires_grad=True)
        for params, error, match in (
            ([], ArgumentValueError, "no parameters"),
            ([w, w], ArgumentValueError, "twice"),
            ([w * 2], ArgumentValueError, "leaf"),
            ([tx.tensor([1, 2])], ArgumentTypeError, "int64"),
            ([np.ones(2)], ArgumentTypeError, "ndarray"),
            (3, ArgumentTypeError, "int"),
        ):
            with pytest.raises(error, match=match):
                Optimizer(params, optax.sgd(0.1))
        with pytest.raises(ArgumentTypeError, match="Optax"):
            Optimizer([w], 0.1)

    def test_zero_grad(self):
        w = tx.ones(2, requires_grad=True)
        opt = Optimizer([w], optax.sgd(0.1))
        opt.zero_grad(set_to_none=False)
        assert w.grad is None
        w.sum().backward()
        kept = w.grad
        opt.zero_grad(set_to_none=False)
        assert w.grad is kept
        assert kept.tolist() == [0.0, 0.0]
        opt.zero_grad()
        assert w.grad is None

    def test_copies_go_their_own_way(self):
        training = Training(optax.adam(0.1))
        training.step(tx.tensor(XS[0]))
        twin = copy.deepcopy(training)
        before = training.values()
        twin.step(tx.tensor(XS[1]))
        assert_close(training.values(), before)
        training.step(tx.tensor(XS[1]))
        assert_close(training.values(), twin.values())

    def test_what_update_takes_besides(self):
        w = tx.ones(2, requires_grad=True)
        opt = Optimizer([w], optax.chain(optax.sgd(0.1), optax.contrib.reduce_on_plateau(patience=1, cooldown=0)))
        scales = []
        for _ in range(6):
            w.grad = None
            loss = w.sum() * 0 + 1.0
            loss.backward()
            opt.step(value=loss)
            scales.append(opt.state[1].scale.item())
        assert scales[-1] < scales[0] == 1.0

    def test_a_write_that_is_refused_changes_nothing(self):
        a, b = tx.ones(2, requires_grad=True), tx.ones(2, requires_grad=True)
        opt = Optimizer([a, b], optax.adam(0.1))
        (a * b).sum().backward()
        jax.jit(lambda x: x * b.detach().jax())(jnp.ones(2))  # which holds b as a constant
        before = opt.state_dict()
        with pytest.raises(AutogradError, match="constant"):
            opt.step()
        assert a.tolist() == [1.0, 1.0]
        for k, v in opt.state_dict().items():
            np.testing.assert_array_equal(v, before[k])


class TestStateDict:
    @pytest.mark.parametrize("name", ["adamw", "noise", "injected", "every third step", "two groups"])
    def test_goes_on_where_it_was(self, name: str):
        first = Training(TRANSFORMS[name]())
        for x in XS[:10]:
            first.step(tx.tensor(x))
        saved = pickle.loads(pickle.dumps(first.opt.state_dict()))
        assert all(type(v) is np.ndarray for v in saved.values())
        second = Training(TRANSFORMS[name]())
        with tx.no_grad():
            for k, v in first.values().items():
                second.params[k].copy_(tx.tensor(v))
        second.opt.load_state_dict(saved)
        for x in XS[10:]:
            second.step(tx.tensor(x))
        assert_close(second.values(), plain(name))

    def test_it_is_a_copy(self):
        training = Training(optax.sgd(0.1, momentum=0.9))
        saved = training.opt.state_dict()
        before = {k: v.copy() for k, v in saved.items()}
        training.step(tx.tensor(XS[0]))
        for k, v in saved.items():
            np.testing.assert_array_equal(v, before[k])
            v += 1  # writable, and nobody else's
        assert all(not (v == saved[k]).all() for k, v in training.opt.state_dict().items())

    def test_what_does_not_fit_is_refused_and_changes_nothing(self):
        training = Training(optax.adam(0.1))
        training.step(tx.tensor(XS[0]))
        good = training.opt.state_dict()
        key = "[0].mu['w1']"
        other = Training(optax.sgd(0.1, momentum=0.9)).opt.state_dict()
        for bad, error, match in (
            ({**good, key: np.zeros((2, 2), np.float32)}, ShapeMismatchError, "w1"),
            ({**good, key: good[key].astype(np.float64)}, ArgumentTypeError, "float64"),
            ({k: v for k, v in good.items() if k != key}, ArgumentValueError, "missing"),
            ({**good, "more": np.zeros(1)}, ArgumentValueError, "not expected more"),
            (other, ArgumentValueError, "another optimiser"),
            ([1], ArgumentTypeError, "list"),
        ):
            changed = {k: v + 1 if k != key else v for k, v in bad.items()} if isinstance(bad, dict) else bad
            with pytest.raises(error, match=match):
                training.opt.load_state_dict(changed)
            for k, v in training.opt.state_dict().items():
                np.testing.assert_array_equal(v, good[k])


def test_without_optax_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def no_optax(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == "optax":
            raise ModuleNotFoundError("No module named 'optax'", name="optax")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_optax)
    monkeypatch.setattr(importlib, "import_module", lambda name: no_optax(name))
    monkeypatch.delitem(sys.modules, "torsh_fx.interop.optax")
    with pytest.raises(ImportError, match=r"torsh_fx\[optax\]"):
        importlib.__import__("torsh_fx.interop.optax")
