"""The PyTorch bridge: tensors, functions of each inside the other, and state dicts, against PyTorch itself."""

from __future__ import annotations

import builtins
import gc
import importlib
import sys
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torsh_fx as tx
from torsh_fx import rules

torch = pytest.importorskip("torch")

from torsh_fx.interop import torch as bridge  # noqa: E402
from torsh_fx.interop.torch import (  # noqa: E402
    as_torch,
    from_torch,
    lift_torch,
    load_state_dict,
    state_dict_from_torch,
    state_dict_to_torch,
    to_torch,
)

F = tx.nn.functional
NAMES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
    tx.manual_seed(0)


def randn(*shape: int, dtype: Any = torch.float64, grad: bool = True) -> Any:
    return torch.randn(*shape, dtype=dtype, requires_grad=grad)


def close(ours: Any, theirs: Any, rtol: float = 1e-6) -> None:
    ours = ours.detach().numpy() if isinstance(ours, (tx.Tensor, torch.Tensor)) else np.asarray(ours)
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=rtol, atol=1e-7)


# -- tensors --------------------------------------------------------------------------


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_values_both_ways(name, x64):
    base = (torch.arange(12) % 5 * 3).to(getattr(torch, name)).reshape(3, 4)
    with jax.enable_x64(x64):
        for theirs in (base, base.T, base[:, ::2], base[1:2].expand(3, 4), base[0, 1], base[:0], base[1:].flip(0)):
            t = from_torch(theirs)
            assert (t.dtype.name, t.shape, t.requires_grad) == (name, tuple(theirs.shape), False)
            assert t.tolist() == theirs.tolist()
            back = to_torch(t)
            assert back.dtype == theirs.dtype
            assert torch.equal(back, theirs)
            if theirs.is_floating_point():
                assert torch.equal(to_torch(t * 1), theirs)
                assert torch.equal(to_torch(t.jax()), theirs)


def test_requires_grad_is_kept_and_gradients_are_apart():
    theirs = torch.nn.Parameter(torch.ones(3))
    ours = from_torch(theirs)
    assert ours.requires_grad
    assert ours.is_leaf
    (ours * 2).sum().backward()
    assert theirs.grad is None
    back = to_torch(ours)
    assert back.requires_grad
    assert back.is_leaf
    assert back.grad is None
    with tx.no_grad():
        assert from_torch(theirs).requires_grad


def test_memory_is_copied_unless_told():
    theirs = torch.ones(16)
    ours, shared = from_torch(theirs), from_torch(theirs, copy=False)
    theirs.mul_(3)
    assert ours.tolist() == [1.0] * 16
    assert shared.tolist() == [3.0] * 16
    out, alias = to_torch(ours), to_torch(ours, copy=False)
    assert alias.data_ptr() == ours.jax().unsafe_buffer_pointer()
    out.zero_()
    assert ours.tolist() == [1.0] * 16
    ours += 1  # into memory of its own: PyTorch holds the other
    ours += 1
    assert ours.tolist() == [3.0] * 16
    assert alias.tolist() == [1.0] * 16


def test_lazy_negatives_have_their_sign():
    theirs = torch._neg_view(torch.tensor([1.0, 2.0]))
    assert theirs.is_neg()
    assert from_torch(theirs).tolist() == [-1.0, -2.0]
    assert from_torch(torch.tensor([1 + 2j]).conj().imag).tolist() == [-2.0]


def test_what_is_no_dense_leaf_is_refused():
    x = randn(2)
    with pytest.raises(tx.AutogradError, match=r"MulBackward0.*detach\(\)"):
        from_torch(x * 2)
    with pytest.raises(tx.AutogradError, match=r"history.*detach\(\)"):
        to_torch(from_torch(x) * 2)
    for wrong in (
        torch.eye(2).to_sparse(),
        torch.eye(2).to_sparse_csr(),
        torch.zeros(2, dtype=torch.cfloat),
        torch.zeros(2, dtype=torch.uint16),
        torch.zeros(2).to(torch.float8_e4m3fn),
    ):
        with pytest.raises(tx.ArgumentTypeError, match="from_torch"):
            from_torch(wrong)
    for wrong in (3, np.ones(2), tx.ones(2), None):
        with pytest.raises(tx.ArgumentTypeError, match=r"from_torch.*PyTorch tensor"):
            from_torch(wrong)
    for wrong in (3, np.ones(2), torch.ones(2), None):
        with pytest.raises(tx.ArgumentTypeError, match=r"to_torch.*Tensor"):
            to_torch(wrong)
    with pytest.raises(tx.ArgumentTypeError, match="complex"):
        to_torch(jnp.zeros(2, "complex64"))
    with pytest.raises(tx.ArgumentValueError, match="strided"):
        from_torch(torch.arange(4.0)[::2], copy=False)
    with pytest.raises(tx.AutogradError, match="memory"):
        jax.jit(lambda a: to_torch(tx.as_tensor(a)))(jnp.ones(2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU for PyTorch")
def test_gpu_tensors_stay_there():
    theirs = torch.ones(3, device="cuda")
    ours = from_torch(theirs)
    assert ours.device.platform == "gpu"
    assert to_torch(ours).device == theirs.device


# -- our functions in PyTorch ----------------------------------------------------------------

w64 = np.linspace(-1.0, 1.0, 6).reshape(3, 2)


def ours(d: Any, scale: int, *, shift: Any) -> Any:
    x, y = d["x"], d["y"]
    return {"main": (x @ y).tanh() * scale + shift, "other": [(x * x).sum(), x.argmax()], "n": 3}


def by_jax(d: Any, scale: int, *, shift: Any) -> Any:
    x, y = d["x"], d["y"]
    return {"main": jnp.tanh(x @ y) * scale + shift, "other": [(x * x).sum(), x.argmax()], "n": 3}


def theirs(d: Any, scale: int, *, shift: Any) -> Any:
    x, y = d["x"], d["y"]
    return {"main": torch.tanh(x @ y) * scale + shift, "other": [(x * x).sum(), x.argmax()], "n": 3}


@pytest.mark.parametrize(("fn", "arrays"), [(ours, False), (by_jax, True)])
@pytest.mark.parametrize("x64", [False, True])
def test_values_and_gradients_are_pytorchs(fn, arrays, x64):
    traces = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        traces.append(1)
        return fn(*args, **kwargs)

    f = as_torch(counted, arrays=arrays)
    leaves = randn(2, 3), randn(3, 2), randn(2)

    def losses(g: Any, x: Any, y: Any, b: Any) -> tuple[Any, Any]:
        out = g({"x": x, "y": y}, 2, shift=b)
        return out["main"], out["other"][0]

    with jax.enable_x64(x64):
        got, want = (
            f({"x": leaves[0], "y": leaves[1]}, 2, shift=leaves[2]),
            theirs({"x": leaves[0], "y": leaves[1]}, 2, shift=leaves[2]),
        )
        close(got["main"], want["main"])
        assert got["other"][1].item() == want["other"][1].item()
        assert got["n"] == 3
        assert not got["other"][1].requires_grad
        for create in (False, True):
            parts = []
            for g in (f, theirs):
                a, b = losses(g, *leaves)
                parts.append(torch.autograd.grad(a.exp().sum() + b, leaves, create_graph=create))
            for p, q in zip(*parts, strict=True):
                close(p, q)
        seconds = [torch.autograd.grad(sum((p * p).sum() for p in ps), leaves) for ps in parts]
        for p, q in zip(*seconds, strict=True):
            close(p, q)
        assert torch.autograd.gradcheck(lambda *a: losses(f, *a), leaves, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(lambda *a: losses(f, *a), leaves)
    assert len(traces) == 1


def test_the_old_vmap_of_pytorch_is_refused():
    t = torch.ones(3, requires_grad=True)
    y = as_torch(lambda x: x.sin())(t)
    with pytest.raises(tx.AutogradError, match=r"torch\.func\.vmap"):
        torch.autograd.grad(y, t, torch.eye(3), is_grads_batched=True)
    torch.testing.assert_close(torch.func.jacrev(as_torch(lambda x: x.sin()))(t), torch.diag(torch.cos(t)))


def test_crosscheck_runs_pytorch_in_float64():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 2)).requires_grad_(False)
    x = tx.tensor(np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32))
    for fn in (lift_torch(module), lift_torch(lambda a: torch.sin(a) * a + torch.argmax(a))):
        report = tx.crosscheck(fn, x, torch=False)
        assert report.ok, report
        assert max(r.max_abs for r in report.rows if r.path == "differences") < 1e-5


def test_compiled_once_for_each_signature():
    traces = []

    def fn(x: Any, k: Any) -> Any:
        traces.append((x.shape, x.dtype.name, k))
        return (x * x * k).sum()

    f = as_torch(fn)
    for _ in range(3):
        for x in (torch.ones(2), torch.ones(3), torch.ones(2, dtype=torch.float64)):
            x.requires_grad_()
            f(x, 2).backward()
            assert x.grad.tolist() == [4.0] * len(x)
            f(x.detach(), 2)
    assert len(traces) == 3
    f(torch.ones(2), 3), f(torch.ones(2), 3.0), f(torch.ones(2), True), f(torch.ones(2), 3)
    assert len(traces) == 6
    before = tx.stats()["xla programs compiled"]
    f(torch.ones(2), 2)
    assert tx.stats()["xla programs compiled"] == before


def test_programs_are_compiled_once_by_xla():
    f = as_torch(lambda x: (x.sin() * x).sum())
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **more: compiled.append(event) if event.endswith("backend_compile_duration") else None
    )
    counts = []
    for k in range(4):
        x = torch.full((5,), float(k + 1), requires_grad=True)
        f(x).backward()
        close(x.grad, x.cos() * x + x.sin(), rtol=1e-5)
        counts.append(len(compiled))
    assert counts[0] >= 2
    assert counts[1:] == counts[:1] * 3


def test_transforms_of_torch_func():
    f, g = as_torch(lambda x: (x * x * x).sum()), lambda x: (x * x * x).sum()
    x, v = randn(3, grad=False), randn(3, grad=False)
    close(torch.func.grad(f)(x), torch.func.grad(g)(x))
    close(torch.func.hessian(f)(x), torch.func.hessian(g)(x))
    close(torch.func.jvp(f, (x,), (v,))[1], torch.func.jvp(g, (x,), (v,))[1])
    xs = randn(4, 3, grad=False)
    close(torch.func.vmap(f)(xs), torch.func.vmap(g)(xs))
    close(torch.func.vmap(torch.func.grad(f))(xs), torch.func.vmap(torch.func.grad(g))(xs))


def test_a_layer_and_a_loss_inside_a_module():
    class Net(torch.nn.Module):
        def __init__(self, ours: bool) -> None:
            super().__init__()
            self.first, self.last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)
            self.gelu = as_torch(F.gelu) if ours else torch.nn.functional.gelu
            self.loss = as_torch(F.cross_entropy) if ours else torch.nn.functional.cross_entropy

        def forward(self, x: Any, y: Any) -> Any:
            return self.loss(self.last(self.gelu(self.first(x))), y)

    a, b = Net(True), Net(False)
    b.load_state_dict(a.state_dict())
    x, y = torch.randn(16, 4), torch.randint(3, (16,))
    optimizers = [torch.optim.Adam(net.parameters(), lr=0.01) for net in (a, b)]
    for _ in range(5):
        for net, optimizer in zip((a, b), optimizers, strict=True):
            optimizer.zero_grad()
            net(x, y).backward()
            optimizer.step()
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        close(p, q, rtol=1e-4)


def test_frozen_arguments_and_no_grad():
    f = as_torch(lambda x, y: (x * y).sum())
    x, y = randn(3), randn(3, grad=False)
    f(x, y).backward()
    assert y.grad is None
    close(x.grad, y)
    with torch.no_grad():
        assert not f(x, y).requires_grad
    assert not f(y, y).requires_grad


def test_results_belong_to_pytorch():
    f = as_torch(lambda x: x.exp())
    x = randn(100)
    out = f(x)
    want = out.detach().clone()
    out.detach().mul_(0)  # what JAX keeps for backward is elsewhere
    out2 = f(x)
    out2.sum().backward()
    close(x.grad, want)
    same = as_torch(lambda x: x)
    base = torch.ones(3)
    same(base).zero_()
    assert base.tolist() == [1.0] * 3


def test_pytorchs_own_rules_hold():
    f = as_torch(lambda x: (x * x).sum())
    x = randn(2)
    y = f(x)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    y = f(x)
    y.backward(retain_graph=True)
    y.backward()
    y = f(x)
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_strided_arguments_and_expanded_gradients():
    f = as_torch(lambda x: x * 2)
    x = randn(4, 6)
    f(x.T[::2]).sum().backward()  # sum's gradient has stride 0
    want = torch.zeros(4, 6, dtype=torch.float64)
    want[:, ::2] = 2
    close(x.grad, want)


def test_what_as_torch_refuses():
    with pytest.raises(tx.ArgumentTypeError, match=r"as_torch.*function"):
        as_torch(3)
    f = as_torch(lambda x, *more: x.sum())
    for wrong in (tx.ones(2), jnp.ones(2), np.ones(2)):
        with pytest.raises(tx.ArgumentTypeError, match=r"as_torch.*PyTorch tensors.*to_torch"):
            f(torch.ones(2), wrong)
    with pytest.raises(tx.ArgumentTypeError, match="hashable"):
        f(torch.ones(2), {1, 2})
    with pytest.raises(tx.ArgumentTypeError, match="complex64"):
        f(torch.zeros(2, dtype=torch.cfloat))
    captured = tx.ones(2, requires_grad=True)
    with pytest.raises(tx.AutogradError, match=r"as_torch.*from outside that requires grad"):
        as_torch(lambda x: x * captured)(torch.ones(2))
    with pytest.raises(tx.AutogradError, match="read inside"):
        as_torch(lambda x: x * x.sum().item())(torch.ones(2))
    constant = tx.ones(2)
    assert as_torch(lambda x: x * constant)(torch.ones(2)).tolist() == [1.0, 1.0]
    with pytest.raises(tx.AutogradError, match="constant"):  # the traced function would not see it
        constant += 1
    with pytest.raises(tx.AutogradError, match="as_torch"):
        tx.record(lambda t: from_torch(f(to_torch(t))))(tx.ones(2))


def test_an_error_in_the_function_is_its_own_and_poisons_nothing():
    def picky(x: Any, k: int) -> Any:
        if k == 0:
            raise KeyError("no zero")
        return x.sum() / k

    f = as_torch(picky)
    for _ in range(2):
        with pytest.raises(KeyError, match="no zero"):
            f(torch.ones(2), 0)
        assert f(torch.ones(2), 2).item() == 1.0
    broken = as_torch(lambda x: tx.custom_op("hard", jnp.sin)(x).sum())
    with pytest.raises(tx.AutogradError, match="hard"):
        broken(randn(2)).backward()
    with pytest.raises(tx.ShapeMismatchError):
        as_torch(lambda x, y: x + y)(torch.ones(2), torch.ones(3))


def test_rules_and_tapes_cross_over():
    x = randn(5)
    y = as_torch(lambda v: rules.clamp(v, min=-0.5, max=0.5), arrays=True)(x)
    close(torch.autograd.grad(y.sum(), x)[0], ((x >= -0.5) & (x <= 0.5)).double())
    tape = tx.record(lambda v: (v * v).sum())(tx.ones(5, dtype=tx.float64))
    g = torch.autograd.grad(as_torch(tape.as_jax(), arrays=True)(x), x)[0]
    close(g, 2 * x)


# -- PyTorch's functions here ------------------------------------------------------------------


def net() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()


def test_a_module_is_an_op_and_its_parameters_are_inputs():
    module = net()
    op = lift_torch(module)
    assert list(op.parameters) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert all(p.requires_grad and p.is_leaf for p in op.parameters.values())
    x = tx.randn(5, 3, dtype=tx.float64).requires_grad_()
    out = op(x.sin()) * 2
    (out * out).sum().backward()
    xt = torch.tensor(x.detach().numpy(), requires_grad=True)
    want = module(xt.sin()) * 2
    (want * want).sum().backward()
    close(out, want)
    close(x.grad, xt.grad)
    for name, p in module.named_parameters():
        close(op.parameters[name].grad, p.grad)
    with tx.no_grad():
        for p in op.parameters.values():
            p -= 0.1 * p.grad
    module.load_state_dict(state_dict_to_torch(op.parameters))
    close(op(x), module(xt))


def test_gradients_of_every_order_and_mode():
    def cubic(a: Any, b: Any) -> Any:
        return (a**3 * b).sum() + (b * b).sum()

    op = lift_torch(cubic)
    a = tx.tensor([1.0, 2.0], dtype=tx.float64).requires_grad_()
    b = tx.tensor([3.0, -1.0], dtype=tx.float64).requires_grad_()
    at, bt = (torch.tensor(t.detach().numpy(), requires_grad=True) for t in (a, b))
    first = tx.autograd.grad(op(a, b), (a, b), create_graph=True)
    want = torch.autograd.grad(cubic(at, bt), (at, bt), create_graph=True)
    second = tx.autograd.grad((first[0] * first[1]).sum(), (a, b), create_graph=True)
    want2 = torch.autograd.grad((want[0] * want[1]).sum(), (at, bt), create_graph=True)
    third = tx.autograd.grad((second[0] * second[0]).sum(), (a, b))
    want3 = torch.autograd.grad((want2[0] * want2[0]).sum(), (at, bt))
    for got, wanted in ((first, want), (second, want2), (third, want3)):
        for p, q in zip(got, wanted, strict=True):
            close(p, q)
    primals = (a.detach(), b.detach())
    tangents = (tx.tensor([0.5, 1.0], dtype=tx.float64), tx.tensor([2.0, 0.0], dtype=tx.float64))
    pushed = tx.jvp(op, primals, tangents)[1]
    close(pushed, sum((g * torch.tensor(t.numpy())).sum() for g, t in zip(want, tangents, strict=True)))
    hessian = tx.hessian(lambda v: op(v, primals[1]))(primals[0])
    close(hessian, torch.func.hessian(lambda v: cubic(v, bt.detach()))(at.detach()))
    with jax.enable_x64(True):
        by_jax = jax.jit(jax.grad(lambda u, v: op(u, v).jax(), argnums=(0, 1)))(primals[0].jax(), primals[1].jax())
    for p, q in zip(by_jax, want, strict=True):
        close(p, q)


def test_vmap_runs_it_once_per_element():
    op = lift_torch(lambda v: v.cumprod(0))
    xs = tx.randn(4, 3)
    want = torch.from_numpy(xs.numpy().copy()).cumprod(1)
    close(tx.vmap(op)(xs), want, rtol=1e-5)
    rows = tx.vmap(tx.grad(lambda v: op(v).sum()))(xs)
    xt = torch.from_numpy(xs.numpy().copy()).requires_grad_()
    xt.cumprod(1).sum().backward()
    close(rows, xt.grad, rtol=1e-4)


def test_one_callback_forward_and_one_backward():
    calls = []

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            calls.append(x.device.type)
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            calls.append("back")
            return g

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net()

        def forward(self, x: Any) -> Any:
            return Counted.apply(self.inner(x))

    op = lift_torch(Module())
    x = tx.ones(2, 3, dtype=tx.float64)
    op(x).sum().backward()
    op(x).sum().backward()
    assert calls[0] == "meta"
    assert calls[1:] == ["cpu", "cpu", "back"] * 2  # four parameters, one backward, with a forward of its own


def test_pytrees_static_arguments_and_dtypes():
    def fn(d: Any, flag: bool, *, k: int) -> Any:
        x, n = d["x"], d["n"]
        return {"half": x.half() * k, "double": (x.double() * 0.1, n + 1), "yes": x > 0, "flag": flag}

    op = lift_torch(fn)
    x = tx.tensor([1.0, -2.0], requires_grad=True)
    for x64 in (False, True):
        with jax.enable_x64(x64):
            out = op({"x": x, "n": tx.tensor([2**62 + 1, -5])}, True, k=3)
            assert out["half"].dtype == tx.float16
            assert out["double"][0].tolist() == [float(np.float64(0.1)), -0.2]
            assert out["double"][1].tolist() == [2**62 + 2, -4]
            assert out["yes"].tolist() == [True, False]
            assert out["flag"] is True
            assert not out["yes"].requires_grad
    (out["half"].float().sum() + out["double"][0].sum()).backward()
    np.testing.assert_allclose(x.grad.numpy(), [3.1, 3.1], rtol=1e-6)
    assert op({"x": np.ones(2, np.float32), "n": jnp.ones(1, jnp.int32)}, False, k=1)["half"].tolist() == [1.0, 1.0]
    empty = lift_torch(lambda: torch.arange(3))
    assert empty().tolist() == [0, 1, 2]


def test_results_without_gradient_in_pytorch_have_none_here():
    op = lift_torch(lambda x: (x * 2, x.detach() * 3))
    x = tx.ones(2, requires_grad=True)
    a, b = op(x)
    assert a.requires_grad
    assert not b.requires_grad
    (a + b).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert tx.grad(lambda v: sum(t.sum() for t in op(v)))(x.detach()).tolist() == [2.0, 2.0]


def test_frozen_parameters_buffers_and_modes():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5))
    module[0].weight.requires_grad_(False)
    x = torch.randn(8, 3)
    module(x)
    module.eval()
    op = lift_torch(module)
    module.train()  # the op stays as it was
    assert not op.parameters["0.weight"].requires_grad
    assert set(op.buffers) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    out = op(from_torch(x))
    module.eval()
    close(out, module(x), rtol=1e-5)
    out.sum().backward()
    module(x).sum().backward()
    assert op.parameters["0.weight"].grad is None
    close(op.parameters["1.weight"].grad, module[1].weight.grad, rtol=1e-4)
    with pytest.raises(tx.AutogradError, match=r"BatchNorm1d.*writes to a buffer.*eval"):
        lift_torch(torch.nn.BatchNorm1d(3))(from_torch(x))
    with pytest.raises(tx.TorshError, match=r"random numbers.*eval"):
        lift_torch(torch.nn.Dropout(0.5))(from_torch(x)).tolist()


def test_what_needs_no_gradient_is_not_differentiated():
    loss = torch.nn.functional.cross_entropy  # refuses to be differentiated by its weights
    op = lift_torch(lambda x, y, w: loss(x, y, weight=w))
    x, y, w = tx.randn(4, 3).requires_grad_(), tx.randint(3, (4,)), tx.tensor([1.0, 2.0, 0.5])
    op(x, y, w).backward()
    xt = to_torch(x)
    loss(xt, to_torch(y), weight=to_torch(w)).backward()
    close(x.grad, xt.grad, rtol=1e-5)
    w.requires_grad_()
    with pytest.raises(tx.TorshError, match="weight"):
        op(x, y, w).backward()
    assert w.grad is None
    close(x.grad, xt.grad, rtol=1e-5)


def test_arguments_may_be_written_there():
    op = lift_torch(torch.nn.Sequential(torch.nn.ReLU(inplace=True), torch.nn.Sigmoid()))
    x = tx.tensor([-1.0, 2.0], requires_grad=True)
    op(x).sum().backward()
    assert x.tolist() == [-1.0, 2.0]
    xt = torch.tensor([-1.0, 2.0], requires_grad=True)
    xt.relu().sigmoid().sum().backward()
    close(x.grad, xt.grad)


def test_a_gradient_is_never_lost_in_silence():
    module, loose = net(), torch.ones(2, requires_grad=True)
    x = tx.ones(1, 3, dtype=tx.float64)
    for fn in (lambda v: module(v), lambda v: v.sum() * loose, lambda v: loose):
        with pytest.raises(tx.AutogradError, match=r"from outside that requires grad"):
            lift_torch(fn)(x)
    hidden = torch.nn.Linear(2, 2)
    hidden.scale = torch.ones(2, requires_grad=True)  # an attribute that is no parameter
    hidden.forward = lambda v: v * hidden.scale
    with pytest.raises(tx.AutogradError, match="from outside"):
        lift_torch(hidden)(tx.ones(2))
    frozen = module.requires_grad_(False)
    close(lift_torch(lambda v: frozen(v))(x), frozen(torch.ones(1, 3, dtype=torch.float64)))


def test_errors_of_pytorch_keep_their_message_and_poison_nothing():
    op = lift_torch(net())
    with pytest.raises(tx.TorshError, match=r"lift_torch\(Sequential\).*mat1 and mat2"):
        op(tx.ones(5, 7, dtype=tx.float64))
    assert op(tx.ones(5, 3, dtype=tx.float64)).shape == (5, 2)

    def late(v: Any) -> Any:
        if not v.is_meta and v.sum() > 100:
            raise KeyError("too big")
        return v * 2

    late_op = lift_torch(late)
    p = tx.ones(2, requires_grad=True)
    y = late_op(p * 100)
    for _ in range(2):
        with pytest.raises(tx.TorshError, match="too big"):
            y.tolist()
    loss = late_op(p * 100).sum()
    with pytest.raises(tx.TorshError, match="too big"):
        loss.backward()
    assert p.grad is None
    late_op(p).sum().backward()
    assert p.grad.tolist() == [2.0, 2.0]

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            return g * 1

    q = tx.ones(2, requires_grad=True)
    (g,) = tx.autograd.grad(lift_torch(Once.apply)(q).sum(), q, create_graph=True)
    with pytest.raises(tx.TorshError, match="once_differentiable"):
        tx.autograd.grad((g * q).sum(), q)[0].tolist()


def test_functions_that_look_at_values():
    def branching(v: Any) -> Any:
        return v * 2 if v.sum() > 0 else v * 3

    op = lift_torch(branching)
    for sign, factor in ((1.0, 2.0), (-1.0, 3.0)):
        x = tx.tensor([sign, sign], requires_grad=True)
        op(x).sum().backward()
        assert x.grad.tolist() == [factor, factor]
    with pytest.raises(tx.TorshError, match="must do without values"):
        jax.jit(lambda a: lift_torch(branching)(a).jax())(jnp.ones(3))
    ragged = lift_torch(lambda v: v[v > 0])
    assert ragged(tx.tensor([1.0, -1.0])).tolist() == [1.0]
    with pytest.raises(tx.TorshError, match="other shapes"):
        ragged(tx.tensor([1.0, 1.0])).tolist()
    weight = torch.full((2,), 3.0)
    held = lift_torch(lambda v: v * weight)
    assert held(tx.ones(2)).tolist() == [3.0, 3.0]


def test_programs_with_pytorch_in_them():
    op = lift_torch(lambda v: v.sin())
    p = tx.ones(1000, requires_grad=True)
    before = p.detach().numpy()
    for _ in range(3):
        op(p).sum().backward()
        with tx.no_grad():
            p -= 0.1 * p.grad
            p.grad = None
    want = torch.ones(1000, requires_grad=True)
    for _ in range(3):
        (g,) = torch.autograd.grad(want.sin().sum(), want)
        want = (want - 0.1 * g).detach().requires_grad_()
    close(p, want, rtol=1e-5)
    assert (before == 1).all()
    tape = tx.record(lambda v: op(v).sum() * 2)(tx.ones(3))
    assert "lift_torch" in str(tape)
    assert "_lift_torch.py" not in str(tape)  # the line named is the user's
    close(jax.grad(tape.as_jax())(jnp.ones(3) * 2), 2 * torch.full((3,), 2.0).cos())
    step = tx.compile(lambda v: op(v) + 1)
    for k in range(4):
        close(step(tx.ones(2) * k), torch.full((2,), float(k)).sin() + 1)
    with tx.eager():
        close(op(tx.ones(2)), torch.ones(2).sin())
    params = {"w": tx.ones(2)}
    assert tx.grad(lambda d: op(d["w"]).sum())(params)["w"].shape == (2,)


def test_64_bits_pass_whatever_the_flag_says_when_it_runs():
    op = lift_torch(lambda v, n: (v * 3, n + 1))
    with jax.enable_x64(True):
        v, n = jnp.array([0.1, 1 + 2.0**-50]), jnp.array([2**62 + 1])
        f = jax.jit(lambda a, b: [t.jax() for t in op(a, b)])
        want = [np.asarray(x) for x in f(v, n)]
        g = np.asarray(jax.jit(jax.grad(lambda a: op(a, n)[0].sum().jax()))(v))
    assert want[0].tolist() == [0.1 * 3, (1 + 2.0**-50) * 3]
    assert want[1].tolist() == [2**62 + 2]
    with jax.enable_x64(False):
        for got, wanted in zip(f(v, n), want, strict=True):
            np.testing.assert_array_equal(np.asarray(got), wanted, strict=True)
    assert g.dtype == np.float64
    assert g.tolist() == [3.0, 3.0]


def test_a_compiled_step_trains_a_module():
    module = net()
    op = lift_torch(module)
    x = tx.randn(5, 3, dtype=tx.float64)

    @tx.compile
    def step(v: Any, rate: float) -> Any:
        loss = op(v).square().mean()
        loss.backward()
        with tx.no_grad():
            for p in op.parameters.values():
                p -= rate * p.grad
                p.grad = None
        return loss

    xt = to_torch(x)
    for k in range(6):
        rate = 0.1 / (1 + k)
        loss = module(xt).square().mean()
        grads = torch.autograd.grad(loss, list(module.parameters()))
        close(step(x, rate), loss)
        with torch.no_grad():
            for p, g in zip(module.parameters(), grads, strict=True):
                p -= rate * g
    for name, p in module.named_parameters():
        close(op.parameters[name], p)


def test_other_values_for_the_parameters():
    module = net()
    op = lift_torch(module)
    x = tx.ones(2, 3, dtype=tx.float64)
    plain = {name: p.detach() for name, p in op.parameters.items()}
    grads = tx.grad(lambda ps: op.apply(ps, x).sum())(plain)
    module(torch.ones(2, 3, dtype=torch.float64)).sum().backward()
    for name, p in module.named_parameters():
        close(grads[name], p.grad)
    with pytest.raises(tx.ArgumentTypeError, match=r"'0.bias' is missing.*'other'.*unexpected.*'0.weight' must be"):
        op.apply({"0.weight": x, "2.weight": plain["2.weight"], "2.bias": plain["2.bias"], "other": x}, x)
    with pytest.raises(tx.ArgumentTypeError, match="dict by name"):
        op.apply(3, x)


def test_a_module_with_tied_weights_goes_back():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).eval()
    module[1].weight = module[0].weight
    module.register_buffer("scratch", torch.ones(1), persistent=False)
    op = lift_torch(module)
    assert list(op.parameters) == ["0.weight", "0.bias", "1.bias", "2.weight", "2.bias"]
    x = tx.randn(4, 2)
    op(x).square().sum().backward()
    xt = to_torch(x)
    module(xt).square().sum().backward()
    close(op.parameters["0.weight"].grad, module[0].weight.grad, rtol=1e-4)
    with tx.no_grad():
        op.parameters["0.weight"].mul_(2)
    state = op.state_dict()
    assert list(state) == list(module.state_dict())
    assert state["0.weight"] is state["1.weight"]
    module.load_state_dict(state_dict_to_torch(state))
    close(op(x), module(xt), rtol=1e-4)
    assert lift_torch(torch.sin).state_dict() == {}


def test_arguments_are_not_kept():
    op, f = lift_torch(lambda v: v * 2), as_torch(lambda v: v * 2)
    ours_, theirs_ = tx.ones(3), torch.ones(3)
    op(ours_).tolist(), f(theirs_)
    gone = weakref.ref(ours_), weakref.ref(theirs_)
    del ours_, theirs_
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_what_lift_torch_refuses():
    with pytest.raises(tx.ArgumentTypeError, match=r"lift_torch.*function"):
        lift_torch(3)
    op = lift_torch(lambda x, *more: x)
    with pytest.raises(tx.ArgumentTypeError, match="from_torch"):
        op(torch.ones(2))
    with pytest.raises(tx.ArgumentTypeError, match="hashable"):
        op(tx.ones(2), {1, 2})
    with pytest.raises(tx.ArgumentTypeError, match="complex"):
        lift_torch(lambda x: torch.complex(x, x))(tx.ones(2))


# -- state dicts -------------------------------------------------------------------------------


def test_state_dicts_both_ways():
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).bfloat16()
    state = state_dict_from_torch(module.state_dict())
    assert state["0.weight"].dtype == tx.bfloat16
    assert state["1.num_batches_tracked"].dtype == tx.int64
    assert not state["0.weight"].requires_grad
    assert state_dict_from_torch(dict(module.named_parameters()))["0.weight"].requires_grad
    other = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).bfloat16()
    other.load_state_dict(state_dict_to_torch(state))
    for a, b in zip(module.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    with torch.no_grad():
        module[0].weight.zero_()
    assert state["0.weight"].abs().sum().item() > 0


def test_tied_weights_stay_tied():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    module[1].weight = module[0].weight
    state = state_dict_from_torch(module.state_dict())
    assert state["0.weight"] is state["1.weight"]
    assert state["0.bias"] is not state["1.bias"]
    back = state_dict_to_torch(state)
    assert back["0.weight"] is back["1.weight"]
    different = {name: t + 0 for name, t in module.state_dict().items()}
    different["1.weight"] = different["1.weight"] + 1
    with pytest.raises(tx.ArgumentValueError, match="one Tensor"):
        load_state_dict(state, different)


def test_loading_in_place_is_all_or_nothing():
    own = {"w": tx.zeros(2, 3, requires_grad=True), "b": tx.zeros(3), "n": tx.zeros((), dtype=tx.int64)}
    view = own["w"][0]
    good = {"w": torch.ones(2, 3), "b": tx.ones(3), "n": jnp.zeros((), jnp.int32)}
    bad = {"w": torch.ones(3, 2), "b": torch.ones(3, dtype=torch.float64), "n2": torch.ones(1)}
    with pytest.raises(tx.ArgumentValueError) as caught:
        load_state_dict(own, bad)
    for words in ("'n' is missing", "'n2'", "unexpected", "'w' must be float32[2, 3], is float32[3, 2]", "'b' must be"):
        assert words in str(caught.value)
    with pytest.raises(tx.ArgumentValueError, match="'n' must be int64"):
        load_state_dict(own, good)
    assert all(not t.numpy().any() for t in (own["w"].detach(), own["b"], own["n"]))
    load_state_dict(own, {**good, "n": torch.tensor(7)})
    assert own["w"].requires_grad
    assert own["w"].is_leaf
    assert view.tolist() == [1.0] * 3
    assert own["n"].item() == 7
    assert own["b"].tolist() == [1.0] * 3

    frozen = tx.zeros(3)
    jax.jit(lambda a: (tx.as_tensor(a) + frozen).jax())(jnp.ones(3))  # from now on it must not change
    mixed = {"a": tx.zeros(3), "frozen": frozen}
    with pytest.raises(tx.AutogradError, match="constant"):
        load_state_dict(mixed, {"a": torch.ones(3), "frozen": torch.ones(3)})
    assert mixed["a"].tolist() == [0.0] * 3


def test_what_state_dicts_refuse():
    with pytest.raises(tx.ArgumentTypeError, match=r"'a'.*PyTorch tensor(.|\n)*'b'"):
        state_dict_from_torch({"a": 3, "b": np.ones(2), "c": torch.ones(1)})
    with pytest.raises(tx.ArgumentTypeError, match=r"'a'.*Tensor(.|\n)*3"):
        state_dict_to_torch({"a": "x", 3: tx.ones(1)})
    for fn in (state_dict_from_torch, state_dict_to_torch):
        with pytest.raises(tx.ArgumentTypeError, match="dict"):
            fn([torch.ones(1)])
    with pytest.raises(tx.ArgumentTypeError, match="by name"):
        load_state_dict({"a": 3}, {"a": torch.ones(1)})
    with pytest.raises(tx.ArgumentTypeError, match="dict"):
        load_state_dict(tx.ones(1), {"a": torch.ones(1)})
    with pytest.raises(tx.ArgumentTypeError, match="dict"):
        load_state_dict({"a": tx.ones(1)}, 3)


# -- without PyTorch ----------------------------------------------------------------------------


def test_the_missing_package_names_the_extra(monkeypatch):
    for name in [n for n in sys.modules if n.startswith(("torsh_fx.interop", "torch.")) or n == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return real(name, *args, **kwargs)

    class Gone:
        def find_spec(self, name: str, *args: Any) -> None:
            if name.partition(".")[0] == "torch":
                raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(sys, "meta_path", [Gone(), *sys.meta_path])
    with pytest.raises(ImportError, match=r"torsh_fx\[torch\]"):
        importlib.import_module("torsh_fx.interop.torch")


def test_the_bridge_says_what_it_has():
    assert all(callable(getattr(bridge, name)) for name in bridge.__all__)
