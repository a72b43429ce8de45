"""Write and read the checkpoint from which an interrupted reconstruction resumes: finished blocks, in
safetensors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from intact.errors import FileFormatError
from intact.torch.private_torch import pytree
from intact.torch.reconstruction.blocks import ReconstructionBlock
from intact.torch.reconstruction.optimize_block import BlockReport
from intact.torch.sealed_tensors import read_sealed, write_sealed
from intact.torch.training.bias_correction import corrected_biases

_KEY, _VERSION = "intact.reconstruction", 1


class FinishedBlocks:
    """Holds the finished blocks, and writes their file.

    Args:
        path: The file to write; None: there is none.
        settings: JSON values that a run which goes on must share.
    """

    def __init__(self, path: Path | None, settings: dict[str, Any]) -> None:
        self._path, self._settings = path, settings
        self._tensors: dict[str, Tensor] = {}
        self.reports: list[BlockReport] = []

    def add(self, tensors: dict[str, Tensor], report: BlockReport) -> None:
        """Record that a block is finished, with its tensors. The file is replaced in one step."""
        self.reports.append(report)
        self._tensors |= tensors
        if self._path is None:
            return
        document = {
            "version": _VERSION, "settings": self._settings, "reports": [asdict(r) for r in self.reports]
        }  # fmt: skip
        write_sealed(self._path, _KEY, document, self._tensors)

    def resume(self, model: nn.Module, blocks: Iterable[ReconstructionBlock], path: Path | None) -> None:
        """Read the finished blocks of `model` from `path`, where it exists. `model` stays unchanged.

        Raises:
            FileAccessError: The file cannot be read.
            FileFormatError: It is damaged, of another kind or version, or of a run with other settings.
        """
        if path is None or not path.exists():
            return
        document, tensors = _read(path)
        stored_settings = document["settings"]
        if differing := sorted(k for k, v in self._settings.items() if stored_settings.get(k) != v):
            raise _checkpoint_error(path, f"a run with another {', '.join(differing)}")
        try:
            reports = [BlockReport(**{**r, "weights": tuple(r["weights"])}) for r in document["reports"]]
            by_path = {block.path: block for block in blocks}
            for report in reports:
                for name, place in tensors_of(model, by_path[report.path]).items():
                    if tensors[name].shape != place.shape:
                        raise ValueError(f"shape of {name}")
        except (KeyError, TypeError, ValueError) as error:
            raise _checkpoint_error(path, f"a damaged file ({error})") from error
        self.reports, self._tensors = reports, tensors

    @torch.no_grad()
    def put_into(self, model: nn.Module, blocks: Iterable[ReconstructionBlock]) -> None:
        """Load the tensors of the finished ones of `blocks` into `model`."""
        finished = {report.path for report in self.reports}
        for block in blocks:
            if block.path in finished:
                for name, place in tensors_of(model, block).items():
                    place.copy_(self._tensors[name])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        document, tensors = read_sealed(path, _KEY)
    except ValueError as error:
        raise _checkpoint_error(path, f"no readable state ({error})") from None
    shaped = isinstance(document, dict) and isinstance(document.get("settings"), dict)
    if not shaped or document.get("version") != _VERSION:
        raise _checkpoint_error(path, "a state of another version")
    return document, tensors


def _checkpoint_error(path: Path, got: str) -> FileFormatError:
    return FileFormatError(
        f"state '{path}'", got, "the state of this run of intact.torch.reconstruct",
        "repeat the call with the model, data and settings of that run, pass resume=False, or name"
        " another file",
    )  # fmt: skip


def fingerprint(model: nn.Module, batches: Iterable[Any]) -> dict[str, str]:
    """Return SHA-256 of the model's tensors and of the data."""
    state = dict(sorted(model.state_dict().items()))  # a range that was learned meanwhile has another place
    return {"model": _hash(state), "data": _hash(list(batches))}


def _hash(values: Any) -> str:
    digest = hashlib.sha256()
    for leaf in pytree.tree_leaves(values):
        if isinstance(leaf, Tensor):
            digest.update(f"{leaf.dtype} {tuple(leaf.shape)}".encode())
            digest.update(leaf.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def copies_of(model: nn.Module, block: ReconstructionBlock) -> dict[str, Tensor]:
    """Return copies of `tensors_of`, contiguous, on the host."""
    return {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors_of(model, block).items()
    }


def tensors_of(model: nn.Module, block: ReconstructionBlock) -> dict[str, Tensor]:
    """Return everything that reconstruction changes in `block`, by its name in the model's state."""
    tensors: dict[str, Tensor] = {path: model.get_parameter(path) for path in block.weights.values()}
    tensors |= corrected_biases(model.get_submodule(block.path), block.path)
    for name in block.activations:
        quantizer = model.get_submodule(name)
        for end in ("_amin", "_amax"):
            if isinstance(value := getattr(quantizer, end, None), Tensor):
                tensors[f"{name}.{end}"] = value
    return tensors
