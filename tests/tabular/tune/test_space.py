"""Which settings are searched, and which are refused."""

import pytest
from sklearn.datasets import load_iris

from nrs import NRSClassifier, NRSRanker

pytest.importorskip("optuna")
from nrs.tabular.tune.space import check_space, default_space

X, Y = load_iris(return_X_y=True)


def small(**settings):
    return NRSClassifier(**{"preset": "fast", "epochs": 3, "random_state": 0} | settings)


def test_what_the_user_set_is_not_searched():
    own = {"lr": 1e-2, "dropout": 0.0, "hidden": 8, "n_mul": 1}
    space = default_space(small(**own).fit(X, Y))
    assert sorted(space) == ["batch_size", "n_h", "weight_decay"]


def test_the_default_space_lies_around_the_preset_s_values():
    model = small().fit(X, Y)
    space = default_space(model)
    assert (space["dropout"].low, space["dropout"].high) == (0.0, 0.5)
    assert space["n_h"].choices == ("1", "2", "3", "4")
    lr = space["lr"]
    assert (lr.low, lr.high, lr.log) == (model.lr_ / 5, model.lr_ * 5, True)
    assert str(list(model.hidden_)) in space["hidden"].choices
    assert "epochs" not in space


def test_a_space_in_optuna_s_form():
    space = {
        "n_h": (1, 3),
        "lr": (1e-4, 1e-2, "log"),
        "hidden": [64, [64, 64]],
        "dropout": (0, 0.5),
    }
    found = check_space(space, small())
    assert found["hidden"].choices == ("64", "[64, 64]")
    ranges = [(type(one).__name__, one.low, one.high, one.log) for name, one in found.items()
              if name != "hidden"]  # fmt: skip
    assert ranges == [
        ("IntDistribution", 1, 3, False),
        ("FloatDistribution", 1e-4, 1e-2, True),
        ("FloatDistribution", 0.0, 0.5, False),
    ]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, "must map names"),
        ({"speed": [1]}, "'speed'"),
        ({"metric": ["f1"]}, "'metric'"),
        ({"preset": ["fast", "best"]}, "'preset': a forest is scored out of bag"),
        ({"class_weight": ["balanced", None]}, "'class_weight': rows then count"),
        ({"n_mul": [0, 1]}, "a forest; got 0, which makes it a single network"),
        ({"n_mul": (0, 4)}, "a forest; got 0, which makes it a single network"),
        ({"n_per": [None, 2]}, "a forest; got 2, which makes it a single network"),
        ({"layout": ["paper"]}, "a forest; got 'paper', which makes it a single"),
        ({"lr": []}, r"one or more numbers.*got \[\]"),
        ({"lr": [object()]}, "must list one or more numbers"),
        ({"lr": (0.0, 1.0, "log")}, "above 0 if 'log'"),
        ({"lr": (1.0, 0.1)}, "low ≤ high"),
        ({"lr": (0.1, float("inf"))}, "of finite numbers"),
        ({"n_h": (True, 3)}, "of finite numbers"),
        ({"lr": (0.1, 1.0, "linear")}, "must be a list of choices"),
        ({"lr": 0.1}, "must be a list of choices"),
        ({"n_h": [0]}, "n_h must be an integer"),
    ],
)
def test_refusals(space, message):
    with pytest.raises(ValueError, match=message):
        check_space(space, NRSClassifier())


@pytest.mark.parametrize("space", [{"n_mul": [0, 1]}, {"n_per": [None, 2]}, {"layout": ["paper"]}])
def test_a_preset_that_is_always_a_forest_stays_one(space):
    with pytest.raises(ValueError, match="preset='fast' is a forest, which has no n_mul=0"):
        check_space(space, small())


def test_a_ranker_stays_a_forest_too():
    assert check_space({"n_mul": [1, 2]}, NRSRanker())
    with pytest.raises(ValueError, match="a forest; got 0, which makes it a single network"):
        check_space({"n_mul": [0, 1]}, NRSRanker())


def test_a_single_network_stays_one():
    for settings in ({"preset": "single"}, {"preset": "default", "n_per": 2}):
        space = check_space({"n_mul": [0, 4], "n_per": [1, 2]}, NRSClassifier(**settings))
        assert {name: one.choices for name, one in space.items()} == {
            "n_mul": ("0", "4"),
            "n_per": ("1", "2"),
        }
    with pytest.raises(ValueError, match="a single network; got None, which makes it a forest"):
        check_space({"n_per": [1, None]}, NRSClassifier(n_per=2))
