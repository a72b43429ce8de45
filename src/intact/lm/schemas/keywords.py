"""Keywords and string formats of JSON schemas: annotations, with the reason, and what a grammar enforces."""

from __future__ import annotations

from intact.errors import QuantValueError

ANNOTATIONS = {
    "$anchor": "names a place, for references", "$dynamicAnchor": "names a place, for references",
    "$recursiveAnchor": "matters to $recursiveRef alone, which is refused",
    "$comment": "for people", "$defs": "read where references name them",
    "$id": "names a place, for references", "$schema": "the version of the keywords",
    "contentEncoding": "an annotation since draft 2019-09, and before it by default",
    "contentMediaType": "as contentEncoding", "contentSchema": "as contentEncoding",
    "default": "a value where none is there", "definitions": "read where references name them",
    "deprecated": "for people", "description": "for people", "example": "for people",
    "examples": "for people", "id": "names a place, for references",
    "maxContains": "matters to contains alone", "minContains": "matters to contains alone",
    "readOnly": "of whoever owns the value", "title": "for people", "writeOnly": "of whoever owns the value",
    # Of editors
    "defaultSnippets": "for editors", "deprecationMessage": "for editors", "doNotSuggest": "for editors",
    "enumDescriptions": "for editors", "enumNames": "for editors", "errorMessage": "for editors",
    "markdownDescription": "for editors", "markdownEnumDescriptions": "for editors", "options": "for editors",
    "propertyOrder": "for editors", "suggestSortText": "for editors", "tags": "for people",
    "headerTemplate": "for editors", "links": "relations to other documents",
    "externalDocs": "for people", "xml": "another notation of the value",
}  # fmt: skip
"""Keywords that no value violates, and why."""

PRIVATE = ("x-", "_")
"""Beginnings of names that are annotations, too: of extensions, and of what an author has switched off."""

NEUTRAL = {
    "uniqueItems": (False,), "propertyNames": (True, {}, {"type": "string"}), "unevaluatedItems": (True, {}),
    "unevaluatedProperties": (True, {}), "dependencies": ({},), "dependentRequired": ({},),
    "dependentSchemas": ({},), "nullable": (False,), "not": (False,),
}  # fmt: skip
"""Keywords that no grammar here enforces, and their values that ask for nothing."""


def refuse(where: str, keyword: str, why: str) -> QuantValueError:
    """Return the error of a keyword that would be accepted and then violated."""
    return QuantValueError(
        f"JSON schema, {where[:200] or '#'}", f"'{keyword[:80]}' {why[:300]}",
        "keywords that a grammar enforces", "change or leave out this keyword, and check the answer yourself",
    )  # fmt: skip


_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
    f"02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_TIME = (
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)

EXPRESSIONS = {"date": f"^{_DATE}$", "time": f"^{_TIME}$", "date-time": f"^{_DATE}T{_TIME}$"}
"""RFC 3339 without leap seconds: llguidance's own have the 29th of February in every year."""

ENFORCED = {
    "duration": "duration", "email": "email", "idn-email": "email", "hostname": "hostname",
    "idn-hostname": "hostname", "ipv4": "ipv4", "ipv6": "ipv6", "uuid": "uuid", "uri": "uri",
    "uri-reference": "uri", "iri": "uri", "iri-reference": "uri",
}  # fmt: skip
"""Formats that llguidance enforces, and the one that each is written as: all of that are of this."""

LONGEST = {"email": 254, "hostname": 253}
"""Characters that a format has at most, which its expression does not count."""

FORMAT_ANNOTATIONS = {
    "float": "a width of numbers", "double": "a width of numbers", "password": "how it is shown",
    "textarea": "how it is shown", "multi-line": "how it is shown", "color": "how it is shown",
}  # fmt: skip
"""Formats that no value violates, and why."""

INTEGERS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**53) + 1, 2**53 - 1)}
"""Bounds of integers, by format; those of 64 bits have only what float64 holds."""
