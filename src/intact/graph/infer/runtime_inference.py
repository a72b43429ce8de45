"""Infers shapes and types of operators that ONNX's inference does not know: ONNX Runtime's, and INTact's.

ONNX calls Python for operators that Python registers. While it infers, nodes of such operators have a domain
of our own, under which they are registered: other users of onnx in the process know their domains as before.
So types and sizes reach every reader, in branches and bodies of loops as in the main graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import onnx
from onnx.defs import OpSchema

from intact.graph.core.proto import proto_graphs
from intact.graph.infer.runtime_shapes import RULES as STATELESS_RULES
from intact.graph.infer.runtime_shapes import InferenceNode, Rule
from intact.graph.infer.state_shapes import STATE_RULES
from intact.graph.ops import MICROSOFT

RULES = STATELESS_RULES | STATE_RULES
"""By domain and operator."""
_DOMAIN, _LABEL = "intact.infer", "intact.label"
_ANY = OpSchema.FormalParameterOption.Variadic


def infer_runtime_operators(
    skeleton: onnx.ModelProto, infer: Callable[[onnx.ModelProto], onnx.ModelProto]
) -> onnx.ModelProto:
    """Infer shapes of `skeleton`, also of operators that have a rule in `RULES`.

    Args:
        skeleton: The model; it is as before when this returns.
        infer: ONNX's shape inference.
    """
    foreign_nodes = [node for node in _nodes(skeleton) if (node.domain, node.op_type) in RULES]
    if not foreign_nodes:
        return infer(skeleton)
    names = [(node.domain, node.op_type) for node in foreign_nodes]
    opset = skeleton.opset_import.add(domain=_DOMAIN, version=1)
    try:
        for node in foreign_nodes:
            node.attribute.add(name=_LABEL, s=f"(op_type:{node.op_type}, node name: {node.name}): ".encode())
            node.op_type, node.domain = _register(node.domain, node.op_type), _DOMAIN
        inferred = infer(skeleton)
    finally:
        for node, (domain, op_type) in zip(foreign_nodes, names, strict=True):
            node.domain, node.op_type = domain, op_type
            del node.attribute[-1]
        skeleton.opset_import.remove(opset)
    for node, same in zip(_nodes(inferred), _nodes(skeleton), strict=True):
        if node.domain != same.domain:
            node.domain, node.op_type = same.domain, same.op_type
            del node.attribute[-1]
    inferred.opset_import.remove(opset)
    return inferred


def hide_runtime_operators(skeleton: onnx.ModelProto) -> None:
    """Move operators that ONNX Runtime alone has in ONNX's domain to its own, where the checker asks nothing.

    Args:
        skeleton: Changed.
    """
    hidden = [
        node for node in _nodes(skeleton)
        if ("", node.op_type) in RULES and not node.domain and not onnx.defs.has(node.op_type)
    ]  # fmt: skip
    for node in hidden:
        node.domain = MICROSOFT
    if hidden and not any(opset.domain == MICROSOFT for opset in skeleton.opset_import):
        skeleton.opset_import.add(domain=MICROSOFT, version=1)


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    for graph in proto_graphs(model):
        yield from graph.node


_names: dict[tuple[str, str], str] = {}


def _register(domain: str, op_type: str) -> str:
    """Return the name under which an operator is registered in our domain."""
    if (domain, op_type) not in _names:
        name = f"{domain.replace('.', '_')}_{op_type}"
        if not onnx.defs.has(name, _DOMAIN):
            onnx.defs.register_schema(_schema(name, RULES[domain, op_type]))
        _names[domain, op_type] = name
    return _names[domain, op_type]


def _schema(name: str, rule: Rule) -> OpSchema:
    """Return a schema with any number of inputs and outputs of any types."""
    everything = sorted(onnx.defs.get_schema("Identity").inputs[0].types)
    ports = [
        OpSchema.FormalParameter(port, port, param_option=_ANY, min_arity=0, is_homogeneous=False)
        for port in ("inputs", "outputs")
    ]
    schema = OpSchema(
        name, _DOMAIN, 1, inputs=ports[:1], outputs=ports[1:], attributes=[],
        type_constraints=[(port, everything, "anything") for port in ("inputs", "outputs")],
    )  # fmt: skip
    schema.set_type_and_shape_inference_function(partial(_infer, rule))
    return schema


def _infer(rule: Rule, context: Any) -> None:
    """Tell ONNX what a rule says of the outputs of a node; errors name it as those of ONNX do."""
    try:
        outputs = rule(InferenceNode(context))
    except ValueError as error:
        label = context.get_attribute(_LABEL)  # a node of a function's body has none
        where = "" if label is None else label.s.decode("utf-8", "replace")
        raise ValueError(where + str(error)) from error
    for at, output in enumerate(outputs):
        if at < context.get_num_outputs() and context.has_output(at) and output is not None and output.dtype:
            shape = None if output.sizes is None else list(output.sizes)
            context.set_output_type(at, onnx.helper.make_tensor_type_proto(output.dtype, shape))
