"""References within one JSON schema: pointers, anchors and identifiers."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

_DRAFTS = {
    "http://json-schema.org/draft-04/schema": 4, "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7, "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020, "http://json-schema.org/schema": 2020,
}  # fmt: skip
DEFAULT_DRAFT = 2020


def draft_of(schema: Any) -> int:
    """Return the version of a schema's keywords, by the year since 2019.

    Raises:
        ValueError: It names one that is not known.
    """
    name = schema.get("$schema") if isinstance(schema, dict) else None
    if name is None:
        return DEFAULT_DRAFT
    plain = name.rstrip("#").rstrip("/") if isinstance(name, str) else None
    draft = _DRAFTS.get(plain or "") or _DRAFTS.get((plain or "").replace("https://json", "http://json"))
    if draft is None:
        draft = _DRAFTS.get((plain or "").replace("http://json", "https://json"))
    if draft is None:
        raise ValueError(f"{str(name)[:80]!r} is no version that is known here")
    return draft


class References:
    """The places of one document that references may name.

    Args:
        document: The schema.
        draft: Version of its keywords.
    """

    def __init__(self, document: Any, draft: int) -> None:
        self._draft = draft
        self._resources: dict[str, Any] = {"": document}
        self._anchors: dict[tuple[str, str], tuple[Any, str]] = {}
        self._index(document)

    def base_of(self, schema: Any, base: str) -> str:
        """Return what references inside of a schema are relative to; `base`: around it."""
        name = self._identifier(schema)
        return base if name is None or name.startswith("#") else urldefrag(_join(base, name))[0]

    def resolve(self, reference: str, base: str) -> tuple[Any, str, str]:
        """Return the schema that a reference names, its base, and the reference in full.

        Raises:
            ValueError: It names nothing in this document.
        """
        whole = _join(base, reference)
        uri, fragment = urldefrag(whole)
        if uri not in self._resources:
            raise ValueError(f"{reference[:100]!r} names another document, and none is fetched")
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            if (uri, fragment) not in self._anchors:
                raise ValueError(f"{reference[:100]!r} names nothing in this schema")
            return *self._anchors[uri, fragment], whole
        value, here = self._resources[uri], uri
        for part in fragment.split("/")[1:]:
            here = self.base_of(value, here)
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and name in value:
                value = value[name]
            elif isinstance(value, list) and name.isascii() and name.isdecimal() and int(name) < len(value):
                value = value[int(name)]
            else:
                raise ValueError(f"{reference[:100]!r} names nothing in this schema")
        return value, here, whole

    def _identifier(self, schema: Any) -> str | None:
        if not isinstance(schema, dict) or (self._draft <= 7 and "$ref" in schema):
            return None
        name = schema.get("id" if self._draft == 4 else "$id")
        return name if isinstance(name, str) else None

    def _index(self, document: Any) -> None:
        """Note identifiers and anchors, also of what stands under unknown keywords, but not of values."""
        stack = [(document, "")]
        while stack:
            value, base = stack.pop()
            if isinstance(value, list):
                stack += [(part, base) for part in reversed(value)]
            if not isinstance(value, dict):
                continue
            base = self.base_of(value, base)
            name = self._identifier(value)
            if name is not None and not name.startswith("#"):
                self._resources.setdefault(base, value)
            anchors = [value.get("$anchor"), value.get("$dynamicAnchor")] if self._draft >= 2019 else []
            if name is not None and name.startswith("#") and len(name) > 1:
                anchors.append(name[1:])
            for anchor in anchors:
                if isinstance(anchor, str):
                    self._anchors.setdefault((base, anchor), (value, base))
            stack += [
                (part, base)
                for key, part in reversed(value.items())
                if key not in ("const", "enum", "default")
            ]


def _join(base: str, reference: str) -> str:
    if reference.startswith("#"):  # also where the base is a urn, which urljoin does not know
        return urldefrag(base)[0] + reference
    return urljoin(base, reference)
