"""libcifg at its limits: callers, callbacks, locales, files and little memory."""

import ctypes
import hashlib
import itertools
import json
import shutil
import subprocess
from unittest import mock

import numpy as np
import pytest

from libcifg.tests import vectors
from tff_keyboard.storage.errors import ExportError
from tff_keyboard_lab.benchmarks.phone import libcifg
from tflite_export.runtime.libcifg import _NFKC, Libcifg

pytestmark = pytest.mark.skipif(not libcifg.compiler(), reason="no C++ compiler")

COMPOSED = "caf\u00e9 cafe\u0301"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return libcifg.make("libcifg.so", tmp_path_factory.mktemp("native"))


@pytest.fixture
def native(library):
    keyboard = libcifg.NativeKeyboard(library, vectors.MODEL)
    yield keyboard
    keyboard.close()


def compiled(folder, source, *options):
    program = folder / "program"
    (folder / "program.cc").write_text(source)
    command = ["g++", "-std=c++17", folder / "program.cc", "-o", program, *options]
    subprocess.run(command, check=True)
    return program


@pytest.mark.parametrize("count", [0, -1, -(2**31)])
def test_a_count_below_one_gives_no_words_and_writes_none(native, count):
    untouched = (libcifg._Suggestion * 1)((b"as it was", 7.0))
    for out in (untouched, None):
        prefix = ctypes.c_char_p()
        assert native._call("strip", b"see you t", count, out, ctypes.byref(prefix)) == 0
        assert prefix.value == b"t"
        assert native._call("predict", b"see\nyou", b"t", count, out) == 0
    assert (untouched[0].word, untouched[0].probability) == (b"as it was", 7.0)


class TestNfkc:
    """A callback that returns an invalid result leaves the text unchanged."""

    @pytest.mark.parametrize("answer", [-(2**63), -1, 0, 2**63 - 1, 1 << 40])
    def test_of_another_size(self, native, answer):
        callback = _NFKC(lambda *_: answer)
        native._call("set_nfkc", callback, None)
        assert native.strip_for(COMPOSED)[0] == "cafe\u0301"
        assert native.tokens(COMPOSED) == COMPOSED.split()

    def test_of_nothing_but_spaces(self, native):
        def space(user, text, size, out, capacity):
            ctypes.memmove(out, b" ", 1)
            return 1

        callback = _NFKC(space)
        native._call("set_nfkc", callback, None)
        assert native.strip_for("\u00e9")[0] == ""
        assert native.tokens("\u00e9") == []


def test_numbers_are_those_of_the_c_locale(tmp_path):
    """Numbers match bit by bit, without functions that read a decimal comma in German."""
    source = f"""
    #include <cstdio>
    #include <iostream>
    #include "{libcifg.SOURCE}/cifg/json.h"
    int main() {{
      for (std::string line; std::getline(std::cin, line);) {{
        const double value = cifg::nearest_double(line);
        std::fwrite(&value, sizeof value, 1, stdout);
      }}
    }}"""
    random = np.random.default_rng(0)
    any_double = [float(x) for x in random.integers(0, 2**63, 20_000).view(np.float64)]
    texts = ["0", "-0", "-0.0e7", "0e999", "1e999", "-1e999", "1e-999", "9007199254740993", "0.02"]
    texts += ["4.9e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "1e23", "1e+22"]
    texts += ["2.2250738585072011e-308", "1.7976931348623158e308", "1.7976931348623159e308"]
    texts += [repr(x) for x in any_double if np.isfinite(x)]
    texts += [f"{x:.{x % 1 * 30:.0f}e}" for x in random.normal(0, 1e5, 2_000).tolist()]
    for low in (1 + random.random(2_000)).tolist():  # halfway between two doubles: to the even one
        half = (int(low * 2**52) * 2 + 1) * 5**53
        texts += [f"{half}e-53", f"{half}1e-54", f"-{half - 1}e-53"]
    for digits in random.integers(1, 390, 1_000):
        digits = "".join(str(d) for d in random.integers(0, 10, digits)).lstrip("0") + "0"
        texts.append(f"{digits[0]}.{digits}e{random.integers(-330, 310)}")
    program = compiled(tmp_path, source)
    lines = "\n".join(texts).encode()
    done = subprocess.run([program], input=lines, capture_output=True, check=True)
    found = np.frombuffer(done.stdout, np.float64)
    wanted = np.array([float(text) for text in texts])
    differ = np.flatnonzero(found.view(np.int64) != wanted.view(np.int64))
    assert not [texts[i] for i in differ]


@pytest.mark.skipif(not shutil.which("nm"), reason="no nm")
def test_nothing_in_it_follows_the_locale(library):
    command = ["nm", "-D", "--undefined-only", library]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "malloc" in names or "_Znwm" in names
    for reader in ("strto", "scanf", "localeconv", "isspace", "tolower", "wctype"):
        assert reader not in names


def test_too_little_memory_is_an_error(library, tmp_path):
    """Memory runs out at any point while the model is opened."""
    source = f"""
    #include <sys/resource.h>
    #include <cstdio>
    #include <cstdlib>
    #include "{libcifg.SOURCE}/cifg.h"
    int main(int, char** argv) {{
      const rlimit limit = {{std::strtoul(argv[2], nullptr, 10), RLIM_INFINITY}};
      setrlimit(RLIMIT_AS, &limit);
      char error[300] = "opened";
      cifg_close(cifg_open(argv[1], error, sizeof error));
      std::puts(error);
    }}"""
    program = compiled(tmp_path, source, library, f"-Wl,-rpath,{library.parent}")
    answers = []
    for megabytes in np.arange(1, 40, 0.75):
        limit = str(int(megabytes * 2**20))
        done = subprocess.run(
            [program, vectors.MODEL, limit], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        answers.append(done.stdout.strip())
    assert set(answers) == {"there is not enough memory", "opened"}


def test_a_word_that_is_not_utf8_is_a_gap(native):
    bad = b"so\ncaf\xe9\nthere"
    native._checked("learn", bad, bad)
    cache = native.cache()
    native.set_cache(cache)
    assert sorted(json.loads(cache.split(b"\n")[1])["uses"]) == ["so", "there"]


def test_a_floor_below_the_smallest_count_is_refused(native):
    fields = '"half_life":1,"kept":[],"pairs":{},"uses":{},"words":{}'
    for floor, is_good in (
        (2**-20, True),
        (9e-7, False),
        (1e-300, False),
        (0.99, True),
        (1, False),
    ):
        data = f'tff-keyboard word cache 2\n{{"floor":{floor},{fields}}}\n'.encode()
        if is_good:
            native.set_cache(data)
            for _ in range(30):
                native.learn(["so", "there"])
            native.set_cache(native.cache())
        else:
            with pytest.raises(ValueError, match="floor is out of range"):
                native.set_cache(data)


def test_a_sum_above_the_largest_number_is_out_of_range(native):
    """A sum that wraps would be undefined behaviour."""
    largest = 9_000_000_000_000_000
    letters = [[letter.lower(), letter.upper()] for letter in "abcdefghijk"]
    forms = {"".join(form): largest for form in itertools.product(*letters)}
    word = "abcdefghijk"
    fields = {
        **{"floor": 0.01, "forms": {word: forms}, "half_life": 1000, "kept": [], "pairs": {}},
        **{"uses": {word: largest}, "words": {word: largest}},
    }
    with pytest.raises(ValueError, match="out of range"):
        native.set_cache(b"tff-keyboard word cache 2\n" + json.dumps(fields).encode() + b"\n")


def test_an_id_of_no_word_is_an_error(native):
    for word in (-1, 0, 3, native.sizes.vocabulary):
        assert native._call("word_of", word) is None
        assert native._call("error") == b"the id is no word's"
    assert native._call("word_of", 4)
    assert native._call("error") == b""


def test_orders_of_an_ngram_are_bounded_together(library, tmp_path):
    """Each order with 2^23 rows is accepted alone, but all of them together are not."""
    for path in vectors.MODEL.parent.glob("keyboard.*"):
        shutil.copy(path, tmp_path)
    path = tmp_path / "keyboard.ngram"
    first, line, rest = path.read_bytes()[:-32].split(b"\n", 2)
    header = json.loads(line)
    header["rows"] = [2**23 + 1 for _ in header["rows"]]
    data = b"\n".join([first, json.dumps(header).encode(), rest])
    data += hashlib.sha256(data).digest()
    path.write_bytes(data)
    manifest = json.loads(path.with_suffix(".json").read_text())
    manifest["ngram"]["sha256"] = hashlib.sha256(data).hexdigest()
    path.with_suffix(".json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="n-gram: it has too many n-grams"):
        libcifg.NativeKeyboard(library, tmp_path / "keyboard.tflite")


def test_an_error_that_is_cut_within_a_letter_is_still_one(monkeypatch):
    library = mock.MagicMock()
    library.cifg_open_files.side_effect = library.cifg_open.side_effect = (
        lambda given, error, size: setattr(error, "value", "no caf\u00e9".encode()[:-1])
    )
    monkeypatch.setattr(ctypes, "CDLL", lambda path: library)
    with pytest.raises(ExportError, match="no caf\ufffd"):
        Libcifg("libcifg.so", vectors.MODEL)


def test_fast_math_is_refused(tmp_path):
    command = ["g++", "-std=c++17", "-ffast-math", "-fsyntax-only", libcifg.SOURCE / "cifg.cc"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "-ffast-math would change strips" in done.stderr
