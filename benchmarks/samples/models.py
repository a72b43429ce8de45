"""The models and files that NVIDIA's samples ask for, small ones: ``python models.py FOLDER``.

Files below FOLDER/beside/NAME belong beside the script of the sample NAME; all others are named by arguments.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from PIL import Image, ImageDraw

CLASSES = 1000
WORDS = ["a", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", ".", "what", "color", "is", "?"]
OBJECTS = ("binoculars", "reflex camera", "tabby tiger cat")


class Drawn:
    """An ONNX file, node by node."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def node(self, kind: str, *inputs: str, to: str | None = None, **attributes: object) -> str:
        name = to or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"node_{name}", **attributes))
        return name

    def weight(self, value: object, name: str | None = None, dtype: object = np.float32) -> str:
        name = name or f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def cast(self, x: str, kind: int, name: str) -> str:
        self.nodes.append(helper.make_node("Cast", [x], [name], name=f"node_{name}", to=kind))
        return name

    def conv(self, x: str, inputs: int, outputs: int, stride: int = 2) -> str:
        kernel = self.weight(self.random.normal(size=(outputs, inputs, 3, 3)) / np.sqrt(9 * inputs))
        bias = self.weight(self.random.normal(size=outputs) / 4)
        return self.node("Relu", self.node("Conv", x, kernel, bias, strides=[stride] * 2, pads=[1] * 4))

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        pooled = self.node("Flatten", self.node("GlobalAveragePool", x))
        matrix = self.weight(self.random.normal(size=(inputs, outputs)) * 4)
        return self.node("Gemm", pooled, matrix, self.weight(np.zeros(outputs)))

    def save(self, path: Path, inputs: dict, outputs: dict) -> None:
        values = [
            [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in side.items()]
            for side in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, path.stem, *values, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.checker.check_model(model)
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(model, path)


FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64


def pictures(folder: Path) -> None:
    """Three pictures of one color and a shape, for every sample that reads some."""
    colors = ((220, 30, 30), (30, 200, 40), (40, 50, 230))
    (folder / "pictures").mkdir(parents=True)
    for name, color in zip(
        ("binoculars.jpeg", "reflex_camera.jpeg", "tabby_tiger_cat.jpg"), colors, strict=True
    ):
        picture = Image.new("RGB", (320, 240), color)
        ImageDraw.Draw(picture).ellipse((60, 40, 200, 180), fill=color[::-1])
        for place in (folder, folder / "resnet50"):
            place.mkdir(exist_ok=True)
            picture.save(place / name, quality=95)
        picture.save((folder / "pictures" / name).with_suffix(".png"))


def resnet(folder: Path) -> None:
    """``ResNet50.onnx`` with the labels that ONNX Runtime finds for the three pictures."""
    net = Drawn()
    x = net.conv(net.conv("gpu_0/data_0", 3, 8, 4), 8, 16, 4)
    net.node("Softmax", net.dense(x, 16, CLASSES), to="gpu_0/softmax_1")
    path = folder / "ResNet50.onnx"
    net.save(path, {"gpu_0/data_0": (FLOAT, [1, 3, 224, 224])}, {"gpu_0/softmax_1": (FLOAT, [1, CLASSES])})
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    labels = [f"class {i}" for i in range(CLASSES)]
    for name, suffix in zip(OBJECTS, ("jpeg", "jpeg", "jpg"), strict=True):
        picture = Image.open(folder / f"{name.replace(' ', '_')}.{suffix}").resize((224, 224), Image.LANCZOS)
        x = (np.asarray(picture).transpose(2, 0, 1).astype(np.float32) / 255.0 - 0.45) / 0.225
        result = int(np.argmax(session.run(None, {"gpu_0/data_0": x[None].astype(np.float32)})[0]))
        if labels[result] in OBJECTS:
            sys.exit("two pictures have one class: draw other ones")
        labels[result] = name
    for place in (folder, folder / "resnet50"):
        (place / "class_labels.txt").write_text("\n".join(labels))
        (place / "ResNet50.onnx").write_bytes(path.read_bytes())


def classifier(folder: Path) -> None:
    net = Drawn()
    x = net.conv(net.node("Transpose", "input", perm=[0, 3, 1, 2]), 3, 8)
    net.node("Softmax", net.dense(net.conv(x, 8, 16), 16, 10), to="scores")
    net.save(folder / "classes.onnx", {"input": (FLOAT, [1, 64, 64, 3])}, {"scores": (FLOAT, [1, 10])})


def detector(folder: Path, name: str, masks: bool) -> None:
    """Five boxes, what a plugin for NMS would leave over."""
    net = Drawn()
    x = net.conv(net.conv("input", 3, 8), 8, 16)
    corners = net.node("Reshape", net.dense(x, 16, 10), net.weight([1, 5, 2], dtype=np.int64))
    start = net.node("Mul", net.node("Sigmoid", corners), net.weight(32.0))
    net.node(
        "Concat", start, net.node("Add", start, net.weight(24.0)), axis=2, to="detection_boxes_box_outputs"
    )
    net.node("Sigmoid", net.dense(x, 16, 5), to="detection_scores_box_outputs")
    classes = net.node("Abs", net.dense(x, 16, 5))
    net.cast(classes, INT32, "detection_classes_box_outputs")
    net.nodes.append(
        helper.make_node(
            "Constant", [], ["num_detections_box_outputs"], name="count",
            value=numpy_helper.from_array(np.full(1, 5, np.int32)),
        )
    )  # fmt: skip
    outputs = {
        "num_detections_box_outputs": (INT32, [1]), "detection_boxes_box_outputs": (FLOAT, [1, 5, 4]),
        "detection_scores_box_outputs": (FLOAT, [1, 5]), "detection_classes_box_outputs": (INT32, [1, 5]),
    }  # fmt: skip
    if masks:
        shape = net.weight([1, 5, 28, 28], dtype=np.int64)
        net.node("Sigmoid", net.node("Reshape", net.dense(x, 16, 5 * 28 * 28), shape), to="detection_masks")
        outputs["detection_masks"] = (FLOAT, [1, 5, 28, 28])
    net.save(folder / f"{name}.onnx", {"input": (FLOAT, [1, 3, 64, 64])}, outputs)


def faster_rcnn(folder: Path) -> None:
    """Boxes for the pixels above a bound: sizes that a run tells."""
    net = Drawn()
    x = net.node("Unsqueeze", "image", net.weight([0], dtype=np.int64))
    x = net.conv(net.node("Mul", x, net.weight(1 / 64)), 3, 1, 16)
    x = net.node("Squeeze", x, net.weight([0, 1], dtype=np.int64))
    above = net.node("NonZero", net.node("Greater", x, net.node("ReduceMean", x, keepdims=0)))
    places = net.node("Transpose", above, perm=[1, 0])
    start = net.node("Mul", net.cast(places, FLOAT, "corner"), net.weight(16.0))
    net.node("Concat", start, net.node("Add", start, net.weight(16.0)), axis=1, to="boxes")
    scores = net.node("GatherND", x, places)
    net.node("Sigmoid", scores, to="scores")
    net.cast(scores, INT64, "labels")
    net.save(
        folder / "rcnn.onnx", {"image": (FLOAT, [3, "height", "width"])},
        {"boxes": (FLOAT, ["n", 4]), "labels": (INT64, ["n"]), "scores": (FLOAT, ["n"])},
    )  # fmt: skip


def yolo(folder: Path) -> None:
    net = Drawn()
    x = net.conv(net.conv(net.conv("000_net", 3, 4), 4, 8), 8, 8)
    for name in ("106_convolutional", "094_convolutional", "082_convolutional"):
        bias = np.full(255, -9.0)  # of one anchor the cells that see most are an object of the first class
        bias[4], bias[5] = -8.0, 9.0
        kernel = np.zeros((255, 8, 1, 1))
        kernel[4] = 30.0
        net.node("Conv", x, net.weight(kernel), net.weight(bias), to=name)
        x = net.conv(x, 8, 8)
    outputs = {"082_convolutional": 19, "094_convolutional": 38, "106_convolutional": 76}
    path = folder / "beside" / "yolov3_onnx"
    net.save(
        path / "yolov3.onnx", {"000_net": (FLOAT, [64, 3, 608, 608])},
        {name: (FLOAT, [64, 255, size, size]) for name, size in outputs.items()},
    )  # fmt: skip
    dog = folder / "samples" / "python" / "yolov3_onnx" / "dog.jpg"
    dog.parent.mkdir(parents=True)
    Image.open(folder / "tabby_tiger_cat.jpg").save(dog)
    (path / "download.yml").write_text("sample: yolov3_onnx\nfiles: []\n")


def bidaf(folder: Path) -> None:
    """Start and end of an answer: the word whose row of ``W_0`` is largest."""
    net, beside = Drawn(), folder / "beside" / "engine_refit_onnx_bidaf"
    words = np.zeros((len(WORDS) + 1, 1), np.float32)
    words[WORDS.index("brown")] = 3.0
    table, bias = net.weight(words, "W_0"), net.weight([[0.25]], "Parameter576_B_0")
    places = net.node("Squeeze", "CategoryMapper_4", net.weight([1], dtype=np.int64))
    score = net.node("Add", net.node("Gather", table, places), bias)
    for i in (5, 6, 7):  # read, and of no weight
        net.cast(f"CategoryMapper_{i}", FLOAT, f"float_{i}")
        total = net.node("Mul", net.node("ReduceMax", f"float_{i}", keepdims=0), net.weight(0.0))
        score = net.node("Add", score, total)
    for end in ("start_pos", "end_pos"):
        net.cast(net.node("ArgMax", score, axis=0, keepdims=0), INT32, end)
    shapes = {4: ["c", 1], 5: ["c", 1, 1, 16], 6: ["q", 1], 7: ["q", 1, 1, 16]}
    net.save(
        beside / "bidaf-modified.onnx", {f"CategoryMapper_{i}": (INT32, s) for i, s in shapes.items()},
        {"start_pos": (INT32, [1]), "end_pos": (INT32, [1])},
    )  # fmt: skip
    np.save(beside / "W_0.npy", words)
    np.save(beside / "Parameter576_B_0.npy", np.full((1, 1), 0.25, np.float32))
    letters = sorted(set("".join(WORDS)))
    for i in shapes:
        names = WORDS if i in (4, 6) else letters
        output = {"cats_strings": names, "cats_int64s": list(range(len(names))), "default_int64": len(names)}
        (beside / f"CategoryMapper_{i}.json").write_text(json.dumps(output))


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir()
    pictures(folder)
    for make in (resnet, classifier, faster_rcnn, yolo, bidaf):
        make(folder)
    detector(folder, "boxes", masks=False)
    detector(folder, "masks", masks=True)


if __name__ == "__main__":
    main()
