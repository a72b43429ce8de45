"""``intact analyze``: the table, the file, the page, and what a user can get wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def later(tmp_path: Path, rng: np.random.Generator) -> Path:
    np.save(tmp_path / "later.npy", 4 * rng.standard_normal((8, 3, 16, 16)).astype(np.float32))
    return tmp_path / "later.npy"


def test_a_table_a_file_and_a_page(run, net: Path, samples: Path, later: Path, tmp_path: Path) -> None:
    out, page = tmp_path / "analysis.json", tmp_path / "report.html"
    words = ("--data", samples, "--later", later, "-o", out, "--html", page, "--no-progress")
    status, shown, err = run("analyze", net, *words)
    assert (status, err) == (0, "")
    output = json.loads(out.read_text())
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if "│" in line]
    ranked = sorted(output["parts"], key=lambda item: -item["share"])
    assert [row[0] for row in rows] == [item["name"] for item in ranked]
    assert rows[0][3] == f"{ranked[0]['share']:.1%}"
    assert float(rows[0][4].removesuffix(" dB")) == pytest.approx(ranked[0]["sqnr_db_alone"], abs=0.06)
    assert f"SQNR of prob: {output['sqnr_db']['prob']:.1f} dB" in shown
    assert any(item["kind"] == "range too short" and item["tensor"] == "x" for item in output["findings"])
    for item in output["findings"]:
        assert f"- {item['tensor']}: {item['says']}: {item['advice']}" in shown
    assert f"wrote {out}" in shown and f"wrote {page}" in shown


def test_the_page_shows_what_the_file_says(run, net: Path, samples: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    words = ("--data", samples, "--html", page, "--activations", "int8", "--no-progress", "--json")
    status, shown, _ = run("analyze", net, *words)
    output, text = json.loads(shown), page.read_text(encoding="utf-8")
    assert status == 0 and "<script" not in text and 'name="viewport"' in text and "@media print" in text
    assert f"<h1>Where {net.name} loses accuracy</h1>" in text
    drawn = re.findall(r'<article class="card" id="(.*?)">\n<h3>(.*?)</h3>', text)
    ranked = sorted(output["parts"], key=lambda item: -item["share"])
    assert [name for _, name in drawn] == [item["name"] for item in ranked]
    assert text.count('<path class="bars"') == len(drawn)
    places = {name: place for place, name in drawn}
    for item in ranked:
        assert f'<a href="#{places[item["name"]]}">{item["name"]}</a>' in text
        assert f"<td>{item['share']:.1%}<svg" in text
    assert any(item["kind"] == "one-sided" for item in output["findings"])
    for item in output["findings"]:
        assert text.count(item["says"]) >= 2, "in the table, and below the histogram"
        assert f"{item['share']:.1%} of the error</span>" in text


def test_layers_within_a_budget(run, net: Path, samples: Path) -> None:
    words = ("--data", samples, "--by", "layer", "--budget", "2", "--no-progress")
    status, shown, _ = run("analyze", net, *words)
    assert status == 0 and "/conv1" in shown and "layer" in shown
    assert "were measured in groups: a larger --budget tells them apart" in shown


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "--data: got nothing"),
        (("--data", "{samples}", "--size", "8"), "--size: got the option for"),
        (("--data", "{samples}", "--exclude", "*"), "no layer that can be quantized"),
        (("--data", "{samples}", "--profile", "gpu"), "profile"),
        (("--data", "{samples}", "--html", "/nowhere/at/all.html"), "/nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(run, net: Path, samples: Path, words, complaint: str) -> None:
    status, shown, err = run("analyze", net, *(word.format(samples=samples) for word in words))
    assert status != 0 and shown == "" and complaint in err and "Traceback" not in err
