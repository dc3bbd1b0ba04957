"""How the page calls things."""

from pathlib import Path

import pytest
from made_runs import fate_scores, pictured_dataset, write_fates, write_run

from ttm_jax.report.page.names import (
    data_name,
    file_names,
    folder_names,
    model_name,
    page_title,
)
from ttm_jax.report.run_data import read_experiments


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/home/me/pets/a.jpg", "/home/me/pets/b.jpg"], ["a.jpg", "b.jpg"]),
        (["/me/pets/cats/a.jpg", "/me/pets/dogs/a.jpg"], ["cats/a.jpg", "dogs/a.jpg"]),
        (["pets/a.jpg", None], ["a.jpg", None]),
        (["a.jpg", "deep/b.jpg"], ["a.jpg", "deep/b.jpg"]),
        (["C:\\me\\a.jpg", "C:\\me\\b.jpg"], ["a.jpg", "b.jpg"]),
        (["one/same.jpg", "one/same.jpg"], ["same.jpg", "same.jpg"]),
        ([None, None], [None, None]),
        ([], []),
    ],
)
def test_files_as_their_owner_knows_them(paths, names):
    assert file_names(paths) == names


def one(root: Path, dataset: str, source: str):
    write_run(root, pictured_dataset(dataset), fate_scores(), source=source)
    return read_experiments([root])


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("google/siglip-base-patch16-224", "google/siglip-base-patch16-224"),
        ("small-siglip", "small-siglip"),
        ("/home/me/models/mine", "mine"),
        ("./mine/", "mine"),
        ("gs://bucket/folder/siglip.npz", "siglip.npz"),
        ("siglip_b16", "SigLIP-B16"),
        ("/", "/"),
    ],
)
def test_models(tmp_path, source, name):
    (experiment,) = one(tmp_path / "run", "pets", source)
    assert model_name(experiment) == name


def test_title_is_data_and_model(tmp_path):
    assert page_title(one(tmp_path / "a" / "run", "pets", "small-siglip")) == "pets, small-siglip"
    one(tmp_path / "b" / "run", "pets", "small-clip")
    found = read_experiments([tmp_path])
    assert page_title(found) == "pets, small-clip and small-siglip"
    (world,) = one(tmp_path / "c" / "run", "world-color_swap-test", "small-clip")
    assert data_name(world) == "color_swap"
    one(tmp_path / "d" / "run", "winoground", "small-clip")
    assert page_title(read_experiments([tmp_path])) == "3 datasets, small-clip and small-siglip"


def test_folders_with_their_parents(tmp_path):
    for name in ("x/a", "x/b", "y/a"):
        write_fates(tmp_path / "runs" / name, (0, 1))
    assert folder_names(read_experiments([tmp_path / "runs" / "x" / "a"])) == ["x/a"]
    assert folder_names(read_experiments([tmp_path / "runs"])) == [
        "runs/x/a", "runs/x/b", "runs/y/a",
    ]  # fmt: skip


def test_two_experiments_in_one_folder(tmp_path):
    """Runs that differ in more than the seed are two experiments, wherever they are."""
    for seed, source in enumerate(("small-siglip", "small-clip")):
        folder = tmp_path / "both" / f"seed_{seed}"
        write_run(folder, pictured_dataset(), fate_scores(), seed=seed, source=source)
    names = folder_names(read_experiments([tmp_path / "both"]))
    assert len(set(names)) == 2
