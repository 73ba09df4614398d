"""Builds the shipped general model of a language: network, n-gram, lexicon and initial weights.

    python -m tff_keyboard_lab.tools.base_model de --out=models/base_de

runs `prepare`, `train-server`, `evaluate`, `export`, `tools/respell.py` and `tools/unmark.py`, and
writes into `--out`

    keyboard.*   the exported keyboard; it can be trained on a device
    model/       weights for `model.initial_model`, rounded to save space

English is trained in two parts, by configs/base_general.toml and configs/reference/base.toml, and
every other language by configs/language.toml. Sentences of Tatoeba about "Tom" and "Mary" are left
out, because a fifth of the German ones are about them, and no keyboard should suggest "Tom" first.
A stopped build continues when the same command runs again.

Needs the package wordfreq and `hunspell` with the dictionaries of the language (Debian:
hunspell-de-de, hunspell-es, hunspell-nl, hunspell-pt-br, hunspell-pt-pt, hunspell-tr).
"""

import argparse
import dataclasses
import gzip
import io
import os
import pathlib
import re
import subprocess
import zipfile
from collections.abc import Mapping, Sequence

import numpy as np

from tff_keyboard.command_line import commands
from tff_keyboard.host import children
from tff_keyboard.models import saved_model
from tff_keyboard.storage import files, json_text, names, npz

_STEPS = 127  # on either side of zero
_TATOEBA = "Common Voice (CC0), Tatoeba (CC BY 2.0 FR)"
_EXAMPLE_NAMES = ("Tom", "Mary", "Maria")  # in sentences of Tatoeba
_WEIGHTS = (
    "model: Apache 2.0; keyboard.tail: CC BY-SA 4.0, of wordfreq; credits and share-alike: "
    "models/NOTICE; text: "
)


@dataclasses.dataclass(frozen=True)
class Source:
    """Facts that the build of a language needs.

    Attributes:
      dictionaries: Names of hunspell's dictionaries. A word is right if one of them accepts it.
      text: Names and licences of the corpora, for the model card.
      passes: Passes over the training text. None: `train.rounds` of the config.
      without_names: Sentences with one of these words are left out.
      configs: The parts of the training. Each part starts from the model of the part before.
    """

    dictionaries: tuple[str, ...]
    text: str = _TATOEBA
    passes: float | None = 8.0
    without_names: tuple[str, ...] = ()
    configs: tuple[str, ...] = ("configs/language.toml",)


SOURCES = {
    "en": Source(
        ("en_US", "en_GB"),
        "BYU chit-chat (MIT), GoEmotions (CC BY 4.0), self-dialogue (BSD 3-Clause), freeCodeCamp "
        "Gitter (BSD 3-Clause), Ubuntu IRC (CC BY 4.0), DuraSpace IRC (CC BY 4.0), Topical-Chat "
        "(CDLA-Sharing 1.0), UD English EWT (CC BY-SA 4.0), CaSiNo (CC BY 4.0), Tatoeba (CC BY "
        "2.0 FR), Common Voice (CC0)",
        passes=None,
        configs=("configs/base_general.toml", "configs/reference/base.toml"),
    ),
    "de": Source(("de_DE",), without_names=_EXAMPLE_NAMES),
    "es": Source(
        ("es_ES", "es_MX", "es_AR", "en_US"),
        f"{_TATOEBA}, UD Spanish (CC BY-SA 4.0)",
        without_names=_EXAMPLE_NAMES,
    ),
    "nl": Source(("nl_NL", "en_US"), without_names=_EXAMPLE_NAMES),
    "pt": Source(("pt_BR", "pt_PT", "en_US"), "Common Voice (CC0)", passes=16.0),
    "tr": Source(("tr_TR",), "Common Voice (CC0), UD Turkish (CC BY-SA 4.0)", passes=16.0),
}


def rounded(value: np.ndarray) -> np.ndarray:
    """Rounds each row to at most 255 values, multiples of a power of two.

    They compress to a third of the size of float32. The error is at most 1/127 of the largest
    value of the row.

    Args:
      value: [..., columns] float32. An array of one dimension stays as it is.
    """
    if value.ndim < 2:
        return value
    largest = np.abs(value).max(axis=-1, keepdims=True)
    steps = np.exp2(np.ceil(np.log2(np.maximum(largest, np.finfo(np.float32).tiny) / _STEPS)))
    result: np.ndarray = (np.round(value / steps) * steps).astype(np.float32)
    return result


def compressed(weights: Mapping[str, np.ndarray]) -> bytes:
    """Returns an archive that `np.load` reads, compressed by LZMA."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_LZMA) as target:
        for name, value in weights.items():
            data = io.BytesIO()
            np.save(data, value)
            # The date is fixed, so that equal weights give equal bytes.
            target.writestr(zipfile.ZipInfo(f"{name}.npy"), data.getvalue(), zipfile.ZIP_LZMA)
    return archive.getvalue()


def write_initial_model(run: pathlib.Path, out: pathlib.Path) -> None:
    """Writes the model of a run as `out`, with rounded weights."""
    saved = run / names.MODEL
    arrays = npz.read_arrays(saved / names.WEIGHTS)
    weights = compressed({name: rounded(value) for name, value in arrays.items()})
    description = json_text.parse((saved / names.MODEL_DESCRIPTION).read_bytes())
    saved_model.write_files(out, description, weights, (saved / names.VOCABULARY).read_bytes())


def write_frequencies(language: str, out: pathlib.Path) -> None:
    """Writes `word<TAB>frequency` for the words that the package wordfreq has."""
    try:
        import wordfreq
    except ImportError:
        raise SystemExit(
            "The package wordfreq is missing. Run `uv pip install wordfreq==3.1.1`, or pass its "
            "words as --frequencies=FILE."
        ) from None
    frequencies = wordfreq.get_frequency_dict(language, wordlist="best")
    files.make_directory(out.parent)
    files.write_atomically(
        out, (f"{word}\t{share}\n".encode() for word, share in frequencies.items())
    )


def write_text_without(names: Sequence[str], text: pathlib.Path, out: pathlib.Path) -> None:
    """Writes the lines of a gzipped text that have none of the names as a word.

    Args:
      names: Words, in the capitals of the text.
      text: The text, `client<TAB>sentence`.
      out: The file to write, also gzipped.
    """
    with_name = re.compile(rf"\t(?:.*\W)?(?:{'|'.join(map(re.escape, names))})\b")
    with gzip.open(text, "rt", encoding="utf-8") as source:
        remaining = "".join(line for line in source if not with_name.search(line))
    files.write_atomically(out, [gzip.compress(remaining.encode(), mtime=0)])


def task(*arguments: str) -> None:
    """Runs a command of `tff-keyboard`."""
    run_command([*commands.program(), *arguments])


def run_command(command: Sequence[str]) -> None:
    """Runs a command. Ends this program with its exit code if it fails."""
    print("$ " + " ".join(command), flush=True)
    code = subprocess.run(command, check=False).returncode
    if code:
        raise SystemExit(code)


def text_of(language: str) -> pathlib.Path:
    """Returns the file with the text of a language, `client<TAB>sentence`; English has several."""
    return pathlib.Path(os.path.expandvars(f"$TFF_KEYBOARD_DATA/languages/{language}.tsv.gz"))


def trained(
    config: str,
    language: str,
    source: Source,
    work: pathlib.Path,
    before: pathlib.Path | None,
    seed: int,
) -> pathlib.Path:
    """Trains one part, from the model of the part `before`, and returns its run directory."""
    store, run = work / "store", work / "run"
    if not store.exists():
        settings = [f"--set=data.language={language}"]
        if language != "en":
            text = text_of(language)
            if source.without_names:
                text = work / text.name
                files.make_directory(work)
                write_text_without(source.without_names, text_of(language), text)
            settings.append(f"--set=data.input={text}")
        task("prepare", f"--config={config}", f"--out={store}", *settings)
    options = [f"--set=train.seed={seed}"]
    if before is not None:
        options.append(f"--set=model.initial_model={before}")
    if source.passes:
        options.append(f"--epochs={source.passes}")
    task("train-server", f"--config={config}", f"--store={store}", f"--workdir={run}", *options)
    return run


def build(language: str, out: pathlib.Path, work: pathlib.Path, flags: argparse.Namespace) -> None:
    """Builds the model of a language. Finished steps in `work` are not repeated."""
    source = SOURCES[language]
    frequencies = work / f"{language}.tsv"
    if flags.frequencies is None and not frequencies.exists():
        write_frequencies(language, frequencies)
    listed = flags.frequencies or frequencies
    run: pathlib.Path | None = None
    for config in source.configs:
        run = trained(config, language, source, work / pathlib.Path(config).stem, run, flags.seed)
    assert run is not None
    task("evaluate", str(run))  # for the model card
    out.mkdir(parents=True, exist_ok=True)
    model = out / "keyboard.tflite"
    task(
        "export", str(run), f"--out={model}", "--trainable", f"--ngram={flags.ngram}",
        f"--tail={flags.words}", f"--word-list={listed}", f"--licence={_WEIGHTS}{source.text}",
    )  # fmt: skip
    also = [f"--also={path}" for path in flags.also]
    dictionaries = [f"--dictionary={name}" for name in source.dictionaries]
    respell = children.python_module(
        "tff_keyboard_lab.tools.respell", str(model), f"--language={language}"
    )
    sizes = [f"--frequencies={listed}", f"--words={flags.words}"]
    run_command([*respell, *sizes, *dictionaries, *also])
    if language != "en":  # English has no marks
        unmark = children.python_module("tff_keyboard_lab.tools.unmark", str(model))
        run_command([*unmark, f"--frequencies={listed}", f"--text={text_of(language)}"])
    write_initial_model(run, out / names.MODEL)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("language", choices=SOURCES)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, help="default: data/reference/base_LANGUAGE")
    parser.add_argument("--frequencies", type=pathlib.Path, help="default: the list of wordfreq")
    parser.add_argument("--also", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--words", type=int, default=130_000, help="number of words of the lexicon")
    parser.add_argument("--ngram", default="500kB")
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    work = flags.work or pathlib.Path(f"data/reference/base_{flags.language}")
    build(flags.language, flags.out, work, flags)


if __name__ == "__main__":
    main()
