"""AutoGluon on two mixed tables: trained, bagged, ensembled, refitted and persisted."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

tabular = pytest.importorskip("autogluon.tabular", reason="needs autogluon.tabular")
from nrs import NRSClassifier, NRSRegressor  # noqa: E402
from nrs.autogluon import NRSModel  # noqa: E402
from tests.integrations.documents import run_section  # noqa: E402

pytestmark = pytest.mark.integration
FOLDER = Path(os.environ.get("NRS_DATA", "")) / "mixed"
QUICK = {"preset": "fast", "epochs": 8}


@pytest.mark.parametrize("name", ["eucalyptus", "titanic"])
def test_it_is_bagged_ensembled_refitted_and_persisted(name, tmp_path):
    path = FOLDER / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"needs {path}; set NRS_DATA")
    frame = pd.read_parquet(path).sample(frac=1, random_state=0)
    train, test = frame[: len(frame) * 3 // 4], frame[len(frame) * 3 // 4 :]
    predictor = tabular.TabularPredictor(
        "target", eval_metric="log_loss", path=str(tmp_path / "models"), verbosity=0
    )
    predictor.fit(
        train,
        hyperparameters={NRSModel: {"preset": "fast"}, "GBM": {"num_boost_round": 60}},
        num_bag_folds=3,
        num_bag_sets=1,
        num_stack_levels=0,
        ag_args_ensemble={"fold_fitting_strategy": "sequential_local"},
        num_cpus=1,
        num_gpus=0,
        dynamic_stacking=False,
    )
    board = predictor.leaderboard(test).set_index("model")
    assert {"NRS_BAG_L1", "LightGBM_BAG_L1", "WeightedEnsemble_L2"} <= set(board.index)
    weights = predictor.info()["model_info"]["WeightedEnsemble_L2"]["children_info"]["S1F1"][
        "model_weights"
    ]
    print(f"\n{name}: weights {weights}; log-loss {(-board['score_test']).round(3).to_dict()}")
    assert weights.get("NRS_BAG_L1", 0) > 0
    refitted = predictor.refit_full()
    again = tabular.TabularPredictor.load(str(tmp_path / "models"))
    for model in ("NRS_BAG_L1", refitted["NRS_BAG_L1"], "WeightedEnsemble_L2"):
        chances = predictor.predict_proba(test, model=model)
        assert np.isfinite(chances.to_numpy()).all()
        assert again.predict_proba(test, model=model).equals(chances)


@pytest.mark.parametrize(
    ("problem", "kind"), [("binary", NRSClassifier), ("regression", NRSRegressor)]
)
def test_its_answers_are_those_of_the_estimator(problem, kind, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=90), "b": pd.Categorical(rng.choice(["x", "y"], 90))})
    y = X["a"] if problem == "regression" else (X["a"] > 0).astype(int)
    model = NRSModel(
        path=str(tmp_path),
        name="m",
        problem_type=problem,
        hyperparameters=QUICK | {"random_state": 3},
    )
    model.fit(X=X, y=y, num_cpus=1, num_gpus=0, time_limit=60)
    assert isinstance(model.model, kind)
    alone = kind(**QUICK, random_state=3, time_limit=54).fit(X, y)
    found = model.predict_proba(X)
    wanted = alone.predict(X) if problem == "regression" else alone.predict_proba(X)[:, 1]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_the_document_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "NRS" in "".join(run_section("AutoGluon")["predictor"].model_names())
