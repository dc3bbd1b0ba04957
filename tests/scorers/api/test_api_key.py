"""The API key: read from the environment, and never shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttm_jax.errors import InputError
from ttm_jax.scorers.api.api_key import REDACTED, ApiKey, looks_like_key, read_api_key

KEY = "sk-test-4b7Qw9ZxL0pR2mN8vT6y"


def test_the_key_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("SOME_KEY", f" {KEY}\n")
    key = read_api_key("SOME_KEY")
    assert key.reveal() == KEY
    assert KEY not in repr(key)
    assert KEY not in f"{key}"


@pytest.mark.parametrize("value", [None, "", "   ", "two words", "sk-\nsecond", "schlüssel-1234"])
def test_an_impossible_key_is_refused_and_not_shown(monkeypatch, value):
    monkeypatch.delenv("SOME_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SOME_KEY", value)
    with pytest.raises(InputError, match="SOME_KEY") as raised:
        read_api_key("SOME_KEY")
    assert not value or not value.strip() or value not in str(raised.value)


@pytest.mark.parametrize(
    "given", [KEY, "0123456789abcdef0123456789abcdef", "abcdef0123456789abcdef"]
)
def test_a_key_given_as_the_name_of_the_variable_is_not_shown(given):
    with pytest.raises(InputError) as raised:
        read_api_key(given)
    assert given not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"Incorrect API key provided: {KEY}.", f"Incorrect API key provided: {REDACTED}."),
        (f"Bearer {KEY} and {KEY}", f"Bearer {REDACTED} and {REDACTED}"),
        (f"{KEY[:10]}****{KEY[-9:]}", f"{REDACTED}****{REDACTED}"),
        (f"x{KEY[3:-2]}x", f"x{REDACTED}x"),
        ("nothing here", "nothing here"),
        ("", ""),
    ],
)
def test_redact(text, shown):
    assert ApiKey(KEY).redact(text) == shown


@given(st.text(), st.integers(0, len(KEY) - 8), st.integers(8, len(KEY)), st.text())
def test_no_eight_characters_of_the_key_survive(before, start, length, after):
    redacted = ApiKey(KEY).redact(before + KEY[start : start + length] + after)
    assert not any(KEY[i : i + 8] in redacted for i in range(len(KEY) - 7))


def test_a_placeholder_is_not_redacted():
    assert ApiKey("EMPTY").redact("the list is EMPTY") == "the list is EMPTY"


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"gpt-4.1:{KEY}",
        "sk-proj-ab12CD_ef-ghijklmnop123456",
        "gsk_abcdEFGH1234ijklMNOP",
        "hf_AbCdEfGhIjKlMnOpQrStUv1",
        "AIzaSyA1234567890abcdefghijklmnop",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0",
        "1aB2cD3eF4gH5iJ6kL7mN8oP9qR0sT1u",
        "0123456789abcdef0123456789abcdef",
    ],
)
def test_what_looks_like_a_key(text):
    assert looks_like_key(text, hex_too=True)


@pytest.mark.parametrize(
    "text",
    [
        "gpt-4.1-2025-04-14",
        "ft:gpt-4.1-2025-04-14:my-org:custom-suffix:BKsN3xyz",
        "Qwen/Qwen2.5-VL-7B-Instruct",
        "meta-llama/Llama-3.2-90B-Vision-Instruct",
        "accounts/fireworks/models/qwen2p5-vl-32b-instruct",
        "neuralmagic/DeepSeekCoderV2LiteInstructFP8",
        "OpenGVLab/InternVL2_5-78B-MPO",
        "sk-llama-3-8b-instruct",
        "hf_model_v2_large_instruct",
        "/models/checkpoint-20000",
        # a version's hash
        "owner/model:5f24084160c9089501c1b3545d9be3c27883ae2239b6f412990e82d4a6210f8f",
    ],
)
def test_what_looks_like_a_model(text):
    assert not looks_like_key(text, hex_too=True)


def test_an_account_number_in_an_address_is_not_a_key():
    account = "https://api.cloudflare.com/client/v4/accounts/0123456789abcdef0123456789abcdef/ai/v1"
    assert not looks_like_key(account, hex_too=False)
