"""The HTML page without a browser: what it says, what it hides nothing of, what it escapes."""

import base64
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
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

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.report.page.gallery import gallery, picture_pools
from ttm_jax.report.page.page import page, write_page
from ttm_jax.report.page.svg_chart import Series, line_chart, nice_ticks
from ttm_jax.report.run_data import read_experiments

GLOBAL = TTMConfig(matching="global", tau_unit="fraction", tau_1=0.5, iterations=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Groups of 2 x 2 with two seeds, a global matching, and one without truth."""
    root = tmp_path_factory.mktemp("runs")
    write_fates(root / "fates <i>1")
    rng = np.random.default_rng(0)
    history = [rng.normal(size=(1, 10, 10)) for _ in range(2)]
    write_run(root / "global" / "seed_0", pictured_dataset(), history, GLOBAL)
    write_run(root / "unknown" / "seed_0", pictured_dataset(truth=False), fate_scores())
    return root


@pytest.fixture(scope="module")
def html(folder):
    return page(read_experiments([folder]), models={})


class Reader(HTMLParser):
    """Collects elements, text outside scripts, and attributes that could load or run something."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.text, self.data, self.attributes = [], [], [], {}, []
        self._open = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.attributes += [(tag, *pair) for pair in attrs]
        self._open = found.get("id") if tag == "script" else tag

    def handle_data(self, data):
        if self._open and self._open in self.ids and self._open.startswith(("gallery-", "pool-")):
            self.data[self._open] = json.loads(data)
        elif self._open not in (None, "style", "script"):
            self.text.append(data)

    def handle_endtag(self, tag):
        self._open = "body"


def decode(text, kind):
    return np.frombuffer(base64.b64decode(text), kind)


class TestPage:
    def test_nothing_comes_from_elsewhere(self, html):
        reader = Reader(html)
        assert not {"link", "iframe", "object", "embed", "base"} & (set(reader.tags) - {"link"})
        loading = [(t, k, v) for t, k, v in reader.attributes if k in ("src", "href", "action")]
        assert all(v.startswith(("#", "data:")) for _, _, v in loading)
        assert not [k for _, k, _ in reader.attributes if k.startswith("on") or k == "style"]
        assert "http://" not in html.replace("http://www.w3.org", "")
        assert "https://" not in html

    def test_policy_fits_the_style_and_script(self, html):
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)[1]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert policy.count("sha256-") == 2

    def test_data_cannot_become_markup(self, html):
        assert "<script>window.hacked" not in html
        assert "fates <i>" not in html
        reader = Reader(html)
        assert reader.tags.count("img") == 0
        captions = reader.data["gallery-0"]["captions"]
        assert captions[2:4] == list(CAPTIONS["to-wrong"])  # unharmed all the same

    def test_ids_are_unique_and_links_lead_somewhere(self, html):
        reader = Reader(html)
        assert len(reader.ids) == len(set(reader.ids))
        targets = [v[1:] for _, k, v in reader.attributes if k == "href" and v.startswith("#")]
        assert set(targets) <= set(reader.ids)

    def test_overview(self, html):
        text = " ".join(Reader(html).text)
        assert "40.00 ± 0.00" in text  # TTM of the fates: 2 of 5, both seeds
        assert "16.67 / 50.00" in text  # chance of GroupScore and GroupMatch
        assert "The score rose in " in text
        assert "nan" not in text.lower().split()
        # Names carry the folders that tell them apart, also without truth.
        for name in ("fates <i>1", "global", "unknown"):
            assert re.search(rf"/{re.escape(name)} · ", text), name

    def test_without_truth_there_are_no_empty_columns(self, tmp_path):
        write_run(tmp_path / "a" / "run", pictured_dataset(truth=False), fate_scores())
        alone = page(read_experiments([tmp_path]), models={})
        assert "Result as in the paper's tables" not in Reader(alone).text
        write_run(tmp_path / "b" / "run", pictured_dataset("other", truth=False), fate_scores())
        html = page(read_experiments([tmp_path]), models={})
        assert "Overview" in Reader(html).text
        headings = set(re.findall(r"<th[^>]*>(?:<div>)?([^<]+)", html))
        assert {"data and model", "changed", "iteration", "tau", "selected"} <= headings
        assert not headings & {"chance", "raw", "SimpleMatch", "TTM", "gain", "precision"}

    def test_every_chart_has_a_text(self, html):
        labels = re.findall(r'role="img" aria-label="([^"]+)"', html)
        assert len(labels) == html.count('<figure class="chart">')
        for title in (
            "Scores: GroupMatch from 40 to 40; GroupScore from 20 to 40",
            "Pseudo-labels: how many, how many right: selected from 60 to 80; "
            "right among the selected from 33.33 to 100",
            "Threshold tau: tau from 1 to 0",
        ):
            assert title in labels
        for part in ("Training loss", "Learning rate", "most certain groups", "more often"):
            assert any(part in label for label in labels), part

    def test_settings_and_environment(self, html):
        text = " ".join(Reader(html).text)
        for words in ("batch", "environment.versions.jax", "weight_decay"):
            assert words in text

    def test_tags_are_counted(self, html):
        assert "By tag (7)" in html
        assert "&lt;b&gt;to-right&lt;/b&gt;" in html

    def test_paper_beside(self, tmp_path):
        from made_runs import MMVP, NAMES, paper_run

        paper_run(tmp_path / "mmvp", MMVP)
        text = " ".join(Reader(page(read_experiments([tmp_path]), models=NAMES)).text)
        assert "89.44 ± 0.96" in text
        assert "-2.03" in text  # 118 of 135 against 89.44
        assert "seed 0 is at 1 of 10" in text
        assert "GroupMatch in the paper" in text

    def test_without_pictures(self, folder):
        small = page(read_experiments([folder]), models={}, pictures=False)
        assert 'id="pool-0"' not in small

    def test_file_is_whole_or_absent(self, folder, tmp_path):
        experiments = read_experiments([folder])
        write_page(experiments, tmp_path / "new" / "report.html")
        assert (tmp_path / "new" / "report.html").read_text().endswith("</html>\n")
        assert [path.name for path in (tmp_path / "new").iterdir()] == ["report.html"]


class TestGallery:
    def test_cards_of_groups(self, folder):
        data = gallery(read_experiments([folder])[0])
        first, second = data["runs"]
        assert [unit["id"] for unit in first["units"]] == list(FATES)
        assert second["units"] is None  # the same for every seed
        scores = decode(first["scores"], np.float32).reshape(5, 3, 2, 2)
        np.testing.assert_array_equal(scores[0, 2], np.float32(FATES["to-right"][2]))
        right = decode(first["right"], np.uint8).reshape(5, 3)
        assert right.tolist() == [[0, 1, 1], [1, 1, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0]]
        matching = decode(first["matching"], np.int16).reshape(5, 3, 2)
        assert matching[0].tolist() == [[1, 0], [0, 1], [0, 1]]
        selected = decode(first["selected"], np.uint8).reshape(5, 3)
        # tau is 1, then 0; nobody is selected after the last; a tie never is.
        assert selected.tolist() == [[1, 1, 0], [1, 1, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0]]

    def test_cards_of_a_global_matching_are_images(self, folder):
        experiment = next(e for e in read_experiments([folder]) if e.name == "global")
        data = gallery(experiment)
        (run,) = data["runs"]
        assert len(run["units"]) == 10
        matrix = experiment.first.scores(1)[0][0]
        at = 0
        matching = decode(run["matching"], np.int16).reshape(10, 2)
        flat = decode(run["scores"], np.float32)
        pool = data["captions"]
        for image, unit in enumerate(run["units"]):
            count = unit["shape"][1]
            part = flat[at : at + 2 * count].reshape(2, count)
            at += 2 * count
            texts = [pool[c] for c in unit["captions"]]
            assert len(set(unit["captions"])) == count
            group = list(CAPTIONS.values())[image // 2]
            assert texts[0] == group[image % 2]  # the true one comes first
            assert part[1, 0] == matrix[image, image]
            assert matrix[image].max() == part[1].max()  # the best scored is among them
            assert (matching[image] >= 0).all()  # and so is what was chosen
        assert at == len(flat)

    def test_pictures_that_experiments_share_are_stored_once(self, folder):
        pools, which = picture_pools(read_experiments([folder]))
        assert which == [0, 0, 0]
        assert len(pools) == 1
        assert base64.b64decode(pools[0][0]).startswith(b"\xff\xd8")

    def test_folder_without_pictures(self, tmp_path):
        write_fates(tmp_path, (0,))
        for name in ("groups.json", "thumbnails.zip"):
            (tmp_path / "seed_0" / name).unlink()
        data = gallery(read_experiments([tmp_path])[0])
        assert data["captions"] is None
        assert [unit["id"] for unit in data["runs"][0]["units"]] == list(FATES)

    def test_huge_groups_are_left_out_and_counted(self, tmp_path):
        pixel = np.zeros((2, 2, 3), np.uint8)
        names = tuple(map(str, range(13)))
        images = tuple(pixel.copy() for _ in names)
        big = GroupedDataset.from_groups([Group("big", images, names, tuple(range(13)))])
        write_run(tmp_path, big, [np.eye(13)[None]] * 2, replace(CONFIG, iterations=1))
        data = gallery(read_experiments([tmp_path])[0])
        assert (data["leftOut"], data["runs"][0]["units"]) == (1, [])
        assert "1 groups are too large" in page(read_experiments([tmp_path]), models={})


class TestCharts:
    def test_ticks_cover_the_range_with_round_numbers(self):
        assert nice_ticks(0, 100) == [0, 20, 40, 60, 80, 100]
        assert nice_ticks(0.31, 0.62) == pytest.approx([0.3, 0.4, 0.5, 0.6, 0.7])
        assert nice_ticks(5, 5)[0] < 5 < nice_ticks(5, 5)[-1]

    def test_names_are_escaped(self):
        text = line_chart("<b>", "x", "y", [Series('"<i>', ((0, 1), (1, 2)), 0)])
        assert "<b>" not in text
        assert "<i>" not in text

    def test_one_point_and_none(self):
        assert "nan" not in line_chart("one", "x", "y", [Series("a", ((3, 3),), 0)])
        assert line_chart("none", "x", "y", [Series("a", (), 0)]) == ""


def test_command(tmp_path):
    write_many(tmp_path / "run", 8)
    output = tmp_path / "out" / "page.html"
    done = subprocess.run(
        [sys.executable, "-m", "ttm_jax.cli.main", "report", str(tmp_path / "run"),
         "-o", str(output), "--tables", str(tmp_path / "tables")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "page.html: 1 run, " in done.stdout
    assert output.exists()
    assert (tmp_path / "tables" / "results.tex").exists()
    bad = subprocess.run(
        [sys.executable, "-m", "ttm_jax.cli.main", "report", str(tmp_path / "nothing")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert bad.returncode == 2
    assert bad.stderr.startswith("error: ")
    assert len(bad.stderr.splitlines()) == 1
