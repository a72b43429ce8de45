"""Check that shape, dtype and bytes of a stored tensor agree, before anything is allocated."""

from __future__ import annotations

import math

import onnx

from intact.errors import FileFormatError
from intact.limits import TENSOR_ELEMENTS

_T = onnx.TensorProto
_BITS: dict[int, int] = {
    _T.FLOAT: 32, _T.UINT8: 8, _T.INT8: 8, _T.UINT16: 16, _T.INT16: 16, _T.INT32: 32, _T.INT64: 64,
    _T.BOOL: 8, _T.FLOAT16: 16, _T.DOUBLE: 64, _T.UINT32: 32, _T.UINT64: 64, _T.COMPLEX64: 64,
    _T.COMPLEX128: 128, _T.BFLOAT16: 16, _T.FLOAT8E4M3FN: 8, _T.FLOAT8E4M3FNUZ: 8, _T.FLOAT8E5M2: 8,
    _T.FLOAT8E5M2FNUZ: 8, _T.UINT4: 4, _T.INT4: 4, _T.FLOAT4E2M1: 4,
    **{value: bits for name, bits in (("FLOAT8E8M0", 8), ("UINT2", 2), ("INT2", 2), ("FLOAT6E2M3", 6),
                                      ("FLOAT6E3M2", 6))
       if (value := getattr(_T, name, None)) is not None},
}  # fmt: skip
_FIELDS: dict[int, str] = {
    _T.FLOAT: "float_data", _T.COMPLEX64: "float_data", _T.DOUBLE: "double_data",
    _T.COMPLEX128: "double_data", _T.INT64: "int64_data", _T.UINT32: "uint64_data",
    _T.UINT64: "uint64_data", _T.STRING: "string_data",
}  # fmt: skip
_TYPED = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_FIX = "export the model again; this file is damaged"


def element_count(dims: list[int], where: str) -> int:
    """Return the product of `dims`.

    Raises:
        FileFormatError: One is negative, or the product is above the limit.
    """
    count = math.prod(dims)
    # NumPy has no array, not even an empty one, whose other sizes are of more than its memory.
    if min(dims, default=0) < 0 or math.prod(n for n in dims if n) >= 2**48:
        raise FileFormatError(where, f"shape {dims}", "dimensions of 0 or more that fit in memory", _FIX)
    TENSOR_ELEMENTS.check(count, where)
    return count


def check_value(info: onnx.ValueInfoProto, at: str) -> None:
    """Refuse a tensor that is declared or inferred with impossible sizes, or with a type that ONNX lacks.

    Args:
        info: The declaration.
        at: Goes before its name in errors.
    Raises:
        FileFormatError: As for `element_count`; the data type is unknown.
    """
    if not info.type.HasField("tensor_type"):
        return
    tensor, where = info.type.tensor_type, f"{at}value '{info.name}'"
    if tensor.elem_type not in (*_BITS, _T.STRING, _T.UNDEFINED):
        raise FileFormatError(where, f"data type {tensor.elem_type}", "a type that ONNX defines", _FIX)
    element_count([d.dim_value for d in tensor.shape.dim if d.HasField("dim_value")], where)


def type_outputs(proto: onnx.ModelProto) -> None:
    """Give outputs without a type that are inputs or constants the type of these, in place.

    Inference looks at what nodes make, and nothing makes these.
    """
    inputs = {info.name: info.type for info in proto.graph.input}
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    for info in proto.graph.output:
        if info.type.WhichOneof("value") not in (None, "tensor_type") or info.type.tensor_type.elem_type:
            continue
        if info.name in inputs:
            info.type.CopyFrom(inputs[info.name])
        elif (tensor := constants.get(info.name)) is not None:
            info.type.CopyFrom(onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims)))


def free_sizes(proto: onnx.ModelProto) -> None:
    """Take the size -1 of an input, output or inner value for "any size", in place: exporters wrote it so.

    What ONNX's inference said of inner values by names that it gave out is dropped where it infers it anew,
    else these names are: the next inference gives them to other sizes.
    """
    for info in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        if info.type.HasField("tensor_type"):
            for dim in info.type.tensor_type.shape.dim:
                if dim.HasField("dim_value") and dim.dim_value == -1:
                    dim.Clear()
    domains = {name: node.domain for node in proto.graph.node for name in node.output}
    remaining = []
    for info in proto.graph.value_info:
        unknown = [d for d in info.type.tensor_type.shape.dim if d.dim_param.startswith(UNKNOWN_SIZE)]
        if not unknown or domains.get(info.name, "") not in ("", "ai.onnx"):
            remaining.append(info)
        for dim in unknown:
            dim.Clear()
    if len(remaining) < len(proto.graph.value_info):
        infos = [onnx.ValueInfoProto.FromString(info.SerializeToString()) for info in remaining]
        del proto.graph.value_info[:]
        proto.graph.value_info.extend(infos)


UNKNOWN_SIZE = "unk__"
"""Begins the name that ONNX's inference gives a size that it cannot tell."""


def byte_size(tensor: onnx.TensorProto) -> int:
    """Return the bytes of the raw data of `tensor`, by its shape and dtype."""
    bits: int = math.prod(tensor.dims) * _BITS[tensor.data_type]
    return (bits + 7) // 8


def check_tensor(tensor: onnx.TensorProto, where: str) -> None:
    """Refuse a tensor whose data are not of its shape and dtype.

    Args:
        tensor: An empty field of raw data beside numbers is removed: readers take it for the data.
        where: The tensor, in words, for errors.
    Raises:
        FileFormatError: Says what the header wants and what is there.
    """
    count = element_count(list(tensor.dims), where)
    if tensor.data_type not in _BITS and tensor.data_type != _T.STRING:
        raise FileFormatError(where, f"data type {tensor.data_type}", "a type that ONNX defines", _FIX)
    if tensor.HasField("segment"):
        raise FileFormatError(where, "a tensor in segments", "a whole tensor", "store it as one tensor")
    if tensor.data_location == _T.EXTERNAL:
        if tensor.data_type == _T.STRING:
            raise FileFormatError(where, "strings as external data", "strings in the model", _FIX)
        return
    field = _FIELDS.get(tensor.data_type, "int32_data")
    used = [name for name in _TYPED if len(getattr(tensor, name))]
    if tensor.HasField("raw_data") and (tensor.raw_data or not used):
        if tensor.data_type == _T.STRING or used:
            raise FileFormatError(where, f"raw data and {used or 'strings'}", "one kind of data", _FIX)
        _compare(where, len(tensor.raw_data), byte_size(tensor), "bytes", tensor)
        if _BITS[tensor.data_type] == 6 and (over := 6 * count % 8) and tensor.raw_data[-1] >> over:
            raise FileFormatError(where, "numbers of 6 bits with bits behind the last", "zeros there", _FIX)
    else:
        if used not in ([], [field]):
            raise FileFormatError(where, f"data in {', '.join(used)}", f"data in {field}", _FIX)
        _compare(where, len(getattr(tensor, field)), _count_entries(tensor, count), "elements", tensor)
        _check_range(tensor, field, where)
        tensor.ClearField("raw_data")


def _check_range(tensor: onnx.TensorProto, field: str, where: str) -> None:
    """Refuse numbers that the dtype does not have; of floats and of codes below 8 bits the bits stand there.

    Writers extend the sign of such bits, or do not.
    """
    bits = {2: 8, 4: 8, 6: 8}.get(_BITS.get(tensor.data_type, 0), _BITS.get(tensor.data_type, 0))
    numbers = getattr(tensor, field)
    if field not in ("int32_data", "uint64_data") or bits > 32 or not numbers:
        return
    low, high = (0, 2**bits) if field == "uint64_data" else (-(2 ** (bits - 1)), 2**bits)
    if tensor.data_type in (_T.INT8, _T.INT16, _T.INT32):
        high = 2 ** (bits - 1)
    elif tensor.data_type in (_T.UINT8, _T.UINT16, _T.BOOL):
        low = 0
    if min(numbers) < low or max(numbers) >= high:
        kind = _T.DataType.Name(tensor.data_type).lower()
        got = f"numbers of {min(numbers)} to {max(numbers)}"
        raise FileFormatError(where, got, f"{low} to {high - 1}, for {kind}", _FIX)


def _count_entries(tensor: onnx.TensorProto, count: int) -> int:
    """Count the entries of the typed field: complex numbers take two, sub-byte numbers are packed into
    bytes."""
    bits = _BITS.get(tensor.data_type, 8)
    if tensor.data_type in (_T.COMPLEX64, _T.COMPLEX128):
        return 2 * count
    return -(-count * bits // 8) if bits in (2, 4) else count


def _compare(where: str, got: int, want: int, unit: str, tensor: onnx.TensorProto) -> None:
    if got != want:
        kind = _T.DataType.Name(tensor.data_type).lower()
        raise FileFormatError(where, f"{got} {unit}", f"{want}, for {kind}{list(tensor.dims)}", _FIX)
