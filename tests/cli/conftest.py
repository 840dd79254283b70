"""A small table of customers and a quick model of it, fitted by the command itself."""

import importlib.util
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nrs.cli.app import app

ROOT = Path(__file__).parents[2]


def _example():
    spec = importlib.util.spec_from_file_location("churn_example", ROOT / "examples" / "churn.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def run():
    """Run a command; gives typer's result."""

    def invoke(*arguments, **given):
        return CliRunner().invoke(app, [str(argument) for argument in arguments], **given)

    return invoke


@pytest.fixture(scope="session")
def churn(tmp_path_factory, run):
    """A folder with churn.csv, new.csv, churn.safetensors and churn.html; and what fit printed."""
    folder = tmp_path_factory.mktemp("churn")
    example = _example()
    example.write(folder / "churn.csv", example.customers(300, seed=0))
    example.write(folder / "new.csv", example.customers(80, seed=1))
    result = run(
        "fit", folder / "churn.csv", "--target", "churned", "--drop", "customer_id",
        "--preset", "fast", "--output", folder / "churn",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    return folder, result.output
