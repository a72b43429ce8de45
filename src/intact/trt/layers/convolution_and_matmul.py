"""Convolutions, fully connected layers, matrix products and Einsum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.graph import TypedComposer
from intact.trt.base.itensor import Sizes, Weights, array_of
from intact.trt.base.operation_enums import LayerType, MatrixOperation, PaddingMode
from intact.trt.base.removed_members import hide_removed
from intact.trt.layers.base import ILayer, Nodes, rank_of

AUTO_PADS = {PaddingMode.SAME_UPPER: "SAME_UPPER", PaddingMode.SAME_LOWER: "SAME_LOWER"}
ROUND_UP = (PaddingMode.EXPLICIT_ROUND_UP, PaddingMode.CAFFE_ROUND_UP)


def sizes_property(name: str) -> Any:
    """Return a property with TensorRT 8's name of the attribute `name`, which is two- or three-
    dimensional.
    """
    return property(lambda self: getattr(self, name), lambda self, v: setattr(self, name, tuple(v)))


class WindowLayer(ILayer):
    """Base of convolutions and pools: strides, padding, dilation.

    Attributes:
        stride, padding, dilation: TensorRT 8's names of those with ``_nd``.
    """

    stride_nd: Sizes = ()
    pre_padding: Sizes = ()
    post_padding: Sizes = ()
    dilation_nd: Sizes = ()
    padding_mode = PaddingMode.EXPLICIT_ROUND_DOWN

    @property
    def padding_nd(self) -> Sizes:
        """Return the padding before and behind, where they are the same."""
        return self.pre_padding

    @padding_nd.setter
    def padding_nd(self, padding: Sizes) -> None:
        self.pre_padding = self.post_padding = tuple(padding)

    stride = sizes_property("stride_nd")
    padding = sizes_property("padding_nd")
    dilation = sizes_property("dilation_nd")

    def _kernel(self) -> Sizes:
        raise NotImplementedError

    def _window(self) -> dict[str, Any]:
        """Return the ONNX attributes of the window."""
        spatial = len(self._kernel())
        attributes: dict[str, Any] = {"strides": list(self.stride_nd) or [1] * spatial}
        if self.padding_mode in AUTO_PADS:
            attributes["auto_pad"] = AUTO_PADS[self.padding_mode]
        else:
            before = list(self.pre_padding) or [0] * spatial
            attributes["pads"] = before + (list(self.post_padding) or [0] * spatial)
        if self.dilation_nd and any(d != 1 for d in self.dilation_nd):
            attributes["dilations"] = list(self.dilation_nd)
        return attributes

    def _round_up(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return `attributes` with the zeros behind the input that make the last window whole."""
        tensor, kernel = self.get_input(0), self._kernel()
        sizes = tensor.shape[-len(kernel) :] if tensor is not None else ()
        if -1 in sizes:
            raise ValueError(f"{self.padding_mode} needs spatial sizes that are known at the build")
        spatial, pads = len(kernel), list(attributes["pads"])
        steps, dilations = attributes["strides"], attributes.get("dilations", [1] * spatial)
        for i, (size, k, step, d) in enumerate(zip(sizes, kernel, steps, dilations, strict=True)):
            free = size + pads[i] + pads[spatial + i] - (d * (k - 1) + 1)
            pads[spatial + i] += -free % step
        return {**attributes, "pads": pads}


class IConvolutionLayer(WindowLayer):
    """Convolution; its kernel is an array, or input 1 (behind a Dequantize layer, for example).

    Attributes:
        kernel_size: TensorRT 8's name of `kernel_size_nd`.
    """

    TYPE = LayerType.CONVOLUTION
    num_output_maps: int = 0
    kernel_size_nd: Sizes = ()
    kernel: Weights | NDArray | None = None
    bias: Weights | NDArray | None = None
    num_groups: int = 1
    kernel_size = sizes_property("kernel_size_nd")

    def _kernel(self) -> Sizes:
        return tuple(self.kernel_size_nd)

    def _weights(self, c: TypedComposer, x: list[str], shape: tuple[int, ...]) -> list[str]:
        wired = [*x, "", ""][:3]
        if not wired[1]:
            kernel = array_of(self.kernel)
            if kernel is None:
                raise ValueError("convolution has neither kernel weights nor a kernel tensor (input 1)")
            wired[1] = c.constant(f"{self.name}.kernel", np.reshape(kernel, shape))
        if not wired[2] and (bias := array_of(self.bias)) is not None:
            wired[2] = c.constant(f"{self.name}.bias", bias.reshape(-1))
        return wired if wired[2] else wired[:2]

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        attributes = self._window()
        if self.padding_mode in ROUND_UP:
            attributes = self._round_up(attributes)
        inputs = self._weights(c, x, (self.num_output_maps, -1, *self.kernel_size_nd))
        self._write(c, "Conv", inputs, y, attributes)

    def _write(
        self, c: TypedComposer, op_type: str, x: list[str], y: list[str], attributes: dict[str, Any]
    ) -> None:
        """Write the node. TensorRT takes several axes in front of the channels as batches, and ONNX one."""
        data, inner_axes = self.get_input(0), len(self._kernel()) + 1
        shape = data.shape if data is not None else ()
        batches = shape[:-inner_axes]
        if len(batches) < 2:
            return self._on_images(c, op_type, x, y[0], self.name, group=self.num_groups, **attributes)
        if -1 in shape[-inner_axes:] or batches.count(-1) > 1:
            raise ValueError(f"a convolution of {shape} needs sizes that are known at the build")
        n, batched_output = Nodes(c, self.name), c.fresh(f"{self.name}.rows")
        rows = n("Reshape", x[0], n.ints(-1, *shape[-inner_axes:]))
        c.node(
            op_type,
            [rows, *x[1:]],
            [batched_output],
            name=batched_output,
            group=self.num_groups,
            **attributes,
        )
        sizes = [
            int(size)
            for size in (c.types_of([batched_output])[batched_output][1] or ())[1:]
            if size is not None
        ]
        n("Reshape", batched_output, n.ints(*batches, *sizes), to=y[0])
        return None


class IDeconvolutionLayer(IConvolutionLayer):
    """Transposed convolution; kernels are [in, out / groups, ...]."""

    TYPE = LayerType.DECONVOLUTION

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        inputs = self._weights(c, x, (-1, self.num_output_maps // self.num_groups, *self.kernel_size_nd))
        self._write(c, "ConvTranspose", inputs, y, self._window())


class IFullyConnectedLayer(ILayer):
    """Multiplies the three last axes, flattened, by a kernel (TensorRT 8): [..., C, H, W] to [...,
    K, 1, 1].
    """

    TYPE = LayerType.FULLY_CONNECTED
    TITLE = "Fully Connected"
    num_output_channels: int = 0
    kernel: Weights | NDArray | None = None
    bias: Weights | NDArray | None = None

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        tensor, n = self.get_input(0), Nodes(c, self.name)
        shape = tensor.shape if tensor is not None else ()
        outer, features = shape[:-3], int(np.prod(shape[-3:]))
        rows = n("Reshape", x[0], n.ints(-1, features))
        if len(x) > 1 and x[1]:
            kernel = n("Reshape", x[1], n.ints(self.num_output_channels, features))
            kernel = n("Transpose", kernel, perm=[1, 0])
        else:
            kernel_array = array_of(self.kernel)
            if kernel_array is None:
                raise ValueError(
                    "fully connected layer has neither kernel weights nor a kernel tensor (input 1)"
                )
            kernel = n.array(np.ascontiguousarray(kernel_array.reshape(self.num_output_channels, features).T))
        product = n("MatMul", rows, kernel)
        if (bias := array_of(self.bias)) is not None:
            product = n("Add", product, n.array(bias.reshape(-1)))
        elif len(x) > 2 and x[2]:
            product = n("Add", product, n("Reshape", x[2], n.ints(-1)))
        sizes = [-1 if len(outer) == 1 else size for size in outer]
        n("Reshape", product, n.ints(*sizes, self.num_output_channels, 1, 1), to=y[0])


class IMatrixMultiplyLayer(ILayer):
    """Multiplies two stacks of matrices, each transposed on request, or a stack of vectors."""

    TYPE = LayerType.MATRIX_MULTIPLY
    SAME_TYPE = (0, 1)
    TITLE = "Matrix Multiply"
    op0 = MatrixOperation.NONE
    op1 = MatrixOperation.NONE

    def check(self) -> list[str]:
        """Check that ranks are equal once a vector has its second axis."""
        ranks = [rank_of(self.get_input(i)) + (op == MatrixOperation.VECTOR)
                 for i, op in enumerate((self.op0, self.op1))]  # fmt: skip
        if ranks[0] != ranks[1]:
            return [f"inputs have {ranks[0]} and {ranks[1]} dimensions where they must have as many"]
        return []

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n = Nodes(c, self.name)
        sides = [self._side(n, x[i], i, op) for i, op in enumerate((self.op0, self.op1))]
        dropped = [-2 + i for i, op in enumerate((self.op0, self.op1)) if op == MatrixOperation.VECTOR]
        if dropped:
            n("Squeeze", n("MatMul", *sides), n.ints(*dropped), to=y[0])
        else:
            n("MatMul", *sides, to=y[0])

    def _side(self, n: Nodes, name: str, index: int, op: MatrixOperation) -> str:
        rank = rank_of(self.get_input(index))
        if op == MatrixOperation.TRANSPOSE:
            return n("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])
        if op == MatrixOperation.VECTOR:  # a row on the left, a column on the right
            return n("Unsqueeze", name, n.ints(rank - 1 if index == 0 else rank))
        return name


class IEinsumLayer(ILayer):
    """Computes a sum over products by Einstein's rule: "ij,jk->ik"."""

    TYPE = LayerType.EINSUM
    SAME_TYPE = ()
    equation: str = ""

    def check(self) -> list[str]:
        """Return TensorRT 8's refusals: more than two operands, an ellipsis, an index twice in one
        operand."""
        terms = self.equation.replace(" ", "").split("->")[0].split(",")
        if self.num_inputs > 2:
            return self._refuse_in("8.x", "nbInputs > 0 && nbInputs <= MAX_EINSUM_NB_INPUTS")
        if "..." in self.equation:
            return self._refuse_in("8.x", "ellipsis is not permitted in Einsum equation")
        if any(len(set(term)) != len(term) for term in terms):
            return self._refuse_in("8.x", "Diagonal operations are not permitted in Einsum equation")
        return []

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        c.node("Einsum", x, y, name=self.name, equation=self.equation)


for _kind in (IConvolutionLayer, IDeconvolutionLayer):
    hide_removed(_kind)
