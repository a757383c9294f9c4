"""NumPy and DLPack: exact or refused, shared only where nobody can write, never changed from outside."""

from __future__ import annotations

import array
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import torsh_fx as tx

BF16 = np.dtype(ml_dtypes.bfloat16)
KINDS = [*map(np.dtype, "float64 float32 float16 int64 int32 int16 int8 uint8 bool".split()), BF16]  # noqa: SIM905


def aligned(n: int, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    """Zeros in memory that JAX can look at."""
    dtype = np.dtype(dtype)
    room = np.zeros(n * dtype.itemsize + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + n * dtype.itemsize].view(dtype)


def forms(dtype: np.dtype[Any]) -> dict[str, np.ndarray[Any, Any]]:
    base = np.array([0, 1, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31]).astype(dtype)
    if dtype == np.int64:
        base[1] = 2**62 + 1
    if dtype == np.float64:
        base[1] = 1 + 2.0**-50
    odd = np.zeros(base.nbytes + 1, np.uint8)[1:].view(dtype)
    odd[:] = base
    read_only = base.copy()
    read_only.flags.writeable = False
    return {
        "plain": base,
        "matrix": base.reshape(3, 4),
        "transposed": base.reshape(3, 4).T,
        "fortran": np.asfortranarray(base.reshape(3, 4)),
        "strided": base[::3],
        "reversed": base[::-1],
        "both": base.reshape(3, 4)[::-1, ::2],
        "broadcast": np.broadcast_to(base[:4], (3, 4)),
        "0-d": base[1:2].reshape(()),
        "empty": base[:0].reshape(0, 3),
        "unaligned": odd,
        "read-only": read_only,
    }


def same(t: tx.Tensor, want: np.ndarray[Any, Any]) -> None:
    got = t.numpy()
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == np.ascontiguousarray(want).tobytes()


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_arrays_are_exact(dtype, x64):
    makers = (tx.tensor, tx.from_numpy, tx.as_tensor, tx.from_dlpack, lambda x: tx.from_dlpack(x, copy=True))
    with jax.enable_x64(x64):
        for form in forms(dtype):
            for make in makers:
                source = forms(dtype)[form]
                want = np.array(source)
                t = make(source)
                if source.flags.writeable:
                    source[...] = 1
                same(t, want)
        t = tx.from_dlpack(forms(dtype)["both"])
        want = forms(dtype)["both"]
        same(t + t, want + want)


@pytest.mark.parametrize("name", [">f8", ">i4", ">f2", ">i8"])
def test_the_other_byte_order_is_turned(name):
    source = np.array([1, 2, 300]).astype(name)
    for make in (tx.tensor, tx.from_numpy, tx.as_tensor, tx.from_dlpack):
        same(make(source), source.astype(source.dtype.newbyteorder("=")))


REFUSED = [
    *(
        np.zeros(2, d)
        for d in ["uint16", "uint32", "uint64", "complex64", "complex128", "U3", "S3", "M8[s]", "longdouble", "object"]
    ),
    np.zeros(2, ml_dtypes.float8_e4m3fn),
    np.zeros(2, [("a", "f4")]),
]


@pytest.mark.parametrize("source", REFUSED, ids=lambda a: str(a.dtype))
@pytest.mark.parametrize("make", [tx.tensor, tx.from_numpy, tx.as_tensor, tx.from_dlpack])
def test_other_dtypes_are_refused(make, source):
    with pytest.raises(tx.ArgumentTypeError):
        make(source)


def test_data_with_a_dtype_keeps_it():
    assert tx.tensor([np.float64(0.1)]).item() == 0.1
    assert tx.tensor([np.float32(1), 2.0]).dtype == tx.float32
    assert tx.tensor([np.int32(1), 2]).dtype == tx.int64
    assert tx.tensor([[np.ones(2, np.int32)]]).dtype == tx.int32
    assert tx.tensor([1.0, [2.0][0]]).dtype == tx.float32
    assert tx.tensor([np.zeros(2), np.zeros(2, np.float32)]).dtype == tx.float64
    assert tx.tensor(memoryview(np.array([0.1]))).item() == 0.1
    assert tx.tensor(array.array("d", [0.1])).item() == 0.1
    assert tx.tensor(bytearray(b"ab")).dtype == tx.uint8
    with pytest.raises(tx.ArgumentTypeError, match="uint16"):
        tx.tensor([np.uint16(1)])


# -- sharing --------------------------------------------------------------------------


def test_copy_false_shares_and_says_where_it_cannot():
    source = aligned(4)
    t = tx.from_dlpack(source, copy=False)
    source[1] = 5
    assert t.tolist() == [0.0, 5.0, 0.0, 0.0]
    assert t.jax().unsafe_buffer_pointer() == source.ctypes.data
    with jax.enable_x64(False):
        assert tx.from_dlpack(aligned(2, np.int64), copy=False).dtype == tx.int64
    bad = forms(np.dtype("float32"))
    for name in ("strided", "reversed", "unaligned", "read-only"):
        with pytest.raises(tx.ArgumentValueError, match=r"\[from_dlpack\].*memory"):
            tx.from_dlpack(bad[name], copy=False)


def test_shared_memory_is_never_written_over():
    source = aligned(1000, np.float32)
    p = tx.from_dlpack(source, copy=False)
    q = tx.from_dlpack(source, copy=False)
    for step in range(4):
        p += 1 + step
        assert p[0].item() == (1 + step) * (2 + step) / 2
    assert not source.any()
    assert not q.numpy().any()


def test_arrays_of_jax_and_tensors_are_shared():
    a = jnp.arange(4.0)
    assert tx.from_dlpack(a).jax() is a
    assert tx.from_dlpack(tx.as_tensor(a)).jax() is a
    twin = tx.from_dlpack(a, copy=True)
    assert twin.jax().unsafe_buffer_pointer() != a.unsafe_buffer_pointer()
    t = tx.ones(3)
    u = tx.from_dlpack(t)
    t += 1
    assert u.tolist() == [1.0, 1.0, 1.0]


def test_a_tracer_passes():
    assert jax.jit(lambda a: tx.from_dlpack(a, copy=True).jax() * 2)(jnp.ones(2)).tolist() == [2.0, 2.0]
    source = np.arange(3.0)
    doubled = jax.jit(lambda a: (tx.from_dlpack(source) * tx.as_tensor(a)).jax())
    assert doubled(jnp.ones(3)).tolist() == [0.0, 1.0, 2.0]


def test_device():
    t = tx.from_dlpack(np.arange(3.0), device="cpu:1")
    assert t.device == jax.devices()[1]
    assert t.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(tx.ArgumentValueError, match="abacus"):
        tx.from_dlpack(np.arange(3.0), device="abacus")


# -- going out ----------------------------------------------------------------------------


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("dtype", [d for d in KINDS if d != BF16], ids=str)
def test_numpy_takes_what_is_pending(dtype, x64):
    with jax.enable_x64(x64):
        base = tx.tensor(np.arange(6).reshape(2, 3).astype(dtype))
        for t in (base, base.T, base[1:, ::2], base[0, 0], base[:0], base * base):
            for copy in (None, True, False):
                out = np.from_dlpack(t, copy=copy)
                assert out.dtype == dtype
                np.testing.assert_array_equal(out, t.numpy(), strict=True)


def test_bfloat16_and_jax():
    t = tx.tensor([1.0, 2.5], dtype=tx.bfloat16)
    with jax.enable_x64(True):
        assert jax.dlpack.from_dlpack(t).tolist() == [1.0, 2.5]
    assert np.asarray(t).dtype == BF16
    same(tx.from_numpy(np.asarray(t)), np.asarray(t))


def test_device_of_memory():
    assert tx.ones(2).__dlpack_device__() == (1, 0)
    assert (tx.ones(2) * 2).__dlpack_device__()[0] == 1


def test_an_export_outlives_writes_and_donations():
    p = tx.ones(1000, dtype=tx.float64)
    shared = np.from_dlpack(p, copy=False)
    assert shared.ctypes.data == p.jax().unsafe_buffer_pointer()
    for _ in range(3):
        p *= 2
        p.sum().item()
    assert (shared == 1).all()
    assert p[0].item() == 8.0


def test_an_alias_of_an_export_is_not_given_away():
    p = tx.ones(1000)
    shared = np.from_dlpack(p, copy=False)
    twin = p.clone()
    same_place = p.reshape(10, 100).reshape(1000)
    twin.tolist(), same_place.tolist()
    del p
    for _ in range(3):
        twin += 1
        same_place.mul_(3)
        twin.sum().item(), same_place.sum().item()
    assert (shared == 1).all()


def test_what_cannot_go_out():
    x = tx.ones(2, requires_grad=True)
    for t in (x, x * 2):
        with pytest.raises(tx.AutogradError, match=r"__dlpack__.*detach"):
            np.from_dlpack(t)
        with pytest.raises(tx.AutogradError, match="requires grad"):
            tx.from_dlpack(t)
    assert np.from_dlpack(x.detach()).tolist() == [1.0, 1.0]
    with pytest.raises(tx.ArgumentTypeError, match="copy"):
        tx.ones(2).__dlpack__(copy="yes")
    with pytest.raises(tx.ArgumentValueError, match="exported"):
        tx.ones(2).__dlpack__(dl_device=(2, 0))

    def inside(a: Any) -> Any:
        np.from_dlpack(tx.as_tensor(a))

    with pytest.raises(tx.AutogradError, match="no memory yet"):
        jax.jit(inside)(jnp.ones(2))
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices()[:2])
    spread = jax.device_put(jnp.ones(4), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d")))
    with pytest.raises(tx.ArgumentValueError, match=r"__dlpack"):
        np.from_dlpack(tx.as_tensor(spread))


def test_an_export_is_a_read_on_a_tape():
    def fn(t: Any) -> Any:
        np.from_dlpack(t * 2)
        return t * 3

    with pytest.warns(UserWarning, match="read while recording"):
        tx.record(fn)(tx.ones(2))


def test_array_protocol():
    t = tx.tensor([1.5, 2.5])
    view = np.asarray(t)
    assert not view.flags.writeable
    assert np.shares_memory(view, t.numpy())
    own = np.array(t)
    own[0] = 9
    assert t.tolist() == [1.5, 2.5]
    assert np.asarray(t, copy=False).ctypes.data == view.ctypes.data
    assert np.asarray(t, dtype=np.float64).tolist() == [1.5, 2.5]
    assert np.asarray(t, dtype=np.float32, copy=True).flags.writeable
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(t, dtype=np.float64, copy=False)
    with pytest.raises(tx.AutogradError, match="requires grad"):
        np.asarray(tx.ones(2, requires_grad=True))
    assert np.asarray(t * 2 + 1).tolist() == [4.0, 6.0]


def test_what_does_not_speak_dlpack():
    for x in (3, [1.0], "a", None, object()):
        with pytest.raises(tx.ArgumentTypeError, match=r"from_dlpack.*__dlpack__"):
            tx.from_dlpack(x)
    with pytest.raises(tx.ArgumentTypeError, match="copy"):
        tx.from_dlpack(np.ones(1), copy=1)

    class Broken:
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("gone")

        def __dlpack_device__(self) -> Any:
            return (1, 0)

    with pytest.raises(tx.ArgumentTypeError, match=r"Broken.*gone"):
        tx.from_dlpack(Broken())


def test_a_compiled_step_does_not_freeze_memory():
    source = np.ones(2)

    @tx.compile
    def step(x: Any) -> Any:
        return x + tx.from_dlpack(source)

    for k in range(4):
        source[:] = k
        assert step(tx.zeros(2, dtype=tx.float64)).tolist() == [k, k]


# -- PyTorch's memory, seen without the bridge ------------------------------------------------


def test_torch_writes_do_not_reach_us():
    torch = pytest.importorskip("torch")
    for make in (tx.from_dlpack, tx.tensor, tx.as_tensor):
        theirs = torch.ones(100)
        t = make(theirs)
        theirs.fill_(7)
        assert t.sum().item() == 100
    t = tx.ones(100)
    raw = t.jax()
    for theirs in (torch.from_dlpack(t), torch.from_dlpack(t, copy=True), torch.as_tensor(np.array(t))):
        theirs.fill_(7)
        assert t.sum().item() == 100
        assert raw.sum() == 100
    shared = torch.from_dlpack(t, copy=False)
    assert shared.data_ptr() == t.jax().unsafe_buffer_pointer()
    t += 1
    assert shared.tolist() == [1.0] * 100


@pytest.mark.parametrize("x64", [False, True])
def test_torch_tensors_are_exact(x64):
    torch = pytest.importorskip("torch")
    names = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
    with jax.enable_x64(x64):
        for name in names:
            base = (torch.arange(12) % 5 * 3).to(getattr(torch, name)).reshape(3, 4)
            shapes = [base, base.T, base[:, ::2], base[1:2].expand(3, 4), base[0, 1], base[:0], base.flip(0)[1:]]
            for theirs in shapes:
                for make in (tx.from_dlpack, tx.tensor, tx.as_tensor):
                    t = make(theirs)
                    assert t.dtype.name == name
                    assert t.tolist() == theirs.tolist()
                    back = torch.from_dlpack(t)
                    assert back.dtype == theirs.dtype
                    assert torch.equal(back, theirs)
        assert tx.tensor(torch.tensor([0.1], dtype=torch.float64)).item() == 0.1
        assert tx.tensor(torch.tensor([300.7]), dtype=tx.int64).tolist() == [300]
        assert tx.tensor(torch.ones(2), requires_grad=True).requires_grad


def test_torch_tensors_that_are_refused():
    torch = pytest.importorskip("torch")
    wrong = {
        "sparse": torch.eye(2).to_sparse(),
        "complex": torch.zeros(2, dtype=torch.cfloat),
        "conjugate": torch.zeros(2, dtype=torch.cfloat).conj(),
        "float8": torch.zeros(2).to(torch.float8_e4m3fn),
        "meta": torch.zeros(2, device="meta"),
    }
    for make in (tx.from_dlpack, tx.tensor):
        for name, theirs in wrong.items():
            with pytest.raises((tx.ArgumentTypeError, tx.ArgumentValueError)):
                print(name, make(theirs))
        with pytest.raises(tx.AutogradError, match="requires grad"):
            make(torch.ones(2, requires_grad=True))
    lazy = torch.tensor([1 + 2j, 3 + 4j]).conj().imag
    contiguous = torch._neg_view(torch.ones(2))
    assert lazy.is_neg()
    assert contiguous.is_neg()
    for make in (tx.from_dlpack, tx.tensor):
        assert make(lazy).tolist() == [-2.0, -4.0]
        assert make(contiguous).tolist() == [-1.0, -1.0]
    with pytest.raises(tx.ArgumentValueError, match="negative of its memory"):
        tx.from_dlpack(contiguous, copy=False)
    with pytest.raises(tx.ArgumentValueError, match="strided"):
        tx.from_dlpack(torch.arange(6.0)[::2], copy=False)


def test_no_array_is_made_at_import():
    code = "import torsh_fx, jax; print(len(jax.live_arrays()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "0\n"
