"""The report of a fit, as text and in a real browser as wide as a phone and as a desk."""

import json
import re
import shutil
import subprocess

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from nrs.files.fit import fit_table
from nrs.files.read import read_labelled
from nrs.pages.fit_report import draw_explanation, draw_fit_report

pytest.importorskip("plotly", reason="needs plotly")
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PROBE = """
<script>
addEventListener("load", () => setTimeout(() => {
  const box = document.querySelector("[data-filter]");
  const rows = [...document.getElementById(box.dataset.filter).tBodies[0].rows];
  const shown = () => rows.filter((row) => row.offsetParent !== null).length;
  const before = shown();
  box.value = "no such text anywhere";
  box.dispatchEvent(new Event("input"));
  console.log("PROBE" + JSON.stringify({
    width: innerWidth, page: document.documentElement.scrollWidth, before, found: shown(),
    plots: document.querySelectorAll(".plot").length,
    drawn: document.querySelectorAll(".plot .main-svg .xaxislayer-above").length,
    trees: document.querySelectorAll(".tree").length,
  }) + "PROBE");
}, 300));
</script>
</body>
"""


def _fitted(folder, target):
    rng = np.random.default_rng(0)
    x = rng.normal(size=150).round(3)
    table = pa.table(
        {
            "x <b>&": x,
            "a rather long name of a column that nobody would type": rng.normal(size=150),
            "colour": rng.choice(["red", "</script>", "blue"], 150),
            "kind": np.where(x + rng.normal(size=150) > 0, "yes", "no"),
            "price": x * 3 + rng.normal(size=150),
        }
    )
    csv.write_csv(table, folder / "table.csv")
    drop = ["price" if target == "kind" else "kind"]
    labelled = read_labelled(folder / "table.csv", target, drop=drop)
    return fit_table(labelled, preset="fast", epochs=4, verbose=0)


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fits")
    return {target: _fitted(folder, target) for target in ("kind", "price")}


def test_all_that_was_promised_is_on_the_page(fits):
    page = draw_fit_report(fits["kind"])
    for words in (
        "How it learned", "Sizes of the sets", "Held, by class", "Confusion matrix",
        "ROC", "Precision and recall", "Calibration",
        "What it looks at", "What decides", "Mispredicted rows", "Settings",
    ):  # fmt: skip
        assert words in page
    assert "x <b>&" not in page
    page = draw_fit_report(fits["price"])
    for words in ("Residuals", "90 % intervals of", "Held, by prediction"):
        assert words in page
    assert "largest errors" in page
    for found in re.findall(r'(?:src|href)="([^"]*)"', page.partition("<body>")[2][:5000]):
        assert found.startswith("#")


def test_an_explanation_needs_no_rows(fits):
    model = fits["kind"].model
    assert draw_explanation(model, "kind.safetensors", 2).count('class="tree"') == 2
    rows = fits["kind"].table.features
    assert "Rows by their sum" in draw_explanation(model, "kind.safetensors", 1, rows)


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome is installed")
def test_the_page_fits_the_screen_and_its_scripts_run(fits, tmp_path):
    head, _, tail = str(draw_fit_report(fits["kind"])).rpartition("</body>")
    (tmp_path / "probed.html").write_text(head + PROBE + tail, encoding="utf-8")
    widths = (390, 1280)
    frames = "".join(
        f'<iframe src="probed.html" width="{w}" height="800"></iframe>' for w in widths
    )
    frames = f"<style>iframe {{ border: 0 }}</style>{frames}"
    (tmp_path / "frames.html").write_text(frames, encoding="utf-8")
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr",
        "--virtual-time-budget=20000", "--window-size=1700,1700", "--dump-dom",
        (tmp_path / "frames.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    probes = [json.loads(re.search("PROBE(.*)PROBE", line)[1].replace('\\"', '"'))
              for line in console if "PROBE" in line]  # fmt: skip
    assert [line for line in console if "PROBE" not in line] == []
    assert sorted(probe["width"] for probe in probes) == list(widths), done.stderr
    for probe in probes:
        assert probe["page"] <= probe["width"]
        assert probe["drawn"] == probe["plots"] >= 12
        assert probe["trees"] == 6
        assert probe["found"] == 0 < probe["before"]
