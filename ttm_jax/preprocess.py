"""From a picture, however it is stored, to uint8 [height, width, 3] as the checkpoint wants it."""

import os
from dataclasses import dataclass

import numpy as np
from PIL import Image


@dataclass(frozen=True)
class NamedBytes:
    """An encoded image that lies inside another file; `name` says where, for error messages."""

    name: str
    data: bytes


ImageSource = str | os.PathLike | Image.Image | np.ndarray | NamedBytes
