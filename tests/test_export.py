"""Artefacts: bit for bit what the tape gives, also in a process without this package; and what cannot leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export as jax_export

import torsh_fx as tx
from torsh_fx import artefact

F = tx.nn.functional
pytest.importorskip("flatbuffers")


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.standard_normal(shape).astype(dtype)


W = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)


def net(x: tx.Tensor) -> tx.Tensor:
    """Reads a weight from outside, a shape, and rearranges."""
    hidden = F.gelu(x @ tx.tensor(W))
    return F.log_softmax(hidden.reshape(x.shape[0], -1), 1)


def image(x: tx.Tensor) -> tx.Tensor:
    kernel = tx.tensor(np.random.default_rng(1).standard_normal((4, 1, 3, 3)).astype(np.float32))
    return F.max_pool2d(F.relu(F.conv2d(x, kernel, padding=1)), 2).flatten(1).mean(1)


def attention(x: tx.Tensor) -> tx.Tensor:
    q = x.reshape(x.shape[0], 2, 4).permute(0, 1, 2)
    return F.layer_norm(F.scaled_dot_product_attention(q, q * 2, q + 1), (4,)).sum((1, 2))


def same(got: Any, want: Any) -> None:
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


# -- round trips ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (net, (numbers(4, 8),)),
        (image, (numbers(2, 1, 8, 8),)),
        (attention, (numbers(3, 8),)),
        (lambda a: {"least": a["x"].argmin(1), "sum": [a["x"].double().sum(), a["i"] + 1]}, None),
        (lambda x: tx.linalg.cholesky(x @ x.T + 8 * tx.eye(4)), (numbers(4, 4),)),
    ],
    ids=["net", "image", "attention", "containers", "cholesky"],
)
def test_bit_for_bit(fn: Any, args: Any) -> None:
    args = args or ({"x": numbers(2, 3), "i": np.arange(3)},)
    tape = tx.record(fn)(*jax.tree.map(tx.tensor, args))
    platforms = ("cpu",) if "cholesky" in str(tape) else ("cpu", "cuda", "tpu")
    made = tape.export(platforms=platforms)
    read = tx.load_export(made.serialize())
    with jax.enable_x64(True):
        want = jax.jit(tape.as_jax())(*args)
    same(made(*args), want)
    same(read(*args), want)
    assert read.platforms == platforms == tuple(read.jax.platforms)
    assert read.needs_x64 == any("64" in text for text in (*read.about["inputs"], *read.about["outputs"]))
    assert repr(read) == repr(made)


def test_tensors_in_tensors_out() -> None:
    made = tx.export(net, tx.tensor(numbers(4, 8)))
    x = tx.tensor(numbers(4, 8))
    out = made(x)
    assert isinstance(out, tx.Tensor)
    assert not out.requires_grad
    np.testing.assert_array_equal(out.numpy(), np.asarray(made(x.detach().jax())))


def test_gradients_leave_too() -> None:
    tape = tx.record(lambda x: (net(x) * net(x)).sum())(tx.tensor(numbers(4, 8)))
    x = jnp.asarray(numbers(4, 8))
    read = tx.load_export(tape.export(vjp_order=2).serialize()).jax
    same(jax.jit(jax.grad(read.call))(x), jax.jit(jax.grad(tape.as_jax()))(x))

    def twice(f: Any) -> Any:
        return jax.grad(lambda v: jnp.sum(jax.grad(f)(v) ** 2))

    np.testing.assert_allclose(twice(read.call)(x), twice(tape.as_jax())(x), rtol=1e-4, atol=1e-5)
    first = jax_export.deserialize(bytearray(tape.export(vjp_order=1).serialize()))
    with pytest.raises(ValueError, match="VJP"):
        twice(first.call)(x)


def test_on_tensors_that_require_grad() -> None:
    """An artefact is in the graph, or says that it has no gradient; it never drops one."""

    def energy(x: tx.Tensor) -> tx.Tensor:
        return (x**3).sum()

    at = tx.tensor([1.0, 2.0])
    for order in (1, 2):
        made = tx.export(energy, at, vjp_order=order)
        for program in (made, tx.load_export(made.serialize())):
            x = tx.tensor([1.0, 2.0], requires_grad=True)
            (2 * program(x * 1)).backward()
            assert x.grad is not None
            assert x.grad.tolist() == [6.0, 24.0]
            assert tx.grad(program)(at).tolist() == [3.0, 12.0]
            assert tx.jit(program)(x).item() == 9.0
            with tx.no_grad():
                assert not program(x).requires_grad
    (first,) = tx.autograd.grad(program(x), x, create_graph=True)
    assert tx.autograd.grad(first.sum(), x)[0].tolist() == [6.0, 12.0]

    bare = tx.export(energy, at)
    for program in (bare, tx.load_export(bare.serialize())):
        with pytest.raises(tx.AutogradError, match=r"without gradients.*vjp_order=1"):
            program(x)
        assert program(x.detach()).item() == 9.0
        with tx.no_grad():
            assert program(x).item() == 9.0
    with pytest.raises(tx.AutogradError, match="without gradients"):
        tx.grad(program)(at)


@pytest.mark.parametrize("args", [(), (tx.ones(3),), (tx.ones(2, dtype="float64"),), (jnp.ones(3),), (tx.ones(2),) * 2])
def test_other_arguments_are_refused_in_our_words(args: Any) -> None:
    with pytest.raises(tx.ArgumentValueError, match=r"takes float32\[2\]"):
        tx.export(lambda x: x * 2, tx.ones(2))(*args)


def test_constants_are_frozen_or_arguments() -> None:
    w = tx.tensor(W, requires_grad=True)
    x = numbers(2, 8)
    tape = tx.record(lambda x: x @ w)(tx.tensor(x))
    frozen, open_ = tape.export(), tape.export(constants=True)
    assert open_.about["constants"] == ["float32[8, 3]"]
    with tx.no_grad():
        w *= 2  # exporting has not frozen the parameter itself
    np.testing.assert_allclose(frozen(x), x @ W, rtol=1e-6)
    np.testing.assert_allclose(open_([3 * W], x), x @ (3 * W), rtol=1e-6)
    np.testing.assert_allclose(tape.export()(x), x @ (2 * W), rtol=1e-6)
    of_function = tx.export(lambda x: x @ w, tx.tensor(x))
    with tx.no_grad():
        w.zero_()
    np.testing.assert_allclose(of_function(x), x @ (2 * W), rtol=1e-6)


# -- open extents ---------------------------------------------------------------------------


OPEN: dict[str, tuple[Any, tuple[int, ...]]] = {
    "net": (net, (8,)),
    "image": (image, (1, 8, 8)),
    "attention": (attention, (8,)),
    "mean": (lambda x: x.mean() + x.sum() / x.shape[0], (8,)),
    "loss": (lambda x: F.cross_entropy(x, x.argmax(1)), (8,)),
    "batch statistics": (lambda x: F.batch_norm(x, None, None, training=True).std(0), (8,)),
    "slices": (lambda x: x[1:-1, 2:-2].flatten() * 2, (8,)),
    "last": (lambda x: x[-2:] + x[:2], (8,)),
    "cat": (lambda x: tx.cat([x, x * 2], 0).cumsum(0), (8,)),
    "zeros": (lambda x: x + tx.ones(x.shape[0], 1) + tx.full((x.shape[0], 8), 2.0), (8,)),
    "numel": (lambda x: x * x.numel() / x.size(0), (8,)),
    "gradient": (lambda x: tx.grad(lambda w: (x @ w).relu().mean())(tx.tensor(W)), (8,)),
    "backward": (lambda x: _by_backward(x), (8,)),
}


def _by_backward(x: tx.Tensor) -> Any:
    w = tx.tensor(W).clone().requires_grad_()
    (x @ w).tanh().mean().backward()
    return w.grad


@pytest.mark.parametrize("name", OPEN)
def test_any_batch_size(name: str) -> None:
    fn, rest = OPEN[name]
    source = tx.tensor(numbers(4, *rest))
    open_ = {"shapes": "batch, ...", "constraints": ["batch >= 2"]}
    made = tx.export(fn, source, **open_) if name == "gradient" else tx.record(fn)(source).export(**open_)
    made = tx.load_export(made.serialize())
    assert "batch" in made.about["inputs"][0]
    for n in (2, 5, 7):
        x = numbers(n, *rest)
        want = fn(tx.tensor(x)).detach().numpy()
        got = np.asarray(made(x))
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)


def test_two_open_extents_with_the_gradient() -> None:
    def f(x: tx.Tensor, w: tx.Tensor) -> tx.Tensor:
        return ((x @ w) ** 2).mean()

    example = (tx.tensor(numbers(2, 3)), tx.tensor(numbers(3, 4)))
    made = tx.export(f, *example, shapes=("b, k", "k, ..."), vjp_order=1, platforms=["cpu"])
    x, w = numbers(5, 6), numbers(6, 4)
    plain = jax.grad(lambda x, w: jnp.mean((x @ w) ** 2), (0, 1))(x, w)
    for a, b in zip(jax.grad(made.jax.call, (0, 1))(x, w), plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    with pytest.raises(ValueError, match="k"):
        made(numbers(5, 6), numbers(7, 4))


@pytest.mark.parametrize(
    ("fn", "match"),
    [
        (lambda x: x[:3], "constraints=.*batch"),
        (lambda x: x.view(32), "shapes=|elements"),
        (lambda x: x * 2 if x.shape[0] > 3 else x, "constraints=.*batch"),
        (lambda x: x * float(x.shape[0]), "shapes=.*float"),
    ],
)
def test_what_an_open_extent_cannot_do(fn: Any, match: str) -> None:
    with pytest.raises(tx.TorshError, match=f"(?s){match}"):
        tx.export(fn, tx.tensor(numbers(4, 8)), shapes="batch, ...")
    assert tx.export(fn, tx.tensor(numbers(4, 8))) is not None


def test_a_tape_of_a_block_has_its_extents_in_it() -> None:
    x = tx.tensor(numbers(4, 8))
    with tx.record(inputs=[x]) as tape:
        x.sum() / x.shape[0]
    with pytest.raises(tx.ArgumentValueError, match=r"baked.*torsh_fx\.export"):
        tape.export(shapes="batch, ...")
    same(tape.export()(x.jax()), jax.jit(tape.as_jax())(x.jax()))


# -- 64 bits --------------------------------------------------------------------------------


def test_sixty_four_bits_are_said_or_narrowed() -> None:
    def f(x: tx.Tensor, i: tx.Tensor) -> Any:
        return {"out": (x * 3).cumsum(0), "best": x.argmax(), "same": i.flip(0), "mask": (x > 0).int()}

    x, i = numbers(5, dtype=np.float64), np.array([1, -2, 3])
    tape = tx.record(f)(tx.tensor(x), tx.tensor(i))
    wide = tape.export()
    assert wide.needs_x64
    assert "jax_enable_x64" in repr(wide)
    small = tx.load_export(tape.export(narrow=True, vjp_order=1).serialize())
    assert not small.needs_x64
    assert small.about["inputs"] == ["float32[5]", "int32[3]"]
    got = small(x.astype(np.float32), i.astype(np.int32))
    assert {k: v.dtype.name for k, v in got.items()} == {
        "best": "int32",
        "mask": "int32",
        "out": "float32",
        "same": "int32",
    }
    want = wide(x.astype(np.float32).astype(np.float64), i)  # computed as written, rounded once
    same(got, jax.tree.map(lambda a: a.astype(a.dtype.name.replace("64", "32")), want))


@pytest.mark.parametrize("fn", [lambda i: i.sum(), lambda i: i * 2, lambda i: (i > 0).sum()])
def test_integers_that_may_not_fit(fn: Any) -> None:
    with pytest.raises(tx.AutogradError, match=r"narrow=True: result 0 is int64.*cast"):
        tx.export(fn, tx.tensor([1, 2]), narrow=True)
    made = tx.export(lambda i: fn(i).int(), tx.tensor([1, 2]), narrow=True)
    assert made(np.array([3, 4], np.int32)).dtype == np.int32


# -- files ----------------------------------------------------------------------------------


def test_files(tmp_path: Path) -> None:
    made, x = tx.export(net, tx.tensor(numbers(4, 8)), shapes="batch, ..."), numbers(3, 8)
    path = tmp_path / "net.jax"
    made.save(path)
    assert os.listdir(tmp_path) == ["net.jax"]
    same(tx.load_export(path)(x), made(x))
    same(tx.load_export(str(path))(x), made(x))
    same(jax_export.deserialize(bytearray(path.read_bytes())).call(x), made(x))


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tx.export(net, tx.tensor(numbers(4, 8)))
    path = tmp_path / "net.jax"
    made.save(path)
    before = path.read_bytes()

    def fails(*args: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(artefact.os, "fsync", fails)
    with pytest.raises(OSError, match="no space"):
        tx.export(lambda x: x * 2, tx.tensor(numbers(4, 8))).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["net.jax"]


def test_damaged_files() -> None:
    data = tx.export(net, tx.tensor(numbers(4, 8)), platforms=["cpu"]).serialize()
    assert tx.load_export(data).platforms == ("cpu",)
    for cut in (0, 1, 10, len(data) // 2, len(data) - 1):
        with pytest.raises(tx.ArgumentValueError, match="cut short"):
            tx.load_export(data[:cut])
    for at in (0, 100, len(data) // 2):
        broken = bytearray(data)
        broken[at] ^= 1
        with pytest.raises(tx.ArgumentValueError, match="damaged"):
            tx.load_export(broken)
    with pytest.raises(tx.ArgumentValueError, match="damaged"):
        tx.load_export(data[1:])


def test_a_newer_format_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tx.export(net, tx.tensor(numbers(4, 8)))
    made.about["format"] = artefact.FORMAT + 1
    with pytest.raises(tx.ArgumentValueError, match=r"format 2.*up to format 1.*upgrade"):
        tx.load_export(made.serialize())


def test_without_flatbuffers(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tx.export(net, tx.tensor(numbers(4, 8)))
    data = made.serialize()
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    for call in (made.serialize, lambda: tx.load_export(data)):
        with pytest.raises(ImportError, match=r"flatbuffers.*torsh_fx\[export\]"):
            call()
    assert made(numbers(4, 8)).shape == (4, 3)  # only bytes need it


# -- what cannot leave ----------------------------------------------------------------------


def test_what_cannot_leave() -> None:
    x = tx.tensor(numbers(4, 8))
    calls_back = tx.custom_op("back", lambda a: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(a.shape, a.dtype), a))
    bare = tx.custom_op("bare", lambda a: a * 2)
    for fn, options, match in (
        (lambda x: F.dropout(x, 0.5), {}, "(rand|dropout|random_uniform).*training=False"),
        (lambda x: x + tx.randn(8), {}, "randn|random_normal"),
        (calls_back, {}, "Python"),
        (bare, {"vjp_order": 1}, "bare.*derivative|derivative.*bare"),
    ):
        with pytest.raises(tx.AutogradError, match=match):
            tx.export(fn, x, **options)
        with pytest.raises(tx.AutogradError, match=match):
            tx.record(fn)(x).export(**options)
    with pytest.raises(tx.AutogradError, match="read inside"):
        tx.export(lambda x: x * x.sum().item(), x)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: tx.export(3, x), TypeError, "function.*int"),
        (lambda x: tx.export(net, 3.0), TypeError, "Tensors or arrays.*float"),
        (lambda x: tx.export(lambda x: 3, x), TypeError, "must return Tensors.*int"),
        (lambda x: tx.export(net, x, platforms="cpu"), ValueError, "platforms.*'cpu'"),
        (lambda x: tx.export(net, x, platforms=["abacus"]), ValueError, "abacus"),
        (lambda x: tx.export(net, x, vjp_order=-1), ValueError, "vjp_order.*-1"),
        (lambda x: tx.export(net, x, shapes="a, b, c"), ValueError, r"\[a, b, c\].*\[4, 8\]"),
        (lambda x: tx.export(net, x, shapes="a, 9"), ValueError, "'a, 9'"),
        (lambda x: tx.export(net, x, shapes="a,, +"), ValueError, "shapes 'a,, \\+'"),
        (lambda x: tx.record(net)(x).export(shapes="a, ...", constants=True), ValueError, "constants"),
        (lambda x: tx.load_export(3), TypeError, "path or bytes.*int"),
        (lambda x: tx.load_export("/nowhere/net.jax"), FileNotFoundError, "nowhere"),
    ],
)
def test_bad_input(call: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        call(tx.tensor(numbers(4, 8)))


# -- a process with bare JAX ----------------------------------------------------------------


def test_bare_jax(tmp_path: Path) -> None:
    """Import of this package is made impossible there; the numbers are the same, bit for bit."""
    x = numbers(3, 8)
    tape = tx.record(lambda x: (net(x), (net(x) ** 2).mean()))(tx.tensor(numbers(4, 8)))
    tape.export(shapes="batch, ...", vjp_order=1).save(tmp_path / "net.jax")
    wide = tx.export(lambda x: x.double().sum(), tx.tensor(x))
    wide.save(tmp_path / "wide.jax")
    np.save(tmp_path / "x.npy", x)
    script = """
        import json, sys
        sys.modules["torsh_fx"] = None
        import jax, numpy as np
        from jax import export
        read = lambda name: export.deserialize(bytearray(open(name, "rb").read()))
        f, x = read("net.jax"), np.load("x.npy")
        gradient = jax.grad(lambda x: f.call(x)[1])(x)
        try:
            import torsh_fx
        except ImportError:
            hidden = True
        print(json.dumps([hidden, *(np.asarray(v).tolist() for v in (*f.call(x), gradient))]))
        np.save("sum.npy", read("wide.jax").call(x)) if jax.config.jax_enable_x64 else None
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith("XLA_FLAGS")} | {"JAX_ENABLE_X64": "1"}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    hidden, out, loss, gradient = json.loads(done.stdout.splitlines()[-1])
    assert hidden
    made = tx.load_export(tmp_path / "net.jax")
    np.testing.assert_allclose(out, made(x)[0], rtol=1e-6)
    np.testing.assert_allclose(loss, made(x)[1], rtol=1e-6)
    np.testing.assert_allclose(gradient, jax.grad(lambda x: made.jax.call(x)[1])(x), rtol=1e-5, atol=1e-7)
    assert np.load(tmp_path / "sum.npy") == np.asarray(wide(x))
