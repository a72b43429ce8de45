"""What the site shows beside docs/: the pages that stand at the root, and the command line's own help."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "RELEASING.md": "project/releasing.md",
    "SECURITY.md": "project/security.md",
}
"""Pages at the root, and where the site has them."""
_LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that have no file in docs/."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_LINK.sub(_from_root, text)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links out of docs/ lead to the site's own copies; the command line's help is put in its place."""
    up = "../" * page.file.src_uri.count("/")
    for name, target in PAGES.items():
        markdown = markdown.replace(f"]({up}../{name})", f"]({up}{target})")
    return (
        markdown.replace("<!-- every verb -->", command_line())
        if "<!-- every verb -->" in markdown
        else markdown
    )


def _from_root(found: re.Match[str]) -> str:
    """A link from a page at the root, as the site's copy in project/ has it; no link to what is not shown."""
    target, anchor = found[1], found[2] or ""
    if target in PAGES:
        return f"]({Path(PAGES[target]).name}{anchor})"
    return f"](../{target.removeprefix('docs/')}{anchor})" if target.startswith("docs/") else "](../index.md)"


def command_line() -> str:
    """Every verb with its arguments and options, from the command's own help."""
    import typer.main

    from intact.cli.app import build

    group = typer.main.get_command(build())
    parts = [part for name, verb in sorted(_verbs(group, "intact")) for part in _described(name, verb)]
    return "\n".join(parts)


def _verbs(group: Any, name: str) -> list[tuple[str, Any]]:
    found = []
    for word, command in group.commands.items():
        inner = _verbs(command, f"{name} {word}") if hasattr(command, "commands") else []
        found += inner or [(f"{name} {word}", command)]
    return found


def _described(name: str, verb: Any) -> list[str]:
    text = re.sub(r"\s*\b\n?", "", verb.help or "").strip()
    arguments = [p for p in verb.params if p.param_type_name == "argument"]
    usage = " ".join([name, "[OPTIONS]", *(f"[{_word(p)}]" for p in arguments)])
    rows = [f"| `{_flags(p)}` | {_cell(p.help)} |" for p in verb.params if not getattr(p, "hidden", False)]
    return [f"## {name}\n", f"{text}\n", f"```\n{usage}\n```\n", "| | |", "|---|---|", *rows, ""]


def _flags(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return _word(parameter)
    return ", ".join((*parameter.opts, *parameter.secondary_opts))


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _word(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())
