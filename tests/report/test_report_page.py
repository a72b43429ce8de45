from __future__ import annotations

import io
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from intact.errors import MissingExtraError
from intact.report import Page, Panel, ReportTable, to_rich, write_page
from intact.report.page import render

TABLE = ReportTable(
    "results", ("model", "top-1"), [("float", "98.0"), ("</script><b>mse</b>", "97.9")], "597 images"
)
PANEL = Panel(
    "layer1.conv1._input_quantizer",
    left=np.array([-1.0, 0.0]),
    width=1.0,
    counts=np.array([0, 7]),
    ranges={"max": (-0.875, 0.875), "mse": (-0.5, 0.5)},
    sqnr={"max": 40.0, "mse": 41.25},
    chosen="mse",
    facts={"values": "7"},
)
PAGE = Page("A & B", "what it is", [TABLE], [PANEL], {"seed": "0"}, {"version": "1"})


class Tags(HTMLParser):
    """Every attribute that could reach out of the file."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_is_one_file_that_links_to_itself_only(tmp_path: Path) -> None:
    write_page(PAGE, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert tags.links == ["#panel-0"]
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert text.count("plotly.js v") <= 1 and len(text) < 6_000_000


def test_names_from_a_model_are_text_and_never_markup() -> None:
    text = render(PAGE)
    assert "&lt;/script&gt;&lt;b&gt;mse" in text
    assert "<b>mse" not in text
    assert "<h1>A &amp; B</h1>" in text


def test_the_plotted_data_is_json_with_the_chosen_method_marked() -> None:
    found = re.search(r'id="figures">(.*?)</script>', render(PAGE), re.DOTALL)
    assert found is not None
    (figure,) = json.loads(found[1])
    assert figure["left"] == [-1.0, 0.0]
    assert figure["counts"] == [None, 7], "an empty bin has no logarithm"
    assert figure["ranges"] == [
        {"method": "max", "low": -0.875, "high": 0.875, "chosen": False},
        {"method": "mse", "low": -0.5, "high": 0.5, "chosen": True},
    ]


def test_the_thresholds_table_shows_range_and_expected_noise() -> None:
    assert re.search(r'<td class="chosen">0\.5 <small>41\.2</small></td>', render(PAGE))


def test_a_page_without_histograms_carries_no_script() -> None:
    assert "<script" not in render(Page("title", tables=[TABLE]))


@pytest.mark.parametrize("package", ["jinja2", "plotly"])
def test_a_missing_package_names_the_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingExtraError, match=r"^writing a report page: got no package .* 'intact\[report\]'"
    ):
        render(PAGE)


def test_a_failed_write_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")

    def refuse(self: Path, target: Path) -> Path:
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="disk is full"):
        write_page(PAGE, target)
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_the_same_table_in_a_terminal() -> None:
    out = io.StringIO()
    Console(file=out, width=60).print(to_rich(TABLE))
    shown = out.getvalue()
    assert "results" in shown and "597 images" in shown
    assert re.search(r"float\s+│\s+98\.0", shown)
