"""The letters of an Einsum: its equation written out, and cut into products of two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from string import ascii_letters


def written_out(equation: str, ranks: Sequence[int | None]) -> str | None:
    """An equation with a letter for each axis that "..." stands for, and with its answer.

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
    known = [count for count in counts if count is not None]
    spare = [letter for letter in ascii_letters[::-1] if letter not in equation]
    most = max(known, default=0)
    if len(known) < len(counts) or min(known, default=0) < 0 or most > len(spare):
        return None
    axes = "".join(spare[:most])
    if not arrow:
        often = Counter(left.replace("...", "").replace(",", ""))
        answer = axes + "".join(sorted(letter for letter, count in often.items() if count == 1))
    each = iter(known)
    full = [term.replace("...", axes[most - next(each) :]) if "..." in term else term for term in terms]
    made = ",".join(full) + "->" + answer.replace("...", axes)
    return None if "." in made else made


def first_two(equation: str) -> tuple[str, str]:
    """An Einsum of more than two operands as one of the first two, and one of what it makes and the rest."""
    left, _, answer = equation.partition("->")
    a, b, *rest = left.split(",")
    later = {*answer, *"".join(rest)}
    made = "".join(dict.fromkeys(axis for axis in a + b if axis in later))
    return f"{a},{b}->{made}", f"{','.join([made, *rest])}->{answer}"


def spare_letter(equation: str) -> str:
    """A letter that an equation does not have, or another sign where it has all."""
    return next((letter for letter in ascii_letters[::-1] if letter not in equation), "*")
