"""Models that were refused though they are sound: bags, numbers beside integers, vmap, types in patterns."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import intact
import intact.torch
from intact.errors import QuantValueError
from intact.torch import tensor_quant
from intact.torch.operators.embedding_bags import compose_embedding_bag


class Bags(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.table = nn.EmbeddingBag(50, 16, **options)
        self.out = nn.Linear(16, 4)

    def forward(self, indices, offsets=None, weights=None):
        return self.out(self.table(indices, offsets, weights))


BATCH, FLAT, OFFSETS = torch.arange(24).reshape(8, 3), torch.arange(20), torch.tensor([0, 3, 3, 10, 15])
BAGS = {
    "sum": ({"mode": "sum"}, (BATCH,)),
    "mean": ({"mode": "mean"}, (BATCH,)),
    "max": ({"mode": "max"}, (BATCH,)),
    "mean but of the padding": ({"mode": "mean", "padding_idx": 4}, (BATCH,)),
    "max but of the padding": ({"mode": "max", "padding_idx": 4}, (BATCH,)),
    "weights": ({"mode": "sum"}, (BATCH, None, torch.linspace(0, 1, 24).reshape(8, 3))),
    "offsets": ({"mode": "mean"}, (FLAT, OFFSETS)),
    "offsets, largest": ({"mode": "max", "padding_idx": 1}, (FLAT, OFFSETS)),
    "offsets, weights": ({"mode": "sum"}, (FLAT, OFFSETS, torch.linspace(0, 1, 20))),
    "last offset": ({"mode": "sum", "include_last_offset": True}, (FLAT, torch.tensor([0, 3, 3, 20]))),
}


@pytest.mark.parametrize("name", BAGS)
def test_composed_bags_are_pytorchs(name):
    options, arguments = BAGS[name]
    table = torch.randn(50, 16)
    keys = dict(zip(("offsets", "per_sample_weights"), arguments[1:], strict=False))
    ours = compose_embedding_bag(arguments[0], table, **keys, **options)
    assert torch.allclose(
        ours, nn.functional.embedding_bag(arguments[0], table, **keys, **options), atol=1e-5
    )


@pytest.mark.parametrize("name", ["max but of the padding", "weights", "offsets"])
def test_bags_of_embeddings_are_quantized_and_equal_their_engine(name):
    options, arguments = BAGS[name]
    torch.manual_seed(0)
    names = ("indices", "offsets", "weights")
    batch = {key: x for key, x in zip(names, arguments, strict=False) if x is not None}
    result = intact.quantize(Bags(**options).eval(), [batch], progress=False)
    engine = intact.compile(result.model, batch, threads=1)
    answer = engine(*(x.numpy() for x in batch.values()))
    assert type(result.model.out).__name__ == "QuantLinear"
    assert np.array_equal(answer, result.model(**batch).detach().numpy())


class Masked(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.first, self.out, self.function = nn.Linear(16, 32), nn.Linear(32, 4), function

    def forward(self, x, mask):
        y = torch.relu(self.first(x))
        return self.out(y + self.function(mask, y))


MIXED = {
    "fraction - integers": lambda m, y: (1.0 - m)[..., None] * -100.0,
    "fraction - alpha * integers": lambda m, y: torch.sub(1.5, m, alpha=2)[..., None],
    "rsub": lambda m, y: torch.rsub(m.to(torch.uint8), 1.5)[..., None],
    "where": lambda m, y: torch.where(m > 0, 0.5, m)[..., None],
}


@pytest.mark.parametrize("name", MIXED)
def test_numbers_beside_integers_have_the_types_of_torch(name):
    torch.manual_seed(0)
    batch = torch.randn(2, 5, 16), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    result = intact.quantize(Masked(MIXED[name]).eval(), [(batch, 0)], progress=False)
    assert not result.report.left.get("")
    engine = intact.compile(result.model, batch, threads=1)
    assert np.array_equal(engine(*(x.numpy() for x in batch)), result.model(*batch).detach().numpy())


class Mapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x):
        return self.out(torch.vmap(lambda t: torch.relu(self.inner(t)), in_dims=1, out_dims=1)(x))


@pytest.mark.filterwarnings("ignore")
def test_layers_inside_of_vmap_are_calibrated_on_all_samples():
    torch.manual_seed(0)
    data = [torch.randn(4, 5, 32) for _ in range(3)]
    model = Mapped().eval()
    result = intact.quantize(model, data, progress=False, method="max", scale_bits=None)
    assert type(result.model.inner).__name__ == "QuantLinear"
    assert result.model.inner._input_quantizer.amax == torch.stack(data).abs().max()
    assert torch.allclose(result.model(data[0]), model(data[0]), atol=0.1)


class MappedBatch(Mapped):
    def forward(self, x):
        per_sample = torch.vmap(lambda a, b: torch.softmax(self.inner(a), -1) * b, in_dims=(0, None))
        return self.out(torch.vmap(per_sample)(x, x[:, 0]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [Mapped, MappedBatch])
def test_a_model_that_calls_vmap_runs_in_the_engine(kind):
    """One sum in the file starts behind the product, where the module's starts at the bias: N65."""
    torch.manual_seed(0)
    data = [torch.randn(4, 5, 32) for _ in range(3)]
    result = intact.quantize(kind().eval(), data, progress=False)
    want = result.model(data[0]).detach().numpy()
    got = np.asarray(intact.compile(result.model, data[0])(data[0]))
    np.testing.assert_allclose(got, want, rtol=0, atol=2**-22)
    assert "were not compared" not in str(result.report)


@pytest.mark.parametrize(
    ("options", "quantized"),
    [
        ({"exclude": ["Conv2d"]}, {"3"}),
        ({"include": ["Conv*"]}, {"0", "2.0"}),
        ({"exclude": ["Sequential"], "include": ["Conv2d"]}, {"0"}),
    ],
)
def test_patterns_of_types_mean_the_modules_of_these_types(options, quantized):
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Sequential(nn.Conv2d(16, 16, 3)), nn.Linear(16, 16)
    ).eval()
    result = intact.quantize(model, [torch.randn(2, 3, 20, 20)], progress=False, **options)
    names = {
        name for name, module in result.model.named_modules() if type(module).__name__.startswith("Quant")
    }
    assert {name for name in names if name} == quantized


def test_a_type_that_no_module_has_is_an_error_that_names_the_near_ones():
    model = nn.Sequential(nn.Conv2d(3, 8, 3)).eval()
    with pytest.raises(QuantValueError, match="'Conv2d'"):
        intact.quantize(model, [torch.randn(2, 3, 12, 12)], progress=False, exclude=["Conv2"])


@pytest.mark.parametrize("options", [{"output_dtype": torch.float}, {}])
def test_output_dtype_stands_where_the_guide_has_it_or_has_its_name(options):
    x = torch.tensor([0.1, 0.5, 1.0])
    places = (8,) if options else (8, torch.float, False)
    codes, scale = tensor_quant.tensor_quant(x, x.max(), *places, **options)
    assert codes.tolist() == [13, 64, 127] and scale == 127
    assert tensor_quant.tensor_quant(x, x.max(), 8, torch.int8)[0].dtype == torch.int8
    assert tensor_quant.fake_tensor_quant(x, x.max(), 8, torch.float16).dtype == torch.float16
    with pytest.raises(QuantValueError, match="unsigned"):
        tensor_quant.TensorQuantFunction.apply(x, x.max(), 8, torch.float)


SCRIPT = """
import torch
from pytorch_quantization import quant_modules, tensor_quant
quant_modules.initialize()
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()).cuda()
model.to("cuda:0").to(0)
start = torch.cuda.Event(enable_timing=True)
start.record()
y = model(torch.randn(1, 3, 16, 16, device="cuda").cuda(non_blocking=True))
torch.cuda.synchronize()
print(tuple(y.shape), y.device, torch.tensor([1.0], device=torch.device("cuda")).device)
"""


@pytest.mark.slow
def test_a_script_that_names_cuda_runs_without_a_gpu_and_without_warnings(tmp_path):
    (tmp_path / "listing.py").write_text(SCRIPT)
    run = subprocess.run(
        [sys.executable, "-m", "intact.torch", "--cpu", tmp_path / "listing.py"],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert run.stdout.strip() == "(1, 8, 14, 14) cpu cpu", run.stderr
    assert "is_fx_tracing" not in run.stderr
