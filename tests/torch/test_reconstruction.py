"""`intact.torch.reconstruct`: which parts, what is learned, and that files hold it."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn

import intact
import intact.torch
from intact.errors import FileFormatError, QuantValueError
from intact.job_pool import InProcess
from intact.torch.nn import TensorQuantizer
from intact.torch.operators import fake_quantize as ops
from intact.torch.reconstruction import optimize_block
from intact.torch.reconstruction.block_data import Samples
from intact.torch.reconstruction.blocks import find_blocks
from intact.torch.tensor_quant import QuantDescriptor


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Exact repetition is promised on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.conv2(torch.relu(self.bn1(self.conv1(x)))) + x)


class Net(nn.Module):
    """A stem, two residual blocks in a Sequential, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.layer = nn.Sequential(Residual(16), Residual(16))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.flatten(self.pool(self.layer(torch.relu(self.stem(x)))), 1))


def images(batches: int = 3, size: int = 8) -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(size, 3, 6, 6, generator=generator) for _ in range(batches)]


def float_net() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Net().eval()


@functools.cache
def _quantize_once(weights: str, activations: str) -> nn.Module:
    return intact.torch.quantize(
        float_net(), images(), method="mse", weight_method="mse", weights=weights, activations=activations,
        correct_bias=False, progress=False,
    ).model  # fmt: skip


def quantized_net(weights: str = "int4", activations: str = "uint8") -> nn.Module:
    return copy.deepcopy(_quantize_once(weights, activations))


def reconstruct(model: nn.Module, **options: Any) -> intact.torch.ReconstructionResult:
    options = {"steps": 60, "batch_size": 8, "progress": False} | options
    return intact.torch.reconstruct(model, images(), **options)


def weight_codes(model: nn.Module) -> dict[str, Tensor]:
    """The codes that the ordinary quantizers give the weights."""
    return {
        name: ops.quantize(
            module.weight, module._weight_quantizer._amax, format=module._weight_quantizer.format
        )
        for name, module in model.named_modules()
        if hasattr(module, "_weight_quantizer")
    }


def same(first: nn.Module, other: nn.Module) -> bool:
    a, b = first.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


# ---- which parts ----


def parts(model: nn.Module, method: str = "brecq", **options: Any) -> list[str]:
    blocks, left = find_blocks(model, lambda: model(images()[0]), method, **options)
    assert left == {}
    return [block.path for block in blocks]


def test_blocks_are_residual_blocks_and_layers_outside() -> None:
    assert parts(quantized_net()) == ["stem", "layer.0", "layer.1", "head"]


def test_adaround_goes_layer_by_layer_in_the_order_of_the_calls() -> None:
    want = ["stem", "layer.0.conv1", "layer.0.conv2", "layer.1.conv1", "layer.1.conv2", "head"]
    assert parts(quantized_net(), "adaround") == want


def test_blocks_can_be_named() -> None:
    assert parts(quantized_net(), patterns=["layer"]) == ["stem", "layer", "head"]
    with pytest.raises(QuantValueError, match="'stage'"):
        parts(quantized_net(), patterns=["stage"])


def test_a_block_has_the_quantizers_that_nobody_else_calls() -> None:
    model = quantized_net()
    blocks, _ = find_blocks(model, lambda: model(images()[0]), "brecq")
    block = blocks[1]
    assert set(block.weights.values()) == {"layer.0.conv1.weight", "layer.0.conv2.weight"}
    assert len(block.activations) == 2  # what conv1 and the addition read, and what conv2 reads
    assert all(isinstance(model.get_submodule(name), TensorQuantizer) for name in block.activations)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.shared(torch.relu(self.shared(x)))))


def test_a_layer_that_is_called_twice_is_left_and_the_report_says_why() -> None:
    model = Twice()
    intact.torch.replace_modules(model)
    batch = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    intact.torch.calibrate(model, [batch], progress=False)
    before = model.shared.weight.detach().clone()
    result = intact.torch.reconstruct(model, [batch], steps=5, progress=False)
    assert [block.path for block in result.blocks] == ["last"]
    assert "called once" in result.left["shared._weight_quantizer"]
    assert "shared._weight_quantizer: left" in str(result)
    assert torch.equal(model.shared.weight, before)


# ---- what is learned ----


@pytest.mark.parametrize("method", ["adaround", "brecq"])
def test_every_part_comes_closer_to_float(method: str) -> None:
    model = quantized_net("int3")
    result = reconstruct(model, method=method, steps=150)
    assert all(block.after <= block.before for block in result.blocks)
    better = [block for block in result.blocks if block.after < 0.9 * block.before]
    assert len(better) >= 2, str(result)
    assert any(block.moved > 0 for block in better)


def test_the_answers_come_closer_than_with_rounding_to_nearest() -> None:
    with torch.no_grad():
        float_answers = torch.cat([float_net()(x) for x in images()])
    nearest, learned = quantized_net("int2"), quantized_net("int2")
    reconstruct(learned, method="adaround", steps=100)

    @torch.no_grad()
    def error(model: nn.Module) -> float:
        return float((torch.cat([model(x) for x in images()]) - float_answers).square().mean())

    assert error(learned) < 0.8 * error(nearest)


def test_what_does_not_help_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimize_block, "ROUNDING_WAY", 1e3)  # every weight is thrown to one side
    monkeypatch.setattr(optimize_block, "RANGE_WAY", 3.0)
    model = quantized_net("int8")
    before = copy.deepcopy(model)
    result = reconstruct(model, steps=3)
    assert all(block.after == block.before and block.moved == 0 for block in result.blocks)
    assert same(model, before)


def test_a_block_that_is_interrupted_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    model = quantized_net(activations="uint4")
    before, calls = copy.deepcopy(model), []

    def interrupt(progress: float) -> None:
        calls.append(progress)
        if len(calls) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(optimize_block, "beta_at", interrupt)
    with pytest.raises(KeyboardInterrupt):
        reconstruct(model)
    assert same(model, before)
    assert all(p.requires_grad for p in model.parameters())


def test_adaround_leaves_ranges_alone_and_brecq_learns_those_of_its_blocks() -> None:
    def ranges(model: nn.Module) -> dict[str, Tensor]:
        return {k: v for k, v in model.state_dict().items() if k.endswith(("_amax", "_amin"))}

    model = quantized_net(activations="uint4")
    before = {k: v.clone() for k, v in ranges(model).items()}
    reconstruct(model, method="adaround")
    assert all(torch.equal(v, before[k]) for k, v in ranges(model).items())
    model = quantized_net(activations="uint4")
    result = reconstruct(model, steps=150)
    improved = {name for block in result.blocks if block.after < block.before for name in block.weights}
    changed = {k for k, v in ranges(model).items() if not torch.equal(v, before[k])}
    assert improved
    assert changed
    assert not any("_weight_quantizer" in k for k in changed)
    quantizers = [q for q in model.modules() if isinstance(q, TensorQuantizer)]
    assert not any(q._learn_amax for q in quantizers)
    assert not any(list(q.parameters()) for q in quantizers)


def test_nothing_else_of_the_model_changes() -> None:
    model = quantized_net()
    model.train()
    model.head.bias.requires_grad_(False)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state = torch.get_rng_state()
    reconstruct(model)
    assert model.training
    assert [n for n, p in model.named_parameters() if not p.requires_grad] == ["head.bias"]
    assert torch.equal(torch.get_rng_state(), state)
    after = model.state_dict()
    frozen = [k for k in before if not k.endswith(("weight", "_amax", "_amin")) or ".bn" in k]
    assert frozen
    assert all(torch.equal(after[k], before[k]) for k in frozen)


def test_biases_are_the_models_own_again_where_roundings_are_learned() -> None:
    model = quantized_net("int2")
    own = {name: p.detach().clone() for name, p in model.named_parameters() if name.endswith("bias")}
    intact.torch.calibrate(
        model, images(), method="mse", weight_method="mse", correct_bias=True, progress=False
    )
    result = reconstruct(model, method="adaround", steps=100)
    corrected = dict(model.named_parameters())
    for block in result.blocks:
        bias = f"{block.path}.bias"
        learned = block.after < block.before
        assert torch.allclose(corrected[bias], own.get(bias, torch.zeros(1)), rtol=0, atol=1e-6) == learned, (
            block
        )
    assert any(block.after < block.before for block in result.blocks)


def test_equal_seeds_give_equal_models() -> None:
    models = [quantized_net("int3", "uint4") for _ in range(3)]
    for model, seed in zip(models, (1, 1, 2), strict=True):
        reconstruct(model, seed=seed)
    assert same(models[0], models[1])
    assert not same(models[0], models[2])


# ---- what the file and the engine have ----


@pytest.mark.parametrize(
    ("weights", "activations"), [("int2", "uint8"), ("int3", "uint8"), ("int4", "uint4"), ("int8", "uint8")]
)
def test_the_file_has_the_learned_codes_and_the_engine_runs_them(
    weights: str, activations: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: dict[str, Tensor] = {}
    finish = optimize_block._Job._finish

    def watch_codes(job: Any) -> None:
        learned.update({n: s.codes() for n, s in zip(job._weights, job._rounding, strict=True)})
        finish(job)

    monkeypatch.setattr(optimize_block._Job, "_finish", watch_codes)
    model = quantized_net(weights, activations)
    result = reconstruct(model, steps=100)
    improved = [name for b in result.blocks if b.after < b.before for name in b.weights]
    assert improved
    codes = weight_codes(model)
    for name in improved:
        assert torch.equal(codes[name.removesuffix("._weight_quantizer")], learned[name])
    report = intact.torch.export(model, images()[0], tmp_path / "net.onnx", opset=21)
    assert all(q.differing == 0 for q in report.quantizers if q.weight)
    stored = _stored_codes(tmp_path / "net.onnx")
    for name in improved:
        flat = sorted(learned[name].flatten().tolist())
        assert flat in stored, name
    engine = intact.compile(str(tmp_path / "net.onnx"))
    x = images()[0].numpy()
    with torch.no_grad():
        want = model(images()[0]).numpy()
    (got,) = engine.run({engine.inputs[0].name: x}).values()
    np.testing.assert_allclose(got, want, atol=0.1 * np.abs(want).max())


def _stored_codes(path: Path) -> list[list[float]]:
    """The integers of every initializer of more than one axis, sorted: exporters may transpose them."""
    graph = onnx.load(path).graph
    arrays = [numpy_helper.to_array(tensor) for tensor in graph.initializer if len(tensor.dims) > 1]
    return [sorted(a.astype(np.float32).flatten().tolist()) for a in arrays if a.dtype != np.float32]


def test_training_goes_on_from_what_was_learned() -> None:
    """It is a better start for few bits than rounding to nearest: the first step sees the same codes."""
    model, batches = quantized_net("int2", "uint4"), [(x, torch.zeros(len(x)).long()) for x in images()]
    nearest = weight_codes(model)
    reconstruct(model)
    learned, answers = weight_codes(model), model(images()[0])
    assert any(not torch.equal(learned[name], nearest[name]) for name in nearest)
    intact.torch.finetune(model, batches, epochs=1, lr=1e-12, learn="lsq+", progress=False)
    assert all(torch.equal(codes, learned[name]) for name, codes in weight_codes(model).items())
    torch.testing.assert_close(model(images()[0]), answers)
    intact.torch.finetune(model, batches, epochs=4, lr=0.1, learn="lsq+", progress=False)
    assert any(not torch.equal(codes, learned[name]) for name, codes in weight_codes(model).items())


# ---- interruptions ----


class _StopError(Exception):
    pass


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.safetensors"
    whole, parted = quantized_net("int3", "uint4"), quantized_net("int3", "uint4")
    wanted = reconstruct(whole)

    def stop_at_third(*args: Any) -> Any:
        if args[1].path == "layer.1":
            raise _StopError
        return optimize_block.learn_block(*args)

    with monkeypatch.context() as patch:
        patch.setattr("intact.torch.reconstruction.learn_block", stop_at_third)
        with pytest.raises(_StopError):
            reconstruct(parted, state=path)
    again = quantized_net("int3", "uint4")
    result = reconstruct(again, state=path)
    assert result.resumed_at == 2
    assert result.blocks == wanted.blocks
    assert same(again, whole)
    finished = quantized_net("int3", "uint4")
    assert reconstruct(finished, state=path).resumed_at == 4
    assert same(finished, whole)


def test_a_state_of_another_run_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    reconstruct(quantized_net(), state=path, steps=2)
    with pytest.raises(FileFormatError, match="another seed, steps"):
        reconstruct(quantized_net(), state=path, steps=3, seed=1)
    with pytest.raises(FileFormatError, match="another model"):
        reconstruct(quantized_net("int3"), state=path, steps=2)
    reconstruct(quantized_net(), state=path, steps=3, resume=False)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FileFormatError, match="no readable state"):
        reconstruct(quantized_net(), state=path, steps=3)


def test_parts_that_read_the_float_model_do_not_depend_on_each_other(tmp_path: Path) -> None:
    class Backwards(InProcess):
        """Does the last job first, and asks for one more to be done."""

        def map(self, work: Any, common: Any, items: Any) -> Iterator[Any]:
            results = {item: work(common, item) for item in reversed([*items, 0])}
            yield from (results[item] for item in list(items))

    whole, again, backwards = (quantized_net("int3", "uint4") for _ in range(3))
    before = copy.deepcopy(again)
    wanted = reconstruct(whole, inputs="float")
    assert sum(block.after < block.before for block in wanted.blocks) >= 3
    assert not same(whole, before)
    assert reconstruct(backwards, inputs="float", pool=Backwards()).blocks == wanted.blocks
    assert same(backwards, whole)

    class Stops(InProcess):
        def map(self, work: Any, common: Any, items: Any) -> Iterator[Any]:
            yield work(common, next(iter(items)))
            raise _StopError

    path = tmp_path / "state.safetensors"
    with pytest.raises(_StopError):
        reconstruct(again, inputs="float", pool=Stops(), state=path)
    assert same(again, before)
    result = reconstruct(again, inputs="float", state=path)
    assert result.resumed_at == 1
    assert result.blocks == wanted.blocks
    assert same(again, whole)


# ---- refusals ----


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"method": "obq"}, "method"),
        ({"steps": 0}, "steps"),
        ({"batch_size": 0}, "batch_size"),
        ({"qdrop": 1.5}, "qdrop"),
        ({"blocks": ["nothing"]}, "blocks"),
        ({"inputs": "quantized"}, "inputs"),
        ({"pool": InProcess()}, "pool"),
    ],
)
def test_a_bad_argument_is_named(options: dict[str, Any], where: str) -> None:
    with pytest.raises(QuantValueError, match=where):
        reconstruct(quantized_net(), **options)


def test_data_and_model_must_be_ready() -> None:
    with pytest.raises(QuantValueError, match="batches"):
        intact.torch.reconstruct(quantized_net(), [], progress=False)
    model = Net()
    intact.torch.replace_modules(model)
    with pytest.raises(QuantValueError, match="calibrate first"):
        reconstruct(model)
    float_grid = nn.Sequential(nn.Linear(3, 2))
    intact.torch.replace_modules(float_grid)
    float_grid[0]._weight_quantizer.num_bits = (4, 3)
    batch = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    intact.torch.calibrate(float_grid, [batch], progress=False)
    with pytest.raises(QuantValueError, match="float grid"):
        intact.torch.reconstruct(float_grid, [batch], steps=1, progress=False)


def test_samples_refuse_batches_that_differ_in_more_than_their_number() -> None:
    rows = Samples("here", [(torch.zeros(2, 3), 1.0), (torch.ones(1, 3), 1.0)], [2, 1])
    x, row = rows.take(torch.tensor([2, 0]))
    assert x.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert row == 1.0
    with pytest.raises(QuantValueError, match="shapes"):
        Samples("here", [torch.zeros(2, 3), torch.zeros(2, 4)], [2, 2])
    with pytest.raises(QuantValueError, match=r"0\.5 and others"):
        Samples("here", [0.5, 0.25], [2, 2])


class SequenceFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.transpose(0, 1)).mean(0)


def test_parts_without_a_row_for_every_sample_are_refused() -> None:
    model = SequenceFirst()
    intact.torch.replace_modules(model)
    batch = torch.randn(4, 7, 4, generator=torch.Generator().manual_seed(0))
    intact.torch.calibrate(model, [batch], progress=False)
    with pytest.raises(QuantValueError, match=r"block 'layer'.* \{7\} rows to batches of 4"):
        intact.torch.reconstruct(model, [batch], steps=1, progress=False)


def test_a_weight_with_a_zero_point_comes_to_values_of_its_grid() -> None:
    model = nn.Sequential(nn.Linear(6, 5))
    descriptor = QuantDescriptor(num_bits=4, unsigned=True, symmetric=False, axis=0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model[0].reset_parameters()
    intact.torch.replace_modules(model)
    model[0]._weight_quantizer = TensorQuantizer(descriptor)
    batch = torch.randn(64, 6, generator=torch.Generator().manual_seed(1))
    intact.torch.calibrate(model, [batch], progress=False)
    result = intact.torch.reconstruct(model, [batch], steps=200, qdrop=0.0, progress=False)
    (block,) = result.blocks
    assert block.after < block.before
    weight = model[0].weight.detach()
    torch.testing.assert_close(model[0]._weight_quantizer(weight), weight, rtol=1e-6, atol=0)
