"""The page in a real Chromium: it opens from disk, asks nobody, and does what its controls say.

`REPORT_SCREENSHOTS=folder` keeps pictures of the page as a reader sees it.
"""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chromium import Browser, find_chromium
from made_runs import (
    CAPTIONS,
    CONFIG,
    FATES,
    fate_scores,
    pictured_dataset,
    write_fates,
    write_many,
    write_run,
)

from ttm_jax.report.page.page import write_page
from ttm_jax.report.run_data import read_experiments

PROGRAM = find_chromium()
pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no chromium on this machine; on Debian: apt-get install chromium"
)
GROUPS, SEVERAL = 1400, 39
# What changed comes first, and of two the less certain one.
BY_CHANGE = ["to-wrong", "to-right", "tied", "still-wrong", "still-right"]
SCREENS = {
    "desktop": {"width": 1400, "height": 900},
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


@pytest.fixture(scope="module")
def unknown(tmp_path_factory):
    root = tmp_path_factory.mktemp("unknown")
    write_run(root / "run", pictured_dataset(truth=False), fate_scores())
    write_page(read_experiments([root / "run"]), root / "report.html")
    return root / "report.html"


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """39 experiments: by and by more groups are right in the end, and one has no truth."""
    root = tmp_path_factory.mktemp("several")
    first, _, last = fate_scores()
    for number in range(SEVERAL):
        scores = [first, np.where(np.arange(5)[:, None, None] < number % 5, last, first)]
        data = pictured_dataset(f"data-{number:02d}", truth=number > 0)
        folder = root / "runs" / f"part-{number % 3}" / f"{number}" / "run"
        write_run(folder, data, scores, replace(CONFIG, iterations=1))
    write_page(read_experiments([root / "runs"]), root / "report.html")
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
        assert cards(browser) == BY_CHANGE
        assert_quiet(browser, fates)

    @pytest.mark.parametrize("fate", ["to-right", "to-wrong", "still-right"])
    def test_filter_by_fate(self, browser, fate):
        choose(browser, "show", fate)
        assert cards(browser) == [fate]

    def test_still_wrong_has_the_tie_too(self, browser):
        choose(browser, "show", "still-wrong")
        assert cards(browser) == ["tied", "still-wrong"]
        assert "2 of 5 groups" in browser.run("document.getElementById('count').textContent")

    def test_filter_by_tag(self, browser):
        choose(browser, "order", "data")
        assert cards(browser) == list(FATES)
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
            "[...document.querySelectorAll('.choice span')].map((s) => s.textContent)"
        )
        assert shown == list(CAPTIONS["to-wrong"])[::-1]  # each below the picture that got it
        assert browser.run("window.hacked") is None
        assert browser.run("document.querySelectorAll('.choice span *').length") == 0
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
            ["0.20", False, True], ["0.90", True, False],
            ["0.70", True, False], ["0.10", False, True],
        ]  # fmt: skip
        browser.run("document.querySelector('.states button[data-t=\"2\"]').click()")
        assert browser.run(read) == [
            ["1.00", True, True], ["0.20", False, False],
            ["0.10", False, False], ["0.90", True, True],
        ]  # fmt: skip
        marks = browser.run(
            "[...document.querySelectorAll('.states i')].map((i) => i.textContent).join('')"
        )
        assert marks == "✗✓✓"
        assert browser.run("document.activeElement.dataset.t") == "2"  # the keyboard stays there

    def test_other_seed(self, browser):
        choose(browser, "run", "0-1")
        assert cards(browser) == BY_CHANGE
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

    def test_the_chosen_caption_stands_below_its_picture(self, browser):
        choose(browser, "show", "to-right")
        choose(browser, "iteration", "0")
        read = (
            "[...document.querySelectorAll('figure')].filter((f) => f.querySelector('img'))"
            ".map((f) => [f.querySelector('.choice i').textContent,"
            " f.querySelector('.choice span').textContent,"
            " [...f.querySelectorAll('small')].map((s) => s.textContent)])"
        )
        red, blue = CAPTIONS["to-right"]
        assert browser.run(read) == [
            ["✗", blue, [f"true ✓ {red}"]], ["✗", red, [f"true ✓ {blue}"]],
        ]  # fmt: skip
        choose(browser, "iteration", "2")
        assert browser.run(read) == [
            ["✓", red, [f"before {blue}"]], ["✓", blue, [f"before {red}"]],
        ]  # fmt: skip

    def test_a_tie_is_not_called_right(self, browser):
        choose(browser, "search", "the same")
        assert cards(browser) == ["tied"]
        marks = browser.run(
            "[...document.querySelectorAll('.choice i:first-child')].map((i) => i.textContent)"
        )
        assert set(marks) <= {"=", "✗"}

    def test_pictures_fill_the_card(self, browser):
        widths = browser.run(
            "(() => { const c = document.querySelector('.card'); return [c.clientWidth,"
            " ...[...c.querySelectorAll('img')].map((i) => i.clientWidth)]; })()"
        )
        assert sum(widths[1:]) > 0.85 * widths[0]

    def test_the_answer_leads_to_the_changed_groups(self, browser):
        lead = browser.run("document.querySelector('.lead').textContent")
        assert lead == "2 of 5 matchings changed; GroupMatch 40.00 → 40.00 ± 0.00"
        browser.run("document.querySelector('a[data-show=changed]').click()")
        assert cards(browser) == BY_CHANGE[:2]
        assert browser.run("document.querySelectorAll('details[open]').length") == 0

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
        choose(browser, "order", "data")
        assert f"{GROUPS} of {GROUPS}" in browser.run(
            "document.getElementById('count').textContent"
        )
        elements = browser.run("document.querySelectorAll('#cards *').length")
        for _ in range(5):
            browser.run("document.getElementById('next').click()")
            assert len(cards(browser)) == 12
            assert browser.run("document.querySelectorAll('#cards *').length") <= elements * 1.3
        assert cards(browser)[0] == "group-0060"
        choose(browser, "size", "48")
        assert len(cards(browser)) == 48
        assert_quiet(browser, many)

    def test_last_page_and_keys(self, browser):
        choose(browser, "order", "data")
        browser.press("p")
        assert cards(browser)[0] == "group-0000"  # there is none before the first
        for _ in range(GROUPS // 12 + 3):
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


class TestUnknown:
    def test_changed_and_least_certain(self, browser, unknown):
        browser.look(**SCREENS["desktop"])
        browser.open(unknown)
        lead = browser.run("document.querySelector('.lead').textContent")
        assert lead.startswith("2 of 5 matchings changed; least certain is group tied")
        assert cards(browser) == BY_CHANGE
        browser.run("document.querySelector('a[data-order=low]').click()")
        assert cards(browser)[0] == "tied"
        marks = browser.run(
            "[...document.querySelectorAll('.card:first-of-type .states i')]"
            ".map((i) => i.textContent)"
        )
        assert set(marks) == {"=", "≠"}
        assert_quiet(browser, unknown)


class TestSeveral:
    @pytest.fixture(autouse=True)
    def _open(self, browser, several):
        browser.look(**SCREENS["desktop"])
        browser.open(several)

    def column(self, browser, number):
        return browser.run(
            f"[...document.getElementById('sortable').tBodies[0].rows]"
            f".map((r) => r.cells[{number}].dataset.key ?? null)"
        )

    def test_everything_is_folded(self, browser):
        assert browser.run("document.querySelectorAll('details[open]').length") == 0
        assert browser.run("document.documentElement.scrollHeight") < 12_000

    def test_the_overview_sorts(self, browser):
        press = "document.querySelectorAll('#sortable th button')[{}].click()"
        browser.run(press.format(5))  # TTM, the largest first
        values = self.column(browser, 5)
        assert values[-1] is None  # what is not known comes last
        known = [float(value) for value in values[:-1]]
        assert len(known) == SEVERAL - 1
        assert known == sorted(known, reverse=True)
        assert len(set(known)) > 1
        browser.run(press.format(5))
        assert self.column(browser, 5)[-1] is None
        assert [float(v) for v in self.column(browser, 5)[:-1]] == sorted(known)
        browser.run(press.format(0))
        names = self.column(browser, 0)
        assert names == sorted(names)
        assert browser.run("document.querySelectorAll('th[aria-sort]').length") == 1

    def test_a_phone_sorts_with_a_list(self, browser, several):
        browser.look(**SCREENS["phone"])
        browser.open(several)
        assert browser.run("getComputedStyle(document.querySelector('.sorter')).display") == "flex"
        choose(browser, "sort", "0")
        assert self.column(browser, 0)[0].startswith("data-00")
        browser.run("document.getElementById('sort-down').click()")
        assert self.column(browser, 0)[0].startswith("data-38")

    def test_a_name_opens_its_section(self, browser, several):
        browser.run("document.querySelector('#sortable a[href=\"#run-7\"]').click()")
        browser.until("document.getElementById('run-7').open")
        assert browser.run("document.querySelectorAll('details.experiment[open]').length") == 1
        # Charts are not folded twice.
        assert browser.run("document.querySelector('#run-7 .charts').checkVisibility()")

    def test_names_have_their_parents(self, browser):
        names = browser.run("[...document.getElementById('run').options].map((o) => o.textContent)")
        assert "runs/part-1/7/run, seed 0" in names
        assert len(set(names)) == SEVERAL


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("which", ["fates", "unknown", "several"])
def test_fits_the_screen(browser, which, screen, dark, request):
    """Nothing but tables is wider than the screen, and text stands out from what is behind it."""
    browser.look(**SCREENS[screen], dark=dark)
    browser.open(request.getfixturevalue(which))
    browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    width = SCREENS[screen]["width"]
    assert browser.run("document.documentElement.scrollWidth") <= width
    background, ink = browser.run(
        "['backgroundColor', 'color'].map((k) => getComputedStyle(document.body)[k])"
    )
    assert (brightness(background) < brightness(ink)) == dark
    assert abs(brightness(background) - brightness(ink)) > 180
    folder = os.environ.get("REPORT_SCREENSHOTS")
    for part in ("gallery", "details"):
        browser.run(f"document.getElementById('{part}').scrollIntoView({{behavior: 'instant'}})")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            browser.screenshot(Path(folder) / f"{request.node.callspec.id}_{part}.png")


def brightness(colour):
    """0 to 255, of "rgb(r, g, b)"."""
    red, green, blue = (float(x) for x in colour[colour.index("(") + 1 : -1].split(",")[:3])
    return 0.299 * red + 0.587 * green + 0.114 * blue
