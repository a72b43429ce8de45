"""Find and evaluate the values of a graph that do not depend on its inputs."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from intact.errors import FileFormatError, UnsupportedError
from intact.graph.core.error_text import first_line, root
from intact.graph.core.float_values import MOST_TERMS, float_value_of
from intact.graph.core.session import Session
from intact.graph.core.without_weights import SMALL
from intact.graph.ops import DRAWING, stored_tensor
from intact.graph.ops.attributes import subgraphs, values
from intact.limits import FOLDED
from intact.numerics import float_product

# Random operators have constant inputs and no constant output; the others take long, and make no parameters.
_NEVER_CONSTANT = {
    *DRAWING,
    "Conv",
    "ConvTranspose",
    "DFT",
    "Det",
    "Einsum",
    "GRU",
    "GridSample",
    "LSTM",
    "LpPool",
    "MaxPool",
    "AveragePool",
    "MaxRoiPool",
    "MelWeightMatrix",
    "NonMaxSuppression",
    "RNN",
    "RoiAlign",
    "STFT",
    "StringNormalizer",
    "RegexFullMatch",
    "StringSplit",
    "TfIdfVectorizer",
}

# Operators that make much of little: one number in a file may ask for all memory.
_GROWING = {"ConstantOfShape", "EyeLike", "Expand", "OneHot", "Pad", "Range", "Resize", "Tile", "Upsample"}
_PRODUCTS = {"MatMul", "Gemm", "MatMulInteger"}
_PER_ELEMENT = 2**10  # products that cost what an element of another operator costs
_NUMPY = {
    dtype for dtype in ir.DataType
    if dtype not in (ir.DataType.UNDEFINED, ir.DataType.STRING) and dtype.numpy().isbuiltin == 1
}  # fmt: skip
_PLAIN = {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL}
_SAFE = 2**12  # elements of inputs of which no other operator makes too much
_IR_VERSION = 10  # which every ONNX Runtime that we run in reads
MAX_GROWN = 2**26
"""Elements up to which the output of such an operator is computed."""


class Constants(set[ir.Value | None]):
    """The constant values of a graph: initializers, Constant nodes, operators on them. It evaluates them.

    An exporter leaves, for example, the Concat of two weight matrices, or the Mul of an amax and a factor.
    Whoever adds an initializer to the graph may add it here, if its value does not change behind that.
    """

    def __init__(self, graph: ir.Graph) -> None:
        super().__init__(v for v in graph.initializers.values() if not v.is_graph_input())
        self._known: dict[ir.Value, NDArray] = {}
        self.add(None)  # an input that is left out, while inputs are looked at
        for node in graph:  # in topological order, so that one pass is enough
            if self.issuperset(node.inputs) and foldable(node):
                self.update(node.outputs)
        self.remove(None)

    def __call__(self, value: ir.Value | None) -> NDArray | None:
        """Return the constant value of `value`, in its shape and dtype.

        None where it depends on a graph input.
        """
        if value is None or value not in self:
            return None
        waiting = [value]  # a stack of our own: a chain of constants may be deeper than Python's
        while waiting:
            node = waiting[-1].producer()
            missing = [
                v for v in (node.inputs if node is not None else ()) if v is not None and v not in self._known
            ]
            if missing and waiting[-1].const_value is None:
                waiting.extend(missing)
            else:
                self._compute(waiting.pop())
        return self._known[value]

    def _compute(self, value: ir.Value) -> None:
        if value.const_value is not None:
            self._known[value] = _with_texts(value.const_value.numpy())
        elif value not in self._known:
            node = value.producer()
            assert node is not None
            arrays = self._product_with_bias(node) or evaluate_node(
                node, [None if v is None else self._known[v] for v in node.inputs]
            )
            _check_types(node, arrays)
            # Outputs left out at the end have none.
            self._known.update(zip(node.outputs, map(_with_texts, arrays), strict=False))

    def _product_with_bias(self, add: ir.Node) -> list[NDArray] | None:
        """Compute a MatMul and the bias behind it as one step, as an engine does: sums begin at the bias."""
        if add.op_type != "Add" or add.domain:
            return None
        for product_output, bias in (add.inputs, add.inputs[::-1]):
            if (
                product_output is None
                or bias is None
                or product_output.const_value is not None
                or bias.producer() is not None
            ):
                continue
            product = product_output.producer()
            if product is None:
                continue
            if product.op_type == "MatMul" and not product.domain and len(product_output.uses()) == 1:
                a, b, start = (self._known[v] for v in (*product.inputs, bias) if v is not None)
                fits = min(a.ndim, b.ndim) > 1 and start.shape == b.shape[-1:] and a.shape[-1] <= MOST_TERMS
                if fits and all(x.dtype == np.float32 for x in (a, b, start)):
                    return [float_product(a, b, start)]
        return None


def _with_texts(array: NDArray) -> NDArray:
    """Convert text to Python's strings: ONNX Runtime takes bytes for how Python prints them."""
    if array.dtype.kind not in "OSU":
        return array
    texts = [
        text.decode(errors="surrogateescape") if isinstance(text, bytes) else str(text)
        for text in array.reshape(-1).tolist()
    ]
    return np.array(texts, object).reshape(array.shape)


def _check_types(node: ir.Node, arrays: list[NDArray]) -> None:
    """Refuse computed outputs whose types contradict those that the file declares.

    Raises:
        FileFormatError: A file says of what `node` makes another type than it makes.
    """
    for output, array in zip(node.outputs, arrays, strict=False):
        if output.dtype in _NUMPY and array.dtype.kind in "fiub" and output.dtype.numpy() != array.dtype:
            where = f"node '{node.name}' ({node.op_type}): output '{output.name}'"
            raise FileFormatError(where, str(array.dtype), f"{output.dtype.numpy()}, as the file says of it",
                                  "export the model again")  # fmt: skip


def foldable(node: ir.Node) -> bool:
    """Return whether the outputs of `node` are computed where its inputs are constant."""
    is_evaluable = node.domain == "" and node.op_type not in _NEVER_CONSTANT
    if not is_evaluable or subgraphs(node):
        return False
    return not (node.op_type in _GROWING and _is_large(node.outputs[0].shape))


def _is_large(shape: ir.Shape | None) -> bool:
    return shape is not None and math.prod(n for n in shape if isinstance(n, int)) > MAX_GROWN


def evaluate_node(node: ir.Node, inputs: list[NDArray | None]) -> list[NDArray]:
    """Evaluate one node.

    Raises:
        FileFormatError: More than the limit, or the node cannot make anything of its inputs.
    """
    if (stored := _constant_tensor(node)) is not None:
        return [stored]
    where = f"node '{node.name}' ({node.op_type})"
    if (moved := _move_elements(node, inputs, where)) is not None:
        return [moved]
    if (result := float_value_of(node, inputs)) is not None:
        return [result]
    model, feeds = _alone(node, inputs)
    _check_results(model, feeds, where)
    try:
        return _by_reference(model, feeds)
    except Exception as error:  # ONNX's own code, on what a file says: no base is common to what it raises
        problem = error
    try:  # the reference has faults too: GatherElements of indices with fewer rows than data, for one
        return list(Session(model.SerializeToString(), threads=1).run(feeds).values())
    except UnsupportedError:
        want = "an operator that fits its inputs"
        raise FileFormatError(where, first_line(root(problem)), want, "export the model again") from problem


def evaluate_call(node: ir.Node, inputs: list[NDArray | None]) -> list[NDArray]:
    """Evaluate a node that `load` does not fold, as a run would.

    Raises:
        UnsupportedError: ONNX Runtime cannot run it.
    """
    if (result := float_value_of(node, inputs)) is not None:
        return [result]
    model, feeds = _alone(node, inputs)
    return list(Session(model.SerializeToString(), threads=1).run(feeds).values())


def _constant_tensor(node: ir.Node) -> NDArray | None:
    """Return the tensor of a Constant, of a dtype that NumPy has; None for everything else."""
    tensor = stored_tensor(node)
    return tensor.numpy() if tensor is not None and tensor.dtype in _PLAIN else None


def _move_elements(node: ir.Node, inputs: list[NDArray | None], where: str) -> NDArray | None:
    """Compute operators that only move elements, so that weights of recurrent layers can be cut and joined.

    ONNX's reference takes a tenth of a second to load. None: another operator, or a form of one that it is
    left to, with what is wrong there.

    Raises:
        FileFormatError: More than the limit; names `where`.
    """
    arrays = [array for array in inputs if array is not None]
    if node.domain or not arrays or len(arrays) != len(inputs) or arrays[0].dtype.kind not in "fiub":
        return None
    attributes = values(node)
    if node.op_type == "Concat":
        FOLDED.check(sum(array.size for array in arrays), where)  # a chain of them grows without end
    try:
        match node.op_type, arrays, attributes:
            case "Concat", _, {"axis": int(axis)} if len({array.dtype for array in arrays}) == 1:
                return np.concatenate(arrays, axis)
            case "Unsqueeze", [x, axes], {**rest} if not rest:
                return np.expand_dims(x, tuple(axes.reshape(-1).tolist())).copy()
            case "Reshape", [x, sizes], {**rest} if not rest and sizes.all():  # 0 is a size to be looked up
                return x.reshape(sizes.reshape(-1).tolist()).copy()
            case "Slice", [x, starts, ends, *more], {**rest} if not rest:
                axes = more[0] if more else np.arange(starts.size)
                steps = more[1] if more[1:] else np.ones(starts.size, np.int64)
                cut = [slice(None)] * x.ndim
                columns = (numbers.reshape(-1).tolist() for numbers in (axes, starts, ends, steps))
                for axis, start, end, step in zip(*columns, strict=True):
                    cut[axis] = slice(start, end, step)  # Python's slices are ONNX's: ends beyond are cut
                return x[tuple(cut)].copy()
    except (ValueError, IndexError, TypeError):
        pass
    return None


def _by_reference(model: onnx.ModelProto, feeds: dict[str, NDArray]) -> list[NDArray]:
    from onnx.reference import ReferenceEvaluator  # 12 MB of operators, which few models need

    return [np.asarray(array) for array in ReferenceEvaluator(model).run(None, feeds)]


def _alone(node: ir.Node, inputs: list[NDArray | None]) -> tuple[onnx.ModelProto, dict[str, NDArray]]:
    """Return a model of one node, and its feeds."""
    names = ["" if array is None else f"i{k}" for k, array in enumerate(inputs)]
    feeds = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
    outputs = [f"o{k}" for k in range(len(node.outputs))]
    proto = ir.to_proto(node)
    bare = onnx.helper.make_node(node.op_type, names, outputs)
    bare.attribute.extend(proto.attribute)
    unknown = onnx.TypeProto()
    graph = onnx.helper.make_graph(
        [bare],
        "constant",
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in feeds.items()
        ],
        [onnx.helper.make_value_info(name, unknown) for name in outputs],
    )
    opset = (node.graph.opset_imports.get("") if node.graph is not None else None) or node.version or 18
    opsets = [onnx.helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION), feeds


def _check_results(model: onnx.ModelProto, feeds: dict[str, NDArray], where: str) -> None:
    """Refuse a node whose results, as ONNX's inference predicts, are above the limit."""
    input_elements = sum(array.size for array in feeds.values())
    (node,) = model.graph.node
    if node.op_type not in _GROWING and input_elements <= _SAFE:
        return  # of two vectors a matrix is the most
    typed_model = onnx.ModelProto()
    typed_model.CopyFrom(model)
    small = {name: array for name, array in feeds.items() if array.size <= SMALL and array.dtype.kind in "if"}
    typed_model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in small.items()
    )
    try:
        inferred_model = onnx.shape_inference.infer_shapes(typed_model, data_prop=True)
    except (RuntimeError, ValueError, IndexError) as error:
        want = "an operator that fits its inputs"
        raise FileFormatError(where, first_line(root(error)), want, "export the model again") from error
    for info in (*inferred_model.graph.output, *inferred_model.graph.value_info):
        dims = info.type.tensor_type.shape.dim
        FOLDED.check(math.prod(dim.dim_value for dim in dims if dim.HasField("dim_value")), where)
        has_all_sizes = info.type.tensor_type.HasField("shape") and all(
            dim.HasField("dim_value") for dim in dims
        )
        if not has_all_sizes and node.op_type in _GROWING:
            raise FileFormatError(where, "a size that nothing tells", "a constant of a known size",
                                  "store the constant itself in the model")  # fmt: skip
    if node.op_type in _PRODUCTS:
        a, b = [array for array in feeds.values() if array.ndim][:2] or [np.zeros(1)] * 2
        FOLDED.check(a.size * b.shape[-1] // _PER_ELEMENT, where)
