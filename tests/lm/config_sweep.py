"""Hold what INTact makes of configurations against transformers, field by field.

python -m tests.lm.config_sweep [FAMILY ...]     prints counts, and what is wrong
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tests.lm.config_variants import FAMILIES, variants
from tests.lm.small_decoders import TOKENS, draw_weights

from intact import lm
from intact.errors import IntactError

EQUAL, REFUSED, WRONG, NOT_NAMED, NO_MEANING = "equal", "refused by name", "wrong", "not named", "no meaning"


def logits_of_transformers(folder: Path, record: dict) -> np.ndarray | None:
    """Write the folder of a random model, and return its logits; None where transformers refuses."""
    import torch
    import transformers

    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(record))
    try:
        config = transformers.AutoConfig.from_pretrained(folder)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        shapes = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
        if config.tie_word_embeddings:
            for name in ("lm_head.weight", "output_projection.weight"):
                shapes.pop(name, None)
        weights = draw_weights(shapes)
        model.load_state_dict({name: torch.tensor(w) for name, w in weights.items()}, strict=False)
        model.tie_weights()
        if any(len(shape) > 2 for shape in shapes.values()):  # experts are apart in files
            model.save_pretrained(folder)
            (folder / "config.json").write_text(json.dumps(record))
        else:
            save_file(weights, folder / "model.safetensors")
        with torch.no_grad():
            rows = model.eval()(torch.tensor(TOKENS)[None])[0][0]
        return rows.numpy()
    except Exception:  # of any class: what transformers refuses has no meaning
        return None


def outcome(folder: Path, field: str, record: dict) -> str:
    """Return what became of one configuration."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = logits_of_transformers(folder, record)
    if want is None:
        return NO_MEANING
    try:
        logits = lm.load(folder, weights="float32", threads=1, positions=64).logits(TOKENS)
    except IntactError as error:
        return REFUSED if field in str(error) else f"{NOT_NAMED}: {error}"
    return EQUAL if logits.shape == want.shape and np.allclose(logits, want, atol=1e-3) else WRONG


def main() -> None:
    total: Counter[str] = Counter()
    for family in sys.argv[1:] or FAMILIES:
        counts: Counter[str] = Counter()
        for field, value, record in variants(family):
            with tempfile.TemporaryDirectory() as parent:
                result = outcome(Path(parent) / "m", field, record)
            counts[result.partition(":")[0]] += 1
            if result not in (EQUAL, REFUSED, NO_MEANING):
                print(f"  {family}: {field} = {value}: {result}")
        total += counts
        print(family, dict(counts), flush=True)
    print("all", dict(total))


if __name__ == "__main__":
    main()
