"""What is wrong with a file of a run is said with the file, the line and the field."""

import io
import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile import read, replaced, write
from made_runs import pictured_dataset, write_fates, write_mixed, write_run
from PIL import Image

from ttm_jax.config import TTMConfig
from ttm_jax.errors import InputError
from ttm_jax.report.decisions import decisions
from ttm_jax.report.page.page import page
from ttm_jax.report.run_data import read_experiments, read_run

GLOBAL = TTMConfig(matching="global", tau_unit="fraction", tau_1=0.5, iterations=1)
DEEP: Any = [[[[]]]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    history = [np.random.default_rng(0).normal(size=(1, 10, 10)) for _ in range(2)]
    return {
        "fates": write_fates(root / "fates", (0,)) / "seed_0",
        "mixed": write_mixed(root / "mixed" / "seed_0"),
        "global": write_run(root / "global" / "seed_0", pictured_dataset(), history, GLOBAL),
    }


@pytest.fixture
def copy(runs, tmp_path):
    """A copy of a run that may be damaged."""

    def make(name: str) -> Path:
        return Path(shutil.copytree(runs[name], tmp_path / name / "seed_0"))

    return make


def refused(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        page(read_experiments([folder]), models={})
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


FIELDS = [
    # file, place in it (the first number is the line), new value, what is said
    ("config.json", (0, "seed"), "1", 'config.json: seed is "1"; expected an integer'),
    ("config.json", (0, "seed"), True, "config.json: seed is true; expected an integer"),
    (
        "config.json",
        (0, "seed"),
        -1,
        "config.json: seed is -1; expected an integer of at least 0",
    ),
    ("config.json", (0, "config"), [], "config.json: config is a list of 0; expected an object"),
    ("config.json", (0, "config", "lr"), "x", 'config.json: config.lr is "x"; expected a number'),
    (
        "config.json",
        (0, "config", "lr"),
        -1,
        "config.json: config: lr is -1.0; expected a positive",
    ),
    (
        "config.json",
        (0, "config", "matching"),
        "both",
        'config.matching is "both"; expected group or',
    ),
    ("config.json", (0, "config", "oracle"), 1, "config.oracle is 1; expected true or false"),
    (
        "config.json",
        (0, "config", "iterations"),
        2.5,
        "config.iterations is 2.5; expected an integer",
    ),
    ("config.json", (0, "config", "memory", "chunk"), "x", 'config.memory.chunk is "x"; expected'),
    (
        "config.json",
        (0, "config", "iterations"),
        1,
        "metrics.jsonl line 3: iteration is 2; expected at",
    ),
    (
        "config.json",
        (0, "model", "source"),
        None,
        "config.json: model.source is null; expected a string",
    ),
    (
        "config.json",
        (0, "dataset", "groups"),
        4,
        "dataset.groups is 4; expected 5, as dataset.shapes",
    ),
    ("config.json", (0, "dataset", "shapes"), {}, "dataset.shapes is an object of 0; expected"),
    (
        "config.json",
        (0, "dataset", "shapes"),
        {"2x2": 0},
        "dataset.shapes.2x2 is 0; expected an integer",
    ),
    ("config.json", (0, "dataset", "shapes"), {"../2x2": 5}, "the name of a shape is like 2x2"),
    (
        "config.json",
        (0, "dataset", "checksum"),
        "0",
        "groups.json: checksum is .*; config.json says 0",
    ),
    ("environment.json", (0,), 7, "environment.json: a JSON number; expected an object"),
    ("metrics.jsonl", (1, "iteration"), 0, "metrics.jsonl line 2: iteration is 0; expected 1"),
    ("metrics.jsonl", (1, "tau"), None, "metrics.jsonl line 2: tau is null; expected a number"),
    (
        "metrics.jsonl",
        (1, "tau"),
        1e300,
        "metrics.jsonl line 2: tau is 1e\\+300; expected a number",
    ),
    (
        "metrics.jsonl",
        (1, "units"),
        6,
        "metrics.jsonl line 2: units is 6; expected 5, as config.json",
    ),
    (
        "metrics.jsonl",
        (1, "selected"),
        6,
        "line 2: selected is 6; expected an integer from 0 to 5",
    ),
    (
        "metrics.jsonl",
        (1, "precision"),
        1.5,
        "line 2: precision is 1.5; expected a number from 0 to 1",
    ),
    ("metrics.jsonl", (1, "losses", 3), "x", r'line 2: losses\[3\] is "x"; expected a number'),
    ("metrics.jsonl", (0, "metrics"), {}, "line 2: metrics has .*; expected those of line 1, none"),
    (
        "metrics.jsonl",
        (2, "metrics"),
        {"x": {}},
        "line 3: metrics.x is not a metric; expected some of",
    ),
    (
        "metrics.jsonl",
        (0, "metrics", "group_match", "count"),
        9,
        "group_match.count is 9; expected",
    ),
    (
        "metrics.jsonl",
        (0, "metrics", "group_match", "percent"),
        41,
        "percent is 41; expected 40, which",
    ),
    (
        "metrics.jsonl",
        (1, "scores"),
        "0",
        "001_2x2.npz: does not hold the scores that metrics.jsonl",
    ),
    ("ledger.jsonl", (0, "iteration"), 2, "ledger.jsonl line 1: iteration is 2; expected 1"),
    ("ledger.jsonl", (0, "group"), 3, "ledger.jsonl line 1: group is 3; expected a string"),
    ("ledger.jsonl", (5, "group"), "x", "ledger.jsonl line 6: group is \"x\"; expected 'to-right'"),
    (
        "ledger.jsonl",
        (1, "matching"),
        [0],
        "ledger.jsonl line 2: matching has 1 entries; expected 2",
    ),
    (
        "ledger.jsonl",
        (1, "matching", 0),
        2,
        r"line 2: matching\[0\] is 2; expected an integer from",
    ),
    ("ledger.jsonl", (1, "margin"), DEEP, "ledger.jsonl line 2: margin is a list of 1; expected a"),
    (
        "ledger.jsonl",
        (4, "selected"),
        True,
        "line 5: iteration 1 selects 4 units here; metrics.jsonl",
    ),
    ("ledger.jsonl", (1, "right"), 0, "ledger.jsonl line 2: right is 0; expected true or false"),
    ("summary.json", (0, "seed"), 3, "summary.json: seed is 3; expected 0, as config.json says"),
    ("summary.json", (0, "final"), {}, "summary.json: final is not what metrics.jsonl says"),
    (
        "groups.json",
        (0, "captions", 0),
        5,
        r"groups.json: captions\[0\] is 5; expected a string or null",
    ),
    ("groups.json", (0, "groups", 1), 5, r"groups.json: groups\[1\] is 5; expected an object"),
    (
        "groups.json",
        (0, "groups", 1, "images", 0),
        10,
        r"groups\[1\].images\[0\] is 10; expected a",
    ),
    (
        "groups.json",
        (0, "groups", 1, "captions"),
        [0],
        r"groups\[1\].truth\[1\] is 1; expected an integer",
    ),
    ("groups.json", (0, "groups", 1, "id"), "x", r"groups\[1\].id is not that of ledger.jsonl"),
    ("groups.json", (0, "groups", 1, "tags"), "x", r'groups\[1\].tags is "x"; expected a list'),
    (
        "groups.json",
        (0, "groups", 1, "truth"),
        [1, 0],
        r"groups\[1\].truth is not that of the scores",
    ),
    ("groups.json", (0, "groups"), [], "groups.json: 0 groups; config.json says 5"),
]


@pytest.mark.parametrize(
    ("name", "where", "value", "message"), FIELDS, ids=[f"{f[0]}{f[1][1:]}={f[2]}" for f in FIELDS]
)
def test_wrong_values(copy, name, where, value, message):
    folder = copy("fates")
    path = folder / name
    write(path, replaced(read(path), where, lambda old: value))
    assert re.search(message, refused(folder)), refused(folder)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("config.json", (0, "config", "lr")),
        ("config.json", (0, "model", "checksum")),
        ("config.json", (0, "dataset", "name")),
        ("metrics.jsonl", (1, "selected")),
        ("metrics.jsonl", (1, "metrics", "group_match", "chance")),
        ("ledger.jsonl", (6, "right")),
        ("groups.json", (0, "groups", 2, "truth")),
    ],
)
def test_missing_keys(copy, name, where):
    folder = copy("fates")
    path = folder / name
    *above, key = where
    content = replaced(
        read(path), tuple(above), lambda old: {k: v for k, v in old.items() if k != key}
    )
    write(path, content)
    message = refused(folder)
    assert name in message
    assert f"{key} is missing" in message
    assert name != "ledger.jsonl" or "line 7" in message


def test_not_a_run(copy):
    folder = copy("fates")
    (folder / "config.json").write_text('{"model_type": "siglip"}')
    assert "config.json: not the settings of a run" in refused(folder)


def test_settings_of_other_versions(copy):
    """A setting that is not known here is shown; one that came later may be absent."""
    folder = copy("fates")
    path = folder / "config.json"
    content = read(path)
    content[0]["config"]["later"] = {"a": [1]}
    del content[0]["config"]["placement"]
    write(path, content)
    assert "later.a" in page(read_experiments([folder]), models={})


def test_whole_numbers_where_floats_are_usual(copy):
    folder = copy("fates")
    path = folder / "metrics.jsonl"
    content = replaced(read(path), (1, "tau"), lambda old: 1)
    write(path, replaced(content, (1, "seconds"), lambda old: 3))
    page(read_experiments([folder]), models={})


class TestLines:
    def test_a_line_twice(self, copy):
        folder = copy("fates")
        path = folder / "metrics.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([lines[0], *lines]))
        assert "metrics.jsonl line 2: iteration is 0; expected 1" in refused(folder)

    @pytest.mark.parametrize("name", ["fates", "global"])
    def test_a_line_of_the_ledger_twice(self, copy, name):
        folder = copy(name)
        path = folder / "ledger.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([lines[0], *lines]))
        assert "ledger.jsonl line " in refused(folder)

    def test_a_lost_line_of_the_ledger(self, copy):
        folder = copy("fates")
        path = folder / "ledger.jsonl"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
        assert (
            "ledger.jsonl: 5 lines of iteration 2 expected; the file is missing or cut"
            in refused(folder)
        )


class TestScores:
    def damage(self, folder, arrays, save=np.savez, name="001_2x2.npz"):
        save(folder / "scores" / name, **arrays)
        return refused(folder)

    @pytest.fixture
    def arrays(self, runs):
        with np.load(runs["fates"] / "scores" / "001_2x2.npz") as file:
            return dict(file)

    def test_objects_are_never_unpickled(self, copy, arrays):
        marker = copy("mixed") / "unpickled"

        class Evil:
            def __reduce__(self):
                return (Path.touch, (marker,))

        arrays["scores"] = np.array([Evil()], object)
        said = self.damage(copy("fates"), arrays)
        assert "001_2x2.npz: scores has a header that is not that of an array of numbers" in said
        assert not marker.exists()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda s: s.astype(np.int32), "scores is of type <i4; expected f4 or f8"),
            (lambda s: s.astype(np.float16), "scores is of type <f2; expected f4 or f8"),
            (lambda s: s.astype(complex), "scores is of type <c16"),
            (lambda s: s[:4], "scores has shape 4 x 2 x 2; config.json says 5 x 2 x 2"),
            (lambda s: s.reshape(-1), "scores has shape 20; config.json says"),
            (
                lambda s: s * np.float32(np.nan),
                r"the score at \[0, 0, 0\] is nan; expected a finite",
            ),
            (lambda s: s.astype(float) + 1e39, r"the score at \[0, 0, 0\] is 1e\+39; expected"),
            (lambda s: s + 1, "does not hold the scores that metrics.jsonl has the checksum of"),
        ],
    )
    def test_other_scores(self, copy, arrays, change, message):
        assert re.search(
            message, self.damage(copy("fates"), {**arrays, "scores": change(arrays["scores"])})
        )

    @pytest.mark.parametrize(
        ("truth", "message"),
        [
            (np.zeros((5, 2), np.int32), "truth of group 0, .*, uses a caption twice"),
            (np.full((5, 2), 7), "truth of group 0, image 0 is 7"),
            (np.tile([1, 0], (5, 1)), "holds another truth than the scores of iteration 0"),
            (np.zeros((5, 2)), "truth is of type <f8; expected i4"),
        ],
    )
    def test_other_truth(self, copy, arrays, truth, message):
        assert re.search(message, self.damage(copy("fates"), {**arrays, "truth": truth}))

    def test_truth_of_all_or_none(self, copy, arrays):
        del arrays["truth"]
        assert "holds another truth" in self.damage(copy("fates"), arrays)

    def test_no_truth_at_first(self, copy, runs):
        with np.load(runs["fates"] / "scores" / "000_2x2.npz") as file:
            scores = {"scores": file["scores"]}
        said = self.damage(copy("fates"), scores, name="000_2x2.npz")
        assert "000_2x2.npz: holds no truth, although metrics.jsonl has metrics" in said

    def test_other_arrays(self, copy, arrays):
        folder = copy("fates")
        said = self.damage(folder, {**arrays, "more": arrays["truth"]})
        assert "more than 2 members" in said
        said = self.damage(folder, {"truth": arrays["truth"], "x": arrays["truth"]})
        assert "holds truth.npy, x.npy; expected scores" in said

    def test_order_and_compression_do_not_matter(self, copy, arrays):
        folder = copy("fates")
        arrays["scores"] = np.asfortranarray(arrays["scores"])
        np.savez_compressed(folder / "scores" / "001_2x2.npz", **arrays)
        page(read_experiments([folder]), models={})

    def test_shapes_that_no_memory_holds(self, copy):
        folder = copy("global")
        path = folder / "config.json"
        shapes = {"999999999x999999999": 1}
        write(path, replaced(read(path), (0, "dataset", "shapes"), lambda old: shapes))
        assert "dataset.shapes makes 3999999992000000004 bytes of scores" in refused(folder)

    def test_metrics_that_the_scores_do_not_give(self, copy):
        folder = copy("fates")
        path = folder / "metrics.jsonl"
        rate = {"percent": 60.0, "count": 3, "of": 5, "chance": 50.0}
        where = (1, "metrics", "group_match")
        write(path, replaced(read(path), where, lambda old: rate))
        said = refused(folder)
        assert "metrics.jsonl line 2: metrics.group_match.count is 3, but the files" in said


class TestPictures:
    def pack(self, folder, change):
        with zipfile.ZipFile(folder / "thumbnails.zip") as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(folder / "thumbnails.zip", "w") as archive:
            for name, data in change(files).items():
                archive.writestr(name, data)
        return refused(folder)

    def test_missing_archive_leaves_the_pictures_out(self, copy):
        folder = copy("fates")
        (folder / "thumbnails.zip").unlink()
        text = page(read_experiments([folder]), models={})
        assert "thumbnails.zip does not exist: the gallery has no pictures of it" in text
        assert 'id="pool-0"' not in text

    def test_missing_picture(self, copy):
        said = self.pack(copy("fates"), lambda files: {"0.jpg": files["0.jpg"]})
        assert "thumbnails.zip: holds 1 pictures; groups.json names 10" in said

    def test_not_a_picture(self, copy):
        said = self.pack(copy("fates"), lambda files: {**files, "3.jpg": b"<script>"})
        assert "thumbnails.zip: 3.jpg is not a JPEG file" in said

    def test_a_large_file(self, copy):
        said = self.pack(copy("fates"), lambda files: {**files, "3.jpg": bytes(300_000)})
        assert "3.jpg has 300000 bytes; expected at most 262144" in said

    def test_a_picture_of_many_pixels(self, copy):
        """A small file that a browser would unpack into gigabytes."""
        buffer = io.BytesIO()
        Image.new("1", (8, 8)).convert("L").save(buffer, "jpeg")
        data = bytearray(buffer.getvalue())
        at = data.index(b"\xff\xc0") + 5
        data[at : at + 4] = b"\xff\xff\xff\xff"  # height and width
        said = self.pack(copy("fates"), lambda files: {**files, "3.jpg": bytes(data)})
        assert re.search("3.jpg is (65535 x 65535; at most 1024|not a JPEG)", said)

    def test_pictures_of_other_data_around_it_are_ignored(self, copy, runs):
        folder = copy("fates")
        for name in ("groups.json", "thumbnails.zip"):
            (folder / name).unlink()
            shutil.copy(runs["mixed"] / name, folder.parent)
        assert read_run(folder).pictures is None

    def test_pictures_of_a_global_matching(self, copy, runs):
        folder = copy("global")
        shutil.copy(runs["mixed"] / "groups.json", folder)
        assert "groups hold 14 images and 16 captions; config.json says 10 and 10" in refused(
            folder
        )


def test_seeds_with_other_metrics(copy):
    one = copy("fates")
    two = Path(shutil.copytree(one, one.parent / "seed_1"))
    write(two / "config.json", replaced(read(two / "config.json"), (0, "seed"), lambda old: 1))
    write(two / "summary.json", [{"seed": 1}])
    rows = [{**row, "metrics": {"group_match": row["metrics"]["group_match"]}}
            for row in read(two / "metrics.jsonl")]  # fmt: skip
    write(two / "metrics.jsonl", rows)
    assert re.search(
        "seed_1/metrics.jsonl line 1: metrics are not those of .*seed_0", refused(one.parent)
    )


def test_experiment_json(copy):
    folder = copy("fates")
    for content, message in (
        ({"dataset": 3}, "experiment.json: dataset is 3; expected a string"),
        ({"small": "no"}, 'experiment.json: small is "no"; expected true or false'),
    ):
        (folder.parent / "experiment.json").write_text(json.dumps(content))
        assert message in refused(folder.parent)
    (folder.parent / "experiment.json").unlink()
    (folder.parent / "summary.json").write_text('{"comparison": {"note": []}}')
    assert "summary.json: comparison.note is a list of 0; expected a string" in refused(
        folder.parent
    )


def test_mixed_shapes_are_read(runs):
    run = read_run(runs["mixed"])
    assert [block.shape for block in run.scores(1)] == [(3, 2, 2), (2, 1, 3), (2, 3, 2)]
    assert len(decisions(run, 2).confidence) == 7
    assert [row["group"] for row in run.ledger.iterations[0]][3] == "1x3-0"
