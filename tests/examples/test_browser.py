"""The browser example in a real browser: a typed-in row, and what the model says of it."""

import functools
import http.server
import importlib.util
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("onnx", reason="needs onnx")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")

EXAMPLE = Path(__file__).parents[2] / "examples" / "browser"
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The example with a model and onnxruntime-web, served; skips without npm or a network."""
    if BROWSER is None or shutil.which("npm") is None:
        pytest.skip("needs npm and chromium or chrome")
    folder = tmp_path_factory.mktemp("browser") / "page"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("model.*"))
    if not (folder / "node_modules").is_dir():
        install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        try:
            subprocess.run(install, cwd=folder, check=True, capture_output=True, timeout=120)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip("npm could not fetch onnxruntime-web")
    spec = importlib.util.spec_from_file_location("make_model", folder / "make_model.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    model = script.main(folder)
    handler = functools.partial(_Handler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", model
        server.shutdown()


@pytest.mark.slow
def test_a_typed_in_row_is_classified_as_the_model_does(served, tmp_path):
    address, model = served
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=BROWSER, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 900, "height": 700})
        page.goto(address)
        page.wait_for_selector(".class", timeout=60_000)

        def shown():
            lines = page.locator(".class")
            found = {
                lines.nth(i).get_attribute("data-class"): float(
                    lines.nth(i).get_attribute("data-probability")
                )
                for i in range(lines.count())
            }
            return [found[label] for label in model.classes_.tolist()]

        row = {
            "income": 21_300.0, "debt": 30_500.0, "age": 23.0, "job": "student",
            "home": "rented", "guarantor": False,
        }  # fmt: skip
        for change in ({}, {"income": np.nan}, {"job": "astronaut"}, {"job": None, "debt": 100.0}):
            cells = row | change
            for name, cell in cells.items():
                missing = cell is None or cell != cell
                if name == "guarantor":
                    page.select_option(f"[name={name}]", "0")
                else:
                    page.fill(f"[name={name}]", "" if missing else str(cell))
            expected = model.predict_proba(pd.DataFrame([cells]))[0]
            probability = float(expected[0])
            page.wait_for_function(
                "p => { const line = document.querySelector('.class');"
                " return line && Math.abs(line.dataset.probability - p) < 1e-4 }",
                arg=probability,
                timeout=10_000,
            )
            np.testing.assert_allclose(shown(), expected, atol=1e-5)
            assert page.locator("#answer h2").text_content() == model.classes_[expected.argmax()]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.screenshot(path=tmp_path / "page.png")
        browser.close()
