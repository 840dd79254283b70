"""``nrs info``: what a model file holds."""

from __future__ import annotations

from typing import Any

from nrs.cli.errors import refusals
from nrs.cli.kinds import PACKAGES, work_of
from nrs.cli.options import AsJson, Model, echo_scores, score_line
from nrs.cli.terminal import echo, echo_json

_MAX_SHOWN, _MAX_LISTED = 20, 100


@refusals
def info(model: Model, as_json: AsJson = False) -> None:
    """Show what a model file holds: its task, columns, settings, scores and origin.

    Example: nrs info churn.safetensors
    """
    from nrs.cli.predict import check_files
    from nrs.training import loading, read_model
    from nrs.training.schema import mapping, plain

    check_files(model)
    file = read_model(model)
    facts: dict[str, Any] = {
        "file": str(model),
        "kind": file.kind,
        "bytes": model.stat().st_size,
        "parameters": sum(tensor.numel() for tensor in file.tensors.values()),
    }
    if file.kind == "table":
        with loading(model):
            facts |= _of_table(file.header)
    describe = None
    if file.kind in PACKAGES:
        describe = getattr(work_of(file.kind, "predict"), "describe", None)
    if describe is not None:
        with loading(model):
            facts |= describe(file.header)
    with loading(model):
        facts["made"] = mapping(plain)(file.made, "made")
    if as_json:
        echo_json(facts)
        return
    about, made = facts.pop("about", None) or {}, facts.pop("made")
    columns = facts.pop("columns", [])
    settings = facts.pop("settings", {})
    facts["bytes"] = f"{facts['bytes']:,}"
    facts["parameters"] = f"{facts['parameters']:,}"
    scores, by_target = about.pop("scores", None), about.pop("scores_by_target", None)
    about.pop("labels", None)
    facts |= {name.replace("_", " "): value for name, value in about.items()}
    scores = scores or facts.pop("scores", None)
    if scores:
        facts["scores"] = score_line(scores)
    for name, value in facts.items():
        if value is not None:
            echo(f"{name:11} {_shown(value)}")
    if by_target:
        echo_scores(by_target)
    if columns:
        shown = ", ".join(f"{one['name']} ({one['kind']})" for one in columns[:_MAX_SHOWN])
        more = f" and {len(columns) - _MAX_SHOWN} more" if len(columns) > _MAX_SHOWN else ""
        echo(f"columns     {shown}{more}")
    if settings:
        chosen = {name: value for name, value in settings.items() if value is not None}
        echo("settings    " + ", ".join(f"{name}={value}" for name, value in chosen.items()))
    if made:
        echo("made        " + ", ".join(f"{name} {_shown(v)}" for name, v in made.items()))


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
    if "classes" in header["target"] or "columns" in header["target"]:
        facts["classes"] = target_from_state(header["target"]).listed_classes()
    about = header["about"] or {}
    if about.get("labels"):
        facts["classes"] = dict(zip(about["target"], about["labels"], strict=True))
    facts["columns"] = [
        {"name": name, "kind": kind} for name, kind in zip(names, kinds, strict=True)
    ]
    facts["settings"] = header["recipe"]
    facts["about"] = about or None
    return facts
