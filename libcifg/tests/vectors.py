"""Test vectors for ports of the keyboard: what is typed, and what must come of it.

    python -m libcifg.tests.vectors > libcifg/vectors.json

All is public text, made up here; strips are of `models/messages`.
"""

import json
import pathlib
from collections.abc import Callable, Iterable, Iterator

from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.vocabulary import NormalisationRules
from tff_keyboard.predictors.hybrid.word_cache import may_be_learnt
from tflite_export.runtime.hybrid_keyboard import open_keyboard

ROOT = pathlib.Path(__file__).parents[2]
FILE = ROOT / "libcifg" / "vectors.json"
MODEL = ROOT / "models" / "messages" / "keyboard.tflite"

RULES = {
    "tokens, words, lower case": NormalisationRules(),
    "tokens, words": NormalisationRules(lowercase=False),
    "tokens, whitespace, lower case": NormalisationRules(mode="whitespace"),
    "tokens, whitespace": NormalisationRules(mode="whitespace", lowercase=False),
    "tokens, words, lower case, Turkish": NormalisationRules(language="tr"),
}
TEXTS = (
    "",
    "I'll call U at 7:30!",
    "See u @ 7:30, it\u2019s GR8 \U0001f602 <TIME>!",
    "well-known, eh? don`t 'quote' rock-'n'-roll --dash",
    "1,000.50 1.2.3 3.x 12.5abc 7:30pm 24/7 2nd #tag @you a_b",
    "HTTP://Example.COM/x?y=1 www.a.b, https:// www. http://",
    "<#> <URL> <a b> <> <averylongmaskthatisn_ot_x> <3",
    "caf\u00e9 cafe\u0301 \ufb01ne \uff21\uff22 \u2460 \u00bd \u2026 x\u00b2",
    "STRASSE Stra\u00dfe \u0130stanbul \u03a3\u038a\u03a3\u03a5\u03a6\u039f\u03a3 \u01c5 \u1e9e",
    "\U0001f44d\U0001f3fd\U0001f469\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f",
    "\U0001f1e9\U0001f1ea\U0001f1eb \uac00\ub098 \u6f22\u5b57 \u0663\u0664",
    "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u0915\u094d\u200d\u0937",
    "tab\tline\nbell\x07nbsp\xa0zwsp\u200bend",
)
TYPED = (
    "",
    "S",
    "See you ",
    "see you t",
    "I'll be the",
    "are you com",
    "i am on my w",
    "well-",
    "call me at 7:",
    "what are you doing tonight? ",
    "thank you so much for the pr",
    "qzx",
    "www.exam",
    "please please please please " * 25,
)
LEARNT = (
    ["see", "you", "at", "johann's"],
    ["johann's", "car", "", "is", "nice"],
    ["meet", "me", "at", "johann's", "7:30"],
)
AFTER_LEARNING = ("", "see you at ", "at jo", "johann's ")
LEARNABLE = ("johann", "covid-19", "7:30", "hunter_2", "x\u00b2", "\u4e00\u4e8c", "\u4e00\u5929")


def vectors() -> dict[str, list[dict[str, object]]]:
    """Returns all vectors, by subject."""
    tokenizers = {name: PythonTokenizer(rules) for name, rules in RULES.items()}
    found: dict[str, list[dict[str, object]]] = {
        name: [{"text": text, "tokens": tokenizer.tokenize_one(text)} for text in TEXTS]
        for name, tokenizer in tokenizers.items()
    }
    found["learnable"] = [{"word": word, "learnable": may_be_learnt(word)} for word in LEARNABLE]
    keyboard = open_keyboard(MODEL)
    found["context and prefix"] = []
    for text in TYPED:
        context, prefix = keyboard.context_and_prefix(text)
        found["context and prefix"].append({"text": text, "context": context, "prefix": prefix})
    found["network alone"] = list(_strips(TYPED, keyboard.network.strip_for))
    found["strips"] = list(_strips(TYPED, keyboard.strip_for))
    for message in LEARNT:
        keyboard.learn([word or None for word in message])
    found["learnt"] = [{"message": message} for message in LEARNT]
    found["strips after learning"] = list(_strips(AFTER_LEARNING, keyboard.strip_for))
    return found


def _strips(texts: Iterable[str], strip_for: Callable) -> Iterator[dict[str, object]]:
    for text in texts:
        strip = strip_for(text).suggestions
        yield {"text": text, "strip": [[word, float(f"{p:.4g}")] for word, p in strip]}


def main() -> None:
    """Prints JSON, one vector a line."""
    parts = []
    for name, cases in vectors().items():
        lines = ",\n".join("  " + json.dumps(case) for case in cases)
        parts.append(f"{json.dumps(name)}: [\n{lines}\n]")
    print("{\n" + ",\n".join(parts) + "\n}")


if __name__ == "__main__":
    main()
