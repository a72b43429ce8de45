"""Makes text from files safe to print on a terminal."""

from __future__ import annotations


def printable(text: object) -> str:
    r"""Return `text` with every character that does not print written as its escape.

    That is what `str.isprintable` calls so: controls (newline, ESC, the C1 set), the marks that turn the
    direction of writing, other invisible marks, and the halves of surrogate pairs that stand for the bytes of
    a file name which is no UTF-8.

    >>> print(printable("conv\x1b[2J\u202eup"))
    conv\x1b[2J\u202eup
    """
    string = str(text)
    if string.isprintable():
        return string
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in string)
