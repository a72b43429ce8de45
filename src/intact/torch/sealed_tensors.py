"""Write and read safetensors files that hold tensors, a JSON document, and the digest of both."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from intact.atomic import replacing
from intact.checksums import DIGEST, Part, digest_of_parts
from intact.reading import reading
from intact.torch.private_torch import pytree

__all__ = ["digest_of_state", "read_sealed", "write_sealed"]

_CONTENT = "document"
"""Beside the digest under one key of the metadata: safetensors writes several keys in any order."""


def write_sealed(
    path: str | os.PathLike[str], key: str, document: Any, tensors: Mapping[str, Tensor]
) -> None:
    """Replace a file, in one step, by tensors and a document.

    Args:
        path: The file.
        key: Of the document in the metadata.
        document: JSON values.
        tensors: Contiguous ones on the host, which share no memory, by name.
    Raises:
        FileAccessError: It cannot be written.
    """
    plain = json.loads(json.dumps(document))
    sealed = {DIGEST: _digest_of_tensors(plain, tensors), _CONTENT: plain}
    data = save(dict(tensors), metadata={key: json.dumps(sealed)})
    with replacing(path) as file:
        file.write(data)


def read_sealed(path: str | os.PathLike[str], key: str) -> tuple[Any, dict[str, Tensor]]:
    """Return the document and the tensors of a file that `write_sealed` wrote.

    Files of earlier versions have no digest, and are not checked.

    Raises:
        FileAccessError: It cannot be read.
        ValueError: It is damaged, or something else; says how.
    """
    try:
        with reading(path), safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        document = json.loads(metadata[key])
    except (SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if not (isinstance(document, dict) and document.keys() == {DIGEST, _CONTENT}):
        return document, tensors
    if document[DIGEST] != _digest_of_tensors(document[_CONTENT], tensors):
        raise ValueError("content that does not match its checksum")
    return document[_CONTENT], tensors


def digest_of_state(state: Mapping[str, Any]) -> str:
    """Return the SHA-256 of nested mappings and lists of tensors and plain values, of any order."""
    leaves = {pytree.keystr(path): leaf for path, leaf in pytree.tree_flatten_with_path(state)[0]}
    tensors = {name: leaf.cpu() for name, leaf in leaves.items() if isinstance(leaf, Tensor)}
    return _digest_of_tensors({k: repr(leaf) for k, leaf in leaves.items() if k not in tensors}, tensors)


def _digest_of_tensors(document: Any, tensors: Mapping[str, Tensor]) -> str:
    return digest_of_parts(document, _parts(tensors))


def _parts(tensors: Mapping[str, Tensor]) -> Iterator[Part]:
    for name, tensor in sorted(tensors.items()):
        octets = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        yield name, str(tensor.dtype), tuple(tensor.shape), octets.numpy().data
