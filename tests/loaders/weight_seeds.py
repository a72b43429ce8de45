"""Good files of weights, and others out of them, for `seeds`."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable

import numpy as np
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors
from tests.loaders import mutate
from tests.loaders.entries import folder


def gguf() -> list[bytes]:
    from intact.formats import GGML_TYPES, GgufField, GgufTensor, write_gguf

    rng = np.random.default_rng(0)
    metadata = {
        "general.alignment": GgufField.of("uint32", 32),
        "tokens": GgufField.of("string", ["a", "", "long one"]),
        "scores": GgufField.of("float32", [0.5, 1.0]),
        "flags": GgufField.of("bool", [True, False]),
    }
    kinds = ["F32", "F16", "BF16", *(name for name, kind in GGML_TYPES.items() if kind.dtype is None)]
    result = []
    for names in (kinds, kinds[:5]):
        tensors = {name: GgufTensor(GGML_TYPES[name], (2, 256)) for name in names}
        path = folder() / "seed.gguf"
        write_gguf(path, metadata, tensors, lambda n, t=tensors: rng.integers(0, 126, t[n].nbytes, np.uint8))
        result.append(path.read_bytes())
    return result


def change_gguf(dice: random.Random, data: bytes) -> bytes:
    """Bytes anywhere, or a number in the header."""
    if dice.random() < 0.3:
        return mutate.data(dice, data)
    result = bytearray(data)
    for _ in range(dice.randrange(1, 4)):
        form = dice.choice(("<I", "<Q"))
        at = dice.randrange(4, max(5, min(len(result), 2000) - 8))
        number = dice.choice(mutate.INTEGERS) % 2 ** (8 * struct.calcsize(form))
        result[at : at + struct.calcsize(form)] = struct.pack(form, number)
    return bytes(result)


def weights() -> list[bytes]:
    from intact.formats.packed_layers import LAYER_CODECS
    from intact.numerics import BlockWeights

    rng = np.random.default_rng(0)
    codes, scales = rng.integers(-8, 8, (32, 64)).astype(np.int8), rng.normal(size=(32, 4)).astype(np.float16)
    record = BlockWeights(codes, "int4", scales, 16)
    points = BlockWeights(
        (codes + 8).astype(np.uint8), "uint4", scales, 16, rng.integers(0, 16, (32, 4), np.uint8)
    )
    result = []
    for name, codec in LAYER_CODECS.items():
        if name == "mxfp4":  # written by others alone
            codes, exponents = (
                rng.integers(0, 256, (2, 8, 2, 16), np.uint8),
                rng.integers(0, 255, (2, 8, 2), np.uint8),
            )
            written = {"blocks": codes, "scales": exponents}
        else:
            written = codec.write(points if "gptq" in name else record)
        parts = {f"a{codec.separator}{suffix}": part for suffix, part in written.items()}
        result.append(bytes(save_safetensors(parts)))
    return result


def change_weights(dice: random.Random, data: bytes, change_array: Callable[..., None]) -> bytes:
    """Bytes of the file, values of its header, or arrays of another shape or dtype."""
    act = dice.random()
    if act < 0.2:
        return mutate.data(dice, data)
    length = struct.unpack("<Q", data[:8])[0]
    if act < 0.5:
        header = json.loads(data[8 : 8 + length])
        mutate.json_value(dice, header)
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + length :]
    arrays = dict(sorted(load_safetensors(data).items()))
    for _ in range(dice.randrange(1, 3)):
        change_array(dice, arrays)
    return bytes(save_safetensors({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
