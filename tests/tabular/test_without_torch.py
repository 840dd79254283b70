"""Tables are predicted without torch, where the compiled engine is built: in fresh processes."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import nrs
from nrs.engine import instructions
from nrs.tabular.forest.folded import Folded
from nrs.tabular.targets import RegressionTarget

pytestmark = pytest.mark.skipif(instructions()[0] is None, reason="the engine is not built")

SETTINGS = {"preset": "fast", "epochs": 1, "random_state": 0, "verbose": 0}
N = 80
# What is asked of a loaded model, by which numbers are compared.
ASKED = {
    "classes": ["predict", "predict_proba", "predict_set", "predict_entropy", "decision_function"],
    "labels": ["predict", "predict_proba"],
    "columns": ["predict", "predict_proba"],
    "numbers": ["predict", "predict_interval"],
    "quantiles": ["predict", "predict_quantiles"],
    "counts": ["predict"],
    "times": ["predict"],
    "monotone": ["predict", "member_outputs"],
    "documents": ["predict", "member_outputs"],
}
CODE = """
import json, sys
import numpy as np, pandas as pd
import nrs
asked = json.loads(sys.argv[1])
X = pd.read_parquet("rows.parquet")
for case, (kind, methods) in asked.items():
    model = getattr(nrs, kind).load(case)
    for rows, part in (("all", X), ("one", X[:1])):
        found = {}
        for name in methods:
            answer = getattr(model, name)(part)
            found[name] = np.hstack(answer) if isinstance(answer, list) else np.asarray(answer)
        assert "torch" not in sys.modules, f"{case} imports torch"
        np.savez(f"{case}.{rows}.npz", **found)
# What needs it, imports it, and changes no answer.
assert model.network_.shares.shape and "torch" in sys.modules
assert np.array_equal(model.predict(X[:1]), found["predict"])
"""


def run(code, argument, cwd):
    done = subprocess.run(
        [sys.executable, "-c", code, argument], capture_output=True, text=True, cwd=cwd
    )
    assert not done.returncode, done.stderr


def frame():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(N, 4)), columns=list("abcd"))
    X["e"] = rng.choice(["x", "y", "z"], N)
    X["f"] = pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(N), "D")
    return X


def fitted(case):
    X = frame()
    number = X["a"] + (X["e"] == "x")
    classes = np.where(number > 0.5, "yes", "no")
    if case == "classes":
        return nrs.NRSClassifier(**SETTINGS, class_weight="balanced").fit(X, classes)
    if case == "labels":
        return nrs.NRSClassifier(**SETTINGS).fit(X, np.column_stack([number > 0, X["b"] > 0]) * 1)
    if case == "columns":
        y = np.column_stack([classes, X["e"].to_numpy(dtype=object)])
        return nrs.NRSClassifier(**SETTINGS).fit(X, y)
    if case == "documents":
        grades = np.digitize(number, [0, 1])
        return nrs.NRSRanker(**SETTINGS, loss="wass_rank").fit(X, grades, qid=np.arange(N) // 8)
    own = {
        "numbers": ({}, number),
        "quantiles": ({"quantiles": (0.1, 0.5, 0.9)}, number),
        "counts": ({"loss": "poisson"}, np.maximum(number, 0)),
        "times": ({"loss": "aft"}, np.column_stack([np.exp(number), np.exp(number)])),
        "monotone": ({"monotone": {"a": 1}}, number),
    }
    chosen, y = own[case]
    return nrs.NRSRegressor(**SETTINGS, **chosen).fit(X, y)


def test_loaded_forests_answer_without_torch_and_as_the_fitted_ones(tmp_path):
    models, X = {case: fitted(case) for case in ASKED}, frame()
    for case, model in models.items():
        model.save(tmp_path / case)
    X.to_parquet(tmp_path / "rows.parquet")
    asked = {case: (type(models[case]).__name__, ASKED[case]) for case in ASKED}
    run(CODE, json.dumps(asked), cwd=tmp_path)
    for case, methods in ASKED.items():
        for rows, part in (("all", X), ("one", X[:1])):
            with np.load(tmp_path / f"{case}.{rows}.npz") as found:
                for name in methods:
                    ours = getattr(models[case], name)(part)
                    ours = np.hstack(ours) if isinstance(ours, list) else np.asarray(ours)
                    assert np.array_equal(found[name], ours), (case, rows, name)


COMMANDS = [
    ["--help"],
    ["predict", "--help"],
    ["fit", "--help"],
    ["info", "model"],
    ["predict", "model", "rows.csv", "--probabilities", "--sets", "0.9"],
    ["predict", "model", "rows.csv", "-o", "out.parquet"],
    ["evaluate", "model", "rows.csv", "--target", "label"],
]
MAIN = """
import json, sys
import nrs
from nrs.cli.main import main
for arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as done:
        assert not done.code, (arguments, done.code)
    assert "torch" not in sys.modules, f"nrs {arguments} imports torch"
"""


def test_commands_on_a_table_model_need_no_torch(tmp_path):
    model, X = fitted("classes"), frame()
    model.save(tmp_path / "model")
    X.assign(label=model.predict(X)).to_csv(tmp_path / "rows.csv", index=False)
    run(MAIN, json.dumps(COMMANDS), cwd=tmp_path)
    found = pd.read_parquet(tmp_path / "out.parquet")["prediction"]
    assert np.array_equal(found, model.predict(X))


@pytest.mark.usefixtures("without_engine")
def test_without_the_engine_torch_answers_for_a_model_that_had_it(tmp_path):
    instructions.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NRS_ENGINE")
        instructions.cache_clear()
        model = fitted("numbers")
        model.save(tmp_path / "model")
    instructions.cache_clear()
    loaded = nrs.NRSRegressor.load(tmp_path / "model")
    assert not isinstance(loaded.predictor_, Folded)
    X = frame()
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-5, atol=1e-5)
    # One that was pickled where the engine is.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nrs.engine.forest._load", lambda: (None, "not here"))
        again = pickle.loads(pickle.dumps(model))
    assert isinstance(again.predictor_, Folded)
    for one, other in zip(again.predict_interval(X), loaded.predict_interval(X), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_target_of_the_users_own_gets_tensors(tmp_path):
    X = frame()
    model = nrs.NRSRegressor(**SETTINGS, loss=Doubled()).fit(X, X["a"])
    model.save(tmp_path / "model")
    loaded = nrs.NRSRegressor.load(tmp_path / "model", loss=Doubled())
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert len(loaded.predict_interval(X)) == 2


class Doubled(RegressionTarget):
    """A target that is no part of nrs."""

    kind = "doubled"

    def __init__(self, mean=None, std=None, *, single=True):
        super().__init__(np.zeros(1), np.ones(1), single=single)

    def learned(self, y, offset=None):
        return self

    def answer(self, outputs):
        return 2 * outputs.double().numpy()[:, 0]

    def truth(self, y):
        return 2 * y.double().numpy()[:, 0]
