"""Reads YAML from untrusted sources: plain values only, within the limits of `intact.limits`.

A text of a kilobyte can stand for billions of values, because an alias repeats what it names, and brackets
can nest deeper than any stack. Both are counted while the text is read, before a value is made.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from intact.errors import FileFormatError, IntactError
from intact.limits import YAML_BYTES, YAML_CHARACTERS, YAML_DEPTH, YAML_NODES


def read_yaml(text: str | bytes, where: str, error: type[IntactError] = FileFormatError) -> Any:
    """Return the mappings, lists, strings, numbers, booleans, dates and None of a YAML text.

    Args:
        text: One document; bytes are UTF-8.
        where: The file or argument, for errors.
        error: The kind of error.
    Raises:
        IntactError: The text is no YAML, has tags, or asks for more than the limits; of the kind given.
    """
    YAML_BYTES.check(len(text), where, error)
    try:
        loader = _Loader(text.decode("utf-8") if isinstance(text, bytes) else text, where, error)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    # ValueError: also a date that is in no calendar. OverflowError: a number of degrees, minutes and seconds.
    except (yaml.YAMLError, ValueError, OverflowError) as broken:
        if isinstance(broken, IntactError):
            raise
        reason = " ".join(str(broken).split())
        raise error(where, f"'{reason[:300]}'", "YAML", "correct it") from broken


class _Loader(yaml.SafeLoader):
    """Counts the nodes that the text stands for, aliases included, and refuses too many."""

    def __init__(self, text: str, where: str, error: type[IntactError]) -> None:
        super().__init__(text)
        self._where, self._error = where, error
        self._depth = self._nodes = 0
        self._held: dict[int, int] = {}  # nodes that each composed node stands for, by its identity

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node as `yaml.composer.Composer` does, and count it."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        before = self._nodes
        if getattr(event, "tag", None) is not None:
            raise self._error(
                self._where, f"the tag '{event.tag}'", "YAML without tags", "write the value without it"
            )
        if isinstance(event, yaml.ScalarEvent):
            YAML_CHARACTERS.check(len(event.value), self._where, self._error)
        self._depth += 1
        YAML_DEPTH.check(self._depth, self._where, self._error)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(event, yaml.MappingStartEvent):
            self._require_once(node)  # type: ignore[arg-type]
        if isinstance(event, yaml.AliasEvent):
            if id(node) not in self._held:
                raise self._error(
                    self._where, f"an alias of itself, '*{event.anchor}'", "values that end", "take it out"
                )
            self._nodes += self._held[id(node)]
        else:
            self._nodes += 1
            self._held[id(node)] = self._nodes - before
        YAML_NODES.check(self._nodes, self._where, self._error)
        return node

    def _require_once(self, node: yaml.MappingNode) -> None:
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if twice := [key for key, times in keys.items() if times > 1]:
            raise ConstructorError(None, None, f"more than one value for '{twice[0]}'", node.start_mark)

    def construct_yaml_int(self, node: Any) -> int:
        """Build an integer as `yaml.SafeLoader` does, up to 64 bits; longer ones could not be printed."""
        number: int = super().construct_yaml_int(node)
        if number.bit_length() > 64:
            raise ConstructorError(None, None, "an integer of more than 64 bits", node.start_mark)
        return number


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
