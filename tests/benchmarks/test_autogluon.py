"""AutoGluon itself is not installed here: a stand-in answers through the same files."""

import json
import sys

import numpy as np
import pytest

from benchmarks import autogluon, mixed

pytest.importorskip("pandas", reason="needs pandas")
pytest.importorskip("pyarrow", reason="needs pyarrow")

STAND_IN = """
import json, pathlib, sys
import numpy as np, pandas
folder = pathlib.Path(sys.argv[1])
request = json.loads((folder / "request.json").read_text())
train, test = (pandas.read_parquet(folder / f"{part}.parquet") for part in ("train", "test"))
assert "target" not in test and request["time_limit"] == 5.0
if request["presets"] == "best_quality":
    sys.exit("no time for that")
share = train["target"].value_counts(normalize=True).reindex(range(request["n_classes"]))
np.save(folder / "answers.npy", np.tile(share.to_numpy(), (len(test), 1)))
times = {"fit_s": 1.0, "fit_cpu_s": 1.0, "predict_cpu_s": 0.0}
(folder / "answer.json").write_text(json.dumps({"times": times, "models": 1, "versions": {}}))
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    path = tmp_path / "stand_in.py"
    path.write_text(STAND_IN)
    monkeypatch.setattr(autogluon, "FIT", path)


def test_the_other_environment_answers_through_files(mixed_folder, stand_in):
    found = autogluon.measure("loan", "AutoGluon medium", 5.0, 0, sys.executable)
    _, y, _, y_test = mixed.read("loan", 0)
    shares = np.bincount(y) / len(y)
    assert found["metrics"]["log_loss"] == pytest.approx(-np.log(shares[y_test]).mean())
    assert found["metrics"]["auc"] == 50.0
    with pytest.raises(RuntimeError, match="no time for that"):
        autogluon.measure("loan", "AutoGluon bagged", 5.0, 0, sys.executable)


def test_a_run_resumes_and_its_page_counts_wins(tmp_path, monkeypatch):
    measured = []

    def measure(name, method, limit, seed, python):
        measured.append((name, method, limit))
        loss = {"NRS best": 0.3, "AutoGluon medium": 0.4, "AutoGluon bagged": 0.2}[method]
        times = {"fit_s": limit, "fit_cpu_s": limit, "predict_cpu_s": 0.1}
        return {"metrics": {"log_loss": loss, "rmse": loss}, "times": times}

    monkeypatch.setattr(autogluon, "measure", measure)
    path = tmp_path / "autogluon.json"
    python = "/somewhere/bin/python"
    # As it is started, for the command that is stored.
    arguments = ["run", "--python", python, "--datasets", "titanic", "--json", str(path)]
    monkeypatch.setattr(sys, "argv", ["autogluon", *arguments])
    autogluon.main([*arguments, "--limits", "60"])
    assert len(measured) == 3
    autogluon.main([*arguments, "--limits", "60,300"])
    assert len(measured) == 6
    command = json.loads(path.read_text())["command"]
    assert "--python ag/bin/python --datasets titanic" in command
    text = autogluon.summary(path)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert rows.count(["titanic", "0.3000", "0.4000", "0.2000"]) == 2
    assert rows.count(["NRS best wins/loses", "", "1/0", "0/1"]) == 2
    assert ["median fit, seconds", "300.0", "300.0", "300.0"] in rows


def test_a_run_needs_the_other_environment(capsys):
    with pytest.raises(SystemExit):
        autogluon.main(["run"])
    assert "--python" in capsys.readouterr().err
