"""Digests of what files of INTact hold: a JSON document, and arrays by name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

DIGEST = "sha256"
"""The name under which a document holds the digest of its other entries."""

Part = tuple[str, str, tuple[int, ...], bytes | memoryview]
"""An array: name, dtype, shape, bytes."""


def digest_of(document: Any, arrays: Mapping[str, NDArray[Any]] | None = None) -> str:
    """Return the SHA-256 of a JSON document and of arrays, each with its name, dtype and shape."""
    ordered = sorted((arrays or {}).items())
    return digest_of_parts(document, ((name, a.dtype.str, a.shape, a.tobytes()) for name, a in ordered))


def digest_of_parts(document: Any, parts: Iterable[Part]) -> str:
    """Return the same of arrays that are no NumPy arrays, in the order in which they come."""
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode())
    for name, dtype, shape, data in parts:
        digest.update(f"{name} {dtype} {shape}\n".encode(errors="surrogatepass"))
        digest.update(data)
    return digest.hexdigest()


def seal(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON document with the digest of its entries."""
    return {**document, DIGEST: digest_of(dict(document))}


def is_sealed(document: Mapping[str, Any]) -> bool:
    """Return whether a document that came out of JSON has the digest of its other entries."""
    return document.get(DIGEST) == digest_of({k: v for k, v in document.items() if k != DIGEST})
