"""The presets against the paper's table of hyperparameters, field by field."""

import dataclasses
import re

import pytest

from configs import MODELS, PRESETS, Preset, find_preset
from ttm_jax.config import TTMConfig
from ttm_jax.data.benchmarks.catalogue import BENCHMARKS
from ttm_jax.data.paper import PaperSetting, find_result, paper_results, paper_settings
from ttm_jax.errors import InputError


def _key(row: Preset | PaperSetting) -> tuple[str, str, str]:
    return row.table, row.dataset, row.model


def test_one_preset_a_row():
    assert len(PRESETS) == len(paper_settings()) == 24
    assert [_key(p) for p in PRESETS] == [_key(row) for row in paper_settings()]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: f"{p.table}-{p.dataset}-{p.model}")
def test_preset_is_the_row(preset):
    (row,) = [row for row in paper_settings() if _key(row) == _key(preset)]
    settings = dataclasses.asdict(row)
    for name in ("table", "dataset", "model"):
        settings.pop(name)
    assert {name: getattr(preset.ttm, name) for name in settings} == settings


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_what_the_table_does_not_say_is_the_default(preset):
    said = {field.name for field in dataclasses.fields(PaperSetting)}
    for field in dataclasses.fields(TTMConfig):
        if field.name not in said:
            assert getattr(preset.ttm, field.name) == getattr(TTMConfig(), field.name)


def test_names_are_unique_and_fit_for_folders():
    names = [preset.name for preset in PRESETS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z0-9_]+", name) for name in names)


def test_presets_name_known_models_and_data():
    assert {preset.model for preset in PRESETS} == set(MODELS)
    assert {preset.dataset for preset in PRESETS} <= set(BENCHMARKS)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_every_preset_has_a_result_of_as_many_iterations_and_groups(preset):
    result = find_result(preset.dataset, preset.model, preset.ttm.matching, preset.ttm.iterations)
    assert result is not None
    assert result.table == preset.table
    benchmark = BENCHMARKS[preset.dataset]
    per_group = benchmark.shape[0] if preset.ttm.matching == "global" else 1
    assert result.groups == benchmark.groups * per_group


def test_augmentation_and_optimizer_state_as_the_text_lists_them():
    """App. B.1 lists the five augmented runs and the one that keeps its state in words."""
    assert {p.name for p in PRESETS if p.ttm.augment} == {
        "winoground_siglip_l16",
        "mmvp_vlm_siglip_b16",
        "colorswap_siglip_b16",
        "mmvp_vlm_global_siglip_b16",
        "whatsup_a_left_right_clip_b32",
    }
    assert [p.name for p in PRESETS if p.ttm.keep_opt_state] == ["winoground_siglip_b16"]


def test_batches_of_the_paper():
    """The batch is raised slightly just above a multiple: the paper's example is 102 -> 51."""
    batches = {p.name: p.ttm.batch_units(BENCHMARKS[p.dataset].groups) for p in PRESETS}
    assert batches["whatsup_b_left_right_clip_b32"] == 51
    assert batches["whatsup_a_left_right_clip_b32"] == 52
    assert batches["whatsup_a_clip_b32"] == 103
    assert batches["whatsup_b_clip_b32"] == 102
    assert batches["mmvp_vlm_siglip_b16"] == 50
    assert batches["winoground_global_siglip_b16"] == 100


def test_find_preset():
    assert find_preset("mmvp_vlm", "siglip_b16").ttm.tau_T == 0.1
    assert find_preset("mmvp_vlm", "siglip_b16", "global").ttm.tau_1 == 0.55
    with pytest.raises(InputError, match="mmvp_vlm with clip_b16, mmvp_vlm with siglip_b16"):
        find_preset("mmvp_vlm", "siglip_l16")
    with pytest.raises(InputError, match="it has colorswap, mmvp_vlm, "):
        find_preset("imagenet", "vit")


@pytest.mark.parametrize("row", paper_results(), ids=lambda r: f"{r.table}-{r.dataset}-{r.model}")
def test_counts_behind_the_rates(row):
    """A count gives back its printed rate; rates of global rows are of groups, not of pairs."""
    groups = BENCHMARKS[row.dataset].groups
    if row.raw_count is not None:
        assert abs(100 * row.raw_count / groups - row.raw) < 0.0051
    if row.simple_match_count is not None:
        assert row.simple_match is not None
        assert abs(100 * row.simple_match_count / row.groups - row.simple_match) < 0.0051
    assert (row.simple_match is None) == (BENCHMARKS[row.dataset].shape[0] == 1)
    assert (row.ttm is None) == (row.ttm_std is None) == (row.iterations is None)
    means = row.model == "gpt_4_1"
    assert (row.raw_std is not None) == (row.simple_match_std is not None) == means


def test_find_result():
    assert find_result("winoground", "siglip_b16").ttm == 72.50
    assert find_result("winoground", "siglip_b16", iterations=3).ttm == 71.50
    assert find_result("winoground", "siglip_b16", "global").ttm == 46.78
    assert find_result("winoground", "siglip_b16", iterations=4) is None
    assert find_result("winoground", "gpt_4_1").iterations is None
