"""One function for each kind of file: `data` is read and used as users would, and only a fault may raise.

A fault is any exception but an IntactError (or an OSError where there is no file to read), a crash, more than
10 seconds, or more memory than the driver allows. Both fuzzers and the replay of the corpus call these.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from math import prod
from pathlib import Path

import numpy as np

from intact.engine import Engine
from intact.errors import IntactError

DECODER_FILES = ("config.json", "tokenizer_config.json", "quantize_config.json")
LARGEST_RUN = 2**22
"""Elements of an input and of an output up to which a damaged plan is run: its sizes are ours to give."""


@cache
def folder() -> Path:
    """Of this process, for what is read from disk."""
    return Path(tempfile.mkdtemp(prefix=f"intact-fuzz-{os.getpid()}-"))


def write(name: str, data: bytes) -> Path:
    """A file of these bytes."""
    path = folder() / name
    path.write_bytes(data)
    return path


def onnx(data: bytes) -> None:
    """load, explain, check, strip; then lower, save the plan and read it, as `intact build` does."""
    from intact.engine.files import plan_files as files
    from intact.engine.lower import lower
    from intact.graph import fold_batchnorm, load, normalize, strip_qdq, to_proto
    from intact.placement import check, explain, place, read_placement

    try:
        model = load(data)
    except IntactError:
        return
    for reader in (
        lambda: explain(read_placement(load(data))),
        lambda: explain(place(load(data))),
        lambda: check(load(data, any_opset=True)),
        lambda: (normalize(model), fold_batchnorm(model), strip_qdq(model), to_proto(model)),
    ):
        _ours(reader)
    path = folder() / "built.plan"
    try:
        plan = lower(data)
    except IntactError:
        return
    files.save(path, plan)
    files.load(path)
    if not any(step.kind == "onnx" for step in plan.steps):
        _run_plan(path)


def extreme(data: bytes) -> None:
    """compile for both backends, and run on ones, ONNX Runtime's parts included."""
    import intact

    for backend in ("cpu", "reference"):
        try:
            engine = intact.compile(data, threads=1, backend=backend)
        except IntactError:
            continue
        _run_on_ones(engine)


def plan(data: bytes) -> None:
    """load, explain, and run on ones."""
    from intact.placement import explain

    path = write("given.plan", data)
    from intact.engine.files import plan_files as files

    _ours(lambda: explain(files.load(path).plan))
    _ours(lambda: _run_plan(path))


def _run_plan(path: Path) -> None:
    import intact

    _run_on_ones(intact.load(path, threads=1))


def _run_on_ones(engine: Engine) -> None:
    if any(prod(n for n in port.shape if isinstance(n, int)) > LARGEST_RUN for port in engine.outputs):
        return
    feeds = {}
    for port in engine.inputs:
        shape = [n if isinstance(n, int) else 2 for n in port.shape]
        if prod(shape) > LARGEST_RUN:
            return
        text = port.dtype == "object"
        feeds[port.name] = np.full(shape, "1", object) if text else np.ones(shape, port.dtype)
    _ours(lambda: engine.run(feeds))


def calib(data: bytes) -> None:
    """load, ranges by every method, merge, save."""
    from intact.calib import METHODS, Calibration
    from intact.spec import QuantSpec

    path = write("given.calib", data)
    try:
        model = Calibration.load(path)
    except IntactError:
        return
    for method in METHODS:
        for symmetric in (True, False):
            _ours(lambda m=method, s=symmetric: model.ranges(QuantSpec("int8", symmetric=s), method=m))
    _ours(lambda: model.merge(Calibration.load(path)))
    model.save(folder() / "again.calib")
    Calibration.load(folder() / "again.calib")


def trt(data: bytes) -> None:
    """A TensorRT cache: read, written, as a calibration."""
    from intact.calib import TrtCache

    try:
        model = TrtCache.load(write("given.cache", data))
    except IntactError:
        return
    assert TrtCache.parse(model.to_text()).to_text() == model.to_text()
    _ours(lambda: model.to_calibration())


def gguf(data: bytes) -> None:
    """Every tensor read, its floats, and the same file written."""
    from intact.formats import GgufFile, write_gguf
    from intact.numerics import BlockWeights, dequantize_blocks

    try:
        file = GgufFile(write("given.gguf", data))
    except IntactError:
        return
    for field in file.metadata.values():
        assert field.raw is not None and field.value is not None
    for name in file.tensors:

        def floats(name: str = name) -> None:
            tensor = file.read(name)
            if isinstance(tensor, BlockWeights):
                dequantize_blocks(tensor)

        _ours(floats)
    _ours(lambda: write_gguf(folder() / "again.gguf", file.metadata, file.tensors, file.raw))


def weights(data: bytes) -> None:
    """A safetensors file as each format of layers: every tensor read, and its floats."""
    from intact.formats import floats_of, open_weights

    home = folder() / "weights"
    home.mkdir(exist_ok=True)
    (home / "model.safetensors").write_bytes(data)
    for method, form in (
        ("gptq", ""),
        ("awq", "gemm"),
        ("compressed-tensors", ""),
        ("compressed-tensors", "int-quantized"),
    ):
        config = {"quantization_config": {"quant_method": method, "format": form}}
        (home / "config.json").write_text(json.dumps(config))

        def read() -> None:
            files = open_weights(home)
            for name in files.names:
                _ours(lambda n=name: floats_of(files.read(n)))

        _ours(read)


def npz(data: bytes) -> None:
    """Arrays as calibration data."""
    _feed(write("given.npz", data))


def npy(data: bytes) -> None:
    """One array as calibration data."""
    _feed(write("given.npy", data))


def image(data: bytes) -> None:
    """A picture as calibration data, by its first bytes of one format or another."""
    place = folder() / "pictures"
    place.mkdir(exist_ok=True)
    (place / "given.png").write_bytes(data)
    _feed(place)


def overrides(data: bytes) -> None:
    """The YAML file of `intact quantize --overrides`."""
    from intact.cli.verbs.quantize import read_overrides
    from intact.ptq.scope.settings import LayerSettings, with_override

    try:
        result = read_overrides(write("given.yaml", data))
    except IntactError:
        return
    for pattern, expected in (result or {}).items():
        _ours(lambda p=pattern, w=expected: with_override(LayerSettings(), p, w))


def _feed(path: Path) -> None:
    from intact.ptq.data.batches import open_data
    from intact.ptq.data.model_inputs import Input

    inputs = [Input("x", np.dtype(np.float32), ("n", 3, 8, 8))]

    def read() -> None:
        for count, _ in enumerate(open_data(path, inputs, num_batches=4).batches):
            assert count < 4

    _ours(read)


def tokenizer(data: bytes) -> None:
    """A tokenizer.json: texts to tokens, back, and in pieces."""
    from intact.lm import Tokenizer
    from intact.lm.text_stream import TextStream

    def read() -> None:
        words = Tokenizer(data.decode("utf-8", "replace"), None, (1,))
        for text in ("", "ab cd", "\N{SNOWMAN} \x00<end>", "a" * 300):
            tokens = words.encode(text)
            words.decode(tokens, special=True)
            stream = TextStream(words, ["b"])
            for token in [*tokens[:20], 0, 2**31]:
                stream.push(token)
            stream.finish()
        Tokenizer(words.to_json(), None, ()).encode("ab")

    _ours(read)


def decoder(data: bytes) -> None:
    """The JSON files of a Hugging Face folder: opened, quantized, and run on two tokens."""
    from tests.lm.small_decoders import families, write_folder

    from intact import lm

    try:
        files = json.loads(data)
        family, parts = files["family"], {name: json.dumps(files[name]) for name in DECODER_FILES}
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    if not isinstance(family, str) or family not in families():
        return
    home = folder() / f"decoder-{family}"
    if not home.exists():
        write_folder(family, home)
    for name, text in parts.items():
        (home / name).write_text(text)

    def run() -> None:
        model = lm.load(home, weights="int8", block=16, threads=1, positions=16)
        model.logits([1, 2])
        if model.template:
            _ours(lambda: render(model.template))

    _ours(run)


def template(data: bytes) -> None:
    """A chat template."""
    _ours(lambda: render(data.decode("utf-8", "replace")))


def render(text: str) -> None:
    """Render a chat template on a short conversation."""
    from intact.lm import chat_template

    chat_template._SECONDS = 1.0
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    chat_template.render_chat(text, messages, bos_token="<s>", eos_token="</s>", tools=None)


def saved_model(data: bytes) -> None:
    """The settings of a folder that `intact.lm.save` wrote; version 1, so that no checksum refuses them."""
    from tests.lm.small_decoders import write_folder

    from intact import lm

    home = folder() / "saved-model"
    if not home.exists():
        lm.save(lm.load(write_folder("llama", folder() / "unsaved"), block=16, threads=1), home)
    (home / "language_model.json").write_bytes(data.replace(b'"version": 2', b'"version": 1'))

    def run() -> None:
        model = lm.load(home, threads=1)
        model.logits([1, 2])

    _ours(run)


def _ours(act: Callable[[], object]) -> None:
    with contextlib.suppress(IntactError):
        act()


ENTRIES: dict[str, Callable[[bytes], None]] = {
    "onnx": onnx, "extreme": extreme, "plan": plan, "calib": calib, "trt": trt, "gguf": gguf,
    "weights": weights, "npz": npz, "npy": npy, "image": image, "overrides": overrides,
    "tokenizer": tokenizer, "decoder": decoder, "template": template, "saved_model": saved_model,
}  # fmt: skip
"""Kind of file -> what reads it."""


def one(kind: str, data: bytes) -> None:
    """Read one file; raises only on a fault."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ENTRIES[kind](data)
