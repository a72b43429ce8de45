"""Writes the pages and passages of docs/ that only repeat what the code says.

`python docs/site/written_pages.py` writes them; a test compares them with what stands in the repository.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "intact"
START, END = "<!-- written by docs/site/written_pages.py -->", "<!-- end -->"
NOTE = f"{START}\n\n"
DEEPEST = 2
"""Levels of folders in the source tree; deeper ones are read where they stand."""
_RULE = re.compile(r"\bN[1-9][0-9]*\b")
_TITLE = re.compile(r"^\*\*(N\d+)\.\s*(.*?)\*\*", re.MULTILINE | re.DOTALL)
_Documented = ast.FunctionDef | ast.ClassDef | ast.Module


def rule_titles() -> dict[str, str]:
    """Return the rules of docs/numerics.md: number -> its bold words."""
    text = (ROOT / "docs" / "numerics.md").read_text(encoding="utf-8")
    return {number: " ".join(title.split()).rstrip(".") for number, title in _TITLE.findall(text)}


def functions_by_rule() -> dict[str, list[str]]:
    """Return what implements each rule: the public names of `intact` whose docstrings give its number."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if _RULE.search(text):
            for name, docstring in _docstrings(_module_name(path), ast.parse(text)):
                for rule in sorted(set(_RULE.findall(docstring))):
                    found[rule].append(_shortest(name))
    return found


def tests_by_rule() -> dict[str, list[str]]:
    """Return the tests that hold each rule: those with ``@pytest.mark.rule("N5")``, as pytest names them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.rule(" in text:
            for name, rules in _marked(str(path.relative_to(ROOT)), ast.parse(text).body):
                for rule in rules:
                    found[rule].append(name)
    return found


def _shortest(name: str) -> str:
    """Return the name under which `intact.numerics` hands a function on, where it does."""
    from intact import numerics

    word = name.rpartition(".")[2]
    return (
        f"intact.numerics.{word}" if name.startswith("intact.numerics.") and hasattr(numerics, word) else name
    )


def _docstrings(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each public function, class and constant of a module with its docstring."""
    yield module, ast.get_docstring(tree) or ""
    for node, following in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names, docstring = [node.name], _all_docstrings(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(following, ast.Expr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            docstring = _text(following)
        else:
            continue
        yield from ((f"{module}.{name}", docstring) for name in names if not name.startswith("_"))


def _all_docstrings(node: _Documented) -> str:
    inner = [ast.get_docstring(n) for n in ast.walk(node) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    return "\n".join(filter(None, inner))


def _text(node: ast.Expr) -> str:
    return str(node.value.value) if isinstance(node.value, ast.Constant) else ""


def _marked(scope: str, body: list[ast.stmt]) -> Iterator[tuple[str, list[str]]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = f"{scope}::{node.name}"
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.rule":
                    yield name, [ast.literal_eval(argument) for argument in decorator.args]
            yield from _marked(name, node.body)


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def rules_page() -> str:
    """Return docs/reference/rules.md: what implements each rule of numerics, and what holds it."""
    functions, tests = functions_by_rule(), tests_by_rule()
    lines = [
        "# Rules of numerics in code and tests",
        "",
        "The rules of [numerics](../numerics.md), the functions whose docstrings give their numbers, and the",
        'tests that hold them: those marked `@pytest.mark.rule("N5")`.',
    ]
    for rule, title in rule_titles().items():
        named = ", ".join(f"`{name}`" for name in functions[rule]) or "none by itself"
        lines += ["", f"## {rule}. {title}", "", f"Functions: {named}.", ""]
        lines += [f"- `{test}`" for test in tests[rule]]
    return NOTE + "\n".join(lines) + "\n"


def operators_page() -> str:
    """Return docs/reference/operators.md: the operators that become steps, and which kinds these are."""
    from intact.engine.lower.rules.table import FOREIGN_RULES, LAYERS, RULES
    from intact.graph import ops

    records = {(r.domain, r.op_type or r.__name__): r for r in _records(ops.Operator)}
    lowered = {("", name) for name in (*RULES, *LAYERS)} | set(FOREIGN_RULES)
    lines = [
        "# Operators of ONNX",
        "",
        "What INTact knows of each operator: the kind of its record, whether other runtimes make the",
        "same floats, and what runs it. *Codes* is a step on codes where Q/DQ pairs stand around it, *step*",
        "one on floats or integers, *ONNX Runtime* a call. `intact explain` says which it is in a model.",
        "",
        "| operator | domain | kind | exact in floats | run by |",
        "|---|---|---|---|---|",
    ]
    for domain, name in sorted(records.keys() | lowered):
        record = records.get((domain, name))
        kind, exact = (record.kind, "yes" if record.exact else "") if record else ("", "")
        runs = "codes, step" if name in LAYERS and not domain else "step" if (domain, name) in lowered else ""
        lines.append(f"| {name} | {domain or 'ONNX'} | {kind} | {exact} | {runs or 'ONNX Runtime'} |")
    return NOTE + "\n".join(lines) + "\n"


def _records(parent: type) -> Iterator[type]:
    for record in parent.__subclasses__():
        yield from (record,) if not record.shared else ()
        yield from _records(record)


def status() -> str:
    """Return the table of docs/index.md: what this version has, as the code's own tables say."""
    from intact.engine.lower.rules.table import FOREIGN_RULES, LAYERS, RULES
    from intact.graph.opset.downgrade import MAX_OPSET, MIN_OPSET
    from intact.kernels.registry import ISA_LEVELS
    from intact.lm.description.families import FAMILIES
    from intact.spec import _FLOAT_FORMATS, MAX_BITS, MIN_BITS

    steps = f"{len({*RULES, *LAYERS})} of ONNX, {len(FOREIGN_RULES)} of other domains"
    levels = ", ".join(name for name in ISA_LEVELS if name != "none")
    low, high = f"int{MIN_BITS}", f"int{MAX_BITS}"
    rows = [
        ("number formats", f"{low} to {high}, u{low} to u{high}, {', '.join(_FLOAT_FORMATS)}"),
        ("opsets that are written", f"{MIN_OPSET} to {MAX_OPSET}"),
        ("operators that run as steps of the engine", f"{steps} ([all](reference/operators.md))"),
        (
            "instruction sets with kernels of their own",
            f"{levels}; plain C++ on all others, with the same bits",
        ),
        ("families of language models", ", ".join(sorted(FAMILIES))),
    ]
    rows += [(f"`{name}`", first_sentence(path)) for name, path in _packages()]
    rows += [(f"`intact {name}`", text) for name, text in _verbs()]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)])


def _packages() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.glob("*/__init__.py")):
        yield _module_name(path), path


def first_sentence(path: Path) -> str:
    """Return the first line of a module's docstring, as a table's cell."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.split("\n", maxsplit=1)[0].replace("|", "\\|")


def _verbs() -> Iterator[tuple[str, str]]:
    import typer.main

    from intact.cli.app import build

    group = typer.main.get_command(build())
    for name, command in sorted(group.commands.items()):  # type: ignore[attr-defined]
        words = (command.help or "").strip().split("\n", maxsplit=1)[0]
        yield name, words.replace("|", "\\|")


def source_tree() -> str:
    """Return the tree of docs/architecture.md: each folder of the package with its docstring's first line."""
    lines = ["```", "src/intact/"]
    for path in sorted(PACKAGE.rglob("__init__.py")):
        folders = path.relative_to(PACKAGE).parts[:-1]
        if 0 < len(folders) <= DEEPEST and "standins" not in folders[1:]:
            name = "  " * len(folders) + folders[-1] + "/"
            lines.append(f"{name:<22} {first_sentence(path)}".rstrip())
    return "\n".join([*lines, "```"])


PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/rules.md": rules_page,
    "docs/reference/operators.md": operators_page,
}
"""Pages that are written whole."""
PASSAGES: dict[str, Callable[[], str]] = {"docs/index.md": status, "docs/architecture.md": source_tree}
"""Pages with a passage between the two comments."""


def written(page: str) -> str:
    """Return the text that a page of `PAGES` or `PASSAGES` has to have."""
    if page in PAGES:
        return PAGES[page]()
    before, _, rest = (ROOT / page).read_text(encoding="utf-8").partition(START)
    return f"{before}{START}\n\n{PASSAGES[page]()}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    """Write all of them."""
    for page in (*PAGES, *PASSAGES):
        (ROOT / page).write_text(written(page), encoding="utf-8")


if __name__ == "__main__":
    main()
