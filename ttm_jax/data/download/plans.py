"""Where the benchmarks that are not in the paper are published, and what comes from there.

A plan says, for the annotations and then for the pictures of a source, from what kind of place they
come. Places with known checksums name them; the hub gives one for every file.
"""

from dataclasses import dataclass, field
from typing import Literal

from ttm_jax.data.benchmarks import imagecode, json_pairs, valse
from ttm_jax.data.download.checksum import Checksum


@dataclass(frozen=True)
class HubParquet:
    """The Parquet files of the test split of a dataset on the hub."""

    repo: str


@dataclass(frozen=True)
class HubFolder:
    """Files of a dataset on the hub, by name, in one of its folders."""

    repo: str
    folder: str


@dataclass(frozen=True)
class HubArchive:
    """An archive in a dataset on the hub, with everything in it."""

    repo: str
    name: str


@dataclass(frozen=True)
class Web:
    """Files by name below an address of `Sources`."""

    site: Literal["github", "coco", "storage"]
    path: str
    keeps_folders: bool = False
    """Whether the folders below that of the source are part of the address."""


@dataclass(frozen=True)
class Drive:
    """Files on Google Drive by name; `archive` is unpacked, and the others come as they are."""

    ids: dict[str, str] = field(default_factory=dict)
    archive: str = ""


@dataclass(frozen=True)
class ByHand:
    """What a program cannot or may not fetch."""

    what: str


Place = HubParquet | HubFolder | HubArchive | Web | Drive | ByHand


@dataclass(frozen=True)
class Plan:
    annotations: Place
    images: Place | None = None
    """None where the pictures are in the annotation files."""


_KARPATHY = Web("storage", "sfr-vision-language-research/datasets")
_ARO = Drive(
    {
        "visual_genome_relation.json": "1kX2iCHEv0CADL8dSO1nMdW-V0NqIAiP3",
        "visual_genome_attribution.json": "13tWvOrNOLHxl3Rm9cR3geAdHx2qR3-Tw",
    }
)
_EQBEN = Drive({"eqben_vllm.zip": "11YUTf06uzRHtFV8rYi96z4vTPi8_GNEM"}, "eqben_vllm.zip")
_NATURALBENCH = HubArchive("BaiqiL/NaturalBench", "NaturalBench-Retrieval.zip")
# The ids are those of the authors' programs: dataset_zoo/aro_datasets.py of ARO, and for EqBen
# that of https://github.com/linzhiqiu/t2v_metrics, a copy of the authors' eqben_vllm.zip.
PLANS = {
    "sugarcrepe_pp": Plan(HubFolder("Aman-J/SugarCrepe_pp", "data"), Web("coco", "val2017")),
    "aro": Plan(
        _ARO,
        Drive({"vgr_vga_images.zip": "1qaPlrwhGNMrR3a11iopZUT_GPP_LrgP9"}, "vgr_vga_images.zip"),
    ),
    "aro_coco_order": Plan(HubParquet("gowitheflow/ARO-COCO-order")),
    "aro_flickr_order": Plan(HubParquet("gowitheflow/ARO-Flickr-Order")),
    "cola": Plan(
        Web("github", "arijitray1993/COLA/main/data"),
        HubFolder("array/cola", json_pairs.COLA_IMAGES),
    ),
    "bivlc": Plan(HubParquet("imirandam/BiVLC")),
    "vismin": Plan(HubParquet("mair-lab/vismin-bench")),
    "eqben_small": Plan(_EQBEN, _EQBEN),
    "naturalbench_retrieval": Plan(_NATURALBENCH, _NATURALBENCH),
    "valse": Plan(
        Web("github", "Heidelberg-NLP/VALSE/main/data"),
        ByHand(
            f"put the pictures of Visual7W, COCO, SWiG and VisDial into {valse.IMAGES}/<dataset>/, "
            "where <dataset> is the entry's `dataset` (ttm names the files that it looks for)"
        ),
    ),
    "coco": Plan(_KARPATHY, Web("coco", "", keeps_folders=True)),
    "flickr30k": Plan(
        _KARPATHY,
        ByHand(
            "ask for Flickr30k at https://forms.illinois.edu/sec/229675 and put its pictures into "
            "flickr30k-images/"
        ),
    ),
    "imagecode": Plan(
        Web("github", "McGill-NLP/imagecode/main/data"),
        ByHand(
            "unpack image-sets.zip (13.8 GB) of https://huggingface.co/datasets/BennoKrojer/"
            f"ImageCoDe so that {imagecode.IMAGES}/<image set>/img0.jpg and so on are there"
        ),
    ),
}

# SHA-256 of the files of SugarCrepe++ as others computed them (https://github.com/liziqiu846/
# minimind-v, experiments/phase3). Their sizes are those that the hub lists, which gives its own
# checksums too.
CHECKSUMS = {
    name: Checksum("sha256", value)
    for name, value in {
        "pp/replace_att.json": "6826413592894754eeca02aeebbcbbc8b95a7456998abcc714e71c033ce6fe87",
        "pp/replace_obj.json": "5c6dc499ec8f511a8aa4ec1b7b5eb0eca90317488abe36ec39573355e2d361ab",
        "pp/replace_rel.json": "040fb95d3f0619bf515db60879e99709a87a5e9b4f524ec3403b127243480fd4",
        "pp/swap_att.json": "450d0fd9fcad3e6f44950dc634e7f901ab1c6d9c60a569ade5ae8ffb3d203ad8",
        "pp/swap_obj.json": "5f33cae824de431a7ecd3c5de6301f689815f9497aa36d96b154bbaf117b201b",
    }.items()
}
