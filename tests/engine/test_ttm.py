"""The loop on tiny models: exactness, what it may not depend on, and what it writes."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from tiny import CONFIG, tiny_dataset, tiny_model

from ttm_jax.config import Memory
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.engine.ttm import run_ttm
from ttm_jax.errors import InputError, NonFinite
from ttm_jax.files import read_json, read_lines
from ttm_jax.runs.console import Console
from ttm_jax.training import sharding
from ttm_jax.training.trainer import run_steps

ONE = None  # set below: one device


@pytest.fixture(scope="module", autouse=True)
def _one_device():
    global ONE
    ONE = [jax.devices()[0]]


def run(model=None, dataset=None, config=CONFIG, **settings):
    settings.setdefault("devices", ONE)
    return run_ttm(model or tiny_model(), dataset or tiny_dataset(), config, **settings)


def leaves(result):
    return jax.tree.leaves(result.model.params)


def assert_same_model(a, b):
    for x, y in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def tiny_arrays():
    dataset = tiny_dataset()
    return np.asarray(dataset.images), np.asarray(dataset.captions)


class TestAlgorithm:
    def test_history_is_of_the_model_each_iteration_started_from(self):
        result = run()
        first, *_, last = result.history
        # Another program than that of the run: XLA does not promise the same bits.
        np.testing.assert_allclose(
            first.scores, tiny_scores(tiny_model(), tiny_dataset()), rtol=0, atol=2e-6
        )
        assert [r.iteration for r in result.history] == [1, 2, 3]
        assert first.tau > last.tau == 0.0
        assert first.selected.sum() == 3  # 0.3 of 9 groups, rounded up
        assert last.selected.all()
        assert not np.array_equal(first.scores, result.scores)

    def test_labels_are_not_used(self):
        dataset = tiny_dataset()
        with_labels, without = run(dataset=dataset), run(dataset=dataset.without_truth())
        assert with_labels.metrics
        assert not without.metrics
        assert_same_model(with_labels, without)
        np.testing.assert_array_equal(with_labels.scores, without.scores)

    def test_same_seed_same_result_other_seed_other_result(self):
        a, b, c = run(seed=1), run(seed=1), run(seed=2)
        np.testing.assert_array_equal(a.scores, b.scores)
        assert not np.array_equal(a.scores, c.scores)

    def test_one_compilation_for_the_whole_run_and_for_all_seeds(self):
        dataset = tiny_dataset(13)  # shapes that no other test has
        before = run_steps._cache_size()
        first = run(dataset=dataset)
        assert len({int(record.selected.sum()) for record in first.history}) == 3  # it did grow
        assert run_steps._cache_size() == before + 1
        run(dataset=dataset, seed=1)
        assert run_steps._cache_size() == before + 1

    def test_narrow_last_batches_change_nothing_and_are_compiled_before_the_first_step(self):
        config = replace(CONFIG, batch_groups=6)
        dataset = tiny_dataset(14)
        counts, sizes = [], []

        def counted(done: int, total: int) -> None:
            counts.append(done)
            sizes.append(run_steps._cache_size())

        class Counting(Console):
            def progress(self, done: int, total: int) -> None:
                counted(done, total)

        before = run_steps._cache_size()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ttm_jax.engine.ttm.batch_widths", lambda batch, *_: (batch, batch // 2))
            result = run(dataset=dataset, config=config, console=Counting("quiet"))
        assert {size - before for size in sizes} == {2}
        assert result.history[0].selected.sum() == 5
        wide = run(dataset=dataset, config=config)  # too small a model for narrow steps
        assert [list(record.selected) for record in result.history] == [
            list(record.selected) for record in wide.history
        ]
        np.testing.assert_allclose(result.scores, wide.scores, rtol=0, atol=2e-5)

    def test_a_model_that_is_given_away_gives_the_same_result_and_is_empty(self):
        kept, given = tiny_model(), tiny_model()
        expected = run(kept)
        result = run(given, donate=True)
        assert_same_model(result, expected)
        np.testing.assert_array_equal(result.scores, expected.scores)
        assert leaves(expected)
        assert jax.tree.leaves(kept.params)
        assert not jax.tree.leaves(given.params)
        with pytest.raises(InputError, match="given to a run with donate=True; load it again"):
            run(given)
        with pytest.raises(InputError, match="load it again"):
            given.score_arrays(*tiny_arrays())

    def test_nothing_selected_leaves_the_model_alone(self):
        result = run(config=replace(CONFIG, tau_1=1e6, tau_T=1e6))
        assert_same_model(result, type("R", (), {"model": tiny_model()}))

    def test_oracle_selects_what_is_right(self):
        result = run(config=replace(CONFIG, oracle=True))
        for record in result.history:
            np.testing.assert_array_equal(
                record.selected, (record.matching == np.arange(2)).all(axis=1)
            )
        with pytest.raises(InputError, match="oracle needs the truth"):
            run(dataset=tiny_dataset(truth=False), config=replace(CONFIG, oracle=True))

    def test_optimizer_state_is_reset_or_kept(self):
        reset, kept = run(), run(config=replace(CONFIG, keep_opt_state=True))
        np.testing.assert_array_equal(reset.history[1].scores, kept.history[1].scores)
        assert not np.array_equal(reset.scores, kept.scores)

    def test_global_matching_selects_pairs(self):
        config = replace(CONFIG, matching="global", tau_unit="fraction", tau_1=0.5)
        result = run(config=config)
        assert result.scores.shape == (18, 18)
        assert result.matchings.shape == (18,)
        assert [int(r.selected.sum()) for r in result.history] == [9, 13, 18]
        assert set(result.metrics) >= {"global_match", "group_score"}

    def test_mixed_shapes(self):
        rng = np.random.default_rng(0)
        model = tiny_model()
        pixels = rng.integers(0, 256, (7, 16, 16, 3), dtype=np.uint8)
        tokens = rng.integers(3, 60, (9, 8)).astype(np.int32)
        groups = [
            Group("a", tuple(pixels[:2]), ("0", "1"), (0, 1)),
            Group("b", tuple(pixels[2:3]), ("2", "3", "4"), (0,)),
            Group("c", tuple(pixels[3:5]), ("5", "6"), (0, 1)),
            Group("d", tuple(pixels[5:7]), ("7",), (0, -1)),
        ]
        dataset = GroupedDataset.from_groups(groups)
        dataset = replace(dataset, images=pixels, captions=tokens[:8])
        result = run(model, dataset, replace(CONFIG, tau_1=0.0))
        assert [s.shape for s in result.scores] == [(2, 2, 2), (1, 1, 3), (1, 2, 1)]
        assert sorted(result.matchings[2][0]) == [-1, 0]

    def test_rejected_captions_of_1xk_are_not_negatives(self):
        """Only the chosen caption is trained on, not the others of its group."""
        dataset = tiny_dataset(6, 1, 3)
        config = replace(CONFIG, iterations=1, tau_1=0.0)
        result = run(dataset=dataset, config=config)
        chosen = result.history[0].matching[:, 0]
        used = dataset.blocks[0].text_index[np.arange(6), chosen]
        captions = np.asarray(dataset.captions).copy()
        unused = np.setdiff1d(np.arange(len(captions)), used)
        task = tiny_model().bind(dataset, config, sharding.make_mesh(ONE), 0)
        examples = task.examples((result.history[0].matching,))
        assert set(examples.text.reshape(-1)) == set(used)
        assert not set(examples.text.reshape(-1)) & set(unused)


class TestWaysToComputeTheSame:
    def test_chunks(self):
        model = tiny_model()
        whole = run(model, config=replace(CONFIG, memory=Memory("none", 0)))
        parts = run(model, config=replace(CONFIG, memory=Memory("none", 3)))
        np.testing.assert_allclose(parts.scores, whole.scores, atol=1e-4)
        for a, b in zip(parts.history, whole.history, strict=True):
            np.testing.assert_array_equal(a.selected, b.selected)

    @pytest.mark.parametrize(
        ("family", "ways"),
        [
            ("siglip", (Memory("none", 4), Memory("block", 3))),
            ("clip", (Memory("dots", 4),)),
        ],
    )
    def test_gradients_of_chunks_and_rematerialisation(self, family, ways):
        """On one batch with padding: gradients to 1e-5 of the largest entry."""
        dataset, model = tiny_dataset(5), tiny_model(family)
        reference = None
        for memory in (Memory("none", 0), *ways):
            config = replace(CONFIG, memory=memory)
            task = model.bind(dataset, config, sharding.make_mesh(ONE), 0)
            examples = task.examples((np.tile(np.arange(2, dtype=np.int32), (5, 1)),))
            mask = examples.mask.copy()
            mask[3:] = False  # the last batch of an epoch
            batch = replace(examples, mask=mask)
            value, gradient = jax.jit(task.objective.value_and_grad)(
                task.initial.trained, task.initial.frozen, task.data, batch, jax.random.key(0)
            )
            if reference is None:
                reference = value, gradient
            np.testing.assert_allclose(value, reference[0], rtol=1e-6)
            # Relative to the largest entry of all: some gradients are zero but for rounding.
            scale = max(np.abs(x).max() for x in reference[1].values())
            for path, expected in reference[1].items():
                np.testing.assert_allclose(gradient[path] / scale, expected / scale, atol=1e-5)

    @pytest.mark.parametrize("placement", ["replicated", "sharded"])
    def test_eight_devices(self, placement):
        """A batch of 4 groups does not divide by 8 devices; parameters replicated or split."""
        one = run(tiny_model("clip"))
        eight = run(
            tiny_model("clip"), config=replace(CONFIG, placement=placement), devices=jax.devices()
        )
        np.testing.assert_allclose(eight.scores, one.scores, atol=1e-4)
        for a, b in zip(eight.history, one.history, strict=True):
            np.testing.assert_array_equal(a.selected, b.selected)

    def test_training_in_bfloat16_leaves_scores_in_float32(self):
        """The first scores are those of float32, bit for bit; the trained model is not."""
        usual = run(config=replace(CONFIG, iterations=1))
        with jax.numpy_dtype_promotion("standard"):  # flax's norms add up in float32
            mixed = run(config=replace(CONFIG, iterations=1, train_dtype="bfloat16"))
            rough = run(config=replace(CONFIG, iterations=1, dtype="bfloat16"))
        np.testing.assert_array_equal(mixed.history[0].scores, usual.history[0].scores)
        assert not np.array_equal(rough.history[0].scores, usual.history[0].scores)
        assert not np.array_equal(mixed.scores, usual.scores)
        np.testing.assert_allclose(mixed.scores, usual.scores, atol=0.2)


class TestTrainable:
    @pytest.mark.parametrize("train", ["image", "text", "heads"])
    def test_only_that_part_moves(self, train):
        before = tiny_model()
        result = run(before, config=replace(CONFIG, train=train, iterations=1, tau_1=0.0))
        moved = {
            jax.tree_util.keystr(path, simple=True, separator="/")
            for (path, old), new in zip(
                jax.tree_util.tree_leaves_with_path(before.params), leaves(result), strict=True
            )
            if not np.array_equal(old, new)
        }
        expected = {
            "image": lambda name: name.startswith("img/") or name in "tb",
            "text": lambda name: name.startswith("txt/") or name in "tb",
            "heads": lambda name: "MAPHead" in name or "txt/head" in name or name in "tb",
        }[train]
        assert moved
        assert all(expected(name) for name in moved)

    def test_lora_moves_scores_and_merges_exactly(self):
        model = tiny_model()
        result = run(model, config=replace(CONFIG, train="lora", lora_rank=2))
        np.testing.assert_allclose(
            result.history[0].scores, tiny_scores(model, tiny_dataset()), rtol=0, atol=2e-6
        )
        assert not np.allclose(result.scores, result.history[0].scores)
        # The exported model has ordinary parameters and gives the scores of the adapted one.
        np.testing.assert_allclose(
            tiny_scores(result.model, tiny_dataset()), result.scores, atol=1e-4
        )


class TestFailures:
    def test_non_finite_loss_names_iteration_and_step(self):
        with pytest.raises(NonFinite, match=r"iteration 1\b"):
            run(config=replace(CONFIG, lr=1e30, tau_1=0.0))

    def test_non_finite_scores(self):
        model = tiny_model()
        model.params["t"][:] = np.nan
        with pytest.raises(NonFinite, match="scores of the model after iteration 0"):
            run(model)

    def test_wrong_image_size(self):
        dataset = tiny_dataset()
        dataset = replace(dataset, images=dataset.images[:, :8, :8])
        with pytest.raises(InputError, match=r"\(8, 8, 3\).*\(16, 16, 3\)"):
            run(dataset=dataset)

    def test_augmentation_needs_original_images(self):
        with pytest.raises(InputError, match="already preprocessed"):
            run(config=replace(CONFIG, augment=True))


class TestRunFolder:
    def test_what_it_holds(self, tmp_path):
        result = run(run_dir=tmp_path / "run")
        folder = tmp_path / "run"
        assert read_json(folder / "config.json")["config"]["lr"] == CONFIG.lr
        assert read_json(folder / "environment.json")["versions"]["jax"] == jax.__version__
        metrics = list(read_lines(folder / "metrics.jsonl"))
        assert [row["iteration"] for row in metrics] == [0, 1, 2, 3]
        ledger = list(read_lines(folder / "ledger.jsonl"))
        assert len(ledger) == 3 * 9
        chosen = [row["selected"] for row in ledger if row["iteration"] == 2]
        assert chosen == result.history[1].selected.tolist()
        with np.load(folder / "scores" / "003_2x2.npz") as file:
            np.testing.assert_array_equal(file["scores"], result.scores)
        assert len(list(read_lines(folder / "matchings.jsonl"))) == 9
        assert read_json(folder / "summary.json")["final"] == result.metrics
        assert {path.name for path in folder.glob(".*")} == {".lock"}  # no temporary file is left

    def test_finished_run_is_read_not_repeated(self, tmp_path):
        first = run(run_dir=tmp_path)
        before = (tmp_path / "ledger.jsonl").read_bytes()
        again = run(run_dir=tmp_path)
        np.testing.assert_array_equal(again.scores, first.scores)
        assert_same_model(again, first)
        assert (tmp_path / "ledger.jsonl").read_bytes() == before
        assert len(again.history) == 3

    def test_other_config_is_refused_with_the_fields(self, tmp_path):
        run(run_dir=tmp_path)
        with pytest.raises(InputError, match=r"config\.lr: 0.001 -> 0.002"):
            run(run_dir=tmp_path, config=replace(CONFIG, lr=2e-3))
        with pytest.raises(InputError, match="seed: 0 -> 1"):
            run(run_dir=tmp_path, seed=1)
        with pytest.raises(InputError, match="already holds a run"):
            run(run_dir=tmp_path, resume=False)

    # Orbax leaves coroutines behind when it cannot read a file.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    @pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
    @pytest.mark.parametrize("damage", ["truncate", "flip"])
    def test_damaged_checkpoint_falls_back(self, tmp_path, damage):
        whole = run(run_dir=tmp_path / "a")
        run(run_dir=tmp_path / "b")
        files = [
            path
            for path in (tmp_path / "b" / "checkpoints" / "3" / "state").rglob("*")
            if path.is_file() and path.parent.name == "d"
        ]
        largest = max(files, key=lambda path: path.stat().st_size)
        data = bytearray(largest.read_bytes())
        if damage == "truncate":
            data = data[: len(data) // 2]
        else:
            data[len(data) // 2] ^= 0xFF
        largest.write_bytes(data)
        with pytest.warns(UserWarning, match="is damaged"):
            again = run(run_dir=tmp_path / "b")
        np.testing.assert_array_equal(again.scores, whole.scores)
        assert_same_model(again, whole)
        ledgers = [(tmp_path / name / "ledger.jsonl").read_bytes() for name in "ab"]
        assert ledgers[0] == ledgers[1]


def tiny_scores(model, dataset):
    """All groups, by the simple door."""
    logits = model.score_arrays(np.asarray(dataset.images), np.asarray(dataset.captions))
    block = dataset.blocks[0]
    return logits[block.image_index[:, :, None], block.text_index[:, None, :]]
