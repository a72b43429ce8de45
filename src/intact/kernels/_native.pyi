"""Types of the native module, which csrc/bindings/ defines. Arrays are dense; outputs are given."""

from collections.abc import Sequence
from typing import Any, overload

from numpy.typing import NDArray

_Array = NDArray[Any]
_Layout = tuple[int, int, int, int]

def cpu_features() -> dict[str, bool]: ...
def acquire(features: list[str]) -> bool: ...
def kernels() -> list[tuple[str, str, list[str], bool]]: ...
def fake_quantize(
    kernel: str,
    convert: str,
    dtype: str,
    layout: _Layout,
    x: _Array,
    scale: _Array,
    low: _Array,
    high: _Array,
    y: _Array,
    threads: int,
) -> None: ...
def fake_quantize_grad(
    kernel: str,
    convert: str,
    grad_dtype: str,
    dtype: str,
    layout: _Layout,
    grad: _Array,
    x: _Array,
    low: _Array,
    high: _Array,
    y: _Array,
    threads: int,
) -> None: ...
def learned_range_grad(
    kernel: str,
    convert: str,
    dtypes: list[str],
    layout: _Layout,
    grad: _Array,
    x: _Array,
    y: _Array,
    low: _Array,
    high: _Array,
    to_x: _Array,
    sums: _Array,
    threads: int,
) -> None: ...
def quantize(
    kernel: str,
    convert: str,
    dtype: str,
    layout: _Layout,
    x: _Array,
    scale: _Array,
    low: _Array,
    high: _Array,
    qmin: int,
    is_signed: bool,
    q: _Array,
    threads: int,
) -> None: ...
def dequantize(
    kernel: str,
    layout: _Layout,
    q: _Array,
    scale: _Array,
    low: _Array,
    qmin: int,
    is_signed: bool,
    y: _Array,
    threads: int,
) -> None: ...
def moments(
    kernel: str, x: _Array, groups: int, rows: int, columns: int, first: int, sums: _Array, products: _Array
) -> None: ...
def unit_factor(matrices: _Array, size: int) -> None: ...
def round_together(
    rows: _Array,
    steps: _Array,
    factors: _Array,
    groups: int,
    size: int,
    low: float,
    high: float,
    points: _Array,
) -> None: ...
def quadratic_forms(rows: _Array, matrices: _Array, groups: int, size: int, out: _Array) -> None: ...
def entropy_divergences(
    counts: _Array, mass: _Array, filled: _Array, levels: int, sure: float, candidates: _Array,
    bounds: _Array, out: _Array,
) -> None: ...  # fmt: skip
def absmax(
    kernel: str, convert: str, dtype: str, layout: _Layout, x: _Array, amax: _Array, threads: int
) -> None: ...
def minmax(
    kernel: str, convert: str, dtype: str, layout: _Layout, x: _Array, min: _Array, max: _Array, threads: int
) -> None: ...
def count_pow2(
    kernel: str,
    convert: str,
    dtype: str,
    x: _Array,
    exponent: int,
    negative: _Array,
    positive: _Array,
    threads: int,
) -> tuple[float, float, int]: ...
def count_fixed(
    kernel: str, convert: str, dtype: str, x: _Array, width: float, counts: _Array, threads: int
) -> None: ...
def grid_gains(
    number: _Array,
    value: _Array,
    halfway: _Array,
    steps: _Array,
    squares: _Array,
    scale: _Array,
    out: _Array,
) -> None: ...
def affine_gains(
    number: _Array,
    value: _Array,
    qmin: int,
    qmax: int,
    scale: _Array,
    zero_point: _Array,
    out: _Array,
) -> None: ...
def window_sums(
    x: _Array,
    samples: int,
    channels: int,
    axes: Sequence[tuple[int, Sequence[tuple[int, int, int]]]],
    out: _Array,
) -> None: ...
def gather_windows(
    x: _Array, pixels: int, first: int, groups: int, channels: int, at: _Array, taps: int, out: _Array
) -> None: ...

CHECKED: bool

class View:
    def __init__(
        self,
        block: int,
        offset: int,
        dtype: str,
        sizes: Sequence[int],
        strides: Sequence[int],
        halo: Sequence[int] = (0, 0, 0, 0),
        holds: tuple[int, int] = (0, 255),
    ) -> None: ...
    def part(self, offset: int, sizes: Sequence[int], strides: Sequence[int]) -> View: ...
    @property
    def block(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def sizes(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def halo(self) -> list[int]: ...
    @property
    def holds(self) -> tuple[int, int]: ...

class Step:
    @property
    def items(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def scratch(self) -> int: ...

class Program:
    def __init__(self) -> None: ...
    def arena(self, nbytes: int) -> None: ...
    def tensor(self, offset: int, nbytes: int) -> None: ...
    def constant(self, array: _Array) -> int: ...
    def input(self, nbytes: int) -> int: ...
    def output(self, nbytes: int) -> int: ...
    def window(
        self, block: int, offset: int, nbytes: int, stride: int, count: int, by_thread: bool = False
    ) -> int: ...
    def repeat(self, times: int) -> None: ...
    def add(self, step: Step) -> None: ...
    def loops(self, step: int) -> list[tuple[str, int]]: ...
    def items(self, step: int) -> int: ...
    def largest_share(self, step: int, threads: int) -> float: ...
    @property
    def kernels(self) -> list[str]: ...
    def __len__(self) -> int: ...

class ThreadPool:
    def __init__(self, threads: int, spin: bool) -> None: ...
    @property
    def threads(self) -> int: ...

class Workspace:
    def __init__(self) -> None: ...
    @property
    def nbytes(self) -> int: ...

class Context:
    @overload
    def __init__(self, program: Program, thread_pool: ThreadPool, checked: bool = False) -> None: ...
    @overload
    def __init__(self, program: Program, thread_pool: ThreadPool, workspace: Workspace) -> None: ...
    def attach(self, workspace: Workspace) -> None: ...
    def place(self, block: int, array: _Array) -> None: ...
    def run(self, begin: int, end: int, seconds: _Array | None = None) -> int: ...
    def arena(self) -> NDArray[Any]: ...

NEAR_BYTES: int

def native_kinds() -> list[str]: ...
def crc32(array: _Array) -> int: ...
def unpack_block_codes(panels: _Array, outputs: int, inputs: int, bits: int) -> NDArray[Any]: ...
def place_spans(spans: list[tuple[int, int, int]]) -> tuple[list[int], int]: ...

class HostedPlan:
    def __init__(self, json: str, host: object, is_whole: bool) -> None: ...
    def bind(
        self,
        shapes: list[tuple[int, ...]],
        thread_pool: ThreadPool,
        most_bytes: int,
        near_bytes: int,
        input_strides: list[tuple[int, ...] | None],
        output_strides: list[tuple[int, ...] | None],
    ) -> HostedBound: ...
    def forget_layers(self) -> None: ...

class HostedBound:
    program: Program
    input_blocks: list[int]
    output_blocks: list[int]
    held_block: int
    held_bytes: int
    held_values: NDArray[Any]
    arena_bytes: int
    choices: list[tuple[int, tuple[str, ...], int]]
    labels: list[int]
    parts: list[tuple[int, int]]
    times: list[int]
    shapes: list[tuple[int, ...]]
    def place_arrays(self, context: Context, inputs: list[_Array], outputs: list[_Array]) -> None: ...
    def shape(self, tensor: int) -> tuple[int, ...]: ...
    def place(self, tensor: int) -> tuple[int, int, tuple[int, ...]]: ...

class EpilogueSpec:
    floats: bool
    correction: _Array
    multiplier: _Array
    bias: _Array
    zero_point: int
    low: int
    high: int
    real_low: float
    real_high: float
    residual: View | None
    residual_multiplier: float
    residual_zero_point: int
    scale: float
    factors: _Array
    offsets: _Array
    slopes: _Array
    divides: bool
    gains: _Array
    shifts: _Array
    quotient: float
    def __init__(self) -> None: ...
    def set_function(self, ops: str, function: str) -> None: ...

def pack_gemm(kernel: str, weights: _Array, groups: int, joined: bool, high: int) -> _Array: ...
def gemm_groups(kernel: str, packed: _Array) -> list[int]: ...
def step_conv(
    kernel: str,
    x: View,
    y: View,
    packed: _Array,
    strides: tuple[int, int],
    dilations: tuple[int, int],
    origin: tuple[int, int],
    epilogue: EpilogueSpec,
    threads: int = 1,
    zero: int = 0,
    low: View | None = None,
    shift: int = 0,
    high_correction: Sequence[int] = (),
) -> Step: ...
def step_chosen_linear(
    kernel: str,
    x: View,
    index: View,
    y: View,
    packed: _Array,
    epilogue: EpilogueSpec,
    threads: int,
    zero: int,
) -> Step: ...
def gemm_tiled(kernel: str) -> bool: ...
def gemm_grouped(kernel: str) -> bool: ...
def gemm_fills(kernel: str, pixels: int, window: int, channels: int) -> bool: ...
def float_panel(kernel: str) -> int: ...
def pack_floats(kernel: str, b: _Array, to: _Array) -> None: ...
def step_float_matmul(
    kernel: str,
    transpose: str,
    a: View,
    y: View,
    b: View | None,
    packed: _Array | None,
    start: View | None,
) -> Step: ...
def step_float_conv(
    kernel: str,
    x: View,
    y: View,
    packed: _Array,
    kernel_size: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    origin: tuple[int, int],
    groups: int,
    start: View | None,
) -> Step: ...
def winograd_fits(weights: _Array, high: int) -> bool: ...
def winograd_pays(kernel: str, direct: str, sizes: tuple[int, int, int, int, int], threads: int) -> bool: ...
def pack_winograd(kernel: str, weights: _Array, high: int) -> _Array: ...
def step_winograd(
    kernel: str,
    x: View,
    y: View,
    packed: _Array,
    origin: tuple[int, int],
    epilogue: EpilogueSpec,
    threads: int = 1,
) -> Step: ...

_Grid = tuple[int, int, int]
_Pair = tuple[int, int]
_Pads = tuple[int, int, int, int]

def step_copy(transpose: str, x: View, y: View) -> Step: ...
def step_resize(x: View, y: View, indices: Sequence[Sequence[int]]) -> Step: ...
def step_gather(x: View, index: View, y: View, axis: int) -> Step: ...
def step_elementwise(kernel: str, operation: str, xs: Sequence[View], y: View) -> Step: ...
def step_interpolate(
    x: View, y: View, axis: int, places: list[int], weights: list[float], terms: int
) -> Step: ...
def step_fold(x: View, y: View, axis: int, function: str) -> Step: ...
def step_cum_sum(x: View, y: View, axis: int, exclusive: bool, reverse: bool) -> Step: ...
def step_arg_max(transpose: str, x: View, y: View, axis: int, smallest: bool, last: bool) -> Step: ...
def step_gather_elements(x: View, index: View, y: View, axis: int) -> Step: ...
def step_top_k(x: View, y: View, places: View, axis: int, largest: bool) -> Step: ...
def step_scatter_elements(index: View, updates: View, y: View, axis: int, reduction: str) -> Step: ...
def step_scatter_rows(index: View, updates: View, y: View, sizes: list[int], reduction: str) -> Step: ...
def step_gather_rows(x: View, index: View, y: View, sizes: list[int], batch: int) -> Step: ...
def step_grid_sample(
    x: View, grid: View, y: View, nearest: bool, padding: str, align_corners: bool
) -> Step: ...
def step_fill(y: View, value: int) -> Step: ...
def step_halo(image: View, value: int) -> Step: ...
def step_quantize(kernel: str, transpose: str, x: View, y: View, scale: float, grid: _Grid) -> Step: ...
def step_split_quantize(
    kernel: str, transpose: str, x: View, above: View, below: View, scale: float, low: int, high: int
) -> Step: ...
def step_dequantize(kernel: str, transpose: str, x: View, y: View, scale: float, zero: int) -> Step: ...
def step_add(
    kernel: str,
    a: View,
    b: View,
    y: View,
    a_zero: int,
    a_scale: float,
    b_zero: int,
    b_scale: float,
    scale: float,
    grid: _Grid,
) -> Step: ...
def step_rescale(kernel: str, x: View, y: View, zero: int, multiplier: float, grid: _Grid) -> Step: ...
def step_table(kernel: str, x: View, table: View, y: View) -> Step: ...
def step_max_pool(
    kernel: str, x: View, y: View, window: _Pair, strides: _Pair, dilations: _Pair, pads: _Pads
) -> Step: ...
def step_float_max_pool(
    floats: str,
    x: View,
    y: View,
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> Step: ...
def step_mean_pool(
    kernel: str,
    x: View,
    y: View,
    window: _Pair,
    strides: _Pair,
    dilations: _Pair,
    pads: _Pads,
    include_pads: bool,
    x_scale: float,
    y_scale: float,
    zero: int,
    grid: _Grid,
) -> Step: ...
def step_depthwise(
    kernel: str,
    x: View,
    y: View,
    weight: _Array,
    strides: _Pair,
    dilations: _Pair,
    pads: _Pair,
    epilogue: EpilogueSpec,
    low: View | None = None,
) -> Step: ...

class RealIn:
    def __init__(self, view: View, zero: int, scale: float) -> None: ...

class RealOut:
    def __init__(self, view: View, scale: float, grid: _Grid) -> None: ...

def real_functions(floats: str) -> list[str]: ...
def smooth_functions(floats: str) -> dict[str, list[float]]: ...
def step_function(floats: str, transpose: str, x: RealIn, y: RealOut, function: str) -> Step: ...
def step_clip(floats: str, transpose: str, x: RealIn, y: RealOut, low: float, high: float) -> Step: ...
def step_fake_quantize(
    floats: str,
    transpose: str,
    fake_quantize: str,
    x: RealIn,
    y: RealOut,
    scale: float,
    low: float,
    high: float,
) -> Step: ...
def step_binary(floats: str, transpose: str, a: RealIn, b: RealIn, y: RealOut, function: str) -> Step: ...
def step_softmax(
    floats: str, transpose: str, x: RealIn, y: RealOut, gain: float, mask: RealIn | None
) -> Step: ...
def step_recurrent(
    float_steps: str,
    float_gemm: str,
    cell: str,
    x: View,
    packed: View,
    hidden: int,
    reverse: Sequence[bool],
    bias: View | None,
    h: RealIn | None,
    c: RealIn | None,
    lengths: View | None,
    y: RealOut | None,
    last_h: RealOut | None,
    last_c: RealOut | None,
    threads: int,
) -> Step: ...
def step_reduce(floats: str, reduce: str, transpose: str, x: RealIn, y: RealOut, function: str) -> Step: ...
def step_layer_norm(
    floats: str,
    transpose: str,
    x: RealIn,
    y: RealOut,
    epsilon: float,
    residual: RealIn | None,
    weight: View | None,
    bias: View | None,
    codes: RealOut | None,
    factors: View | None,
) -> Step: ...

class MatMulSpec:
    def __init__(
        self,
        a: View,
        b: View,
        y: View,
        zeros: tuple[int, int],
        epilogue: EpilogueSpec,
    ) -> None: ...

def step_matmul(matmul: str, product: MatMulSpec) -> Step: ...
def step_attention(
    matmul: str,
    floats: str,
    scores: MatMulSpec,
    scale: float,
    gain: float,
    mask: RealIn | None,
    probability_scale: float,
    probabilities: _Grid,
    product: MatMulSpec,
) -> Step: ...
