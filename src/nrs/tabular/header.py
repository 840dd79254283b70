"""What the header of a table's model file may say, and what in it must agree.

A schema checks each value by itself. `check_agreement` then checks what a schema cannot say, on
the objects made of the header: lengths, indices, kinds, bounds. After both, and after the network
has got its tensors, a model reads only features it has, and encodes every table to finite numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from nrs.datasets.dialects import COMPOUNDS, NUMBER_FORMS
from nrs.datasets.reading import KINDS as PLANNED
from nrs.datasets.reading import ORDERS
from nrs.tabular.encode.category import CategoryEncoder
from nrs.tabular.encode.date import PARTS, DateEncoder
from nrs.tabular.encode.encoder import KINDS, STATE_VERSION, TableEncoder
from nrs.tabular.encode.level_means import LevelMeans
from nrs.tabular.encode.number import LIMIT, NumberEncoder
from nrs.tabular.encode.table import Table, categorical_columns, text_columns
from nrs.tabular.encode.text import TextEncoder, unpack
from nrs.tabular.parameters import from_json
from nrs.tabular.recipe import Recipe
from nrs.tabular.targets import TARGETS, LossTarget, Target, target_from_state
from nrs.training.schema import (
    MAX_ITEMS,
    ModelFileError,
    Schema,
    anything,
    check_header,
    choice,
    either,
    field_defaults,
    flag,
    hex_number,
    integer,
    list_of,
    mapping,
    number,
    optional,
    plain,
    record,
    scalar,
    tagged,
    text,
)

if TYPE_CHECKING:
    from nrs.tabular.types import Json


def real(least: float = -math.inf, most: float = math.inf) -> Schema[float]:
    """A finite number as a float: arrays of integers beyond 64 bits are arrays of objects."""
    check = number(least, most)
    return lambda value, place: float(check(value, place))


COUNT = integer(0, 1 << 53)
SIZE = integer(1, 1 << 31)
MAX_LAYERS = 1_000
# Characters of class labels in memory, where each takes the room of the longest: so many, or so
# many times those of the file.
MAX_LABELS, MAX_LABEL_SHARE = 1 << 22, 16
# A frequency is divided by its deviation; log(1 + rows) is below 100.
MIN_DEVIATION = 1e-16
# A direction of texts is divided by its deviation, at least MIN_STRENGTH of encode/text.py.
MAX_FACTOR = 2e4
# Standardised targets are within ±LIMIT, and so are almost all predictions.
MAX_ERROR = 10 * LIMIT
# Scores of a fit that had nothing to score on may be NaN.
_ANY_HEX = either(hex_number(), choice("nan", "inf", "-inf"))
_SHARE = optional(number(0, 1))
_PAIR = list_of(optional(real()), 2, 2)
_SCALE = choice("standard", "none")


RECIPE_FIELDS: dict[str, Schema[object]] = {
    "n_mul": integer(0, 1 << 24),
    "n_per": integer(1, 1 << 24),
    "n_h": integer(1, 1 << 10),
    # Those of nrs.core.permutations, which would import torch.
    "layout": choice("code", "paper"),
    "depth": choice(1, 2),
    "hidden": list_of(SIZE, 0, MAX_LAYERS),
    "dropout": number(0, 1),
    "input_dropout": number(0, 1),
    "scale": _SCALE,
    "epochs": COUNT,
    "cycles": COUNT,
    "batch_size": COUNT,
    "lr": number(),
    "weight_decay": number(),
    "optimizer": text(100),
    "schedule": text(100),
    "warmup": number(),
    "ema": optional(number()),
    "clip_norm": optional(number()),
    "patience": optional(COUNT),
    "validation_fraction": number(0, 1),
    "metric": text(),
    "members": integer(0, 1 << 20),
    "subspaces": COUNT,
    "columns": COUNT,
    "bins": COUNT,
    "views": list_of(list_of(either(text(20), number(0)), 2, 2), 0, MAX_LAYERS),
    "least_gain": number(),
    "levels": COUNT,
    "monotone": list_of(list_of(either(text(MAX_ITEMS), integer(-(1 << 31), 1 << 31)), 2, 2)),
}


def recipe_schema(recipe: type = Recipe, **own: Schema[object]) -> Schema[Json]:
    """A recipe, or one with further fields; later versions may have more, which are not used."""
    fields = RECIPE_FIELDS | own
    return record(fields, defaults=field_defaults(recipe), others=anything)


_NUMBER_FIELDS: dict[str, Schema[object]] = {
    "source": list_of(COUNT),
    "center": list_of(real()),
    "scale": list_of(real(0)),
    "fill": list_of(real()),
    "value_at": list_of(integer(-1, MAX_ITEMS)),
    "missing_at": list_of(integer(-1, MAX_ITEMS)),
}
_LATER_NUMBER_FIELDS: dict[str, Schema[object]] = {
    "bounds": list_of(_PAIR),
    "far": list_of(optional(_PAIR)),
    "absent": list_of(_SHARE),
}
_DATE: dict[str, Schema[object]] = {
    "center": real(),
    "scale": real(0),
    "parts": list_of(choice(*PARTS), 0, len(PARTS)),
    "missing": flag,
    "low": optional(real()),
    "high": optional(real()),
    "far": optional(list_of(real(), 2, 2)),
    "absent": _SHARE,
}
_MEANS = record(
    {
        "places": list_of(COUNT, 1),
        "outputs": list_of(COUNT, 1),
        "n_folds": integer(1, 1 << 10),
        "sums": list_of(real(-LIMIT, LIMIT)),
        "mean": list_of(real(-LIMIT, LIMIT)),
        "scale": list_of(real(MIN_DEVIATION)),
        "prior": real(1, LIMIT),
        "earlier": list_of(list_of(real(-LIMIT, LIMIT))),
    },
    defaults={"earlier": []},
)
_CATEGORY: dict[str, Schema[object]] = {
    "means": optional(_MEANS),
    "levels": list_of(text(MAX_ITEMS)),
    "n_own": COUNT,
    "missing": flag,
    "other": flag,
    "binary": flag,
    "counts": list_of(COUNT),
    "frequency_mean": real(0, 100),
    "frequency_std": real(0, 100),
    "held": list_of(text(100), 0, 100),
    "absent": _SHARE,
    "later": list_of(text(MAX_ITEMS)),
    "n_later_own": COUNT,
}
_TEXT: dict[str, Schema[object]] = {
    **dict.fromkeys(
        ("alphabet", "words", "pieces", "rarity", "directions", "factor", "center"), text(MAX_ITEMS)
    ),
    "missing": flag,
    "absent": _SHARE,
}
_STATES = {
    "date": record(_DATE, absent=_DATE),
    "category": record(_CATEGORY, absent=_CATEGORY),
    "text": record(_TEXT, absent=_TEXT),
}
_SPARSE = record(
    {"kept": list_of(COUNT), "scale": list_of(real(0)), "bound": real(0, LIMIT)},
    defaults={"bound": LIMIT},
)
_PLAN: dict[str, Schema[object]] = {
    "decimal": choice(".", ","),
    "thousands": choice("", *{form[1] for form in NUMBER_FORMS}),
    "units": list_of(text(100), 0, 100),
    "compound": choice("", *COMPOUNDS),
    "order": choice("", *ORDERS),
    "sentinels": list_of(real(), 0, 1000),
    "missing": list_of(text(MAX_ITEMS), 0, 1000),
    "reads_text": flag,
}


def _plan(value: object, place: str) -> Json:
    """How texts are read, which says an order of dates and only of these."""
    found = record({"kind": choice(*PLANNED), **_PLAN}, absent=_PLAN)(value, place)
    dated = (found["kind"] == "date") == bool(found.get("order"))
    require(dated, f"{place}.order must be that of dates")
    return found


_ENCODER_STATE = record(
    {
        "version": choice(STATE_VERSION),
        "scale": _SCALE,
        "max_levels": SIZE,
        "n_features_in": SIZE,
        "names": optional(list_of(text(MAX_ITEMS), 1)),
        "kinds": list_of(choice(*KINDS), 1),
        "numbers": record(_NUMBER_FIELDS | _LATER_NUMBER_FIELDS, absent=_LATER_NUMBER_FIELDS),
        "columns": list_of(record({"index": COUNT, "first": COUNT, "state": anything})),
        "sparse": optional(_SPARSE),
        "plans": list_of(record({"index": COUNT, "plan": _plan})),
        "profile": optional(
            record(
                {
                    "features": list_of(COUNT, 1),
                    "points": list_of(list_of(real(-LIMIT, LIMIT), 1)),
                    "below": list_of(list_of(real(0, 1), 1)),
                    "n_rows": SIZE,
                }
            )
        ),
    },
    defaults={"plans": [], "profile": None},
)


def _encoder(value: object, place: str) -> Json:
    """The state of an encoder, whose columns agree with each other."""
    state = _ENCODER_STATE(value, place)
    kinds, names = state["kinds"], state["names"]
    require(state["n_features_in"] == len(kinds), f"{place}.kinds must have one item per column")
    named = names is None or len(names) == len(kinds)
    require(named, f"{place}.names must have one item per column")
    require(names is None or len(set(names)) == len(names), f"{place}.names must differ")
    lengths = {len(values) for values in state["numbers"].values()}
    require(len(lengths) == 1, f"{place}.numbers must have lists of one length")
    numbers = state["numbers"]["source"]
    encoded = [*numbers, *(entry["index"] for entry in state["columns"])]
    require(max(encoded, default=0) < len(kinds), f"{place} must encode columns that exist")
    require(len(set(encoded)) == len(encoded), f"{place} must encode each column once")
    together = set(numbers)
    right = all((KINDS[kinds[one]] is NumberEncoder) == (one in together) for one in encoded)
    require(right, f"{place}.columns must be of the kinds that {place}.kinds says")
    for at, entry in enumerate(state["columns"]):
        own = _STATES[kinds[entry["index"]]]
        entry["state"] = own(entry["state"], f"{place}.columns[{at}].state")
    planned = [entry["index"] for entry in state["plans"]]
    require(len(set(planned)) == len(planned), f"{place}.plans must plan each column once")
    right = all(
        one < len(kinds) and _suits(kinds[one], entry["plan"]["kind"])
        for one, entry in zip(planned, state["plans"], strict=True)
    )
    require(right, f"{place}.plans must be of the kinds that {place}.kinds says")
    if state["sparse"] is not None:
        _check_sparse(state["sparse"], kinds, f"{place}.sparse")
        require(not encoded, f"{place}.sparse must be the only encoder")
    return state


def _suits(kind: str, planned: str) -> bool:
    """Whether a column of a kind may be read by a plan of one."""
    return kind == planned or (planned == "category" and kind == "text")


def _check_sparse(state: Json, kinds: list[str], where: str) -> None:
    kept, scale = state["kept"], state["scale"]
    require(set(kinds) == {"number"}, f"{where} must have columns of numbers only")
    require(len(scale) == len(kinds), f"{where}.scale must have one item per column")
    require(min(scale) > 0 and state["bound"] > 0, f"{where} must have a scale and bound above 0")
    require(kept == sorted(set(kept)), f"{where}.kept must ascend")
    require(max(kept, default=0) < len(kinds), f"{where}.kept must be columns that exist")


_HISTORY = record(
    {
        "rows": list_of(mapping(either(number(), choice("nan", "inf", "-inf")))),
        "best_epoch": optional(COUNT),
        "stopped_early": flag,
    }
)
_ABOUT_FIELDS: dict[str, Schema[object]] = {
    "target": either(text(MAX_ITEMS), list_of(text(MAX_ITEMS))),
    "labels": optional(list_of(list_of(scalar, 2, 2))),
    "reading": optional(mapping(_plan)),
}
_ABOUT = record(_ABOUT_FIELDS, absent=_ABOUT_FIELDS, others=anything)
_LOG = real(-1e3, 1e3)
_ERROR_SCALE = record(
    {
        "places": list_of(real(-MAX_ERROR, MAX_ERROR), 1),
        "values": list_of(_LOG, 1),
        "slope": real(0, 1e3),
        "low": _LOG,
        "high": _LOG,
        "deviation": optional(real(0, MAX_ERROR)),
    }
)
_FOREST = record(
    {
        "in_features": SIZE,
        "index": list_of(SIZE, 3, 3),
        "n_bins": integer(0, 1 << 31),
        "n_levels": integer(0, 1 << 31),
    },
    defaults={"n_levels": 0},
)

# NumPy's names of the dtypes that class labels have, by the schema of a label.
_DTYPES: dict[str, Schema[object]] = {
    r"[<>|=]?b1": flag,
    r"[<>|=]?[iu][1248]": integer(-(1 << 63), 1 << 64),
    r"[<>|=]?f[248]": hex_number(),
    r"[<>|=]?U[0-9]{1,7}": text(MAX_ITEMS),
    r"[<>|=]?[Mm]8\[[0-9]{0,4}(Y|M|W|D|h|m|s|ms|us|ns)\]": integer(1 - (1 << 63), (1 << 63) - 1),
    r"object": either(text(MAX_ITEMS), flag, number()),
}


def _class_labels(value: object, place: str) -> Json:
    found = record({"dtype": text(40), "values": list_of(anything, 1)})(value, place)
    for pattern, schema in _DTYPES.items():
        if re.fullmatch(pattern, found["dtype"]):
            labels = list_of(schema)(found["values"], f"{place}.values")
            if "U" in pattern:
                room = int(re.sub(".*U", "", found["dtype"])) * len(labels)
                said = sum(len(str(one)) for one in labels)
                usual = room <= max(MAX_LABELS, MAX_LABEL_SHARE * said)
                require(usual, f"{place}.dtype must be about as wide as its labels")
            return found | {"values": labels}
    raise ModelFileError(f"{place}.dtype must be a dtype of labels; got {found['dtype']!r}")


_CLASS_FIELDS: dict[str, Schema[object]] = {
    "kind": text(),
    "classes": _class_labels,
    "threshold": number(0, 1),
    "class_weights": list_of(hex_number(0), 1),
}
_LATER_CLASS_FIELDS = ("threshold", "class_weights")
_LABEL_FIELDS: dict[str, Schema[object]] = {"kind": text(), "n_labels": integer(1, 1 << 20)}
# Of a function of the user's own the name.
_NAME: dict[str, Schema[object]] = {"name": text()}
# A target that is no part of nrs reads its state by itself.
_OWN = {"own": record({"kind": text(), **_NAME, "state": mapping(plain)})}
_CLASSES = record(_CLASS_FIELDS, absent=_LATER_CLASS_FIELDS)
_COLUMN_FIELDS: dict[str, Schema[object]] = {
    "kind": text(),
    "columns": list_of(tagged("kind", {"classes": _CLASSES}), 1),
    "temperatures": list_of(hex_number(1e-6, 1e6), 1),
}
_OF_CLASSES = {
    "classes": _CLASSES,
    "columns": record(_COLUMN_FIELDS),
    "multilabel": record(_LABEL_FIELDS),
    "own_classes": record(_CLASS_FIELDS | _NAME, absent=_LATER_CLASS_FIELDS),
    "own_multilabel": record(_LABEL_FIELDS | _NAME),
    **_OWN,
}
_NUMBERS: dict[str, Schema[object]] = {
    "kind": text(),
    "mean": list_of(hex_number(), 1),
    "std": list_of(hex_number(0), 1),
    "single": flag,
}
_OF_NUMBERS = {
    "regression": record(_NUMBERS),
    "own_regression": record(_NUMBERS | _NAME),
    **{
        name: record({"kind": text(), **kind.schema})
        for name, kind in TARGETS.items()
        if issubclass(kind, LossTarget)
    },
    **_OWN,
}
CLASSES, NUMBERS = tagged("kind", _OF_CLASSES), tagged("kind", _OF_NUMBERS)

_SCORES = mapping(number())
# What is shown of a header, whichever estimator saved it.
SHOWN = record(
    {
        "estimator": text(100),
        "encoder": _encoder,
        # A ranker's is of neither.
        "target": either(
            tagged("kind", _OF_CLASSES | _OF_NUMBERS),
            record({"kind": choice("ranking")}, others=anything),
        ),
        "recipe": mapping(plain),
        "about": optional(
            record(
                _ABOUT_FIELDS
                | {"scores": optional(_SCORES), "scores_by_target": optional(mapping(_SCORES))},
                absent=[*_ABOUT_FIELDS, "scores", "scores_by_target"],
                others=plain,
            )
        ),
    },
    defaults={"about": None},
    others=anything,
)


def table_header(
    parameters: Iterable[str],
    recipe: Schema[Json],
    target: Schema[Json],
    own: Mapping[str, Schema[object]],
) -> Schema[Json]:
    """The header of an estimator with these parameters, recipe, targets and further entries."""
    settings = dict.fromkeys(parameters, plain)
    fields: dict[str, Schema[object]] = {
        "estimator": text(100),
        "parameters": record(settings, absent=settings),
        "recipe": recipe,
        "encoder": _encoder,
        "target": target,
        "history": _HISTORY,
        "importances": list_of(_ANY_HEX, 1),
        "about": optional(_ABOUT),
        "oob_score": optional(_ANY_HEX),
        "residuals": optional(list_of(list_of(real(0, MAX_ERROR), 1), 1)),
        "spread": optional(list_of(real(0, MAX_ERROR), 1)),
        "scales": optional(list_of(_ERROR_SCALE, 1)),
        "forest": optional(_FOREST),
        **own,
    }
    later = dict.fromkeys(("about", "oob_score", "residuals", "spread", "scales", "forest"))
    return record(fields, defaults=later)


def estimator_name(header: Json) -> str:
    """The class that saved a header, before anything else of it is looked at."""
    name: str = check_header(header, record({"estimator": text(100)}, others=anything))["estimator"]
    return name


def check_agreement(header: Json, encoder: TableEncoder, target: Target, recipe: Recipe) -> None:
    """Refuse a header whose parts contradict each other.

    Parameters
    ----------
    header : as its schema returned it.
    encoder, target, recipe : made of it.

    Raises
    ------
    ModelFileError
        What must agree and does not.
    """
    _check_encoders(encoder)
    _check_declared(header["parameters"], encoder)
    _check_target(header["target"], target)
    forest = header["forest"]
    one_each = len(header["importances"]) == encoder.n_features_in_
    require(one_each, "header.importances must have one item per column")
    require((forest is None) == (recipe.members == 0), "header.forest must be there with members")
    if forest is not None:
        same = forest["in_features"] == encoder.n_features_out_
        require(same, "header.forest.in_features must be the number of encoded features")
        few = forest["n_levels"] <= forest["n_bins"]
        require(few, "header.forest.n_levels must be at most n_bins")
    spread = header["spread"]
    _check_errors(header["residuals"], "residuals", target, forest)
    _check_errors(None if spread is None else [spread], "spread", target, forest)
    _check_scales(header["scales"], header["residuals"], target)
    about = header["about"] or {}
    if target.several and about.get("target"):
        named = isinstance(about["target"], list) and len(about["target"]) == target.n_targets
        require(named, "header.about.target must name every output")
    if about.get("labels") is not None:
        fits = target.several and len(about["labels"]) == target.n_targets
        require(fits, "header.about.labels must be those of every output")


def require(condition: bool, message: str) -> None:
    """Raise ModelFileError with this message unless the condition holds."""
    if not condition:
        raise ModelFileError(message)


def _check_errors(
    rows: list[list[float]] | None, name: str, target: Target, forest: Json | None
) -> None:
    """Residuals and spread: of a forest, with one number per output, or one of all classes."""
    if rows is None:
        return
    classes = target.task == "classes" and name == "residuals"
    known = forest is not None and (classes or target.task == "regression")
    require(known, f"header.{name} must be that of a forest that predicts numbers or classes")
    fits = all(len(row) == (1 if classes else target.n_outputs) for row in rows)
    require(fits, f"header.{name} must have one number per output")


def _check_scales(
    scales: list[Json] | None, residuals: list[list[float]] | None, target: Target
) -> None:
    if scales is None:
        return
    known = residuals is not None and target.task == "regression"
    require(known, "header.scales must come with header.residuals of numbers")
    require(len(scales) == target.n_outputs, "header.scales must have one item per output")
    for scale in scales:
        places = scale["places"]
        ascending = all(low < high for low, high in pairwise(places))
        require(ascending, "header.scales must have ascending places")
        require(len(places) == len(scale["values"]), "header.scales must have a value per place")
        require(scale["low"] <= scale["high"], "header.scales must have low and high in order")


def _check_target(state: Json, target: Target) -> None:
    if "columns" in state:
        fits = len(state["temperatures"]) == target.n_targets
        require(fits, "header.target must have a temperature per column")
        for one in state["columns"]:
            _check_target(one, target_from_state(one))
    elif target.kind == "classes":
        ascending = bool(np.all(target.classes[:-1] < target.classes[1:]))
        require(ascending, "header.target.classes must ascend")
        weights = [float.fromhex(one) for one in state.get("class_weights", ())]
        require(len(weights) in (0, target.n_outputs), "header.target must weigh every class")
        fits = not weights or max(weights) > 0
        require(fits, "header.target.class_weights must not all be 0")
    elif "mean" in state:
        same = len(state["mean"]) == len(state["std"])
        require(same, "header.target.mean and .std must have the same length")
        require(not state["single"] or target.n_targets == 1, "header.target must be single")


def _check_encoders(encoder: TableEncoder) -> None:
    block, where = encoder.numbers, "header.encoder.numbers"
    require(bool((block.scale > 0).all()), f"{where}.scale must be above 0")
    require(bool((block.low < block.high).all()), f"{where}.bounds must be in order")
    for one in encoder.encoders.values():
        if isinstance(one, DateEncoder):
            _check_date(one)
        elif isinstance(one, CategoryEncoder):
            _check_category(one)
        elif isinstance(one, TextEncoder):
            _check_text(one)
    if (profile := encoder.profile) is not None:
        n_each = [len(one) for one in profile.points]
        same = n_each == [len(one) for one in profile.below]
        require(same and len(n_each) == len(profile.features), "header.encoder.profile must agree")
        known = max(profile.features, default=0) < encoder.n_features_out_
        require(known, "header.encoder.profile must be of features that exist")


def _check_declared(parameters: Json, encoder: TableEncoder) -> None:
    """Columns that the user declared are looked up in every table that is read."""
    table = Table((1, encoder.n_features_in_), lambda index: None, names=encoder.names)
    declared = categorical_columns(from_json(parameters.get("categorical_features")), table)
    right = all(encoder.kinds_[index] == "category" for index in declared)
    require(right, "header.parameters.categorical_features must be columns of categories")
    texts = text_columns(from_json(parameters.get("text_features")), table)
    right = all(encoder.kinds_[index] == "text" for index in texts or ())
    require(right, "header.parameters.text_features must be columns of text")


def _check_date(one: DateEncoder) -> None:
    if one.scale > 0 and one.low is not None and one.high is not None:
        low, high = ((end - one.center) / one.scale for end in (one.low, one.high))
        require(-LIMIT <= low < high <= LIMIT, "the bounds of a date must suit its scale")


def _check_text(one: TextEncoder) -> None:
    ascending = all(bool((keys[:-1] < keys[1:]).all()) for keys in one.vocabularies)
    require(ascending, "the tokens of a text must ascend")
    require([*one.alphabet] == sorted(set(one.alphabet)), "the characters of a text must ascend")
    n_tokens, n_directions = sum(map(len, one.vocabularies)), len(one.factors)
    sizes = (sum(map(len, one.rarities)), one.centers.size, unpack(one.directions, "|i1").size)
    fits = sizes == (n_tokens, n_directions, n_tokens * n_directions)
    require(fits, "the directions of a text must suit its tokens")
    require(bool(len(one.vocabularies[1])) or not n_directions, "a text must have pieces of words")
    rare = all(bool(((each >= 0.01) & (each <= 100)).all()) for each in one.rarities)
    require(rare, "the tokens of a text must count from 0.01 to 100")
    scaled = bool(((one.factors > 0) & (one.factors <= MAX_FACTOR)).all())
    centered = bool((np.abs(one.centers) <= LIMIT).all())
    require(scaled and centered, f"the directions of a text must have factors to {MAX_FACTOR:g}")


def _check_category(one: CategoryEncoder) -> None:
    n_levels = len(one.levels)
    every = [*one.levels, *one.later]
    require(len(set(every)) == len(every), "a category must have each level once")
    fits = one.n_own <= n_levels and one.n_later_own <= len(one.later)
    require(fits, "a category must have as many levels as features of levels")
    alone = one.other or one.n_later_own == len(one.later)
    require(alone, "the later levels of a category must have a feature")
    two = one.n_own + one.missing == 2 and not one.other and not one.counts
    require(two or not one.binary, "a binary category must have two levels")
    require(len(one.counts) in (0, n_levels), "a category must count all of its levels, or none")
    usable = not one.counts or one.frequency_std >= MIN_DEVIATION
    require(usable, "the frequencies of a category must have a deviation above 0")
    if one.means is not None:
        _check_means(one.means, n_levels)


def _check_means(means: LevelMeans, n_levels: int) -> None:
    places, width = means.places, len(means.outputs)
    ascending = all(low < high for low, high in pairwise(places))
    require(ascending and places[-1] <= n_levels, "means must be those of levels, in their order")
    size = len(places) * means.n_folds * (1 + width)
    require(len(means.sums) == size, "means must have a sum per level, fold and output")
    fits = len(means.mean) == len(means.scale) == width
    require(fits, "means must have a mean and a scale per output")
    lengths = {len(one) for one in means.earlier}
    fits = len(means.earlier) in (0, means.n_folds - 1) and lengths <= {1 + 2 * width}
    require(fits, "means in order of time must have a prior, a mean and a scale per block")
    usable = all(min(one[0], *one[1 + width :]) >= MIN_DEVIATION for one in means.earlier)
    require(usable, "means in order of time must have priors and scales above 0")
