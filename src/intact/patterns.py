"""Matches the name patterns of users; exact names win, and patterns without a match are refused.

"a -> b" means the nodes between two names or patterns: `ends_of_path`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from glob import escape

from intact.errors import QuantValueError

_SHOWN = 3
_COMPARED = 10_000
"""So many names are compared with a pattern that fits none: it takes 20 ms."""


def check_patterns(where: str, patterns: str | Iterable[str]) -> tuple[str, ...]:
    """Return `patterns` as a tuple; a single string counts as one pattern.

    Raises:
        QuantValueError: One is no string.
    """
    given_patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    for pattern in given_patterns:
        if not isinstance(pattern, str):
            raise QuantValueError(
                where, f"{pattern!r:.60}", "names or patterns, as strings", "give the names"
            )
    return given_patterns


def exact(pattern: str, names: Collection[str]) -> str:
    """Return a pattern for ``fnmatch`` that fits this name alone, where `pattern` is one of `names`."""
    return escape(pattern) if pattern in names else pattern


def ends_of_path(pattern: str, names: Collection[str]) -> tuple[str, str] | None:
    """Return the two patterns of "a -> b"; None of a pattern that is one of `names`, or no such pair."""
    start, arrow, end = (part.strip() for part in pattern.partition("->"))
    return (start, end) if arrow and start and end and pattern not in names else None


def no_path(where: str, pattern: str) -> QuantValueError:
    """Return the error of "a -> b" where b does not follow from a."""
    return QuantValueError(
        f"{where}: {pattern!r:.60}", "no node between these", "two names, the second one behind the first",
        "give them in the order in which the model computes",
    )  # fmt: skip


def is_fitting(pattern: str, names: Iterable[str]) -> bool:
    """Return whether a pattern fits one of `names`."""
    return any(fnmatchcase(name, pattern) for name in names)


def require_fitting(where: str, patterns: Iterable[str], names: Sequence[str], what: str) -> None:
    """Refuse patterns that fit none of `names`.

    Args:
        where: The argument.
        patterns: Of it.
        names: That may be meant.
        what: They are names of.
    Raises:
        QuantValueError: Lists the names that are nearest.
    """
    known_names = frozenset(names)
    for pattern in patterns:
        if not is_fitting(exact(pattern, known_names), names):
            raise no_fit(where, pattern, names, what)


def no_fit(where: str, pattern: str, names: Iterable[str], what: str) -> QuantValueError:
    """Return the error of a pattern that fits none of `names`."""
    return QuantValueError(
        f"{where}: {pattern!r:.60}", f"no {what} that fits", f"one of {nearest(pattern, names)} or the like",
        "correct the name or pattern; `intact explain` shows the names of a file",
    )  # fmt: skip


def no_option(name: str, options: Sequence[str], meant: str = "") -> QuantValueError:
    """Return the error for an unknown option.

    Args:
        name: As the user wrote it.
        options: The options that there are.
        meant: The one that is meant, where that is known.
    """
    near = [meant] if meant else get_close_matches(name, options, _SHOWN)
    fix = f"write {' or '.join(near)}" if near else "leave it out"
    return QuantValueError(name, "no option of this name", f"one of {', '.join(options)}", fix)


def nearest(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that are most like a pattern."""
    candidates = list(dict.fromkeys(name for name in names if name))[:_COMPARED]
    return get_close_matches(pattern.strip("*?"), candidates, _SHOWN, 0.0)
