"""Flags that change settings: what they change, what is said about it, and what is refused."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from configs.experiments import (
    ABLATION_ITERATIONS,
    ABLATION_SCHEDULES,
    ABLATION_THRESHOLD,
    GLOBAL_SIGLIP,
    MMVP_SIGLIP,
    WINOGROUND_SIGLIP,
)
from experiments import _load
from experiments._flags import Flags
from experiments._load import Data
from experiments._paper import Plan, make_plans, open_folder
from experiments._settings import apply_flags, read_config
from ttm_jax.config import Memory, TTMConfig
from ttm_jax.data import world
from ttm_jax.errors import InputError

MMVP = MMVP_SIGLIP.arms[0].preset.ttm
WHOLE = Data(world.make("color_swap", 2, 0), {"groups": 135}, True)


def plan(experiment=MMVP_SIGLIP, **flags) -> Plan:
    return make_plans(experiment, Flags(**flags))[0]


class TestFlags:
    @pytest.mark.parametrize(
        ("flags", "field", "value"),
        [
            ({"lr": 1e-3}, "lr", 1e-3),
            ({"tau_1": 0.0}, "tau_1", 0.0),
            ({"iterations": 4}, "iterations", 4),
            ({"epochs": 3}, "epochs", 3),
            ({"keep_opt_state": "on"}, "keep_opt_state", True),
            ({"dtype": "bfloat16"}, "dtype", "bfloat16"),
            ({"precision": "high"}, "precision", "high"),
            ({"placement": "sharded"}, "placement", "sharded"),
        ],
    )
    def test_each_changes_its_field_only(self, flags, field, value):
        assert plan(**flags).config == replace(MMVP, **{field: value})
        small = plan(small=True, **flags).config
        assert small == replace(plan(small=True).config, **{field: value})

    def test_the_state_that_one_run_keeps_can_be_dropped(self):
        assert plan(WINOGROUND_SIGLIP).config.keep_opt_state
        assert not plan(WINOGROUND_SIGLIP, keep_opt_state="off").config.keep_opt_state

    def test_bad_values_are_refused_with_their_name(self):
        with pytest.raises(InputError, match="lr is -1"):
            _ = plan(lr=-1.0).config
        with pytest.raises(InputError, match="between 0 and 1"):
            _ = plan(GLOBAL_SIGLIP.only(["mmvp_vlm"]), tau_1=2.0).config


class TestNote:
    def test_none_for_the_papers_settings(self):
        assert plan().note(WHOLE) == ""
        assert plan(tau_1=MMVP.tau_1, lr=MMVP.lr).note(WHOLE) == ""

    def test_a_changed_setting_is_named_with_the_papers(self):
        said = plan(lr=1e-3, keep_opt_state="on").note(WHOLE)
        assert said == (
            "not the paper's settings: lr 0.001 instead of 2e-05, keep_opt_state True instead of "
            "False"
        )

    def test_a_part_of_the_data_is_said_to_be_one(self):
        part = Data(world.make("color_swap", 2, 0), {"groups": 2}, False)
        assert plan(limit=2).note(part) == "not the paper's data, only the first 2 groups"
        assert plan().note(part) == "not the paper's data"

    @pytest.mark.parametrize("iterations", [3, 5])
    def test_fewer_iterations_are_in_the_paper(self, iterations):
        assert plan(iterations=iterations).changes == {}

    def test_four_iterations_are_not(self):
        assert plan(iterations=4).note(WHOLE).endswith("iterations 4 instead of 10")
        # nor are three where Table 11 has no row
        assert "iterations 3" in plan(GLOBAL_SIGLIP.only(["colorswap"]), iterations=3).note(WHOLE)

    def test_raw_numbers_stay_comparable_if_only_training_changed(self):
        assert plan(lr=1e-3, tau_1=1.0, iterations=2).is_comparable(WHOLE)
        for flags in ({"dtype": "bfloat16"}, {"precision": "default"}, {"exif": "on"}):
            assert not plan(**flags).is_comparable(WHOLE)
            assert "not the paper's settings" in plan(**flags).note(WHOLE)
        assert not plan(model="mine").is_comparable(WHOLE)
        assert not plan(small=True).is_comparable(WHOLE)

    def test_where_things_are_computed_is_no_setting_of_the_paper(self):
        assert plan(placement="sharded").note(WHOLE) == ""

    def test_an_ablation_is_the_papers_setting(self):
        for one in make_plans(ABLATION_SCHEDULES, Flags()):
            assert one.note(WHOLE) == ""


class TestSavedConfig:
    def saved(self, folder: Path, config: TTMConfig, **more) -> Path:
        path = folder / "config.json"
        path.write_text(json.dumps({"config": asdict(config), "seed": 0, **more}))
        return path

    def test_given_back(self, tmp_path):
        config = replace(MMVP, lr=3e-4, memory=Memory("block", 8), train="lora", tau_1=None)
        path = self.saved(tmp_path, config)
        assert read_config(path) == read_config(tmp_path) == config
        assert plan(config=path).config == config
        assert plan(config=path, lr=1e-5).config == replace(config, lr=1e-5)
        assert "train lora instead of all" in plan(config=path).note(WHOLE)

    def test_the_papers_own_given_back_is_the_papers(self, tmp_path):
        one = plan(config=self.saved(tmp_path, MMVP))
        assert one.note(WHOLE) == ""

    def test_mistakes(self, tmp_path):
        with pytest.raises(InputError, match="does not exist"):
            read_config(tmp_path / "nothing.json")
        path = self.saved(tmp_path, MMVP)
        with pytest.raises(InputError, match="is of group matching"):
            _ = plan(GLOBAL_SIGLIP.only(["mmvp_vlm"]), config=path).config
        with pytest.raises(InputError, match="--config is for one run"):
            make_plans(GLOBAL_SIGLIP, Flags(config=path))
        path.write_text(json.dumps({"config": {**asdict(MMVP), "colour": 1}}))
        with pytest.raises(InputError, match="TTMConfig has no colour"):
            read_config(path)
        path.write_text('{"seed": 0}')
        with pytest.raises(InputError, match="no object `config`"):
            read_config(path)

    def test_nothing_given_changes_nothing(self):
        assert apply_flags(MMVP, Flags()) is not None
        assert apply_flags(MMVP, Flags()) == MMVP


@pytest.mark.parametrize(
    ("experiment", "flags", "flag"),
    [
        (ABLATION_THRESHOLD, {"tau_1": 1.0}, "--tau-1"),
        (ABLATION_ITERATIONS, {"iterations": 3}, "--iterations"),
    ],
)
def test_a_flag_that_the_experiment_varies(experiment, flags, flag):
    with pytest.raises(InputError, match=f"{flag}: {experiment.name} varies it"):
        make_plans(experiment, Flags(**flags))


def test_a_folder_remembers_changed_settings(tmp_path):
    first = plan(run_dir=tmp_path, lr=1e-3)
    open_folder(first, WHOLE)
    open_folder(first, WHOLE)
    with pytest.raises(InputError, match=re.escape("settings: {'lr': 0.001} -> None")):
        open_folder(plan(run_dir=tmp_path), WHOLE)


class TestExif:
    def test_is_passed_on_where_the_loader_takes_it(self, monkeypatch, tmp_path):
        asked = []

        def load(name, data_dir, *, skip_broken, whatsup_correction, exif="as-published"):
            asked.append((name, data_dir, exif))

        monkeypatch.setattr(_load, "load_benchmark", load)
        _load.read_benchmark("mmvp_vlm", Flags(exif="on", data_dir=tmp_path))
        assert asked == [("mmvp_vlm", tmp_path, "on")]
