"""Broken files: one line that names the file and the line, or a count."""

import gzip

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data.sources import lines
from tff_keyboard.data.sources.messages import ParserState
from tff_keyboard.storage.errors import DataError


def read(path, on_bad_line="error"):
    reading = ParserState(on_bad_line)
    return list(lines.read_lines(path, reading)), dict(reading.skipped)


def write(directory, content, name="chat.tsv"):
    path = directory / name
    path.write_bytes(content)
    return path


def test_line_ends_byte_order_mark_and_missing_last_newline(tmp_path):
    path = write(tmp_path, "\ufeffa\tüx\r\nb\t\x85y\u2028z\nc\tlast".encode())
    expected = [(1, "a\tüx"), (2, "b\t\x85y\u2028z"), (3, "c\tlast")]
    assert read(path) == (expected, {})


def test_gzip_is_detected_by_content(tmp_path):
    path = write(tmp_path, gzip.compress(b"a\tx\n") + gzip.compress(b"b\ty\n"), "chat.tsv")
    assert read(path)[0] == [(1, "a\tx"), (2, "b\ty")]


def test_blank_lines_are_counted(tmp_path):
    assert read(write(tmp_path, b"a\tx\n\n \t \r\nb\ty\n")) == (
        [(1, "a\tx"), (4, "b\ty")],
        {"blank_line": 2},
    )


@pytest.mark.parametrize(
    "bad, reason, says",
    [
        (b"u\tcaf\xe9 secret", "not_utf8", r":2: byte 6 of the line is not UTF-8.*iconv"),
        (b"u\tse\0cret", "nul", r":2: the line has NUL"),
        (b"u\t" + b"secret " * 1_500_000, "too_long", r":2: the line is longer than 1048576 bytes"),
    ],
    ids=["not-utf8", "nul", "10-MB-line"],
)
def test_bad_line_is_an_error_or_a_count(tmp_path, bad, reason, says):
    path = write(tmp_path, b"a\tx\n" + bad + b"\nb\ty\n")
    with pytest.raises(DataError, match=says) as caught:
        read(path)
    message = str(caught.value)
    assert str(path) in message
    assert "skip" in message  # the way out
    assert "\n" not in message
    assert "secret" not in message
    assert read(path, "skip") == ([(1, "a\tx"), (3, "b\ty")], {reason: 1})


def test_line_just_short_enough_is_read(tmp_path):
    text = "x" * (lines.MAX_LINE_BYTES - 1)
    assert read(write(tmp_path, f"{text}\nb\n".encode()))[0] == [(1, text), (2, "b")]
    last = "x" * lines.MAX_LINE_BYTES  # at the end of the file, without a line feed
    assert read(write(tmp_path, last.encode()))[0] == [(1, last)]


def test_memory_does_not_grow_with_a_line(tmp_path):
    import tracemalloc

    path = write(tmp_path, b"x" * 10_000_000 + b"\nb\ty\n")
    tracemalloc.start()
    try:
        assert read(path, "skip")[1] == {"too_long": 1}
        assert tracemalloc.get_traced_memory()[1] < 6_000_000  # less than the line's 10 MB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("on_bad_line", ["error", "skip"])
@pytest.mark.parametrize(
    "content, name, says",
    [
        (b"", "chat.tsv", "the file is empty"),
        (gzip.compress(b"", mtime=0), "chat.tsv.gz", "the file is empty"),
        (
            gzip.compress(b"a\tx\n" * 5000, mtime=0)[:-12],
            "chat.tsv.gz",
            r":\d+: the gzip file ends early",
        ),
        (
            gzip.compress(bytes(range(256)) * 99, mtime=0)[:40] + b"\xff" * 40,
            "c.gz",
            "ends early or is dam",
        ),
        (b"a\tx\n", "chat.tsv.gz", "the content is not gzip"),
        ("a\tx\n".encode("utf-16"), "chat.tsv", "UTF-16.*iconv"),
    ],
    ids=["empty", "empty-gzip", "gzip-cut-short", "gzip-damaged", "no-gzip", "utf16"],
)
def test_unusable_file_is_an_error_even_if_lines_are_skipped(
    tmp_path, on_bad_line, content, name, says
):
    path = write(tmp_path, content, name)
    with pytest.raises(DataError, match=says) as caught:
        read(path, on_bad_line)
    assert str(path) in str(caught.value)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.tsv: there is no such file"):
        read(tmp_path / "nothing.tsv")
    with pytest.raises(DataError, match="is a folder"):
        read(tmp_path)


def test_position_ends_at_the_size_of_the_inputs(tmp_path):
    path = write(tmp_path, gzip.compress(b"a\tx\n" * 2500))
    positions = []
    list(lines.read_lines(path, ParserState(on_position=positions.append), bytes_before=7))
    assert positions == sorted(positions)
    assert positions[-1] == 7 + path.stat().st_size


def test_position_is_reported_every_thousand_lines_of_a_broken_file(tmp_path):
    path = write(tmp_path, b"ann\t\0\n" + b"ann\thello\n" * 2499)
    positions = []
    list(lines.read_lines(path, ParserState("skip", positions.append)))
    assert len(positions) == 3  # after 1,000, after 2,000, at the end


@hypothesis.given(
    pieces=st.lists(
        st.sampled_from(
            [
                b"a\tx",
                b"\xc3\xa9",
                b"\r",
                b"\n",
                b"\n\n",
                b" ",
                b"\xef\xbb\xbf",
                b"\0",
                b"\xff",
                b"y" * 50,
                b"\xe2\x80\xa8",
            ]
        ),
        max_size=30,
    ),
    block=st.integers(1, 70),
    is_gzip=st.booleans(),
    cut=st.integers(0, 30),
)
@hypothesis.example(pieces=[b"a\tx", b"\n"], block=1, is_gzip=True, cut=1)
@examples(200)
def test_reading_in_blocks_equals_reading_lines(tmp_path_factory, pieces, block, is_gzip, cut):
    """Any content and any block boundaries give the same result as reading line by line."""
    content = b"".join(pieces)
    data = gzip.compress(content, mtime=0)[: -cut or None] if is_gzip else content
    path = write(tmp_path_factory.mktemp("blocks"), data, "c.gz" if is_gzip else "c.tsv")
    careful = ParserState("skip")

    def outcome(read_some):
        actual = []
        try:
            for line in read_some:
                actual.append(line)
        except DataError as error:
            return actual, str(error)
        return actual, ""

    expected = outcome(lines._careful_lines(path, careful, 0, after=0))
    reading = ParserState("skip")
    kept, lines._BLOCK_BYTES = lines._BLOCK_BYTES, block
    try:
        actual = outcome(lines.read_lines(path, reading))
    finally:
        lines._BLOCK_BYTES = kept
    assert actual[1] == expected[1]
    if actual[1]:  # a cut file is an error; gzip determines how much is read before it
        common = min(len(actual[0]), len(expected[0]))
        assert actual[0][:common] == expected[0][:common]
    else:
        assert actual[0] == expected[0]
        assert reading.skipped == careful.skipped
