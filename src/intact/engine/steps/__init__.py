"""The steps of an integer model: what it does, one record for each kernel call, with no shape fixed.

Each kind has one file, its home: which tensors and constants it names (typed fields, from which wiring,
renaming, checks and the file format follow), what else a file may not say (`check`), the sizes of what it
makes (`output_shape`), its meaning in plain NumPy (`evaluate`), and how it minds where bytes lie (`traits`,
`halo`). A backend adds how it runs: `intact.engine.cpu` has a file of the same name for each kind.

All axes, pads and shapes are in ONNX's order (N, C, H, W); where bytes lie is a backend's business. Codes
are read and written as `Codes` says. A step that computes in floats takes codes or float32 on every input and
makes either: codes in are dequantized (N12), codes out quantized (N11); a product of floats knows float32
alone.
"""

from intact.engine.steps.add import Add
from intact.engine.steps.along_axis import ArgMax, CumSum, Fold, GatherElements, Interpolate
from intact.engine.steps.binary import Binary
from intact.engine.steps.call import Call
from intact.engine.steps.chosen import ChosenLinear
from intact.engine.steps.clip import Clip
from intact.engine.steps.concat import Concat
from intact.engine.steps.conv import Conv
from intact.engine.steps.conv_transpose import ConvTranspose
from intact.engine.steps.dequantize import Dequantize
from intact.engine.steps.dims import Dim
from intact.engine.steps.elementwise import Elementwise
from intact.engine.steps.epilogue import Epilogue
from intact.engine.steps.expand import Expand
from intact.engine.steps.fake_quantize import FakeQuantize
from intact.engine.steps.fallback import FallbackSubgraph
from intact.engine.steps.float_conv import FloatConv
from intact.engine.steps.float_conv_transpose import FloatConvTranspose
from intact.engine.steps.float_linear import FloatLinear
from intact.engine.steps.float_matmul import FloatMatMul
from intact.engine.steps.function import Function
from intact.engine.steps.gather import Gather
from intact.engine.steps.grid_sample import GridSample
from intact.engine.steps.layer_norm import LayerNorm
from intact.engine.steps.linear import Linear
from intact.engine.steps.matmul import MatMul
from intact.engine.steps.pad import Pad
from intact.engine.steps.pool import Pool
from intact.engine.steps.quantize import Quantize
from intact.engine.steps.recurrent import Recurrent
from intact.engine.steps.reduce import Reduce
from intact.engine.steps.reinterpret import Reinterpret
from intact.engine.steps.rescale import Rescale
from intact.engine.steps.reshape import Reshape
from intact.engine.steps.resize import Resize
from intact.engine.steps.scatter import GatherRows, ScatterElements, ScatterRows
from intact.engine.steps.shape_arithmetic import ShapeArithmetic
from intact.engine.steps.slice import Slice
from intact.engine.steps.softmax import Softmax
from intact.engine.steps.split_quantize import SplitQuantize
from intact.engine.steps.step import Halo, Step, Traits
from intact.engine.steps.table import Table
from intact.engine.steps.tensors import STRING, Codes, Shape, Tensor
from intact.engine.steps.top_k import TopK
from intact.engine.steps.transpose import Transpose
from intact.engine.steps.volume import StackPlanes

KINDS: dict[str, type[Step]] = {kind.kind: kind for kind in Step.__subclasses__()}
"""Every kind of step, by the name that plan files have for it."""

__all__ = [
    "KINDS", "STRING", "Add", "ArgMax", "Binary", "Call", "ChosenLinear", "Clip", "Codes", "Concat", "Conv",
    "ConvTranspose", "CumSum", "Dequantize", "Dim", "Elementwise", "Epilogue", "Expand", "FakeQuantize",
    "FallbackSubgraph", "FloatConv", "FloatConvTranspose", "FloatLinear", "FloatMatMul", "Fold", "Function",
    "Gather", "GatherElements", "GatherRows", "GridSample", "Halo", "Interpolate", "LayerNorm", "Linear",
    "MatMul", "Pad", "Pool", "Quantize", "Recurrent", "Reduce", "Reinterpret", "Rescale", "Reshape",
    "Resize", "ScatterElements", "ScatterRows", "Shape", "ShapeArithmetic", "Slice", "Softmax",
    "SplitQuantize", "StackPlanes", "Step", "Table", "Tensor", "TopK", "Traits", "Transpose",
]  # fmt: skip
