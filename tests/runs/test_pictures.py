"""The small pictures of a run, and the names of the files that they came from."""

import io

import numpy as np
import pytest
from PIL import Image

from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.runs.pictures import read_pictures, save_pictures, thumbnail_side


@pytest.mark.parametrize(("count", "side"), [(1, 384), (200, 384), (201, 240), (1001, 144)])
def test_the_more_pictures_the_smaller(count, side):
    assert thumbnail_side(count) == side


def test_files_keep_their_names_and_arrays_have_none(tmp_path):
    photo = tmp_path / "IMG_1.jpg"
    Image.new("RGB", (800, 400)).save(photo)
    group = Group("1", (photo, np.zeros((8, 6, 3), np.uint8)), ("a", "b"))
    save_pictures(tmp_path / "run", GroupedDataset.from_groups([group]))
    found = read_pictures(tmp_path / "run")
    assert found.names == (str(photo), None)
    sizes = [Image.open(io.BytesIO(data)).size for data in found.thumbnails()]
    assert sizes == [(384, 192), (6, 8)]  # never enlarged
