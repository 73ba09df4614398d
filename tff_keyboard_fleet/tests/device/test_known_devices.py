import pytest

from tff_keyboard.storage.errors import UsageError
from tff_keyboard_fleet.device import known_devices


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_key_is_a_line(end, tmp_path):
    (tmp_path / "known").write_bytes(f"{'ab' * 32}\n{'CD' * 32}{end}".encode())
    assert known_devices.read(tmp_path / "known") == {b"\xab" * 32, b"\xcd" * 32}


@pytest.mark.parametrize("line", [b"", b"ab" * 31, b"ab" * 33, b"ab " * 32, b"xy" * 32, b"\xff"])
def test_invalid_key_line_is_named(line, tmp_path):
    path = tmp_path / "known"
    path.write_bytes(b"ab" * 32 + b"\n" + line + b"\n")
    with pytest.raises(UsageError, match="known, line 2: must be a public key") as it:
        known_devices.read(path)
    assert "\n" not in str(it.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match=r"known: cannot be read \(No such file"):
        known_devices.read(tmp_path / "known")
