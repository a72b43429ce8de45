"""Layers with weights: convolutions, and products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.graph import Composer
from intact.trt.enums import LayerType, MatrixOperation, PaddingMode
from intact.trt.layers.base import ILayer
from intact.trt.tensors import Dims, Weights, array_of

AUTO_PADS = {PaddingMode.SAME_UPPER: "SAME_UPPER", PaddingMode.SAME_LOWER: "SAME_LOWER"}


class WindowLayer(ILayer):
    """What convolutions and pools share: strides, padding, dilation."""

    stride_nd: Dims = ()
    pre_padding: Dims = ()
    post_padding: Dims = ()
    dilation_nd: Dims = ()
    padding_mode = PaddingMode.EXPLICIT_ROUND_DOWN

    @property
    def padding_nd(self) -> Dims:
        """Padding before and behind, where they are the same."""
        return self.pre_padding

    @padding_nd.setter
    def padding_nd(self, padding: Dims) -> None:
        self.pre_padding = self.post_padding = tuple(padding)

    stride = property(lambda self: self.stride_nd, lambda self, v: setattr(self, "stride_nd", tuple(v)))
    padding = property(lambda self: self.padding_nd, lambda self, v: setattr(self, "padding_nd", tuple(v)))

    def _window(self, spatial: int) -> dict[str, Any]:
        """The ONNX attributes of the window."""
        given: dict[str, Any] = {"strides": list(self.stride_nd) or [1] * spatial}
        if self.padding_mode in AUTO_PADS:
            given["auto_pad"] = AUTO_PADS[self.padding_mode]
        else:
            before = list(self.pre_padding) or [0] * spatial
            given["pads"] = before + (list(self.post_padding) or [0] * spatial)
        if self.dilation_nd and any(d != 1 for d in self.dilation_nd):
            given["dilations"] = list(self.dilation_nd)
        return given


class IConvolutionLayer(WindowLayer):
    """Convolution; its kernel is an array, or input 1 (behind a Dequantize layer, for example)."""

    TYPE = LayerType.CONVOLUTION
    num_output_maps: int = 0
    kernel_size_nd: Dims = ()
    kernel: Weights | NDArray | None = None
    bias: Weights | NDArray | None = None
    num_groups: int = 1

    def _weights(self, c: Composer, x: list[str], shape: tuple[int, ...]) -> list[str]:
        wired = [*x, "", ""][:3]
        if not wired[1]:
            kernel = array_of(self.kernel)
            if kernel is None:
                raise ValueError("convolution has neither kernel weights nor a kernel tensor (input 1)")
            wired[1] = c.constant(f"{self.name}.kernel", np.reshape(kernel, shape))
        if not wired[2] and (bias := array_of(self.bias)) is not None:
            wired[2] = c.constant(f"{self.name}.bias", bias.reshape(-1))
        return wired if wired[2] else wired[:2]

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        shape = (self.num_output_maps, -1, *self.kernel_size_nd)
        given = self._window(len(self.kernel_size_nd))
        inputs = self._weights(c, x, shape)
        c.node("Conv", inputs, y, name=self.name, group=self.num_groups, **given)


class IDeconvolutionLayer(IConvolutionLayer):
    """Transposed convolution; kernels are [in, out / groups, ...]."""

    TYPE = LayerType.DECONVOLUTION

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        shape = (-1, self.num_output_maps // self.num_groups, *self.kernel_size_nd)
        given = self._window(len(self.kernel_size_nd))
        inputs = self._weights(c, x, shape)
        c.node("ConvTranspose", inputs, y, name=self.name, group=self.num_groups, **given)


class IMatrixMultiplyLayer(ILayer):
    """Product of two stacks of matrices, each transposed or a vector."""

    TYPE = LayerType.MATRIX_MULTIPLY
    op0 = MatrixOperation.NONE
    op1 = MatrixOperation.NONE

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        sides = [self._side(c, x[i], i, op) for i, op in enumerate((self.op0, self.op1))]
        c.node("MatMul", sides, y, name=self.name)

    def _side(self, c: Composer, name: str, index: int, op: MatrixOperation) -> str:
        tensor = self.get_input(index)
        if op != MatrixOperation.TRANSPOSE or tensor is None:
            return name
        rank = len(tensor.shape)
        turned = c.fresh(f"{name}.transposed")
        perm = [*range(rank - 2), rank - 1, rank - 2]
        c.node("Transpose", [name], [turned], name=f"{self.name}.transpose{index}", perm=perm)
        return turned
