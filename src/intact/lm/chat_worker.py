"""Renders and reads chat templates in a process of its own, which `chat_template` starts and may kill.

A template comes with a model, from a stranger. Jinja's sandbox keeps it from Python, but not from nested
loops or from strings that double. So the parent bounds its time, and the system its memory. The process reads
and writes one JSON line for each request. It imports nothing of INTact.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime
from typing import Any, NoReturn

MEMORY = 2**30  # bytes of the process, where the system can hold it to that
SECONDS = 20  # of CPU for one request, should nobody be left to kill the process
_CACHED = 16  # compiled templates; probes of several models take turns


def main() -> None:
    """Answer lines until the input ends."""
    out = sys.stdout.buffer
    _limit_memory()
    renderer: _Renderer | None = None
    for line in sys.stdin.buffer:
        _limit_time()
        try:
            renderer = renderer or _Renderer()
            reply = json.dumps(renderer.answer(json.loads(line))).encode()
        except Exception as error:
            reply = json.dumps({"error": str(error)[:200] or type(error).__name__}).encode()
        out.write(reply + b"\n")
        out.flush()


class _Renderer:
    """Holds the environment of Jinja, and the templates that it compiled."""

    def __init__(self) -> None:
        self._now = datetime.min
        self._environment = _environment(lambda form: self._now.strftime(form))
        self._templates: dict[str, Any] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the prompt of a conversation, or what a template reads where there is no conversation."""
        text = request["template"]
        if "variables" not in request:
            return describe(self._environment, text)
        if text not in self._templates:
            if len(self._templates) >= _CACHED:
                self._templates.clear()
            self._templates[text] = self._environment.from_string(text)
        self._now = datetime.fromisoformat(request["now"])
        pieces, length, most = [], 0, request["most"]
        for piece in self._templates[text].generate(**request["variables"]):
            length += len(piece)
            if length > most:
                raise ValueError(f"a prompt of more than {most} characters")
            pieces.append(piece)
        return {"text": "".join(pieces)}


def _environment(strftime_now: Any) -> Any:
    """Return the environment of Jinja that transformers 5.24 gives to chat templates."""
    from jinja2 import TemplateError, nodes
    from jinja2.exceptions import SecurityError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class Generation(Extension):
        """Lets ``{% generation %}`` mark answers, which is for training; the text stays as it is."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_text_of"), [], [], body).set_lineno(line)

        def _text_of(self, caller: Any) -> str:
            return str(caller())

    class PublicNamespace(Namespace):
        """A namespace that takes no name with an underscore in front."""

        def __init__(*args: Any, **values: Any) -> None:
            self, values = args[0], dict(*args[1:], **values)
            for name in values:
                _check_public(name)
            Namespace.__init__(self, values)

        def __setitem__(self, name: str, value: Any) -> None:
            _check_public(name)
            Namespace.__setitem__(self, name, value)

    def _check_public(name: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise SecurityError(f"an attribute {name!r} of a namespace: it begins with an underscore")

    def refuse(text: str) -> NoReturn:
        raise TemplateError(text)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.globals.update(
        raise_exception=refuse, strftime_now=strftime_now, dict=_DictMaker(), namespace=PublicNamespace
    )
    environment.filters["tojson"] = _to_json
    return environment


class _DictMaker:
    """Makes dictionaries for templates, which get no hold of the class."""

    def __call__(self, *args: Any, **items: Any) -> dict[Any, Any]:
        return dict(*args, **items)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        """Return a dictionary with one value for all keys."""
        return dict.fromkeys(*args)


def _to_json(
    x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """Write JSON as transformers does; Jinja's own filter escapes what HTML reads."""
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def describe(environment: Any, text: str) -> dict[str, Any]:
    """Return what a template reads.

    Returns:
        ``variables``: names that it gets from outside; ``names``: attributes, keys and other constant texts.
    """
    from jinja2 import meta, nodes

    tree = environment.parse(text)
    attributes = {node.attr for node in tree.find_all(nodes.Getattr)}
    constants = {node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)}
    return {
        "variables": sorted(meta.find_undeclared_variables(tree)),
        "names": sorted(attributes | constants),
    }


def _limit_time() -> None:
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + SECONDS, hard))
    except (ImportError, ValueError, OSError):
        pass


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows: the time limit alone
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ValueError, OSError):  # macOS lets no process do that
        pass


if __name__ == "__main__":
    main()
