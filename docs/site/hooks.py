"""What the site shows beside docs/: the pages that stand at the root, and the command line's own help."""

from __future__ import annotations

import ast
import logging
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

logger = logging.getLogger("mkdocs.hooks.intact")
ROOT = Path(__file__).parents[2]
PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "RELEASING.md": "project/releasing.md",
    "SECURITY.md": "project/security.md",
}
"""Pages at the root, and where the site has them."""
_PACKAGE = re.compile(r"^::: (intact(?:\.[a-z]+)?)$", re.MULTILINE)
_NAMED = {
    *("calib", "nn", "ops", "quant_modules", "tensor_quant", "utils"),
    *("bfloat16", "bool", "float16", "float32", "fp4", "fp8", "int32", "int4", "int64", "int8", "uint8"),
}
"""Modules of `intact.torch` and data types of `intact.trt`, which pages name in words."""
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


def on_post_build(config: Any) -> None:
    """Warn of public names that the reference forgot, which stops the build."""
    pages = (ROOT / "docs/reference").glob("*.md")
    packages = {one for page in pages for one in _PACKAGE.findall(page.read_text(encoding="utf-8"))}
    texts = [path.read_text(encoding="utf-8") for path in Path(config.site_dir, "reference").glob("*.html")]
    shown = {one for text in texts for one in re.findall(r'id="(intact\.[\w.]+)"', text)}
    for package in sorted(packages):
        known = {one.rpartition(".")[2] for one in shown if one.startswith(f"{package}.")}
        for name in sorted(_public(package) - known):
            logger.warning("%s.%s is not in the reference", package, name)


def _public(package: str) -> set[str]:
    """The functions and classes in a package's `__all__`; constants stand where their values are."""
    path = ROOT / "src" / package.replace(".", "/") / "__init__.py"
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = next(
        node.value for node in tree.body if isinstance(node, ast.Assign) and _assigned(node) == ["__all__"]
    )
    return {
        name for name in ast.literal_eval(found) if not (name in _NAMED or name.isupper() or name[0] == "_")
    }


def _assigned(node: ast.Assign) -> list[str]:
    """The names that a statement binds; attributes and items that it sets have none."""
    return [target.id for target in node.targets if isinstance(target, ast.Name)]


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
    text = (verb.help or "").strip()
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
