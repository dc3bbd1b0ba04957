"""`reproduce --check` from end to end: tiny models on benchmarks in their published layouts.

The "published" counts are made here with one choice different, by the package's ordinary functions;
the check-up has to name that choice and no other.
"""

import csv
import io
import json
from dataclasses import replace

import benchmark_layouts as layouts
import jax
import numpy as np
import pytest
from commands import command, models, one_device, smolvlm  # noqa: F401  (fixtures)
from PIL import Image

from experiments import _check_rows
from experiments._check_rows import find_subjects
from ttm_jax.config import TTMConfig
from ttm_jax.data.benchmarks.catalogue import load_benchmark
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.data.paper import paper_results
from ttm_jax.data.paper.models import MODELS
from ttm_jax.engine.raw_scores import raw_scores
from ttm_jax.files import read_json
from ttm_jax.inputs.tokenize import load_tokenizer
from ttm_jax.load import load_model
from ttm_jax.report.checkup.measure import Scored, right

# The tokenizers of the tiny models have few words, so they cut captions.
pytestmark = pytest.mark.filterwarnings("ignore::ttm_jax.inputs.tokenize.CaptionWarning")
TABLES = ("main_2x2", "smolvlm", "global", "sugarcrepe_1x2", "whatsup_1x4", "whatsup_2x2")
COLORS = ("red", "blue", "green", "orange", "purple", "yellow")
SHAPES = ("circle", "star", "heart", "square", "triangle")
MMVP = ("--table", "main_2x2", "--rows", "mmvp_siglip")
MMVP_TWICE = ("--table", "main_2x2", "global", "--rows", "mmvp_siglip", "global_siglip")
MEASURES = ("raw", "simple_match", "global_match")


def noise(number: int, *, turned: bool = False, transparent: bool = False) -> bytes:
    """A picture in which every choice of preprocessing shows; PNG, whatever the file is called."""
    rng = np.random.default_rng(number)
    coarse = rng.integers(0, 256, (5, 6, 4 if transparent else 3), dtype=np.uint8)
    pixels = coarse.repeat(6, axis=0).repeat(8, axis=1)
    fine = rng.integers(0, 2, (30, 48, 1)) == 1
    exif = Image.Exif()
    exif[0x0112] = 6 if turned else 1
    buffer = io.BytesIO()
    Image.fromarray(np.where(fine, pixels, 255 - pixels)).save(buffer, "PNG", exif=exif)
    return buffer.getvalue()


def short_captions() -> list[str]:
    """270 different ones, none as long as the tiny models can read."""
    places = [f"{where} a {what}" for where in ("on", "under", "by") for what in SHAPES[:3]]
    every = [f"a {c} {s} {place}" for c in COLORS for s in SHAPES for place in places]
    return [every[i] for i in np.random.default_rng(0).permutation(len(every))]


def write_mmvp(root) -> None:
    """135 groups in which every known choice moves something.

    Captions have capitals and punctuation, and in some groups nothing else tells them apart. Some
    pictures are stored turned, some are transparent. Of four rows, the first and the third are a
    group, and so are the second and the fourth, although their numbers say otherwise; only in the
    last of each type (of 30 rows) the numbers follow one another.
    """
    folder = layouts.write_mmvp(root)
    with (folder / "Questions.csv").open(newline="") as file:
        heading, *rows = list(csv.reader(file))
    words = short_captions()
    for row, caption in zip(rows, words, strict=True):
        number = int(row[0])
        row[2] = f"{caption.capitalize()}, {'!?.;'[number % 4]}"
        image = folder / "MLLM_VLM Images" / row[1] / f"{number}.jpg"
        data = noise(number, turned=number % 3 == 0, transparent=number % 7 == 1)
        image.write_bytes(data)
    order = []
    for start in range(0, 270, 30):
        part = rows[start : start + 30]
        for i in range(0, 28, 4):
            order += [part[i], part[i + 2], part[i + 1], part[i + 3]]
        order += part[28:]
    for first, second in zip(order[:20:4], order[1:20:4], strict=True):
        second[2] = first[2].rstrip("!?.;") + "- ."
    with (folder / "Questions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([heading, *order])


@pytest.fixture(autouse=True)
def standard_promotion():
    """Flax's layer norm mixes bfloat16 and float32."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_mmvp(root)
    return root


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Shared: what one test has scored, the next ones find."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def tiny(models, monkeypatch):  # noqa: F811
    monkeypatch.setitem(MODELS, "siglip_b16", str(models["siglip"]))
    monkeypatch.setitem(MODELS, "clip_b32", str(models["clip"]))
    return models


@pytest.fixture
def publish(monkeypatch):
    """publish("mmvp_vlm", "siglip_b16", raw=30, simple_match=70): these are the paper's counts."""
    planted = {}

    def results():
        rows = []
        for row in paper_results():
            counts = planted.get((row.dataset, row.model, row.matching), {})
            rows.append(replace(row, **counts))
        return tuple(rows)

    def set_counts(dataset, model, raw, simple_match=None, matching="group"):
        counts = {"raw_count": raw, "simple_match_count": simple_match}
        planted[dataset, model, matching] = counts

    monkeypatch.setattr(_check_rows, "paper_results", results)
    return set_counts


@pytest.fixture
def publish_all(publish):
    """The counts of MMVP in both of its tables, from scores."""

    def set_counts(scored):
        found = counts(scored)
        publish("mmvp_vlm", "siglip_b16", found["raw"], found["simple_match"])
        publish("mmvp_vlm", "siglip_b16", found["raw"], found["global_match"], matching="global")

    return set_counts


@pytest.fixture
def check(command, tiny, data, runs):  # noqa: F811
    """check("--rows", "mmvp_siglip") -> what was printed, and the rows of check.json."""

    def run(*args, data_dir=data, root=runs):
        done = command(
            "reproduce", "--check", "--no-fetch", "--data-dir", data_dir, "--run-dir", root, *args
        )
        written = root / "check.json"
        return done, read_json(written)["rows"] if written.exists() else []

    return run


def counts(scored):
    wanted = MEASURES if scored.whole is not None else MEASURES[:2]
    return {measure: int(right(scored, measure).sum()) for measure in wanted}


class Usual:
    """The siglip model on MMVP, scored as every experiment does it."""

    def __init__(self, models, data):  # noqa: F811
        self.model = load_model(models["siglip"])
        self.load = lambda **how: load_benchmark("mmvp_vlm", data, **how).dataset
        self.dataset = self.load()
        self.truth = self.dataset.blocks[0].truth

    def scored(self, dataset=None, model=None, **config):
        """By group and as a whole, each as its own experiment does it."""
        dataset, settings = dataset or self.dataset, TTMConfig(**config)
        by_group, whole = (
            raw_scores(model or self.model, dataset, matching, settings)[0]
            for matching in ("group", "global")
        )
        return Scored(by_group, self.truth, whole[0])

    def with_processor(self, **changes):
        return replace(self.model, processor=replace(self.model.processor, **changes))

    def with_tokenizer(self, canonicalise="transformers", length=20):
        tokenizer = load_tokenizer(self.model.folder, "siglip", length, canonicalise)
        return replace(self.model, tokenizer=tokenizer)

    def groups(self):
        block = self.dataset.blocks[0]
        for row, identity in enumerate(block.ids):
            images = [self.dataset.images[i] for i in block.image_index[row]]
            captions = [self.dataset.captions[t] for t in block.text_index[row]]
            yield identity, images, captions

    def longest(self):
        """Tokens of the longest caption, with its end, from the tokenizer's own counts."""
        tokenizer = self.model.tokenizer
        clean = [tokenizer.clean(caption) for caption in self.dataset.captions]
        return min(max(len(ids) for ids in tokenizer.encode(clean)) + 1, 20)


@pytest.fixture(scope="module")
def usual(models, data):  # noqa: F811
    return Usual(models, data)


def exif(u):
    return u.scored(u.load(exif="on"))


def alpha(u):
    return u.scored(model=u.with_processor(alpha="white"))


def big_vision_resize(u):
    return u.scored(model=u.with_processor(mode="big_vision"))


def bilinear(u):
    return u.scored(model=u.with_processor(resample=Image.Resampling.BILINEAR))


def crop(u):
    return u.scored(model=u.with_processor(kind="shorter_side+center_crop"))


def canonicalisation(u):
    return u.scored(model=u.with_tokenizer("big_vision"))


def padding(u):
    assert u.longest() < 20
    return u.scored(model=u.with_tokenizer(length=u.longest()))


def photo(u):
    groups = [
        Group(name, tuple(images), tuple(f"a photo of {c}" for c in captions), (0, 1))
        for name, images, captions in u.groups()
    ]
    return u.scored(GroupedDataset.from_groups(groups))


def question_id(u):
    rows = {}
    for name, images, captions in u.groups():
        for number, image, caption in zip(name.split("-"), images, captions, strict=True):
            rows[int(number)] = image, caption
    groups = [
        Group(str(n), (rows[n][0], rows[n + 1][0]), (rows[n][1], rows[n + 1][1]), (0, 1))
        for n in range(1, 270, 2)
    ]
    return u.scored(GroupedDataset.from_groups(groups))


PLANTED = {
    "EXIF orientation applied": exif,
    "transparent pictures on white": alpha,
    "big_vision's resize (bilinear, no antialias)": big_vision_resize,
    "Pillow's bilinear resize": bilinear,
    "shorter side and centre crop": crop,
    "big_vision's canonicalisation of captions": canonicalisation,
    "captions padded to the longest only": padding,
    '"a photo of" before captions': photo,
    "rows paired in the order of Question ID": question_id,
}


@pytest.mark.parametrize("name", PLANTED)
def test_names_the_planted_choice(name, check, publish_all, usual, one_device):  # noqa: F811
    here, there = usual.scored(), PLANTED[name](usual)
    assert counts(there) != counts(here)
    publish_all(there)
    done, rows = check(*MMVP_TWICE)
    assert done.code == 1, done.err
    row = mmvp_of(rows)
    assert row["explained_by"] == [name]
    assert f"explained by {name}" in done.err
    assert "looking for the reason" in done.err
    expect_flips(row, name, here, there, usual)


def mmvp_of(rows):
    """MMVP's row; the other benchmarks of the table without groups are missing here."""
    (row,) = [row for row in rows if row["dataset"] == "mmvp_vlm"]
    assert all(row["missing"] for row in rows if row["dataset"] != "mmvp_vlm")
    return row


def expect_flips(row, name, here, there, usual):
    """Exactly the groups that are right in one way and wrong in the other, with their margins."""
    groups = usual.dataset.blocks[0].ids
    images = [f"{group} image {i}" for group in groups for i in (0, 1)]
    expected = set()
    for measure in MEASURES:
        if counts(here)[measure] != counts(there)[measure]:
            before, after = right(here, measure), right(there, measure)
            ids = images if measure == "global_match" else groups
            flipped = np.flatnonzero(before != after)
            expected |= {(measure, ids[unit], bool(before[unit])) for unit in flipped}
    found = row["flips"][name]
    assert {(f["measure"], f["unit"].split(" (")[0], f["right_here"]) for f in found} == expected
    for flip in found:
        assert (flip["margin_here"] > 0) == flip["right_here"]
        assert (flip["margin_there"] > 0) == (not flip["right_here"])


def test_bfloat16(check, publish_all, usual, one_device):  # noqa: F811
    """What bfloat16 rounds depends on the processor, and so does whether it moves a count."""
    there = usual.scored(dtype="bfloat16")
    publish_all(there)
    _, rows = check(*MMVP_TWICE)
    row = mmvp_of(rows)
    if counts(there) == counts(usual.scored()):
        assert {number["verdict"] for number in row["numbers"]} == {"equal"}
    else:
        assert "bfloat16" in row["explained_by"]


def test_ties(check, publish, usual, one_device):  # noqa: F811
    """Captions that differ only in punctuation tie; counted with >=, they are right."""
    scored = usual.scored()
    lenient = counts(replace(scored, ties="right"))
    assert lenient["simple_match"] == counts(scored)["simple_match"] + 5
    publish("mmvp_vlm", "siglip_b16", lenient["raw"], lenient["simple_match"])
    done, (row,) = check(*MMVP)
    assert (done.code, row["explained_by"]) == (1, ["a tie counts as right"])
    assert row["untried"].startswith("not tried, because")
    assert len(row["tried"]) == 3  # only those that need no new scores
    flips = row["flips"]["a tie counts as right"]
    assert {flip["margin_here"] for flip in flips} == {0.0}
    assert "off by -5 groups" in done.out


def test_exchanged_images(check, publish_all, usual, one_device):  # noqa: F811
    publish_all(replace(usual.scored(), truth=usual.truth[:, ::-1]))
    done, rows = check(*MMVP_TWICE)
    assert (done.code, mmvp_of(rows)["explained_by"]) == (1, ["images of each group exchanged"])


def test_two_choices_together(check, publish_all, usual, one_device):  # noqa: F811
    model = replace(
        usual.with_processor(mode="big_vision"),
        tokenizer=usual.with_tokenizer("big_vision").tokenizer,
    )
    publish_all(usual.scored(model=model))
    done, rows = check(*MMVP_TWICE)
    assert done.code == 1
    (found,) = mmvp_of(rows)["explained_by"]
    assert set(found.split(" + ")) == {
        "big_vision's resize (bilinear, no antialias)",
        "big_vision's canonicalisation of captions",
    }


def test_no_choice_explains_it(check, publish, one_device):  # noqa: F811
    publish("mmvp_vlm", "siglip_b16", 134, 3)
    done, (row,) = check(*MMVP)
    assert done.code == 1
    assert (row["explained_by"], row["flips"]) == ([], {})
    assert "No choice that is known to move numbers explains it." in done.out
    assert "1 of 1 rows that are off are not explained" in done.out
    assert "pairs of choices were not tried" in row["untried"]


def test_all_equal_with_and_without_groups(check, publish_all, usual, one_device):  # noqa: F811
    """The two rows of a model on a benchmark are scored together, and neither looks further."""
    publish_all(usual.scored())
    done, rows = check(*MMVP_TWICE)
    # Winoground and ColorSwap are missing, which does not keep MMVP from being compared
    assert done.code == 2
    assert [row["dataset"] for row in rows] == ["winoground", "mmvp_vlm", "colorswap"]
    verdicts = [n["verdict"] for n in rows[1]["numbers"]]
    assert verdicts == ["equal"] * 4
    assert rows[1]["tried"] == []
    assert done.err.count("mmvp_vlm, siglip_b16: scor") == 1
    assert done.out.count("fetches it") == 2
    assert "`ttm data winoground` fetches it" in done.out
    done, rows = check(*MMVP)
    assert done.code == 0
    assert "2 published counts: 2 equal, 0 off, 0 not scored." in done.out


def test_a_rerun_does_not_score_again(check, publish_all, usual, one_device, tmp_path):  # noqa: F811
    publish_all(usual.scored())
    first, rows = check(*MMVP, root=tmp_path)
    assert "mmvp_vlm, siglip_b16: scoring 135 groups" in first.err
    again, same = check(*MMVP, root=tmp_path)
    assert "scored before" in again.err
    assert "scoring" not in again.err
    assert (again.out, same) == (first.out, rows)
    forced, _ = check(*MMVP, "--no-resume", root=tmp_path)
    assert "scoring 135 groups" in forced.err
    for path in (tmp_path / "check").iterdir():
        path.write_bytes(path.read_bytes()[:100])
    torn, same = check(*MMVP, root=tmp_path)
    assert "scored again" in torn.err
    assert same == rows


def test_other_weights_are_scored_again(check, publish_all, usual, models, tmp_path):  # noqa: F811
    for source in (models["siglip"], models["clip"]):
        publish_all(usual.scored(model=load_model(source)))
        done, _ = check(*MMVP, "--model", source, root=tmp_path)
        assert done.code == 0, done.out
    assert "scored again, it is not the same as before: model.checksum: " in done.err


def test_labels_as_released(check, publish, tiny, one_device, tmp_path):  # noqa: F811
    """One group differs: the two pictures whose names the release confuses."""
    folder = layouts.write_whatsup(tmp_path, "a")
    for number, path in enumerate(sorted((folder / "controlled_images").iterdir())):
        path.write_bytes(noise(number))
    model = load_model(tiny["clip"])

    def found(name, **how):
        dataset = load_benchmark(name, tmp_path, **how).dataset
        (scores,) = raw_scores(model, dataset)
        return counts(Scored(scores, dataset.blocks[0].truth))

    released = found("whatsup_a_left_right", whatsup_correction=False)
    assert released != found("whatsup_a_left_right")
    publish("whatsup_a_left_right", "clip_b32", *released.values())
    publish("whatsup_a_on_under", "clip_b32", *found("whatsup_a_on_under").values())
    done, rows = check(
        "--table",
        "whatsup_2x2",
        "--rows",
        "whatsup_clip",
        data_dir=tmp_path,
        root=tmp_path / "runs",
    )
    assert done.code == 1  # a count differs; that part B is missing is said as well
    (row,) = [row for row in rows if row["dataset"] == "whatsup_a_left_right"]
    assert row["explained_by"] == ["labels as released"]
    assert sum(bool(row["tried"]) for row in rows) == 1
    (flip,) = [f for f in row["flips"]["labels as released"] if f["measure"] == "simple_match"]
    assert flip["unit"] == "pillow_chair"
    assert [row["dataset"] for row in rows if row["missing"]] == [
        "whatsup_b_left_right", "whatsup_b_front_behind",
    ]  # fmt: skip


@pytest.mark.slow
def test_smolvlm(command, smolvlm, publish, monkeypatch, data, tmp_path):  # noqa: F811
    """A model that is asked questions: what its answer is measured against is a choice."""
    monkeypatch.setitem(MODELS, "smolvlm_256m", str(smolvlm))
    model = load_model(smolvlm)
    dataset = load_benchmark("mmvp_vlm", data).dataset
    other = model.with_settings(replace(model.settings, normalise="answers"))
    (scores,) = raw_scores(other, dataset)
    theirs = counts(Scored(scores, dataset.blocks[0].truth))
    publish("mmvp_vlm", "smolvlm_256m", theirs["raw"], theirs["simple_match"])
    done = command(
        "reproduce", "--check", "--table", "smolvlm", "--rows", "mmvp_smolvlm", "--no-fetch",
        "--data-dir", data, "--run-dir", tmp_path,
    )  # fmt: skip
    assert done.code == 1, done.err
    (row,) = read_json(tmp_path / "check.json")["rows"]
    assert row["explained_by"] == ['P("Yes") / (P("Yes") + P("No"))']


class TestMissing:
    def test_neither_data_nor_models(self, command, tmp_path):  # noqa: F811
        """Every row says what is missing and how to get it; none stops the others."""
        done = command("reproduce", "--check", "--no-fetch", "--data-dir", tmp_path / "none",
                       "--run-dir", tmp_path / "runs")  # fmt: skip
        assert done.code == 2
        assert "42 published counts: 0 equal, 0 off, 42 not scored." in done.out
        written = read_json(tmp_path / "runs" / "check.json")
        assert written["counts"]["not_scored"] == 42
        for row in written["rows"]:
            model, missing = row["missing"]
            assert model.startswith(f"model: {MODELS[row['model']]} is not a path here")
            assert "without --no-fetch" in model
            assert missing.endswith(f"; `ttm data {row['dataset']}` fetches it")
        assert (tmp_path / "runs" / "check.md").read_text() in done.out

    def test_a_broken_picture_is_named(self, check, publish, tmp_path):
        folder = layouts.write_mmvp(tmp_path)
        (folder / "MLLM_VLM Images" / "Orientation" / "3.jpg").write_bytes(b"torn")
        done, (row,) = check(*MMVP, data_dir=tmp_path, root=tmp_path / "runs")
        assert done.code == 2
        assert "3.jpg" in row["missing"][0]
        assert "group '3-4'" in row["missing"][0]


class TestCounts:
    def test_all_of_the_paper_once(self):
        """24 raw counts and 18 of SimpleMatch; each model meets each benchmark once."""
        subjects = find_subjects((*TABLES, "iterations"))
        numbers = [published for subject in subjects for published in subject.published]
        assert sum(n.number == "raw" for n in numbers) == 24
        assert sum(n.number == "simple_match" for n in numbers) == 18
        assert len({(s.dataset, s.model) for s in subjects}) == len(subjects) == 21
        listed = [r for r in paper_results() if r.raw_count is not None and r.table in TABLES]
        assert sum(n.count for n in numbers if n.number == "raw") == sum(
            r.raw_count for r in listed
        )
        assert [s.dataset for s in subjects if s.needs_whole] == [
            "winoground", "mmvp_vlm", "colorswap",
        ]  # fmt: skip
        assert all(0 <= n.count <= n.of for n in numbers)
        models_in_order = [s.model for s in subjects]
        assert models_in_order == sorted(models_in_order, key=list(MODELS).index)

    def test_the_table_of_fewer_iterations_repeats_the_main_one(self):
        (mmvp,) = [s for s in find_subjects(("iterations",)) if s.dataset == "mmvp_vlm"]
        assert [(n.number, n.count) for n in mmvp.published] == [("raw", 31), ("simple_match", 110)]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--small",), "--check --small: the paper has no counts for the small models"),
        (("--limit", 5), "trains nothing; leave out --limit"),
        (("--seeds", 0), "trains nothing; leave out --seeds"),
        (("--dry-run",), "trains nothing; leave out --dry-run"),
        (("--model", "x"), "choose rows of one model with --table and --rows"),
        (("--rows", "mmvp_gpt"), "the paper has no counts for these rows"),
        (("--rows", "mmvp_siglipp"), "did you mean mmvp_siglip?"),
    ],
)
def test_flags_that_make_no_sense(command, tmp_path, args, message):  # noqa: F811
    done = command("reproduce", "--check", "--run-dir", tmp_path / "runs", *args)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_the_files_are_whole_after_every_row(check, publish_all, usual, monkeypatch, tmp_path):
    """A process that dies in the third row leaves the first two readable."""
    from experiments import _check

    first = _check.check_subject
    publish_all(usual.scored())

    def dies_later(subject, *rest):
        if subject.dataset == "colorswap":
            raise KeyboardInterrupt
        return first(subject, *rest)

    monkeypatch.setattr(_check, "check_subject", dies_later)
    done, rows = check("--table", "global", root=tmp_path)
    assert done.code == 130
    assert [row["dataset"] for row in rows] == ["winoground", "mmvp_vlm"]
    assert json.loads((tmp_path / "check.json").read_text())["counts"]["published"] == 4
