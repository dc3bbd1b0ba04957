"""The published tokenizer, processor and config files of SmolVLM-256M-Instruct, unpacked."""

import lzma
import shutil
from pathlib import Path

from paths import TESTS

SOURCE = TESTS / "data" / "smolvlm_256m_instruct"


def unpack(folder: Path) -> Path:
    """Copy the files to `folder` as they are on the hub."""
    for path in SOURCE.glob("*.json"):
        shutil.copyfile(path, folder / path.name)
    (folder / "tokenizer.json").write_bytes(
        lzma.decompress((SOURCE / "tokenizer.json.xz").read_bytes())
    )
    return folder
