"""Whether a change of the code changes what the table estimators answer.

    python -m benchmarks.golden --base COMMIT          # bit by bit, on this machine
    python -m benchmarks.golden --store tests/tabular/golden.npz

Small fits of every kind (presets, classes, several labels, numbers, rankings, streams, workers,
resumed checkpoints) are run by the code as it is and, in a worktree, as it was at a commit; every
array they give must have the same bits. Processors round differently, so the tests compare short
fits with stored values to 1e-5 instead. Only public names are used: both versions must have them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
# Name of a fit to what it gives. Those of more than twenty steps are compared bit by bit only.
SHORT: dict[str, Callable[[Path], Arrays]] = {}
LONG: dict[str, Callable[[Path], Arrays]] = {}
N_ROWS, N_NEW = 240, 60
STEPS = {"epochs": 8, "random_state": 3, "verbose": 0}


def _case(where: dict[str, Callable[[Path], Arrays]]) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        where[function.__name__] = function
        return function

    return add


def frame(n: int = N_ROWS + N_NEW, seed: int = 0) -> Any:
    """Columns of every kind, with missing cells; the last rows are the new ones."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "rooms": rng.integers(1, 6, n),
            "member": rng.random(n) < 0.5,
            "colour": rng.choice(["red", "green", "blue", "ünïcode"], n),
            "side": rng.choice(["left", "right"], n),
            "street": [f"street {i}" for i in rng.integers(0, 90, n)],
            "since": pd.Timestamp("2019-03-01")
            + pd.to_timedelta(rng.integers(0, 4 * 365 * 86400, n), unit="s"),
            "spent": pd.to_timedelta(rng.integers(0, 10_000, n), unit="s"),
            "always": 1.0,
        }
    )
    table["score"] = table["age"] * 0.1 + (table["colour"] == "red") + rng.normal(0, 0.3, n)
    table["class"] = np.digitize(table["score"], np.quantile(table["score"], [0.3, 0.7]))
    table.loc[::7, "age"] = np.nan
    table.loc[::5, "colour"] = None
    table.loc[::11, "since"] = pd.NaT
    return table


def _split(answer: Any) -> tuple[Any, Any, Any]:
    """Features of old and new rows, and one column (or several) of the old ones."""
    table = frame()
    features = table.drop(columns=["score", "class"])
    return features[:N_ROWS], features[N_ROWS:], table[answer][:N_ROWS].to_numpy()


def _of(model: Any, new: Any) -> Arrays:
    """Everything a fitted model answers."""
    found: Arrays = {"importances": model.feature_importances_}
    if hasattr(model, "predict_proba"):
        found["probabilities"] = model.predict_proba(new)
    else:
        found["predictions"] = model.predict(new)
    for name in ("oob_decision_function_", "oob_prediction_"):
        if hasattr(model, name):
            found[name] = getattr(model, name)
    if hasattr(model, "oob_score_"):
        found["oob_score_"] = np.array(model.oob_score_)
        found["members"] = model.member_outputs(new)
        if hasattr(model, "predict_interval"):
            found["low"], found["high"] = model.predict_interval(new, 0.8)
            found["std"] = model.predict(new, return_std=True)[1]
    if len(model.history_):
        found["losses"] = np.array(model.history_["train_loss"])
    return found


def _fitted(model: Any, answer: Any = "class", **arguments: Any) -> Arrays:
    old, new, y = _split(answer)
    return _of(model.fit(old, y, **arguments), new)


@_case(SHORT)
def classes_default(folder: Path) -> Arrays:
    import nrs

    return _fitted(nrs.NRSClassifier(**STEPS))


@_case(SHORT)
def classes_fast_weighted(folder: Path) -> Arrays:
    import nrs

    weights = np.arange(N_ROWS) % 4 * 1.0
    model = nrs.NRSClassifier(preset="fast", class_weight="balanced", **STEPS)
    return _fitted(model, sample_weight=weights)


@_case(SHORT)
def classes_best(folder: Path) -> Arrays:
    import nrs

    return _fitted(nrs.NRSClassifier(preset="best", **STEPS))


@_case(SHORT)
def classes_single(folder: Path) -> Arrays:
    import nrs

    return _fitted(nrs.NRSClassifier(preset="single", **STEPS))


@_case(SHORT)
def classes_paper(folder: Path) -> Arrays:
    import nrs

    old, new, y = _split("class")
    numbers = ["age", "rooms", "member"]
    model = nrs.NRSClassifier(preset="paper", **STEPS)
    return _of(model.fit(old[numbers].fillna(0.0), y), new[numbers].fillna(0.0))


@_case(SHORT)
def classes_groups(folder: Path) -> Arrays:
    import nrs

    return _fitted(nrs.NRSClassifier(metric="log_loss", **STEPS), groups=np.arange(N_ROWS) // 9)


@_case(SHORT)
def classes_sparse(folder: Path) -> Arrays:
    from scipy import sparse

    import nrs

    rng = np.random.default_rng(0)
    X = sparse.random(N_ROWS + N_NEW, 40, 0.2, random_state=rng, format="csr")
    y = np.asarray(X[:, :3].sum(1)).ravel() > 0.3
    model = nrs.NRSClassifier(**STEPS)
    return _of(model.fit(X[:N_ROWS], y[:N_ROWS]), X[N_ROWS:])


@_case(SHORT)
def classes_saved(folder: Path) -> Arrays:
    import nrs

    old, new, y = _split("class")
    nrs.NRSClassifier(**STEPS).fit(old, y).save(folder / "saved.safetensors")
    model = nrs.NRSClassifier.load(folder / "saved.safetensors")
    return {"probabilities": model.predict_proba(new), "members": model.member_outputs(new)}


@_case(SHORT)
def labels_default(folder: Path) -> Arrays:
    import nrs

    old, new, y = _split("class")
    several = np.column_stack([y > 0, y > 1, old["member"]]).astype(int)
    return _of(nrs.NRSClassifier(**STEPS).fit(old, several), new)


@_case(SHORT)
def numbers_default(folder: Path) -> Arrays:
    import nrs

    weights = np.where(np.arange(N_ROWS) % 5, 1.0, 0.0)
    return _fitted(nrs.NRSRegressor(**STEPS), "score", sample_weight=weights)


@_case(SHORT)
def numbers_several_fast(folder: Path) -> Arrays:
    import nrs

    return _fitted(nrs.NRSRegressor(preset="fast", metric="mae", **STEPS), ["score", "class"])


@_case(SHORT)
def numbers_single_eval_set(folder: Path) -> Arrays:
    import nrs

    old, new, y = _split("score")
    model = nrs.NRSRegressor(preset="single", **STEPS)
    return _of(model.fit(old[60:], y[60:], eval_set=(old[:60], y[:60])), new)


@_case(SHORT)
def partial_fits(folder: Path) -> Arrays:
    import nrs

    old, new, y = _split("class")
    model = nrs.NRSClassifier(preset="fast", random_state=3, verbose=0)
    for part in (slice(0, 160), slice(160, None)):
        model.partial_fit(old[part], y[part], classes=[0, 1, 2])
    single = nrs.NRSRegressor(preset="single", random_state=3, verbose=0)
    found = _of(model, new)
    for part in (slice(0, 160), slice(160, None)):
        single.partial_fit(old[part], y[part])
    return found | {f"single_{name}": value for name, value in _of(single, new).items()}


def _ranked(model: Any, **arguments: Any) -> Arrays:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 6))
    y = np.digitize(X[:, 0] + rng.normal(size=N_ROWS), [0.5, 1.5])
    qid = np.repeat(np.arange(N_ROWS // 8), 8)
    model.fit(X, y, qid=qid, **arguments)
    found = {"scores": model.predict(X, qid), "importances": model.feature_importances_}
    if hasattr(model, "oob_score_"):
        found |= {"oob": model.oob_prediction_, "oob_score_": np.array(model.oob_score_)}
        found["members"] = model.member_outputs(X, qid)
    return found | {"losses": np.array(model.history_["train_loss"])}


@_case(SHORT)
def ranks_default(folder: Path) -> Arrays:
    import nrs

    return _ranked(nrs.NRSRanker(**STEPS | {"epochs": 4}))


@_case(SHORT)
def ranks_single_scaled(folder: Path) -> Arrays:
    import nrs

    steps = STEPS | {"epochs": 4}
    return _ranked(nrs.NRSRanker(preset="single", query_scale="standard", loss="listnet", **steps))


def _files(folder: Path, answer: str) -> Any:
    """The old rows in two Parquet files of small row groups."""
    import pyarrow
    from pyarrow import parquet

    import nrs

    table = frame().drop(columns=["score" if answer == "class" else "class"])[:N_ROWS]
    for number, part in enumerate((table[:100], table[100:])):
        path = folder / f"{answer}-{number}.parquet"
        parquet.write_table(pyarrow.Table.from_pandas(part), path, row_group_size=40)
    return nrs.Table(folder / f"{answer}-*.parquet", target=answer)


@_case(SHORT)
def stream_classes(folder: Path) -> Arrays:
    import nrs

    new = _split("class")[1]
    model = nrs.NRSClassifier(class_weight="balanced", **STEPS)
    return _of(model.fit(_files(folder, "class")), new)


@_case(SHORT)
def stream_numbers(folder: Path) -> Arrays:
    import nrs

    new = _split("score")[1]
    return _of(nrs.NRSRegressor(preset="fast", **STEPS).fit(_files(folder, "score")), new)


@_case(SHORT)
def workers_members(folder: Path) -> Arrays:
    import nrs

    return _fitted(nrs.NRSClassifier(preset="fast", n_workers=2, divide="members", **STEPS))


@_case(LONG)
def workers_rows(folder: Path) -> Arrays:
    import nrs

    return _fitted(nrs.NRSRegressor(preset="fast", n_workers=2, divide="rows", **STEPS), "score")


@_case(LONG)
def workers_stream(folder: Path) -> Arrays:
    import nrs

    model = nrs.NRSClassifier(preset="fast", n_workers=2, divide="rows", **STEPS)
    return _of(model.fit(_files(folder, "class")), _split("class")[1])


@_case(SHORT)
def checkpoint_resumed(folder: Path) -> Arrays:
    import nrs
    from nrs.training import Callback

    class KilledError(Exception):
        pass

    class Kill(Callback):
        def on_epoch_begin(self, state: Any) -> None:
            if state.epoch == 3:
                raise KilledError

    settings = STEPS | {"checkpoint": folder / "checkpoint", "dropout": 0.3}
    old, _, y = _split("class")
    with contextlib.suppress(KilledError):
        nrs.NRSClassifier(preset="fast", callbacks=[Kill()], **settings).fit(old, y)
    return _fitted(nrs.NRSClassifier(preset="fast", **settings))


@_case(LONG)
def codes(folder: Path) -> Arrays:
    """Numbers that are codes: a pilot chooses levels."""
    import nrs

    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, (2_400, 3)).astype(float)
    y = rng.permutation(512)[(X @ [64, 8, 1]).astype(int)] % 2
    model = nrs.NRSClassifier(epochs=4, random_state=0, verbose=0)
    return _of(model.fit(X[:2_300], y[:2_300]), X[2_300:])


@_case(LONG)
def numbers_longer(folder: Path) -> Arrays:
    import nrs

    return _fitted(nrs.NRSRegressor(random_state=0, verbose=0), "score")


@_case(LONG)
def baselines(folder: Path) -> Arrays:
    from nrs.baselines.ant import ANTClassifier
    from nrs.baselines.mlp import MLPClassifier
    from nrs.baselines.ndf import NDFClassifier, NDFRegressor

    old, new, y = _split("class")
    found = {}
    models = {
        "mlp": MLPClassifier(n_layers=3, **STEPS),
        "ndf": NDFClassifier(n_trees=3, tree_depth=3, **STEPS),
        "ant": ANTClassifier(max_nodes=3, grow_epochs=3, **STEPS),
    }
    for name, model in models.items():
        found[name] = model.fit(old, y).predict_proba(new)
    number = NDFRegressor(n_trees=3, tree_depth=3, **STEPS).fit(old, y)
    return found | {"ndf_number": number.predict(new)}


def run(names: list[str], folder: Path) -> Arrays:
    """The arrays of some fits, under names such as ``classes_default/probabilities``."""
    found = {}
    for name in names:
        inside = folder / name
        inside.mkdir(parents=True)
        arrays = (SHORT | LONG)[name](inside)
        found |= {f"{name}/{part}": np.asarray(value) for part, value in arrays.items()}
    return found


def _run_in(source: Path, names: list[str], path: Path) -> Arrays:
    """Run fits with the package of a source folder, in a process with one thread."""
    here = Path(__file__).parents[1]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(source), str(here)]),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "benchmarks.golden", "--store", str(path), *names]
    subprocess.run(command, check=True, env=environment, cwd=here)
    with np.load(path) as content:
        return dict(content)


def compare(base: str, names: list[str]) -> list[str]:
    """Run fits here and at a commit; gives the arrays that differ."""
    here = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "base"
        git = ["git", "-C", str(here), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", str(tree), base], check=True)
        try:
            then = _run_in(tree / "src", names, Path(name) / "then.npz")
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
        now = _run_in(here / "src", names, Path(name) / "now.npz")
    differing = sorted(then.keys() ^ now.keys())
    for key in sorted(then.keys() & now.keys()):
        if then[key].shape != now[key].shape:
            differing.append(f"{key}: shape {then[key].shape}, now {now[key].shape}")
        elif then[key].tobytes() != now[key].tobytes():
            most = np.abs(then[key].astype(float) - now[key].astype(float)).max()
            differing.append(f"{key}: by up to {most:.3g}")
    print(f"{len(then)} arrays of {len(names)} fits, {len(differing)} differ from {base}")
    return differing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="fits; all by default, the short ones to store")
    parser.add_argument("--base", help="commit to compare with, bit by bit")
    parser.add_argument("--store", type=Path, help="file to write the arrays to")
    options = parser.parse_args()
    if options.base:
        differing = compare(options.base, options.names or [*SHORT, *LONG])
        print("\n".join(differing))
        sys.exit(bool(differing))
    if not options.store:
        parser.error("one of --base and --store is needed")
    with tempfile.TemporaryDirectory() as folder:
        arrays = run(options.names or list(SHORT), Path(folder))
    np.savez_compressed(options.store, allow_pickle=False, **arrays)


if __name__ == "__main__":
    main()
