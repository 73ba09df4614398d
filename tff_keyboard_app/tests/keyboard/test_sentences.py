import itertools
import json
import pathlib
import shutil
import subprocess

import hypothesis
import pytest
from hypothesis import strategies as st

from tff_keyboard_app.keyboard import server
from tff_keyboard_app.keyboard.sentences import ABBREVIATIONS, sentence_of, sentences_of


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", ""),
        ("see you", "see you"),
        ("Ok. see", "see"),
        ("Ok.see", "Ok.see"),
        ("Really?! yes", "yes"),
        ('He said "go." then', "then"),
        ("(Yes!) then", "then"),
        ("one\ntwo", "two"),
        ("a. b! c? d", "d"),
        ("ok... see", "ok... see"),
        ("ok… see", "ok… see"),
        ("ok.. see", "ok.. see"),
        ("at 7.30 in", "at 7.30 in"),
        ("Ok. ", ""),
        ("¿", ""),
        ("Hola. ¿Qu", "Qu"),
        ("¡¿ Qu", "Qu"),
        ("hola, ¿qu", "hola, ¿qu"),
        ("Ok.", "Ok."),  # it may become a number or a name yet
    ],
)
def test_where_a_sentence_begins(text, sentence):
    assert sentence_of(text) == sentence


@pytest.mark.parametrize("abbreviation", ABBREVIATIONS)
def test_abbreviation_does_not_end_a_sentence(abbreviation):
    text = f"Ok. Pens {abbreviation}. and {abbreviation.capitalize()}. (paper {abbreviation}.) a"
    assert sentences_of(text) == ["Ok.", text[4:]]
    assert sentence_of(f"Ok. Pens {abbreviation}.\nand") == "and"
    assert sentence_of(f"a{abbreviation}. and") == "and"  # the end of another word


STARTS = """
globalThis.document = { getElementById: () => ({}) };
const field = await import(process.argv[1]);
const isStart = (text) => {
  Object.assign(field.textarea, { value: text, selectionStart: text.length });
  return field.isSentenceStart();
};
console.log(JSON.stringify(JSON.parse(process.argv[2]).map(isStart)));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_page_has_the_same_rule_for_its_shift_key(tmp_path):
    ends = itertools.product(["", "ok", "\u00bf"], *[["", *'.!?\u2026")\n ']] * 3, ["", " ", "\n"])
    texts = sorted({"".join(parts) for parts in ends})
    texts += [
        f"{x}{word}. " for word in ABBREVIATIONS for x in ("", "A ", "a", "\u00e4", "1", ".", "(")
    ]
    texts += [f"{word.upper()}.){end}" for word in ABBREVIATIONS for end in " \n"]
    module = shutil.copy(pathlib.Path(server.__file__).parent / "page/field.js", tmp_path / "f.mjs")
    command = ["node", "--input-type=module", "-e", STARTS, str(module), json.dumps(texts)]
    starts = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert dict(zip(texts, starts, strict=True)) == {text: not sentence_of(text) for text in texts}


@hypothesis.given(st.text(max_size=60))
def test_a_sentence_is_the_end_of_the_text(text):
    sentence = sentence_of(text)
    assert text.endswith(sentence)
    assert not sentence[:1].isspace()


def test_the_time_does_not_grow_with_the_text():
    assert sentence_of("a. b " * 1_000_000).startswith("b")
