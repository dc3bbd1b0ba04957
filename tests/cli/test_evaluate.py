"""The command `ttm evaluate`: every format, both outputs, and what bad files get."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from paths import TESTS

from ttm_jax.cli.evaluate import main
from ttm_jax.cli.exit_codes import run
from ttm_jax.report.tables.logits import write_logits

REPOSITORY = TESTS.parent
EXAMPLE = REPOSITORY / "examples" / "scores_2x2.npz"
SCORES = np.array(
    [[[3, 1], [1, 3]], [[5, 4], [3, 2.5]], [[1, 3], [3, 1]], [[1, 1], [1, 1]]], np.float32
)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def call(capsys, *arguments: str) -> str:
    main([str(a) for a in arguments])
    return capsys.readouterr().out


def refuse(capsys, *arguments: str) -> str:
    """The one line that a user error gets."""
    with pytest.raises(SystemExit) as stop:
        run(lambda: main([str(a) for a in arguments]))
    assert stop.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    return shown.err


def write_wide(path: Path, scores=SCORES, truth=None, tags=None) -> Path:
    _, images, texts = scores.shape
    header = [f"s_{i}_{t}" for i in range(images) for t in range(texts)]
    header += [f"truth_{i}" for i in range(images)] if truth is not None else []
    header += ["tags"] if tags is not None else []
    lines = [",".join(header)]
    for g, block in enumerate(scores):
        row = [str(x) for x in block.ravel()]
        row += [str(t) for t in truth[g]] if truth is not None else []
        row += [";".join(tags[g])] if tags is not None else []
        lines.append(",".join(row))
    path.write_text("\n".join(lines) + "\n")
    return path


def write_long(path: Path, scores=SCORES) -> Path:
    lines = ["group,image,caption,score"] + [
        f"g{g},{i},{t},{scores[g, i, t]}" for g, i, t in np.ndindex(*scores.shape)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_jsonl(path: Path, scores=SCORES, **more) -> Path:
    lines = [
        json.dumps({"scores": block.tolist()} | {k: v[g] for k, v in more.items()})
        for g, block in enumerate(scores)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_json_is_what_it_says(capsys):
    np.save("s.npy", SCORES)
    assert json.loads(call(capsys, "s.npy", "--json")) == {
        "groups": 4,
        "shape": [2, 2],
        "metrics": {
            "text_score": {"percent": 25.0, "count": 1, "of": 4, "chance": 25.0},
            "image_score": {"percent": 25.0, "count": 1, "of": 4, "chance": 25.0},
            "group_score": {"percent": 25.0, "count": 1, "of": 4, "chance": pytest.approx(100 / 6)},
            "group_match": {"percent": 50.0, "count": 2, "of": 4, "chance": 50.0},
            "individual_match": {"percent": 37.5, "count": 3, "of": 8, "chance": 50.0},
        },
    }
    assert not list(Path().glob("*.png"))  # nobody asked for a figure


def test_every_format_says_the_same(capsys, tmp_path):
    np.save("s.npy", SCORES)
    np.savez("s.npz", scores=SCORES)
    files = [
        tmp_path / "s.npy",
        tmp_path / "s.npz",
        write_wide(tmp_path / "wide.csv"),
        write_long(tmp_path / "long.csv"),
        write_jsonl(tmp_path / "s.jsonl"),
    ]
    outputs = {call(capsys, str(file), "--json") for file in files}
    assert len(outputs) == 1


def test_truth_and_tags_from_every_format(capsys, tmp_path):
    truth, tags = [[0, 1], [1, 0], [1, 0], [0, 1]], [["a"], ["a", "b"], ["b"], []]
    padded = np.array([(*t, "", "")[:2] for t in tags])
    np.savez("s.npz", scores=SCORES, truth=np.array(truth), tags=padded)
    files = [
        tmp_path / "s.npz",
        write_wide(tmp_path / "s.csv", truth=truth, tags=tags),
        write_jsonl(tmp_path / "s.jsonl", truth=truth, tags=tags),
    ]
    for file in files:
        answer = json.loads(call(capsys, str(file), "--json"))
        assert answer["metrics"]["group_match"]["count"] == 2  # groups 0 and 2
        assert {t: r["group_match"]["of"] for t, r in answer["tags"].items()} == {"a": 2, "b": 2}
        assert answer["tags"]["b"]["group_match"]["count"] == 1
        diagonal = json.loads(call(capsys, str(file), "--json", "--truth", "diagonal"))
        assert diagonal["metrics"]["text_score"]["count"] == 1
    np.save("truth.npy", np.array(truth))
    np.save("s.npy", SCORES)
    answer = json.loads(call(capsys, "s.npy", "--json", "--truth", "truth.npy"))
    assert answer["metrics"]["group_match"]["count"] == 2


def test_metrics_that_do_not_apply_are_null(capsys):
    np.save("s.npy", SCORES[:, :1])
    metrics = json.loads(call(capsys, "s.npy", "--json"))["metrics"]
    assert metrics["image_score"] is None
    assert metrics["text_score"] == metrics["group_match"]


def test_unknown_truth_gives_matchings_only(capsys):
    np.save("s.npy", SCORES)
    answer = json.loads(call(capsys, "s.npy", "--json", "--truth", "none"))
    assert answer["metrics"] == {}
    assert answer["matching"][:3] == [[0, 1], [0, 1], [1, 0]]
    assert answer["margin"] == [4.0, 0.5, 4.0, 0.0]
    assert answer["unique"] == [True, True, True, False]
    shown = call(capsys, "s.npy", "--truth", "none")
    assert "3 of 4 groups have one best matching" in shown
    assert "unknown" in shown
    assert "GroupScore" not in shown


def test_global_json(capsys):
    scores = np.array([[5, 4, 0], [6, 3, 0], [0, 0, 1]], np.float32)
    np.save("m.npy", scores)
    Path("m.csv").write_text("\n".join(",".join(map(str, row)) for row in scores.tolist()))
    Path("m.jsonl").write_text(json.dumps({"scores": scores.tolist()}))
    for name in ("m.npy", "m.csv", "m.jsonl"):
        found = json.loads(call(capsys, name, "--global", "--json"))
        without_prior = found.pop("without_prior")
        assert without_prior["row_argmax"]["count"] == 1  # the first two images prefer the other
        assert without_prior["global_match"] == found["metrics"]["global_match"]
        assert found == {
            "groups": 1,
            "shape": [3, 3],
            "metrics": {
                "global_match": {
                    "percent": pytest.approx(100 / 3),
                    "count": 1,
                    "of": 3,
                    "chance": pytest.approx(100 / 3),
                },
                "row_argmax": {
                    "percent": pytest.approx(200 / 3),
                    "count": 2,
                    "of": 3,
                    "chance": pytest.approx(100 / 3),
                },
            },
        }
    unknown = json.loads(call(capsys, "m.npy", "--global", "--json", "--truth", "none"))
    assert unknown["matching"] == [1, 0, 2]
    shown = call(capsys, "m.npy", "--global")
    assert "global match" in shown
    assert "row argmax" in shown
    assert Path("m_coverage.png").is_file()


def test_tables_of_the_shipped_example(capsys):
    shown = call(capsys, EXAMPLE)
    file = np.load(EXAMPLE, allow_pickle=False)
    scores = file["scores"]
    margin = scores[:, 0, 0] + scores[:, 1, 1] - scores[:, 0, 1] - scores[:, 1, 0]
    right = int((margin.astype(np.float64) > 1e-4).sum())
    assert f"{right}/400" in shown
    assert f"becomes {right / 4:.2f}" in shown
    for name in ("TextScore", "ImageScore", "GroupScore", "GroupMatch", "individual match"):
        assert name in shown
    for tag in np.unique(file["tags"]):
        assert str(tag) in shown
    assert "16.67" in shown  # chance
    assert "scores_2x2_coverage.png" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert Path("scores_2x2_coverage.png").read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in Path().iterdir()] == ["scores_2x2_coverage.png"]  # nothing left behind


def test_the_figure_goes_where_it_is_told(capsys):
    np.save("s.npy", SCORES)
    call(capsys, "s.npy", "--json", "--figure", "deep/er/f.png")
    assert Path("deep/er/f.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("shape", [(4, 1, 1), (3, 1, 3), (3, 3, 2), (2, 3, 3)])
def test_odd_shapes_get_tables_too(capsys, shape):
    np.save("s.npy", np.random.default_rng(0).normal(size=shape))
    shown = call(capsys, "s.npy")
    assert "GroupMatch" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_all_tied(capsys):
    np.save("s.npy", np.ones((5, 2, 2)))
    shown = call(capsys, "s.npy")
    assert "5 groups are tied" in shown
    np.save("m.npy", np.ones((4, 4)))
    assert "0/4" in call(capsys, "m.npy", "--global")


BAD_TEXT = {
    "empty.csv": ("", "is empty"),
    "header.csv": ("s_0_0,s_0_1\n", "no lines below it"),
    "names.csv": ("a,b\n1,2\n", "expected the columns group, image, caption, score"),
    "gap.csv": ("s_0_0,s_1_1\n1,2\n", "2 score columns up to s_1_1; expected all 4"),
    "twice.csv": ("s_0_0,s_0_0\n1,2\n", "names a column twice"),
    "word.csv": ("s_0_0,s_0_1\n1,two\n", "line 2: 'two' is not a number"),
    "short.csv": ("s_0_0,s_0_1\n1\n", "line 2 has 1 fields, the header 2"),
    "truth.csv": ("s_0_0,s_1_0,truth_0\n1,2,0\n", "has truth_0 of truth_0, truth_1"),
    "nan.csv": ("s_0_0,s_0_1\n1,2\n1,nan\n", "group 1, image 0, caption 1 is nan"),
    "miss.csv": ("group,image,caption,score\na,0,0,1\na,0,1,1\nb,0,0,1\n", "group b has 1 scores"),
    "again.csv": ("group,image,caption,score\na,0,0,1\na,0,0,1\n", "line 3 repeats group a"),
    "half.csv": ("group,image,caption,score\na,0.5,0,1\n", "'0.5' is not a whole number"),
    "bad.jsonl": ("{\n", "line 1"),
    "key.jsonl": ('{"score": [[1]]}\n', "line 1: scores missing"),
    "ragged.jsonl": ('{"scores": [[1, 2], [3]]}\n', "line 1: scores are not rows of numbers"),
    "flat.jsonl": ('{"scores": [1, 2]}\n', "not rows of numbers; expected one row per image"),
    "mixed.jsonl": (
        '{"scores": [[1, 2]]}\n{"scores": [[1, 2, 3]]}\n',
        "line 2: scores of 1 x 3, but line 1 has 1 x 2",
    ),
    "some.jsonl": (
        '{"scores": [[1, 2]], "truth": [0]}\n{"scores": [[1, 2]]}\n',
        "line 2: no truth, but other lines have one",
    ),
    "truth.jsonl": ('{"scores": [[1, 2]], "truth": ["a"]}\n', 'truth is ["a"]'),
    "far.jsonl": ('{"scores": [[1, 2]], "truth": [2]}\n', "truth of group 0, image 0 is 2"),
    "tags.jsonl": ('{"scores": [[1, 2]], "tags": [1]}\n', "tags are not strings"),
    "x.npy": ("not numpy", "not an array that np.save writes"),
    "x.npz": ("not a zip", "not an .npz file"),
    "x.txt": ("1 2", "ends in none of .npz, .npy, .csv, .jsonl"),
}


@pytest.mark.parametrize("name", BAD_TEXT)
def test_a_bad_text_file_gets_one_line(capsys, name):
    text, message = BAD_TEXT[name]
    Path(name).write_text(text)
    assert message in refuse(capsys, name)


def test_a_bad_numpy_file_gets_one_line(capsys):
    np.save("m.npy", np.zeros((3, 3)))
    assert "one matrix without groups is a global matching" in refuse(capsys, "m.npy")
    np.save("g.npy", np.zeros((3, 2, 2)))
    assert "expected one matrix [image, text] without groups" in refuse(capsys, "g.npy", "--global")
    np.savez("s.npz", logits=np.zeros((3, 2, 2)))
    assert "holds logits; expected an array named scores" in refuse(capsys, "s.npz")
    np.savez("t.npz", scores=SCORES, tags=np.array(["a"]))
    assert "tags of 1 groups and scores of 4" in refuse(capsys, "t.npz")
    np.savez("u.npz", scores=SCORES, tags=np.zeros(4))
    assert "tags is of type float64" in refuse(capsys, "u.npz")
    np.savez("v.npz", scores=SCORES, truth=np.array([[0, 1]]))
    assert "truth has shape 1 x 2" in refuse(capsys, "v.npz")
    np.save("o.npy", np.array([{"a": 1}], object), allow_pickle=True)
    assert "pickles are not opened" in refuse(capsys, "o.npy")
    assert "missing.npy does not exist" in refuse(capsys, "missing.npy")
    np.save("s.npy", SCORES)
    assert "expected auto, diagonal, none" in refuse(capsys, "s.npy", "--truth", "diag")
    assert "nowhere.npy does not exist" in refuse(capsys, "s.npy", "--truth", "nowhere.npy")
    whole = Path("s.npz").read_bytes()
    Path("cut.npz").write_bytes(whole[: len(whole) // 2])
    refuse(capsys, "cut.npz")


def test_as_a_user_runs_it():
    command = [sys.executable, "-m", "ttm_jax.cli.main", "evaluate"]
    done = subprocess.run(
        [*command, str(EXAMPLE), "--json"], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["groups"] == 400
    done = subprocess.run([*command, "nowhere.npz"], cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: nowhere.npz does not exist\n"


def test_help_does_not_wait_for_jax():
    program = "import sys, ttm_jax.cli.evaluate; print('jax' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


class TestWhatScoreWrites:
    """`ttm score --out x.npz` then `ttm evaluate x.npz`, without another flag."""

    def written(self, path, scores):
        images = [Path(f"{n}.jpg") for n in range(len(scores))]
        captions = [f"caption {n}" for n in range(scores.shape[1])]
        write_logits(path, scores, images, captions, "siglip")
        return path

    def test_one_caption_for_each_image(self, capsys, tmp_path):
        scores = np.array([[2, 1, 0], [1, 2, 0], [2, 0, 1]], np.float32)
        found = json.loads(call(capsys, self.written(tmp_path / "x.npz", scores), "--json"))
        assert found["metrics"]["global_match"]["count"] == 3

    def test_order_of_a_folder_is_no_truth(self, capsys, tmp_path):
        scores = np.array([[2, 1], [1, 2]], np.float32)
        images, path = [Path("a.jpg"), Path("b.jpg")], tmp_path / "x.npz"
        write_logits(path, scores, images, ["x", "y"], "siglip", listed=False)
        assert json.loads(call(capsys, path, "--json"))["metrics"] == {}
        forced = json.loads(call(capsys, path, "--truth", "diagonal", "--json"))
        assert forced["metrics"]["global_match"]["count"] == 2
        write_logits(path, scores, images, ["x", "y"], "siglip", [1, 0], listed=False)
        found = json.loads(call(capsys, path, "--json"))
        assert found["metrics"]["global_match"]["count"] == 0

    def test_candidates_have_no_truth(self, capsys, tmp_path):
        scores = np.array([[2, 1, 0], [1, 2, 0]], np.float32)
        found = json.loads(call(capsys, self.written(tmp_path / "x.npz", scores), "--json"))
        assert found["metrics"] == {}
        assert found["matching"] == [0, 1]


def biased(path: Path) -> Path:
    """One image and two captions: the second scores high with every image."""
    rng = np.random.default_rng(0)
    scores = rng.normal((1.0, 1.5), size=(50, 1, 2))
    decoys = rng.normal((0.0, 1.5), size=(50, 8, 1, 2))
    np.savez(path, scores=scores, decoys=decoys, truth=np.zeros((50, 1), int))
    return path


def test_decoys_show_what_the_images_are_worth(capsys, tmp_path):
    path = biased(tmp_path / "s.npz")
    text = call(capsys, path)
    assert "with images of other groups (decoys)" in text
    assert "Grounded gain: +" in text
    found = json.loads(call(capsys, path, "--json"))["grounding"]
    assert found["unrelated"]["percent"] < found["real"]["percent"]
    assert found["real"]["percent"] < found["without_prior"]["percent"]
    assert found["unrelated"]["of"] == 400


def test_without_decoys_the_table_says_what_is_missing(capsys, tmp_path):
    np.save(tmp_path / "s.npy", np.random.default_rng(0).normal(size=(5, 1, 2)))
    assert "(array decoys; docs/metrics.md)" in call(capsys, tmp_path / "s.npy")
    assert "array decoys" not in call(capsys, EXAMPLE)  # every caption is used there


@pytest.mark.parametrize(
    ("decoys", "message"),
    [
        (np.zeros((4, 2, 2)), "decoys have the size 4 x 2 x 2; expected [group, draw, image"),
        (np.zeros((3, 5, 2, 2)), "decoys have the size 3 x 5 x 2 x 2"),
        (np.full((4, 5, 2, 2), np.nan), "decoys hold a number that is not finite"),
    ],
)
def test_bad_decoys(capsys, tmp_path, decoys, message):
    np.savez(tmp_path / "s.npz", scores=SCORES, decoys=decoys)
    assert message in refuse(capsys, tmp_path / "s.npz")


def test_a_matrix_without_the_prior(capsys, tmp_path):
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(20, 20)) + 2 * np.eye(20) + 3 * rng.normal(size=20)
    np.save(tmp_path / "m.npy", scores)
    assert "Without the captions' prior" in call(capsys, tmp_path / "m.npy", "--global")
    found = json.loads(call(capsys, tmp_path / "m.npy", "--global", "--json"))
    before, after = found["metrics"], found["without_prior"]
    assert after["row_argmax"]["count"] > before["row_argmax"]["count"]
    assert after["global_match"] == before["global_match"]  # every caption is used


@pytest.mark.parametrize("shape", [(2, 2), (1, 4), (3, 2)])
def test_80_columns_cut_nothing(capsys, tmp_path, monkeypatch, shape):
    """The name of a metric may break; numbers and headings are whole."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    path = tmp_path / "many.npz"
    np.savez(path, scores=np.random.default_rng(0).normal(size=(1234, *shape)))
    shown = re.sub(r"\x1b\[[0-9;]*m", "", call(capsys, path))
    assert "…" not in shown
    assert {"right", "percent", "interval", "chance", "%"} <= set(shown.split())
