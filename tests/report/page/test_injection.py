"""No text of a run becomes markup: every string of every file and every name, in Chromium."""

import http.server
import json
import re
import shutil
import tempfile
import threading
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from chromium import Browser, find_chromium
from hostile import EVERYTHING, TEXTS, is_fixed, json_files, poison, read, replaced, strings, write
from made_runs import write_fates, write_mixed

from ttm_jax.errors import InputError
from ttm_jax.plain_text import one_line
from ttm_jax.report.page import markup
from ttm_jax.report.page.page import page, write_page
from ttm_jax.report.run_data import read_experiments

PROGRAM = find_chromium()
needs_browser = pytest.mark.skipif(
    PROGRAM is None, reason="no chromium on this machine; on Debian: apt-get install chromium"
)
INFO = {"experiment": "e", "arm": "a", "where": "Table 1", "dataset": "made", "model": "m",
        "source": "s", "matching": "group", "small": True, "data": {"url": "u"}}  # fmt: skip
# Every element with the names of its attributes: what markup from the data would change.
STRUCTURE = (
    "[...document.querySelectorAll('*')].map((e) => e.tagName + ' '"
    " + [...e.attributes].map((a) => a.name).sort().join(' ')).join('\\n')"
)


def write_experiment(folder: Path, seeds: tuple[int, ...] = (0, 1)) -> Path:
    write_fates(folder, seeds, watched=True)
    for path in folder.glob("seed_*/groups.json"):
        content = json.loads(path.read_text("utf-8"))
        content["images"] = [f"photos/{number}.png" for number in range(len(content["images"]))]
        path.write_text(json.dumps(content), "utf-8")
    (folder / "experiment.json").write_text(json.dumps(INFO))
    note = {"comparison": {"note": "another model"}, "std": "text"}
    (folder / "summary.json").write_text(json.dumps(note))
    return folder


class Tags(HTMLParser):
    """The elements of a page with the names of their attributes."""

    ONCE = ("html", "script", "style", "meta", "link", "title", "h1", "img", "iframe", "form")

    def __init__(self, text):
        super().__init__()
        self.count = Counter()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.count[tag, *sorted(name for name, _ in attrs)] += 1

    @property
    def kinds(self):
        """Which there are, and how many of those that do not depend on the data."""
        return set(self.count), {k: n for k, n in self.count.items() if k[0] in self.ONCE}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write_experiment(tmp_path_factory.mktemp("original") / "runs", (0,))


def page_or_message(folder):
    try:
        return page(read_experiments([folder]), models={}), ""
    except InputError as error:
        return "", str(error)


class TestEveryField:
    """One string at a time, without a browser: it is shown as text, or refused in one line."""

    def test_one_at_a_time(self, original, tmp_path):
        folder = tmp_path / "runs"
        shutil.copytree(original, folder)
        plain = Tags(page(read_experiments([folder]), models={})).kinds
        shown, refused = 0, []
        for path in json_files(folder):
            before = path.read_bytes()
            content = read(path)
            for where in strings(content):
                write(path, replaced(content, where, lambda old: EVERYTHING + old))
                text, message = page_or_message(folder)
                if message:
                    assert one_line(message) == message
                    refused.append((path.name, where))
                else:
                    assert Tags(text).kinds == plain, (path, where)
                    assert "<script>window.hacked" not in text
                    shown += 1
            path.write_bytes(before)
        # What has to agree with another file, or has a fixed vocabulary, is refused.
        assert {name for name, _ in refused} == {
            "config.json", "metrics.jsonl", "ledger.jsonl", "groups.json",
        }  # fmt: skip
        assert all(("config.json", where) in refused
                   for where in strings(read(original / "seed_0/config.json"))
                   if is_fixed("config.json", where))  # fmt: skip
        assert shown > 40

    @pytest.mark.parametrize("key", ["seed", "dataset.groups", "dataset.shapes.2x2"])
    def test_numbers_stay_numbers(self, original, tmp_path, key):
        """These were once written into the page as they were."""
        shutil.copytree(original, tmp_path / "runs")
        path = tmp_path / "runs" / "seed_0" / "config.json"
        where = (0, *key.split("."))
        write(path, replaced(read(path), where, lambda old: TEXTS["script"]))
        with pytest.raises(InputError, match=rf"config\.json: {re.escape(key)} is .*expected"):
            page(read_experiments([tmp_path]), models={})

    def test_names_of_shapes(self, original, tmp_path):
        shutil.copytree(original, tmp_path / "runs")
        path = tmp_path / "runs" / "seed_0" / "config.json"
        shapes = {TEXTS["image"]: 5}
        write(path, replaced(read(path), (0, "dataset", "shapes"), lambda old: shapes))
        with pytest.raises(InputError, match=r"the name of a shape is like 2x2"):
            page(read_experiments([tmp_path]), models={})


class TestMarkup:
    """Escaping is not left to care: there is one place that makes markup."""

    PACKAGE = Path(markup.__file__).parent

    def test_nothing_else_makes_markup(self):
        for path in self.PACKAGE.glob("*.py"):
            text = path.read_text("utf-8")
            assert not re.search(r"import html|from html|escape\(", text), path
            made = re.findall(r"\bMarkup\([^)]", text)  # Markup() is empty
            assert not made or path.name == "markup.py", path

    def test_templates_switch_nothing_off(self):
        templates = list((self.PACKAGE / "templates").glob("*.html"))
        assert len(templates) > 5
        for path in templates:
            text = path.read_text("utf-8")
            assert not re.search(r"\|\s*(safe|string)\b|autoescape|Markup", text), path
            # A value in an attribute stands in double quotes.
            for attribute in re.findall(r'[\w-]+=(?!")[^\s>]*\{\{', text):
                pytest.fail(f"{path}: {attribute} is not quoted")

    @pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
    def test_json_in_a_script_element(self, text):
        made = (
            markup._environment().from_string("<script>{{ x | tojson }}</script>").render(x=[text])
        )
        inner = made.removeprefix("<script>").removesuffix("</script>")
        assert json.loads(inner) == [text]
        assert not set(inner) & set("<>&'\u2028\u2029")


@pytest.fixture(scope="module")
def browser():
    # Not pytest's own folder: paths in it can be too long for Chromium's sockets.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        assert PROGRAM is not None
        with Browser(PROGRAM, Path(profile)) as opened:
            yield opened


def use_everything(browser):
    """Open what is folded, turn every control, and move over every element."""
    browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    browser.run("document.getElementById('cards').scrollIntoView({behavior: 'instant'})")
    for control in ("run", "show", "order", "tag", "size", "sort"):
        browser.run(
            f"(() => {{ const c = document.getElementById('{control}'); if (!c) return;"
            "for (const o of [...c.options]) { c.value = o.value; "
            "c.dispatchEvent(new Event('change')); } c.selectedIndex = 0; "
            "c.dispatchEvent(new Event('change')); })()"
        )
    browser.run(
        "document.querySelectorAll('*').forEach((e) => ['mouseover', 'focus', 'click'].forEach("
        "(kind) => e.tagName === 'A' || e.dispatchEvent(new Event(kind, {bubbles: true}))))"
    )
    browser.until("[...document.images].every((i) => i.complete || i.loading === 'lazy')")


def open_page(browser, path):
    browser.look(1280, 900)
    browser.open(path)
    structure = browser.run(STRUCTURE)
    use_everything(browser)
    return structure


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two experiments with harmless text, to be copied."""
    root = tmp_path_factory.mktemp("plain") / "runs"
    write_experiment(root / "one")
    write_mixed(root / "two" / "seed_0")
    return root


@pytest.fixture(scope="module")
def expected(browser, two):
    """The structure of a page about harmless text."""
    output = two.parent / "page.html"
    write_page(read_experiments([two]), output)
    structure = open_page(browser, output)
    assert browser.errors == []
    return structure


@needs_browser
class TestBrowser:
    def assert_harmless(self, browser, path, structure, expected):
        assert structure == expected
        assert browser.run("window.hacked") is None
        assert browser.run("location.href") == path.resolve().as_uri()
        assert browser.errors == []
        others = [url for url in browser.requests if not url.startswith("data:image/jpeg")]
        assert others == [path.resolve().as_uri()]

    @pytest.mark.parametrize("text", [*TEXTS.values(), EVERYTHING], ids=[*TEXTS, "everything"])
    def test_every_string(self, browser, expected, two, tmp_path, text):
        shutil.copytree(two, tmp_path / "runs")
        assert poison(tmp_path / "runs", text) > 150
        output = tmp_path / "page.html"
        write_page(read_experiments([tmp_path / "runs"]), output, title=text)
        structure = open_page(browser, output)
        self.assert_harmless(browser, output, structure, expected)
        captions = browser.run(
            "[...document.querySelectorAll('.choice span')].map((s) => s.textContent)"
        )
        assert text + "a red cat" in captions  # every letter of it
        files = browser.run("[...document.querySelectorAll('.file')].map((s) => s.textContent)")
        assert "0.png" in {name.split("/")[-1] for name in files}
        assert browser.run("document.title") == " ".join(one_line(text).split())

    @pytest.mark.parametrize("name", [k for k in TEXTS if "/" not in TEXTS[k]])
    def test_names_of_folders_and_files(self, browser, expected, two, tmp_path, name):
        text = TEXTS[name].replace("\x00", "")
        root = tmp_path / text / "runs"
        shutil.copytree(two / "one", root / f"one {text}")
        shutil.copytree(two / "two", root / f"two {text}")
        output = tmp_path / f"{text}.html"
        write_page(read_experiments([root]), output)
        structure = open_page(browser, output)
        self.assert_harmless(browser, output, structure, expected)

    def test_the_test_would_notice(self, browser, expected, tmp_path):
        """The same text, unescaped and without a policy, does everything that is tested for."""
        output = tmp_path / "page.html"
        output.write_text(f"<title>x</title><ul id=cards></ul>{TEXTS['script']}{TEXTS['image']}")
        browser.open(output)
        assert browser.run(STRUCTURE) != expected
        assert browser.run("window.hacked") == 1
        assert len(browser.requests) > 1

    def test_the_policy_stops_what_escaping_would_let_through(self, browser, original, tmp_path):
        """Scripts, requests, frames and forms that a script of the page could make."""
        asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                self.send_response(200)
                self.end_headers()

            do_POST = do_GET

            def log_message(self, *words):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            address = f"http://127.0.0.1:{server.server_address[1]}"
            output = tmp_path / "page.html"
            write_page(read_experiments([original]), output)
            browser.open(output)
            try_all = """(async () => {
              const tried = [];
              const attempt = async (name, action) => {
                try { await action(); tried.push(name + " worked"); }
                catch (error) { tried.push(name); }
              };
              const loads = (element) => new Promise((done, fail) => {
                element.onload = done; element.onerror = fail; document.body.append(element);
              });
              const make = (name, values) => Object.assign(document.createElement(name), values);
              await attempt("fetch", () => fetch("ADDRESS/fetch"));
              await attempt("image", () => loads(make("img", {src: "ADDRESS/image.png"})));
              const sheet = {rel: "stylesheet", href: "ADDRESS/s.css"};
              await attempt("style", () => loads(make("link", sheet)));
              await attempt("script", () => loads(make("script", {src: "ADDRESS/s.js"})));
              await attempt("inline", () => {
                document.body.append(make("script", {textContent: "window.hacked = 1"}));
                if (!window.hacked) throw 0;
              });
              await attempt("eval", () => eval("window.hacked = 1"));
              await attempt("markup", () => { document.body.innerHTML += "<b>x</b>"; });
              await attempt("socket", () => new Promise((done, fail) => {
                const s = new WebSocket("ADDRESS/".replace("http", "ws"));
                s.onopen = done; s.onerror = fail;
              }));
              document.body.append(make("iframe", {src: "ADDRESS/frame"}));
              const form = make("form", {action: "ADDRESS/form", method: "post"});
              document.body.append(form);
              form.submit();
              await new Promise((done) => setTimeout(done, 300));
              return tried;
            })()""".replace("ADDRESS", address)
            tried = browser.run(try_all)
            server.shutdown()
        assert not [name for name in tried if name.endswith("worked")]
        assert len(tried) == 8
        assert browser.run("window.hacked") is None
        assert browser.run("location.href") == output.resolve().as_uri()
        assert asked == []
