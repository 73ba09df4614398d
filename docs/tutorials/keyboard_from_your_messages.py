# %% [markdown]
# # A keyboard from your own messages
#
# Messages by person go in, a page to type on comes out. All stays on this machine. Run it in an
# empty folder.

# %%
import pathlib
import random
import shutil
import subprocess
import sys

import matplotlib.pyplot as plt

import tff_keyboard as tk

COMMAND = pathlib.Path(sys.executable).with_name("tff-keyboard")  # that of this Python


def tff_keyboard(*words):
    ran = subprocess.run([COMMAND, *words], check=True, stdout=subprocess.PIPE, text=True)
    print(ran.stdout)


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
pathlib.Path("messages.tsv").write_text("\n".join(lines) + "\n")
print(*lines[:4], sep="\n")

# %%
tff_keyboard("prepare", "--input=messages.tsv", "--out=data/mine")

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
tff_keyboard("train", "--store=data/mine", "--workdir=runs/mine", *sets)

# %% [markdown]
# ## The export
#
# A network, an n-gram, and on the phone the owner's own words. The file is written only if it
# suggests to held-out people what the trained model does. The default, a byte a weight, halves the
# network; but then recall may move by 0.1 points, three of so few words, and the check may refuse.

# %%
tff_keyboard("export", "runs/mine", "--out=mine.tflite", "--ngram=100kB", "--quantize=float16")
models = ("mine.tflite", "network:mine.tflite", "ngram")
tff_keyboard("compare", *models, "--store=data/mine", "--out=runs/comparison")

# %% [markdown]
# After so little training the network is the weakest, and the n-gram alone as good as all three
# together; `advise` warns of that. Read it [like a statistician](read_an_evaluation.md).
#
# ## Typing
#
# The strip for any text, from the file alone:

# %%
keyboard = tk.runtime.open_keyboard("mine.tflite")
figure, axes = plt.subplots(1, 3, figsize=(8, 1.6), layout="constrained")
for axis, typed in zip(axes, ("see you ", "i am on my ", "shall we have p"), strict=True):
    suggestions = keyboard.strip_for(typed).suggestions[::-1]
    axis.barh([word for word, _ in suggestions], [share for _, share in suggestions])
    axis.set(title=typed + "|", xlim=(0, 1))
plt.show()

# %% [markdown]
# `play` serves a page for you alone: its address has a token. `--cache=words.cache` keeps what it
# learns from you. Open the address that it prints; here headless Chromium does, where there is one.

# %%
play = [COMMAND, "play", "mine.tflite", "--port=0"]
with subprocess.Popen(play, stdout=subprocess.PIPE, text=True) as server:
    address = next(word for word in server.stdout.readline().split() if word.startswith("http"))
    print(address.rpartition(":")[0] + ":.../?token=...")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    picture = pathlib.Path("page.png").resolve()
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    flags += [f"--user-data-dir={picture.with_name('browser')}", f"--screenshot={picture}"]
    flags += ["--disable-background-networking"]  # it would try to reach its servers
    flags += ["--window-size=1100,900", "--virtual-time-budget=3000", address]
    try:
        if browser:
            subprocess.run([browser, *flags], stderr=subprocess.DEVNULL, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        print("Chromium did not answer: no picture.")
    finally:  # `with` waits for the server's end
        server.terminate()

if picture.exists():
    plt.figure(figsize=(8, 6.5), layout="tight")
    plt.axis("off")
    plt.imshow(plt.imread(picture))
    plt.show()
