"""``intact trtexec`` offers the common options of TensorRT's command on INTact's engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from intact.cli.shared_options import READ, SHAPES, check_output_path, check_seconds, check_thread_count
from intact.cli.trtexec_run import Request, execute

_New = {"dir_okay": False, "callback": check_output_path}
_Onnx = Annotated[Path | None, typer.Option("--onnx", help="The model.", **READ)]
_LoadEngine = Annotated[Path | None, typer.Option("--loadEngine", help="A saved engine instead.", **READ)]
_SaveEngine = Annotated[Path | None, typer.Option("--saveEngine", help="Write the engine.", **_New)]
_Int8 = Annotated[bool, typer.Option("--int8", help="Allow int8 where the ranges are known.")]
_Fp16 = Annotated[bool, typer.Option("--fp16", help="Accepted: floats stay float32 here.")]
_Best = Annotated[bool, typer.Option("--best", help="Allow every precision: int8 here.")]
_Calib = Annotated[Path | None, typer.Option("--calib", help="A calibration cache.", **READ)]
_Shapes = Annotated[str, typer.Option("--shapes", help=SHAPES)]
_MinShapes = Annotated[str, typer.Option("--minShapes", help="Smallest shapes of a profile.")]
_OptShapes = Annotated[str, typer.Option("--optShapes", help="Usual shapes of a profile.")]
_MaxShapes = Annotated[str, typer.Option("--maxShapes", help="Largest shapes of a profile.")]
_LoadInputs = Annotated[str, typer.Option("--loadInputs", help="Inputs from raw files: images:file.bin,...")]
_Iterations = Annotated[int, typer.Option("--iterations", min=1, max=10**9, help="Run at least so often.")]
_WarmUp = Annotated[int, typer.Option("--warmUp", min=0, max=10**9, help="Milliseconds before times count.")]
_Duration = Annotated[
    float, typer.Option("--duration", min=0, callback=check_seconds, help="Run at least so many seconds.")
]
_Percentile = Annotated[
    str,
    typer.Option("--percentile", help="Percentages of the summary; 0 is the fastest run, 100 the slowest."),
]
_DAY = 86_400_000  # ms: whoever waits longer meant something else
_IdleTime = Annotated[
    float,
    typer.Option("--idleTime", min=0, max=_DAY, callback=check_seconds, help="Milliseconds between runs."),
]
_SleepTime = Annotated[
    float,
    typer.Option("--sleepTime", min=0, max=_DAY, callback=check_seconds, help="Milliseconds before runs."),
]
_AvgRuns = Annotated[int, typer.Option("--avgRuns", min=1, help="Accepted: every run counts.")]
_Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", min=1, callback=check_thread_count, help="CPU threads of a run. (INTact's own.)"
    ),
]
_PrecisionConstraints = Annotated[
    str,
    typer.Option("--precisionConstraints", help="none, prefer or obey the pins of --layerPrecisions."),
]
_LayerPrecisions = Annotated[
    str, typer.Option("--layerPrecisions", help="Pins by layer: conv1:fp32,conv2:int8.")
]
_TimingCache = Annotated[
    Path | None, typer.Option("--timingCacheFile", help="Times to use and to add to.", **_New)
]
_BuildOnly = Annotated[bool, typer.Option("--buildOnly", "--skipInference", help="Do not run.")]
_DumpProfile = Annotated[bool, typer.Option("--dumpProfile", help="Print each layer's time.")]
_ExportProfile = Annotated[
    Path | None, typer.Option("--exportProfile", help="Each layer's time, JSON.", **_New)
]
_DumpLayers = Annotated[bool, typer.Option("--dumpLayerInfo", help="Print what each layer became.")]
_ExportLayers = Annotated[
    Path | None, typer.Option("--exportLayerInfo", help="What each layer became, JSON.", **_New)
]
_DumpOutput = Annotated[bool, typer.Option("--dumpOutput", help="Print the outputs.")]
_ExportOutput = Annotated[Path | None, typer.Option("--exportOutput", help="Outputs, JSON.", **_New)]
_ExportTimes = Annotated[Path | None, typer.Option("--exportTimes", help="Every run's time, JSON.", **_New)]
_Workspace = Annotated[int, typer.Option("--workspace", help="Accepted: the arena is as large as needed.")]
_InputFormats = Annotated[
    str, typer.Option("--inputIOFormats", help="Type and layout of each input: fp32:chw. Those of the file.")
]
_OutputFormats = Annotated[
    str, typer.Option("--outputIOFormats", help="Type and layout of each output. Those of the file.")
]
_BuilderFlags = Annotated[list[str] | None, typer.Option("--builderFlag", hidden=True)]
_Level = Annotated[
    int,
    typer.Option("--builderOptimizationLevel", min=0, max=5, help="0 times nothing: int8 where ranges are."),
]
_ExplicitBatch = Annotated[bool, typer.Option("--explicitBatch", help="Accepted: it always is.")]
_Verbose = Annotated[bool, typer.Option("--verbose", help="Print everything that the builder says.")]


def run(
    onnx: _Onnx = None,
    load_engine: _LoadEngine = None,
    save_engine: _SaveEngine = None,
    int8: _Int8 = False,
    fp16: _Fp16 = False,
    best: _Best = False,
    calib: _Calib = None,
    shapes: _Shapes = "",
    min_shapes: _MinShapes = "",
    opt_shapes: _OptShapes = "",
    max_shapes: _MaxShapes = "",
    load_inputs: _LoadInputs = "",
    iterations: _Iterations = 10,
    warm_up: _WarmUp = 200,
    duration: _Duration = 3.0,
    percentile: _Percentile = "90,95,99",
    idle_time: _IdleTime = 0.0,
    sleep_time: _SleepTime = 0.0,
    avg_runs: _AvgRuns = 10,
    threads: _Threads = None,
    precision_constraints: _PrecisionConstraints = "none",
    layer_precisions: _LayerPrecisions = "",
    timing_cache: _TimingCache = None,
    build_only: _BuildOnly = False,
    dump_profile: _DumpProfile = False,
    export_profile: _ExportProfile = None,
    dump_layers: _DumpLayers = False,
    export_layers: _ExportLayers = None,
    dump_output: _DumpOutput = False,
    export_output: _ExportOutput = None,
    export_times: _ExportTimes = None,
    workspace: _Workspace = 0,
    explicit_batch: _ExplicitBatch = False,
    verbose: _Verbose = False,
    input_formats: _InputFormats = "",
    output_formats: _OutputFormats = "",
    builder_level: _Level = 3,
    builder_flags: _BuilderFlags = None,
) -> None:
    """Build an engine from an ONNX file, or load one; time it; say what became of each layer.

    Options have trtexec's names. Its others, of versions 8.6 to 11, are flags of the builder, without effect
    on a CPU, or refused with a reason.

    Examples:

    - `intact trtexec --onnx=model.onnx --int8 --calib=calibration.cache --saveEngine=model.plan`
    - `intact trtexec --loadEngine=model.plan --iterations=100 --dumpProfile`
    """
    execute(Request(**locals()))  # whose fields are these options
