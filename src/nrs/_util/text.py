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


def plain(number: float, digits: int = 4) -> str:
    """A number by its first digits, without a power of ten where it can be read without one.

    Examples
    --------
    >>> plain(145_678.9), plain(0.123456), plain(-23.0), plain(1.5e12), plain(1234.6, 3)
    ('145,700', '0.1235', '-23', '1.5e+12', '1,230')
    """
    rounded = float(f"{number:.{digits}g}")
    return f"{rounded:,.0f}" if 1e3 <= abs(rounded) < 1e10 else f"{number:.{digits}g}"
