"""The header of a table's model file: every kind of model has one, and no contradiction passes."""

import json

import numpy as np
import pytest

from benchmarks.fuzz.forged import put
from benchmarks.fuzz.specimens import TABLES, rows_for, specimen
from nrs.tabular.header import SHOWN, estimator_name, recipe_schema, require
from nrs.training import ModelFileError, read_model
from nrs.training.schema import check_header, integer
from tests.forged import load_forged

ENCODER, NUMBERS = ("encoder",), ("encoder", "numbers")
COLOUR, TWO, WHEN = (("encoder", "columns", place, "state") for place in range(3))
SPARSE = ("encoder", "sparse")
# What files of earlier versions do not have.
LATER = ("about", "oob_score", "residuals", "scales", "bounds", "far", "absent")


@pytest.mark.parametrize("name", TABLES)
def test_every_kind_of_model_round_trips(tmp_path, name):
    one, path = specimen(name), tmp_path / "model.safetensors"
    first = load_forged(path, one)
    first.save(tmp_path / "again.safetensors")
    again = read_model(tmp_path / "again.safetensors")
    assert json.dumps(again.header) == json.dumps(one.file.header)
    for before, after in zip(one.answer(first), one.answer(load_forged(path, one)), strict=True):
        assert np.array_equal(before, after)
    if one.file.kind == "table":
        assert check_header(again.header, SHOWN)["estimator"] == type(first).__name__


def test_headers_of_earlier_versions_are_read(tmp_path):
    one = specimen("number")
    header = {key: entry for key, entry in one.file.header.items() if key not in LATER}
    numbers = {
        key: entry for key, entry in header["encoder"]["numbers"].items() if key not in LATER
    }
    header["encoder"] = header["encoder"] | {"numbers": numbers}
    header["recipe"] = {key: entry for key, entry in header["recipe"].items() if key != "levels"}
    header["forest"] = {key: entry for key, entry in header["forest"].items() if key != "n_levels"}
    loaded = load_forged(tmp_path / "model.safetensors", one, header=header)
    assert loaded.recipe_.levels == 0
    assert np.isfinite(loaded.predict(rows_for(loaded.encoder_))).all()


def test_intervals_of_earlier_files_are_wider_beyond_their_usual_spread(tmp_path):
    one, path = specimen("number"), tmp_path / "model.safetensors"
    header = {key: entry for key, entry in one.file.header.items() if key != "scales"}
    widths = []
    for spread in (1e9, 1e-9):
        loaded = load_forged(path, one, header=header | {"spread": [spread]})
        low, high = loaded.predict_interval(rows_for(loaded.encoder_))
        widths.append(high - low)
    np.testing.assert_allclose(widths[0], widths[0][0], rtol=1e-5)
    assert (widths[1] > widths[0]).all()
    # They do not say what a deviation is: it is that of the members.
    assert (loaded.predict(rows_for(loaded.encoder_), return_std=True)[1] >= 0).all()


@pytest.mark.parametrize(
    ("name", "place", "value", "match"),
    [
        # Columns.
        ("classes", (*ENCODER, "n_features_in"), 7, "kinds must have one item per column"),
        ("classes", (*ENCODER, "names"), ["a"], "names must have one item per column"),
        ("classes", (*ENCODER, "names", 0), "gaps", "names must differ"),
        ("classes", (*ENCODER, "kinds", 0), "date", "of the kinds that"),
        ("classes", (*ENCODER, "kinds", 3), "date", "unknown key 'levels'"),
        ("classes", (*NUMBERS, "center"), [0.0], "lists of one length"),
        ("classes", (*NUMBERS, "source", 0), 99, "columns that exist"),
        ("classes", (*NUMBERS, "source", 0), 1, "each column once"),
        ("classes", (*NUMBERS, "scale", 0), 0.0, "scale must be above 0"),
        ("classes", (*NUMBERS, "bounds", 0), [1.0, -1.0], "bounds must be in order"),
        ("classes", (*NUMBERS, "value_at", 0), -1, "tensor"),
        ("classes", (*WHEN, "high"), -1e18, "bounds of a date"),
        ("classes", (*WHEN, "parts"), ["year"], "one of 'month', 'weekday', 'hour'"),
        ("classes", (*COLOUR, "levels", 0), "red", "each level once"),
        ("classes", (*COLOUR, "n_own"), 9, "as many levels as features"),
        ("classes", (*COLOUR, "binary"), True, "binary category must have two levels"),
        ("classes", (*COLOUR, "counts"), [1], "count all of its levels"),
        ("classes", (*COLOUR, "counts"), [1, 2, 3], "deviation above 0"),
        ("many levels", (*COLOUR, "frequency_std"), 1e-300, "deviation above 0"),
        ("level means", (*COLOUR, "means", "places"), [0], "a sum per level"),
        ("level means", (*COLOUR, "means", "places", 0), 999, "levels, in their order"),
        ("level means", (*COLOUR, "means", "n_folds"), 7, "a sum per level"),
        ("level means", (*COLOUR, "means", "mean"), [], "a mean and a scale per output"),
        ("level means", (*COLOUR, "means", "scale", 0), 0.0, "from 1e-16"),
        ("classes", ("parameters", "categorical_features"), ["none"], "names 'none'"),
        ("classes", ("parameters", "categorical_features"), [99], "has index 99"),
        ("classes", ("parameters", "categorical_features"), [5], "columns of categories"),
        ("sparse", (*ENCODER, "kinds", 0), "boolean", "columns of numbers only"),
        ("sparse", (*SPARSE, "scale"), [1.0], "one item per column"),
        ("sparse", (*SPARSE, "scale", 0), 0.0, "scale and bound above 0"),
        ("sparse", (*SPARSE, "bound"), 0.0, "scale and bound above 0"),
        ("sparse", (*SPARSE, "kept"), [1, 0], "kept must ascend"),
        ("sparse", (*SPARSE, "kept"), [99], "columns that exist"),
        ("classes", SPARSE, {"kept": [], "scale": [1.0] * 8}, "columns of numbers only"),
        # Targets.
        ("classes", ("target", "classes", "values"), ["b", "a", "c"], "classes must ascend"),
        ("classes", ("target", "classes", "dtype"), "<U9999999", "about as wide as its labels"),
        ("classes", ("target", "classes", "dtype"), "V8", "must be a dtype of labels"),
        ("classes", ("target", "classes", "values", 0), 1, "must be a text"),
        ("classes", ("target", "kind"), "regression", "one of 'classes', 'columns', 'multilabel'"),
        ("number", ("target", "kind"), "classes", "one of 'regression'"),
        ("numbers", ("target", "std"), ["0x1p0"], "the same length"),
        ("numbers", ("target", "single"), True, "target must be single"),
        ("number", ("target", "mean", 0), "inf", "text of a finite number"),
        # What else must fit columns and targets.
        ("classes", ("importances",), ["0x1p0"], "importances must have one item per column"),
        ("classes", ("forest",), None, "forest must be there with members"),
        ("boolean classes", ("recipe", "members"), 4, "forest must be there with members"),
        ("classes", ("forest", "in_features"), 5, "number of encoded features"),
        ("classes", ("forest", "n_levels"), 10_000, "at most n_bins"),
        ("labels", ("residuals",), [[0.5]], "numbers or classes"),
        ("classes", ("residuals",), [[0.5, 0.5]], "one number per output"),
        ("numbers", ("residuals",), [[0.5]], "residuals must have one number per output"),
        ("numbers", ("scales", 0, "places"), [1.0, 0.0], "ascending places"),
        ("numbers", ("scales", 0, "values"), [1.0, 0.0], "a value per place"),
        ("numbers", ("scales", 0, "low"), 900.0, "low and high in order"),
        ("numbers", ("residuals",), None, "come with header.residuals"),
        ("numbers", ("about", "target"), ["a"], "target must name every output"),
        ("classes", ("about",), {"labels": [["a", "b"]]}, "labels must be those of every output"),
        # Of the classes that have more to say.
        ("ranker", ("qid_column",), "when", "none of the columns that are read"),
        ("scaled ranker", ("query_scaler",), ["0x1p0"], "one number per dense feature"),
        ("tree", ("tree", 0, "children"), [0, 0], "Cannot load"),
        ("forest", ("recipe", "tree_depth"), 33, "an integer from 1 to 32"),
        ("mlp", ("estimator",), "NRSClassifier", "holds a model of NRSClassifier"),
    ],
)  # fmt: skip
def test_a_contradiction_is_refused_and_named(tmp_path, name, place, value, match):
    path = tmp_path / "model.safetensors"
    with pytest.raises(ModelFileError, match=match) as caught:
        load_forged(path, specimen(name), place, value)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize(
    ("place", "value"),
    [(("scales", 0, "places"), [2**63]), (("residuals",), [[2**63]]), ((*WHEN, "center"), 10**40)],
)
def test_integers_of_any_size_are_numbers(tmp_path, place, value):
    one = specimen("number")
    # Bounds of a date would have to suit its centre.
    header = put(put(one.file.header, (*WHEN, "low"), None), place, value)
    answers = one.answer(load_forged(tmp_path / "model.safetensors", one, header=header))
    assert all(np.isfinite(answer).all() for answer in answers)


def test_a_recipe_may_have_fields_of_its_own_and_of_later_versions():
    schema = recipe_schema(n_trees=integer(1, 9))
    found = check_header({"n_mul": 1, "n_trees": 3, "later": [1]}, schema)
    assert found["hidden"] == (256, 256)
    assert found["later"] == [1]
    with pytest.raises(ModelFileError, match=r"header\.n_trees must be an integer from 1 to 9"):
        check_header({"n_mul": 1, "n_trees": 10}, schema)


def test_the_estimator_is_known_before_the_rest():
    assert estimator_name({"estimator": "Other", "else": [None]}) == "Other"
    with pytest.raises(ModelFileError, match="must have the key 'estimator'"):
        estimator_name({})


def test_require():
    require(True, "nothing")
    with pytest.raises(ModelFileError, match="something"):
        require(False, "something")
