"""Text is chosen by how much better the near side predicts it."""

import gzip

import numpy as np
import pytest

from tff_keyboard_lab.tools import select_text

NEAR = ["a\tsee you soon", "a\tare you home", "b\tsee you at home [NAME]"] * 4
REST = ["c\tsee you at home"] * 4 + ["d\tthe said parliament shall vote"] * 4


def write(path, lines):
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    return path


@pytest.fixture
def files(tmp_path):
    return write(tmp_path / "near.tsv.gz", NEAR), write(tmp_path / "rest.tsv.gz", REST)


def test_bits_are_those_of_witten_bell():
    train, test = np.array([2, 3, 0, 2, 2, 0]), np.array([2, 3, 0])
    actual = select_text.bits(train, test, 5)
    unigram = (np.bincount(train, minlength=5) + 1) / (len(train) + 5)
    # Behind the edge: 2 twice, one distinct word. Behind 2: 3, 2 and the edge. Behind 3: the edge.
    expected = [
        (2 + 1 * unigram[2]) / (2 + 1),
        (1 + 3 * unigram[3]) / (3 + 3),
        (1 + 1 * unigram[0]) / (1 + 1),
    ]
    np.testing.assert_allclose(actual, -np.log2(expected))


def test_a_model_sums_to_one_behind_every_word():
    train = np.append(np.random.default_rng(0).integers(0, 6, size=200), 0)
    for before in range(6):
        test = np.array([[before, word] for word in range(6)]).ravel()
        actual = select_text.bits(train, test, 6)[1::2]
        assert np.sum(2**-actual) == pytest.approx(1)


def test_messages_similar_to_phone_text_are_kept(files, tmp_path, capsys):
    near, rest = files
    out = tmp_path / "new" / "out.tsv.gz"
    select_text.main([f"--near={near}", f"--of={rest}", "--keep=0.5", f"--out={out}"])
    lines = gzip.decompress(out.read_bytes()).decode().splitlines()
    assert lines[: len(NEAR)] == [f"near:{line.replace('[NAME]', '<NAME>')}" for line in NEAR]
    assert set(lines[len(NEAR) :]) == {"rest:c\tsee you at home"}
    assert "of 8 others" in capsys.readouterr().out


def test_nothing_or_all_can_be_kept(files):
    ids_of = {}
    near, rest = (select_text.read_text([path], ids_of) for path in files)
    for keep, expected in ((0.0, 0), (1.0, len(REST))):
        is_selected, _ = select_text.select(near, rest, len(ids_of) + 2, keep)
        assert is_selected.sum() == expected
