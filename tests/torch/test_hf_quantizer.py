"""`save_pretrained` and `from_pretrained` of transformers keep the quantizers of a model."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import intact
from intact.errors import FileFormatError, QuantValueError
from intact.torch import quantize
from intact.torch.hf_quantizer import describe, prepare


class Net(nn.Module):
    """An addition between layers, whose bias the correction of biases adds."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 16, 3, bias=False), nn.Conv2d(16, 16, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.first(x))
        return self.last(y) + y


def images() -> Tensor:
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return quantize(Net().eval(), [images()], correct_bias=True, method="max", progress=False).model


def as_json(model: nn.Module) -> Any:
    return json.loads(json.dumps(describe(model)))


def test_a_model_without_values_gets_the_quantizers_that_were_described(model: nn.Module) -> None:
    with torch.device("meta"):
        other = Net().eval()
    prepare(other, as_json(model))
    assert all(x.is_meta for x in other.state_dict().values())
    other.load_state_dict(model.state_dict(), strict=True, assign=True)
    assert torch.equal(other(images()), model(images()))


@pytest.mark.parametrize("part", ["tensors", "quantizers", "modules", "graph"])
@pytest.mark.parametrize("value", [None, 3, ["x"], {"x": ["float32", "y"]}, {"first": ["object", 2]}])
def test_a_damaged_description_is_refused(model: nn.Module, part: str, value: Any) -> None:
    with torch.device("meta"):
        other = Net().eval()
    with pytest.raises((FileFormatError, QuantValueError)):
        prepare(other, as_json(model) | {part: value})


def test_transformers_keeps_the_quantizers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
            max_position_embeddings=32,
        )
    ).eval()  # fmt: skip
    batch = {
        "input_ids": torch.arange(16).reshape(2, 8),
        "attention_mask": torch.ones(2, 8, dtype=torch.int64),
    }
    result = quantize(model, [batch], method="max", progress=False)
    wanted = result.model(**batch).logits
    copy.deepcopy(result.model).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["quantization_config"]["quant_method"] == "intact"
    loaded = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert torch.equal(loaded(**batch).logits, wanted)
    assert intact.compile(loaded, batch)
