"""Escaping by construction."""

import html
import json

from hypothesis import given
from hypothesis import strategies as st

from nrs.pages.html import Html, escape, script_json, tag


@given(st.text())
def test_text_comes_back_from_an_element_and_from_an_attribute(text):
    element = tag("p", text, title=text)
    assert element.count("<") == 2
    assert html.unescape(element[element.index('"') + 1 : element.rindex('"')]) == text
    assert html.unescape(element[element.rindex('">') + 2 : -4]) == text
    assert escape(escape(text)) == escape(text)


@given(
    st.recursive(
        st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_data_comes_back_from_a_script_and_cannot_close_it(value):
    text = script_json(value)
    assert "<" not in text
    assert json.loads(text) == value


def test_what_is_html_stays_and_attributes_may_be_absent():
    assert tag("p", Html("<br>"), class_=None, hidden=True, open=False) == "<p hidden><br></p>"
