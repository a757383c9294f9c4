"""Checkpoints: exact, readable by others, whole or not at all, and never a half-loaded model."""

from __future__ import annotations

import builtins
import importlib
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import torsh_fx as tx

pytest.importorskip("safetensors")

import safetensors.numpy as st_numpy
from torsh_fx.interop import safetensors as st

NAMES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]


def every_dtype() -> dict[str, tx.Tensor]:
    out = {}
    for name in NAMES:
        base = tx.tensor([0, 1, 2, 3, 4, 5]).to(name)
        out[f"{name}.matrix"] = base.reshape(2, 3)
        out[f"{name}.view"] = base.reshape(2, 3).T
        out[f"{name}.scalar"] = base[1]
        out[f"{name}.empty"] = base[:0].reshape(0, 4)
    out["float64.fine"] = tx.tensor([1 + 2.0**-50, float("nan"), float("-inf"), -0.0], dtype=tx.float64)
    out["int64.large"] = tx.tensor([2**62 + 1, -(2**63)])
    out["pending"] = tx.ones(3) * 2
    out["result"] = tx.ones(3, requires_grad=True) * 2
    return out


def same(a: Any, b: Any) -> bool:
    a, b = (t.detach().numpy() if isinstance(t, tx.Tensor) else np.asarray(t) for t in (a, b))
    return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())


@pytest.mark.parametrize("x64", [False, True])
def test_round_trip_is_exact(tmp_path, x64):
    with jax.enable_x64(x64):
        tensors = every_dtype()
        st.save_file(tensors, tmp_path / "a", metadata={"by": "us", "ü": "é"})
        back = st.load_file(str(tmp_path / "a"))
        assert set(back) == set(tensors)
        assert all(same(back[name], t) for name, t in tensors.items())
        assert not any(t.requires_grad for t in back.values())
        assert st.metadata(tmp_path / "a") == {"by": "us", "ü": "é"}
        own = {name: tx.zeros_like(t.detach()) for name, t in tensors.items()}
        st.load_into(own, tmp_path / "a")
        assert all(same(own[name], t) for name, t in tensors.items())
        like = st.load(tmp_path / "a", like=own)
        assert all(same(like[name], t) for name, t in tensors.items())


def test_files_are_everybodys(tmp_path):
    tensors = {name: t for name, t in every_dtype().items() if not name.startswith("bfloat16")}
    st.save_file(tensors, tmp_path / "ours")
    theirs = st_numpy.load_file(tmp_path / "ours")
    assert all(same(theirs[name], t) for name, t in tensors.items())
    st_numpy.save_file({name: t.detach().numpy().copy() for name, t in tensors.items()}, tmp_path / "theirs")
    back = st.load_file(tmp_path / "theirs")
    assert all(same(back[name], t) for name, t in tensors.items())


def test_files_are_pytorchs(tmp_path):
    torch = pytest.importorskip("torch")
    st_torch = importlib.import_module("safetensors.torch")
    bridge = importlib.import_module("torsh_fx.interop.torch")
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).bfloat16()
    st_torch.save_file(module.state_dict(), tmp_path / "theirs")
    ours = st.load_file(tmp_path / "theirs")
    assert ours["0.weight"].dtype == tx.bfloat16
    assert all(same(ours[name], bridge.from_torch(t)) for name, t in module.state_dict().items())
    st.save({"0": {"weight": ours["0.weight"], "bias": ours["0.bias"]}}, tmp_path / "ours")
    back = st_torch.load_file(tmp_path / "ours")
    assert torch.equal(back["0.weight"], module[0].weight)
    assert torch.equal(back["0.bias"], module[0].bias)


def test_trees_come_back_as_they_were(tmp_path):
    w = tx.tensor([1.0, 2.0], requires_grad=True)
    generator = tx.Generator()
    generator.manual_seed(3)
    tx.rand(2, generator=generator)
    state = {
        "model": {"0.weight": w, "tied": w, "frozen": tx.ones(2, dtype=tx.bfloat16)},
        "optimizer": {
            "step": 12,
            "lr": 0.1,
            "nesterov": True,
            "moments": [(np.arange(3.0), np.float32(2)), jnp.arange(2, dtype=jnp.uint32)],
            "none": None,
            "big": np.arange(3, dtype=">f8"),
            "counts": np.array(5, np.uint64),
        },
        "generator": generator,
    }
    st.save(state, tmp_path / "state")
    like = {"optimizer": state["optimizer"]}
    fresh = tx.zeros(2, requires_grad=True)
    like["model"] = {"0.weight": fresh, "tied": fresh, "frozen": tx.zeros(2, dtype=tx.bfloat16)}
    like["generator"] = tx.Generator()
    back = st.load(tmp_path / "state", like=like)
    assert back["model"]["0.weight"] is back["model"]["tied"]
    assert back["model"]["tied"].requires_grad
    assert back["model"]["tied"].is_leaf
    assert not back["model"]["frozen"].requires_grad
    assert fresh.tolist() == [0.0, 0.0]
    opt = back["optimizer"]
    assert (opt["step"], opt["lr"], opt["none"]) == (12, 0.1, None)
    (moments, two), keys = opt["moments"]
    assert moments.dtype == np.float64
    assert isinstance(two, np.float32)
    assert isinstance(keys, jax.Array)
    assert keys.dtype == jnp.uint32
    assert opt["big"].dtype == np.dtype(">f8")
    assert opt["big"].tolist() == [0.0, 1.0, 2.0]
    assert opt["counts"].item() == 5
    moments[0] = 7  # memory of its own
    assert tx.rand(3, generator=back["generator"]).tolist() == tx.rand(3, generator=generator).tolist()
    names = set(st_numpy.load_file(tmp_path / "state"))
    assert {"model.0.weight", "optimizer.moments.0.1", "optimizer.step"} <= names


def test_an_optax_state_comes_back(tmp_path):
    optax = pytest.importorskip("optax")
    params = {"w": tx.ones(3), "b": [tx.zeros(2)]}
    arrays = jax.tree.map(lambda t: t.jax(), params, is_leaf=lambda t: isinstance(t, tx.Tensor))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(0.1, 10)))
    fresh = optimizer.init(arrays)
    _, state = optimizer.update(jax.tree.map(jnp.ones_like, arrays), fresh, arrays)
    st.save({"params": params, "state": state}, tmp_path / "o")
    back = st.load(tmp_path / "o", like={"params": params, "state": fresh})
    assert jax.tree.structure(back["state"]) == jax.tree.structure(state)
    assert all(same(a, b) for a, b in zip(jax.tree.leaves(back["state"]), jax.tree.leaves(state), strict=True))
    assert any("mu" in name for name in st_numpy.load_file(tmp_path / "o"))


def test_kinds_of_numbers_are_kept(tmp_path):
    st.save({"a": True, "b": 2**63 - 1, "c": float("inf")}, tmp_path / "n")
    back = st.load(tmp_path / "n", like={"a": False, "b": 0, "c": 0.0})
    assert (back["a"], back["b"], back["c"]) == (True, 2**63 - 1, float("inf"))
    assert [type(x) for x in back.values()] == [bool, int, float]
    with pytest.raises(tx.ArgumentValueError, match=r"'a' must be int64\[\], is bool\[\]"):
        st.load(tmp_path / "n", like={"a": 0, "b": 0, "c": 0.0})


def test_devices_are_those_of_like(tmp_path):
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices()[:2])
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    spread = tx.as_tensor(jax.device_put(jnp.arange(4.0), sharding))
    st.save({"w": spread, "v": tx.ones(2, device="cpu:1")}, tmp_path / "s")
    back = st.load(tmp_path / "s", like={"w": spread, "v": tx.zeros(2, device="cpu:1")})
    assert back["w"].jax().sharding == spread.jax().sharding
    assert back["v"].device == jax.devices()[1]
    twin = tx.as_tensor(jax.device_put(jnp.zeros(4), sharding))
    st.load_into({"w": twin, "v": tx.zeros(2, device="cpu:1")}, tmp_path / "s")
    assert twin.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert twin.jax().sharding == spread.jax().sharding


# -- all or nothing, in memory ------------------------------------------------------------


def test_a_file_that_does_not_fit_changes_nothing(tmp_path):
    st.save(
        {"w": tx.ones(3, 2), "b": tx.ones(3, dtype=tx.float64), "other": tx.ones(1), "fine": tx.ones(2)}, tmp_path / "f"
    )
    own = {"w": tx.zeros(2, 3, requires_grad=True), "b": tx.zeros(3), "n": tx.zeros(1), "fine": tx.zeros(2)}
    for attempt in (lambda: st.load_into(own, tmp_path / "f"), lambda: st.load(tmp_path / "f", like=own)):
        with pytest.raises(tx.ArgumentValueError) as caught:
            attempt()
        for words in (
            "'n' is missing",
            "'other'",
            "unexpected",
            "'w' must be float32[2, 3], is float32[3, 2]",
            "'b' must be float32[3], is float64[3]",
        ):
            assert words in str(caught.value)
        assert "fine" not in str(caught.value)
    assert not any(t.detach().numpy().any() for t in own.values())


def test_a_tensor_that_cannot_be_written_leaves_the_others(tmp_path):
    st.save({"a": tx.ones(3), "b": tx.ones(3)}, tmp_path / "f")
    frozen = tx.zeros(3)
    jax.jit(lambda x: (tx.as_tensor(x) + frozen).jax())(jnp.ones(3))
    own = {"a": tx.zeros(3), "b": frozen}
    with pytest.raises(tx.AutogradError, match="constant"):
        st.load_into(own, tmp_path / "f")
    assert own["a"].tolist() == [0.0] * 3


def test_in_place_means_in_place(tmp_path):
    st.save({"w": tx.arange(6.0).reshape(2, 3)}, tmp_path / "f")
    w = tx.zeros(2, 3, requires_grad=True)
    row, before = w.detach()[0], w.detach().numpy()
    (w * 2).sum().backward()
    st.load_into({"w": w}, tmp_path / "f")
    assert w.is_leaf
    assert w.grad is not None
    assert row.tolist() == [0.0, 1.0, 2.0]
    assert not before.any()
    (w * w).sum().backward()
    assert w.grad.tolist() == [[2.0, 4.0, 6.0], [8.0, 10.0, 12.0]]
    tied = {"a": w, "b": w}
    st.save({"a": tx.ones(2, 3), "b": tx.zeros(2, 3)}, tmp_path / "g")
    for attempt in (lambda: st.load_into(tied, tmp_path / "g"), lambda: st.load(tmp_path / "g", like=tied)):
        with pytest.raises(tx.ArgumentValueError, match=r"one Tensor.*differ"):
            attempt()
    st.save(tied, tmp_path / "g")
    st.load_into(tied, tmp_path / "g")
    assert w[1, 2].item() == 5.0


# -- broken files -----------------------------------------------------------------------------


def test_truncated_and_corrupt_files(tmp_path):
    path = tmp_path / "f"
    st.save({"w": tx.arange(100.0), "b": tx.ones(3)}, path, metadata={"a": "b"})
    whole = path.read_bytes()
    own = {"w": tx.zeros(100), "b": tx.zeros(3)}
    header = int.from_bytes(whole[:8], "little")
    broken = [whole[:n] for n in (0, 1, 7, 8, 9, 8 + header - 1, 8 + header, len(whole) - 1)]
    broken += [whole + b"x", b"\xff" * 8 + whole[8:], whole.replace(b"F32", b"F99"), whole.replace(b"[100]", b"[101]")]
    broken += [b"not a checkpoint at all", whole[:8] + b"\0" * header + whole[8 + header :]]
    for data in broken:
        path.write_bytes(data)
        for attempt in (
            lambda: st.load_file(path),
            lambda: st.load(path, like=own),
            lambda: st.load_into(own, path),
            lambda: st.metadata(path),
        ):
            with pytest.raises((tx.ArgumentValueError, tx.ArgumentTypeError), match=r"\[\w+\].*f'"):
                attempt()
    assert not own["w"].numpy().any()


def test_no_file_at_all(tmp_path):
    own = {"w": tx.zeros(2)}
    readers = (st.load_file, st.metadata, lambda p: st.load(p, like=own), lambda p: st.load_into(own, p))
    for read in readers:
        with pytest.raises(FileNotFoundError, match="nowhere"):
            read(tmp_path / "nowhere")
        with pytest.raises(OSError, match=str(tmp_path)):
            read(tmp_path)
        with pytest.raises(tx.ArgumentTypeError, match=r"path.*Path"):
            read(3)
    with pytest.raises(FileNotFoundError):
        st.save(own, tmp_path / "no" / "folder")
    with pytest.raises(tx.ArgumentTypeError, match="path"):
        st.save(own, None)
    with pytest.raises(OSError, match=str(tmp_path)):
        st.save(own, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_dtypes_that_are_not_ours(tmp_path):
    st_numpy.save_file({"k": np.zeros(2, np.uint32), "l": np.zeros(2, np.uint64), "m": np.zeros(1)}, tmp_path / "f")
    with pytest.raises(tx.ArgumentTypeError, match=r"'k' is uint32, 'l' is uint64"):
        st.load_file(tmp_path / "f")
    with pytest.raises(tx.ArgumentValueError, match="'k' must be int32"):
        st.load_into({"k": tx.zeros(2, dtype=tx.int32), "l": tx.zeros(2), "m": tx.zeros(1)}, tmp_path / "f")
    st_numpy.save_file({"k": np.zeros(2, ml_dtypes.float8_e4m3fn)}, tmp_path / "g")
    with pytest.raises(tx.ArgumentTypeError, match=r"'k' is F8_E4M3"):
        st.load_file(tmp_path / "g")


def test_what_cannot_be_saved(tmp_path):
    bad = {
        "text": "a",
        "complex": np.zeros(2, np.complex64),
        "key": jax.random.key(0),
        "object": np.array([object()]),
        "fine": 1,
        "thing": object(),
    }
    with pytest.raises(tx.ArgumentTypeError) as caught:
        st.save(bad, tmp_path / "f")
    assert all(f"'{name}'" in str(caught.value) for name in bad if name != "fine")
    assert "'fine'" not in str(caught.value)
    with pytest.raises(tx.ArgumentValueError, match="64 bits"):
        st.save({"n": 2**63}, tmp_path / "f")
    with pytest.raises(tx.ArgumentValueError, match=r"two leaves have the name 'a\.b'"):
        st.save({"a.b": 1, "a": {"b": 2}}, tmp_path / "f")
    with pytest.raises(tx.ArgumentValueError, match="__metadata__"):
        st.save({"__metadata__": tx.ones(2)}, tmp_path / "f")
    with pytest.raises(tx.ArgumentTypeError, match="take this tree apart"):
        st.save({"a": tx.ones(2), 1: tx.ones(2)}, tmp_path / "f")
    for wrong in (tx.ones(2), 3):
        with pytest.raises(tx.ArgumentTypeError, match="names"):
            st.save(wrong, tmp_path / "f")
    for wrong in (["a"], {"a": 1}, {1: "a"}, "ab"):
        with pytest.raises(tx.ArgumentTypeError, match="metadata"):
            st.save({}, tmp_path / "f", metadata=wrong)
    with pytest.raises(tx.ArgumentTypeError, match=r"'n' is int 3"):
        st.load_into({"n": 3}, tmp_path / "f")
    with pytest.raises(tx.AutogradError, match="read inside"):
        jax.jit(lambda a: st.save({"a": tx.as_tensor(a)}, tmp_path / "f"))(jnp.ones(2))
    st.save({"a": 1}, tmp_path / "g")
    with pytest.raises(tx.ArgumentTypeError, match="'a': str"):
        st.load(tmp_path / "g", like={"a": "x"})
    assert not (tmp_path / "f").exists()


# -- all or nothing, on the disk -------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["replace", "fsync", "write"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=["OSError", "Ctrl-C"])
def test_an_interrupted_write_leaves_the_file(tmp_path, monkeypatch, broken, error):
    path = tmp_path / "f"
    st.save({"w": tx.ones(3)}, path)
    before = path.read_bytes()

    def fails(*args: Any, **kwargs: Any) -> Any:
        raise error

    class Full:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *exc: object) -> None:
            self.file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def write(self, data: bytes) -> None:
            self.file.write(data[: len(data) // 2])
            raise error

    with monkeypatch.context() as patch:
        if broken == "write":
            real = builtins.open
            patch.setattr(builtins, "open", lambda file, mode="r", **more: Full(real(file, mode, **more)))
        else:
            patch.setattr(os, broken, fails)
        with pytest.raises(type(error)):
            st.save({"w": tx.zeros(3)}, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["f"]
    st.save({"w": tx.zeros(3)}, path)
    assert st.load_file(path)["w"].tolist() == [0.0] * 3


KILLED = """
import sys
import numpy as np
from torsh_fx.interop import safetensors as st
print("ready", flush=True)
k = 0
while True:
    k += 1
    st.save({"w": np.full(4_000_000, k, np.int64), "k": k}, sys.argv[1])
"""


def test_a_process_that_is_killed_while_it_writes_leaves_a_whole_file(tmp_path):
    path = tmp_path / "f"
    like = {"w": np.zeros(4_000_000, np.int64), "k": 0}
    st.save({"w": like["w"] - 1, "k": -1}, path)
    cut = 0
    for size in (8_000_000,):
        child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        while not any(_size(p) >= size for p in tmp_path.glob(".f.*.tmp")):
            time.sleep(0.0005)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        back = st.load(path, like=like)
        assert (back["w"] == back["k"]).all()
        for left in tmp_path.glob(".f.*.tmp"):
            cut += 1
            left.unlink()
    assert cut, "no write was cut short"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # it has its name meanwhile
        return -1


def test_links_and_permissions_stay(tmp_path):
    path, link = tmp_path / "f", tmp_path / "link"
    st.save({"k": 1}, path)
    plain = tmp_path / "plain"
    plain.write_text("")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o640)
    link.symlink_to(path)
    st.save({"k": 2}, link)
    assert link.is_symlink()
    assert st.load(path, like={"k": 0})["k"] == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f", "link", "plain"]


def test_the_missing_package_names_the_extra(monkeypatch):
    for name in [n for n in sys.modules if n.startswith(("torsh_fx.interop", "safetensors"))]:
        monkeypatch.delitem(sys.modules, name)

    class Gone:
        def find_spec(self, name: str, *args: Any) -> None:
            if name.partition(".")[0] == "safetensors":
                raise ModuleNotFoundError("No module named 'safetensors'", name="safetensors")

    monkeypatch.setattr(sys, "meta_path", [Gone(), *sys.meta_path])
    with pytest.raises(ImportError, match=r"torsh_fx\[safetensors\]"):
        importlib.import_module("torsh_fx.interop.safetensors")


def test_paths_may_be_bytes_or_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    st.save({"k": 1}, "plain")
    st.save({"k": 2}, b"bytes")
    assert st.load(Path("bytes"), like={"k": 0})["k"] == 2
    assert st.load("plain", like={"k": 0})["k"] == 1
