"""No command writes over what it reads."""

import os

import pandas as pd
import pytest

import nrs


def _spelled(folder, name, how):
    if how == "same":
        return folder / name
    if how == "dot":
        return f"{folder}/./{name}"
    path = folder / f"other{(folder / name).suffix}"
    if how == "link":
        path.symlink_to(folder / name)
    else:
        os.link(folder / name, path)
    return path


@pytest.mark.parametrize("how", ["same", "dot", "link", "hard link"])
@pytest.mark.parametrize("name", ["new.csv", "new.parquet"])
def test_predict_refuses_its_own_input(churn, run, tmp_path, name, how):
    frame = pd.read_csv(churn[0] / "new.csv")
    if name == "new.csv":
        frame.to_csv(tmp_path / name, index=False)
    else:
        frame.to_parquet(tmp_path / name)
    before = (tmp_path / name).read_bytes()
    output = _spelled(tmp_path, name, how)
    result = run("predict", churn[0] / "churn.safetensors", tmp_path / name, "-o", output)
    assert result.exit_code == 2, result.output
    assert "is an input and would be overwritten; choose another output" in result.output
    assert (tmp_path / name).read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_predict_refuses_a_part_of_its_input(churn, run, tmp_path):
    part = tmp_path / "part.parquet"
    pd.read_csv(churn[0] / "new.csv").to_parquet(part)
    for source in (tmp_path, tmp_path / "*.parquet"):
        result = run("predict", churn[0] / "churn.safetensors", source, "-o", part)
        assert result.exit_code == 2, result.output
        assert "is an input" in result.output
    assert len(pd.read_parquet(part)) == 80


def test_every_output_of_every_command_is_checked(churn, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "m.safetensors"
    model.write_bytes((churn[0] / "churn.safetensors").read_bytes())
    onnx = tmp_path / "m.onnx"
    onnx.write_bytes(model.read_bytes())
    rows = tmp_path / "rows.html"
    rows.write_bytes((churn[0] / "churn.csv").read_bytes())
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    fit = (rows, "-t", "churned", "--preset", "fast")
    for arguments in (
        ("explain", model, "--output", model),
        ("export", onnx, "-o", onnx),
        ("export", onnx),
        ("fit", *fit, "-o", tmp_path / "rows"),
        ("tune", *fit, "--trials", 1, "--storage", rows, "-o", tmp_path / "new"),
        ("predict", model, churn[0] / "new.csv", "-o", model),
    ):
        result = run(*arguments)
        assert result.exit_code == 2, (arguments, result.output)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_predict_file_refuses_its_input_in_python(churn, tmp_path):
    path = tmp_path / "new.csv"
    path.write_bytes((churn[0] / "new.csv").read_bytes())
    model = nrs.NRSClassifier.load(churn[0] / "churn.safetensors")
    with pytest.raises(OSError, match="is an input"):
        model.predict_file(path, path)
    assert path.read_bytes() == (churn[0] / "new.csv").read_bytes()
