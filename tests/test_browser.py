"""The page in a real Chromium: it opens from disk, asks nobody, and does what its controls say.

`REPORT_SCREENSHOTS=folder` keeps pictures of the page as a reader sees it.
"""

import os
from pathlib import Path

import pytest
from chromium import Browser, find_chromium
from made_runs import CAPTIONS, FATES, write_fates, write_many

from ttm_jax.report.page import write_page
from ttm_jax.report.run_data import read_experiments

PROGRAM = find_chromium()
pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no chromium on this machine; on Debian: apt-get install chromium"
)
GROUPS = 1400
SCREENS = {
    "desktop": {"width": 1280, "height": 900},
    "phone": {"width": 390, "height": 844, "phone": True},
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    # Not pytest's own folder: paths in it can be too long for Chromium's sockets.
    import tempfile

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        assert PROGRAM is not None
        with Browser(PROGRAM, Path(profile)) as opened:
            yield opened


@pytest.fixture(scope="module")
def fates(tmp_path_factory):
    root = tmp_path_factory.mktemp("few")
    write_page(read_experiments([write_fates(root / "fates")]), root / "report #1 <b>.html")
    return root / "report #1 <b>.html"


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    root = tmp_path_factory.mktemp("many")
    write_page(read_experiments([write_many(root / "many", GROUPS)]), root / "report.html")
    return root / "report.html"


def cards(browser):
    """The ids of the cards on the page."""
    return browser.run("[...document.querySelectorAll('.card h3')].map((h) => h.textContent)")


def choose(browser, control, value):
    browser.run(
        f"(() => {{ const c = document.getElementById('{control}'); c.value = {value!r};"
        "c.dispatchEvent(new Event(c.tagName === 'SELECT' ? 'change' : 'input')); })()"
    )


def assert_quiet(browser, page):
    assert browser.errors == []
    others = [url for url in browser.requests if not url.startswith("data:image/jpeg")]
    assert others == [page.resolve().as_uri()]


class TestFates:
    @pytest.fixture(autouse=True)
    def _open(self, browser, fates):
        browser.look(**SCREENS["desktop"])
        browser.open(fates)

    def test_opens_from_disk_without_error_or_request(self, browser, fates):
        # Pictures are loaded when they come near the screen.
        browser.run("document.getElementById('cards').scrollIntoView({behavior: 'instant'})")
        browser.until("[...document.images].every((image) => image.complete)")
        assert browser.run("[...document.images].every((image) => image.naturalWidth > 0)")
        assert browser.run("document.images.length") == 10
        assert cards(browser) == list(FATES)
        assert_quiet(browser, fates)

    @pytest.mark.parametrize("fate", ["to-right", "to-wrong", "still-right"])
    def test_filter_by_fate(self, browser, fate):
        choose(browser, "show", fate)
        assert cards(browser) == [fate]

    def test_still_wrong_has_the_tie_too(self, browser):
        choose(browser, "show", "still-wrong")
        assert cards(browser) == ["still-wrong", "tied"]
        assert "2 of 5 groups" in browser.run("document.getElementById('count').textContent")

    def test_filter_by_tag(self, browser):
        choose(browser, "tag", "odd")
        assert cards(browser) == ["to-wrong", "still-right"]
        choose(browser, "show", "to-wrong")
        assert cards(browser) == ["to-wrong"]

    def test_lowest_margin_first(self, browser):
        choose(browser, "iteration", "0")
        choose(browser, "order", "low")
        assert cards(browser) == ["tied", "still-right", "to-right", "still-wrong", "to-wrong"]
        choose(browser, "order", "high")
        assert cards(browser)[0] == "to-wrong"

    @pytest.mark.parametrize(
        ("words", "found"),
        [
            ("CAT", ["to-right"]),
            ("dog mouse", ["still-wrong"]),
            ("<script>", ["to-wrong"]),
            ("tür", ["still-right"]),
            ("赤い", ["still-right"]),
            ("nothing has this", []),
        ],
    )
    def test_search(self, browser, words, found):
        choose(browser, "search", words)
        assert cards(browser) == found

    def test_captions_are_text(self, browser):
        choose(browser, "show", "to-wrong")
        shown = browser.run(
            "[...document.querySelectorAll('.captions li')].map((li) => li.textContent)"
        )
        assert shown == list(CAPTIONS["to-wrong"])
        assert browser.run("window.hacked") is None
        assert browser.run("document.querySelectorAll('.captions li *').length") == 0
        alts = browser.run("[...document.images].map((image) => image.alt)")
        assert alts == list(CAPTIONS["to-wrong"])  # a picture is described by its true caption

    def test_matrix_shows_what_was_chosen_at_each_iteration(self, browser):
        choose(browser, "show", "to-right")
        read = (
            "[...document.querySelectorAll('.matrix .score')]"
            ".map((td) => [td.firstChild.textContent, "
            "td.classList.contains('chosen'), td.classList.contains('true')])"
        )
        choose(browser, "iteration", "0")
        assert browser.run(read) == [
            ["0.2", False, True], ["0.9", True, False], ["0.7", True, False], ["0.1", False, True],
        ]  # fmt: skip
        browser.run("document.querySelector('.states button[data-t=\"2\"]').click()")
        assert browser.run(read) == [
            ["1", True, True], ["0.2", False, False], ["0.1", False, False], ["0.9", True, True],
        ]  # fmt: skip
        marks = browser.run(
            "[...document.querySelectorAll('.states i')].map((i) => i.textContent).join('')"
        )
        assert marks == "✗✓✓"
        assert browser.run("document.activeElement.dataset.t") == "2"  # the keyboard stays there

    def test_other_seed(self, browser):
        choose(browser, "run", "0-1")
        assert cards(browser) == list(FATES)
        assert browser.errors == []

    def test_keyboard(self, browser):
        browser.run("document.body.focus()")
        browser.press("[")
        assert browser.run("document.getElementById('iteration').value") == "1"
        browser.press("/")
        assert browser.run("document.activeElement.id") == "search"
        for letter in "cat":
            browser.press(letter)
        assert cards(browser) == ["to-right"]  # typed text is not taken for shortcuts

    def test_every_control_has_a_name(self, browser):
        unnamed = browser.run(
            "[...document.querySelectorAll('input, select')].filter((c) => !c.labels.length).length"
            " + [...document.querySelectorAll('button')].filter((b) => !(b.textContent.trim()"
            " || b.ariaLabel)).length + [...document.images].filter((i) => !i.alt).length"
        )
        assert unnamed == 0


class TestMany:
    @pytest.fixture(autouse=True)
    def _open(self, browser, many):
        browser.look(**SCREENS["desktop"])
        browser.open(many)

    def test_only_one_page_of_cards_exists(self, browser, many):
        assert f"{GROUPS} of {GROUPS}" in browser.run(
            "document.getElementById('count').textContent"
        )
        elements = browser.run("document.querySelectorAll('#cards *').length")
        for _ in range(5):
            browser.run("document.getElementById('next').click()")
            assert len(cards(browser)) == 24
            assert browser.run("document.querySelectorAll('#cards *').length") <= elements * 1.1
        assert cards(browser)[0] == "group-0120"
        choose(browser, "size", "48")
        assert len(cards(browser)) == 48
        assert_quiet(browser, many)

    def test_last_page_and_keys(self, browser):
        browser.press("p")
        assert cards(browser)[0] == "group-0000"  # there is none before the first
        for _ in range(GROUPS // 24 + 3):
            browser.run("document.getElementById('next-2').click()")
        assert cards(browser)[-1] == f"group-{GROUPS - 1}"
        assert browser.run("document.getElementById('next').disabled")
        browser.press("p")
        assert cards(browser)[-1] != f"group-{GROUPS - 1}"

    def test_search_among_many(self, browser):
        choose(browser, "search", "thing 777 left")
        assert cards(browser) == ["group-0777"]
        choose(browser, "search", "")
        choose(browser, "tag", "tag-3")
        assert f"{GROUPS // 7} of {GROUPS}" in browser.run(
            "document.getElementById('count').textContent"
        )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_fits_the_screen(browser, fates, screen, dark, request):
    """Nothing but tables is wider than the screen, and text stands out from what is behind it."""
    browser.look(**SCREENS[screen], dark=dark)
    browser.open(fates)
    width = SCREENS[screen]["width"]
    assert browser.run("document.documentElement.scrollWidth") <= width
    background, ink = browser.run(
        "['backgroundColor', 'color'].map((k) => getComputedStyle(document.body)[k])"
    )
    assert (brightness(background) < brightness(ink)) == dark
    assert abs(brightness(background) - brightness(ink)) > 180
    folder = os.environ.get("REPORT_SCREENSHOTS")
    for part in ("summary", "run-0", "gallery"):
        browser.run(f"document.getElementById('{part}').scrollIntoView({{behavior: 'instant'}})")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            browser.screenshot(Path(folder) / f"{request.node.callspec.id}_{part}.png")


def brightness(colour):
    """0 to 255, of "rgb(r, g, b)"."""
    red, green, blue = (float(x) for x in colour[colour.index("(") + 1 : -1].split(",")[:3])
    return 0.299 * red + 0.587 * green + 0.114 * blue
