# %% [markdown]
# # A keyboard from your own messages
#
# Messages by person go in, a page to type on comes out. `python -m tasks` is `tff-keyboard` in a
# checkout. All stays on this machine.

# %%
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile

import matplotlib.pyplot as plt

import tff_keyboard as tk

folder = pathlib.Path(tempfile.mkdtemp())


def tff_keyboard(*words):
    command = [sys.executable, "-m", "tasks", *map(str, words)]
    print(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


# %% [markdown]
# ## The text
#
# One message a line, `user<TAB>text`. These people are invented: each has habits of their own. Put
# your file in place of this cell.

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
for person in range(200):
    habits = {name: draw.sample(values, 3) for name, values in CHOICES.items()}
    messages = draw.sample(MESSAGES, 10)
    for _ in range(draw.randint(20, 60)):
        words = {name: draw.choice(values) for name, values in habits.items()}
        lines.append(f"person{person}\t{draw.choice(messages).format(**words)}")
text = folder / "messages.tsv"
text.write_text("\n".join(lines) + "\n")
print(*lines[:4], sep="\n")

# %%
tff_keyboard("prepare", f"--input={text}", f"--out={folder / 'mine'}")

# %% [markdown]
# Some people are held out: no model learns from them. A word that one person alone typed stays out.
#
# ## Training
#
# Without the three `--set`, `train` does what `advise` says. With them it takes half a minute: a
# small network, few rounds.

# %%
small = ("train.rounds=100", "model.units=128", "model.embedding_size=48")
sets = [f"--set={key}" for key in small]
run, model = folder / "run", folder / "mine.tflite"
tff_keyboard("train", f"--store={folder / 'mine'}", f"--workdir={run}", *sets)

# %% [markdown]
# ## The export
#
# A network, an n-gram, and on the phone the owner's own words. The file is written only if it
# suggests to held-out people what the trained model does. The default, a byte a weight, halves the
# network; but then recall may move by 0.1 points, three of so few words, and the check may refuse.

# %%
tff_keyboard("export", run, f"--out={model}", "--ngram=100kB", "--quantize=float16")
compare = folder / "comparison"
models = (model, f"network:{model}", "ngram")
tff_keyboard("compare", *models, f"--store={folder / 'mine'}", f"--out={compare}")

# %% [markdown]
# Read the comparison before you are proud: after so little training the network is the weakest,
# and the n-gram alone as good as all three together. `advise` warns of that. Read it
# [like a statistician](read_an_evaluation.py).
#
# ## Typing
#
# The strip for any text, from the file alone:

# %%
keyboard = tk.runtime.open_keyboard(model)
for typed in ("see you ", "i am on my ", "shall we have p", "thanks for the "):
    suggestions = keyboard.strip_for(typed).suggestions
    print(
        f"{typed!r:18}", ", ".join(f"{word} {probability:.0%}" for word, probability in suggestions)
    )

# %% [markdown]
# `play` serves a page for you alone: its address has a token. `--cache=words.cache` keeps what it
# learns from you. Open the address that it prints; here headless Chromium does, where there is one.

# %%
play = [sys.executable, "-m", "tasks", "play", str(model), "--port=0"]
with subprocess.Popen(play, stdout=subprocess.PIPE, text=True) as server:
    address = next(word for word in server.stdout.readline().split() if word.startswith("http"))
    print(address.partition("=")[0] + "=...")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    picture = folder / "page.png"
    if browser:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        flags += [f"--user-data-dir={folder / 'browser'}", f"--screenshot={picture}"]
        flags += ["--disable-background-networking"]  # it would try to reach its servers
        flags += ["--window-size=1100,900", "--virtual-time-budget=3000", address]
        subprocess.run([browser, *flags], stderr=subprocess.DEVNULL, timeout=60, check=False)
    server.send_signal(signal.SIGINT)

if picture.exists():
    plt.figure(figsize=(8, 6.5), layout="tight")
    plt.axis("off")
    plt.imshow(plt.imread(picture))
    plt.show()
