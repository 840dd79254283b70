"""The page in a real browser, as wide as a phone and as a desk."""

import json
import re
import shutil
import subprocess

import pytest

from nrs.pages import write_report
from tests.pages import samples

pytest.importorskip("plotly", reason="needs plotly")
pytest.importorskip("matplotlib", reason="needs matplotlib")

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
# Runs after the page's own scripts, in a frame as wide as the screen to be tested: a browser's
# window has a least width, a frame has none.
PROBE = """
<script>
addEventListener("load", () => setTimeout(() => {
  const box = document.querySelector("[data-filter]");
  const rows = [...document.getElementById(box.dataset.filter).tBodies[0].rows];
  const shown = () => rows.filter((row) => row.offsetParent !== null).length;
  const before = shown();
  box.value = "GERMAN epochs";
  box.dispatchEvent(new Event("input"));
  const found = shown();
  box.value = "";
  document.querySelector("[data-run-only]").click();
  console.log("PROBE" + JSON.stringify({
    width: innerWidth,
    page: document.documentElement.scrollWidth,
    plots: document.querySelectorAll(".plot").length,
    drawn: document.querySelectorAll(".plot .main-svg .xaxislayer-above").length,
    images: document.images.length,
    before, found, run: shown(),
  }) + "PROBE");
}, 300));
</script>
</body>
"""


@pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome is installed")
def test_the_page_fits_the_screen_and_its_scripts_run(tmp_path):
    page = write_report(samples.everything(), tmp_path)
    head, _, tail = page.read_text("utf-8").rpartition("</body>")
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
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    probes = [json.loads(re.search("PROBE(.*)PROBE", line)[1].replace('\\"', '"'))
              for line in console if "PROBE" in line]  # fmt: skip
    assert [line for line in console if "PROBE" not in line] == []
    assert sorted(probe["width"] for probe in probes) == list(widths), done.stderr
    for probe in probes:
        assert probe["page"] <= probe["width"]
        assert probe["drawn"] == probe["plots"] > 3
        assert probe["images"] == 0
        assert (probe["before"], probe["found"], probe["run"]) == (13, 1, 3)
