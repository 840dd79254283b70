"""The documentation site builds without a warning, and needs nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="needs mkdocs")
pytest.importorskip("mkdocstrings", reason="needs mkdocstrings")

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_site_builds_strictly_and_works_offline(tmp_path):
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]+src=\"?(https?://[^\" >]+)", text)
        loaded += re.findall(r"<link[^>]+stylesheet[^>]+href=\"?(https?://[^\" >]+)", text)
        assert not loaded, page
    for page in (tmp_path / "reference").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r":(class|func|meth|mod|attr|data):", text), page
        items = re.findall(r'<li class="doc-section-item field-body">(.*?)</li>', text, re.DOTALL)
        assert len(items) > 10, page
        for item in items:
            # A name, its type, a dash, and what it is.
            words = re.sub(r"<[^>]+>", "", item).strip()
            assert not words.endswith("–"), f"{page.parent.name}: {words}"
    reference = (tmp_path / "reference" / "estimators" / "index.html").read_text(encoding="utf-8")
    assert "to_onnx" in reference
    assert "predict_proba" in reference
