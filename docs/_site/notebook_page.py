"""A notebook as a page of the site: its text, its code, and what the code printed and drew."""

import json
import re
from pathlib import Path
from typing import Any

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LONGEST = 30  # lines of one output


def as_markdown(path: Path) -> str:
    """The cells in order; pictures are part of the page."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = []
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts.append(f"```python\n{source}\n```")
            parts += _outputs(cell["outputs"])
    return "\n\n".join(parts) + "\n"


def _outputs(outputs: list[dict[str, Any]]) -> list[str]:
    """Printed text in one block, then the pictures."""
    text, pictures = "", []
    for output in outputs:
        data = output.get("data", {})
        text += "".join(output.get("text", ()))
        if "image/png" in data:
            image = "".join(data["image/png"]).replace("\n", "")
            pictures.append(f"![output](data:image/png;base64,{image})")
        elif "text/plain" in data:
            text += "".join(data["text/plain"]) + "\n"
    lines = _COLOURS.sub("", text).rstrip().splitlines()[:_LONGEST]
    block = ["```text\n" + "\n".join(lines) + "\n```"] if lines else []
    return [*block, *pictures]
