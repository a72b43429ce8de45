"""Small decoders whose attention stands in plain operators, as torch's exporters write it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

LAYERS, HIDDEN, WORDS, POSITIONS = 2, 16, 24, 48


@dataclass(frozen=True)
class Form:
    """Form of a decoder.

    Attributes:
        heads, kv_heads, size: Of attention.
        mask: "added", or "where" around scores.
        bias: Added to the mask for each place between two tokens.
        reach: How many tokens ahead are attended to.
        window: So many tokens are; 0: all.
        scale_both: Queries and keys are scaled, in place of scores.
        cap: Of scores; 0: none.
        rotation: "half", "interleaved", "none", or "growing": angles depend on how many tokens there are.
        pairs: That rotate.
        cached: The file takes and makes keys and values.
        has_positions: It takes positions; else it counts them.
        learned: Each position has a vector.
        tied: The head is the table of embeddings.
    """

    heads: int = 4
    kv_heads: int = 2
    size: int = 8
    mask: str = "added"
    bias: float = 0.0
    reach: int = 0
    window: int = 0
    scale_both: bool = False
    cap: float = 0.0
    rotation: str = "half"
    pairs: int = 4
    cached: bool = True
    has_positions: bool = True
    learned: bool = False
    tied: bool = False


class _Writer:
    """Writes one decoder."""

    def __init__(self, form: Form) -> None:
        self.form, self.nodes, self.constants = form, list[onnx.NodeProto](), dict[str, np.ndarray]()
        self._numbers, self._rng = count(), np.random.default_rng(5)

    def node(self, op_type: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or f"v{next(self._numbers)}"
        self.nodes.append(
            helper.make_node(
                op_type, list(inputs), [output], name=f"{op_type.lower()}_{output}", **attributes
            )
        )
        return output

    def constant(self, array: Any, dtype: Any = np.float32) -> str:
        name = f"c{next(self._numbers)}"
        self.constants[name] = np.asarray(array, dtype)
        return name

    def ints(self, *numbers: int) -> str:
        return self.constant(numbers, np.int64)

    def weight(self, *shape: int) -> str:
        return self.constant(self._rng.normal(size=shape) * 1.5 / shape[0] ** 0.5)

    def size_of(self, x: str, axis: int) -> str:
        """Return one size, [1]."""
        return self.node("Gather", self.node("Shape", x), self.ints(axis))

    def positions(self) -> tuple[str, str]:
        """Return positions of new tokens [batch, tokens] and the number of all tokens, [1]."""
        new = self.size_of("input_ids", 1)
        before = self.size_of("past_key_values.0.key", 2) if self.form.cached else self.ints(0)
        total = self.node("Add", before, new)
        if self.form.has_positions:
            return "position_ids", total
        begin, end = (self.node("Squeeze", x, self.ints(0)) for x in (before, total))
        counted = self.node("Range", begin, end, self.constant(1, np.int64))
        return self.node("Unsqueeze", counted, self.ints(0)), total

    def mask_of(self, positions: str, total: str) -> str:
        """Return which scores count, bool [batch, 1, tokens, total]."""
        own = self.node("Unsqueeze", positions, self.ints(1, 3))
        end = self.node("Squeeze", total, self.ints(0))
        places = self.node("Range", self.constant(0, np.int64), end, self.constant(1, np.int64))
        ahead = self.node("Sub", places, own)
        reach = self.node("LessOrEqual", ahead, self.constant(self.form.reach, np.int64))
        if self.form.window:
            near = self.node("Greater", ahead, self.constant(-self.form.window, np.int64))
            reach = self.node("And", reach, near)
        padding = self.node(
            "Unsqueeze", self.node("Cast", "attention_mask", to=TensorProto.BOOL), self.ints(1, 2)
        )
        self._ahead = ahead
        return self.node("And", reach, padding)

    def angles(self, positions: str, total: str) -> tuple[str, str]:
        """Return cosines and sines, [batch, 1, tokens, pairs]."""
        speeds = self.constant(50.0 ** -(np.arange(self.form.pairs) / self.form.pairs))
        if self.form.rotation == "growing":
            longer = self.node("Cast", total, to=TensorProto.FLOAT)
            speeds = self.node("Div", speeds, longer)
        whole = self.node("Unsqueeze", self.node("Cast", positions, to=TensorProto.FLOAT), self.ints(1, 3))
        angles = self.node("Mul", whole, speeds)
        return self.node("Cos", angles), self.node("Sin", angles)

    def rotate(self, x: str, angles: tuple[str, str]) -> str:
        form, (cos, sin) = self.form, angles
        if form.rotation == "none":
            return x
        turned, last = self.cut(x, 0, 2 * form.pairs), self.ints(-1)
        if form.rotation == "interleaved":
            a, b = (self.cut(turned, first, 2 * form.pairs, 2) for first in (0, 1))
        else:
            a, b = self.cut(turned, 0, form.pairs), self.cut(turned, form.pairs, 2 * form.pairs)
        first = self.node("Sub", self.node("Mul", a, cos), self.node("Mul", b, sin))
        second = self.node("Add", self.node("Mul", a, sin), self.node("Mul", b, cos))
        if form.rotation == "interleaved":
            parts = [self.node("Unsqueeze", part, last) for part in (first, second)]
            joined = self.node("Reshape", self.node("Concat", *parts, axis=-1), self.ints(0, 0, 0, -1))
        else:
            joined = self.node("Concat", first, second, axis=-1)
        if 2 * form.pairs == form.size:
            return joined
        return self.node("Concat", joined, self.cut(x, 2 * form.pairs, form.size), axis=-1)

    def cut(self, x: str, begin: int, end: int, step: int = 1) -> str:
        return self.node("Slice", x, *map(self.ints, (begin, end, -1, step)))

    def heads_of(self, x: str, heads: int) -> str:
        apart = self.node("Reshape", self.node("MatMul", x, self.weight(HIDDEN, heads * self.form.size)),
                          self.ints(0, 0, heads, self.form.size))  # fmt: skip
        return self.node("Transpose", apart, perm=[0, 2, 1, 3])

    def cache(self, new: str, layer: int, kind: str) -> str:
        if not self.form.cached:
            return new
        past, present = f"past_key_values.{layer}.{kind}", f"present.{layer}.{kind}"
        return self.node("Concat", past, new, output=present, axis=-2)

    def repeat(self, x: str) -> str:
        form = self.form
        group = form.heads // form.kv_heads
        if group == 1:
            return x
        sizes = [
            self.size_of(x, 0),
            self.ints(form.kv_heads),
            self.ints(group),
            self.size_of(x, 2),
            self.ints(form.size),
        ]
        wide = self.node(
            "Expand", self.node("Unsqueeze", x, self.ints(2)), self.node("Concat", *sizes, axis=0)
        )
        flat = [sizes[0], self.ints(form.heads), sizes[3], sizes[4]]
        return self.node("Reshape", wide, self.node("Concat", *flat, axis=0))

    def attention(self, x: str, layer: int, reach: str, angles: tuple[str, str]) -> str:
        form = self.form
        q, k = (self.rotate(self.heads_of(x, heads), angles) for heads in (form.heads, form.kv_heads))
        keys = self.cache(k, layer, "key")
        values = self.cache(self.heads_of(x, form.kv_heads), layer, "value")
        turned = self.node("Transpose", self.repeat(keys), perm=[0, 1, 3, 2])
        scale = self.constant(form.size**-0.25 if form.scale_both else form.size**-0.5)
        if form.scale_both:
            q, turned = self.node("Mul", q, scale), self.node("Mul", turned, scale)
        scores = self.node("MatMul", q, turned)
        if not form.scale_both:
            scores = self.node("Mul", scores, scale)
        if form.cap:
            cap = self.constant(form.cap)
            scores = self.node("Mul", self.node("Tanh", self.node("Div", scores, cap)), cap)
        least = self.constant(-np.inf if form.mask == "where" else np.finfo(np.float32).min)
        if form.mask == "where":
            scores = self.node("Where", reach, scores, least)
        else:
            addend = self.node("Where", reach, self.constant(0.0), least)
            if form.bias:
                slope = self.node(
                    "Mul", self.node("Cast", self._ahead, to=TensorProto.FLOAT), self.constant(form.bias)
                )
                addend = self.node("Add", addend, slope)
            scores = self.node("Add", scores, addend)
        y = self.node("MatMul", self.node("Softmax", scores, axis=-1), self.repeat(values))
        rows = self.node("Reshape", self.node("Transpose", y, perm=[0, 2, 1, 3]), self.ints(0, 0, -1))
        return self.node("MatMul", rows, self.weight(form.heads * form.size, HIDDEN))

    def norm(self, x: str) -> str:
        square = self.node("Pow", x, self.constant(2.0))
        mean = self.node("ReduceMean", square, self.ints(-1), keepdims=1)
        deviation = self.node("Sqrt", self.node("Add", mean, self.constant(1e-5)))
        inverse = self.node("Div", self.constant(1.0), deviation)
        return self.node("Mul", self.constant(self._rng.normal(1, 0.2, HIDDEN)), self.node("Mul", x, inverse))

    def write(self) -> onnx.ModelProto:
        form = self.form
        embeddings = self.weight(WORDS, HIDDEN)
        x = self.node("Gather", embeddings, "input_ids")
        positions, total = self.positions()
        if form.learned:
            x = self.node("Add", x, self.node("Gather", self.weight(POSITIONS, HIDDEN), positions))
        reach = self.mask_of(positions, total)
        angles = self.angles(positions, total) if form.rotation != "none" else ("", "")
        for layer in range(LAYERS):
            x = self.node("Add", x, self.attention(self.norm(x), layer, reach, angles))
            inner = self.node("MatMul", self.norm(x), self.weight(HIDDEN, 2 * HIDDEN))
            bent = self.node("Mul", inner, self.node("Sigmoid", inner))
            x = self.node("Add", x, self.node("MatMul", bent, self.weight(2 * HIDDEN, HIDDEN)))
        head = self.node("Transpose", embeddings, perm=[1, 0]) if form.tied else self.weight(HIDDEN, WORDS)
        self.node("MatMul", self.norm(x), head, output="logits")
        return self.model()

    def model(self) -> onnx.ModelProto:
        form, ints = self.form, TensorProto.INT64
        inputs: dict[str, Any] = {
            "input_ids": (ints, ["batch", "tokens"]),
            "attention_mask": (ints, ["batch", "total"]),
        }
        if form.has_positions:
            inputs["position_ids"] = (ints, ["batch", "tokens"])
        outputs: dict[str, Any] = {"logits": ["batch", "tokens", WORDS]}
        for layer in range(LAYERS if form.cached else 0):
            for kind in ("key", "value"):
                sizes = ["batch", form.kv_heads, "past", form.size]
                inputs[f"past_key_values.{layer}.{kind}"] = sizes
                outputs[f"present.{layer}.{kind}"] = ["batch", form.kv_heads, "past + tokens", form.size]
        return onnx_model(self.nodes, inputs, outputs, self.constants, opset=18)


def write_decoder(folder: Path, form: Form) -> Path:
    """Write model.onnx in a folder; return its path."""
    path = folder / "model.onnx"
    onnx.save(_Writer(form).write(), path)
    (folder / "config.json").write_text(
        json.dumps({"max_position_embeddings": POSITIONS, "num_attention_heads": form.heads})
    )
    return path


def runtime_logits(path: Path, tokens: np.ndarray) -> np.ndarray:
    """Return what ONNX Runtime computes of a prompt, [tokens, words]."""
    session = onnxruntime.InferenceSession(path)
    feeds: dict[str, np.ndarray] = {}
    for port in session.get_inputs():
        if port.name.startswith("past"):
            feeds[port.name] = np.zeros((1, port.shape[1], 0, port.shape[3]), np.float32)
    names = {port.name for port in session.get_inputs()}
    values = {
        "input_ids": tokens[None], "attention_mask": np.ones((1, len(tokens)), np.int64),
        "position_ids": np.arange(len(tokens))[None],
    }  # fmt: skip
    feeds |= {name: array for name, array in values.items() if name in names}
    return session.run(["logits"], feeds)[0][0]
