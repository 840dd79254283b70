"""Options that several commands share."""

import pytest
import typer

from nrs.cli.options import check_jobs


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "m", "x.csv", "--jobs"),
        ("fit", "x.csv", "-t", "y", "--jobs"),
        ("fit", "x.csv", "-t", "y", "--workers"),
        ("tune", "x.csv", "-t", "y", "--jobs"),
        ("paper", "run", "accuracy", "--jobs"),
    ],
    ids=lambda arguments: arguments[0] + arguments[-1],
)
def test_jobs_far_above_the_cores_are_refused(arguments, run):
    result = run(*arguments, 100_000)
    assert result.exit_code == 2
    assert "far above the" in result.output
    assert "use at most" in " ".join(result.output.replace("│", " ").split())


def test_jobs_near_the_cores_pass(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert [check_jobs(count) for count in (-1, 1, 32, None)] == [-1, 1, 32, None]
    with pytest.raises(typer.BadParameter, match=r"33 is far above the 8 cores .* at most 32"):
        check_jobs(33)
