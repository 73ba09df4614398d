"""A store with a privately chosen vocabulary."""

import dataclasses
import types

import pytest

from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data.preparing import merged_vocabulary, prepare
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.predictors.ngram import ngram_spec
from tff_keyboard.storage.errors import DataError
from tflite_export.export import ngram_part, tail_part


def chat(path, people=300):
    rows = [f"user{n}\thello again my friend{n} secret{n}\n" for n in range(people)]
    path.write_text("".join(rows), encoding="utf-8")
    return path


def config(path, **options):
    usual = {"source": "tsv", "input": str(path), "vocabulary_epsilon": 4.0}
    return DataConfig(**(usual | options))


def test_keeps_common_words_and_drops_words_of_one_user(tmp_path):
    path = chat(tmp_path / "chat.tsv")
    prepared = prepare.prepare(config(path), tmp_path / "store")
    store = ClientStore(tmp_path / "store")
    assert set(store.vocabulary.words[4:]) == {"hello", "again", "my"}
    facts = prepared.card["vocabulary"]["privacy"]
    assert facts["epsilon"] == 4.0
    assert facts["rho"] > 0
    assert facts["delta_of_words"] == 5e-9
    with pytest.raises(DataError, match=r"store: its vocabulary was chosen with differential priv"):
        tail_part.clients_needed(store)  # exact counts of the same users
    with pytest.raises(DataError, match=r"store: its vocabulary was chosen with differential priv"):
        merged_vocabulary.merge_vocabularies([store], 100)
    run = types.SimpleNamespace(directory=tmp_path, vocabulary=store.vocabulary)
    with pytest.raises(DataError, match=r"store: its vocabulary was chosen with differential priv"):
        ngram_part.build(run, tmp_path / "store", ngram_spec.of_file("6kB"))
    again = prepare.prepare(config(path), tmp_path / "store")  # no second draw of noise
    assert again.was_up_to_date


@pytest.mark.slow
def test_stores_of_earlier_versions_are_up_to_date(tmp_path):
    path = chat(tmp_path / "chat.tsv", people=40)
    plain = config(path, vocabulary_epsilon=0.0)
    card = prepare.prepare(plain, tmp_path / "store").card
    assert not any(name.startswith("vocabulary_epsilon") for name in card["options"])
    with pytest.raises(DataError, match="vocabulary_epsilon"):
        prepare.prepare(dataclasses.replace(plain, vocabulary_epsilon=1.0), tmp_path / "store")


def test_too_few_users_for_epsilon(tmp_path):
    path = chat(tmp_path / "chat.tsv", people=30)
    with pytest.raises(DataError, match=r"No word reaches the threshold .* clients' weight"):
        prepare.prepare(config(path, vocabulary_epsilon=0.1), tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("options", [{"min_word_users": 2}, {"min_word_count": 3}])
def test_exact_thresholds_are_rejected_with_epsilon(options):
    with pytest.raises(ValueError, match="exact counts would influence"):
        config("x.tsv", **options)
