"""The merged vocabulary does not depend on the sizes of the stores, and only on train users."""

import collections

import pytest

from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data.preparing import prepare
from tff_keyboard.data.preparing.merged_vocabulary import coverage, merge_vocabularies
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import NUM_SPECIAL, Vocabulary
from tff_keyboard.storage.errors import DataError


def write_store(folder, texts, **options):
    """Writes a store of 20 users who all type `texts`, with some in each population."""
    folder.mkdir()
    lines = [f"user{user}\t{text}\n" for user in range(20) for text in texts]
    (folder / "in.tsv").write_text("".join(lines), encoding="utf-8")
    config = DataConfig(
        source="tsv",
        input=(str(folder / "in.tsv"),),
        dedup_min_words=0,
        validation_fraction=0.2,
        held_out_fraction=0.2,
        **options,
    )
    prepare.prepare(config, folder / "store")
    return ClientStore(folder / "store")


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    out = tmp_path_factory.mktemp("stores")
    large = write_store(out / "large", ["the the the cat", "the dog the cat"] * 30)
    small = write_store(out / "small", ["lol lol the", "lol u"], vocabulary_size=5)
    return large, small


def test_equals_relative_frequencies(stores):
    scores = collections.Counter()
    for store in stores:
        counts = collections.Counter(
            word
            for client in store.client_ids("train")
            for message in store.words("train", client)
            for word in message
        )
        for word, count in counts.items():
            scores[word] += count / sum(counts.values())
    expected = sorted(scores, key=lambda word: (-round(scores[word], 9), word))
    assert list(merge_vocabularies(stores, 100).words[NUM_SPECIAL:]) == expected
    assert expected[:2] == ["the", "lol"]  # "lol" despite the sizes


def test_coverage(stores):
    _, small = stores
    assert coverage(small.vocabulary, small, "train") == pytest.approx(3 / 5)
    assert coverage(merge_vocabularies(stores, 100), small, "held_out") == 1.0


def test_both_stores_can_be_encoded_with_it(stores, tmp_path):
    path = tmp_path / "merged.txt"
    merge_vocabularies(stores, 6).save(path)
    config = DataConfig(
        source="tsv",
        input=(str(stores[1].directory.parent / "in.tsv"),),
        vocabulary_path=str(path),
        validation_fraction=0.2,
        held_out_fraction=0.2,
    )
    prepare.prepare(config, tmp_path / "again")
    assert ClientStore(tmp_path / "again").vocabulary == Vocabulary.load(path)


def test_rejects(stores, tmp_path):
    other = write_store(tmp_path / "other", ["a b"], mode="whitespace")
    with pytest.raises(DataError, match=r"`data\.mode`"):
        merge_vocabularies([stores[0], other], 10)
    with pytest.raises(ValueError, match="stores"):
        merge_vocabularies([], 10)
