"""The loader error of the published FedAtt code on an example small enough to do by hand."""

import json
import math

import numpy as np
import pytest

from benchmarks import loader_error
from tff_keyboard.baselines.kneser_ney import KneserNey
from tff_keyboard.data.vocabulary import NUM_SPECIAL

LINES = "A b c . d e\n\n = H =\nf . g h i j\n"
NAMES = ("train.txt", "valid.txt", "test.txt")


class NoShuffle:
    def permutation(self, count):
        return np.arange(count)


@pytest.fixture
def corpus(tmp_path):
    for name in NAMES:
        (tmp_path / name).write_text(LINES)
    return tmp_path


def words_of(text, index):
    names = {place: word for word, place in index.items()}
    return ["".join(f"{names[int(each)]} " for each in ids).strip() for ids in text]


def test_sentences_are_cut_as_theirs(corpus):
    index = {}
    text = loader_error.sentences(corpus / "train.txt", index)
    assert words_of(text, index) == [
        "<SOS> a b c EOS",
        "<SOS> d e EOS",
        "<SOS> = h = EOS",
        "<SOS> f EOS",
        "<SOS> g h i j EOS",
    ]
    assert min(index.values()) == NUM_SPECIAL


def test_a_batch_is_transposed_and_cut_to_its_shortest_sentence(corpus):
    index = {}
    text = loader_error.sentences(corpus / "train.txt", index)
    cut = loader_error.as_published(text, 3, NoShuffle())
    assert words_of(cut, index) == [
        "<SOS> <SOS> <SOS>",  # of the first three sentences, the shortest with four words
        "a d =",
        "b e h",
        "c EOS =",
        "<SOS> <SOS>",  # of the last two, the shortest with three
        "f g",
        "EOS h",
    ]
    facts = loader_error.facts_of(text, cut, index["<SOS>"])
    assert facts["share_read"] == 18 / 23
    assert facts["share_start_to_start"] == 3 / 11


def test_shuffling_is_the_seeds(corpus):
    text = [np.arange(length) for length in range(2, 40)]
    found = [loader_error.as_published(text, 4, np.random.default_rng(s)) for s in (1, 1, 2)]
    assert [c.tolist() for c in found[0]] == [c.tolist() for c in found[1]]
    assert [c.tolist() for c in found[0]] != [c.tolist() for c in found[2]]


def test_perplexity_is_that_of_the_models_probabilities():
    text = [np.array(ids) for ids in ([4, 5, 6], [4, 5], [4, 7, 6, 5], [4])]
    model = KneserNey.train(text, vocabulary_size=9, order=2)
    nats = []
    for ids in text:
        for place in range(1, len(ids)):
            nodes = model.context_nodes(ids[None, :place])[0, -1:]
            shares = model.probabilities(nodes)[0].astype(np.float64)
            nats.append(-math.log(shares[ids[place]]))
    assert loader_error.perplexity(model, text) == pytest.approx(math.exp(np.mean(nats)), rel=1e-5)


def test_the_table_has_every_cell(corpus, tmp_path, capsys):
    out = tmp_path / "found.json"
    loader_error.main([str(corpus), f"--out={out}"])
    found = json.loads(out.read_text())
    cells = [
        c for model in found["perplexity"].values() for t in model.values() for c in t.values()
    ]
    assert len(cells) == 8
    assert all(math.isfinite(cell) and cell > 1 for cell in cells)
    assert found["vocabulary"] == 13
    text = capsys.readouterr().out
    assert all(f"{cell:.1f}" in text for cell in cells)
