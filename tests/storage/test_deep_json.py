"""Deep nesting and long numbers in every file of the core: one line, and never a traceback."""

import hashlib
import pathlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.damage import DEEP_JSON
from tests.support.fakes import ledger_header
from tff_keyboard.config import config_file
from tff_keyboard.data.sources import json_documents
from tff_keyboard.data.store import store_card
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary
from tff_keyboard.evaluation.results.result import Evaluation, read_json
from tff_keyboard.predictors.ngram import ngram_file
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger, read_ledger
from tff_keyboard.storage import files, metrics_rows
from tff_keyboard.storage.errors import UserError
from tff_keyboard.storage.model_description import read_description
from tff_keyboard.storage.run_directory import RunDirectory
from tflite_export.export.trained_run import TrainedRun
from tflite_export.format import manifest_content, signing, tail_file, vocabulary_file

WORDS = Vocabulary.from_counts({"tea": 3, "cup": 2}, size=6, rules=NormalisationRules())


def put(folder, name, data):
    (folder / name).write_bytes(data)
    return folder / name


def ledger(folder, data):
    PrivacyLedger(folder / "privacy_ledger.jsonl", ledger_header())
    with (folder / "privacy_ledger.jsonl").open("ab") as file:
        file.write(data + b"\n")
    read_ledger(folder / "privacy_ledger.jsonl")


def vocabulary(folder, data):
    lines = WORDS.to_bytes().split(b"\n")
    lines[1] = b"# rules: " + data
    Vocabulary.load(put(folder, "vocabulary.txt", b"\n".join(lines)))


def ngram(folder, data):
    content = ngram_file.FORMAT + b"\n" + data + b"\n"
    ngram_file.decode(content + hashlib.sha256(content).digest())


def checksummed(form, data):
    body = data + b"\n"
    return b"\n".join([form, hashlib.sha256(body).hexdigest().encode(), body])


def signature(folder, data):
    key = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()
    signing.check_signature(b"{}", data, key, "k.sig")


def facts_of_run(folder, data):
    put(folder, "evaluation_held_out.json", data)
    TrainedRun(folder, None, WORDS).facts()


def toml(data):
    return b"a = " + data.partition(b":")[2] if b":" in data else b"a = " + data


READERS = {
    "model.json": lambda d, x: read_description(put(d, "model.json", x).parent),
    "data_card.json": lambda d, x: store_card.read_card(put(d, "data_card.json", x).parent),
    "run's data_card.json": lambda d, x: RunDirectory(
        put(d, "data_card.json", x).parent
    ).data_card(),
    "environment.json": lambda d, x: RunDirectory(
        put(d, "environment.json", x).parent
    ).environment(),
    "metrics.jsonl": lambda d, x: metrics_rows.read_rows(put(d, "metrics.jsonl", x + b"\n")),
    "privacy_ledger.jsonl": ledger,
    "evaluation": lambda d, x: read_json(put(d, "e.json", x), Evaluation.from_json, "evaluate"),
    "evaluation of an exported run": facts_of_run,
    "any file of a run": lambda d, x: files.read_json(put(d, "a.json", x)),
    "vocabulary.txt": vocabulary,
    ".ngram": ngram,
    ".vocabulary": lambda d, x: vocabulary_file.decode(checksummed(vocabulary_file.FORMAT, x)),
    ".tail": lambda d, x: tail_file.decode(checksummed(tail_file.FORMAT, x), WORDS),
    "manifest": lambda d, x: manifest_content.parse(x, pathlib.Path("k.json")),
    "signature": signature,
    "chat export": lambda d, x: json_documents.read_json(put(d, "chat.json", x)),
    "config.toml": lambda d, x: config_file.load(put(d, "c.toml", toml(x))),
    "config.toml of a run": lambda d, x: config_file.load_of_run(put(d, "c.toml", toml(x))),
    "run's config.toml": lambda d, x: RunDirectory(
        put(d, "config.toml", toml(x)).parent
    ).config_text(),
    "--set": lambda d, x: config_file.loads("", ["train.seed=" + x.decode()]),
}


@pytest.mark.parametrize("kind", DEEP_JSON)
@pytest.mark.parametrize("name", READERS)
def test_is_one_line(name, kind, tmp_path):
    with pytest.raises(UserError) as caught:
        READERS[name](tmp_path, DEEP_JSON[kind])
    assert "\n" not in str(caught.value)
    if name != "--set":  # an error names the override as the user wrote it
        assert len(str(caught.value)) < 500 + len(str(tmp_path))
