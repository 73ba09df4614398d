"""Corpora without users: every line once, in equal clients or in the client of its article."""

import collections

import pytest

from tff_keyboard.data.sources import plain_text
from tff_keyboard.data.sources.messages import ParserState
from tff_keyboard.storage.errors import DataError


def corpus(directory, train=103, valid=20, test=1):
    for name, count in zip(plain_text.FILE_NAMES, (train, valid, test), strict=True):
        lines = "".join(f"{name} {index}\n\n" for index in range(count))
        (directory / name).write_text(lines)
    return plain_text.corpus_files([directory])


def read(files, **arguments):
    return list(plain_text.read_shards(files, ParserState(), **arguments))


def test_clients_have_equal_sizes_and_every_line_once(tmp_path):
    messages = read(corpus(tmp_path), num_shards=10, seed=1)
    texts = collections.Counter(message.text for message in messages)
    assert len(texts) == 103 + 20 + 1
    assert set(texts.values()) == {1}
    sizes = collections.defaultdict(collections.Counter)
    for message in messages:
        sizes[message.population][message.user] += 1
    assert sorted(sizes["train"].values()) == [10] * 7 + [11] * 3
    assert sorted(sizes["validation"].values()) == [10, 10]  # about 10.3 lines per client
    assert sorted(sizes["held_out"].values()) == [1]


def test_assignment_of_lines_depends_only_on_the_seed(tmp_path):
    files = corpus(tmp_path)
    assert read(files, num_shards=10, seed=1) == read(files, num_shards=10, seed=1)
    assert read(files, num_shards=10, seed=1) != read(files, num_shards=10, seed=2)


def test_lines_are_mixed(tmp_path):
    """A client does not have every tenth line of the file, but one of every ten lines."""
    messages = read(corpus(tmp_path, train=1000), num_shards=10, seed=1)
    own = [int(m.text.split()[1]) for m in messages if m.user == "train-00000"]
    assert [line // 10 for line in own] == list(range(100))
    assert len({line % 10 for line in own}) == 10


@pytest.mark.parametrize("form", ["ptb.{}.txt", "wiki.{}.tokens"])
def test_knows_the_names_of_usual_corpora(tmp_path, form):
    names = [form.format(part) for part in ("train", "valid", "test")]
    for name in names:
        (tmp_path / name).write_text("a b c\n")
    assert plain_text.corpus_files([tmp_path]) == [tmp_path / name for name in names]
    (tmp_path / names[1]).unlink()
    with pytest.raises(DataError, match=names[1]):
        plain_text.corpus_files([tmp_path])


def test_folder_without_a_file_is_named(tmp_path):
    corpus(tmp_path)
    (tmp_path / "valid.txt").unlink()
    with pytest.raises(DataError, match=r"has no valid\.txt.*pass the files"):
        plain_text.corpus_files([tmp_path])
    with pytest.raises(DataError, match=r"these three files.*got 2"):
        plain_text.corpus_files([tmp_path / "train.txt", tmp_path / "test.txt"])


def test_fewer_lines_than_clients(tmp_path):
    files = corpus(tmp_path, train=3)
    with pytest.raises(DataError, match=r"3 lines cannot fill 10 clients.*num_shards"):
        read(files, num_shards=10, seed=1)
