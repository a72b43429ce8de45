"""Files of language models that `language.py` gives to other runtimes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from intact import formats, graph
from intact.lm.decoders.decoder_graph import decoder_model
from intact.lm.decoders.decoder_weights import DecoderWeights
from intact.lm.decoders.weight_encoder import weight_encoder

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


def onnx_file(source: Path, path: Path, positions: int) -> Path:
    """Write the graph of int4 weights that INTact compiles; ONNX Runtime has no table of 8 bits to gather."""
    codes = weight_encoder("int4", 32, {"embedding": "float32"})
    model = graph.to_proto(decoder_model(DecoderWeights(source), positions, codes))
    onnx.save(model, path, save_as_external_data=True, location="decoder.data")
    return path
