"""The report of a fit, as text and in a real browser as wide as a phone and as a desk."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nrs.files.fit import fit_table
from nrs.files.read import read_labelled
from nrs.pages.fit_report import draw_explanation, draw_fit_report

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PROBE = Path(__file__).with_name("probe.js").read_text("utf-8")
SCRIPT = """
<script>
addEventListener("load", () => setTimeout(() => {
  console.log("PROBE" + JSON.stringify((PROBED)()).replaceAll("PROBE", "") + "PROBE");
}, 300));
</script>
</body>
"""
TARGETS = {
    "2": "two", "9": "nine", "30": "thirty", "number": "price", "labels": "two,late,costly",
    "numbers": "price,size", "order": "two",
}  # fmt: skip


def _table(n=300):
    rng = np.random.default_rng(0)
    x = rng.normal(size=n).round(3)
    table = {
        "x <b>&": x,
        "a rather long name of a column that nobody would type": rng.normal(size=n),
        "colour": rng.choice(["red", "</script>", "a blue that has a very long name indeed"], n),
        "seen": pd.date_range("2020-01-01", periods=n).astype(str),
        "part": np.where(rng.random(n) < 0.2, None, rng.normal(size=n).round(2)),
        "free": [f"some words of row {k}, and more of them " * 3 for k in range(n)],
    }
    noisy = x + rng.normal(scale=0.7, size=n)
    for name, k in (("nine", 9), ("thirty", 30)):
        codes = pd.qcut(noisy, k, labels=False)
        table[name] = [f"class number {code} & more" for code in codes]
    table |= {
        "two": np.where(noisy > 0, "yes, it is", "no"),
        "late": np.where(x > rng.normal(size=n), "late", "early"),
        "costly": np.where(rng.random(n) > 0.5, "costly", "cheap"),
        "price": noisy * 123_456,
        "size": x - noisy,
    }
    return pd.DataFrame(table)


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    path = tmp_path_factory.mktemp("fits") / "table.csv"
    table = _table()
    table.to_csv(path, index=False)
    found = {}
    for name, target in TARGETS.items():
        ours = target.split(",")
        drop = [one for one in table.columns[6:] if one not in ours]
        roles = {"time": "seen"} if name == "order" else {}
        labelled = read_labelled(path, ours, drop=drop, **roles)
        found[name] = fit_table(labelled, preset="fast", epochs=2, verbose=0)
    return found


@pytest.fixture(scope="module")
def pages(fits):
    return {name: str(draw_fit_report(fitted)) for name, fitted in fits.items()}


def test_all_that_was_promised_is_on_the_page(pages):
    for words in (
        "How it learned", "Sizes of the sets", "Held, by class", "Confusion matrix",
        "ROC", "Precision and recall", "Calibration",
        "Where to draw the line", "What the threshold costs", "What it looks at",
        "Average change in the prediction for a typical change in this column.",
        "How the columns act", "What decides", "Mispredicted rows", "Why the worst rows",
        "Settings",
    ):  # fmt: skip
        assert words in pages["2"], words
    assert "x <b>&" not in pages["2"]
    for words in ("By class", "The most frequent mistakes", "27 others"):
        assert words in pages["30"], words
    assert "What the threshold costs" not in pages["9"]
    for words in ("Residuals", "largest errors", "90 % intervals of", "Held, by prediction"):
        assert words in pages["number"]
    for found in re.findall(r'(?:src|href)="([^"]*)"', pages["2"].partition("<body>")[2]):
        assert found.startswith("#")


@pytest.mark.parametrize("name", TARGETS)
def test_a_page_is_small(pages, name):
    assert len(pages[name].encode()) < 1_000_000


def test_the_order_of_the_columns_is_that_of_shuffling_them(pages):
    worth = pages["2"].partition("What a column is worth")[2].partition("</svg>")[0]
    first = re.findall(r"<text[^>]*>([^<]*)</text>", worth)[0]
    assert first == "x &lt;b&gt;&amp;"


def test_numbers_of_the_threshold_table_add_up(fits, pages):
    scored = fits["2"].scored
    at = pages["2"].partition("0.5 (used)")[2].partition("</tr>")[0]
    called, wrong, missed = (
        int(one.replace(",", "")) for one in re.findall(r"<td>([\d,]+)</td>", at)
    )
    yes = scored.classes[1]
    assert called == (scored.predicted == yes).sum()
    assert wrong == ((scored.predicted == yes) & (scored.truth != yes)).sum()
    assert missed == ((scored.predicted != yes) & (scored.truth == yes)).sum()


def test_an_explanation_needs_no_rows(fits):
    model = fits["2"].model
    assert draw_explanation(model, "kind.safetensors", 2).count('class="tree"') == 2
    rows = fits["2"].table.features
    assert "Rows by their sum" in draw_explanation(model, "kind.safetensors", 1, rows)


def probe_pages(pages, folder, widths=(390, 1400)):
    """What a browser shows of pages, by name, on screens of these widths; see probe.js."""
    frames = []
    for name, page in pages.items():
        head, _, tail = page.rpartition("</body>")
        text = head + SCRIPT.replace("PROBED", PROBE) + tail
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
        frames += [f'<iframe src="{name}.html" width="{w}" height="800"></iframe>' for w in widths]
    (folder / "frames.html").write_text(
        "<style>iframe { border: 0 }</style>" + "".join(frames), encoding="utf-8"
    )
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr",
        "--virtual-time-budget=20000", "--window-size=1700,1700", "--dump-dom",
        (folder / "frames.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    probes = [json.loads(re.search("PROBE(.*)PROBE", line)[1].replace('\\"', '"'))
              for line in console if "PROBE" in line]  # fmt: skip
    assert [line for line in console if "PROBE" not in line] == []
    assert sorted(probe["width"] for probe in probes) == sorted(widths * len(pages)), done.stderr
    for probe in probes:
        assert probe["page"] <= probe["width"]
        assert probe["overlaps"] == []
        assert probe["cut"] == []
        assert probe["small"] == 0
    return probes


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome is installed")
def test_nothing_overlaps_and_no_page_scrolls_sideways(pages, tmp_path):
    for probe in probe_pages(pages, tmp_path):
        assert probe["charts"] > 10
        assert probe["texts"] > 200
        assert probe["found"] == 0 < probe["before"]
