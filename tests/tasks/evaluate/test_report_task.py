"""The report page: complete, self-contained and escaped, also in headless Chromium."""

import html.parser
import json
import math
import pathlib
import re
import shlex
import shutil
import subprocess

import numpy as np
import pytest

from tasks.evaluate import compare as compare_task
from tasks.evaluate import evaluate as evaluate_task
from tasks.evaluate import report as report_task
from tests.support.fakes import ledger_header, save_untrained_run, tiny_config
from tff_keyboard.command_line import cli
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation.report import charts, example_strips, run_records
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.predictors.ngram import ngram_file, ngram_spec
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger
from tff_keyboard.storage.errors import RunDirectoryError

VOID = {"meta", "br", "link", "img", "input"}


class Page(html.parser.HTMLParser):
    """A parser that checks nesting and collects headings, visible text and external references."""

    def __init__(self, content):
        super().__init__()
        self.open, self.headings, self.words, self.loads = [], [], [], []
        self.feed(content)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert tag not in {"script", "iframe", "link", "object", "embed"}, tag
        for name, value in attributes:
            if name.split(":")[-1] in {"src", "href"} and not (value or "").startswith("#"):
                self.loads.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass  # of SVG

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)
        if "style" not in self.open and "svg" not in self.open:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def write_metrics(run, seed, *, federated):
    rng = np.random.default_rng(seed)
    rows = []
    for r in range(1, 9):
        row = {
            "round": r,
            "tokens": 1000 + int(rng.integers(200)),
            "client_work/train/nll": 1000 * (6 - 0.3 * r),
            "client_work/train/tokens": 1000,
        }
        if federated:
            row["bytes_up"] = 5_000_000
        if r % 2 == 0:
            row["evaluation/recall_at_1_no_eos"] = 0.02 * r
            row["evaluation/recall_at_3_no_eos"] = 0.03 * r
            row["evaluation/perplexity"] = 600 / r
        rows.append(json.dumps(row))
    (run / "metrics.jsonl").write_text("\n".join(rows) + '\n{"round": 9, "tok')  # killed in a line


def write_ledger(run):
    ledger = PrivacyLedger(run / "privacy_ledger.jsonl", ledger_header())
    for round_num in range(1, 9):
        ledger.record(round_num, clip_norm=0.5, clients=10)


@pytest.fixture(scope="module")
def data_root(store, tmp_path_factory):
    """Returns two run directories, an n-gram and a comparison of them, on synthetic clients."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "store").symlink_to(store)
    config = tiny_config(folder / "store", "model.units=9", "model.embedding_size=5")
    store = ClientStore(folder / "store")
    for seed, name in ((1, "federated"), (2, "server")):
        run = save_untrained_run(folder / name, config, seed)
        shutil.copy(folder / "store" / "data_card.json", run)
        (run / "environment.json").write_text('{"commit": "<b>0</b>"}')
        write_metrics(run, seed, federated=name == "federated")
    write_ledger(folder / "federated")
    # A name that a page must escape.
    spec = ngram_spec.parse("ngram:40kB")
    _, data = ngram_spec.train(spec, store.all_messages("train"), store.vocabulary)
    assert data is not None
    (folder / "n&<gram>.ngram").write_bytes(data)
    models = [str(folder / name) for name in ("federated", "server", "n&<gram>.ngram")]
    compare_task.run(
        compare_task.Options(
            models=(*models, "unigram"), store=folder / "store", out=folder / "comparison"
        )
    )
    return folder


def report(directory, **options):
    """Runs the task and returns the page that it wrote."""
    report_task.run(report_task.Options(directory=directory, **options))
    return options.get("out", directory / "report.html")


@pytest.fixture(scope="module")
def written(data_root):
    return report(data_root / "comparison")


def test_a_comparison_has_all_sections(data_root, written):
    page = Page(written.read_text(encoding="utf-8"))
    assert page.headings == [
        "Results",
        "Recall",
        "Keystrokes saved",
        "Differences between clients",
        "Results by slice",
        "Results with equal weight for each client",
        "Calibration",
        "Learning curves",
        "Example suggestions",
        "Privacy of federated",
        "Run federated",
        "Run server",
    ]
    comparison = json.loads((data_root / "comparison" / "comparison.json").read_text())
    for model in comparison["models"]:
        value = model["metrics"]["kss"]["value"]
        assert f"{100 * value:.2f}" in page.text
        assert model["model"]["name"] in page.text
    verdicts = {row["verdict"] for d in comparison["differences"] for row in d["metrics"].values()}
    assert {"better", "worse"} & verdicts
    for verdict in verdicts - {""}:
        assert verdict in page.text
    assert "epsilon" in page.text
    assert "[model]" in page.text  # the config


@pytest.mark.slow
def test_figures_name_the_command_that_made_them(data_root, written):
    text = " ".join(Page(written.read_text(encoding="utf-8")).text.split())
    comparison = json.loads((data_root / "comparison" / "comparison.json").read_text())
    sources = shlex.join(model["model"]["source"] for model in comparison["models"])
    assert f"Created with tff-keyboard compare {sources} --clients=held_out --store=" in text


@pytest.mark.slow
def test_page_follows_the_dark_color_scheme(written):
    style = written.read_text(encoding="utf-8").split("<style>")[1].split("</style>")[0]
    light, dark = style.split("@media screen and (prefers-color-scheme: dark)")
    names = set(re.findall(r"(--[a-z-]+): #", light))
    assert names
    assert names <= set(re.findall(r"(--[a-z-]+): #", dark))  # every colour has its dark twin
    others = re.sub(r":root \{[^}]*\}", "", light)
    assert not re.findall(r"#[0-9a-f]{3,6}\b", others)  # and no rule has a colour of its own


def test_page_loads_no_external_resources(written):
    content = written.read_text(encoding="utf-8")
    assert Page(content).loads == []
    assert "default-src 'none'" in content
    styles = "".join(re.findall(r"<style.*?</style>", content, re.S))
    assert "@import" not in styles
    assert "url(" not in styles.replace("url(#", "")


@pytest.mark.slow
def test_escapes_names_and_values(data_root, written, tmp_path):
    content = written.read_text(encoding="utf-8")
    assert "n&amp;&lt;gram&gt;" in content
    assert "<gram>" not in content
    assert "<b>0</b>" not in content
    assert "&amp;amp;" not in content
    actual = json.loads((data_root / "comparison" / "comparison.json").read_text())
    for model in actual["models"]:
        slices = model["slices"]
        slices["<i>family"] = {"<i>label": slices["place"]["first word"]}
    (tmp_path / "comparison.json").write_text(json.dumps(actual))
    content = report(tmp_path, strips=False).read_text(encoding="utf-8")
    assert "&lt;i&gt;family" in content
    assert "&lt;i&gt;label" in content
    assert "<i>" not in content


def test_shows_no_message_of_the_corpus(data_root, written):
    text = f" {Page(written.read_text(encoding='utf-8')).text} "
    store = ClientStore(data_root / "store")
    for population in ("train", "validation", "held_out"):
        for client_id in store.client_ids(population):
            assert client_id not in text
            for message in store.words(population, client_id):
                if len(message) >= 4:
                    assert f" {' '.join(message)} " not in text


@pytest.mark.slow
def test_the_same_input_gives_the_same_page(data_root, written, tmp_path):
    again = report(data_root / "comparison", out=tmp_path / "sub" / "again.html")
    assert again.read_bytes() == written.read_bytes()
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["again.html"]


@pytest.mark.slow
def test_report_of_one_run(data_root, tmp_path):
    page = Page(report(data_root / "server", out=tmp_path / "run.html").read_text())
    assert page.headings == ["Learning curves", "Example suggestions", "Run server"]


@pytest.mark.slow
def test_report_of_a_run_with_evaluations(data_root, tmp_path):
    run = tmp_path / "evaluated"
    shutil.copytree(data_root / "server", run)
    evaluation = evaluate_task.run(evaluate_task.Options(run_dir=run))
    page = Page(report(run, strips=False).read_text())
    assert page.headings == [
        "Results",
        "Recall",
        "Keystrokes saved",
        "Differences between clients",
        "Results by slice",
        "Results with equal weight for each client",
        "Calibration",
        "Learning curves",
        "Run evaluated",
    ]
    assert f"{evaluation.metrics['perplexity'].value:.1f}" in page.text
    left_out = evaluation.text.words_left_out
    assert (f"{left_out:,} more" in page.text) == (left_out > 0)


@pytest.mark.slow
def test_strips_of_a_given_file(data_root, tmp_path):
    (tmp_path / "mine.txt").write_text("good mor\nhow are \n", encoding="utf-8")
    out = tmp_path / "mine.html"
    arguments = [str(data_root / "server"), f"--out={out}", f"--examples={tmp_path / 'mine.txt'}"]
    assert cli.launch(report_task, arguments) == cli.OK
    text = Page(out.read_text()).text
    assert "good mor" in text
    assert "see you" not in text  # the built-in ones are gone


@pytest.mark.slow
def test_prefixes_and_next_words(data_root):
    predictor = NGramPredictor(*ngram_file.load(data_root / "n&<gram>.ngram"))
    word = predictor.vocabulary.words[4]
    unfinished, finished, empty = example_strips.example_strips(
        {"m": predictor}, [f"hi {word[:1]}", f"hi {word} ", ""]
    )
    assert all(w.startswith(word[:1]) for w, _ in unfinished.strips["m"])
    assert finished.strips["m"] == predictor.suggest(["hi", word])
    assert empty.strips["m"] == predictor.suggest([])


@pytest.mark.parametrize(
    "arguments, code, match",
    [
        (["{data_root}"], cli.MACHINE, "is not a run directory"),
        (
            ["{data_root}/server", "--examples={data_root}/none.txt"],
            cli.BAD_INPUT,
            "cannot be read",
        ),
        (["{tmp}"], cli.BAD_INPUT, "Run `compare` again"),
    ],
)
def test_refuses_with_one_line(data_root, tmp_path, capsys, arguments, code, match):
    (tmp_path / "comparison.json").write_text('{"format": "of next year"}')
    words = [word.format(data_root=data_root, tmp=tmp_path) for word in arguments]
    assert cli.launch(report_task, words) == code
    assert match in capsys.readouterr().err


@pytest.mark.slow
def test_a_failed_write_leaves_the_old_page(data_root, tmp_path, monkeypatch, capsys):
    out = tmp_path / "page.html"
    out.write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tff_keyboard.storage.files.os.fsync", full)
    arguments = [str(data_root / "server"), "--nostrips", f"--out={out}"]
    assert cli.launch(report_task, arguments) == cli.MACHINE
    error = capsys.readouterr().err
    assert error.startswith(f"error: Cannot write {out}: No space left on device.")
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert out.read_text() == "old"


@pytest.mark.slow
def test_a_damaged_line_of_metrics_is_named(data_root, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(data_root / "server", run)
    (run / "metrics.jsonl").write_text('{"round": 1}\nnot json\n{"round": 3}\n')
    with pytest.raises(RunDirectoryError, match=r"metrics\.jsonl, line 2 is damaged"):
        run_records.read_run(run)


@pytest.mark.slow
def test_charts_take_missing_values():
    bars = charts.interval_bars(
        ["recall"], ["a"], [[Interval(0.5, math.nan, math.nan, math.nan, 1)]]
    )
    assert bars.startswith("<svg")
    people = charts.per_client(["a"], [np.array([np.nan, 0.2])], np.array([0.0, 5.0]), "recall")
    assert people.startswith("<svg")


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [1100, pytest.param(420, marks=pytest.mark.slow)])
def test_in_a_browser(written, tmp_path, width):
    from PIL import Image

    picture = tmp_path / "page.png"
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        "--enable-logging=stderr",
        "--v=0",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--window-size={width},6000",
        f"--screenshot={picture}",
        pathlib.Path(written).absolute().as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert "Content Security Policy" not in done.stderr  # nothing was blocked
    pixels = np.asarray(Image.open(picture).convert("RGB"))
    assert pixels.shape[1] == width
    for index in range(4):  # every model's colour is there, in bars, dots and marks
        expected = np.array([int(charts.colour(index)[i : i + 2], 16) for i in (1, 3, 5)])
        close = np.abs(pixels.astype(int) - expected).max(axis=2) <= 2
        assert np.count_nonzero(close) > 400, charts.colour(index)
    # Nothing runs out of the page: the outermost columns are background from top to bottom.
    background = pixels[0, 0]
    assert np.all(pixels[:, :4] == background)
    assert np.all(pixels[:, -4:] == background)


def test_changed_records_of_a_run_do_not_end_the_report(data_root, tmp_path):
    run = shutil.copytree(data_root / "server", tmp_path / "run")
    (run / "data_card.json").write_text(
        '{"populations": {"validation": 0, "train": {"clients": "x"}}}'
    )
    (run / "environment.json").write_text('{"command": ["a", "\\ud800"]}')
    assert "Run run" in report(run).read_text(encoding="utf-8")
