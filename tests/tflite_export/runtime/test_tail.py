"""Exports with a lexicon: files, strips, corrections, errors."""

import json

import numpy as np
import pytest

from tests.support.keyboard import export_fakes, hybrid_export
from tests.support.keyboard.export_fakes import export
from tff_keyboard.data.vocabulary import OOV
from tff_keyboard.predictors.tail_lexicon import TailLexicon
from tff_keyboard.storage.errors import ExportError
from tflite_export.export.export_options import ExportOptions
from tflite_export.export.tail_part import TailPart
from tflite_export.format import manifest, tail_file
from tflite_export.format.manifest_content import TailFacts
from tflite_export.gate import verification
from tflite_export.runtime.hybrid_keyboard import HybridKeyboardPredictor, open_keyboard
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

WORDS = ("quilt", "quince", "quinces", "tommorrow", "zebra")
LEXICON = TailLexicon(WORDS, np.array([0.1, 0.2, 0.05, 1e-6, 0.1]))


def part():
    data = tail_file.encode(LEXICON)
    facts = TailFacts(
        words=len(LEXICON),
        counted_on="9 clients of 'train'",
        word_list=None,
        bytes=len(data),
        sha256=manifest.sha256(data),
    )
    return TailPart(data, facts)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return export_fakes.save_run(tmp_path_factory.mktemp("tail") / "run")


@pytest.fixture(scope="module", params=["network", "hybrid", "packed"])
def keyboard(request, run, tmp_path_factory):
    ngram = hybrid_export.part() if request.param != "network" else None
    options = ExportOptions(pack=request.param == "packed")
    out = tmp_path_factory.mktemp(request.param) / "k.tflite"
    found = open_keyboard(export(run, out, options, ngram=ngram, tail=part()).paths.model)
    assert isinstance(found, KeyboardPredictor if ngram is None else HybridKeyboardPredictor)
    return found


def test_completions_share_what_is_unknown(keyboard):
    for context in ([], ["see"], ["are", "you"]):
        unknown = float(keyboard.next_word(context)[OOV])
        found = keyboard.suggest(context, "qui", 3)
        assert [word for word, _ in found] == ["quince", "quilt", "quinces"]
        for word, probability in found:
            assert probability == pytest.approx(unknown * keyboard.tail.share_of(word), rel=1e-5)
        assert not set(WORDS) & set(dict(keyboard.suggest(context, "", 20)))
        assert keyboard.suggest(context, "quilts", 3) == []


def test_the_network_alone_has_none(keyboard):
    alone = KeyboardPredictor(keyboard.network.path)
    assert alone.suggest(["see"], "qui", 3) == []


def test_files_facts_and_checks(run, tmp_path):
    path = export(run, tmp_path / "k.tflite", ExportOptions(), tail=part()).paths.model
    content = json.loads(path.with_suffix(".json").read_text())
    size = path.with_suffix(".tail").stat().st_size
    assert content["tail"]["bytes"] == size
    assert content["tail"].keys() == {"words", "counted_on", "word_list", "bytes", "sha256"}
    sizes = content["bytes"]
    assert sizes["with_ngram"] == sizes["network_and_vocabulary"] + size
    assert "9 clients of 'train'" in path.with_suffix(".card.md").read_text()
    assert "lexicon: matches the manifest" in verification.verify(path, None)
    damaged = bytearray(path.with_suffix(".tail").read_bytes())
    damaged[-1] ^= 1
    path.with_suffix(".tail").write_bytes(damaged)
    for check in (open_keyboard, lambda path: verification.verify(path, None)):
        with pytest.raises(ExportError, match="does not match its manifest"):
            check(path)
    path.with_suffix(".tail").unlink()
    with pytest.raises(ExportError, match="cannot be read"):
        open_keyboard(path)
