"""Parse the equation of an Einsum, and split it into products of two terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from string import ascii_letters


def expand_ellipsis(equation: str, ranks: Sequence[int | None]) -> str | None:
    """Replace "..." in an equation, and in its answer, by a letter for each axis.

    Without "->" the answer has the axes of "...", then the letters that occur once, in alphabetical order.

    Args:
        equation: As Einsum has it.
        ranks: Of the operands; None where one is not known, which matters to "..." alone.
    Returns:
        None where the equation does not fit the ranks, or where there are too few letters.
    """
    left, arrow, answer = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        return None
    counts = [
        None if rank is None else rank - len(term.replace("...", ""))
        for term, rank in zip(terms, ranks, strict=True)
        if "..." in term
    ]
    known_counts = [count for count in counts if count is not None]
    spare = [letter for letter in ascii_letters[::-1] if letter not in equation]
    most = max(known_counts, default=0)
    if len(known_counts) < len(counts) or min(known_counts, default=0) < 0 or most > len(spare):
        return None
    axes = "".join(spare[:most])
    if not arrow:
        often = Counter(left.replace("...", "").replace(",", ""))
        answer = axes + "".join(sorted(letter for letter, count in often.items() if count == 1))
    each = iter(known_counts)
    full = [term.replace("...", axes[most - next(each) :]) if "..." in term else term for term in terms]
    expanded = ",".join(full) + "->" + answer.replace("...", axes)
    return None if "." in expanded else expanded


def first_two(equation: str) -> tuple[str, str]:
    """Split an Einsum of more than two operands into one of the first two, and one of the result and the
    rest."""
    left, _, answer = equation.partition("->")
    a, b, *rest = left.split(",")
    later = {*answer, *"".join(rest)}
    product_axes = "".join(dict.fromkeys(axis for axis in a + b if axis in later))
    return f"{a},{b}->{product_axes}", f"{','.join([product_axes, *rest])}->{answer}"


def spare_letter(equation: str) -> str:
    """Return a letter that an equation does not use, or another sign where it uses all."""
    return next((letter for letter in ascii_letters[::-1] if letter not in equation), "*")
