"""One pass of a network over the train text: p(target), p of the best word, entropy? -> npz."""
import sys, time, numpy as np, tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(1); tf.config.threading.set_inter_op_parallelism_threads(1)
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.models.saved_model import load_model
store, model_dir, out, most = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
s = ClientStore(store)
msgs = s.all_examples("train")
model, vocab = load_model(model_dir)[:2]
assert vocab.fingerprint == s.vocabulary.fingerprint
n = len(msgs)
pick = np.arange(n) if most >= n else np.sort(np.random.default_rng(0).choice(n, most, replace=False))
order = pick[np.argsort([len(msgs[i]) for i in pick], kind="stable")]
@tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
def f(ids, targets):
    hidden, table, bias, t = model.packed_hidden_at_targets(ids, targets)
    logits = tf.matmul(hidden, table, transpose_b=True)
    lse = tf.reduce_logsumexp(logits, axis=1)
    own = tf.gather(logits, t, batch_dims=1)
    return own - lse, tf.reduce_max(logits[:, 4:], axis=1) - lse
res = [None] * n
t0 = time.time(); done = 0; i = 0; tot = sum(len(msgs[k]) + 1 for k in order)
@tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
def places(ids, targets):
    from tff_keyboard.models.layers.packing import pack
    lengths = tf.math.count_nonzero(tf.not_equal(targets, 0), axis=1, dtype=tf.int32)
    return pack(lengths, tf.shape(ids)[1]).positions

shards = np.array_split(np.random.default_rng(0).permutation(pick), 16)
for num, shard in enumerate(shards):
    order = shard[np.argsort([len(msgs[k]) for k in shard], kind="stable")]; i = 0
    while i < len(order):
        L = len(msgs[order[min(i + 127, len(order) - 1)]]) + 1
        b = max(1, 1600 // L); rows = order[i:i + b]; i += b
        L = max(len(msgs[r]) for r in rows) + 1
        ids = np.zeros([len(rows), L], np.int32); tg = np.zeros_like(ids)
        for k, r in enumerate(rows):
            m = msgs[r]; ids[k, 0] = 1; ids[k, 1:len(m) + 1] = m; tg[k, :len(m)] = m; tg[k, len(m)] = 2
        lp, mx = f(ids, tg); pos = places(ids, tg).numpy()
        a = np.zeros([2, len(rows), L], np.float32); a[0][tuple(pos.T)] = lp.numpy(); a[1][tuple(pos.T)] = mx.numpy()
        for k, r in enumerate(rows): res[r] = a[:, k, :len(msgs[r]) + 1]
        done += sum(len(msgs[r]) + 1 for r in rows)
    print(num, done, tot, round(time.time() - t0), flush=True)
    flat = np.concatenate([np.full([2, len(msgs[k]) + 1], np.nan, np.float32) if res[k] is None else res[k] for k in range(n)], axis=1)
    np.savez(out + ".tmp.npz", lp=flat[0], top=flat[1]); import os; os.replace(out + ".tmp.npz", out)
print("nats", -np.nanmean(flat[0]))
