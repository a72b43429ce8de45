"""Executes ``intact trtexec``: builds or loads an engine, times it, and writes the results."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import nan, prod
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

from intact.atomic import replacing
from intact.cli.printing import say, show_table
from intact.cli.shared_options import read_shapes
from intact.errors import FileAccessError, FileFormatError, QuantValueError, UnsupportedError
from intact.limits import BATCH_BYTES
from intact.reading import read_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from intact import trt

_PROFILED = 10
"""Runs of a profile."""


@dataclass(frozen=True)
class Request:
    """Holds the options of the command, under their own names."""

    onnx: Path | None = None
    load_engine: Path | None = None
    save_engine: Path | None = None
    int8: bool = False
    fp16: bool = False
    best: bool = False
    calib: Path | None = None
    shapes: str = ""
    min_shapes: str = ""
    opt_shapes: str = ""
    max_shapes: str = ""
    load_inputs: str = ""
    iterations: int = 10
    warm_up: int = 200
    duration: float = 3.0
    percentile: str = "90,95,99"
    idle_time: float = 0.0
    sleep_time: float = 0.0
    avg_runs: int = 10
    threads: int | None = None
    precision_constraints: str = "none"
    layer_precisions: str = ""
    timing_cache: Path | None = None
    build_only: bool = False
    dump_profile: bool = False
    export_profile: Path | None = None
    dump_layers: bool = False
    export_layers: Path | None = None
    dump_output: bool = False
    export_output: Path | None = None
    export_times: Path | None = None
    workspace: int = 0
    explicit_batch: bool = False
    verbose: bool = False
    input_formats: str = ""
    output_formats: str = ""
    builder_level: int = 3
    builder_flags: Sequence[str] | None = None


def execute(request: Request) -> None:
    """Build or load the engine, run it, and write the requested files.

    Raises:
        IntactError: A file or an option is wrong, or the model cannot be built so.
    """
    from intact import trt

    if (request.onnx is None) == (request.load_engine is None):
        raise QuantValueError(
            "trtexec", "neither or both of --onnx and --loadEngine", "one of them", "give one"
        )
    logger = trt.Logger(trt.Logger.VERBOSE if request.verbose else trt.Logger.WARNING)
    source = request.onnx or request.load_engine
    assert source is not None
    serialized = _build(request, source, logger) if request.onnx is not None else read_bytes(source)
    if request.save_engine is not None:
        with replacing(request.save_engine) as new:
            new.write(serialized)
        say(f"wrote {request.save_engine}: {len(serialized)} bytes")
    runtime = trt.Runtime(logger)
    runtime.max_threads = request.threads
    engine = runtime.deserialize_cuda_engine(serialized)
    if engine is None:
        raise FileFormatError(f"'{source}'", "no engine", "one that --saveEngine wrote", "build it again")
    _tell_layers(engine, request)
    if not request.build_only:
        _Run(engine, request).all()


def _build(request: Request, onnx: Path, logger: trt.ILogger) -> bytes:
    from intact import trt
    from intact.calib import TrtCache
    from intact.trt.building import calibrator_of_cache

    builder = trt.Builder(logger)
    network, config = builder.create_network(), builder.create_builder_config()
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(onnx):
        first = str(parser.get_error(0))
        raise FileFormatError(
            f"'{onnx}'", first, "a model that the parser takes", "intact check lists what to do"
        )
    _require_formats("--inputIOFormats", request.input_formats, network.inputs)
    _require_formats("--outputIOFormats", request.output_formats, network.outputs)
    if request.int8 or request.best:
        config.set_flag(trt.BuilderFlag.INT8)
    for name in request.builder_flags or ():
        if name not in trt.BuilderFlag.__members__:
            raise QuantValueError("--builderFlag", repr(name), "a name of trt.BuilderFlag", "correct it")
        config.set_flag(trt.BuilderFlag[name])
    config.builder_optimization_level = request.builder_level
    if request.calib is not None:
        config.int8_calibrator = calibrator_of_cache(TrtCache.load(request.calib))
    _add_profile(request, builder, network, config)
    _pin(network, config, _pins(request.layer_precisions), request.precision_constraints)
    times = request.timing_cache
    stored = read_bytes(times) if times is not None and times.exists() else b""
    config.set_timing_cache(config.create_timing_cache(stored))
    start = perf_counter()
    serialized = builder.build_serialized_network(network, config)
    if serialized is None:
        raise QuantValueError(f"'{onnx}'", "no engine", "one that builds", "see the errors above")
    say(f"built in {perf_counter() - start:.2f} s")
    cache = config.get_timing_cache()
    if times is not None and cache is not None:
        with replacing(times) as new:
            new.write(cache.serialize())
    return serialized


def _require_formats(option: str, text: str, tensors: Sequence[trt.ITensor]) -> None:
    """Check that types and layouts are those of the tensors.

    Raises:
        UnsupportedError: Another type or layout, or more of them than there are tensors.
    """
    from intact import trt

    types = {"fp32": trt.float32, "fp16": trt.float16, "bf16": trt.bfloat16, "int32": trt.int32,
             "int64": trt.int64, "int8": trt.int8, "uint8": trt.uint8, "bool": trt.bool}  # fmt: skip
    entries = [entry for entry in text.split(",") if entry]
    for number, entry in enumerate(entries):
        type_, _, layout = entry.rpartition(":")
        tensor = tensors[number] if number < len(tensors) else None
        if tensor is None or types.get(type_) != tensor.dtype or layout != "chw":
            want = (
                "one for each tensor, in order" if tensor is None else f"'{tensor.name}' as the file has it"
            )
            raise UnsupportedError(option, repr(entry), want, "leave the option out")


def _add_profile(
    request: Request, builder: trt.Builder, network: trt.INetworkDefinition, config: trt.IBuilderConfig
) -> None:
    fixed = read_shapes(request.shapes, "--shapes")
    texts = (request.min_shapes, request.opt_shapes, request.max_shapes)
    ends = [read_shapes(text, "profile shapes") or fixed for text in texts]
    if any(-1 in tensor.shape for tensor in network.inputs) and all(ends):
        profile = builder.create_optimization_profile()
        for name in ends[1]:
            profile.set_shape(name, *(end[name] for end in ends))
        config.add_optimization_profile(profile)


def _pins(text: str) -> dict[str, trt.DataType]:
    from intact import trt

    data_types = {"fp32": trt.DataType.FLOAT, "fp16": trt.DataType.HALF, "int8": trt.DataType.INT8}
    pins = {}
    for entry in filter(None, text.split(",")):
        name, _, precision = entry.rpartition(":")
        if not name or precision not in data_types:
            raise QuantValueError("--layerPrecisions", repr(entry), "layer:fp32 or layer:int8", "correct it")
        pins[name] = data_types[precision]
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


def _tell_layers(engine: trt.ICudaEngine, request: Request) -> None:
    from intact import trt

    inspector = engine.create_engine_inspector()
    if request.dump_layers:
        _say_lines(inspector.get_engine_information(trt.LayerInformationFormat.ONELINE).split("\n"))
    if request.export_layers is not None:
        content = inspector.get_engine_information(trt.LayerInformationFormat.JSON)
        _write_json(request.export_layers, json.loads(content))


def _write_json(path: Path, content: Any) -> None:
    """Write a file of trtexec's: an empty one in place, because Polygraphy's runner holds such a one open."""
    data = json.dumps(content, indent=1).encode()
    if not path.is_file() or path.stat().st_size:
        with replacing(path) as new:
            new.write(data)
        return
    try:
        path.write_bytes(data)
    except OSError as error:
        with suppress(OSError):
            os.truncate(path, 0)
        raise FileAccessError.of(path, error, "written") from error


class _Run:
    """Runs an engine on inputs from files or on noise."""

    def __init__(self, engine: trt.ICudaEngine, request: Request) -> None:
        import numpy as np

        self._engine, self._request = engine.engine, request
        option = "--shapes" if request.shapes else "--optShapes"
        shapes = read_shapes(_unquote(request.shapes or request.opt_shapes), option)
        entries = filter(None, _unquote(request.load_inputs).split(","))
        files = dict(_name_and_file(entry) for entry in entries)
        names = [port.name for port in self._engine.inputs]
        for name in (*shapes, *files):
            if name not in names:
                raise QuantValueError(
                    "trtexec", f"input '{name}'", f"one of {', '.join(names)}", "correct its name"
                )
        self._inputs: dict[str, NDArray] = {}
        for port in self._engine.inputs:
            shape = shapes.get(port.name, tuple(n if isinstance(n, int) else 1 for n in port.shape))
            outside = np.dtype(engine.dtype_outside(port.name).numpy)
            array = _input(files.get(port.name), shape, outside)
            self._inputs[port.name] = array.astype(np.dtype(port.dtype))

    def all(self) -> None:
        """Time the engine, then print and write what was requested."""
        from intact.trt.running import describe_performance, output_rows, time_rows

        request = self._request
        percentages = _percentages(request.percentile)
        starts, times, wall = self._time_runs()
        _say_times(times)
        _say_lines(describe_performance(times, wall, percentages))
        if request.export_times is not None:
            _write_json(request.export_times, time_rows(starts, times))
        if request.dump_profile or request.export_profile is not None:
            self._profile()
        outputs = self._engine.run(self._inputs)
        if request.dump_output:
            for name, array in outputs.items():
                say(f"{name}: {array.tolist()}")
        if request.export_output is not None:
            _write_json(request.export_output, output_rows(outputs))

    def _profile(self) -> None:
        from intact.engine import Engine
        from intact.trt.running import describe_profile, profile_rows

        engine = self._engine
        if not isinstance(engine, Engine):
            say("no profile: shapes of this network depend on values, and ONNX Runtime runs it as a whole")
            return
        runs = [engine.profile(self._inputs, runs=1) for _ in range(_PROFILED)]
        seconds = [{t.name: t.seconds for t in profile.timings} for profile in runs]
        rows = profile_rows(engine.plan, seconds)
        if self._request.dump_profile:
            _say_lines(describe_profile(rows))
            _say_lines(str(runs[0]).split("\n"))
        if self._request.export_profile is not None:
            _write_json(self._request.export_profile, rows)

    def _time_runs(self) -> tuple[list[float], list[float], float]:
        """Return when runs began, how long they took, and the seconds of all together."""
        request = self._request
        sleep(request.sleep_time / 1e3)
        start = perf_counter()
        self._engine.run(self._inputs)
        while perf_counter() - start < request.warm_up / 1e3:
            self._engine.run(self._inputs)
        starts, times = list[float](), list[float]()
        start = perf_counter()
        while len(times) < request.iterations or perf_counter() - start < request.duration:
            if times and request.idle_time:
                sleep(request.idle_time / 1e3)
            before = perf_counter()
            self._engine.run(self._inputs)
            times.append(perf_counter() - before)
            starts.append(before - start)
        return starts, times, perf_counter() - start


def _percentages(text: str) -> list[float]:
    """Read the percentages of --percentile.

    Raises:
        QuantValueError: One is no number from 0 to 100.
    """
    percentages = list[float]()
    for word in text.split(","):
        try:
            value = float(word)
        except ValueError:
            value = nan
        if not 0 <= value <= 100:
            raise QuantValueError("--percentile", f"'{word}'", "numbers from 0 to 100", "write 90,95,99")
        percentages.append(value)
    return percentages


def _name_and_file(entry: str) -> tuple[str, str]:
    """Split ``name:file``; a file of Windows has a colon of its own, in front of a backslash or a slash."""
    name, _, file = entry.rpartition(":")
    drive = name[-2:-1] == ":" and name[-1:].isalpha() and file[:1] in ("\\", "/")
    return (name[:-2], f"{name[-1]}:{file}") if drive else (name, file)


def _unquote(text: str) -> str:
    """Take out single quotes, in which trtexec allows names to stand."""
    return text.replace("'", "")


def _input(file: str | None, shape: tuple[int, ...], dtype: np.dtype) -> NDArray:
    import numpy as np

    nbytes = prod(shape) * dtype.itemsize
    BATCH_BYTES.check(nbytes, "--shapes", QuantValueError)
    if file is None:
        return np.random.default_rng(0).standard_normal(shape).astype(dtype)
    size = Path(file).stat().st_size if Path(file).is_file() else -1
    if size != nbytes:
        raise FileFormatError(
            f"'{file}'",
            f"{size} bytes" if size >= 0 else "no file",
            f"{dtype} of {shape}",
            "give --shapes, or another file",
        )
    return np.frombuffer(read_bytes(file), dtype).reshape(shape)


def _say_lines(lines: Sequence[str]) -> None:
    for line in lines:
        say(line)


def _say_times(times: list[float]) -> None:
    ordered = sorted(1e3 * t for t in times)
    share = [ordered[min(len(ordered) - 1, int(p * len(ordered)))] for p in (0.5, 0.9, 0.95, 0.99)]
    mean = sum(ordered) / len(ordered)
    row = (len(times), f"{1e3 / mean:.1f}", *(f"{v:.3f}" for v in (ordered[0], mean, *share, ordered[-1])))
    names = ("runs", "per second", "min", "mean", "median", "90%", "95%", "99%", "max")
    show_table("latency in ms", names, [row], figures=names)
