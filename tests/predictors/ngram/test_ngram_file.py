"""The file: rejected content, size, and the size budget."""

import hashlib
import json
import tracemalloc

import numpy as np
import pytest

from tests.support.ngram_fakes import messages_of, vocabulary_of
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary
from tff_keyboard.predictors.ngram import ngram_file
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey
from tff_keyboard.predictors.ngram.ngram_pruning import Pruner
from tff_keyboard.predictors.ngram.ngram_spec import encode_within
from tff_keyboard.storage.errors import DataError

V = 30
MESSAGES = messages_of(0, 400)


@pytest.fixture(scope="module")
def model():
    return KneserNey.train(MESSAGES, vocabulary_size=V, order=4)


@pytest.fixture(scope="module")
def data(model):
    return ngram_file.encode(model, vocabulary_of(V))


def test_contains_its_words_and_is_small(model, data, tmp_path):
    (tmp_path / "some.ngram").write_bytes(data)
    _, vocabulary = ngram_file.load(tmp_path / "some.ngram")
    assert vocabulary == vocabulary_of(V)
    assert len(data) < 4 * sum(model.num_ngrams) + 2000
    assert data == ngram_file.encode(model, vocabulary_of(V))


def test_contains_the_language(model):
    turkish = Vocabulary(vocabulary_of(V).words, NormalisationRules(language="tr"))
    data = ngram_file.encode(model, turkish)
    assert ngram_file.decode(data)[1] == turkish
    assert b'"language"' not in ngram_file.encode(model, vocabulary_of(V))


def test_contexts_are_rounded_down_if_their_sum_would_be_too_large():
    """4 is followed by 5 in 99 % of cases, and the nearest value is almost one."""
    messages = [np.array([28, 29])] * 100_000 + [np.array([4, 5])] * 8000
    messages += [np.array([4, w]) for w in range(6, 28)] * 3
    model = KneserNey.train(messages, vocabulary_size=V, order=2)
    table = model.tables[0]
    rows = slice(table.starts[4], table.starts[5])
    low, high = np.log([table.discounted.min(), table.discounted.max()])
    values = np.exp(np.linspace(low, high, 256))
    nearest = np.abs(np.log(table.discounted[rows, np.newaxis] / values)).argmin(axis=1)
    assert 1 - values[nearest].sum() < table.gamma[4] / 2  # otherwise the test is vacuous
    compact, _ = ngram_file.decode(ngram_file.encode(model, vocabulary_of(V)))
    node = np.searchsorted(compact.tables[0].context_rows, 4)
    assert compact.tables[0].gamma[node] >= table.gamma[4]


@pytest.mark.parametrize("cut", [0, 1, 10, 40, 200, -40, -1])
def test_a_cut_file_is_refused(data, cut):
    with pytest.raises(DataError, match="some: not a complete n-gram file"):
        ngram_file.decode(data[:cut], "some")


def test_every_byte_is_under_the_checksum(data):
    for position in range(0, len(data), 41):
        damaged = bytearray(data)
        damaged[position] ^= 4
        with pytest.raises(DataError):
            ngram_file.decode(bytes(damaged))


def rewritten(data, change, parts_change=None):
    """Returns a file with another header and a valid checksum, as an attacker would send it."""
    first, line, rest = data.split(b"\n", 2)
    header = json.loads(line)
    change(header)
    rest = rest[:-32]
    if parts_change:
        rest = parts_change(rest)
    content = b"\n".join([first, json.dumps(header).encode(), rest])
    return content + hashlib.sha256(content).digest()


@pytest.mark.parametrize(
    "field, value",
    [
        ("size", 31),
        ("size", -1),
        ("size", 2**40),
        ("size", True),
        ("rows", [2**24, 5, 5]),
        ("rows", [2**50, 2**50, 2**50]),
        ("rows", []),
        ("rows", "abc"),
        ("contexts", [1, 1, 1]),
        ("contexts", [2**30, 1, 1]),
        ("log_ranges", [[float("nan"), 0.0]] * 4),
        ("log_ranges", [[-1e308, 0.0]] * 4),
        ("log_ranges", [[-0.5, -0.1]] * 4),
        ("log_ranges", [[-1.0, 5.0]] * 4),
        ("part_bytes", [0, 0, 0, 0]),
        ("part_bytes", [2**60, 1, 1, 1]),
        ("word_bytes", 10**12),
        ("word_bytes", 3),
        ("rules", {"mode": "other"}),
        ("rules", {"surprise": 1}),
        ("fingerprint", "0" * 64),
    ],
)
def test_malicious_header_is_rejected_without_allocation(data, field, value):
    hostile = rewritten(data, lambda header: header.update({field: value}))
    tracemalloc.start()
    with pytest.raises(DataError):
        ngram_file.decode(hostile)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40_000_000


def test_unknown_rule_is_quoted_shortened_and_escaped(data):
    rules = {"\x1b[2J" + "x" * 999: 1}
    with pytest.raises(DataError, match=r"'\\x1b\[2Jx{99}") as caught:
        ngram_file.decode(rewritten(data, lambda header: header.update(rules=rules)))
    assert len(str(caught.value)) < 300


def test_total_size_of_orders_is_bounded(data):
    hostile = rewritten(data, lambda header: header.update(rows=3 * [2**23]))
    with pytest.raises(DataError, match="too many n-grams"):
        ngram_file.decode(hostile)


@pytest.mark.parametrize("header", [b"[]", b"{}", b"[" * 5000, b"\xff", b"7", b""])
def test_invalid_header_is_rejected(header):
    content = ngram_file.FORMAT + b"\n" + header + b"\n"
    with pytest.raises(DataError):
        ngram_file.decode(content + hashlib.sha256(content).digest())


def test_random_parts_are_refused(data):
    """With a valid checksum, the parts themselves never cause a crash or an invalid model."""
    rng = np.random.default_rng(0)
    for _ in range(200):

        def scramble(rest):
            mixed = bytearray(rest)
            for place in rng.integers(0, len(rest), size=3):
                mixed[place] = rng.integers(256)
            return bytes(mixed)

        try:
            compact, _ = ngram_file.decode(rewritten(data, lambda header: None, scramble))
        except DataError:
            continue
        p = compact.distribution(compact.contexts([1, 4, 5]))
        np.testing.assert_allclose(p.sum(dtype=np.float64), 1, rtol=1e-4)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        ngram_file.load(tmp_path / "none.ngram")


def test_sizes_must_fit(model):
    with pytest.raises(ValueError, match="30 rows, but the vocabulary has 31"):
        ngram_file.encode(model, vocabulary_of(31))


@pytest.fixture(scope="module")
def larger():
    """Returns enough n-grams to hit a budget closely."""
    messages = messages_of(3, 4000, size=300, longest=12)
    model = KneserNey.train(messages, vocabulary_size=300, order=4)
    return Pruner(model, messages), vocabulary_of(300)


@pytest.mark.parametrize("budget", [5_000, 20_000, 60_000])
def test_fills_but_never_exceeds_a_budget(larger, budget):
    pruner, vocabulary = larger
    data = encode_within(pruner, vocabulary, budget)
    assert 0.98 * budget <= len(data) <= budget
    compact, _ = ngram_file.decode(data)
    assert pruner.min_ngrams < sum(compact.num_ngrams) < pruner.max_ngrams


def test_smallest_and_largest_budgets(larger):
    pruner, vocabulary = larger
    whole = ngram_file.encode(pruner.prune(pruner.max_ngrams), vocabulary)
    assert encode_within(pruner, vocabulary, 10**9) == whole
    assert 0.995 * len(whole) <= len(encode_within(pruner, vocabulary, len(whole))) <= len(whole)
    with pytest.raises(ValueError, match="bytes are too few"):
        encode_within(pruner, vocabulary, 500)
