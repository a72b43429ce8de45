"""Parse the equation of an Einsum, and split it into products of two terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
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


@dataclass(frozen=True)
class EinsumProduct:
    """An Einsum of two operands as one node; letters are axes.

    Attributes:
        kind: "MatMul" or "Mul".
        terms: The axes of both operands.
        wanted: Those that the node reads each of them with, summed ones last (of the right operand of a
            MatMul in front of the last); one that it does not have is of size 1 there.
        order: Which operand is on the left, and which on the right.
        output_axes: The axes of the node's output. A Mul still has those that are summed behind it, and a
            MatMul with a vector has one of size 1.
        answer: Those of what Einsum makes.
        summed: Those that are summed.
        sizes: Of the summed ones, where a MatMul sums more than one.
        width: Of its columns then; -1 where that is not known.
        columns: The axes that are its columns, of these sizes; none where one axis is all of them.
    """

    kind: str
    terms: tuple[str, str]
    wanted: tuple[str, str]
    order: tuple[int, int]
    output_axes: str
    answer: str
    summed: str
    sizes: tuple[int, ...] = ()
    width: int = -1
    columns: tuple[int, ...] = ()

    @property
    def what(self) -> str:
        return f"a {self.kind}" + (" and a ReduceSum" if self.kind == "Mul" and self.summed else "")

    def stays(self, operand: int) -> bool:
        """Return whether the node reads the operand as it is."""
        return self.wanted[operand] == self.terms[operand] and not merge_shape(self, operand)


def _product(equation: str, sizes: Mapping[str, int]) -> EinsumProduct | None:
    """Parse `equation` into a product; None if it is none."""
    left, arrow, answer = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or "." in equation or len(terms) != 2 or any(len(set(t)) < len(t) for t in (*terms, answer)):
        return None
    a, b = terms
    summed = "".join(axis for axis in a if axis in b and axis not in answer)
    own = [
        [axis for axis in answer if axis in term and axis not in other] for term, other in ((a, b), (b, a))
    ]
    if {*a, *b} != {*answer, *summed}:
        return None
    if not summed or not any(own):
        wanted = [_without_front(answer + summed, term) for term in terms]
        return EinsumProduct("Mul", (a, b), (wanted[0], wanted[1]), (0, 1), answer + summed, answer, summed)
    if len(summed) > 1 and not all(axis in sizes for axis in summed):
        return None
    if all(own):
        rows, columns = own[0][-1], own[1][-1]
        order = (0, 1) if answer.index(rows) < answer.index(columns) else (1, 0)
        if order == (1, 0):
            rows, columns = columns, rows
    else:  # a vector, or several: the answer has no columns
        order = (0, 1) if own[0] else (1, 0)
        rows, columns = own[order[0]][-1], spare_letter(equation)
    if all(own):
        columns = _run(answer, columns, [axis for axis in own[order[1]] if axis in sizes])
    lead = "".join(axis for axis in answer if axis not in rows + columns)
    tails = {order[0]: rows + summed, order[1]: summed + columns}
    wanted = [_without_front(lead, term) + tails[i] for i, term in enumerate(terms)]
    merged = tuple(sizes[axis] for axis in summed) if len(summed) > 1 else ()
    spread = tuple(sizes[axis] for axis in columns) if len(columns) > 1 else ()
    output_axes, width = (
        lead + rows + columns,
        prod(spread) if spread else sizes.get(columns, -1 if all(own) else 1),
    )
    order_of = (a, b), (wanted[0], wanted[1]), order
    return EinsumProduct("MatMul", *order_of, output_axes, answer, summed, merged, width, spread)


def _run(answer: str, last: str, rest: Sequence[str]) -> str:
    """Return the axes of the answer side by side up to `last`, as far as they are among `rest`."""
    first = end = answer.index(last)
    while last in rest and first and answer[first - 1] in rest:
        first -= 1
    return answer[first : end + 1]


def _without_front(lead: str, term: str) -> str:
    """Return the axes of `lead` from the first one on that `term` has: shapes are matched from the back."""
    places = [place for place, axis in enumerate(lead) if axis in term]
    return lead[places[0] :] if places else ""


def split_products(equation: str, sizes: Mapping[str, int]) -> list[EinsumProduct]:
    """Split an equation into products of two operands: the first two, then their result and the next.

    Empty where a product is of another kind.
    """
    candidates: list[EinsumProduct | None] = []
    while equation.count(",") > 1:
        first, equation = first_two(equation)
        candidates.append(_product(first, sizes))
    candidates.append(_product(equation, sizes))
    products = [product for product in candidates if product is not None]
    return products if len(products) == len(candidates) else []


def merge_shape(product: EinsumProduct, operand: int) -> list[int]:
    """Return the shape of an operand as Reshape takes it where several of its axes become one; else none."""
    left, several = operand == product.order[0], product.sizes
    if not several and (left or not product.columns):
        return []
    front = len(product.wanted[operand]) - len(product.summed) - (1 if left else max(len(product.columns), 1))
    merged_size = prod(several) if several else 0
    return [0] * (front + 1) + [merged_size] if left else [0] * front + [merged_size, product.width]
