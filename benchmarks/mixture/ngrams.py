"""KN model of a store's train text with what pruning needs; pickled."""
import sys, pickle, numpy as np, time
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey
from tff_keyboard.predictors.ngram import ngram_people, ngram_pruning
from tff_keyboard.data.vocabulary import BOS, EOS
t=time.time()
s = ClientStore(sys.argv[1]); out = sys.argv[2]
counts = s.num_examples("train"); owners = np.repeat(np.arange(len(counts)), counts)
msgs = s.all_examples("train"); V = len(s.vocabulary)
model = KneserNey.train(msgs, vocabulary_size=V, order=5); print("trained", model.num_ngrams, time.time()-t, flush=True)
lengths = np.array([len(m) + 2 for m in msgs]); text = np.concatenate([np.concatenate([[BOS], m, [EOS]]) for m in msgs]).astype(np.int64)
owner = np.repeat(owners, lengths); start = np.zeros(len(text), bool); start[np.cumsum(lengths) - lengths] = True
rows_at = []; people = []; before = text; npeople = int(owner.max()) + 1; ctx_counts = []
for table in model.tables:
    keys = table.keys(V); context = np.where(start, -1, np.roll(before, 1)); wanted = context * V + text
    rows = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0)); known = (context >= 0) & (keys[rows] == wanted)
    pairs = np.unique(rows[known] * npeople + owner[known]); people.append(np.bincount(pairs // npeople, minlength=len(keys)))
    ctx_counts.append(np.bincount(context[context >= 0], minlength=len(table.gamma)))
    before = np.where(known, rows, -1); rows_at.append(before.astype(np.int32)); print(len(keys), time.time()-t, flush=True)
target = ~start  # positions with a target: every word and EOS, in order of netpass (messages in order)
pickle.dump(dict(model=model, rows_at=[r[target] for r in rows_at], ctx_counts=ctx_counts, people=people, targets=text[target].astype(np.int32)), open(out, "wb"), protocol=5)
print("done", time.time()-t)
