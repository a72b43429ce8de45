"""Infers pools with `ceil_mode` before opset 22, of which ONNX's shape inference counts a window too many.

A last window that would begin in the padding behind the image is not there: so say the operator's text since
opset 22, ONNX's reference evaluator, PyTorch and ONNX Runtime, for every opset. ONNX's inference says so for
opset 22 alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx

Infer = Callable[[onnx.ModelProto], onnx.ModelProto]
POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})
RIGHT_OPSET = 22
"""From which ONNX's inference counts the windows of a pool as the operator's text does."""


def infer_with_pools(skeleton: onnx.ModelProto, infer: Infer) -> onnx.ModelProto:
    """Infer shapes of `skeleton`, of pools too.

    Pools that inference gets wrong are written without `ceil_mode` while it runs.

    Args:
        skeleton: The model, for its shapes alone.
        infer: ONNX's shape inference.
    """
    pools = [node for node in skeleton.graph.node if _is_ceiled(node)]
    if not pools:
        return infer(skeleton)
    _forget(skeleton.graph)
    inferred_model = onnx.shape_inference.infer_shapes(
        skeleton
    )  # not strict: what is behind a wrong pool may not fit
    original_attributes = {node.output[0]: list(node.attribute) for node in pools}
    left = {node.output[0]: node for node in pools}
    try:
        # Pools whose input is known for certain first: what is behind a wrong one is wrong as well.
        while ready := [node for node in left.values() if not _behind(skeleton.graph, node, left)]:
            shapes = _shapes(inferred_model.graph)
            changed = False
            for node in ready:
                del left[node.output[0]]
                changed |= _rewrite(node, shapes.get(node.input[0]), shapes.get(node.output[0]))
            if changed:
                inferred_model = onnx.shape_inference.infer_shapes(skeleton)
        inferred_model = infer(skeleton)
    finally:
        for node in pools:
            _set_attributes(node, original_attributes[node.output[0]])
    for node in inferred_model.graph.node:
        if node.output and node.output[0] in original_attributes:
            _set_attributes(node, original_attributes[node.output[0]])
    return inferred_model


def _is_ceiled(node: onnx.NodeProto) -> bool:
    attributes = {a.name: a for a in node.attribute}
    auto = attributes["auto_pad"].s if "auto_pad" in attributes else b"NOTSET"
    return (
        node.op_type in POOLS and not node.domain
        and "ceil_mode" in attributes and attributes["ceil_mode"].i == 1
        and "kernel_shape" in attributes and auto in (b"NOTSET", b"VALID")
    )  # fmt: skip


def _behind(graph: onnx.GraphProto, node: onnx.NodeProto, producers: dict[str, onnx.NodeProto]) -> bool:
    """Return whether `node` is computed from one of `producers`."""
    makers = {name: producer for producer in graph.node for name in producer.output}
    seen, todo = set[str](), list(node.input)
    while todo:
        name = todo.pop()
        if name in seen or name not in makers:
            continue
        if name in producers:
            return True
        seen.add(name)
        todo += makers[name].input
    return False


def _shapes(graph: onnx.GraphProto) -> dict[str, list[int | None]]:
    """Return the sizes of values; None where they are free."""
    return {
        info.name: [d.dim_value if d.HasField("dim_value") else None for d in info.type.tensor_type.shape.dim]
        for info in (*graph.input, *graph.output, *graph.value_info)
        if info.type.tensor_type.HasField("shape")
    }


def _rewrite(node: onnx.NodeProto, x: Sequence[int | None] | None, y: Sequence[int | None] | None) -> bool:
    """Write `node` so that the formula without `ceil_mode` gives its sizes, where inference is wrong."""
    attributes = {a.name: a for a in node.attribute}
    kernel = list(attributes["kernel_shape"].ints)
    rank = len(kernel)
    if x is None or y is None or len(x) != rank + 2 or len(y) != rank + 2:
        return False
    strides, dilations = (
        list(attributes[name].ints) if name in attributes else [1] * rank for name in ("strides", "dilations")
    )
    pads = list(attributes["pads"].ints) if "pads" in attributes else [0] * (2 * rank)
    if {len(strides), len(dilations)} != {rank} or len(pads) != 2 * rank or min(strides) < 1:
        return False
    wrong, more = False, pads.copy()
    for axis, (size, stride) in enumerate(zip(x[2:], strides, strict=True)):
        if size is None:
            continue
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        room = size + pads[axis] + pads[axis + rank] - reach
        count = -(-room // stride) + 1
        if (count - 1) * stride >= size + pads[axis]:
            count -= 1
        wrong |= y[axis + 2] is not None and y[axis + 2] != count
        more[axis + rank] += max(0, (count - 1) * stride - room)
    if not wrong:
        return False
    _set_attributes(node, [a for a in node.attribute if a.name not in ("ceil_mode", "pads", "auto_pad")])
    node.attribute.append(onnx.helper.make_attribute("pads", more))
    return True


def behind_pools(graph: onnx.GraphProto) -> set[str]:
    """Find values computed from such pools: sizes that a file declares for them may rest on the wrong
    count."""
    names = set[str]()
    for node in graph.node:  # in an order in which it can run
        if _is_ceiled(node) or not names.isdisjoint(node.input):
            names.update(filter(None, node.output))
    return names


def _forget(graph: onnx.GraphProto) -> None:
    """Remove the sizes of values behind pools, because inference takes them to be true."""
    behind = behind_pools(graph)
    value_infos = [info for info in graph.value_info if info.name not in behind]
    del graph.value_info[:]
    graph.value_info.extend(value_infos)
    for info in graph.output:
        if info.name in behind:
            info.type.tensor_type.ClearField("shape")


def _set_attributes(node: onnx.NodeProto, attributes: Sequence[onnx.AttributeProto]) -> None:
    copies = [onnx.AttributeProto.FromString(a.SerializeToString()) for a in attributes]
    del node.attribute[:]
    node.attribute.extend(copies)
