# %% [markdown]
# # A keyboard from your own messages
#
# This tutorial turns a file of messages into a keyboard. At the end you have a trained model, its
# file for a phone (`mine.tflite`), and a page in your browser where you can type with the model.
# The last picture shows this page. All data stays on your machine. Run the tutorial in an empty
# folder.

# %%
import pathlib
import random
import shutil
import subprocess
import sys

import matplotlib.pyplot as plt

import tff_keyboard as tk

COMMAND = pathlib.Path(sys.executable).with_name("tff-keyboard")  # installed next to this Python


def tff_keyboard(*words):
    ran = subprocess.run([COMMAND, *words], check=True, stdout=subprocess.PIPE, text=True)
    print(ran.stdout)


# %% [markdown]
# ## The text
#
# The file has one message per line: `user<TAB>text`. Here we generate the messages of 200 invented
# users, and each user prefers some friends, places and messages. To use your own messages, leave
# out this cell and save your file as `messages.tsv`.

# %%
CHOICES = {
    "friend": ["anna", "ben", "carla", "dan", "emma", "finn", "greta", "hugo", "ida", "jonas"],
    "place": ["the station", "the office", "the gym", "school", "the new cafe", "my place"],
    "food": ["pizza", "noodles", "soup", "a salad", "pancakes", "curry"],
    "time": ["at six", "in ten minutes", "after work", "tomorrow morning", "on friday"],
}
MESSAGES = """i am on my way to {place}
see you {time}
see you {time} at {place}
are you still at {place}?
shall we have {food} {time}?
can you bring {food} to {place}?
{friend} says hi, call me {time}
running late, will be there {time}
happy birthday {friend}!
i will be at {place} {time}
thanks for the {food}, it was great
did {friend} get home alright?
let me know when you are at {place}""".splitlines()

draw = random.Random(1)
lines = []
for user in range(200):
    habits = {name: draw.sample(values, 3) for name, values in CHOICES.items()}
    messages = draw.sample(MESSAGES, 10)
    for _ in range(draw.randint(20, 60)):
        words = {name: draw.choice(values) for name, values in habits.items()}
        lines.append(f"user{user}\t{draw.choice(messages).format(**words)}")
pathlib.Path("messages.tsv").write_text("\n".join(lines) + "\n")
print(*lines[:4], sep="\n")

# %%
tff_keyboard("prepare", "messages.tsv", "--out=data/mine")

# %% [markdown]
# `prepare` makes a client store. It keeps the text of some users, the held-out users, for the
# evaluation: models are not trained on it. A word that only one user typed is not in the
# vocabulary.
#
# ## Training
#
# By default, `train` uses the settings that `advise` recommends. The three `--set` options below
# make the network smaller and reduce the number of rounds, so that the training takes half a
# minute.

# %%
small = ("train.rounds=100", "model.units=128", "model.embedding_size=48")
sets = [f"--set={key}" for key in small]
tff_keyboard("train", "--store=data/mine", "--workdir=runs/mine", *sets)

# %% [markdown]
# ## The export
#
# The exported model consists of the network and an n-gram model. On the phone, the keyboard adds
# the words that its user types. `export` first checks that the exported network suggests the same
# words to held-out users as the trained model. It writes no file if this check fails.
#
# By default, `export` stores one byte per weight, which makes the file four times smaller but
# changes some suggestions. The check allows recall to change by 0.1 percentage points. Our
# held-out users typed few words, so 0.1 points are only three words, and the check could fail. We
# therefore use `--quantize=none`, which keeps the exact weights.

# %%
tff_keyboard("export", "runs/mine", "--out=mine.tflite", "--ngram=100kB", "--quantize=none")
models = ("mine.tflite", "network:mine.tflite", "ngram")
tff_keyboard("compare", *models, "--store=data/mine", "--out=runs/comparison")

# %% [markdown]
# After so little training, the network alone (`network:mine.tflite`) is the weakest model. The
# n-gram alone (`ngram`) is as good as the whole file (`mine.tflite`), which combines the network,
# the n-gram and the user's own words. `advise` warns of this. [Read an evaluation like a
# statistician](read_an_evaluation.md) explains the table.
#
# ## Typing
#
# The next cell loads the exported file and shows its suggestions for three texts:

# %%
keyboard = tk.runtime.open_keyboard("mine.tflite")
figure, axes = plt.subplots(1, 3, figsize=(8, 1.6), layout="constrained")
for axis, typed in zip(axes, ("see you ", "i am on my ", "shall we have p"), strict=True):
    suggestions = keyboard.strip_for(typed).suggestions[::-1]
    axis.barh([word for word, _ in suggestions], [share for _, share in suggestions])
    axis.set(title=typed + "|", xlim=(0, 1))
plt.show()

# %% [markdown]
# To type on the keyboard, run `tff-keyboard play mine.tflite` and open the address that it prints.
# The address contains a secret token, so other users of the machine cannot open the page. With
# `--cache=words.cache` the keyboard keeps the words that it learns from you. Here, headless
# Chromium opens the page and takes a picture of it, if Chromium is installed.

# %%
play = [COMMAND, "play", "mine.tflite", "--port=0"]
with subprocess.Popen(play, stdout=subprocess.PIPE, text=True) as server:
    address = next(word for word in server.stdout.readline().split() if word.startswith("http"))
    print(address.rpartition(":")[0] + ":.../?token=...")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    picture = pathlib.Path("page.png").resolve()
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    flags += [f"--user-data-dir={picture.with_name('browser')}", f"--screenshot={picture}"]
    flags += ["--disable-background-networking"]  # no requests to its own servers
    flags += ["--window-size=1100,900", "--virtual-time-budget=3000", address]
    try:
        if browser:
            subprocess.run([browser, *flags], stderr=subprocess.DEVNULL, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        print("Chromium did not answer: no picture.")
    finally:  # `with` waits until the server has ended
        server.terminate()

if picture.exists():
    plt.figure(figsize=(8, 6.5), layout="tight")
    plt.axis("off")
    plt.imshow(plt.imread(picture))
    plt.show()
