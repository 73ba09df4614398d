"""Metrics of the user, against shipped metrics of the same sums, and wrong results of them."""

import numpy as np
import pytest

from tests.evaluation.counts.test_predictor_evaluation import (
    VOCABULARY,
    WithTail,
    cifg,
    ngram,
    typed_by,
)
from tests.support import hybrid_fakes
from tff_keyboard import config as config_lib
from tff_keyboard.data.vocabulary import EOS
from tff_keyboard.evaluation.counts import batch_evaluation, predictor_evaluation
from tff_keyboard.evaluation.metrics import own_metrics
from tff_keyboard.evaluation.metrics.own_metrics import ScoredWords
from tff_keyboard.storage import part_reference
from tff_keyboard.storage.errors import ConfigError

SOURCE = """
import numpy as np


def top_3(scored):
    is_word = scored.words != ""
    return (scored.suggestions == scored.words[:, np.newaxis]).any(axis=1) & is_word, is_word


def top_1(scored):
    is_word = scored.words != ""
    return (scored.suggestions[:, 0] == scored.words) & is_word, is_word


def nats(scored):
    return -scored.log_probability, np.ones(len(scored.words))


def messages(scored, minimum: int = 1):
    ends = scored.words == ""
    return ends & (scored.index_in_message >= minimum), scored.index_in_message == 0


def by_ids(scored):
    words = np.array([scored.vocabulary[i] for i in scored.targets], object)
    known = scored.targets >= 4
    assert (words[known] == scored.words[known]).all()
    return known, scored.targets >= 3


def one_array(scored):
    return np.ones(len(scored.words))


def wrong_length(scored):
    return np.ones(2), np.ones(len(scored.words))


def strings(scored):
    return scored.words, scored.words


def nan(scored):
    return np.full(len(scored.words), np.nan), np.ones(len(scored.words))


def negative(scored):
    return np.zeros(len(scored.words)), np.full(len(scored.words), -1)


def above_one(scored):
    return np.full(len(scored.words), 2), np.ones(len(scored.words))


def raises(scored):
    raise ValueError(scored.words[0])


def no_scored():
    return 3
"""


@pytest.fixture(name="build")
def _build(tmp_path):
    part_reference._load.cache_clear()
    file = tmp_path / "mine.py"
    file.write_text(SOURCE)

    def build(*names, **keys):
        tables = {name: {"type": f"{file}:{name}", **keys} for name in names}
        config = config_lib.from_dict({"evaluation": {"metrics": tables}})
        return own_metrics.build(config.evaluation.metrics)

    return build


def sums_of(predictor, text, metrics):
    sums = predictor_evaluation.evaluate(predictor, text, metrics=metrics).sums
    return sums, {
        each.metric.name: (
            sums[f"own/{each.metric.name}/numerator"],
            sums[f"own/{each.metric.name}/denominator"],
        )
        for each in metrics
    }


@pytest.mark.parametrize("make", [cifg, ngram, WithTail], ids=["cifg", "n-gram", "lexicon"])
def test_recall_and_loss_equal_those_of_the_package(build, make):
    metrics = build("top_1", "top_3", "by_ids") + build("nats", kind="number")
    sums, own = sums_of(make(), typed_by(5, seed=2), metrics)
    words = sums["tokens"] - sums["eos_tokens"]
    np.testing.assert_array_equal(own["top_3"], (sums["hits_at_3"], words))
    np.testing.assert_array_equal(own["top_1"], (sums["hits_at_1"], words))
    np.testing.assert_array_equal(own["by_ids"], (words - sums["oov_tokens"], words))
    np.testing.assert_allclose(own["nats"], (sums["nll"], sums["tokens"]), rtol=1e-12)


def test_a_hybrid_suggests_own_words_by_name(build):
    metrics = build("top_1", "top_3", "by_ids") + build("nats", kind="number")
    sums, own = sums_of(hybrid_fakes.hybrid(), hybrid_fakes.typed_by(7, seed=3), metrics)
    words = sums["tokens"] - sums["eos_tokens"]
    assert sums["oov_hits_at_3"].sum() > 0
    np.testing.assert_array_equal(own["top_3"], (sums["hits_at_3"] + sums["oov_hits_at_3"], words))
    np.testing.assert_array_equal(own["top_1"], (sums["hits_at_1"] + sums["oov_hits_at_1"], words))
    np.testing.assert_allclose(own["nats"], (sums["nll"], sums["tokens"]), rtol=1e-6)


def test_positions_of_a_message_and_options(build):
    text = typed_by(4, seed=5)
    metrics = build("messages", minimum=3)
    sums = batch_evaluation.evaluate(cifg(), text, metrics=metrics).sums
    expected = [sum(len(message) >= 3 for message in client) for client in text.messages]
    np.testing.assert_array_equal(sums["own/messages/numerator"], expected)
    np.testing.assert_array_equal(sums["own/messages/denominator"], sums["examples"])


def test_suggestions_leave_special_ids_out_and_break_ties_by_id():
    scores = np.array([[9, 9, 9, 9, 1, 2, 2, 2], [0, 0, 0, 0, -np.inf, 5, -np.inf, -np.inf]])
    scored = ScoredWords(
        words=np.array(["a", ""], object),
        targets=np.array([4, EOS]),
        index_in_message=np.array([0, 1]),
        vocabulary=("<pad>", "<bos>", "<eos>", "<oov>", "a", "b", "c", "d"),
        log_probabilities=scores,
        strip_scores=scores,
    )
    assert scored.suggestions.tolist() == [["b", "c", "d"], ["b", "", ""]]
    assert scored.log_probability.tolist() == [1.0, 0.0]


def test_a_diverged_model_has_nan_and_no_blame(build):
    class Diverged:
        vocabulary = VOCABULARY

        def log_probabilities(self, ids):
            return np.full([np.count_nonzero(ids), len(VOCABULARY)], np.nan, np.float32)

    sums = batch_evaluation.evaluate(Diverged(), typed_by(2, seed=1), metrics=build("nan")).sums
    assert np.isnan(sums["own/nan/numerator"]).all()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("one_array", "must return two arrays, a numerator and a denominator, got ndarray"),
        ("wrong_length", r"numerator with one number for each of the \d+ words .* \[2\]"),
        ("strings", "numerator with one number .* got object"),
        ("nan", "returned a numerator that is not finite"),
        ("negative", "returned a negative denominator"),
        ("above_one", "counted a numerator that is not between 0 .* set its key `kind`"),
        ("raises", r"mine.py, line \d+ raised ValueError\.$"),
        ("no_scored", "must have the parameter `scored`"),
        ("absent", "'absent' does not exist"),
    ],
)
def test_a_wrong_metric_is_one_line_without_text_of_users(build, name, words):
    with pytest.raises(ConfigError, match=words) as error:
        batch_evaluation.evaluate(cifg(), typed_by(2, seed=1), metrics=build(name))
    assert "\n" not in str(error.value)
    assert f"`evaluation.metrics.{name}" in str(error.value)


@pytest.mark.parametrize(
    ("name", "table", "words"),
    [
        ("kss", {}, "metric of this package"),
        ("Long-words", {}, "small letters, digits and underscores"),
        ("x", {"type": None}, r"`evaluation.metrics.x.type` is missing"),
        ("x", {"type": "recall"}, "must be 'module:attribute' or 'file.py:attribute'"),
        ("x", {"type": "no_such_module_at_all:f"}, "finds no source of a module"),
        ("x", {"kind": "share"}, r"`evaluation.metrics.x.kind` must be one of"),
        ("x", {"minimum": "two"}, r"`evaluation.metrics.x.minimum` must be a whole number"),
        ("x", {"minimun": 2}, r"Did you mean `evaluation.metrics.x.minimum`"),
    ],
)
def test_a_wrong_table_is_one_line(tmp_path, name, table, words):
    part_reference._load.cache_clear()
    (tmp_path / "m.py").write_text("def f(scored, minimum: int = 1):\n    return None\n")
    table = {"type": f"{tmp_path / 'm.py'}:f"} | table
    table = {key: value for key, value in table.items() if value is not None}

    def build():
        config = config_lib.from_dict({"evaluation": {"metrics": {name: table}}})
        return own_metrics.build(config.evaluation.metrics)

    with pytest.raises(ConfigError, match=words) as error:
        build()
    assert "\n" not in str(error.value)


def test_a_file_overrides_one_key_of_the_metric_of_its_base(tmp_path):
    part_reference._load.cache_clear()
    (tmp_path / "m.py").write_text("def f(scored, minimum: int = 1):\n    return None\n")
    (tmp_path / "base.toml").write_text(
        "[evaluation.metrics.x]\ntype = 'm.py:f'\nlabel = 'mine'\n"
        "[evaluation.metrics.y]\ntype = 'm.py:f'\n"
    )
    config = tmp_path / "config.toml"
    config.write_text("base = 'base.toml'\n[evaluation.metrics.x]\nminimum = 4\n")
    metrics = config_lib.load(config, ["evaluation.metrics.y.better=lower"]).evaluation.metrics
    assert (metrics["x"].label, metrics["x"].settings) == ("mine", {"minimum": 4})
    assert (metrics["y"].better, metrics["y"].settings) == ("lower", {"minimum": 1})
    assert metrics["y"].type == f"{tmp_path / 'm.py'}:f"
    loaded = config_lib.load(config)
    assert config_lib.loads(config_lib.dump(loaded)) == loaded
