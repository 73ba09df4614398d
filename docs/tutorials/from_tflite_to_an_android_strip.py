# %% [markdown]
# # From the `.tflite` to an Android strip
#
# This tutorial is for developers of keyboard apps. At the end you have a suggestion strip of your
# own, made with NumPy and LiteRT. It shows the same words as the library's `KeyboardPredictor`. On
# the way you see everything that an app does with an exported model: it reads the vocabulary,
# splits the text into words, runs the model, and fills the strip. The picture at the end shows the
# strip for several texts:
#
#     see you |        [ at ]  [ later ]  [ soon ]

# %%
import bisect
import json
import re
import zlib

import matplotlib.pyplot as plt
import numpy as np

import tff_keyboard as tk

try:
    from ai_edge_litert.interpreter import Interpreter  # LiteRT, as on the phone
except ImportError:
    import tensorflow as tf

    Interpreter = tf.lite.Interpreter

# The library's keyboard, to compare with ours. Use a shipped model or your own export.
reference = tk.runtime.KeyboardPredictor("models/messages/keyboard.tflite")
path = reference.path
manifest = json.loads(path.with_suffix(".json").read_text())
for file in sorted(path.parent.glob("keyboard.*")):
    print(f"{file.name:20} {file.stat().st_size:9,} bytes")
shown = ("name", "quantization", "state_sizes", "training_length")
print({name: manifest["model"][name] for name in shown})
print("special ids:", manifest["special_ids"])
print("text rules: ", manifest["vocabulary"]["rules"])

# %% [markdown]
# ## The tensors
#
# The model file has three functions, called signatures:
#
# - `step` reads one word. It takes the state before the word (`c`, `h`), and returns the best next
#   words and the new state.
# - `logits` takes a state, and returns a score for every word of the vocabulary.
# - `predict` reads a whole text: it runs `step` for each of its words.

# %%
interpreter = Interpreter(model_path=str(path))


def tensors(details):
    found = {name: (it["dtype"].__name__, it["shape"].tolist()) for name, it in details.items()}
    return ", ".join(f"{name} {kind} {shape}" for name, (kind, shape) in sorted(found.items()))


run = {name: interpreter.get_signature_runner(name) for name in interpreter.get_signature_list()}
for name, runner in run.items():
    print(f"{name}({tensors(runner.get_input_details())})")
    print(f"  -> {tensors(runner.get_output_details())}")

# %% [markdown]
# ## The words
#
# The vocabulary is sorted. For each word, the file stores two things: the number of letters at its
# start that are the same as in the previous word, and the rest of the word.

# %%
PAD, BOS, EOS, OOV = range(4)


def read_words(data):
    header, packed = data.split(b"\n", 3)[2:]  # skips the name of the format and a checksum
    count = json.loads(header)["size"] - 4
    unpacked = zlib.decompress(packed)
    words = []
    rests = unpacked[count:-1].decode().split("\n")
    for shared, rest in zip(unpacked[:count], rests, strict=True):
        words.append((words[-1][:shared] if words else "") + rest)
    return words


words = read_words(path.with_suffix(".vocabulary").read_bytes())  # ids 4, 5, ...
assert words == list(reference.vocabulary.words[4:])
ids = {word: row for row, word in enumerate(words, start=4)}
print(f"{len(words):,} words: {', '.join(words[1000:1008])}, ...")

# %% [markdown]
# ## The text
#
# An app must split text into words exactly as in training. For English text in ASCII, one regular
# expression is enough. The [format reference](../phone/format.md#tokens) has all rules, also for
# links, curly quotes, emoji and other scripts. Your tokeniser must return the same words as the
# library's `words_of`, so use `words_of` to make test data. In the last text below, the regular
# expression gives a different result, because the text has a curly quote and an emoji.

# %%
WORD = re.compile(r"[0-9]+(?:[.,:][0-9]+)+|[a-z0-9]+(?:['-][a-z0-9]+)*")

for text in ("I'll call U at 7:30!", "see you tomorrow?", "well-known, snake_case", "it’s GR8 😂"):
    ours, theirs = WORD.findall(text.lower()), reference.words_of(text)
    print(f"{'same ' if ours == theirs else 'OTHER'} {text!r}: {theirs}")

# %% [markdown]
# ## The strip
#
# At the start of a message, the state is zero and the first id is BOS (begin of a message). The
# app calls `step` once for each finished word. If the user has typed some letters of the next
# word, the strip shows only words that begin with these letters. Because the vocabulary is sorted,
# the ids of these words are consecutive. The strip shows the three with the highest `logits`.
#
# The network was trained on sequences of `training_length` ids. If a text is longer, an app must
# drop some ids; the [format reference](../phone/format.md) says which. The code below does not do
# this.

# %%
sizes = manifest["model"]["state_sizes"]


def read(context):
    c, h = (np.zeros([1, sizes[name]], np.float32) for name in "ch")
    for word_id in [BOS, *(ids.get(word, OOV) for word in context)]:
        out = run["step"](token=np.array([word_id], np.int32), c=c, h=h)
        c, h = out["new_c"], out["new_h"]  # an app keeps these from key to key
    return out


def strip(text):
    *context, prefix = WORD.findall(text.lower() + "x")  # the last word is the prefix and "x"
    prefix = prefix[:-1]
    out = read(context)
    if not prefix:
        return [words[i - 4] for i in out["ids"][0][:3]]
    first = bisect.bisect_left(words, prefix)
    end = bisect.bisect_left(words, prefix + "\U0010ffff")
    scores = run["logits"](h=out["new_h"])["logits"][0, 4:]
    return [words[i] for i in first + np.argsort(-scores[first:end], kind="stable")[:3]]


typed = ["", "see you ", "see you t", "see you tom", "i am on my ", "what are you d"]
strips = [strip(text) for text in typed]
for text, shown in zip(typed, strips, strict=True):
    assert shown == [word for word, _ in reference.strip_for(text).suggestions]
print("our strips and the library's are equal for all", len(typed), "texts")

# %%
figure, axes = plt.subplots(len(typed), figsize=(6, 4.2))
for axis, text, shown in zip(axes, typed, strips, strict=True):
    axis.axis("off")
    axis.text(0.02, 0.5, text + "|", va="center", family="monospace")
    for slot, place in enumerate((1, 0, 2)):  # the best in the centre
        word = shown[slot] if slot < len(shown) else ""
        box = {"boxstyle": "round", "facecolor": "white" if slot else "lightblue"}
        axis.text(0.5 + 0.2 * place, 0.5, word or "…", ha="center", va="center", bbox=box)
plt.show()

# %% [markdown]
# ## In Kotlin, Swift, C++
#
# In your app, you do not have to write this code. [Suggestions in your keyboard in fifteen
# minutes](../phone/integrate.md) uses `libcifg`, a library without dependencies that does all of
# this. It also reads the n-gram model and the list of rare words, which make suggestions better.
# In Python, `open_keyboard` does the same:

# %%
keyboard = tk.runtime.open_keyboard(path)
for text in typed[1:]:
    print(f"{text!r}: {[word for word, _ in keyboard.strip_for(text).suggestions]}")
