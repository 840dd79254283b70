"""No character from data steers a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrs._util.text import printable


@given(st.text(st.characters(codec=None)))
def test_everything_prints(text):
    shown = printable(text)
    assert shown.isprintable()
    assert shown.encode().decode() == shown
    assert printable(text, keep="\n").replace("\n", "").isprintable()
    if text.isprintable():
        assert shown == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\u202eb", r"a\u202eb"),
        ("file\udc80.csv", r"file\udc80.csv"),
        ("é ü 漢", "é ü 漢"),
        (3, "3"),
    ],
)
def test_escapes(text, shown):
    assert printable(text) == shown
