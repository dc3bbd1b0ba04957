"""`ttm diagnose`, and `ttm adapt --strict`."""

import json

import pytest

from ttm_jax.cli import adapt, diagnose, world
from ttm_jax.errors import InputError


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for variant in ("left_right", "texture_swap"):
        world.main(["--variant", variant, "--groups", "40", "--out", str(folder / variant)])
    return folder


def test_text_json_and_figure(data, tmp_path, capsys):
    words = ["--model", "small-siglip", "--data", str(data / "left_right")]
    figure = tmp_path / "margins.png"
    diagnose.main([*words, "--figure", str(figure)])
    shown = capsys.readouterr()
    text = shown.out
    assert shown.err.count("small-siglip: it was trained on drawings") == 1
    assert "40 groups, 10 decoys for each" in text
    assert "go ahead" in text.splitlines()[-1]
    assert figure.read_bytes().startswith(b"\x89PNG")
    diagnose.main([*words, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["go_ahead"] is True
    assert found["selected"] == 8


def test_strict_refuses_before_anything_is_written(data, tmp_path):
    out = tmp_path / "out"
    words = ["--model", "small-siglip", "--data", str(data / "texture_swap"), "--out", str(out)]
    with pytest.raises(InputError, match="--strict: no evidence"):
        adapt.main([*words, "--strict"])
    assert not out.exists()


def test_bad_flags(data, tmp_path):
    words = ["--model", "small-siglip", "--data", str(data / "left_right")]
    with pytest.raises(InputError, match="--draws is 0"):
        diagnose.main([*words, "--draws", "0"])


def test_captions_that_sound_true(data, tmp_path, capsys):
    world.main(["--variant", "add_attribute", "--groups", "40", "--out", str(data / "choice")])
    words = ["--model", "small-clip", "--data", str(data / "choice")]
    capsys.readouterr()
    diagnose.main(words)
    text = capsys.readouterr().out
    assert "grounded gain" in text
    assert "with the captions' prior removed" in text
    diagnose.main([*words, "--json"])
    plain = json.loads(capsys.readouterr().out)
    diagnose.main([*words, "--json", "--prior", "subtract"])
    removed = json.loads(capsys.readouterr().out)
    assert plain["prior"] == "none"
    assert plain["grounded_gain"] == plain["true_accuracy"] - plain["blind_accuracy"]
    assert plain["with_prior_removed"] == removed
    assert removed["true_accuracy"] != plain["true_accuracy"]
    assert removed["with_prior_removed"] is None


def test_a_dry_run_gives_the_verdict(data, tmp_path, capsys):
    words = ["--model", "small-siglip", "--out", str(tmp_path / "out"), "--dry-run"]
    adapt.main([*words, "--data", str(data / "texture_swap")])
    assert "no evidence that the model knows anything here" in capsys.readouterr().out
    adapt.main([*words, "--data", str(data / "left_right")])
    assert "go ahead: of the first 8 groups" in capsys.readouterr().out
    adapt.main([*words, "--data", str(data / "left_right"), "--matching", "global"])
    assert "no diagnosis: a diagnosis needs groups" in capsys.readouterr().out
