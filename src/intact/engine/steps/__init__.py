"""The steps of an integer model: what it does, one record for each kernel call, with no shape fixed.

Each kind has one file, its home: which tensors and constants it names (typed fields, from which wiring,
renaming, checks and the file format follow), what else a file may not say and the sizes of what it makes
(`rules`, which native code reads too), and its meaning in plain NumPy (`evaluate`). A backend adds how it
runs: for CPUs `csrc/engine/kinds` has a file of the same name for each kind.

All axes, pads and shapes are in ONNX's order (N, C, H, W); where bytes lie is a backend's business. Codes
are read and written as `Codes` says. A step that computes in floats takes codes or float32 on every input and
makes either: codes in are dequantized (N12), codes out quantized (N11); a product of floats knows float32
alone.
"""

from intact.engine.steps.base.dims import Dim
from intact.engine.steps.base.epilogue import Epilogue
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import STRING, Codes, Shape, Tensor
from intact.engine.steps.base.wiring import constants, reads, writes
from intact.engine.steps.calls.call import Call
from intact.engine.steps.calls.onnx import FallbackSubgraph
from intact.engine.steps.elements.add import Add
from intact.engine.steps.elements.binary import Binary
from intact.engine.steps.elements.clip import Clip
from intact.engine.steps.elements.dequantize import Dequantize
from intact.engine.steps.elements.dynamic_quantize import DynamicQuantize
from intact.engine.steps.elements.elementwise import Elementwise
from intact.engine.steps.elements.fake_quantize import FakeQuantize
from intact.engine.steps.elements.function import Function
from intact.engine.steps.elements.quantize import Quantize
from intact.engine.steps.elements.reinterpret import Reinterpret
from intact.engine.steps.elements.rescale import Rescale
from intact.engine.steps.elements.rotary import Rotary
from intact.engine.steps.elements.size_vector import SizeVector
from intact.engine.steps.elements.split_quantize import SplitQuantize
from intact.engine.steps.elements.table import Table
from intact.engine.steps.moves.block_gather import BlockGather
from intact.engine.steps.moves.concat import Concat
from intact.engine.steps.moves.expand import Expand
from intact.engine.steps.moves.gather import Gather
from intact.engine.steps.moves.gather_elements import GatherElements
from intact.engine.steps.moves.gather_rows import GatherRows
from intact.engine.steps.moves.grid_sample import GridSample
from intact.engine.steps.moves.interpolate import Interpolate
from intact.engine.steps.moves.pad import Pad
from intact.engine.steps.moves.reshape import Reshape
from intact.engine.steps.moves.resize import Resize
from intact.engine.steps.moves.resize_places import ResizePlaces
from intact.engine.steps.moves.scatter_elements import ScatterElements
from intact.engine.steps.moves.scatter_rows import ScatterRows
from intact.engine.steps.moves.slice import Slice
from intact.engine.steps.moves.stack_planes import StackPlanes
from intact.engine.steps.moves.transpose import Transpose
from intact.engine.steps.products.block_float_linear import BlockFloatLinear
from intact.engine.steps.products.block_linear import BlockLinear
from intact.engine.steps.products.cached_attention import CachedAttention
from intact.engine.steps.products.causal_conv import CausalConv
from intact.engine.steps.products.chosen_block_linear import ChosenBlockLinear
from intact.engine.steps.products.chosen_linear import ChosenLinear
from intact.engine.steps.products.conv import Conv
from intact.engine.steps.products.conv_transpose import ConvTranspose
from intact.engine.steps.products.dynamic_conv import DynamicConv
from intact.engine.steps.products.dynamic_recurrent import DynamicRecurrent
from intact.engine.steps.products.float_conv import FloatConv
from intact.engine.steps.products.float_conv_transpose import FloatConvTranspose
from intact.engine.steps.products.float_linear import FloatLinear
from intact.engine.steps.products.float_matmul import FloatMatMul
from intact.engine.steps.products.linear import Linear
from intact.engine.steps.products.linear_attention import LinearAttention
from intact.engine.steps.products.matmul import MatMul
from intact.engine.steps.products.recurrent import Recurrent
from intact.engine.steps.reductions.arg_max import ArgMax
from intact.engine.steps.reductions.cum_sum import CumSum
from intact.engine.steps.reductions.fold import Fold
from intact.engine.steps.reductions.layer_norm import LayerNorm
from intact.engine.steps.reductions.pool import Pool
from intact.engine.steps.reductions.reduce import Reduce
from intact.engine.steps.reductions.softmax import Softmax
from intact.engine.steps.reductions.top_k import TopK

KINDS: dict[str, type[Step]] = {kind.kind: kind for kind in Step.__subclasses__()}
"""Every kind of step, by the name that plan files have for it."""

__all__ = [
    "KINDS", "STRING", "Add", "ArgMax", "Binary", "BlockFloatLinear", "BlockGather", "BlockLinear",
    "CachedAttention", "Call", "CausalConv", "ChosenBlockLinear", "ChosenLinear", "Clip", "Codes",
    "Concat", "Conv", "ConvTranspose", "CumSum", "Dequantize", "Dim", "DynamicConv", "DynamicQuantize",
    "DynamicRecurrent", "Elementwise", "Epilogue", "Expand", "FakeQuantize", "FallbackSubgraph",
    "FloatConv", "FloatConvTranspose", "FloatLinear", "FloatMatMul", "Fold", "Function", "Gather",
    "GatherElements", "GatherRows", "GridSample", "Interpolate", "LayerNorm", "Linear", "LinearAttention",
    "MatMul", "Pad", "Pool", "Quantize", "Recurrent", "Reduce",
    "Reinterpret", "Rescale", "Reshape", "Resize", "ResizePlaces", "Rotary",
    "ScatterElements", "ScatterRows", "Shape", "SizeVector", "Slice", "Softmax", "SplitQuantize",
    "StackPlanes", "Step", "Table", "Tensor", "TopK", "Transpose", "constants", "reads", "writes",
]  # fmt: skip
