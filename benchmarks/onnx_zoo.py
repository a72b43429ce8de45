"""Models of many kinds through `intact.quantize`: int8, or float with a reason, never a crash.

    INTACT_SHARED=<the shared data> python benchmarks/onnx_zoo.py

MobileNetV2 of the shared nets, a U-Net with concatenations and transposed convolutions, a detector with a
feature pyramid, two heads and NonMaxSuppression, an LSTM that tags words, a model with If and Loop, one with
a model-local function and an operator of another domain, and one with an operator that nobody knows. All
have random weights, and noise as data: what is measured is the quantization noise, not any use of the models.

Prints for each the layers in int8 and in float with the reasons, and for each output the signal to
quantization noise ratio on inputs that calibration has not seen (of integers: the share that is equal).

The logits of MobileNetV2 come out at 11 to 13 dB because random weights amplify whatever is added: noise of
40 dB on the input of the float model alone leaves 18 dB in its logits (30 dB: 13 dB), and the logits of two
unlike inputs are only 9 dB apart. The channels' ranges are even (largest to median 1.2 to 2.7).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import intact
from intact.errors import IntactError
from intact.graph import Session, load
from intact.placement import explain, place

Feeds = dict[str, np.ndarray]
CALIBRATION, UNSEEN = 8, 4


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    parts = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)
    return nn.Sequential(*parts, nn.ReLU())


class UNet(nn.Module):
    """Three levels down and up again; every level up reads the concatenation with the one on its way down."""

    def __init__(self, width: int = 16, classes: int = 5) -> None:
        super().__init__()
        sizes = [width, 2 * width, 4 * width]
        before = [3, *sizes]
        self.down = nn.ModuleList(nn.Sequential(conv(before[i], n), conv(n, n)) for i, n in enumerate(sizes))
        self.bottom = conv(sizes[-1], 8 * width)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * n, n, 2, 2) for n in reversed(sizes))
        self.merge = nn.ModuleList(conv(2 * n, n) for n in reversed(sizes))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        remaining = []
        for level in self.down:
            x = level(x)
            remaining.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([remaining.pop(), up(x)], 1))
        return self.head(x)


class Detector(nn.Module):
    """A small backbone, a feature pyramid, and two heads that all its levels share.

    Returns boxes (x, y of two corners) [N, A, 4] and scores [N, classes, A], as NonMaxSuppression wants them.
    """

    def __init__(self, width: int = 32, classes: int = 6) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, width, stride=2), conv(width, width, stride=2))
        self.stages = nn.ModuleList(conv(width << i, width << (i + 1), stride=2) for i in range(3))
        self.sides = nn.ModuleList(nn.Conv2d(width << (i + 1), 2 * width, 1) for i in range(3))
        self.classes = nn.Sequential(conv(2 * width, 2 * width), nn.Conv2d(2 * width, classes, 3, padding=1))
        self.boxes = nn.Sequential(conv(2 * width, 2 * width), nn.Conv2d(2 * width, 4, 3, padding=1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x, levels = self.stem(x), []
        for stage, side in zip(self.stages, self.sides, strict=True):
            x = stage(x)
            levels.append(side(x))
        for i in (1, 0):
            levels[i] = levels[i] + F.interpolate(levels[i + 1], scale_factor=2.0, mode="nearest")
        boxes, scores = [], []
        for stride, level in zip((8, 16, 32), levels, strict=True):
            centre, size = self.boxes(level).flatten(2).transpose(1, 2).split(2, -1)
            half = torch.exp(size.clamp(max=4)) * stride / 2
            place = torch.sigmoid(centre) * 2 * stride
            boxes.append(torch.cat([place - half, place + half], -1))
            scores.append(torch.sigmoid(self.classes(level)).flatten(2))
        return torch.cat(boxes, 1), torch.cat(scores, 2)


class Tagger(nn.Module):
    """Words [N, T] (int64) -> an embedding, a two-way LSTM, a classifier per word [N, T, tags]."""

    def __init__(self, words: int = 1000, size: int = 64, tags: int = 12) -> None:
        super().__init__()
        self.words = nn.Embedding(words, size)
        self.lstm = nn.LSTM(size, size, batch_first=True, bidirectional=True)
        self.inner, self.tags = nn.Linear(2 * size, size), nn.Linear(size, tags)

    def forward(self, words: Tensor) -> Tensor:
        return self.tags(torch.relu(self.inner(self.lstm(self.words(words))[0])))


def settle_batchnorm(model: nn.Module, side: int) -> nn.Module:
    """`model` in eval mode, its normalizations fitted to noise, so that activations keep a sane size."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        model.train()(torch.randn(8, 3, side, side))
    return model.eval()


def export(model: nn.Module, example: Tensor, path: Path, outputs: list[str]) -> None:
    """With an open batch size."""
    torch.onnx.export(
        model, (example,), path, dynamo=True, external_data=False, verbose=False, input_names=["x"],
        output_names=outputs, dynamic_shapes=({0: torch.export.Dim("batch")},),
    )  # fmt: skip


def noise(*shape: int) -> list[Feeds]:
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal(shape, dtype=np.float32)} for _ in range(CALIBRATION + UNSEEN)]


def mobilenetv2(path: Path) -> list[Feeds]:
    sys.path.insert(0, os.environ["INTACT_SHARED"])
    import nets

    export(nets.make("mobilenetv2"), torch.zeros(2, 3, 224, 224), path, ["logits"])
    return noise(1, 3, 224, 224)


def unet(path: Path) -> list[Feeds]:
    export(settle_batchnorm(UNet(), 64), torch.zeros(2, 3, 64, 64), path, ["mask"])
    return noise(2, 3, 64, 64)


def detector(path: Path) -> list[Feeds]:
    export(settle_batchnorm(Detector(), 128), torch.zeros(2, 3, 128, 128), path, ["boxes", "scores"])
    model = onnx.load(path)
    for name, value in (("most", np.int64(20)), ("overlap", np.float32(0.5)), ("least", np.float32(0.5))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([value]), name))
    suppress = onnx.helper.make_node(
        "NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["selected"], name="nms"
    )
    model.graph.node.append(suppress)
    remaining = onnx.helper.make_tensor_value_info("selected", onnx.TensorProto.INT64, ["kept", 3])
    model.graph.output.append(remaining)
    onnx.save(model, path)
    return noise(1, 3, 128, 128)


def lstm(path: Path) -> list[Feeds]:
    export(Tagger().eval(), torch.zeros(2, 20, dtype=torch.int64), path, ["tags"])
    rng = np.random.default_rng(0)
    return [{"x": rng.integers(0, 1000, (4, 20))} for _ in range(CALIBRATION + UNSEEN)]


FLOW = """
<ir_version: 8, opset_import: ["" : 17]>
flow (float[N, 8, 12, 12] x) => (float[N, 8, 12, 12] y, float[N, 8, 12, 12] z) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w1)
    r = Relu (a)
    total = ReduceMean <keepdims = 0> (x)
    zero = Constant <value = float {0}> ()
    positive = Greater (total, zero)
    y = If (positive) <
        then_branch = yes () => (float[N, 8, 12, 12] p) { p = Conv <pads = [1, 1, 1, 1]> (r, w2) },
        else_branch = no () => (float[N, 8, 12, 12] q) { q = LeakyRelu (r) }>
    rounds = Constant <value = int64 {3}> ()
    go = Constant <value = bool {1}> ()
    l = Loop (rounds, go, r) <body = again (int64 i, bool c, float[N, 8, 12, 12] v)
        => (bool d, float[N, 8, 12, 12] u) {
            d = Identity (c)
            m = Conv <pads = [1, 1, 1, 1]> (v, w2)
            u = Tanh (m)
        }>
    z = Conv <pads = [1, 1, 1, 1]> (l, w2)
}
"""

CUSTOM = """
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "own" : 1]>
custom (float[N, 8, 12, 12] x) => (float[N, 8, 12, 12] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w1)
    g = com.microsoft.QuickGelu <alpha: float = 1.7> (a)
    h = own.Halved (g)
    y = Conv <pads = [1, 1, 1, 1]> (h, w2)
}
<domain: "own", opset_import: ["" : 17]>
Halved (v) => (u) { two = Constant <value = float {2}> ()  u = Div (v, two) }
"""

UNKNOWN = CUSTOM.split("<domain")[0].replace("own.Halved", "own.Secret")


def write_model(text: str) -> Callable[[Path], list[Feeds]]:
    """Builds a model from its text, with two convolutions' weights."""

    def build(path: Path) -> list[Feeds]:
        model = onnx.parser.parse_model(text)
        rng = np.random.default_rng(1)
        for name in ("w1", "w2"):
            weight = rng.standard_normal((8, 8, 3, 3), dtype=np.float32) / np.float32(72**0.5)
            model.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
        onnx.save(model, path)
        return noise(2, 8, 12, 12)

    return build


ZOO: dict[str, Callable[[Path], list[Feeds]]] = {
    "mobilenetv2": mobilenetv2, "unet": unet, "detector": detector, "lstm": lstm,
    "control flow": write_model(FLOW), "other domains": write_model(CUSTOM),
    "unknown operator": write_model(UNKNOWN),
}  # fmt: skip


def show(name: str, path: Path, options: argparse.Namespace) -> None:
    """Quantize one model and print what came of it."""
    batches = ZOO[name](path)
    start = time.perf_counter()
    try:
        result = intact.quantize(path, batches[:CALIBRATION], profile=options.profile, progress=False)
    except IntactError as error:
        rows = explain(place(load(path), options.profile))
        print(f"\n{name}: refused, in one line: {error}\n  {layers(rows, options.reasons)}")
        return
    seconds = time.perf_counter() - start
    out = path.with_suffix(".int8.onnx")
    result.save(out)
    text = [Session(file.read_bytes(), threads=options.threads) for file in (path, out)]
    print(f"\n{name}: {layers(result.explain(), options.reasons)}")
    for output in text[0].outputs:
        pairs = [[session.run(feeds)[output] for session in text] for feeds in batches[CALIBRATION:]]
        print(f"  {output}: {closeness(pairs)}")
    size = f"{path.stat().st_size:,} -> {out.stat().st_size:,} bytes"
    flags = [flag for flag in ("equalized", "corrected") if getattr(result, flag)]
    print(
        "  " + "; ".join([size, f"{seconds:.1f} s", f"ranges by: {result.chosen}", *flags, *result.warnings])
    )


def layers(rows: list[dict], most: int) -> str:
    """Count the layers by precision, and list the commonest reasons for float."""
    int8 = Counter(row["fused"] for row in rows if row["precision"] == "int8")
    remaining = Counter((row["op_type"], row["reason"]) for row in rows if row["precision"] == "float")
    kinds = ", ".join(f"{count} {kind}" for kind, count in int8.most_common())
    lines = [f"{int8.total()} layers in int8, {remaining.total()} in float", f"int8: {kinds}"]
    lines += [f"float: {count} {op}: {reason}" for (op, reason), count in remaining.most_common(most)]
    return "\n  ".join(lines)


def closeness(pairs: list[list[np.ndarray]]) -> str:
    """Of one output: the ratio in dB, or the share of equal integers."""
    if pairs[0][0].dtype.kind != "f":
        same = sum(np.array_equal(a, b) for a, b in pairs)
        return f"equal in {same} of {len(pairs)} runs"
    signal = sum(float(np.sum(np.square(a, dtype=np.float64))) for a, _ in pairs)
    lost = sum(float(np.sum(np.square(a - b, dtype=np.float64))) for a, b in pairs)
    return f"SQNR {10 * np.log10(signal / lost):.1f} dB" if lost else "equal"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=ZOO, default=list(ZOO))
    parser.add_argument("--profile", default="intact")
    parser.add_argument("--reasons", type=int, default=12, help="how many reasons for float are shown")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(options.models):
            if name == "mobilenetv2" and not os.environ.get("INTACT_SHARED"):
                print(f"{__file__}: INTACT_SHARED is not set: mobilenetv2 is left out")
                continue
            try:
                show(name, Path(folder) / f"{number}.onnx", options)
            except Exception:  # the benchmark is about these
                print(f"\n{name}: CRASHED\n{traceback.format_exc()}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
