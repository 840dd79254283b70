"""``nrs check``: what was converted and what to know, for people and for programs."""

import json


def test_check_says_what_was_converted_and_found(run, tmp_path):
    path = tmp_path / "a.csv"
    rows = "".join(f"{k};{k % 7},5;0{k % 9 + 1}/0{k % 8 + 1}/2024;{k % 2}\n" for k in range(60))
    path.write_text("nr;size;day;y\n" + rows)
    result = run("check", path, "-t", "y")
    assert result.exit_code == 0, result.output
    assert "numbers with a decimal comma: size" in result.output
    assert "otherwise use --dates mdy" in result.output.replace("\n", " ")
    assert "consider --drop nr" in result.output.replace("\n", " ")
    found = json.loads(
        run("check", path, "-t", "y", "--dates", "dmy", "--drop", "nr", "--json").stdout
    )
    assert found["findings"] == []
    assert len(found["read"]) == 2


def test_check_needs_no_target(run, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "".join(f"{k % 5},{k % 3}\n" for k in range(40)))
    assert "nothing to object to" in run("check", path).output
    assert run("check", path, "-t", "c").exit_code == 2
