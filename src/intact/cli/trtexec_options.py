"""Options of NVIDIA's trtexec 8.6, 10 and 11 that INTact's has not: what each means on a CPU.

Source: the help of trtexec (samples/common/sampleOptions.cpp) in TensorRT 8.6.1, 10.13 and 11.1. An option is
a flag of the builder, accepted because a CPU has no use for it, or refused with the reason.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from intact.cli.printing import say
from intact.errors import UnsupportedError

FLAGS = {
    "bf16": "BF16", "directIO": "DIRECT_IO", "distributiveIndependence": "DISTRIBUTIVE_INDEPENDENCE",
    "errorOnTimingCacheMiss": "ERROR_ON_TIMING_CACHE_MISS", "excludeLeanRuntime": "EXCLUDE_LEAN_RUNTIME",
    "fp8": "FP8", "int4": "INT4", "noBuilderCache": "DISABLE_TIMING_CACHE",
    "noCompilationCache": "DISABLE_COMPILATION_CACHE", "refit": "REFIT", "restricted": "SAFETY_SCOPE",
    "safe": "SAFETY_SCOPE", "vc": "VERSION_COMPATIBLE", "versionCompatible": "VERSION_COMPATIBLE",
}  # fmt: skip
"""Option -> the flag of `trt.BuilderFlag` that it sets. What that does, the builder says."""

_ACCEPTED = {
    "kernels are chosen by the instruction set": (
        "avgTiming", "cpuOnly", "decomposableAttentions",
        "hardwareCompatibilityLevel", "heuristic", "l2LimitForTiling", "maxAuxStreams", "maxTactics",
        "minTiming", "nvtxMode", "preview", "remoteAutoTuningConfig", "runtimePlatform", "tacticSources",
        "tempdir", "tempfileControls", "tilingOptimizationLevel",
    ),
    "memory is as large as needed": (
        "allocationStrategy", "allowWeightStreaming", "memPoolSize", "monitorMemory", "persistentCacheRatio",
        "weightStreamingBudget",
    ),
    "no GPU runs anything": (
        "asyncFileReader", "consistency", "device", "exposeDMA", "includeDataTransfers", "infStreams",
        "noCudaGraph", "noDataTransfers", "noSpinWait", "separateProfileRun", "streams", "useCudaGraph",
        "useManagedMemory", "useRuntime", "useSpinWait", "leanDLLPath", "std",
    ),
    "there is no DLA": (
        "adjustForDLA", "allowGPUFallback", "buildDLAStandalone", "reportCapabilityDLA",
        "uint8AsymmetricQuantizationDLA", "useDLACore",
    ),
    "floats are float32": ("noTF32", "stronglyTyped"),
    "layers are always told in detail": ("profilingVerbosity",),
    "a calibration cache needs no data": (
        "calibProfile", "maxShapesCalib", "minShapesCalib", "optShapesCalib",
    ),
    "operators run as the file has them": (
        "enablePluginOverride", "ignoreParsedPluginLibs", "pi", "pluginInstanceNorm",
    ),
}  # fmt: skip

_REFUSED = {
    "it reads formats that TensorRT 10 no longer has; convert the model to ONNX": (
        "batch", "deploy", "explicitPrecision", "maxBatch", "model", "output", "uff", "uffInput", "uffNHWC",
    ),
    "libraries of plugins are made for a GPU; intact.trt.plugin registers functions of Python": (
        "dynamicPlugins", "plugins", "safetyPlugins", "setPluginsToSerialize", "staticPlugins",
    ),
    "an engine holds its weights": (
        "refitFromOnnx", "stripAllWeights", "stripWeights", "timeRefit", "weightless",
    ),
    "intact.trt has debug tensors, by INetworkDefinition.mark_debug": (
        "markDebug", "markUnfusedTensorsAsDebugTensors", "saveAllDebugTensors", "saveDebugTensors",
    ),
    "intact verify compares outputs": (
        "accuracyAlgorithm", "accuracyThreshold", "atol", "loadRefOutputs", "refPair", "rtol",
    ),
    "it searches kernels of a GPU": (
        "continue", "dryRun", "helpBuildRoute", "saveAllEngines", "setBuildRoute", "tuneBuildRouteFile",
        "tuneBuildRoutes", "tuningCacheFile", "tuningResultFile", "tuningSearch", "tuningTimeOut",
    ),
    "the file has one profile, of --minShapes, --optShapes and --maxShapes": ("profile", "useProfile"),
    "INTact does not write it; --exportOutput and --exportLayerInfo write JSON": (
        "dumpKernelText", "dumpOptimizationProfile", "dumpRawBindingsToFile", "dumpRefit",
        "getPlanVersionOnly", "serialized", "timeDeserialize",
    ),
}  # fmt: skip

ACCEPTED = {option: why for why, options in _ACCEPTED.items() for option in options}
"""Option without effect -> why it has none."""

REFUSED = {option: why for why, options in _REFUSED.items() for option in options}
"""Option that is refused -> why."""

_BY_VALUE = {
    "sparsity": (("disable", "enable"), "force would change the weights"),
    "layerDeviceTypes": ((":GPU",), "there is no DLA"),
    "layerOutputTypes": ((":fp32",), "outputs of layers are float32, or int8 by --layerPrecisions"),
}  # fmt: skip
"""Option -> what each entry of its value ends in where it changes nothing, and why others are refused."""


class TrtexecCommand(TyperCommand):
    """Takes trtexec's whole command line, in which every word is an option: what is not among INTact's own is
    looked up above.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Turn trtexec's flags of the builder into ``--builderFlag``, and leave out what has no effect.

        Raises:
            UnsupportedError: A CPU cannot do what an option asks for.
        """
        ours, without_effect = list[str](), list[str]()
        for word, following in zip(args, [*args[1:], ""], strict=True):
            option, _, value = word.removeprefix("--").partition("=")
            if option in FLAGS:
                ours.append(f"--builderFlag={FLAGS[option]}")
            elif option in ACCEPTED or _changes_nothing(option, value):
                without_effect.append(f"{word} ({ACCEPTED.get(option, 'it changes nothing')})")
            elif word == "--threads" and not following.isdecimal():
                without_effect.append("--threads (INTact's takes a number)")
            elif option in REFUSED or option in _BY_VALUE:
                why = REFUSED.get(option) or _BY_VALUE[option][1]
                raise UnsupportedError("trtexec", f"'{word}'", "options that a CPU can follow", why)
            else:
                ours.append(word)
        if without_effect:
            say(f"without effect: {', '.join(without_effect)}")
        return super().parse_args(ctx, ours)


def _changes_nothing(option: str, value: str) -> bool:
    if option not in _BY_VALUE:
        return False
    harmless, _ = _BY_VALUE[option]
    return bool(value) and all(entry.endswith(harmless) for entry in value.split(","))
