"""Archives of arrays from outside: refused before memory is used for them."""

import contextlib
import io
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.damage import damaged
from tests.support.examples import examples
from tff_keyboard.storage import npz
from tff_keyboard.storage.npz import InvalidArchiveError

ARRAYS = {
    "bias": np.arange(3, dtype=np.float32),
    "kernel": np.ones((2, 3), np.float32),
    "scalar": np.float64(2.5),
    "empty": np.zeros((0, 4), np.int64),
}


def header_of(shape, descr="<f4"):
    """Returns the header of an array without its elements."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return file.getvalue()


def archive(path, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as target:
        for name, data in members:
            with target.open(name, "w", force_zip64=True) as file:
                for piece in [data] if isinstance(data, bytes) else data:
                    file.write(piece)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_reads_what_numpy_writes(save, tmp_path):
    path = tmp_path / "a.npz"
    save(path, **ARRAYS)
    arrays = npz.read_arrays(path)
    assert list(arrays) == list(ARRAYS)
    for name, value in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], value)
        header = npz.read_headers(path)[name]
        assert (header.shape, header.dtype) == (np.shape(value), np.asarray(value).dtype)
        assert (header.size, header.nbytes) == (np.size(value), np.asarray(value).nbytes)
    assert list(npz.read_arrays(path, ["kernel"])) == ["kernel"]


def test_fortran_order_and_lzma(tmp_path):
    file = io.BytesIO()
    value = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.save(file, value)
    path = archive(tmp_path / "a.npz", [("a.npy", file.getvalue())], zipfile.ZIP_LZMA)
    np.testing.assert_array_equal(npz.read_arrays(path)["a"], value)


@pytest.mark.parametrize("shape", [(10**12,), (10**6, 10**6), (2**62, 4), (10**40,)])
def test_declared_size_must_be_there(shape, tmp_path):
    path = archive(tmp_path / "a.npz", [("a.npy", header_of(shape) + bytes(400))])
    with pytest.raises(
        InvalidArchiveError, match="bytes, but the archive has 400 for it"
    ) as caught:
        npz.read_arrays(path)
    assert f"'a' declares {np.prod(shape, dtype=object) * 4:,} bytes" in str(caught.value)


def zeros(num_bytes):
    return (bytes(2**20) for _ in range(num_bytes // 2**20))


# Python's LZMA unpacks at least 4 KiB of the archive at a time, however much that becomes.
@pytest.mark.parametrize(
    ("compression", "max_mib"), [(zipfile.ZIP_DEFLATED, 4), (zipfile.ZIP_LZMA, 100)]
)
def test_bomb_is_refused_unread(compression, max_mib, tmp_path):
    size = 200 * 2**20
    pieces = [header_of((size // 4,)), *zeros(size)]
    path = archive(tmp_path / "a.npz", [("a.npy", pieces)], compression)
    assert path.stat().st_size < 10**6
    del pieces
    tracemalloc.start()
    try:
        with pytest.raises(InvalidArchiveError, match="more than 100 times the"):
            npz.read_arrays(path)
        assert tracemalloc.get_traced_memory()[1] < max_mib * 2**20
    finally:
        tracemalloc.stop()


def test_bomb_of_many_small_arrays_is_refused(tmp_path):
    size = 10 * 2**20
    whole = b"".join([header_of((size // 4,)), *zeros(size)])
    path = archive(tmp_path / "a.npz", [(f"{i}.npy", whole) for i in range(10)])
    with pytest.raises(InvalidArchiveError, match="more than 100 times the"):
        npz.read_headers(path)


OBJECTS = io.BytesIO()
np.save(OBJECTS, np.array([None, {}], object), allow_pickle=True)


@pytest.mark.parametrize(
    "data",
    [
        OBJECTS.getvalue(),
        header_of((2,), "<U4") + bytes(32),
        header_of((-2,)) + bytes(8),
        b"",
        b"\x93NUMPY\x03\x00" + bytes(100),
        b"\x93NUMPY\x01\x00" + (60_000).to_bytes(2, "little") + b"(" * 60_000,
        b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"[" * 9000,
        b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"-" * 9000,
        header_of((2,)).replace(b"(2,)", b"2.5 ") + bytes(8),
        header_of((2,)) + bytes(7),
    ],
    ids=[
        *("objects", "text", "negative", "empty", "version", "parentheses", "deep", "minus"),
        *("no-tuple", "short"),
    ],
)
def test_invalid_member(data, tmp_path):
    path = archive(tmp_path / "a.npz", [("a.npy", data)])
    with pytest.raises(InvalidArchiveError) as caught:
        npz.read_arrays(path)
    assert str(caught.value).isprintable()


def test_other_members_and_names(tmp_path):
    with pytest.raises(InvalidArchiveError, match=r"'\\x1b\[31m' is not an array that"):
        npz.read_headers(archive(tmp_path / "a.npz", [("\x1b[31m", b"")]))
    path = tmp_path / "b.npz"
    np.savez(path, a=np.zeros(1))
    with pytest.raises(InvalidArchiveError, match="no array 'b'"):
        npz.read_arrays(path, ["b"])
    with pytest.raises(FileNotFoundError):
        npz.read_headers(tmp_path / "c.npz")


@given(st.data())
@examples(300)
def test_damaged_archives(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("npz") / "a.npz"
    np.savez(path, **ARRAYS)
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    with contextlib.suppress(InvalidArchiveError):
        npz.read_arrays(path)
