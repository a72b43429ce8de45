"""Infer the outputs of operators that users register."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.defs import OpSchema

Shape = tuple[int | str, ...]
Infer = Callable[[Sequence[Shape]], Sequence[Shape]]

_KINDS = {
    bool: OpSchema.AttrType.INT, int: OpSchema.AttrType.INT, float: OpSchema.AttrType.FLOAT,
    str: OpSchema.AttrType.STRING,
}  # fmt: skip
_LISTS = {int: OpSchema.AttrType.INTS, float: OpSchema.AttrType.FLOATS, str: OpSchema.AttrType.STRINGS}
_TYPES = [
    "tensor(float)",
    "tensor(float16)",
    "tensor(int8)",
    "tensor(uint8)",
    "tensor(int32)",
    "tensor(int64)",
    "tensor(bool)",
]

_CONSTRAINTS = [("T", _TYPES, "floats or codes"), ("U", _TYPES, "anything")]


def register_operator(
    domain: str,
    name: str,
    outputs: int,
    attributes: Mapping[str, Any],
    infer: Infer,
    dtypes: Sequence[str] | None = None,
) -> None:
    """Register an operator with ONNX's checker and shape inference, instead of one of that name.

    Args:
        domain, name: What nodes call it.
        outputs: Number of its outputs.
        attributes: Defaults by name; their types are the attributes'.
        infer: Shapes of the outputs from those of the inputs.
        dtypes: Element types of the outputs; None: the first input's.
    """
    if onnx.defs.has(name, domain):
        onnx.defs.deregister_schema(name, 1, domain)
    variadic = OpSchema.FormalParameterOption.Variadic
    schema = OpSchema(
        name, domain, 1,
        inputs=[
            OpSchema.FormalParameter(
                "inputs", "T", param_option=variadic, min_arity=1, is_homogeneous=False
            )
        ],
        outputs=[
            OpSchema.FormalParameter(
                "outputs", "T" if dtypes is None else "U", param_option=variadic, min_arity=outputs,
                is_homogeneous=dtypes is None,
            )
        ],
        type_constraints=_CONSTRAINTS[: 1 if dtypes is None else 2],
        attributes=[OpSchema.Attribute(k, _kind(v), "", required=False) for k, v in attributes.items()],
    )  # fmt: skip
    schema.set_type_and_shape_inference_function(lambda context: _infer(context, outputs, infer, dtypes))
    onnx.defs.register_schema(schema)


def _kind(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return _LISTS[type(value[0])] if value else OpSchema.AttrType.INTS
    return _KINDS[type(value)]


def _infer(context: Any, outputs: int, infer: Infer, dtypes: Sequence[str] | None) -> None:
    types = [context.get_input_type(i) for i in range(context.get_num_inputs())]
    if any(t is None or not t.tensor_type.HasField("shape") for t in types):
        return
    shapes = [tuple(d.dim_value if d.HasField("dim_value") else d.dim_param for d in t.tensor_type.shape.dim)
              for t in types]  # fmt: skip
    inferred = infer(shapes)
    for index in range(min(outputs, context.get_num_outputs())):
        sizes = [size if size != "" else None for size in inferred[index]]
        first = types[0].tensor_type.elem_type
        element = first if dtypes is None else onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtypes[index]))
        context.set_output_type(index, onnx.helper.make_tensor_type_proto(element, sizes))
