"""One fit of AutoGluon, run by the Python of its own environment: a folder in, a folder out.

    <its python> -P benchmarks/autogluon_fit.py <folder>

The folder has ``train.parquet`` and ``test.parquet``, the label in ``target``, and
``request.json``; ``answers.npy`` and ``answer.json`` are added. Imports nothing of this repository:
that environment has neither it nor its pandas.
"""

import json
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path


def _cpu() -> float:
    """CPU seconds of this process and of those that it started and that ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def main(folder: Path) -> None:
    import numpy as np
    import pandas
    from autogluon.tabular import TabularPredictor

    request = json.loads((folder / "request.json").read_text())
    train, test = (pandas.read_parquet(folder / f"{part}.parquet") for part in ("train", "test"))
    classes = request["n_classes"]
    kind = "regression" if classes is None else "binary" if classes == 2 else "multiclass"
    # What is compared: a predictor that was asked for accuracy would not look at probabilities.
    metric = "root_mean_squared_error" if classes is None else "log_loss"
    predictor = TabularPredictor(
        "target", problem_type=kind, eval_metric=metric, path=str(folder / "models"), verbosity=1
    )
    begin, begin_cpu = time.monotonic(), _cpu()
    predictor.fit(
        train, presets=request["presets"], time_limit=request["time_limit"], num_cpus=1, num_gpus=0
    )
    times = {"fit_s": time.monotonic() - begin, "fit_cpu_s": _cpu() - begin_cpu}
    begin_cpu = _cpu()
    if classes is None:
        answers = predictor.predict(test).to_numpy()
    else:
        # A class that it left out for its few rows has no column.
        found = predictor.predict_proba(test)
        answers = np.zeros((len(test), classes))
        for label in found.columns:
            answers[:, int(label)] = found[label]
    times["predict_cpu_s"] = _cpu() - begin_cpu
    np.save(folder / "answers.npy", np.asarray(answers, dtype=np.float64))
    names = ("autogluon.tabular", "pandas", "torch", "lightgbm", "catboost")
    answer = {
        "times": times,
        "models": len(predictor.model_names()),
        "versions": {name: version(name) for name in names},
    }
    (folder / "answer.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
