"""Good files of every kind, small, and what makes others of them."""

from __future__ import annotations

import hashlib
import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors
from tests.engine.conftest import Qdq
from tests.graph.test_fuzz_load import MODELS
from tests.loaders import extremes, mutate, nodes, text_seeds, weight_seeds
from tests.loaders.entries import folder
from tests.loaders.few_bits import few_bits, labels

CORPUS = Path(__file__).with_name("corpus")
"""Files that were faults once, by kind: read again by a test, and seeds of every run."""


@cache
def good(kind: str) -> list[bytes]:
    """The good files of a kind, and its corpus."""
    return [*_SEEDS[kind](), *(path.read_bytes() for path in sorted((CORPUS / kind).glob("*")))]


def make(kind: str, number: int) -> bytes:
    """File `number` of a kind: the same for the same number and corpus."""
    dice = random.Random(f"{kind} {number}")
    if kind == "onnx" and dice.random() < 0.5:
        return nodes.model(dice)
    base = dice.choice(good(kind))
    return change(kind, dice, base)


def change(kind: str, dice: random.Random, base: bytes) -> bytes:
    """Another file of a kind, made of a good one."""
    return _CHANGES[kind](dice, base)


# -- ONNX


def _images() -> onnx.ModelProto:
    net = Qdq()
    x = net.pair(net.input("x", ("n", 3, 8, 8)))
    y = net.pair(net.node("Relu", net.conv(x, 3, 4, strides=[2, 2])))
    y = net.pair(net.node("Relu", net.node("Add", net.conv(y, 4, 4), y)))
    y = net.pair(net.conv(y, 4, 4, group=4))
    pooled = net.pair(net.node("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]))
    up = net.pair(net.node("ConvTranspose", pooled, net.weight(4, 4, 2, 2, axis=1), strides=[2, 2]))
    pair = net.pair(net.node("Concat", y, up, axis=1))
    mean = net.pair(net.node("GlobalAveragePool", pair))
    flat = net.pair(net.node("Flatten", mean))
    return net.proto(net.node("Gemm", flat, net.weight(5, 8), transB=1))


def _tokens() -> onnx.ModelProto:
    net = Qdq()
    x = net.input("x", (2, 4, 8))
    norm = net.node("LayerNormalization", x, net.floats(8), net.floats(8), epsilon=1e-5)
    a = net.pair(norm)
    q = net.pair(net.node("MatMul", a, net.weight(8, 8, axis=1)))
    rows = net.pair(net.node("Reshape", q, net.ints(2, 4, 2, 4)))
    heads = net.pair(net.node("Transpose", rows, perm=[0, 2, 1, 3]))
    keys = net.pair(net.node("Transpose", rows, perm=[0, 2, 3, 1]))
    soft = net.pair(net.node("Softmax", net.node("MatMul", heads, keys), axis=-1))
    mixed = net.pair(net.node("MatMul", soft, heads))
    back = net.node("Transpose", mixed, perm=[0, 2, 1, 3])
    joined = net.node("Add", net.node("Reshape", net.pair(back), net.ints(2, 4, 8)), x)
    first = net.node("Gather", joined, net.ints(0, 2), axis=1)
    cut = net.node("Slice", first, net.ints(1), net.ints(7), net.ints(2))
    part, other = net.node("Split", first, net.ints(2, 6), axis=2, outputs=2)
    return net.proto(net.node("Gelu", first) if net.opset >= 20 else first, net.node("Erf", cut), part, other)


def _moves() -> onnx.ModelProto:
    net = Qdq()
    x = net.pair(net.input("x", (1, 2, 4, 4)))
    padded = net.pair(net.node("Pad", x, net.ints(0, 0, 1, 1, 0, 0, 1, 1)))
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    large = net.pair(net.node("Resize", padded, "", scales, mode="nearest"))
    mean = net.pair(net.node("ReduceMean", large, net.ints(2, 3), keepdims=1))
    gate = net.pair(net.node("Mul", large, net.node("Sigmoid", mean)))
    pooled = net.pair(net.node("AveragePool", gate, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
    back = net.pair(
        net.node("DepthToSpace", net.pair(net.node("Concat", pooled, pooled, axis=1)), blocksize=2)
    )
    wide = net.node("Expand", net.node("Unsqueeze", back, net.ints(0)), net.ints(2, 1, 1, 1, 1))
    shape = net.node("Shape", wide)
    return net.proto(net.node("Reshape", wide, shape), net.node("Clip", back))


def _fallback() -> onnx.ModelProto:
    net = Qdq()
    x = net.pair(net.input("x", (1, 8)))
    y = net.node("LpNormalization", net.node("MatMul", x, net.weight(8, 8)))
    return net.proto(net.pair(y))


_FUNCTION = """<ir_version: 9, opset_import: ["" : 18, "own" : 1]>
g (float[2,3] x) => (float[2,3] y) <float s = {0.1}, int8 z = {1}> {
    a = own.twice (x)
    q = QuantizeLinear (a, s, z)
    d = DequantizeLinear (q, s, z)
    y = own.four <n = 1> (d)
}
<domain: "own", opset_import: ["" : 18]> twice (p) => (r) { r = Add (p, p) }
<domain: "own", opset_import: ["" : 18, "own" : 1]>
four <n> (p) => (r) { t = own.twice (p) r = own.twice (t) }
"""


def _onnx() -> list[bytes]:
    built = [_images(), _tokens(), _moves(), _fallback(), labels()]
    texts = [onnx.parser.parse_model(text) for text in (*MODELS.values(), _FUNCTION)]
    return [model.SerializeToString() for model in (*built, *texts)]


def _change_onnx(dice: random.Random, data: bytes) -> bytes:
    if dice.random() < 0.3:
        return mutate.data(dice, data)
    try:
        model = onnx.ModelProto.FromString(data)
    except Exception:
        return mutate.data(dice, data)
    if dice.random() < 0.3:
        nodes.disturb(dice, model)
    else:
        mutate.message(dice, model)
    try:
        return bytes(model.SerializeToString())
    except Exception:  # text that is none
        return mutate.data(dice, data)


# -- plans: the text of the steps, the arrays, the file around them


def _plans() -> list[bytes]:
    import intact

    result = []
    for model in (_images(), _tokens(), _moves(), _fallback(), few_bits(), labels()):
        path = folder() / "seed.plan"
        intact.compile(model.SerializeToString(), threads=1).save(path)
        result.append(path.read_bytes())
    return result


def plan_parts(data: bytes) -> tuple[Any, dict[str, bytes]]:
    """The JSON of a plan file, and its arrays with their padding."""
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    text = header.pop("__metadata__")["intact.plan"]
    arrays = {name: data[8 + length :][slice(*entry["data_offsets"])] for name, entry in header.items()}
    return json.loads(text), arrays


def plan_file(content: Any, arrays: dict[str, bytes]) -> bytes:
    """The plan file of these, with right checksums."""
    by_name = {}
    for record in _records(content):
        name = record.get("name") if "kernel" not in record else None
        key = f"constant/{name}" if name else f"packed/{record.get('kernel')}/{record.get('constant')}"
        by_name[key] = record
        if key in arrays and isinstance(size := _size(record), int) and name not in _make(content, "stored"):
            record["crc32"] = zlib.crc32(_join(content, name, arrays) or arrays[key][:size])
    text = json.dumps(content)
    header: dict[str, Any] = {
        "__metadata__": {"intact.plan": text, "intact.plan.crc32": f"{zlib.crc32(text.encode()):08x}"}
    }
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + len(array)
        header[name] = {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}
    head = json.dumps(header).encode()
    head += b" " * (-(8 + len(head)) % 64)
    return struct.pack("<Q", len(head)) + head + b"".join(arrays.values())


def _make(content: Any, field: str) -> dict[Any, Any]:
    """Describe the constants that the file holds in another form, by constant."""
    entries = content.get(field) if isinstance(content, dict) else None
    named = [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
    return {str(entry.get("constant")): entry for entry in named}


def _join(content: Any, name: Any, arrays: dict[str, bytes]) -> bytes:
    """The bytes of a model in pieces, as far as they are there."""
    pieces = _make(content, "joined").get(name, {}).get("pieces")
    try:
        return b"".join(arrays[p["array"]][p["begin"] : p["end"]] for p in pieces)
    except (KeyError, TypeError, MemoryError):
        return b""


def _records(content: Any) -> list[dict[str, Any]]:
    lists = [content.get(key) for key in ("constants", "packed")] if isinstance(content, dict) else []
    return [entry for item in lists if isinstance(item, list) for entry in item if isinstance(entry, dict)]


def _size(record: dict[str, Any]) -> int | None:
    try:
        return int(np.prod(record["shape"], dtype=object)) * np.dtype(record["dtype"]).itemsize
    except (TypeError, ValueError, KeyError, OverflowError):
        return None


def _resize(content: Any, arrays: dict[str, bytes]) -> None:
    """As many bytes as the records ask for, so that sizes are not all that is refused."""
    for record in _records(content):
        name = f"constant/{record.get('name')}"
        size = _size(record)
        if "kernel" not in record and name in arrays and size is not None and 0 <= size < 2**22:
            expected = -(-size // 64) * 64 + 64
            arrays[name] = (arrays[name] * (expected // max(len(arrays[name]), 1) + 1))[:expected]


def _change_plan(dice: random.Random, data: bytes) -> bytes:
    if dice.random() < 0.1:
        return mutate.data(dice, data)
    try:
        content, arrays = plan_parts(data)
    except (ValueError, KeyError, TypeError, struct.error):
        return mutate.data(dice, data)
    if dice.random() < 0.85:
        mutate.json_value(dice, content)
    if arrays and dice.random() < 0.25:
        name = dice.choice(list(arrays))
        body = mutate.data(dice, arrays[name][:-64])
        arrays[name] = body[: len(arrays[name]) - 64].ljust(len(arrays[name]), b"\0")
    if dice.random() < 0.5:
        _resize(content, arrays)
    return plan_file(content, arrays)


# -- .calib


def _calib() -> list[bytes]:
    from intact.calib import Calibration, Range

    rng = np.random.default_rng(0)
    result = Calibration()
    for name in ("x", "conv.out"):
        result.collect(name, rng.normal(size=500).astype(np.float32))
    result.collect("w", rng.normal(size=(3, 50)).astype(np.float32), axis=0)
    ends = Range((0, 1))
    ends.collect(rng.normal(size=(2, 3, 4)).astype(np.float32))
    result["ends"] = ends
    result.record(source="seed", batches=2, samples=16)
    path = folder() / "seed.calib"
    result.save(path)
    small = Calibration({"ends": ends})
    small.save(folder() / "small.calib")
    return [path.read_bytes(), (folder() / "small.calib").read_bytes()]


def calib_file(content: Any, arrays: dict[str, np.ndarray]) -> bytes:
    """The .calib file of these, with its right checksum."""
    if isinstance(content, dict) and "body" in content:
        digest = hashlib.sha256(json.dumps(content["body"], sort_keys=True).encode())
        for name in sorted(arrays):
            array = arrays[name]
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(array.tobytes())
        content["sha256"] = digest.hexdigest()
    return bytes(save_safetensors(arrays, {"intact.calib": json.dumps(content, sort_keys=True)}))


def calib_parts(data: bytes) -> tuple[Any, dict[str, np.ndarray]]:
    """The JSON of a .calib file, and its arrays."""
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    return json.loads(header["__metadata__"]["intact.calib"]), dict(sorted(load_safetensors(data).items()))


def _change_calib(dice: random.Random, data: bytes) -> bytes:
    if dice.random() < 0.15:
        return mutate.data(dice, data)
    try:
        content, arrays = calib_parts(data)
    except Exception:
        return mutate.data(dice, data)
    if dice.random() < 0.6:
        mutate.json_value(dice, content)
    if arrays and dice.random() < 0.6:
        _change_array(dice, arrays)
    return calib_file(content, arrays)


def _change_array(dice: random.Random, arrays: dict[str, np.ndarray]) -> None:
    name = dice.choice(list(arrays))
    array, act = arrays[name], dice.randrange(6)
    if act == 0:
        arrays[name] = array.astype(dice.choice(("int8", "float64", "int32", "uint64", "float16", "bool")))
    elif act == 1:
        arrays[name] = array.reshape(dice.choice((-1, (1, -1), (-1, 1), (-1, 1, 1))))
    elif act == 2:
        arrays[name] = array[: dice.randrange(len(array) + 1)] if array.ndim else array[None]
    elif act == 3:
        del arrays[name]
    elif act == 4:
        arrays[dice.choice(("x/min", "new/min", "ends/max", "a"))] = array
    elif array.size:
        flat = array.reshape(-1).copy()
        pool = mutate.REALS if array.dtype.kind == "f" else mutate.INTEGERS
        with np.errstate(all="ignore"):
            flat[dice.randrange(array.size)] = np.array(dice.choice(pool)).astype(array.dtype)
        arrays[name] = flat.reshape(array.shape)


# -- the rest


def _trt() -> list[bytes]:
    lines = "images: 3c010a14\n/model.0/conv/Conv_output_0: 3d9c2f1e\nzero: 0\na: b: 3f800000\n"
    return [
        f"TRT-{head}\n{lines}".encode() for head in ("8601-EntropyCalibration2", "8XXX-MinMaxCalibration")
    ]


def _npz() -> list[bytes]:
    x = np.random.default_rng(0).normal(size=(4, 3, 8, 8)).astype(np.float32)
    result = []
    for write, arrays in ((np.savez, {"x": x}), (np.savez_compressed, {"x": x, "other": np.arange(9)})):
        file = io.BytesIO()
        write(file, **arrays)
        result.append(file.getvalue())
    return result


def _change_npz(dice: random.Random, data: bytes) -> bytes:
    """Bytes of the archive, or of a member within a sound archive."""
    if dice.random() < 0.4:
        return mutate.data(dice, data)
    file = io.BytesIO()
    try:
        with (
            zipfile.ZipFile(io.BytesIO(data)) as old,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new,
        ):
            for name in old.namelist():
                new.writestr(
                    dice.choice((name, name, name, "x.npy", "", "../x.npy")),
                    _npy_change(dice, old.read(name)),
                )
    except Exception:
        return mutate.data(dice, data)
    return file.getvalue()


def _npy() -> list[bytes]:
    result = []
    for array in (
        np.zeros((4, 3, 8, 8), np.float32),
        np.zeros((2, 3, 8, 8), np.float16),
        np.zeros((), "<M8[s]"),
    ):
        file = io.BytesIO()
        np.save(file, array)
        result.append(file.getvalue())
    return result


def _npy_change(dice: random.Random, data: bytes) -> bytes:
    head, body = data[:128], data[128:]
    return mutate.text(dice, head, ("-1", "4294967296", "True", "<f8", "|O", "(", ")", ",", "None")) + body


def _image() -> list[bytes]:
    from PIL import Image

    result = []
    pixels = np.random.default_rng(0).integers(0, 256, (12, 10, 3), np.uint8)
    for form, picture in (
        ("PNG", pixels),
        ("JPEG", pixels),
        ("BMP", pixels),
        ("GIF", pixels[..., 0]),
        ("PPM", pixels),
        ("TIFF", pixels),
        ("WEBP", pixels),
        ("PNG", pixels[..., 0].astype(np.uint16) * 200),
        ("TIFF", pixels[..., 0].astype(np.float32)),
    ):
        file = io.BytesIO()
        Image.fromarray(picture).save(file, form)
        result.append(file.getvalue())
    return result


_YAML = (
    "*",
    "&a",
    "*a",
    "[",
    "{",
    "!!python/object",
    "- ",
    ": ",
    "1e999",
    ".nan",
    "0x1f",
    "~",
    "|",
    "2001-01-01",
    "<<: ",
    "null",
    "yes",
    "method: entropy",
    "weights: int4",
    "block_size: 1.5",
    "symmetric: maybe",
)


def _overrides() -> list[bytes]:
    return [
        b'"head/*": {activations: int16}\nMatMul: {weights: int4, block_size: 32}\n'
        b'"/conv1": {format: float}\n',
        b"a*:\n  method: entropy\n  symmetric: false\n  axis: 0\nb: &b {activations: uint8}\nc: *b\n",
    ]


def _data(dice: random.Random, data: bytes) -> bytes:
    return mutate.data(dice, data)


_SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "onnx": _onnx,
    "extreme": extremes.seeds,
    "plan": _plans,
    "calib": _calib,
    "trt": _trt,
    "gguf": weight_seeds.gguf,
    "weights": weight_seeds.weights,
    "npz": _npz,
    "npy": _npy,
    "image": _image,
    "overrides": _overrides,
    "tokenizer": text_seeds.tokenizers,
    "decoder": text_seeds.decoders,
    "template": text_seeds.templates,
    "saved_model": text_seeds.saved_models,
}
_CHANGES: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "onnx": _change_onnx,
    "extreme": extremes.change,
    "plan": _change_plan,
    "calib": _change_calib,
    "trt": lambda dice, data: mutate.text(
        dice, data, ("TRT-", ": ", "7f800000", "80000000", "ffffffff", "\r")
    ),
    "gguf": weight_seeds.change_gguf,
    "weights": lambda dice, data: weight_seeds.change_weights(dice, data, _change_array),
    "npz": _change_npz,
    "npy": lambda dice, data: mutate.data(dice, data) if dice.random() < 0.3 else _npy_change(dice, data),
    "image": _data,
    "overrides": lambda dice, data: mutate.text(dice, data, _YAML),
    "tokenizer": text_seeds.change_json,
    "decoder": text_seeds.change_json,
    "template": lambda dice, data: mutate.text(dice, data, text_seeds.JINJA),
    "saved_model": text_seeds.change_json,
}
