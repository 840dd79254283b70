"""``nrs info``: what a model file holds."""

from __future__ import annotations

from typing import Any

from nrs.cli.errors import refusals
from nrs.cli.kinds import PACKAGES, work_of
from nrs.cli.options import AsJson, Model, echo_scores, score_line
from nrs.cli.terminal import echo, echo_json

_MAX_SHOWN, _MAX_LISTED = 20, 100
# Kinds of files whose models read tables.
TABLES = ("table", "ranker")
VERSIONS = ("nrs", "torch", "numpy", "python", "platform")


@refusals
def info(model: Model, as_json: AsJson = False) -> None:
    """Show what a model file holds: its task, columns, settings, scores and origin.

    Example: nrs info churn.safetensors
    """
    from nrs.cli.predict import check_files
    from nrs.training.files import loading, read_model
    from nrs.training.schema import mapping, plain

    check_files(model)
    file = read_model(model)
    facts: dict[str, Any] = {
        "file": str(model),
        "kind": file.kind,
        "bytes": model.stat().st_size,
        "parameters": sum(array.size for array in file.arrays.values()),
    }
    with loading(model):
        facts |= _of_table(file.header) if file.kind in TABLES else _of_network(file.header)
        if file.kind in PACKAGES:
            describe = getattr(work_of(file.kind, "predict"), "describe", dict)
            facts |= describe(file.header)
        facts["made"] = mapping(plain)(file.made, "made")
    if as_json:
        echo_json(facts)
        return
    about, made = facts.pop("about", None) or {}, facts.pop("made")
    columns = facts.pop("columns", [])
    settings = facts.pop("settings", {})
    facts["bytes"] = f"{facts['bytes']:,}"
    facts["parameters"] = f"{facts['parameters']:,}"
    by_target = about.pop("scores_by_target", None)
    scores = about.pop("scores", None) or facts.pop("scores", None)
    about.pop("labels", None)
    facts |= {name.replace("_", " "): value for name, value in about.items()}
    if scores:
        facts["scores"] = score_line(scores)
    for name, value in facts.items():
        if value is not None:
            _say(name, value)
    if by_target:
        echo_scores(by_target)
    if columns:
        shown = ", ".join(f"{one['name']} ({one['kind']})" for one in columns[:_MAX_SHOWN])
        more = f" and {len(columns) - _MAX_SHOWN} more" if len(columns) > _MAX_SHOWN else ""
        _say("columns", f"{len(columns)}: {shown}{more}")
    if settings:
        chosen = {name: value for name, value in settings.items() if value is not None}
        _say("settings", ", ".join(f"{name}={value}" for name, value in chosen.items()))
    versions = {name: made.pop(name) for name in VERSIONS if name in made}
    for name, word in (("time", "fitted"), ("seed", "seed"), ("engine", "engine")):
        if name in made:
            _say(word, made.pop(name))
    for name, known in (("fitted to", made), ("versions", versions)):
        if known:
            _say(name, ", ".join(f"{key} {_shown(value)}" for key, value in known.items()))


def _say(name: str, value: Any) -> None:
    echo(f"{name:11} {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_shown(one)}" for name, one in value.items())
    if not isinstance(value, list):
        return str(value)
    more = f" and {len(value) - _MAX_LISTED} more" if len(value) > _MAX_LISTED else ""
    return ", ".join(map(str, value[:_MAX_LISTED])) + more


def _of_table(header: dict[str, Any]) -> dict[str, Any]:
    from nrs.tabular.header import SHOWN
    from nrs.tabular.targets import target_from_state
    from nrs.training.schema import check_header

    header = check_header(header, SHOWN)
    encoder = header["encoder"]
    kinds = encoder["kinds"]
    names = encoder["names"] or [f"x{place}" for place in range(len(kinds))]
    facts: dict[str, Any] = {"estimator": header["estimator"]}
    about = header["about"] or {}
    if "classes" in header["target"] or "columns" in header["target"]:
        facts["classes"] = target_from_state(header["target"]).listed_classes()
    if about.get("labels"):
        facts["classes"] = dict(zip(about["target"], about["labels"], strict=True))
    facts["columns"] = [
        {"name": name, "kind": kind} for name, kind in zip(names, kinds, strict=True)
    ]
    facts["settings"] = header["recipe"]
    facts["about"] = about or None
    return facts


def _of_network(header: dict[str, Any]) -> dict[str, Any]:
    """What a model of pictures or point clouds says of itself."""
    from nrs.training.schema import (
        anything,
        check_header,
        list_of,
        mapping,
        number,
        optional,
        plain,
        record,
        text,
    )

    scores = optional(mapping(number()))
    # Pictures have metrics, point clouds the scores of the test part.
    fields = {
        "model": mapping(plain), "classes": list_of(text()), "metrics": scores, "test": scores,
        "config": optional(mapping(plain)),
    }  # fmt: skip
    # Kinds that this command does not know say nothing of it.
    later: dict[str, Any] = {
        "model": {},
        "classes": [],
        "metrics": None,
        "test": None,
        "config": None,
    }
    known = check_header(header, record(fields, defaults=later, others=anything))
    settings = dict(known["model"])
    for part, values in (known["config"] or {}).items():
        if isinstance(values, dict) and part != "model":
            settings |= {f"{part}.{name}": value for name, value in values.items()}
    return {
        "task": "classification" if known["classes"] else None,
        "classes": known["classes"] or None,
        "scores": known["metrics"] or known["test"],
        "settings": settings,
    }
