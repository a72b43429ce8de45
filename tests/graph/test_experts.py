"""MoE and QMoE of ONNX Runtime: against its kernels, and where it has none against the operator's formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

import intact
from intact import graph
from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.errors import FileFormatError, QuantValueError, UnsupportedError
from intact.graph import Session
from intact.graph.ops import MICROSOFT
from intact.graph.rewrites.decompose_contrib import FUSED
from intact.numerics import join_stream

EXPERTS, HIDDEN, INNER, ROWS = 6, 64, 96, 5
QMOE = ("x", "logits", "w1", "s1", "b1", "w2", "s2", "b2", "w3", "s3", "b3", "z1", "z2", "z3", "router")
MOE = ("x", "logits", "w1", "b1", "w2", "b2", "w3", "b3")
Arrays = dict[str, NDArray[Any]]


class Mixture:
    """A MoE or QMoE with random weights, its floats, and what it is fed."""

    def __init__(
        self, op_type: str = "QMoE", *, bits: int = 4, block: int = 32, zeros: bool = False,
        bias: bool = True, gates: bool = False, router: bool = False, shape: tuple[int, ...] = (ROWS,),
        dtype: type = np.float32, **attributes: Any,
    ) -> None:  # fmt: skip
        self.rng = np.random.default_rng(bits * block + len(attributes))
        self.op_type, self.bits, self.block, self.dtype = op_type, bits, block, dtype
        self.attributes: dict[str, Any] = {"k": 2, "activation_type": "silu", **attributes}
        self.floats: Arrays = {}
        self.constants: Arrays = {}
        fused = self.attributes.get("swiglu_fusion", 0) > 0
        self._add("1", INNER * 2 if fused else INNER, HIDDEN, zeros, bias)
        self._add("2", HIDDEN, INNER, zeros, bias)
        if gates:
            self._add("3", INNER, HIDDEN, zeros, bias)
        rows = int(np.prod(shape))
        self.feeds: Arrays = {
            "x": self.rng.normal(0, 1, (*shape, HIDDEN)).astype(dtype),
            "logits": self.rng.normal(0, 1, (rows, EXPERTS)).astype(dtype),
        }
        if router:
            self.feeds["router"] = self.rng.uniform(0, 1, (rows, EXPERTS)).astype(dtype)

    def _add(self, at: str, outputs: int, inputs: int, zeros: bool, bias: bool) -> None:
        if bias:
            self.constants[f"b{at}"] = self.rng.normal(0, 1, (EXPERTS, outputs)).astype(self.dtype)
        if self.op_type == "MoE":
            weight = self.rng.normal(0, 0.2, (EXPERTS, outputs, inputs)).astype(np.float32)
            self.floats[at] = self.constants[f"w{at}"] = weight
            return
        size = self.block or inputs
        blocks = inputs // size
        codes = self.rng.integers(0, 2**self.bits, (EXPERTS, outputs, inputs), np.uint8)
        scales = self.rng.uniform(0.5, 1.5, (EXPERTS, outputs, blocks)) * 0.3 / 2**self.bits
        scales = scales.astype(self.dtype)
        points = np.full(scales.shape, 2 ** (self.bits - 1), np.uint8)
        if zeros:
            points = self.rng.integers(0, 2**self.bits, scales.shape, np.uint8)
            packed = points if self.block else points[..., 0]
            self.constants[f"z{at}"] = join_stream(packed, self.bits, 1)
        self.constants[f"w{at}"] = join_stream(codes, self.bits, 1)
        self.constants[f"s{at}"] = scales if self.block else scales[..., 0]
        spread = [np.repeat(part.astype(np.float64), size, axis=2) for part in (scales, points)]
        self.floats[at] = ((codes - spread[1]) * spread[0]).astype(np.float32)

    def model(self, **attributes: Any) -> ModelProto:
        names = QMOE if self.op_type == "QMoE" else MOE
        arrays = {**self.feeds, **self.constants}
        inputs = [name if name in arrays else "" for name in names]
        while not inputs[-1]:
            inputs.pop()
        own = {"expert_weight_bits": self.bits} if self.op_type == "QMoE" else {}
        own |= {"block_size": self.block} if self.op_type == "QMoE" and self.block else {}
        every = self.attributes | own | attributes
        node = helper.make_node(self.op_type, inputs, ["y"], name="experts", domain=MICROSOFT, **every)
        element = TensorProto.FLOAT if self.dtype == np.float32 else TensorProto.FLOAT16
        infos = [
            helper.make_tensor_value_info(name, element, list(array.shape))
            for name, array in self.feeds.items()
        ]
        output = helper.make_tensor_value_info("y", element, list(self.feeds["x"].shape))
        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        return onnx_model([node], infos, [output], constants, opset=21, domains={MICROSOFT: 1})

    def formula(self, in_codes: str = "") -> NDArray[np.float64]:
        """The operator's documentation in float64; rows of these products as codes, in blocks."""
        form = self.attributes
        x = self.feeds["x"].astype(np.float64).reshape(-1, HIDDEN)
        logits = self.feeds["logits"].astype(np.float64)
        exact = np.exp(logits - logits.max(1, keepdims=True))
        y = np.zeros_like(x)
        for row, scores in enumerate(logits):
            chosen = np.argsort(-scores, kind="stable")[: form["k"]]
            weights = exact[row, chosen] / exact[row].sum()
            if "router" in self.feeds:
                weights = self.feeds["router"][row, chosen].astype(np.float64)
            is_softmax_of_chosen = self.op_type == "QMoE" and "router" not in self.feeds
            if form.get("normalize_routing_weights") or is_softmax_of_chosen:
                weights = weights / weights.sum()
            for expert, weight in zip(chosen, weights, strict=True):
                inner = self._product("1", x[row], expert, in_codes)
                values = self._product("3", x[row], expert, in_codes) if "3" in self.floats else None
                inner = self._activate(inner, values)
                y[row] += weight * self._product("2", inner, expert, in_codes)
        return y.reshape(self.feeds["x"].shape)

    def _product(self, at: str, x: NDArray[Any], expert: int, in_codes: str) -> NDArray[Any]:
        if at in in_codes:
            blocks = x.reshape(-1, self.block)
            scale = np.abs(blocks).max(1, keepdims=True) / 127
            x = (np.round(blocks / scale) * scale).reshape(-1)
        y = self.floats[at][expert].astype(np.float64) @ x
        return y + self.constants[f"b{at}"][expert] if f"b{at}" in self.constants else y

    def _activate(self, x: NDArray[Any], values: NDArray[Any] | None) -> NDArray[Any]:
        form = self.attributes
        match form["activation_type"]:
            case "relu":
                return np.maximum(x, 0)
            case "silu":
                return x / (1 + np.exp(-x))
            case "gelu":
                return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
            case "identity":
                return x
        gate, linear = x, values
        if linear is None:
            by_turns = form["swiglu_fusion"] == 1
            gate, linear = (x[0::2], x[1::2]) if by_turns else np.split(x, 2)
        limit = form.get("swiglu_limit", np.inf)
        gate, linear = np.minimum(gate, limit), np.clip(linear, -limit, limit)
        alpha, beta = form.get("activation_alpha", 1.0), form.get("activation_beta", 0.0)
        return gate / (1 + np.exp(-alpha * gate)) * (linear + beta)


def assert_close(got: NDArray[Any], want: NDArray[Any], tolerance: float = 2e-6) -> None:
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * np.abs(want).max())


def run_native(mixture: Mixture, products: int = 2) -> NDArray[np.float32]:
    """Run it without ONNX Runtime; reference and engine are equal, and no product is of all experts."""
    plan = lower(mixture.model())
    kinds = [step.kind for step in plan.steps]
    assert kinds.count("chosen_block_linear") == products
    assert not {"onnx", "block_linear", "block_float_linear"} & set(kinds)
    want = evaluate(plan, mixture.feeds)["y"]
    for threads in (1, 2):
        np.testing.assert_array_equal(Engine(plan, threads=threads).run(mixture.feeds)["y"], want)
    return want


def assert_runtime_agrees(got: NDArray[Any], mixture: Mixture) -> None:
    """Compare with ONNX Runtime, where it has this form of the operator: older ones have fewer."""
    try:
        session = Session(mixture.model().SerializeToString())
        want = session.run(mixture.feeds)["y"]
    except UnsupportedError as error:
        if runtime_version() >= (1, 32):
            raise
        pytest.skip(f"ONNX Runtime is older than its QMoE of today: {error}")
    assert_close(got, want)


def runtime_version() -> tuple[int, ...]:
    return tuple(map(int, onnxruntime.__version__.split(".")[:2]))


@pytest.mark.rule("N75")
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("block", [0, 16, 32])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("level", [0, 4])
def test_codes_agree_with_onnx_runtime(bits: int, block: int, level: int, zeros: bool) -> None:
    mixture = Mixture(bits=bits, block=block, zeros=zeros, accuracy_level=level)
    got = run_native(mixture)
    assert_runtime_agrees(got, mixture)
    in_codes = block > 0 and (bits == 8 or (bits == 4 and level == 4))
    assert_close(got, mixture.formula("12" if in_codes else ""), 2e-5 if in_codes else 2e-6)


SWIGLU = {"activation_type": "swiglu", "swiglu_fusion": 1}
FORMS = [
    {"activation_type": "relu", "bias": False},
    {"activation_type": "gelu"},
    {"activation_type": "identity", "k": 1},
    {"activation_type": "silu", "k": 6, "normalize_routing_weights": 1},
    SWIGLU,
    {**SWIGLU, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 0.7},
    {"shape": (2, 3)},
]


@pytest.mark.rule("N75")
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_forms_agree_with_onnx_runtime(form: dict[str, Any]) -> None:
    mixture = Mixture(**form)
    k = mixture.attributes["k"]
    plan = lower(mixture.model())
    got = evaluate(plan, mixture.feeds)["y"]
    np.testing.assert_array_equal(Engine(plan).run(mixture.feeds)["y"], got)
    assert ("chosen_block_linear" in {step.kind for step in plan.steps}) == (k <= EXPERTS)
    assert_runtime_agrees(got, mixture)
    assert_close(got, mixture.formula())


@pytest.mark.parametrize("normalize", [0, 1])
def test_router_weights_mix_what_logits_choose(normalize: int) -> None:
    mixture = Mixture(router=True, normalize_routing_weights=normalize)
    got = run_native(mixture)
    assert_runtime_agrees(got, mixture)


@pytest.mark.parametrize("form", [
    {"activation_type": "swiglu", "gates": True},
    {"activation_type": "swiglu", "swiglu_fusion": 2},
])  # fmt: skip
def test_gates_that_onnx_runtime_has_no_kernel_for_follow_the_documentation(form: dict[str, Any]) -> None:
    mixture = Mixture(**form)
    assert_close(run_native(mixture, 3 if "gates" in form else 2), mixture.formula())


def test_projections_may_have_bits_of_their_own() -> None:
    mixture = Mixture(bits=4, fc1_expert_weight_bits=8, block=32)
    wide = Mixture(bits=8, block=32)
    for table in ("constants", "floats"):
        own, other = getattr(mixture, table), getattr(wide, table)
        own.update({name: array for name, array in other.items() if name in ("w1", "s1", "1")})
    # ONNX Runtime's CPU kernel wants one width for all.
    assert_close(run_native(mixture), mixture.formula("1"), 2e-5)


def test_float16_is_computed_in_float32() -> None:
    mixture = Mixture(dtype=np.float16, **SWIGLU)
    plan = lower(mixture.model())
    got = Engine(plan).run(mixture.feeds)["y"]
    assert got.dtype == np.float16 and "chosen_block_linear" in {step.kind for step in plan.steps}
    assert_close(got.astype(np.float64), mixture.formula(), 2e-3)


def test_open_sizes() -> None:
    mixture = Mixture(**SWIGLU)
    model = mixture.model()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "rows"
    engine = Engine(lower(model))
    for rows in (1, 4, 30):
        feeds = Mixture(**SWIGLU, shape=(rows,)).feeds
        mixture.feeds = feeds
        assert_close(engine.run(feeds)["y"], mixture.formula())


@pytest.mark.parametrize("form", FORMS[1:6], ids=str)
def test_float_experts_become_layers_that_can_be_quantized(form: dict[str, Any]) -> None:
    mixture = Mixture("MoE", **form)
    want = Session(mixture.model().SerializeToString()).run(mixture.feeds)["y"]
    model = graph.load(mixture.model())
    notes = [note for rewrite in FUSED for note in rewrite(model)]
    assert any("MoE" in str(note) for note in notes)
    assert_close(Session(model).run(mixture.feeds)["y"], want)


def test_float_experts_stay_with_onnx_runtime_until_they_have_codes() -> None:
    mixture = Mixture("MoE")
    plan = lower(mixture.model())
    assert [step.kind for step in plan.steps] == ["onnx"]
    quantized = intact.quantize(mixture.model(), [mixture.feeds])
    kinds = {step.kind for step in lower(quantized.model).steps}
    assert "chosen_linear" in kinds and "onnx" not in kinds


def test_codes_of_experts_are_kept() -> None:
    mixture = Mixture()
    with pytest.raises(QuantValueError, match=r"quantized already \(QMoE\)"):
        intact.quantize(mixture.model(), [mixture.feeds])


def test_float_experts_get_weights_in_blocks() -> None:
    mixture = Mixture("MoE", **SWIGLU)
    options = {"weights": "int4", "block": 32, "activations": "dynamic-int8"}
    quantized = intact.quantize(mixture.model(), progress=False, **options)
    plan = lower(quantized.model)
    assert [step.kind for step in plan.steps].count("chosen_block_linear") == 2
    got, want = Engine(plan).run(mixture.feeds)["y"], mixture.formula()
    np.testing.assert_array_equal(got, evaluate(plan, mixture.feeds)["y"])
    assert np.vdot(got, want) / np.linalg.norm(got) / np.linalg.norm(want) > 0.98


@pytest.mark.parametrize("change", [
    {"quant_type": "fp4"}, {"use_sparse_mixer": 1}, {"k": 7}, {"block_size": 24},
    {"activation_type": "geglu"}, {"weights_prepacked": 1}, {"swiglu_limit_after_activation": 1},
])  # fmt: skip
def test_other_forms_stay(change: dict[str, Any]) -> None:
    model = graph.load(Mixture().model(**change))
    for rewrite in FUSED:
        rewrite(model)
    assert [node.op_type for node in model.graph] == ["QMoE"]


def test_a_node_that_chooses_no_expert_is_refused() -> None:
    with pytest.raises(FileFormatError, match=r"node 'experts' \(QMoE\): attribute 'k'"):
        graph.load(Mixture().model(k=0))


def test_explain_names_the_numerics() -> None:
    layers = lower(Mixture(bits=8).model()).layers
    assert any("int8 codes with a range per 32" in layer.reason for layer in layers)


def test_products_with_codes_import_their_domain() -> None:
    model = graph.load(Mixture().model())
    for rewrite in FUSED:
        rewrite(model)
    assert b"BlockLinear" in graph.to_bytes(model)  # the checker refuses a domain that is not imported
