"""The hybrid of an export against its parts; learning, forgetting, and broken files."""

import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.keyboard import export_fakes, hybrid_export
from tests.support.keyboard.export_fakes import export
from tff_keyboard.data.vocabulary import OOV
from tff_keyboard.evaluation.counts import predictor_evaluation
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.predictors.hybrid.hybrid_predictor import HybridPredictor
from tff_keyboard.predictors.hybrid.mixture import MixtureWeights
from tff_keyboard.predictors.hybrid.word_cache import EDGE, WordCache
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.predictors.ngram import ngram_file
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard.storage.errors import CheckFailed, ExportError
from tflite_export.export import ngram_part
from tflite_export.export.export_options import ExportOptions
from tflite_export.runtime.hybrid_keyboard import HybridKeyboardPredictor, open_keyboard
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

ROOT = pathlib.Path(__file__).parents[3]
MESSAGES = [["see", "johann", "tonight"], ["ok", "johann"], ["see", "johann", "later"]]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return hybrid_export.export_hybrid(tmp_path_factory.mktemp("hybrid"))


@pytest.fixture(scope="module")
def network(path):
    return KeyboardPredictor(path)


@pytest.fixture(scope="module")
def opened(path):
    return open_keyboard(path)


@pytest.fixture
def keyboard(opened):
    """Returns the keyboard with nothing learnt."""
    opened.cache.forget_all()
    yield opened
    opened.cache.forget_all()


def from_parts():
    """Returns the same hybrid of the float model and the n-gram, in the order of the run."""
    part = hybrid_export.part()
    return HybridPredictor(
        KerasPredictor(export_fakes.model(), export_fakes.vocabulary()),
        NGramPredictor(*ngram_file.decode(part.data)),
        MixtureWeights.from_json(hybrid_export.weights()),
    )


def as_dict(predictor, context):
    names = [*predictor.vocabulary.words, *predictor.table.extras]
    return dict(zip(names, predictor.next_word(context).tolist(), strict=True))


def test_the_files_say_what_the_parts_say(keyboard):
    expected = from_parts()
    for learnt in (MESSAGES, []):
        for context in ([], ["see"], ["johann"], ["are", "you", "coming"], ["unheard", "to"]):
            found = as_dict(keyboard, context)
            assert found == pytest.approx(as_dict(expected, context), rel=1e-4, abs=1e-9)
            assert sum(found.values()) == pytest.approx(1, abs=1e-4)
        for message in learnt:
            keyboard.learn(message)
            expected.learn(message)


def test_the_strip_offers_the_owners_word(keyboard):
    assert [word for word, _ in keyboard.strip_for("see j").suggestions] == []
    for message in MESSAGES:
        keyboard.learn(message)
    assert keyboard.strip_for("see j").suggestions[0][0] == "johann"
    assert "johann" in dict(keyboard.strip_for("See ").suggestions)


def test_an_export_without_an_ngram_is_the_network_alone(tmp_path):
    run = export_fakes.save_run(tmp_path / "run")
    path = export(run, tmp_path / "k.tflite", ExportOptions()).paths.model
    assert isinstance(open_keyboard(path), KeyboardPredictor)


def test_an_export_without_an_ngram_learns_with_a_cache(tmp_path):
    run = export_fakes.save_run(tmp_path / "run")
    path = export(run, tmp_path / "k.tflite", ExportOptions()).paths.model
    keyboard = open_keyboard(path, cache=WordCache())
    assert isinstance(keyboard, HybridKeyboardPredictor)
    network = keyboard.network
    for text in ("", "see ", "see y"):
        before, after = network.strip_for(text).suggestions, keyboard.strip_for(text).suggestions
        assert [word for word, _ in before] == [word for word, _ in after]
    for _ in range(2):
        keyboard.learn(["see", "zbigniew"])
    assert "zbigniew" in [word for word, _ in keyboard.strip_for("see z").suggestions]
    keyboard.cache.forget(["zbigniew"])
    assert "zbigniew" not in [word for word, _ in keyboard.strip_for("see z").suggestions]


def test_packed_into_one_file(tmp_path):
    path = hybrid_export.export_hybrid(tmp_path, pack=True)
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == [path.name]
    keyboard = open_keyboard(path)
    assert isinstance(keyboard, HybridKeyboardPredictor)
    assert sum(keyboard.next_word(["see"])) == pytest.approx(1, abs=1e-4)


@pytest.mark.slow
def test_an_older_ngram_does_not_stay_beside_a_new_export(tmp_path):
    path = hybrid_export.export_hybrid(tmp_path)
    assert path.with_suffix(".ngram").is_file()
    export(tmp_path / "run 1", path, ExportOptions())
    assert not path.with_suffix(".ngram").exists()
    assert isinstance(open_keyboard(path), KeyboardPredictor)


def test_sizes_are_in_the_manifest(path):
    content = json.loads(path.with_suffix(".json").read_text())
    sizes = [path.with_suffix(end).stat().st_size for end in (".tflite", ".vocabulary", ".ngram")]
    assert content["ngram"]["bytes"] == sizes[2]
    assert content["bytes"] == {
        "network_and_vocabulary": sum(sizes[:2]),
        "with_ngram": sum(sizes),
    }


def test_evaluation_streams_and_leaves_nothing_behind(keyboard):
    """The cache only sees the past: at the first message of a user it is empty."""
    keyboard.learn(["left", "over"])
    person = [["see", "johann"], ["see", "johann"], ["see", "johann"]]
    text = TypedText("two people", ("a", "b"), (person, person))
    sums = predictor_evaluation.evaluate(keyboard, text).sums
    assert sums["oov_hits_at_3"].tolist() == [1, 1]  # from the third time on
    at_once = from_parts()
    at_once.offered_from = 1
    assert predictor_evaluation.evaluate(at_once, text).sums["oov_hits_at_3"].tolist() == [2, 2]
    once = TypedText("once", ("a",), ([["see", "johann"]],))
    assert predictor_evaluation.evaluate(keyboard, once).sums["oov_hits_at_3"].tolist() == [0]
    assert keyboard.cache == WordCache()


def test_numbers_are_not_learnt_but_counted_as_time(keyboard):
    keyboard.learn(["call", "90482211", "at", "7:30"])
    assert set(keyboard.cache.words) == {"call", "at", EDGE}
    never = WordCache()
    never.observe(["call", None, "at", None])
    assert keyboard.cache == never


words = st.sampled_from(["see", "johann", "ok", "ümit", "later", "12345"])


@examples(60)
@given(
    text=st.lists(st.lists(words, min_size=1, max_size=6), max_size=6),
    gone=st.sets(words),
)
def test_forgotten_words_leave_no_trace_in_any_probability(opened, text, gone):
    """Strip, distribution and cache equal, bit by bit, a keyboard's without the words."""
    opened.cache.forget_all()
    for message in text:
        opened.learn(message)
    opened.cache.forget(gone)
    forgotten = [opened.next_word(context).copy() for context in ([], ["see"], ["johann"])]
    never = WordCache()
    for message in text:
        never.observe([None if word in {*gone, "12345"} else word for word in message])
    assert opened.cache == never
    opened.cache.forget_all()
    opened.cache.restore(
        dict(never.words), {v: dict(row) for v, row in never.pairs.items()}, dict(never.uses), ()
    )
    for before, context in zip(forgotten, ([], ["see"], ["johann"]), strict=True):
        np.testing.assert_array_equal(opened.next_word(context), before)
    opened.cache.forget_all()
    np.testing.assert_array_equal(opened.next_word(["see"]), fresh_scores(opened))


def fresh_scores(keyboard):
    other = HybridKeyboardPredictor(keyboard.network, keyboard.ngram, keyboard.weights)
    return other.next_word(["see"])


@pytest.mark.parametrize("k", [0, -1])
def test_refuses_a_strip_of_nothing(keyboard, k):
    with pytest.raises(ValueError, match="`k` must be"):
        keyboard.suggest(["see"], "", k)


MIXTURE = {"components": [], "fitted_on": ""}


class TestBrokenFiles:
    @pytest.fixture
    def path(self, path, tmp_path):
        """Returns a copy that tests can break."""
        for file in path.parent.glob(f"{path.stem}.*"):
            shutil.copy(file, tmp_path)
        return tmp_path / path.name

    def test_a_missing_ngram(self, path):
        path.with_suffix(".ngram").unlink()
        with pytest.raises(ExportError, match=r"ngram: cannot be read"):
            open_keyboard(path)

    def test_another_ngram(self, path):
        path.with_suffix(".ngram").write_bytes(hybrid_export.part(seed=5).data)
        with pytest.raises(ExportError, match="does not match its manifest"):
            open_keyboard(path)

    @pytest.mark.parametrize(
        ("key", "value", "message"),
        [
            ("mixture", None, "must come with `ngram`"),
            ("mixture", {}, "mixture.components` is missing"),
            ("mixture", MIXTURE | {"weights": [[1, 0, 0]]}, "the table of weights must be"),
            ("mixture", MIXTURE | {"weights": [[1], [1, 0]]}, "not a table"),
            ("mixture", MIXTURE | {"weights": "x"}, "weights` must be a list"),
            ("ngram", {}, "missing or invalid"),
            ("ngram", 7, "missing or invalid"),
        ],
    )
    def test_manifest_with_wrong_sizes(self, path, key, value, message):
        file = path.with_suffix(".json")
        content = json.loads(file.read_text())
        content[key] = value
        file.write_text(json.dumps(content))
        with pytest.raises(ExportError, match=message) as error:
            open_keyboard(path)
        assert "\n" not in str(error.value)


def test_a_hybrid_that_is_worse_than_its_network_is_refused():
    report = ngram_part.HybridReport(
        9, 900, {name: (0.3, 0.2, 0.01) for name in ngram_part.MEASURED}
    )
    with pytest.raises(CheckFailed, match="worse than the network alone"):
        report.check()
    assert "-10.00 +- 1.00" in report.table()


def test_a_shipped_keyboard_opens_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keyboard = open_keyboard("models/messages/keyboard.tflite")
    assert keyboard.network.path.is_file()
    assert isinstance(keyboard, HybridKeyboardPredictor)


def test_figures_of_words_that_nobody_typed_are_left_out(path):
    keyboard = open_keyboard(path)
    known = list(keyboard.network.vocabulary.words[4:6])
    texts = {"ann": [known], "bob": [known]}
    unknown = {**texts, "cid": [["qwertz", *known]]}
    found = [set(ngram_part.measure(keyboard, each, 9).metrics) for each in (unknown, texts)]
    assert found == [set(ngram_part.MEASURED), set(ngram_part.MEASURED) - {"recall_at_3_oov"}]


def test_what_the_hybrid_is_worth_is_in_the_manifest(tmp_path):
    texts = {
        "ann": [["see", "johann", "tonight"]] * 12,
        "bob": [["are", "you", "coming", "home", "zoë"]] * 9,
    }
    path = hybrid_export.export_hybrid(
        tmp_path, held_out=texts, allow_loss=True, allow_little_text=True
    )
    found = json.loads(path.with_suffix(".json").read_text())["hybrid"]
    assert (found["people"], found["words"]) == (2, 12 * 3 + 9 * 5)
    alone, hybrid, _ = found["metrics"]["recall_at_3_oov"]
    assert alone == 0
    assert hybrid > 0.5


def test_the_phone_needs_no_tensorflow():
    """Imports everything that the hybrid imports, without an interpreter."""
    script = (
        "import sys; from tflite_export.runtime import hybrid_keyboard\n"
        "heavy = {'tensorflow', 'tensorflow_federated', 'scipy', 'keras'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_oov_is_one_row_of_the_scores(keyboard):
    for message in MESSAGES:
        keyboard.learn(message)
    ids = np.array([[1, *keyboard.vocabulary.encode(["see"])]])
    row = np.exp(keyboard.log_probabilities(ids)[-1])
    found = as_dict(keyboard, ["see"])
    assert row[OOV] == pytest.approx(found["<oov>"] + found["johann"], rel=1e-4)
