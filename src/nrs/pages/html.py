"""HTML in which text is escaped unless it says that it is HTML already."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any


class Html(str):
    """Text that is HTML already and goes into a page as it is."""

    __slots__ = ()


def escape(text: object) -> Html:
    """Text as HTML; what is `Html` already stays as it is.

    Examples
    --------
    >>> escape('a < b & "c"')
    'a &lt; b &amp; &quot;c&quot;'
    >>> escape(Html("<br>"))
    '<br>'
    """
    return text if isinstance(text, Html) else Html(html.escape(str(text), quote=True))


def join(parts: list[Html], separator: str = "\n") -> Html:
    """Pieces of HTML, one after the other."""
    return Html(separator.join(parts))


def tag(name: str, *children: object, **attributes: object) -> Html:
    """An element; children and attribute values are escaped.

    An underscore in an attribute's name is a hyphen, one at its end is dropped. An attribute of
    None or False is left out, one of True stands without a value.

    Examples
    --------
    >>> tag("td", "a<b", class_="cell", data_row=3, hidden=False)
    '<td class="cell" data-row="3">a&lt;b</td>'
    """
    words = [name]
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(key)
        elif value is not None and value is not False:
            words.append(f'{key}="{escape(value)}"')
    return Html(f"<{' '.join(words)}>{''.join(escape(child) for child in children)}</{name}>")


def script_json(value: Any) -> Html:
    """A value as JSON that cannot close the script element it stands in.

    Examples
    --------
    >>> script_json({"name": "</script>"})
    '{"name": "\\\\u003c/script>"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # Line separators end a statement in old JavaScript; < may begin a tag.
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(text)


def facts_list(facts: Iterable[tuple[object, object]]) -> Html:
    """Names and what they stand for, as a description list."""
    return tag("dl", *(part for k, v in facts for part in (tag("dt", k), tag("dd", v))))


def header_row(titles: Iterable[object]) -> Html:
    """The head of a table."""
    return tag("thead", tag("tr", *(tag("th", title, scope="col") for title in titles)))


def tile(number: object, words: object, style: str = "") -> Html:
    """A large number and what it counts, for a list of such."""
    return tag("li", tag("strong", number), tag("span", words), class_=f"tile {style}".strip())


def scrollable(grid: Html, **label: str) -> Html:
    """A wide table in a box that scrolls, also by keyboard; a reader hears its label."""
    return tag("div", grid, class_="scroll", tabindex="0", role="region", **label)
