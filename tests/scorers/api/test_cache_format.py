"""A cache that an earlier version wrote is still read: keys and file format have not changed.

`golden/api_responses_v1.sqlite` was written before the settings and modules got their present
names. It must never be written anew: users have such files, and have paid for what is in them.
"""

import shutil

import numpy as np
import pytest
from paths import TESTS

from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.inputs.image_decode import NamedBytes
from ttm_jax.scorers.api import (
    ApiKey,
    Plan,
    RequestSettings,
    Usage,
    estimate_cost,
    fetch_replies,
    make_plan,
    read_run,
)
from ttm_jax.scorers.api.request import plan_identity

GOLDEN = TESTS / "golden" / "api_responses_v1.sqlite"
OTHER = RequestSettings(
    model="some-model",
    base_url="https://example.org/v1/",
    prompt="{text}? Yes or No.",
    image_first=False,
    detail="low",
    image_format="jpeg",
    max_image_size=64,
    top_logprobs=5,
    token_limit="max_completion_tokens",
)


def picture(number: int) -> np.ndarray:
    return ((np.arange(8 * 8 * 3).reshape(8, 8, 3) * 7 + 31 * number) % 256).astype(np.uint8)


def plan(settings: RequestSettings, runs: int) -> Plan:
    file = NamedBytes("a file", b"P6 2 2 255\n" + bytes(range(12)))
    texts = [("a cat above a dog", "a dog {above} a cat"), ("ein Käfer", "two beetles")]
    groups = [
        Group("g0", (picture(0), file), texts[0], (0, 1)),
        Group("g1", (picture(1), picture(2)), texts[1], (0, 1)),
    ]
    return make_plan(GroupedDataset.from_groups(groups, name="pairs"), settings, runs)


@pytest.fixture
def cache(tmp_path):
    return shutil.copy(GOLDEN, tmp_path / "answers.sqlite")


def test_every_answer_is_found_and_nothing_is_sent(cache):
    """The n-th request was answered with P(Yes) = (n + 1) / 32; the runs follow each other."""
    replies = fetch_replies(plan(RequestSettings(), 2), cache, ApiKey("EMPTY"))
    assert replies.sent == 0
    assert len(replies.by_key) == 16
    expected = (np.arange(16) + 1).reshape(2, 2, 2, 2) / 32  # [run, group, image, text]
    for run in (1, 2):
        np.testing.assert_allclose(read_run(replies, run).scores[0], expected[run - 1], rtol=1e-12)
    assert replies.used == Usage(sum(range(100, 116)), 160, 16)
    assert replies.lost == Usage(300, 0, 1)


def test_answers_to_other_settings_are_found_too(cache):
    replies = fetch_replies(plan(OTHER, 1), cache, ApiKey("EMPTY"))
    assert replies.sent == 0
    run = read_run(replies, 1)
    assert run.kinds == {"yes": 7, "refusal": 1}
    assert run.unanswered[0]["said"] == "I will not say"
    np.testing.assert_allclose(run.scores[0].ravel()[:7], (np.arange(7) + 1) / 32, rtol=1e-12)


def test_what_was_not_asked_before_is_not_in_it(cache):
    estimate = estimate_cost(plan(RequestSettings(), 3), cache)
    assert (estimate.requests, estimate.answered) == (24, 16)


def test_reading_changes_nothing(cache):
    fetch_replies(plan(RequestSettings(), 2), cache, ApiKey("EMPTY"))
    assert cache.read_bytes() == GOLDEN.read_bytes()


def test_the_identity_of_a_run_folder_has_not_changed():
    """An existing run folder holds this object; with another one it would be refused."""
    assert plan_identity(plan(OTHER, 1)) == {
        "question": {
            "model": "some-model",
            "base_url": "https://example.org/v1/",
            "prompt": "{caption}? Yes or No.",
            "image_first": False,
            "detail": "low",
            "image_format": "jpeg",
            "max_image_size": 64,
            "top_logprobs": 5,
            "token_limit": "max_completion_tokens",
        },
        "dataset": {
            "name": "pairs",
            "groups": 2,
            "sha256": "1b2ed9f52a82b6b33bdb0c923b332c3ea8ca4055b7da1965a8a6583d53c08267",
        },
    }
