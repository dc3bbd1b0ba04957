"""Photographs and captions as people have them: folders, tables, Parquet; and what is refused."""

import io

import numpy as np
import pytest
from PIL import Image

from ttm_jax.data.caption_tables import CaptionRow, read_caption_table
from ttm_jax.data.own_data import expand_images, image_files, read_own_data, truth_of_images
from ttm_jax.errors import InputError
from ttm_jax.inputs.image_decode import NamedBytes


def png(value: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((4, 4, 3), value, np.uint8)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in (1, 2, 10):
        (folder / f"photo_{number}.png").write_bytes(png(number))
    return folder


def names(images) -> list[str]:
    return [path.name for path in images]


def test_images_are_in_the_order_in_which_people_number_them(photos):
    (photos / ".hidden.png").write_bytes(png(0))
    (photos / "notes.md").write_text("no picture")
    expected = ["photo_1.png", "photo_2.png", "photo_10.png"]
    assert names(image_files(photos)) == expected
    assert names(expand_images([photos, photos / "photo_2.png"])) == [*expected, "photo_2.png"]


class TestPhotographs:
    @pytest.mark.parametrize("name", ["captions.txt", "captions.csv"])
    def test_a_plain_list_has_no_truth(self, photos, name):
        header = "caption\n" if name.endswith("csv") else ""
        (photos / name).write_text(f"{header}a cat\na dog\n\na bird\na fish\n")
        found = read_own_data(photos)
        assert (found.grouped, found.dataset.has_truth, found.dataset.name) == (
            False, False, "photos"
        )  # fmt: skip
        assert found.dataset.captions == ("a cat", "a dog", "a bird", "a fish")
        assert found.dataset.blocks[0].shape == (3, 4)

    def test_pairs_are_the_truth(self, photos, tmp_path):
        table = tmp_path / "pairs.csv"
        table.write_text('File_Name,Caption\nphoto_10.png,"a cat, asleep"\nphoto_1.png,a dog\n')
        found = read_own_data(photos, table)
        assert names(found.dataset.images) == ["photo_10.png", "photo_1.png"]
        assert found.dataset.captions == ("a cat, asleep", "a dog")
        assert found.dataset.blocks[0].truth.tolist() == [[0, 1]]
        (note,) = found.notes
        assert "1 of 3 images are not in" in note
        assert "photo_2.png" in note

    def test_a_caption_without_an_image_belongs_to_nobody(self, photos):
        table = photos / "captions.csv"
        table.write_text("image,caption\n,a decoy\nphoto_1.png,a dog\nphoto_2.png,a cat\n")
        (block,) = read_own_data(photos).dataset.blocks
        assert block.shape == (2, 3)
        assert block.truth.tolist() == [[1, 2]]

    def test_groups(self, photos):
        lines = "photo_1.png,a dog,a\nphoto_2.png,a cat,a\nphoto_10.png,a bird,b\n,a fish,b\n"
        (photos / "captions.csv").write_text("image,caption,group\n" + lines)
        found = read_own_data(photos)
        assert found.grouped
        assert [block.shape for block in found.dataset.blocks] == [(2, 2), (1, 2)]
        assert [block.ids for block in found.dataset.blocks] == [("a",), ("b",)]

    def test_a_text_file_beside_every_photograph(self, photos):
        for number in (1, 2, 10):
            (photos / f"photo_{number}.txt").write_text(f"caption {number}\n")
        found = read_own_data(photos)
        assert found.dataset.captions == ("caption 1", "caption 2", "caption 10")
        assert found.dataset.has_truth

    def test_no_header(self, photos):
        (photos / "captions.csv").write_text("photo_2.png,a cat\nphoto_1.png,a dog\n")
        found = read_own_data(photos)
        assert names(found.dataset.images) == ["photo_2.png", "photo_1.png"]


class TestTables:
    def test_a_table_with_paths(self, photos):
        table = photos.parent / "all.tsv"
        table.write_text("where\twords\nphotos/photo_1.png\ta dog\nphotos/photo_2.png\ta cat\n")
        found = read_own_data(table, image_column="where", caption_column="words")
        assert names(found.dataset.images) == ["photo_1.png", "photo_2.png"]
        assert found.dataset.name == "all"

    def test_parquet_as_the_hub_stores_it(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        rows = [
            {"image": {"bytes": png(n), "path": "same.png"}, "caption": f"caption {n}"}
            for n in range(3)
        ]
        (tmp_path / "data").mkdir()
        parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "data/test-0.parquet")
        parquet.write_table(pa.Table.from_pylist(rows[:1]), tmp_path / "data/train-0.parquet")
        dataset = read_own_data(tmp_path).dataset
        assert [image.data for image in dataset.images] == [png(n) for n in range(3)]
        assert all(isinstance(image, NamedBytes) for image in dataset.images)
        assert dataset.captions == ("caption 0", "caption 1", "caption 2")
        assert read_own_data(tmp_path / "data/train-0.parquet").dataset.captions == ("caption 0",)


class TestRefused:
    def test_a_folder_without_captions_says_what_is_needed(self, photos):
        with pytest.raises(InputError, match=r"3 images and no captions; needed .*ttm adapt"):
            read_own_data(photos)

    def test_a_folder_without_images(self, tmp_path):
        (tmp_path / "a.doc").write_text("x")
        with pytest.raises(InputError, match=r"a\.doc and no images; needed"):
            read_own_data(tmp_path)

    def test_photographs_that_cannot_be_opened_are_named(self, photos, tmp_path):
        (photos / "IMG_7.HEIC").write_bytes(b"x")
        with pytest.raises(InputError, match=r"captions \(1 HEIC file is not read: IMG_7.HEIC"):
            read_own_data(photos)
        (photos / "captions.txt").write_text("a\nb\nc\n")
        data = read_own_data(photos)
        assert len(data.dataset.images) == 3
        assert data.notes == ("1 HEIC file is not read: IMG_7.HEIC; save them as JPEG",)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("image,caption\nno.png,a\nphoto_1.png,b\n", r"1 of 2 image files.*no\.png does not"),
            ("image,caption\nphoto_1.png,\n", "line 2: caption is empty"),
            ("image,caption\nphoto_1.png,a,b\n", 'line 2 has 3 fields for 2 columns; .*"quotes"'),
            ("x,y,z\n1,2,3\n", "line 1 is x, y, z; expected the columns image and caption"),
            ("image,size\nphoto_1.png,3\n", "and none of caption, text"),
            ("caption\na\nb\n", r"3 images and .* 2 captions; .*ttm score"),
            ("", "is empty"),
        ],
    )
    def test_tables(self, photos, content, said):
        (photos / "captions.csv").write_text(content)
        with pytest.raises(InputError, match=said):
            read_own_data(photos)

    def test_other_files(self, tmp_path):
        (tmp_path / "captions.docx").write_text("x")
        with pytest.raises(InputError, match=r"expected a file that ends in \.csv"):
            read_caption_table(tmp_path / "captions.docx")
        with pytest.raises(InputError, match="does not exist; expected a folder of images"):
            read_own_data(tmp_path / "nowhere")


class TestSpreadsheets:
    @pytest.mark.parametrize("mark", [";", "\t", ","])
    def test_marks_between_columns(self, photos, mark):
        pairs = [("image", "caption"), ("photo_1.png", '"a cat, asleep; or not"')]
        (photos / "captions.csv").write_text("".join(f"{mark.join(row)}\n" for row in pairs))
        found = read_own_data(photos).dataset
        assert names(found.images) == ["photo_1.png"]
        assert found.captions == ("a cat, asleep; or not",)

    def test_names_of_columns_and_no_header(self, photos):
        (photos / "captions.csv").write_text("photo_2.png;a dog\nphoto_1.png;a cat\n")
        assert read_own_data(photos).dataset.captions == ("a dog", "a cat")
        (photos / "captions.csv").write_text("file;what it shows\nphoto_2.png;a dog\n")
        found = read_own_data(photos, caption_column="what it shows")
        assert found.dataset.captions == ("a dog",)

    def test_a_list_of_captions_keeps_its_marks(self, photos):
        lines = ["a cat; asleep", "a dog", "a bird; it sings"]
        (photos / "captions.csv").write_text("\n".join(lines))
        assert read_own_data(photos).dataset.captions == tuple(lines)


def test_truth_of_images(photos):
    rows = [
        CaptionRow(2, "ten", "photo_10.png"),
        CaptionRow(3, "nobody"),
        CaptionRow(4, "one", "photo_1.png"),
        CaptionRow(5, "two", "photo_2.png"),
    ]
    images = expand_images([photos])
    assert truth_of_images(images, rows, [photos]) == [2, 3, 0]
    assert truth_of_images(images[:1], rows, images[:1]) == [2]
    twice = [*rows, CaptionRow(6, "one again", "photo_1.png")]
    assert truth_of_images(images, twice, [photos]) is None
    assert truth_of_images(images, rows[:2], [photos]) is None
    assert truth_of_images(images, [CaptionRow(1, "a")], [photos]) is None
    assert truth_of_images(images, [], [photos]) is None
