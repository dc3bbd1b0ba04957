"""`ttm diagnose`, and `ttm adapt --strict`."""

import json

import pytest

from ttm_jax.cli import adapt, diagnose, world
from ttm_jax.errors import InputError


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for variant in ("size_swap", "left_right"):
        world.main(["--variant", variant, "--groups", "40", "--out", str(folder / variant)])
    return folder


def test_text_json_and_figure(data, tmp_path, capsys):
    words = ["--model", "small-siglip", "--data", str(data / "size_swap")]
    figure = tmp_path / "margins.png"
    diagnose.main([*words, "--figure", str(figure)])
    text = capsys.readouterr().out
    assert "40 groups, 10 decoys for each" in text
    assert "go ahead" in text.splitlines()[-1]
    assert figure.read_bytes().startswith(b"\x89PNG")
    diagnose.main([*words, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["go_ahead"] is True
    assert found["selected"] == 8


def test_strict_refuses_before_anything_is_written(data, tmp_path):
    out = tmp_path / "out"
    words = ["--model", "small-siglip", "--data", str(data / "left_right"), "--out", str(out)]
    with pytest.raises(InputError, match="--strict: no evidence"):
        adapt.main([*words, "--strict"])
    assert not out.exists()


def test_bad_flags(data, tmp_path):
    words = ["--model", "small-siglip", "--data", str(data / "size_swap")]
    with pytest.raises(InputError, match="--draws is 0"):
        diagnose.main([*words, "--draws", "0"])
