"""The decision threshold: learned out of bag, kept by files and ONNX, refused where it is none."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, f1_score

from nrs import NRSClassifier
from nrs.files.scores import score_oob
from nrs.tabular.threshold import find_threshold

QUICK = {"preset": "fast", "epochs": 4, "random_state": 0, "verbose": 0}
SCORES = {"balanced": balanced_accuracy_score, "f1": f1_score}


def rare(n, seed):
    """One row in ten is of the second class."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 1.8, "yes", "no")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["balanced", "f1"]), st.integers(4, 40))
def test_no_other_threshold_is_better(seed, rule, n):
    rng = np.random.default_rng(seed)
    chances, truth = rng.integers(0, 8, n) / 7, rng.random(n) < 0.4
    truth[:2] = [True, False]
    weights = rng.integers(0, 3, n).astype(float)
    weights[:2] = 1
    found = find_threshold(rule, np.arange(2), truth, chances, weights)

    def score(cut):
        return SCORES[rule](truth, chances >= cut, sample_weight=weights)

    cuts = [(low + high) / 2 for low, high in zip(range(7), range(1, 8), strict=True)]
    inside = [cut / 7 for cut in cuts if chances.min() < cut / 7 < chances.max()]
    assert all(score(found) >= score(cut) - 1e-12 for cut in inside)


@pytest.mark.parametrize("rule", ["balanced", "f1"])
def test_a_learned_threshold_is_better_on_new_rows(rule):
    X, y = rare(1500, 0)
    new, truth = rare(3000, 1)
    plain, model = (NRSClassifier(**QUICK, threshold=t).fit(X, y) for t in (None, rule))
    np.testing.assert_array_equal(plain.predict_proba(new), model.predict_proba(new))
    assert (plain.threshold_, model.threshold_ < 0.45) == (0.5, True)

    def score(one):
        return SCORES[rule](truth == "yes", one.predict(new) == "yes")

    assert score(model) > score(plain) + 0.03
    # The score out of bag is that of the labels that are predicted.
    share = np.mean(score_oob(model, y).predicted == y)
    assert model.oob_score_ == pytest.approx(share)
    assert model.oob_score_ < plain.oob_score_


def test_a_function_decides():
    X, y = rare(800, 0)

    def recall_first(truth, predicted):
        return np.mean(predicted[truth == "yes"] == "yes") - 0.1 * np.mean(predicted == "yes")

    model = NRSClassifier(**QUICK, threshold=recall_first).fit(X, y)
    assert np.mean(model.predict(X)[y == "yes"] == "yes") > 0.9


def test_files_and_onnx_keep_it(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    X, y = rare(600, 0)
    model = NRSClassifier(**QUICK, threshold="f1").fit(pd.DataFrame(X, columns=list("abc")), y)
    new = pd.DataFrame(rare(300, 2)[0], columns=list("abc"))
    model.save(tmp_path / "m")
    loaded = NRSClassifier.load(tmp_path / "m")
    assert loaded.threshold_ == model.threshold_
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    model.to_onnx(tmp_path / "m.onnx")
    session = runtime.InferenceSession(tmp_path / "m.onnx")
    cells = {name: new[name].to_numpy()[:, None] for name in new}
    assert session.run(None, cells)[0].tolist() == model.predict(new).tolist()


def test_a_number_is_taken_as_it_is():
    X, y = rare(300, 0)
    for preset in ("fast", "single"):
        model = NRSClassifier(**QUICK | {"preset": preset}, threshold=0.2).fit(X, y)
        expected = np.where(model.predict_proba(X)[:, 1] >= 0.2, "yes", "no")
        assert model.predict(X).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("settings", "labels", "match"),
    [
        ({"threshold": 1.5}, 2, "got 1.5"),
        ({"threshold": True}, 2, "got True"),
        ({"threshold": "recall"}, 2, "got 'recall'"),
        ({"threshold": "f1"}, 3, "y has 3"),
        ({"threshold": 0.3, "preset": "single"}, 3, "y has 3"),
        ({"threshold": "f1", "preset": "single"}, 2, "a single network has none"),
    ],
)
def test_what_is_no_threshold_is_refused(settings, labels, match):
    X = rare(60, 0)[0]
    with pytest.raises(ValueError, match=match):
        NRSClassifier(**QUICK | settings).fit(X, np.arange(60) % labels)


def test_several_labels_have_none():
    X = rare(60, 0)[0]
    with pytest.raises(ValueError, match="several labels per row"):
        NRSClassifier(**QUICK, threshold=0.3).fit(X, np.eye(3, dtype=int)[np.arange(60) % 3])


def test_partial_fit_learns_a_threshold():
    X, y = rare(400, 0)
    given = NRSClassifier(**QUICK, threshold=0.3).partial_fit(X, y)
    learned = NRSClassifier(**QUICK, threshold="f1").partial_fit(X, y)
    assert given.threshold_ == 0.3
    assert 0 < learned.threshold_ < 1
