"""The simple door: folders, runs and npz files in, logits out; and the command around it."""

import json
import subprocess
import sys
from dataclasses import replace

import jax
import numpy as np
import pytest
from model_folders import make_folder
from paths import TESTS
from PIL import Image

import ttm_jax
from ttm_jax.config import TTMConfig
from ttm_jax.data import world
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.inputs.tokenize import CaptionWarning
from ttm_jax.load import load_model, load_run
from ttm_jax.weights import big_vision, huggingface

# Whether the captions of the world fit a tiny tokenizer depends on the version of sentencepiece.
pytestmark = pytest.mark.filterwarnings("ignore::ttm_jax.inputs.tokenize.CaptionWarning")
ROOT = TESTS.parent
CAPTIONS = ["a red circle above a blue star", "a blue star above a red circle", "two moons"]


@pytest.fixture(scope="module", params=["siglip", "clip"])
def folder(request, tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    path = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    names = []
    for number in range(3):
        pixels = rng.integers(0, 256, (40 + number, 30, 3), dtype=np.uint8)
        names.append(path / f"{number}.png")
        Image.fromarray(pixels).save(names[-1])
    return names


class TestScore:
    def test_paths_pictures_and_arrays_are_the_same(self, folder, pictures):
        model = load_model(folder)
        scores = model.score(pictures, CAPTIONS)
        assert scores.shape == (3, 3)
        assert scores.dtype == np.float32
        opened = [Image.open(path) for path in pictures]
        np.testing.assert_array_equal(model.score(opened, CAPTIONS), scores)
        arrays = [np.asarray(image) for image in opened]
        np.testing.assert_array_equal(model.score(arrays, CAPTIONS), scores)

    def test_transformers_gives_the_same_logits(self, folder, pictures):
        torch = pytest.importorskip("torch")
        from transformers import AutoModel, AutoTokenizer

        ours = load_model(folder)
        theirs = AutoModel.from_pretrained(folder).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        pixels = ours.read_images(pictures).astype(np.float32) / 255
        pixels = (pixels - ours.processor.mean) / ours.processor.std
        length = ours.config.text_length
        ids = tokenizer(CAPTIONS, padding="max_length", max_length=length, return_tensors="pt")
        with torch.no_grad():
            logits = theirs(
                pixel_values=torch.tensor(pixels.astype(np.float32)).permute(0, 3, 1, 2),
                input_ids=ids["input_ids"],
            ).logits_per_image
        np.testing.assert_allclose(ours.score(pictures, CAPTIONS), logits.numpy(), atol=1e-5)

    def test_repeated_images_and_captions_cost_nothing_and_change_nothing(self, folder, pictures):
        model = load_model(folder)
        once = model.score(pictures, CAPTIONS)
        twice = model.score([*pictures, pictures[0]], [CAPTIONS[1], *CAPTIONS])
        np.testing.assert_array_equal(twice[:3, 1:], once)
        np.testing.assert_array_equal(twice[3], twice[0])
        np.testing.assert_array_equal(twice[:, 0], twice[:, 2])

    def test_weights_alone_serve_arrays(self, folder, tmp_path):
        model = load_model(folder)
        bare = tmp_path / "bare"
        huggingface.save(bare, model.config, model.params)
        alone = load_model(bare)
        pixels = np.random.default_rng(0).normal(size=(2, 16, 16, 3)).astype(np.float32)
        ids = np.full((3, 20), 5, np.int32)
        ids[:, 7] = model.tokenizer.eos_id
        np.testing.assert_array_equal(
            alone.score_arrays(pixels, ids), model.score_arrays(pixels, ids)
        )
        with pytest.raises(InputError, match="no tokenizer"):
            alone.score([np.zeros((9, 9, 3), np.uint8)], ["a star"])

    def test_ids_of_another_tokenizer_are_refused(self, folder):
        model = load_model(folder)
        ids = np.full((1, 20), model.config.vocab_size, np.int32)
        with pytest.raises(InputError, match="tokenizer of another model"):
            model.score_arrays(np.zeros((1, 16, 16, 3), np.float32), ids)


class TestSources:
    def test_big_vision_npz_with_files_from_elsewhere(self, tmp_path, pictures):
        folder = make_folder(tmp_path, "siglip")
        model = load_model(folder)
        big_vision.save(tmp_path / "model.npz", model.config, model.params)
        again = load_model(tmp_path / "model.npz", files_from=folder)
        np.testing.assert_array_equal(
            again.score(pictures, CAPTIONS), model.score(pictures, CAPTIONS)
        )

    def test_a_run_is_a_model(self, folder, tmp_path):
        """What load_model reads from a run folder scores as the result did; saved, too."""
        dataset = world.make("color_swap", groups=6, size=32)
        config = TTMConfig(lr=1e-3, iterations=1, epochs=2, batch_groups=3, tau_1=0.0)
        devices = jax.devices()[:1]
        result = ttm_jax.run_ttm(
            load_model(folder), dataset, config, tmp_path / "run", devices=devices
        )
        result.model.save(tmp_path / "saved")
        images, captions = list(dataset.images), list(dataset.captions)
        expected = result.model.score(images, captions)
        for source in (tmp_path / "run", tmp_path / "saved"):
            np.testing.assert_array_equal(load_model(source).score(images, captions), expected)

    @pytest.mark.parametrize("address", ["ftp://example.invalid/x.npz", "gs://a/b.npz", "//host/x"])
    def test_a_run_cannot_choose_an_address(self, folder, tmp_path, address):
        """The base model that a run folder names is a local path or a hub id."""
        dataset = world.make("color_swap", groups=4, size=16)
        config = TTMConfig(iterations=1, epochs=1)
        ttm_jax.run_ttm(load_model(folder), dataset, config, tmp_path / "run")
        path = tmp_path / "run" / "config.json"
        content = json.loads(path.read_text())
        content["model"]["source"] = address
        path.write_text(json.dumps(content))
        with pytest.raises(InputError, match="is an address"):
            load_model(tmp_path / "run")
        assert load_run(tmp_path / "run", base=str(folder)).source == str(tmp_path / "run")

    def test_what_does_not_exist(self, tmp_path):
        with pytest.raises(InputError, match="does not exist"):
            load_model(tmp_path / "nothing")


class TestDatasets:
    def test_broken_picture_names_its_group(self, folder, tmp_path):
        bad = tmp_path / "bad.png"
        bad.write_bytes(b"not a picture")
        good = np.zeros((8, 8, 3), np.uint8)
        groups = [
            Group("fine", (good, good), ("a star", "a moon"), (0, 1)),
            Group("torn", (good, str(bad)), ("a star", "a moon"), (0, 1)),
        ]
        with pytest.raises(InputError, match=r"'torn'.*bad\.png"):
            ttm_jax.run_ttm(load_model(folder), GroupedDataset.from_groups(groups))

    def test_captions_that_become_one(self, tmp_path):
        model = load_model(make_folder(tmp_path, "siglip"))
        image = np.zeros((8, 8, 3), np.uint8)
        groups = [Group("g", (image, image + 1), ("a star.", "A STAR"), (0, 1))]
        config = TTMConfig(iterations=1, epochs=1)
        with pytest.warns(CaptionWarning, match="identical to the model"):
            result = ttm_jax.run_ttm(
                model, GroupedDataset.from_groups(groups), config, devices=jax.devices()[:1]
            )
        assert not result.history[0].selected.any()

    def test_augmentation(self, folder):
        """Crops of a larger picture: another result than without, the same for the same seed."""
        dataset = world.make("color_swap", groups=6, size=32)
        config = TTMConfig(lr=1e-3, iterations=1, epochs=2, batch_groups=3, tau_1=0.0)
        devices = jax.devices()[:1]
        model = load_model(folder)
        plain = ttm_jax.run_ttm(model, dataset, config, devices=devices)
        config = replace(config, augment=True)
        first, second = (ttm_jax.run_ttm(model, dataset, config, devices=devices) for _ in range(2))
        np.testing.assert_array_equal(first.scores, second.scores)
        np.testing.assert_array_equal(first.history[0].scores, plain.history[0].scores)
        assert not np.array_equal(first.scores, plain.scores)


class TestCommand:
    def run(self, *words):
        return subprocess.run(
            [sys.executable, "-m", "ttm_jax.cli.main", "score", *map(str, words)],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )

    def test_json_and_file(self, folder, pictures, tmp_path):
        out = tmp_path / "scores.npz"
        done = self.run(
            "--model", folder, "--images", *pictures, "--captions", *CAPTIONS, "--json",
            "--out", out,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        expected = load_model(folder).score(pictures, CAPTIONS)
        np.testing.assert_allclose(json.loads(done.stdout)["logits"], expected, atol=1e-4)
        with np.load(out) as file:
            assert file["scores"].shape == (3, 3)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--model", "nowhere/", "--captions", "a"), "does not exist"),
            (("--model", "m", "--captions-file", "no_such.txt"), "no_such.txt"),
            (("--model", "m"), "give --images and --captions"),
        ],
    )
    def test_bad_input_is_one_line_and_exit_code_2(self, pictures, words, said):
        done = self.run("--images", pictures[0], *words)
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
