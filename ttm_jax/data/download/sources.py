"""Where the benchmarks are published, and the known checksums of their files."""

import os
from dataclasses import dataclass, field
from typing import Any

from ttm_jax.data.download.checksum import Checksum


def _address(variable: str, published: str) -> Any:
    """A field whose default is the published address, or the mirror that a variable names."""
    return field(default_factory=lambda: os.environ.get(variable) or published)


@dataclass(frozen=True)
class Sources:
    """Addresses to fetch from; change one to use a mirror. The variables change the defaults."""

    hub: str = _address("HF_ENDPOINT", "https://huggingface.co")
    """The Hugging Face hub: Winoground, MMVP-VLM, ColorSwap and others. $HF_ENDPOINT if set."""
    github: str = _address("TTM_JAX_GITHUB", "https://raw.githubusercontent.com")
    """The annotations of SugarCrepe, Cola, VALSE and ImageCoDe. $TTM_JAX_GITHUB if set."""
    coco: str = _address("TTM_JAX_COCO", "https://s3.amazonaws.com/images.cocodataset.org")
    """The images of COCO, over https; cocodataset.org itself gives http addresses. $TTM_JAX_COCO if
    set."""
    drive: str = _address("TTM_JAX_DRIVE", "https://drive.usercontent.google.com")
    """Google Drive: WhatsUp, ARO, EqBen. $TTM_JAX_DRIVE if set."""
    storage: str = _address("TTM_JAX_STORAGE", "https://storage.googleapis.com")
    """Google Cloud Storage: the lists of COCO and Flickr30k. $TTM_JAX_STORAGE if set."""


HUB_REPOS = {
    "winoground": "facebook/winoground",
    "mmvp_vlm": "MMVP/MMVP_VLM",
    "colorswap": "stanfordnlp/colorswap",
}
SUGARCREPE_REPO = "RAIVNLab/sugar-crepe"

# Computed from the files in that repository.
SUGARCREPE_CHECKSUMS = {
    "add_att": Checksum(
        "sha256", "012d88d729693d193760e6f3393b06a1cf874380a9db0062e937201199fe044d"
    ),
    "swap_obj": Checksum(
        "sha256", "073cdb8e253d053614e80710834d9773b09dbc1dd0a412f6f9492262caa1dcad"
    ),
}
# Among others in https://github.com/mlverse/torchvision, R/dataset-coco.R.
COCO_ZIP_CHECKSUM = Checksum("md5", "442b8da7639aecaf257c1dceb8ba8c80")


@dataclass(frozen=True)
class DriveFile:
    """The ids are those of https://github.com/amitakamath/whatsup_vlms, dataset_zoo.

    WhatsUp's authors give no checksums. These were computed by others, who checked the release:
    https://github.com/liziqiu846/minimind-v, experiments/comp01_whatsup.py.
    """

    name: str
    id: str
    checksum: Checksum


WHATSUP_ANNOTATIONS = {
    "a": DriveFile(
        "controlled_images_dataset.json",
        "1ap8mmmpQjLIjPGuplkpBgc1hoEHCj4hm",
        Checksum("sha256", "77ee94ae35552ed643ecd47f700daa178e10051458baae99d5c4c5d5922590d3"),
    ),
    "b": DriveFile(
        "controlled_clevr_dataset.json",
        "1unNNosLbdy9NDjgj4l8fsQP3WiAAGA6z",
        Checksum("sha256", "2c0df1ab59d13d71442752b4b3c7353114d712a785b0850ec22e11c2b0c474c9"),
    ),
}
WHATSUP_IMAGES = {
    "a": DriveFile(
        "controlled_images.tar.gz",
        "19KGYVQjrV3syb00GgcavB2nZTW5NXX0H",
        Checksum("sha256", "4fc005e7ab1e2ac5e5836d2456dd9ae930239c44953b0b2d3e9523f6ad5b1a69"),
    ),
    "b": DriveFile(
        "controlled_clevr.tar.gz",
        "13jdBpg8t3NqW3jrL6FK8HO93vwsUjDxG",
        Checksum("sha256", "df8b23af7dc73c4bf98937777b7a5d85aab42598eace82fa7adad5802df2c493"),
    ),
}
