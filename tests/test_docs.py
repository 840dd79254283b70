"""The documentation names every error; its site builds strictly, from nothing elsewhere."""

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ENDINGS = ("Error", "Warning", "Exception")
# A reader turns the first two into a DatasetFileError, a command the third into an exit code, and a
# service the fourth into a status.
INTERNAL = {"MalformedLineError", "ZeroIndexError", "Terminated", "TooManyRowsError"}


def _errors():
    """Names of the errors and warnings that the package defines."""
    found = set()
    for path in (ROOT / "src" / "nrs").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base) for base in node.bases]
                if any(base.endswith((*ENDINGS, "Interrupt")) for base in bases):
                    found.add(node.name)
    return {name for name in found - INTERNAL if not name.startswith("_")}


def test_every_error_is_on_its_page_by_a_public_name():
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `nrs\.([\w.]+)`", page, re.MULTILINE)
    assert sorted(row.rpartition(".")[2] for row in rows) == sorted(_errors())
    for row in rows:
        home, _, name = f"nrs.{row}".rpartition(".")
        module = importlib.import_module(home)
        assert name in module.__all__
        assert issubclass(getattr(module, name), Exception)


def test_documents_and_examples_import_from_public_modules_only():
    examples = (ROOT / "examples").rglob("*.py")
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *examples]:
        private = re.findall(r"(?:from|import) nrs[\w.]*\._\w+", path.read_text(encoding="utf-8"))
        assert not private, path.name


@pytest.mark.parametrize("package", ["core", "ranking", "vision", "points"])
def test_every_public_name_has_a_reference(package):
    pages = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs/reference").glob("*.md"))
    shown = {
        row.rpartition(".")[2] for row in re.findall(r"^::: (nrs\.[\w.]+)", pages, re.MULTILINE)
    }
    module = importlib.import_module(f"nrs.{package}")
    assert {name for name in module.__all__ if callable(getattr(module, name))} <= shown


def test_the_map_of_the_code_names_files_that_exist():
    page = (ROOT / "docs" / "inside.md").read_text(encoding="utf-8")
    table = page.partition("## Where to change what")[2].partition("\n##")[0]
    names = re.findall(r"`([\w/]+(?:\.py|/))`", table)
    assert len(names) > 10
    for name in names:
        assert any((ROOT / home / name).exists() for home in ("src/nrs", ".")), name


@pytest.mark.slow
def test_the_site_builds_strictly_and_works_offline(tmp_path):
    pytest.importorskip("mkdocs", reason="needs mkdocs")
    pytest.importorskip("mkdocstrings", reason="needs mkdocstrings")
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
