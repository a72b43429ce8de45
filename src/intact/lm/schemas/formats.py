"""Formats of strings, as expressions that match nothing but values of the format."""

from __future__ import annotations

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

ANNOTATIONS = {
    "float": "a width of numbers", "double": "a width of numbers", "password": "how it is shown",
    "textarea": "how it is shown", "multi-line": "how it is shown", "color": "how it is shown",
}  # fmt: skip
"""Formats that no value violates, and why."""

INTEGERS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**53) + 1, 2**53 - 1)}
"""Bounds of integers, by format; those of 64 bits have only what float64 holds."""
