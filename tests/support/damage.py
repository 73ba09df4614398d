"""Files as damage and malice leave them, for tests of readers."""

import copy
import json
import math
import struct

from hypothesis import strategies as st

from tff_keyboard.storage.errors import UserError

_NUMBERS = [0, 1, 127, 128, 255, 65_535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1]
_WORDS = [b"null", b"1e999", b"-1", b"[[[[", b"NaN", b"true", b'""', b"(", b"\n", b"\xff"]
DEEP_JSON = {
    "unclosed": b"[" * 100_000,
    "unclosed objects": b'{"a":' * 50_000,
    "for a recursive reader": b'{"a":' + b"[" * 400 + b"]" * 400 + b"}",
    "long number": b'{"a":' + b"9" * 5000 + b"}",
    "number beyond a float": b'{"a":' + b"9" * 400 + b"}",
}
_WORDS += [b"[" * 2000, b'{"":' * 2000, b"[" * 120 + b"]" * 120, b"9" * 400, b"9" * 5000]
ESCAPES = "\x1b[31mX\x1b]0;t\x07\x9b2J\r\n\nerror: fake\u202e\u2066\u2028\x85"
_WORDS += [ESCAPES.encode()]


def _nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


_PIECES = st.one_of(
    st.binary(min_size=1, max_size=8),
    st.sampled_from(_WORDS),
    st.sampled_from([struct.pack("<Q", number) for number in _NUMBERS]),
    st.sampled_from([struct.pack("<I", number % 2**32) for number in _NUMBERS]),
)
_EDITS = st.lists(
    st.tuples(
        st.sampled_from(["write", "insert", "delete", "cut"]),
        st.floats(0, 1, exclude_max=True),
        _PIECES,
    ),
    min_size=1,
    max_size=4,
)
_VALUES = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1,
        2**31,
        2**62,
        10**18,
        1e308,
        -0.5,
        math.nan,
        "",
        " ",
        "x" * 9999,
        "\ud800",
        "../../etc/passwd",
        [],
        {},
        [[]],
        [1] * 5,
        {"a": 1},
        _nested(120),
        10**400,
        ESCAPES,
    ]
)


def _edited(data, edits):
    data = bytearray(data)
    for kind, share, piece in edits:
        position = int(share * len(data))
        if kind == "write":
            data[position : position + len(piece)] = piece
        elif kind == "insert":
            data[position:position] = piece
        elif kind == "delete":
            del data[position : position + 4 ** len(piece)]
        else:
            del data[position:]
    return bytes(data)


def random_damage(data, rng):
    """Returns the bytes with one to four random edits, drawn from a `random.Random`."""
    edits = []
    for _ in range(rng.randint(1, 4)):
        number = rng.choice(_NUMBERS)
        pieces = [
            rng.randbytes(rng.randint(1, 8)),
            rng.choice(_WORDS),
            struct.pack("<Q", number),
            struct.pack("<I", number % 2**32),
        ]
        kind = rng.choices(["write", "insert", "delete", "cut"], [6, 6, 4, 1])[0]
        edits.append((kind, rng.random(), rng.choice(pieces)))
    return _edited(data, edits)


def damaged(data):
    """Strategy: the bytes with a few of them changed, added or gone."""
    return _EDITS.map(lambda edits: _edited(data, edits))


def damaged_json(content):
    """Strategy: the bytes of a JSON object of which one or two values are others, or gone."""
    paths = list(_paths(content))

    def edit(changes):
        found = json.loads(json.dumps(content))
        for path, value in changes:
            _set(found, path, value)
        return json.dumps(found).encode()

    change = st.tuples(st.sampled_from(paths), st.one_of(_VALUES, st.just(_set)))
    return st.lists(change, min_size=1, max_size=2).map(edit)


def _paths(content, path=()):
    if path:
        yield path
    items = content.items() if isinstance(content, dict) else ()
    for key, value in items:
        yield from _paths(value, (*path, key))


def _set(content, path, value):
    """Sets what stands at a path, or removes it for a value that is this function."""
    for key in path[:-1]:
        content = content.get(key) if isinstance(content, dict) else None
    if not isinstance(content, dict):
        return  # an earlier change took it
    if value is _set:
        content.pop(path[-1], None)
    else:
        content[path[-1]] = copy.deepcopy(value)  # a drawn object may be put into itself


def is_one_line(read):
    """Whether a reader takes what there is, or says in one line what is wrong; all else raises."""
    try:
        read()
    except UserError as error:
        return "\n" not in str(error) and 0 < len(str(error)) < 1000
    return True
