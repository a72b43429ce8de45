"""Keeps codes in a folder as they are chosen, so that an interrupted quantization goes on where it stopped.

A file is called by the digest of all that its codes depend on: the weights, what they multiply, the format
and the method. So a file is never wrong, and other models and settings may share the folder. Its metadata
hold the digest of its name and its tensors, so damage is refused. Files of versions before that have other
names: nothing could tell whether they are damaged, and their codes are chosen again.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from intact.checksums import digest_of
from intact.errors import FileAccessError, FileFormatError, IntactError, require_path
from intact.formats import SafetensorsFile, StoredTensor, write_safetensors
from intact.numerics import BlockWeights
from intact.ptq.blocks.block_format import BlockFormat, Reals
from intact.ptq.blocks.channel_scales import STRENGTH
from intact.ptq.blocks.round_group import InputMoments, Recipe, RoundedGroup, round_group

_VERSION = "2"  # of the rounding methods and of the files: whoever changes codes or tensors, counts on
_DIGEST = "intact.state.sha256"


class GroupStore:
    """Chooses codes as `round_group` does, or reads them from a folder.

    Args:
        folder: Made if it is not there; None: nothing is kept.

    Raises:
        FileAccessError: The folder cannot be made.
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self._folder = None if folder is None else Path(folder)
        if self._folder is not None:
            require_path(self._folder)
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FileAccessError.of(self._folder, error, "written") from error

    def round(
        self, weight: Reals, moments: InputMoments | None, grid: BlockFormat, recipe: Recipe,
        strength: float = STRENGTH,
    ) -> RoundedGroup:  # fmt: skip
        """Return the codes of weights that multiply one tensor; arguments as for `round_group`.

        Raises:
            FileFormatError: A file of the folder is damaged; names it.
            FileAccessError: A file cannot be read or written.
        """
        if self._folder is None:
            return round_group(weight, moments, grid, recipe, strength)
        path = self._folder / f"{_digest(weight, moments, grid, recipe, strength)}.safetensors"
        if path.exists():
            return _read_codes(path, grid, weight.shape)
        rounded = round_group(weight, moments, grid, recipe, strength)
        _write_codes(path, rounded)
        return rounded


def _digest(
    weight: Reals, moments: InputMoments | None, grid: BlockFormat, recipe: Recipe, strength: float
) -> str:
    digest = hashlib.sha256(f"{_VERSION} {weight.shape} {grid} {recipe} {strength}".encode())
    arrays: list[NDArray | None] = [weight]
    if moments is not None:
        arrays += [moments.products, moments.crossed, moments.magnitudes, moments.peaks]
    for array in arrays:
        digest.update(b"none" if array is None else np.ascontiguousarray(array).data)
    return digest.hexdigest()[:40]


def _write_codes(path: Path, rounded: RoundedGroup) -> None:
    weights = rounded.weights
    parts = {
        "codes": weights.codes, "scales": weights.scales, "zero_points": weights.zero_points,
        "channel_scales": rounded.channel_scales, "errors": rounded.errors,
    }  # fmt: skip
    arrays = {name: np.ascontiguousarray(part) for name, part in parts.items() if part is not None}
    tensors = {name: StoredTensor(array.dtype, array.shape) for name, array in arrays.items()}
    write_safetensors(path, tensors, arrays.__getitem__, {_DIGEST: digest_of(path.stem, arrays)})


def _read_codes(path: Path, grid: BlockFormat, shape: tuple[int, ...]) -> RoundedGroup:
    file = SafetensorsFile(path)
    try:
        parts = {name: file.read(name) for name in file.tensors}
        if file.metadata != {_DIGEST: digest_of(path.stem, parts)}:
            raise KeyError("checksum")
        weights = BlockWeights(
            parts["codes"], grid.name, parts["scales"], grid.block_size, zero_points=parts.get("zero_points")
        )
        channel_scales, errors = parts.get("channel_scales"), parts["errors"]
        fits = weights.shape == shape and errors.shape == (shape[0], 2)
        if not fits or (channel_scales is not None and channel_scales.shape != shape[1:]):
            raise KeyError("shapes")
    except (KeyError, IntactError) as error:
        raise FileFormatError(
            f"file '{path}'", "damaged content, or other tensors than those of a group of layers",
            "what was written there", "remove the file: its codes are chosen again",
        ) from error  # fmt: skip
    return RoundedGroup(weights, channel_scales, errors)
