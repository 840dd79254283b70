"""Docstrings as mkdocstrings shows them well; their text stays as Python's own help shows it.

A role such as ``:class:`nrs.NRS``` becomes the code it names. A parameter that is described on the
line of its name (``x : rows to draw``) gets that as its description, not as its type.
"""

import re
from typing import Any

from griffe import Extension, Object

ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`~?([^`]+)`")
LISTS = ("Parameters", "Attributes")
SECTIONS = (*LISTS, "Returns", "Yields")


class PlainDocstrings(Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = describe_items(ROLE.sub(_code, obj.docstring.value))


def _code(role: re.Match[str]) -> str:
    # The last two words say enough of nrs.files.scores.Scored.
    return "`" + ".".join(role[1].split(".")[-2:]).removeprefix("nrs.") + "`"


def describe_items(text: str) -> str:
    """Move what stands beside a name below it, in the lists of a docstring."""
    lines = text.splitlines()
    found, section = [], ""
    for place, line in enumerate(lines):
        following = lines[place + 1] if place + 1 < len(lines) else ""
        if following.strip() and not following.strip("-"):
            section = line
        name, colon, beside = line.partition(" : ")
        if line.startswith(" ") or section not in SECTIONS:
            found.append(line)
        elif colon and section in LISTS and not _is_type(following):
            found += [name, f"    {beside[:1].upper()}{beside[1:]}"]
        else:
            # Types are shown as code already.
            found.append(line.replace("`", ""))
    return "\n".join(found)


def _is_type(following: str) -> bool:
    """Whether a description begins below; one that began above goes on in lower case."""
    return following.startswith(" ") and not following.lstrip()[0].islower()
