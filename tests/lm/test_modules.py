"""Language models that come as torch modules."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from tests.lm.small_decoders import TOKENS, byte_tokenizer, draw_weights, families, reference_logits

from intact import lm
from intact.errors import FileFormatError, UnsupportedError

torch = pytest.importorskip("torch")


class Configuration:
    """Says what a model is, as transformers does."""

    def __init__(self, record):
        self._record = record

    def to_dict(self):
        return dict(self._record)


class CausalModel(torch.nn.Module):
    """Has the tensors of a family, by their names; nobody runs it."""

    def __init__(self, family, dtype=torch.float32, **changes):
        super().__init__()
        record = families()[family]
        self.config = Configuration(record["config"] | changes)
        self.generation_config = SimpleNamespace(eos_token_id=[1], bos_token_id=None)
        for name, array in draw_weights(record["tensors"]).items():
            *path, last = name.split(".")
            module = self
            for part in path:
                if part not in module._modules:
                    module.add_module(part, torch.nn.Module())
                module = module._modules[part]
            module.register_parameter(last, torch.nn.Parameter(torch.from_numpy(array).to(dtype)))


class FastTokenizer:
    """Holds a tokenizer as the fast ones of transformers do."""

    def __init__(self, chat_template=None):
        self.backend_tokenizer, self.chat_template = byte_tokenizer(), chat_template
        self.eos_token_id, self.bos_token_id = 1, None


@pytest.mark.parametrize("family", families())
def test_a_module_has_the_logits_of_transformers(family):
    loaded = lm.load(CausalModel(family), weights="float32", threads=1)
    np.testing.assert_allclose(loaded.logits(TOKENS), reference_logits(family), atol=1e-4)


def test_a_module_is_quantized_saved_and_opened(tmp_path):
    tokenizer = FastTokenizer("{{ messages[0].content }}")
    model = lm.load(CausalModel("llama"), tokenizer=tokenizer, weights="int4", block=16, threads=1)
    assert model.tokenizer.eos == (1,) and model.chat_prompt([{"role": "user", "content": "abc"}]) == "abc"
    lm.save(model, tmp_path / "saved")
    assert lm.load(tmp_path / "saved").generate("abc", max_tokens=9) == model.generate("abc", max_tokens=9)
    half = lm.load(CausalModel("llama", torch.bfloat16), weights="int8", block=16, threads=1)
    assert half.logits(TOKENS).shape == (len(TOKENS), 64) and half.tokenizer is None


def test_a_tokenizer_may_be_a_file(tmp_path):
    path = tmp_path / "tokenizer.json"
    byte_tokenizer().save(str(path))
    model = lm.load(CausalModel("llama"), tokenizer=path, weights="int8", block=16, threads=1)
    assert model.tokenizer.eos == (1,)
    assert model.encode("ab") == lm.load(CausalModel("llama"), tokenizer=FastTokenizer()).encode("ab")


def test_modules_that_are_no_language_models_are_refused():
    with pytest.raises(UnsupportedError, match="no config"):
        lm.load(torch.nn.Linear(2, 2))
    with pytest.raises(UnsupportedError, match="rwkv"):
        lm.load(CausalModel("llama", model_type="rwkv"))
    with pytest.raises(FileFormatError, match="shape"):
        lm.load(CausalModel("llama", intermediate_size=49))
    with pytest.raises(UnsupportedError, match="no values"):
        lm.load(CausalModel("llama").to("meta"))
    model = CausalModel("llama")
    model.lm_head.weight = torch.nn.Parameter(torch.ones(64, 32, dtype=torch.int8), requires_grad=False)
    with pytest.raises(UnsupportedError, match="int8"):
        lm.load(model)
    with pytest.raises(UnsupportedError, match="fast"):
        lm.load(CausalModel("llama"), tokenizer=object())
    damaged = SimpleNamespace(backend_tokenizer=SimpleNamespace(to_str=lambda: json.dumps({})))
    with pytest.raises(FileFormatError, match="tokenizer"):
        lm.load(CausalModel("llama"), tokenizer=damaged)
