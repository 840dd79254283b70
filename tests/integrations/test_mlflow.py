"""MLflow with a local store: logged, loaded, served, and the curve of a fit."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nrs import NRSClassifier, NRSRanker, NRSRegressor
from tests.integrations.documents import run_section

mlflow = pytest.importorskip("mlflow", reason="needs mlflow")
import nrs.mlflow  # noqa: E402

pytestmark = pytest.mark.integration
QUICK = {"preset": "fast", "epochs": 4, "random_state": 0}


@pytest.fixture(scope="module", autouse=True)
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    mlflow.set_experiment(experiment_id=mlflow.create_experiment("x", str(folder / "files")))
    return folder


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 120
    return pd.DataFrame(
        {
            "age": rng.normal(40, 9, n).round(1),
            "member": rng.random(n) < 0.5,
            "seen": np.where(rng.random(n) < 0.1, None, rng.random(n) < 0.5),
            "plan": rng.choice(["basic", "plus", None], n),
            "zip": pd.Categorical(rng.integers(1, 4, n)),
            "since": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "call": pd.to_timedelta(rng.integers(1, 900, n), "s"),
            "price": [f"{value:.2f}".replace(".", ",") + " €" for value in rng.uniform(1, 9, n)],
        }
    )


@pytest.fixture(scope="module")
def classifier(frame):
    return NRSClassifier(**QUICK).fit(frame, np.where(frame["age"] > 40, "yes", "no"))


def test_a_classifier_round_trip_is_bit_equal(classifier, frame):
    seconds = frame.assign(call=frame["call"].dt.total_seconds())
    with mlflow.start_run():
        info = nrs.mlflow.log_model(classifier, input_example=seconds[:2])
    loaded = nrs.mlflow.load_model(info.model_uri)
    assert np.array_equal(loaded.predict_proba(frame), classifier.predict_proba(frame))
    pyfunc = mlflow.pyfunc.load_model(info.model_uri)
    found = pyfunc.predict(seconds)
    assert found["prediction"].tolist() == classifier.predict(frame).tolist()
    assert np.array_equal(found["probability_yes"], classifier.predict_proba(frame)[:, 1])
    sets = pyfunc.predict(seconds, params={"sets": 0.8, "probabilities": False})
    assert np.array_equal(
        sets[["in_set_no", "in_set_yes"]].to_numpy(), classifier.predict_set(frame, 0.8)
    )
    assert info.signature.inputs.input_names() == frame.columns.tolist()
    with pytest.raises(mlflow.exceptions.MlflowException, match="age"):
        pyfunc.predict(seconds.drop(columns="age"))


def test_a_regressor_of_an_array_and_a_ranker(frame, tmp_path):
    X = frame[["age"]].assign(two=np.arange(120.0)).to_numpy()
    model = NRSRegressor(**QUICK).fit(X, X[:, 0])
    nrs.mlflow.save_model(model, tmp_path / "numbers")
    found = mlflow.pyfunc.load_model(str(tmp_path / "numbers")).predict(X, {"interval": 0.9})
    assert np.array_equal(found["prediction"], model.predict(X))
    assert np.array_equal(found["low"], model.predict_interval(X, 0.9)[0])
    documents = pd.DataFrame(X, columns=["a", "b"]).assign(query=np.repeat(np.arange(12), 10))
    ranker = NRSRanker(epochs=2, random_state=0, query_scale="standard").fit(
        documents, np.arange(120) % 3, qid="query"
    )
    nrs.mlflow.save_model(ranker, tmp_path / "ranker")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "ranker"))
    assert np.array_equal(loaded.predict(documents)["prediction"], ranker.predict(documents))


def test_models_of_others_are_refused(tmp_path):
    mlflow.pyfunc.save_model(
        str(tmp_path / "other"),
        python_model=lambda model_input: model_input,
        input_example=[["a"]],
        pip_requirements=[],
    )
    with pytest.raises(ValueError, match=r"not by nrs.mlflow; load it with mlflow.pyfunc"):
        nrs.mlflow.load_model(str(tmp_path / "other"))


def test_the_curve_of_a_fit_is_logged(frame):
    with mlflow.start_run() as run:
        model = NRSClassifier(**QUICK, callbacks=[nrs.mlflow.LogCurve()])
        model.fit(frame[["age"]], frame["member"])
    client = mlflow.MlflowClient()
    rows = model.history_.rows
    for name in ("train_loss", "lr"):
        logged = client.get_metric_history(run.info.run_id, name)
        assert [(one.step, one.value) for one in logged] == [
            (int(row["epoch"]), row[name]) for row in rows
        ]


def test_the_document_runs():
    assert len(run_section("MLflow")["found"]) == 200


def test_mlflow_serves_it(classifier, frame, tmp_path):
    nrs.mlflow.save_model(classifier, tmp_path / "served")
    port = "28437"
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(tmp_path / "served")]
    server = subprocess.Popen(
        [*command, "--env-manager", "local", "-p", port, "-h", "127.0.0.1"],
        # It starts uvicorn by its name.
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        start_new_session=True,
    )
    rows = frame[:3].assign(
        since=frame["since"].dt.strftime("%Y-%m-%dT%H:%M:%S"), call=frame["call"].dt.total_seconds()
    )
    body = json.dumps({"dataframe_split": json.loads(rows.to_json(orient="split", index=False))})
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/invocations", body.encode(), {"Content-Type": "application/json"}
    )
    try:
        for _ in range(120):
            try:
                with urllib.request.urlopen(asked, timeout=60) as answer:
                    found = json.load(answer)["predictions"]
                break
            except urllib.error.HTTPError as error:
                pytest.fail(error.read().decode())
            except urllib.error.URLError:
                assert server.poll() is None
                time.sleep(0.5)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(20)
    assert [row["probability_yes"] for row in found] == classifier.predict_proba(frame[:3])[
        :, 1
    ].tolist()
