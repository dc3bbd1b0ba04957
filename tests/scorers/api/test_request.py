"""Settings of a request: prompts, and what is refused."""

import pytest

from ttm_jax.errors import InputError
from ttm_jax.scorers.api.api_key import ApiKey
from ttm_jax.scorers.api.request import RequestSettings

KEY = "sk-test-4b7Qw9ZxL0pR2mN8vT6y"


def test_prompts_of_the_paper_of_t2v_metrics_and_of_your_own():
    assert (
        RequestSettings().prompt_for("a cat")
        == 'Does this image show "a cat"? Please answer "Yes" or "No".'
    )
    assert (
        RequestSettings(prompt="t2v_metrics").prompt_for("a cat")
        == 'Does this figure show "a cat"? Please answer Yes or No.'
    )
    assert (
        RequestSettings(prompt="t2v_metrics_old").prompt_for("a cat")
        == 'Does this figure show "a cat"? Please answer yes or no.'
    )
    own = RequestSettings(prompt="{text}? Yes or No")
    assert own.prompt_for("{0} {text}") == "{0} {text}? Yes or No"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"prompt": "Is it there?"}, "no place for the caption"),
        ({"prompt": "{caption}?"}, r"contains \{caption\}.*write \{text\}"),
        ({"model": " "}, "is empty"),
        ({"base_url": ""}, "not an http"),
        ({"base_url": "api.openai.com"}, "not an http"),
        ({"base_url": "localhost:8000/v1"}, "not an http"),
        ({"base_url": "//host/v1"}, "not an http"),
        ({"base_url": "ftp://host/v1"}, "not an http"),
        ({"base_url": "file:///etc/passwd"}, "not an http"),
        ({"base_url": "http://"}, "not an http"),
        ({"base_url": "http:///v1"}, "not an http"),
        ({"base_url": "http://:8000/v1"}, "not an http"),
        ({"base_url": "http://.../v1"}, "not an http"),
        ({"base_url": "http://[::1/v1"}, "not an http"),
        ({"base_url": "http://[::g]/v1"}, "not an http"),
        ({"base_url": "http://999.1.1.1/v1"}, "not an http"),
        ({"base_url": "http://ho st/v1"}, "not an http"),
        ({"base_url": " http://host/v1"}, "not an http"),
        ({"base_url": "http://host/v1\n"}, "not an http"),
        ({"base_url": "http://host/\x1b[31mv1"}, "not an http"),
        ({"base_url": "http://host\\v1"}, "not an http"),
        ({"base_url": "http://host%20name/v1"}, "not an http"),
        ({"base_url": "http://host:port/v1"}, "not an http"),
        ({"base_url": "http://host:0/v1"}, "not an http"),
        ({"base_url": "http://host:65536/v1"}, "not an http"),
        ({"base_url": f"http://user:{KEY}/v1"}, "not an http"),
        ({"base_url": "https://host/v1?"}, "a user name, a password"),
        ({"base_url": f"https://host/v1#{KEY}"}, "a user name, a password"),
        ({"base_url": f"https://{KEY}@host/v1"}, "a user name, a password"),
        ({"base_url": f"https://host/{KEY}/v1"}, "looks like an API key"),
        ({"base_url": f"https://{KEY.lower()}.org/v1"}, "looks like an API key"),
        ({"model": KEY}, "looks like an API key"),
        ({"model": f"gpt-4.1 {KEY}"}, "looks like an API key"),
        ({"top_logprobs": 101}, "`top_logprobs`"),
        ({"max_image_size": 10**9}, "`max_image_size`"),
        ({"base_url": f"https://user:{KEY}@host/v1"}, "a user name, a password"),
        ({"base_url": f"https://host/v1?key={KEY}"}, "a user name, a password"),
        ({"top_logprobs": 0}, "`top_logprobs`"),
        ({"max_image_size": 0}, "`max_image_size`"),
    ],
)
def test_settings_that_are_refused(changes, says):
    with pytest.raises(InputError, match=says) as raised:
        RequestSettings(**changes)
    assert KEY not in str(raised.value)
    assert "--" not in str(raised.value), "a library does not know the command's flags"


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com/v1",
        "http://localhost:8000/v1/",
        "http://127.0.0.1:8000",
        "http://[::1]:8000/v1",
        "https://name.openai.azure.com/openai/v1",
        "http://my_service:8000/v1",
        "https://exämple.org/v1",
        "https://host./v1",
    ],
)
def test_addresses_that_are_accepted(url):
    assert RequestSettings(base_url=url).address == url.rstrip("/")


@pytest.mark.parametrize("name", ["model", "base_url", "prompt"])
def test_the_key_itself_is_found_in_every_setting(name):
    """Also a key that looks like nothing in particular."""
    value = {"model": "%s", "base_url": "https://%s.org/v1", "prompt": "%s {text}"}[name]
    settings = RequestSettings(**{name: value % "quitesecretword"})
    settings.check_key_absent(ApiKey("other-key-1234"))
    with pytest.raises(InputError, match=f"`{name}` contains the API key") as raised:
        settings.check_key_absent(ApiKey("quitesecretword"))
    assert "quitesecret" not in str(raised.value)
