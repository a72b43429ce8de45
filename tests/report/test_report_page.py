from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from intact.calib import Histogram
from intact.errors import MissingExtraError
from intact.report import Cell, Page, Panel, ReportTable, panel, to_rich, write_page
from intact.report.html_page import render
from intact.spec import QuantSpec

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
    assert len(text) < 12_000 and "<script" not in text


def test_names_from_a_model_are_text_and_never_markup() -> None:
    text = render(PAGE)
    assert "&lt;/script&gt;&lt;b&gt;mse" in text
    assert "<b>mse" not in text
    assert "<h1>A &amp; B</h1>" in text


def test_every_range_is_drawn_and_the_chosen_one_is_marked() -> None:
    text = render(PAGE)
    (drawing,) = re.findall(r"<svg viewBox.*?</svg>", text)
    lines = re.findall(r'<path class="line (r\d)( chosen)?" d="(.*?)"><title>(.*?)</title>', drawing)
    assert [(row, chosen, name) for row, chosen, _, name in lines] == [
        ("r0", "", "max"), ("r1", " chosen", "mse"),
    ]  # fmt: skip
    assert [path.count("M") for *_, path, _ in lines] == [1, 1], (
        "no value is negative, and no lower end is drawn"
    )
    assert re.search(r'<li class="r1 chosen">mse -0\.5 to 0\.5</li>', text)


def test_the_thresholds_table_shows_range_and_expected_noise() -> None:
    assert re.search(r'<td class="chosen">0\.5 <small>41\.2</small></td>', render(PAGE))


def test_a_panel_without_noise_has_no_row_of_thresholds() -> None:
    text = render(Page("title", panels=[replace(PANEL, sqnr={}, notes=["it <saturates>"])]))
    assert "Thresholds" not in text and "<h2>Histograms</h2>" in text
    assert "<p>it &lt;saturates&gt;</p>" in text


def test_a_cell_has_a_bar_and_a_link() -> None:
    table = ReportTable("t", ("name", "share"), [(Cell("a<b", link="panel-0"), Cell("50%", 0.5))], prose=True)
    text = render(Page("title", tables=[table]))
    assert '<a href="#panel-0">a&lt;b</a>' in text and '<table class="prose">' in text
    assert re.search(r'<td>50%<svg class="bar"[^>]*><path d="M0 0h50v8H0"/></svg></td>', text)
    out = io.StringIO()
    Console(file=out, width=60).print(to_rich(table))
    assert "a<b" in out.getvalue() and "50%" in out.getvalue()


def test_three_hundred_histograms_are_a_page_that_opens_at_once(rng: np.random.Generator) -> None:
    stats = Histogram()
    stats.collect((rng.standard_normal(20_000) ** 3).astype(np.float32))
    panels = [panel(f"layer{i}", stats, QuantSpec("int8"), {"max": {}, "mse": {}}, "mse") for i in range(300)]
    assert len(render(Page("title", panels=panels))) < 1_500_000


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == "jinja2"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(
        MissingExtraError, match=r"^writing a report page: got no package .* 'intact-quant\[report\]'"
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
