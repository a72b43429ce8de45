"""Each field of a configuration decides what is computed, changes nothing, or is refused by its name."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.lm.config_variants import FAMILIES, variants
from tests.lm.small_decoders import TOKENS, draw_weights

from intact import IntactError, lm

transformers = pytest.importorskip("transformers", reason="the package transformers says what fields mean")
torch = pytest.importorskip("torch")


def logits_of_transformers(folder: Path, record: dict) -> np.ndarray | None:
    """Write the folder of a random model, and return its logits; None where transformers refuses."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(record))
    try:
        config = transformers.AutoConfig.from_pretrained(folder)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        shapes = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
        if config.tie_word_embeddings:
            shapes.pop("lm_head.weight", None)
        weights = draw_weights(shapes)
        model.load_state_dict({name: torch.tensor(w) for name, w in weights.items()}, strict=False)
        model.tie_weights()
        save_file(weights, folder / "model.safetensors")
        with torch.no_grad():
            return model.eval()(torch.tensor(TOKENS)[None]).logits[0].numpy()
    except Exception:  # of any class: what transformers refuses has no meaning
        return None


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_field_is_read_past(family, tmp_path):
    outcomes: dict[str, list[str]] = {
        "equal": [],
        "refused": [],
        "wrong": [],
        "not named": [],
        "no meaning": [],
    }
    for number, (field, value, record) in enumerate(variants(family)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = logits_of_transformers(tmp_path / str(number), record)
        label = f"{field} = {value}"
        if want is None:
            outcomes["no meaning"].append(label)
            continue
        try:
            loaded = lm.load(tmp_path / str(number), weights="float32", threads=1, positions=64)
        except IntactError as error:
            outcomes["refused" if field.split(".")[0] in str(error) else "not named"].append(
                f"{label}: {error}"
            )
            continue
        is_equal = np.allclose(loaded.logits(TOKENS), want, atol=1e-3)
        outcomes["equal" if is_equal else "wrong"].append(label)
    assert not outcomes["wrong"] and not outcomes["not named"], outcomes
    assert " = None" in outcomes["equal"][0], "the default opens"
