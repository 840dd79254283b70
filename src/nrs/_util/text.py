"""Text from data, such as cells and the names of columns and files, made safe to show."""

from __future__ import annotations


def printable(text: object, keep: str = "") -> str:
    """Show characters that do not print as escapes, so that no terminal obeys them.

    Parameters
    ----------
    text : object
        Anything; shown by its `str`.
    keep : str
        Characters that stay as they are, such as a line's end.

    Examples
    --------
    >>> print(printable("red \\x1b[31m é"))
    red \\x1b[31m é
    >>> printable("two\\nlines", keep="\\n")
    'two\\nlines'
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(
        one if one.isprintable() or one in keep else one.encode("unicode_escape").decode("ascii")
        for one in shown
    )
