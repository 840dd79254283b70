"""Examples of docs/engines.md, which need tools that the suite does not install."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"


def run_section(title):
    """Run the Python blocks below a heading; returns their names."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")
    blocks = re.findall(r"```python\n(.*?)```", rest.partition("\n## ")[0], re.DOTALL)
    assert blocks, title
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    return names
