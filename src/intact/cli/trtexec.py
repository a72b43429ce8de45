"""``intact trtexec``: TensorRT's command, for its common options, on INTact's engine."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intact.atomic import replacing
from intact.cli.options import into_a_folder
from intact.cli.output import say, show_table
from intact.errors import FileFormatError, QuantValueError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from intact import trt

_New = {"dir_okay": False, "callback": into_a_folder}
_Old = {"dir_okay": False, "exists": True}
_Shapes = dict[str, tuple[int, ...]]

SHAPES = "Shapes by input: images:1x3x224x224,mask:1x128."


def run(
    onnx: Annotated[Path | None, typer.Option("--onnx", help="The model.", **_Old)] = None,
    load_engine: Annotated[
        Path | None, typer.Option("--loadEngine", help="A saved engine instead.", **_Old)
    ] = None,
    save_engine: Annotated[
        Path | None, typer.Option("--saveEngine", help="Write the engine.", **_New)
    ] = None,
    int8: Annotated[bool, typer.Option("--int8", help="Allow int8 where the ranges are known.")] = False,
    fp16: Annotated[bool, typer.Option("--fp16", help="Accepted: floats stay float32 here.")] = False,
    best: Annotated[bool, typer.Option("--best", help="Allow every precision: int8 here.")] = False,
    calib: Annotated[Path | None, typer.Option("--calib", help="A calibration cache.", **_Old)] = None,
    shapes: Annotated[str, typer.Option("--shapes", help=SHAPES)] = "",
    min_shapes: Annotated[str, typer.Option("--minShapes", help="Smallest shapes of a profile.")] = "",
    opt_shapes: Annotated[str, typer.Option("--optShapes", help="Usual shapes of a profile.")] = "",
    max_shapes: Annotated[str, typer.Option("--maxShapes", help="Largest shapes of a profile.")] = "",
    load_inputs: Annotated[
        str, typer.Option("--loadInputs", help="Inputs from raw files: images:file.bin,...")
    ] = "",
    iterations: Annotated[int, typer.Option("--iterations", min=1, help="Run at least so often.")] = 10,
    warm_up: Annotated[int, typer.Option("--warmUp", min=0, help="Milliseconds before times count.")] = 200,
    duration: Annotated[float, typer.Option("--duration", min=0, help="Run at least so many seconds.")] = 3.0,
    avg_runs: Annotated[int, typer.Option("--avgRuns", min=1, help="Accepted: every run counts.")] = 10,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="CPU threads of a run. (INTact's own.)")
    ] = None,
    precision_constraints: Annotated[
        str,
        typer.Option("--precisionConstraints", help="none, prefer or obey the pins of --layerPrecisions."),
    ] = "none",
    layer_precisions: Annotated[
        str, typer.Option("--layerPrecisions", help="Pins by layer: conv1:fp32,conv2:int8.")
    ] = "",
    timing_cache: Annotated[
        Path | None, typer.Option("--timingCacheFile", help="Times to use and to add to.", **_New)
    ] = None,
    build_only: Annotated[bool, typer.Option("--buildOnly", "--skipInference", help="Do not run.")] = False,
    dump_profile: Annotated[bool, typer.Option("--dumpProfile", help="Print each layer's time.")] = False,
    export_profile: Annotated[
        Path | None, typer.Option("--exportProfile", help="Each layer's time, JSON.", **_New)
    ] = None,
    dump_layers: Annotated[
        bool, typer.Option("--dumpLayerInfo", help="Print what each layer became.")
    ] = False,
    export_layers: Annotated[
        Path | None, typer.Option("--exportLayerInfo", help="What each layer became, JSON.", **_New)
    ] = None,
    dump_output: Annotated[bool, typer.Option("--dumpOutput", help="Print the outputs.")] = False,
    export_output: Annotated[
        Path | None, typer.Option("--exportOutput", help="Outputs, JSON.", **_New)
    ] = None,
    export_times: Annotated[
        Path | None, typer.Option("--exportTimes", help="Every run's time, JSON.", **_New)
    ] = None,
    workspace: Annotated[
        int, typer.Option("--workspace", help="Accepted: the arena is as large as needed.")
    ] = 0,
    explicit_batch: Annotated[bool, typer.Option("--explicitBatch", help="Accepted: it always is.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print everything that the builder says.")
    ] = False,
) -> None:
    """Build an engine from an ONNX file, or load one; time it; say what became of each layer.

    Options have trtexec's names. What it has beyond these is refused, with the nearest name.

    Examples:

    - `intact trtexec --onnx=model.onnx --int8 --calib=calibration.cache --saveEngine=model.plan`
    - `intact trtexec --loadEngine=model.plan --iterations=100 --dumpProfile`
    """
    from intact import trt

    if (onnx is None) == (load_engine is None):
        raise QuantValueError(
            "trtexec", "neither or both of --onnx and --loadEngine", "one of them", "give one"
        )
    logger = trt.Logger(trt.Logger.VERBOSE if verbose else trt.Logger.WARNING)
    asked = _read_shapes(shapes, "--shapes")
    if onnx is not None:
        ends = [_read_shapes(s, "profile shapes") or asked for s in (min_shapes, opt_shapes, max_shapes)]
        serialized = _build(
            onnx,
            logger,
            ends,
            calib,
            timing_cache,
            _pins(layer_precisions),
            precision_constraints,
            int8 or best,
        )
    else:
        assert load_engine is not None
        serialized = load_engine.read_bytes()
    if save_engine is not None:
        with replacing(save_engine) as path:
            path.write_bytes(serialized)
        say(f"wrote {save_engine}: {len(serialized)} bytes")
    runtime = trt.Runtime(logger)
    runtime.max_threads = threads
    engine = runtime.deserialize_cuda_engine(serialized)
    if engine is None:
        raise FileFormatError(
            f"'{load_engine or onnx}'", "no engine", "one that --saveEngine wrote", "build it again"
        )
    _tell_layers(engine, dump_layers, export_layers)
    if not build_only:
        _Run(engine, asked or _read_shapes(opt_shapes, "--optShapes"), load_inputs).all(
            iterations,
            warm_up,
            duration,
            dump_profile,
            export_profile,
            dump_output,
            export_output,
            export_times,
        )


def _build(
    onnx: Path, logger: trt.ILogger, ends: list[_Shapes], calib: Path | None, timing_cache: Path | None,
    pins: dict[str, trt.DataType], constraints: str, int8: bool,
) -> bytes:  # fmt: skip
    from intact import trt

    builder = trt.Builder(logger)
    network, config = builder.create_network(), builder.create_builder_config()
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(onnx):
        first = parser.get_error(0)
        raise FileFormatError(
            f"'{onnx}'", str(first), "a model that the parser takes", "intact check lists what to do"
        )
    if int8:
        config.set_flag(trt.BuilderFlag.INT8)
    if calib is not None:
        config.int8_calibrator = _cached(calib)
    if any(-1 in tensor.shape for tensor in network.inputs) and all(ends):
        profile = builder.create_optimization_profile()
        for name in ends[1]:
            profile.set_shape(name, *(end[name] for end in ends))
        config.add_optimization_profile(profile)
    _pin(network, config, pins, constraints)
    stored = timing_cache.read_bytes() if timing_cache is not None and timing_cache.exists() else b""
    config.set_timing_cache(config.create_timing_cache(stored))
    start = perf_counter()
    serialized = builder.build_serialized_network(network, config)
    if serialized is None:
        raise QuantValueError(f"'{onnx}'", "no engine", "one that builds", "see the errors above")
    say(f"built in {perf_counter() - start:.2f} s")
    cache = config.get_timing_cache()
    if timing_cache is not None and cache is not None:
        with replacing(timing_cache) as path:
            path.write_bytes(cache.serialize())
    return serialized


def _cached(path: Path) -> trt.IInt8Calibrator:
    """A calibrator that has a cache and no data."""
    from intact import trt
    from intact.calib import TrtCache

    kinds = (trt.IInt8EntropyCalibrator2, trt.IInt8MinMaxCalibrator, trt.IInt8EntropyCalibrator)
    kind = {k.TABLE: k for k in kinds}[TrtCache.load(path).algorithm]
    methods: dict[str, Any] = {
        "get_batch_size": lambda self: 1,
        "get_batch": lambda self, names: None,
        "read_calibration_cache": lambda self: path.read_bytes(),
    }
    made: trt.IInt8Calibrator = type("CacheCalibrator", (kind,), methods)()
    return made


def _pins(text: str) -> dict[str, trt.DataType]:
    from intact import trt

    known = {"fp32": trt.DataType.FLOAT, "fp16": trt.DataType.HALF, "int8": trt.DataType.INT8}
    pins = {}
    for entry in filter(None, text.split(",")):
        name, _, precision = entry.rpartition(":")
        if not name or precision not in known:
            raise QuantValueError("--layerPrecisions", repr(entry), "layer:fp32 or layer:int8", "correct it")
        pins[name] = known[precision]
    return pins


def _pin(
    network: trt.INetworkDefinition,
    config: trt.IBuilderConfig,
    pins: dict[str, trt.DataType],
    constraints: str,
) -> None:
    from intact import trt

    flags = {
        "none": None, "prefer": trt.BuilderFlag.PREFER_PRECISION_CONSTRAINTS,
        "obey": trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS,
    }  # fmt: skip
    if constraints not in flags:
        raise QuantValueError(
            "--precisionConstraints", repr(constraints), "none, prefer or obey", "choose one"
        )
    flag = flags[constraints]
    if flag is not None:
        config.set_flag(flag)
    layers = {layer.name: layer for layer in network.layers}
    for name, precision in pins.items():
        if name not in layers:
            raise QuantValueError(
                "--layerPrecisions", f"'{name}'", "a layer of the network", "see --dumpLayerInfo"
            )
        layers[name].precision = precision


def _read_shapes(text: str, option: str) -> _Shapes:
    shapes: _Shapes = {}
    for entry in filter(None, text.split(",")):
        name, _, sizes = entry.rpartition(":")
        if not name or not all(size.isdigit() for size in sizes.split("x")):
            raise QuantValueError(option, repr(entry), "input:1x3x224x224", "write name, colon, sizes")
        shapes[name] = tuple(map(int, sizes.split("x")))
    return shapes


def _tell_layers(engine: trt.ICudaEngine, dump: bool, export: Path | None) -> None:
    from intact import trt

    inspector = engine.create_engine_inspector()
    if dump:
        say(inspector.get_engine_information(trt.LayerInformationFormat.ONELINE))
    if export is not None:
        _write(export, json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON)))


def _write(path: Path, content: Any) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1))


class _Run:
    """Inputs for an engine, and runs of it."""

    def __init__(self, engine: trt.ICudaEngine, shapes: _Shapes, files: str) -> None:
        import numpy as np

        inner = engine.engine
        given = dict(entry.rpartition(":")[::2] for entry in filter(None, files.split(",")))
        self._engine = inner
        names = [port.name for port in inner.inputs]
        for name in (*shapes, *given):
            if name not in names:
                raise QuantValueError(
                    "trtexec", f"input '{name}'", f"one of {', '.join(names)}", "correct its name"
                )
        self._inputs: dict[str, NDArray] = {}
        for port in inner.inputs:
            shape = shapes.get(port.name, tuple(n if isinstance(n, int) else 1 for n in port.shape))
            self._inputs[port.name] = _input(given.get(port.name), shape, np.dtype(port.dtype))

    def all(
        self, iterations: int, warm_up: int, duration: float, dump_profile: bool, export_profile: Path | None,
        dump_output: bool, export_output: Path | None, export_times: Path | None,
    ) -> None:  # fmt: skip
        """Time it, then print and write what was asked for."""
        times = self._timed(iterations, warm_up / 1e3, duration)
        _say_times(times)
        if export_times is not None:
            _write(export_times, [{"latencyMs": 1e3 * t} for t in times])
        if dump_profile or export_profile is not None:
            profile = self._engine.profile(self._inputs)
            rows = [{"name": t.name, "kind": t.kind, "averageMs": 1e3 * t.seconds} for t in profile.timings]
            if dump_profile:
                say(str(profile))
            if export_profile is not None:
                _write(export_profile, rows)
        outputs = {name: array.tolist() for name, array in self._engine.run(self._inputs).items()}
        if dump_output:
            for name, values in outputs.items():
                say(f"{name}: {values}")
        if export_output is not None:
            _write(export_output, outputs)

    def _timed(self, iterations: int, warm_up: float, duration: float) -> list[float]:
        start = perf_counter()
        self._engine.run(self._inputs)
        while perf_counter() - start < warm_up:
            self._engine.run(self._inputs)
        times: list[float] = []
        start = perf_counter()
        while len(times) < iterations or perf_counter() - start < duration:
            before = perf_counter()
            self._engine.run(self._inputs)
            times.append(perf_counter() - before)
        return times


def _input(file: str | None, shape: tuple[int, ...], dtype: np.dtype) -> NDArray:
    import numpy as np

    if file is None:
        return np.random.default_rng(0).standard_normal(shape).astype(dtype)
    data = Path(file).read_bytes()
    if len(data) != int(np.prod(shape)) * dtype.itemsize:
        raise FileFormatError(
            f"'{file}'", f"{len(data)} bytes", f"{dtype} of {shape}", "give --shapes, or another file"
        )
    return np.frombuffer(data, dtype).reshape(shape)


def _say_times(times: list[float]) -> None:
    ordered = sorted(1e3 * t for t in times)
    share = [ordered[min(len(ordered) - 1, int(p * len(ordered)))] for p in (0.5, 0.9, 0.95, 0.99)]
    mean = sum(ordered) / len(ordered)
    row = (len(times), f"{1e3 / mean:.1f}", *(f"{v:.3f}" for v in (ordered[0], mean, *share, ordered[-1])))
    names = ("runs", "per second", "min", "mean", "median", "90%", "95%", "99%", "max")
    show_table("latency in ms", names, [row], figures=names)
