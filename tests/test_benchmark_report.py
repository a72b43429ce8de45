"""benchmarks/report.py: the page of figures and README's table are what the stored results say."""

from __future__ import annotations

import datetime
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def report() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_report", ROOT / "benchmarks" / "report.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_and_readme_are_rendered_from_the_results(report: ModuleType) -> None:
    """If this fails, run ``python benchmarks/report.py``."""
    results, readme = report.load_results(), report.README.read_text(encoding="utf-8")
    assert report.PAGE.read_text(encoding="utf-8") == report.render_page(results)
    assert readme == report.render_readme(readme, results)
    assert report.render_readme_table(results) in readme


def test_every_result_names_a_script_that_exists_and_a_date(report: ModuleType) -> None:
    for name, result in report.load_results().items():
        script = re.search(r"benchmarks/\S+\.py", result["command"])
        assert script and (ROOT / script[0]).exists(), name
        assert datetime.date.fromisoformat(result["date"]), name
        assert result["machine"], name


def test_figures_of_the_readme_stand_in_their_results(report: ModuleType) -> None:
    """A figure cannot say something else than the notes, rows or output that it is taken from."""
    for name, result in report.load_results().items():
        shown = json.dumps([result["notes"], result["rows"], result.get("printed", [])]).replace(
            "Not one", "0"
        )
        for figure in result.get("figures", {}).values():
            for number in re.findall(r"\d[\d.,]*", figure):
                assert number in shown or number in column_sums(result), (name, figure)


def column_sums(result: dict) -> set[str]:
    """Sums of columns of numbers: "101 of 107" is summed over families."""
    columns = zip(*result["rows"], strict=True)
    return {str(sum(map(int, column))) for column in columns if all(cell.isdigit() for cell in column)}


def test_a_result_with_a_wrong_field_is_refused(report: ModuleType, tmp_path: Path) -> None:
    good = json.loads((report.RESULTS / "cifar.json").read_text(encoding="utf-8"))
    for wrong in (good | {"speed": 1}, good | {"topic": "other"}, good | {"rows": [["one"]]}):
        (tmp_path / "wrong.json").write_text(json.dumps(wrong), encoding="utf-8")
        with pytest.raises(ValueError, match=r"wrong\.json"):
            report.load_results(tmp_path)


def test_what_a_script_prints_is_recorded(
    report: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "timed.py"
    script.write_text("print('first 1.5')\nprint('second 2.5')\n", encoding="utf-8")
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    report.run_and_record("timed", "torch", "Two lines", [str(script)])
    result = report.load_results(tmp_path)["timed"]
    assert result["printed"] == ["first 1.5", "second 2.5"]
    assert result["command"] == f"python {script}" and "numpy" in result["versions"]
    assert "first 1.5\nsecond 2.5" in report.render_page({"timed": result})
