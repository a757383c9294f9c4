"""What PyTorch has and this library will not: each name with what to do instead.

The names raise ``MissingError``, an AttributeError, so ``hasattr`` says False.
"""

from __future__ import annotations

from typing import Any, NoReturn

from .rules import MissingError

_STORAGE = "storage is functional and has no address or layout: use jax() or numpy() for the values, clone() for a copy"
_RESIZED = "a Tensor keeps its shape: use the form that returns a view, such as {plain}()"
_SPARSE = "sparse Tensors are not supported: keep indices and values as two Tensors, and index_add or scatter_add them"
_QUANTIZED = "quantised Tensors are not supported: keep integers, and a scale, as two Tensors"
_COMPLEX = "complex numbers are not supported: keep real and imaginary parts as two Tensors"
_MEMORY = "JAX manages memory: put arrays on a device with to(device)"

_TENSOR = {
    "data_ptr storage untyped_storage storage_offset storage_type set_ as_strided as_strided_ is_set_to": _STORAGE,
    "resize_ resize_as_ squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_ moveaxis_ movedim_": _RESIZED,
    "to_sparse to_sparse_coo to_sparse_csr to_dense coalesce indices values sparse_mask sparse_dim dense_dim": _SPARSE,
    "int_repr q_scale q_zero_point dequantize qscheme": _QUANTIZED,
    "imag cfloat cdouble chalf angle view_as_complex": _COMPLEX,
    "pin_memory is_pinned share_memory_ is_shared record_stream": _MEMORY,
    "apply_ map_ map2_": "Python code for each element cannot be recorded: use where() and the elementwise functions",
    "type": "use dtype to see it, to(dtype) to change it",
    "get_device": "use device, a JAX device, and its id",
}
ABSENT = {name: advice.format(plain=name[:-1]) for names, advice in _TENSOR.items() for name in names.split()}

_MODULE = {
    "sparse_coo_tensor sparse_csr_tensor sparse": _SPARSE,
    "quantize_per_tensor quantize_per_channel quint8 qint8": _QUANTIZED,
    "complex complex64 complex128 cfloat cdouble view_as_complex view_as_real polar": _COMPLEX,
    "as_strided empty_strided": _STORAGE,
    "optim": "there are no optimizers: update in place under no_grad(), or use optax on the gradients",
    "cuda": "devices are JAX's: use to('cuda'), jax.devices(), and autocast() of this module",
    "set_default_tensor_type": "use set_default_dtype(dtype)",
    "set_default_device": "use jax.default_device",
    "save load": "use pickle, which keeps values, requires_grad and grad",
    "Size": "shapes are plain tuples",
}
ABSENT_HERE = {name: advice for names, advice in _MODULE.items() for name in names.split()}


class Absent:
    """Stands where a method of PyTorch's would; to look at it is a MissingError that says what to do."""

    def __init__(self, name: str, advice: str) -> None:
        self.name, self.advice = name, advice

    def __get__(self, instance: Any, owner: Any = None) -> NoReturn:
        raise MissingError(f"Tensor has no {self.name}: {self.advice}")


def missing(name: str) -> NoReturn:
    """Raise for a name that this package does not have."""
    advice = ABSENT_HERE.get(name)
    raise MissingError(f"torsh_fx has no {name!r}" + (f": {advice}" if advice else ""))
