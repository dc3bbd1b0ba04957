"""Winoground and ColorSwap: pictures inside Parquet files, and files that are not right."""

import builtins
import sys

import benchmark_layouts as layouts
import pyarrow.parquet as pq
import pytest

from ttm_jax.data.benchmarks import colorswap, winoground
from ttm_jax.data.benchmarks.catalogue import BENCHMARKS, load_benchmark, read_groups
from ttm_jax.data.not_prepared import NotPrepared
from ttm_jax.errors import InputError


def test_winoground_pairs_and_tags(tmp_path):
    layouts.write_winoground(tmp_path, groups=40)
    groups = winoground.read_groups(tmp_path / "winoground")
    assert [group.id for group in groups] == [str(i) for i in range(40)]
    for i, group in enumerate(groups):
        assert [image.data for image in group.images] == [
            layouts.picture(2 * i),
            layouts.picture(2 * i + 1),
        ]
        assert group.captions == (f"thing {i} on a box", f"a box on thing {i}")
    assert groups[0].tags == ("Object", "Symbolic", "1 main predicate", "tag: Adjective-Color")
    assert groups[1].tags == ("Relation", "2 main predicates", "tag: Noun")
    # the second file counts its rows anew, and the name says in which one a picture lies
    assert groups[20].images[1].name.endswith("test-00001-of-00002.parquet row 0 image_1")


def test_the_conversion_of_the_hub_has_other_file_names(tmp_path):
    folder = tmp_path / "default" / "test"
    folder.mkdir(parents=True)
    pq.write_table(layouts.winoground_table(range(3)), folder / "0000.parquet")
    assert len(winoground.read_groups(tmp_path)) == 3


def test_colorswap_reads_the_test_split_only(tmp_path):
    layouts.write_colorswap(tmp_path, groups=5)
    groups = colorswap.read_groups(tmp_path / "colorswap")
    assert [group.id for group in groups] == ["700", "701", "702", "703", "704"]
    assert [image.data for image in groups[3].images] == [layouts.picture(6), layouts.picture(7)]
    assert groups[3].captions[1] == "a blue cup and a red plate 3"
    assert groups[3].tags == ("image: midjourney", "caption: human")


def test_colorswap_without_the_columns_that_only_describe(tmp_path):
    table = layouts.colorswap_table(3, ("image_1", "image_2", "caption_1", "caption_2"))
    pq.write_table(table, tmp_path / "test.parquet")
    groups = colorswap.read_groups(tmp_path)
    assert [group.id for group in groups] == ["0", "1", "2"]
    assert groups[0].tags == ()


def test_parquet_of_another_dataset(tmp_path):
    pq.write_table(layouts.colorswap_table(2), tmp_path / "test.parquet")
    with pytest.raises(InputError, match=r"no column image_0, caption_0; it has id, image_1, "):
        winoground.read_groups(tmp_path)


def test_parquet_that_is_none(tmp_path):
    (tmp_path / "test-0.parquet").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(InputError, match=r"test-0.parquet cannot be read as Parquet .*delete it"):
        winoground.read_groups(tmp_path)
    whole = tmp_path / "whole.parquet"
    pq.write_table(layouts.winoground_table(range(3)), whole)
    (tmp_path / "test-0.parquet").write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        winoground.read_groups(tmp_path)


def test_one_of_two_files_is_missing(tmp_path):
    folder = layouts.write_winoground(tmp_path, groups=4)
    (folder / "test-00000-of-00002.parquet").unlink()
    with pytest.raises(NotPrepared, match="has 1 of the 2 Parquet files of the test split"):
        winoground.read_groups(tmp_path)


def test_no_parquet(tmp_path):
    with pytest.raises(NotPrepared, match=r"no Parquet file of the test split"):
        colorswap.read_groups(tmp_path)


def test_a_picture_without_bytes_is_reported_with_its_group(tmp_path):
    folder = layouts.write_winoground(tmp_path)
    path = folder / "test-00001-of-00002.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[7]["image_1"]["bytes"] = None
    pq.write_table(type(pq.read_table(path)).from_pylist(rows, pq.read_schema(path)), path)
    with pytest.raises(NotPrepared, match=r"group '207': .*row 7 image_1 has no bytes"):
        load_benchmark("winoground", tmp_path)
    assert len(load_benchmark("winoground", tmp_path, skip_broken=True).dataset) == 399


def test_an_empty_caption(tmp_path):
    table = layouts.winoground_table(range(2)).to_pylist()
    table[1]["caption_0"] = " "
    schema = layouts.winoground_table(range(1)).schema
    pq.write_table(
        type(layouts.winoground_table(range(1))).from_pylist(table, schema),
        tmp_path / "test.parquet",
    )
    with pytest.raises(InputError, match="row 1: caption_0 is ' '; expected a text"):
        winoground.read_groups(tmp_path)


def test_two_copies_in_one_folder(tmp_path):
    folder = layouts.write_winoground(tmp_path, groups=4)
    (folder / "test-copy.parquet").write_bytes(
        (folder / "test-00000-of-00002.parquet").read_bytes()
    )
    with pytest.raises(InputError, match="group '0' is listed 2 times"):
        read_groups(BENCHMARKS["winoground"], tmp_path)


def test_without_pyarrow_the_message_says_what_to_install(tmp_path, monkeypatch):
    layouts.write_winoground(tmp_path, groups=2)
    real = builtins.__import__

    def refuse(name, *rest):
        if name.startswith("pyarrow"):
            raise ImportError("No module named 'pyarrow'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    for name in [name for name in sys.modules if name.startswith("pyarrow")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(InputError, match=r"pip install pyarrow \(the extra `data`\)"):
        winoground.read_groups(tmp_path / "winoground")
