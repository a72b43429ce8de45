"""Join products of codes with what makes floats of their sums, so that one rule reads all of them."""

from __future__ import annotations

from intact.graph import (
    Constants,
    Node,
    Outcome,
    Rewrite,
    Scene,
    Value,
    input_of,
    is_block_operator,
    is_op,
    only_reader,
    ops,
)


def _join_scale(node: Node, scene: Scene) -> Outcome:
    """Write a MatMulInteger whose sum gets a scale as MatMulIntegerToFloat.

    Before: ``y = Add(Mul(Cast(MatMulInteger(a, b, a_z, b_z)), Mul(a_s, b_s)), bias)``.
    After:  ``y = MatMulIntegerToFloat(a, b, a_s, b_s, a_z, b_z, bias)``: the same roundings, in their order.

    Guards: a matrix b, b_s and bias are constant, a_s has no axes, and nobody else reads what lies between.
    """
    cast = only_reader(node.outputs[0], "Cast")
    product = None if cast is None else only_reader(cast.outputs[0], "Mul")
    if cast is None or product is None or ops.Cast.of(cast).to != _FLOAT or not _is_matrix(node, scene):
        return None
    factor = product.inputs[1 if product.inputs[0] is cast.outputs[0] else 0]
    scales = None if factor is None else _two_scales(factor, scene.constants)
    if scales is None:
        return None
    last, bias = product, None
    add = only_reader(product.outputs[0], "Add")
    if add is not None:
        other = add.inputs[1 if add.inputs[0] is product.outputs[0] else 0]
        if other is not None and _is_row(other, node, scene.constants):
            last, bias = add, other
    scene.graph.opset_imports.setdefault(ops.MICROSOFT, 1)
    output = last.outputs[0]
    inputs = [*node.inputs[:2], *scales, input_of(node, 2), input_of(node, 3), bias]
    y = scene.inserter(last).node(
        "MatMulIntegerToFloat", inputs, f"{node.name or 'product'}.to_float", dtype=output.dtype,
        shape=output.shape, domain=ops.MICROSOFT,
    )  # fmt: skip
    scene.replace(last, y)
    for spent in ([product] if last is add else []) + [cast, node]:
        scene.graph.remove(spent, safe=True)
    return "MatMulInteger became MatMulIntegerToFloat"


_FLOAT = 1  # TensorProto.FLOAT


def _is_matrix(node: Node, scene: Scene) -> bool:
    matrix = scene.constants(node.inputs[1])
    return matrix is not None and matrix.ndim == 2


def _two_scales(factor: Value, constants: Constants) -> list[Value] | None:
    """Return the scale of activations, and the constant one of weights, of which `factor` is the product."""
    node = factor.producer()
    if node is None or not is_op(node, "Mul"):
        return None
    scales = [value for value in node.inputs if value is not None]
    if len(scales) == 2 and scales[0] in constants:
        scales.reverse()
    if len(scales) != 2 or scales[0] in constants or scales[1] not in constants:
        return None
    shape, array = scales[0].shape, constants(scales[1])
    return scales if shape is not None and len(shape) == 0 and array is not None and array.ndim < 2 else None


def _join_bias(node: Node, scene: Scene) -> Outcome:
    """Give a MatMulNBits or BlockLinear the bias that is added behind it.

    Before: ``y = Add(MatMulNBits(x, w, s), bias)``.
    After:  ``y = MatMulNBits(x, w, s, "", "", bias)``.

    Guards: it has none, nobody else reads it, and it multiplies codes: a product of floats begins at its bias
    (N70), and would round otherwise.
    """
    add = only_reader(node.outputs[0], "Add")
    if add is None or input_of(node, 5) is not None or not _multiplies_codes(node):
        return None
    bias = add.inputs[1 if add.inputs[0] is node.outputs[0] else 0]
    array, codes = scene.constants(bias), node.inputs[1]
    rows = None if codes is None or codes.shape is None else tuple(codes.shape[:1])
    if bias is None or array is None or array.shape != rows:
        return None
    node.resize_inputs(max(6, len(node.inputs)))
    node.replace_input_with(5, bias)
    scene.replace(add, node.outputs[0])
    return f"{node.op_type} adds its bias"


def _multiplies_codes(node: Node) -> bool:
    if is_block_operator(node):
        return ops.BlockLinear.of(node).x_block > 0
    form, zero = ops.MatMulNBits.of(node), input_of(node, 3)
    has_codes = zero is None or (zero.dtype is not None and zero.dtype.name == "UINT8")
    is_small = (form.bits, form.block_size) == (2, 16)
    return form.accuracy_level == 4 and not is_small and has_codes and input_of(node, 4) is None


def _is_row(value: Value, node: Node, constants: Constants) -> bool:
    """Return whether a value is a constant row with a number for each column of the product."""
    row, matrix = constants(value), constants(node.inputs[1])
    return row is not None and matrix is not None and row.shape == matrix.shape[1:]


INTEGER_PRODUCTS = Rewrite("join integer products with their scales", _join_scale, ("MatMulInteger",))
BIASES = Rewrite(
    "join biases with products of codes", _join_bias, ("BlockLinear", "MatMulNBits"),
    (ops.BlockLinear.domain, ops.MICROSOFT),
)  # fmt: skip
