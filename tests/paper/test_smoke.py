"""Every table runs, in small."""

import json

import pytest
from typer.testing import CliRunner

from nrs.cli.app import app
from nrs.paper import entries, tables


@pytest.mark.slow
def test_every_table_runs_in_small(tmp_path):
    done = CliRunner().invoke(app, ["paper", "run", "smoke", "--results", str(tmp_path)])
    assert done.exit_code == 0, done.output
    shown = entries("smoke", tmp_path)
    for entry in shown:
        # Both need a GPU.
        if "ThunderGBM" not in entry["column"] and "gpu_ms" not in entry["column"]:
            assert (entry["status"], entry["n"]) == ("ok", 2), entry
    tried = {entry["row"].split(":")[0] for entry in shown}
    # Learning curves are of the trials of another table.
    curves = {name for name in tables() if name.endswith(("_curves", "_loss"))}
    assert tried == set(tables()) - {"smoke"} - curves
    out = tmp_path / "report"
    command = ["report", "--tables", "smoke", "--results", str(tmp_path), "--output", str(out)]
    done = CliRunner().invoke(app, ["paper", *command])
    assert done.exit_code == 0, done.output
    assert (out / "index.html").stat().st_size > 1000
    json.dumps(shown, allow_nan=False)
