"""Learned ranges in `TensorQuantizer`, `finetune`, checkpoints, the file and the engine."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import intact
import intact.torch
from intact import numerics
from intact.errors import QuantValueError, UnsupportedError
from intact.torch import nn as quant_nn
from intact.torch.nn import TensorQuantizer
from intact.torch.operators import fake_quantize as ops
from intact.torch.tensor_quant import QuantDescriptor
from intact.torch.training.collect_statistics import spec_of
from intact.torch.training.learn_ranges import (
    PositiveRanges,
    learn_ranges,
    learned_ranges_of,
    learning_quantizers,
)

RANGES = ("_amax", "_amin")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def data(steps: int = 4) -> list[tuple[Tensor, Tensor]]:
    labels = torch.Generator().manual_seed(99)
    return [(random(8, 2, 6, 6, seed=i), torch.randint(0, 3, (8,), generator=labels)) for i in range(steps)]


def quantizers(model: nn.Module) -> list[TensorQuantizer]:
    return [m for m in model.modules() if isinstance(m, TensorQuantizer)]


def net(bits: int = 4, **activations: Any) -> nn.Module:
    """Two layers; calibrated weights per channel and activations per tensor, of `bits`."""
    torch.manual_seed(2)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(64, 3)
    )
    inputs = QuantDescriptor(num_bits=bits, calib_method="mergeable", **activations)
    intact.torch.replace_modules(model, quant_desc_input=inputs)
    for quantizer in quantizers(model):
        quantizer.num_bits = bits
    unsigned = activations.get("symmetric", True) and not activations.get("axis")
    intact.torch.calibrate(model, data(), method="max", unsigned=unsigned, progress=False)
    return model


def finetune(model: nn.Module, batches: Any = None, **options: Any) -> intact.torch.FinetuneResult:
    options = {"epochs": 2, "lr": 0.05, "learn": "lsq", "progress": False} | options
    return intact.torch.finetune(model, data() if batches is None else batches, **options)


def same(first: nn.Module, other: nn.Module) -> bool:
    a, b = first.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


# ---- the quantizer ----


@pytest.mark.parametrize("kind", ["lsq", "lsq+", "pact"])
@pytest.mark.parametrize(("axis", "amax"), [(None, 1.5), (1, [[1.0], [0.5]])], ids=["tensor", "axis"])
def test_a_learned_range_is_amax_itself(kind: str, axis: int | None, amax: Any) -> None:
    desc = {"num_bits": 4, "axis": axis, "amax": amax if axis is None else [[[1.0], [0.5]]]}
    quantizer = TensorQuantizer(QuantDescriptor(learn_amax=kind, **desc))
    plain = TensorQuantizer(QuantDescriptor(**desc))
    assert [n for n, _ in quantizer.named_parameters()] == ["_amax"]
    assert set(quantizer.state_dict()) == set(plain.state_dict()) == {"_amax"}
    x = 2 * random(3, 2, 5)
    assert torch.equal(quantizer(x), plain(x))
    quantizer(x).square().sum().backward()
    with torch.no_grad():
        quantizer.amax.sub_(0.01 * quantizer.amax.grad.sign())
    assert not torch.equal(quantizer(x), plain(x))
    plain.load_state_dict(quantizer.state_dict())
    assert torch.equal(quantizer(x), plain(x))
    with torch.no_grad():
        assert torch.equal(quantizer(x), plain(x))


def test_both_ends_of_an_asymmetric_range_are_learned() -> None:
    quantizer = TensorQuantizer(QuantDescriptor(num_bits=4, symmetric=False, learn_amax="lsq+"))
    quantizer.set_range(-0.5, 2.0)
    assert [n for n, _ in quantizer.named_parameters()] == ["_amin", "_amax"]
    quantizer(3 * random(50)).sum().backward()
    assert quantizer._amin.grad != 0 and quantizer._amax.grad != 0


def test_scale_amax_scales_the_gradient() -> None:
    x = random(60)
    grads = []
    for factor in (None, 0.5):
        desc = QuantDescriptor(
            num_bits=4, amax=1.0 if factor is None else 2.0, scale_amax=factor, learn_amax="pact"
        )
        quantizer = TensorQuantizer(desc)
        quantizer(x).sum().backward()
        grads.append(quantizer.amax.grad)
    torch.testing.assert_close(grads[1], 0.5 * grads[0])


def test_the_factor_counts_weights_whole_and_activations_without_their_batch() -> None:
    quantizer = TensorQuantizer(QuantDescriptor(num_bits=4, learn_amax="lsq", amax=1.0))
    x = random(6, 10)
    grads = []
    for tensor in (x, nn.Parameter(x)):
        quantizer.zero_grad()
        quantizer(tensor).sum().backward()
        grads.append(float(quantizer.amax.grad))
    assert grads[0] == pytest.approx(math.sqrt(6) * grads[1])


def test_without_a_range_it_is_dynamic_and_then_starts_at_a_tensor() -> None:
    quantizer = TensorQuantizer(QuantDescriptor(num_bits=4, axis=0, learn_amax="lsq"))
    x = random(3, 20)
    assert torch.equal(quantizer(x), TensorQuantizer(QuantDescriptor(num_bits=4, axis=0))(x))
    quantizer.init_learn_amax(x)
    want = 2 * x.abs().mean(1, keepdim=True) * math.sqrt(7)
    torch.testing.assert_close(quantizer.amax.detach(), want)
    quantizer.init_learn_amax()  # what the old library's scripts call: the range is where it starts
    torch.testing.assert_close(quantizer.amax.detach(), want)
    assert "learned=lsq" in str(quantizer)


def test_true_still_learns_a_clip() -> None:
    quantizer = TensorQuantizer(QuantDescriptor(learn_amax=True, amax=1.0))
    assert {n for n, _ in quantizer.named_parameters()} == {"clip.clip_value_min", "clip.clip_value_max"}
    assert not isinstance(quantizer.amax, nn.Parameter)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"learn_amax": "lsqr"}, QuantValueError, "got 'lsqr', want True, False or one of"),
        ({"learn_amax": "lsq", "symmetric": False}, UnsupportedError, "choose 'lsq\\+'"),
        ({"learn_amax": "pact", "num_bits": (4, 3)}, UnsupportedError, "want fake_quant=True and integer"),
        ({"learn_amax": "lsq", "fake_quant": False}, UnsupportedError, "with fake_quant=False"),
    ],
)
def test_what_cannot_be_learned_is_refused(arguments: dict[str, Any], error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        QuantDescriptor(**arguments)


def test_the_clips_switches_are_not_for_a_learned_range() -> None:
    with pytest.raises(QuantValueError, match="enable_clip with learn_amax='lsq'"):
        TensorQuantizer(QuantDescriptor(learn_amax="lsq")).enable_clip()


def test_a_descriptor_says_its_kind() -> None:
    desc = QuantDescriptor(num_bits=4, axis=0, learn_amax="lsq+")
    assert QuantDescriptor.from_yaml(desc.to_yaml()) == desc == QuantDescriptor(**desc.dict())
    assert "learn_amax=lsq+" in str(desc)


# ---- finetune ----


@pytest.mark.parametrize("kind", ["lsq", "lsq+", "pact"])
def test_every_range_learns_and_the_loss_falls(kind: str) -> None:
    model = net()
    with torch.no_grad():  # PACT moves what clips
        for quantizer in quantizers(model):
            quantizer.amax.mul_(0.5)
    before = [q.amax.clone() for q in quantizers(model)]
    result = finetune(model, learn=kind, epochs=5)
    assert result.history[-1]["loss"] < result.history[0]["loss"]
    for quantizer, old in zip(quantizers(model), before, strict=True):
        assert quantizer._learn_amax == kind and quantizer.amax.requires_grad
        assert not torch.equal(quantizer.amax, old)
        assert quantizer.amax.shape == old.shape and bool((quantizer.amax > 0).all())


def test_ranges_start_at_the_papers_values() -> None:
    model = net()
    x = data()[0][0]
    unquantized = copy.deepcopy(model).eval()
    learn_ranges(model, "lsq", data()[0])
    weight = model[0].weight.detach()
    want = 2 * weight.abs().mean((1, 2, 3), keepdim=True) * math.sqrt(7)
    torch.testing.assert_close(model[0].weight_quantizer.amax.detach(), want)
    torch.testing.assert_close(model[0].input_quantizer.amax.item(), 2 * x.abs().mean().item() * math.sqrt(7))
    for quantizer in quantizers(unquantized):
        quantizer.disable()
    seen = unquantized[:5](x)  # unsigned: 15 codes above zero
    torch.testing.assert_close(model[5].input_quantizer.amax.item(), 2 * seen.mean().item() * math.sqrt(15))


@pytest.mark.parametrize(("kind", "batch"), [("pact", True), ("lsq", False)])
def test_pact_and_whatever_has_no_batch_start_at_the_calibrated_ranges(kind: str, batch: bool) -> None:
    model = net()
    want = [q.amax.clone() for q in quantizers(model)]
    learn_ranges(model, kind, data()[0] if batch else None)
    assert all(torch.equal(q.amax, w) for q, w in zip(quantizers(model), want, strict=True))


def test_quantizers_that_learn_already_keep_kind_and_range() -> None:
    model = net(learn_amax="pact")
    before = model[0].input_quantizer.amax.item()
    learn_ranges(model, "lsq", data()[0])
    assert [q._learn_amax for q in quantizers(model)] == ["pact", "lsq", "pact", "lsq"]
    assert model[0].input_quantizer.amax.item() == before


def test_without_learn_a_learned_range_stays_unless_scales_are_free() -> None:
    for frozen in (True, False):
        model = net(learn_amax="lsq")
        before = model[0].input_quantizer.amax.item()
        finetune(model, learn=None, freeze_scales=frozen)
        assert (model[0].input_quantizer.amax.item() == before) == frozen


def test_float_grids_and_disabled_quantizers_stay_as_they_are() -> None:
    model = net()
    model[5].input_quantizer.disable()
    model[5].weight_quantizer.num_bits = (4, 3)
    before = model[5].weight_quantizer.amax.clone()
    finetune(model)
    assert [q._learn_amax for q in quantizers(model)] == ["lsq", "lsq", False, False]
    assert torch.equal(model[5].weight_quantizer.amax, before)


def asymmetric(**more: Any) -> nn.Module:
    return net(symmetric=False, **more)


def test_asymmetric_ranges_learn_both_ends_by_lsq_plus() -> None:
    model = asymmetric()
    before = {k: v.clone() for k, v in model.state_dict().items() if k.endswith(RANGES)}
    finetune(model, learn="lsq+")
    after = model.state_dict()
    assert sum(key.endswith("_amin") for key in before) == 2
    assert all(not torch.equal(after[key], old) for key, old in before.items() if "weight" in key)
    assert bool(((after["0._input_quantizer._amin"] <= 0) & (after["0._input_quantizer._amax"] > 0)).all())
    untouched = asymmetric()
    with pytest.raises(UnsupportedError, match=r"quantizer '0\._input_quantizer': .*learn_amax='lsq' with"):
        finetune(untouched, learn="lsq")
    assert not any(q._learn_amax for q in quantizers(untouched))


def test_weight_decay_leaves_ranges_alone_unless_asked() -> None:
    decayed = partial(torch.optim.SGD, weight_decay=0.5)
    seen: list[list[dict[str, Any]]] = []

    def optimizer(parameters: Any, lr: float) -> torch.optim.Optimizer:
        groups = decayed(parameters, lr=lr)
        seen.append(groups.param_groups)
        return groups

    for decay in (0.0, 0.25):
        model = net()
        finetune(model, optimizer=optimizer, range_decay=decay)
        weights, ranges = seen[-1]
        assert (weights["weight_decay"], ranges["weight_decay"]) == (0.5, decay)
        assert {id(p) for p in ranges["params"]} == {id(q.amax) for q in quantizers(model)}
        assert {id(p) for p in learned_ranges_of(model)} == {id(p) for p in ranges["params"]}
        both = [id(p) for group in (weights, ranges) for p in group["params"]]
        assert sorted(both) == sorted(id(p) for p in model.parameters())


@pytest.mark.parametrize(("build", "kind"), [(net, "lsq"), (asymmetric, "lsq+"), (asymmetric, "pact")])
def test_ranges_stay_ranges_whatever_the_learning_rate(build: Callable[[], nn.Module], kind: str) -> None:
    model = build()
    learn_ranges(model, kind, data()[0])
    ranges = PositiveRanges(learning_quantizers(model))
    for sign in (-1, 1, -1, -1):  # what a step of far too high a learning rate may do to an end
        before = ranges.ends()
        with torch.no_grad():
            for parameter in learned_ranges_of(model):
                parameter += sign * 100 * random(*parameter.shape, seed=sign + 5).abs()
        ranges.restore_collapsed(before)
        for (low, high), quantizer in zip(before, quantizers(model), strict=True):
            width = quantizer.amax - (0 if low is None else quantizer._amin)
            assert bool((width >= 0.5 * (high - (0 if low is None else low))).all())
            assert low is None or bool((quantizer._amin <= 0).all() and (quantizer.amax >= 0).all())
    finetune(model, learn=kind, lr=30.0)  # runs: no range is refused
    assert all(bool((q.amax > 0).all()) for q in quantizers(model) if q.symmetric)


@pytest.mark.parametrize(("build", "kind"), [(net, "lsq"), (asymmetric, "lsq+")])
def test_learned_ranges_are_widened_to_short_scales_on_request(
    build: Callable[[], nn.Module], kind: str
) -> None:
    as_learned, short = build(), build()
    finetune(as_learned, learn=kind)
    finetune(short, learn=kind, scale_bits=4)
    for quantizer, other in zip(quantizers(as_learned), quantizers(short), strict=True):
        spec = spec_of(other)
        if other.symmetric:
            scale = numerics.scale_from_amax(other.amax.detach().numpy(), spec)
        else:
            scale = numerics.affine_from_range(
                other._amin.detach().numpy(), other.amax.detach().numpy(), spec
            )[0]
        mantissa = np.frexp(scale)[0] * 16
        np.testing.assert_array_equal(mantissa, np.rint(mantissa))
        assert bool((other.amax <= 1.2 * quantizer.amax).all()) and isinstance(other.amax, nn.Parameter)


def test_finetune_starts_where_it_is_told() -> None:
    started = []
    for start in ("calibrated", "paper"):
        model, want = net(), net()
        learn_ranges(want, "lsq", data()[0] if start == "paper" else None)
        finetune(model, learn_start=start, lr=1e-12)
        for quantizer, other in zip(quantizers(model), quantizers(want), strict=True):
            torch.testing.assert_close(quantizer.amax, other.amax)
        started.append(model[0].input_quantizer.amax.item())
    assert started[0] != started[1]


class Interrupted(Exception):
    pass


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    def batches(fatal: int | None) -> Callable[[int], list[tuple[Tensor, Tensor]]]:
        def of(epoch: int) -> list[tuple[Tensor, Tensor]]:
            if epoch == fatal:
                raise Interrupted
            return data()

        return of

    options = {"epochs": 3, "optimizer": partial(torch.optim.AdamW, weight_decay=0.1), "batchnorm": "train"}
    whole, resumed = net(), net()
    finetune(whole, batches(None), **options)
    with pytest.raises(Interrupted):
        finetune(net(), batches(2), checkpoint=tmp_path / "run.pt", **options)
    got = finetune(resumed, batches(None), checkpoint=tmp_path / "run.pt", **options)
    assert got.resumed_at == 8
    assert same(resumed, whole)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"learn_start": "x"}, "learn_start: got 'x'"),
        ({"scale_bits": 9}, "scale_bits: got 9"),
        ({"learn": "sgd"}, "finetune: learn: got 'sgd', want one of"),
        ({"range_decay": -1}, "range_decay: got -1"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(QuantValueError, match=text):
        finetune(net(), **options)


# ---- checkpoint, file, engine ----


@pytest.mark.parametrize(("build", "kind"), [(net, "lsq"), (asymmetric, "lsq+")])
def test_a_checkpoint_carries_learned_ranges(
    build: Callable[[], nn.Module], kind: str, tmp_path: Path
) -> None:
    model = build()
    finetune(model, learn=kind)
    intact.torch.save_checkpoint(model, tmp_path / "m.safetensors")
    torch.manual_seed(2)
    fresh = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(64, 3)
    )
    intact.torch.load_checkpoint(fresh, tmp_path / "m.safetensors")
    assert same(fresh, model)
    assert [q._learn_amax for q in quantizers(fresh)] == [kind] * 4
    assert all(isinstance(q.amax, nn.Parameter) for q in quantizers(fresh))
    x = data()[1][0]
    assert torch.equal(fresh.eval()(x), model.eval()(x))


def test_a_learned_state_loads_where_there_is_no_range_yet() -> None:
    model = net()
    finetune(model)
    bare = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(), nn.Flatten(),
                         nn.Linear(64, 3))  # fmt: skip
    intact.torch.replace_modules(bare, quant_desc_weight=QuantDescriptor(axis=0, learn_amax="lsq"))
    bare.load_state_dict(model.state_dict())
    assert isinstance(bare[0].weight_quantizer.amax, nn.Parameter)
    assert not isinstance(bare[0].input_quantizer.amax, nn.Parameter)


FILES = [(net, "lsq", 8, 13), (net, "lsq", 4, 21), (net, "pact", 4, 21), (net, "lsq", 2, 13),
         (asymmetric, "lsq+", 8, 13), (asymmetric, "lsq+", 4, 21), (asymmetric, "lsq+", 3, 13)]  # fmt: skip


@pytest.mark.parametrize(("build", "kind", "bits", "opset"), FILES)
def test_file_and_engine_have_the_modules_codes(
    build: Callable[..., nn.Module], kind: str, bits: int, opset: int, tmp_path: Path
) -> None:
    model = build(bits=bits)
    finetune(model, learn=kind)
    model.eval()
    x = data()[2][0]
    report = intact.torch.export(model, x, tmp_path / "m.onnx", opset=opset)
    assert report.codes_differing == 0 and report.codes > 1000 and not report.not_compared
    file = onnx.load(tmp_path / "m.onnx")
    kinds = {node.op_type for node in file.graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds
    assert ("Clip" in kinds) == (bits in (2, 3))  # ONNX has no such type: 8 bits, of which a Clip leaves them
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in file.graph.initializer}
    for name, quantizer in model.named_modules():
        if isinstance(quantizer, TensorQuantizer) and "_input" in name:
            ends = (quantizer.amax, None if quantizer.symmetric else quantizer._amin)
            scale, zero = ops.scale_and_zero_point(x, *(e if e is None else e.detach() for e in ends),
                                                   format=quantizer.format)  # fmt: skip
            assert stored[f"{name}.scale"] == scale.item()
            assert int(stored[f"{name}.zero_point"]) == zero.item()
    codes = [v for k, v in stored.items() if k.endswith(".codes")]
    assert len(codes) == 2
    assert all(v.astype(int).min() >= -(2 ** (bits - 1)) for v in codes)
    assert all(v.astype(int).max() < 2 ** (bits - 1) for v in codes)
    engine = intact.compile(tmp_path / "m.onnx")
    np.testing.assert_allclose(engine(x), model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_exporters_that_are_called_with_gradients_on_see_the_ordinary_operator() -> None:
    model = net(bits=8)
    finetune(model)
    program = torch.export.export(model.eval(), (data()[0][0],))
    operators = [str(n.target) for n in program.graph.nodes if "intact" in str(n.target)]
    assert operators == ["intact.fake_quantize.default"] * 4


def test_codes_that_the_engine_hands_out_are_the_modules(tmp_path: Path) -> None:
    """The output is quantized itself: every real that leaves the engine is a code times the learned scale."""
    torch.manual_seed(3)
    desc = {"num_bits": 4, "learn_amax": "lsq"}
    model = nn.Sequential(
        quant_nn.QuantConv2d(2, 4, 3, quant_desc_input=QuantDescriptor(**desc),
                             quant_desc_weight=QuantDescriptor(axis=0, **desc)),
        nn.ReLU(),
        TensorQuantizer(QuantDescriptor(unsigned=True, **desc)),
    )  # fmt: skip
    intact.torch.calibrate(model, [x for x, _ in data()], method="max", progress=False)
    teacher = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU())
    finetune(model, [x for x, _ in data()], teacher=teacher, loss=nn.functional.mse_loss, freeze_scales=False)
    model.eval()
    x = random(16, 2, 6, 6, seed=77)
    intact.torch.export(model, x, tmp_path / "m.onnx", opset=21)
    scale = ops.scale_and_zero_point(x, model[2].amax.detach(), format="uint4")[0].item()
    got = np.rint(intact.compile(tmp_path / "m.onnx")(x) / scale)
    want = np.rint(model(x).detach().numpy() / scale)
    assert len(np.unique(want)) > 8
    np.testing.assert_array_equal(got, want)
