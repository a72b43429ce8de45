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

class Program:
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
    def run(self, begin: int, end: int, seconds: _Array | None = None) -> int: ...
    def arena(self) -> NDArray[Any]: ...

NEAR_BYTES: int

def native_kinds() -> list[str]: ...
def step_rules(kind: str) -> str: ...
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
