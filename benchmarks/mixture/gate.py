import numpy as np, tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(1); tf.config.threading.set_inter_op_parallelism_threads(1)
def features(part, st, unilog):
    L = lambda x: np.log(np.maximum(x, 1e-7))
    o = np.eye(5)[np.clip(st["order"], 0, 4)]; k = np.eye(4)[part.known]
    cols = [L(part.top), part.ent, L(st["gtop"]), L(st["at"]), L(st["na"]), L(part.net[:, 3]), L(part.net[:, 2]), L(st["goov"]), np.log1p(part.followed), unilog[part.prev], (part.prev == 0), (part.prev == 3)]
    return np.concatenate([np.stack(cols, 1), o, k], 1).astype(np.float32)
def fit_gate(F, P, known, seed=0, hidden=32, epochs=60, split=0.8, owner=None):
    mu, sd = F.mean(0), F.std(0) + 1e-6; X = (F - mu) / sd
    rng = np.random.default_rng(seed); people = np.unique(owner); rng.shuffle(people)
    va = np.isin(owner, people[int(len(people) * split):]); tr = ~va
    tf.random.set_seed(seed); m = tf.keras.Sequential([tf.keras.layers.Dense(hidden, activation="tanh"), tf.keras.layers.Dense(3)])
    mask = np.zeros([len(P), 3], np.float32); mask[known == 0, 2] = -1e9; P = P.astype(np.float32) + 1e-9
    opt = tf.keras.optimizers.legacy.Adam(3e-3); best = 1e9; bw = None
    @tf.function(reduce_retracing=True)
    def loss(x, p, k): return -tf.reduce_mean(tf.math.log(tf.reduce_sum(tf.nn.softmax(m(x) + k) * p, 1)))
    @tf.function(reduce_retracing=True)
    def step(x, p, k):
        with tf.GradientTape() as t: l = -tf.reduce_mean(tf.math.log(tf.reduce_sum(tf.nn.softmax(m(x) + k) * p, 1)))
        opt.apply_gradients(zip(t.gradient(l, m.trainable_variables), m.trainable_variables)); return l
    m(X[:2]); opt._create_all_weights(m.trainable_variables)
    it = np.flatnonzero(tr); bad = 0
    for e in range(epochs):
        rng.shuffle(it)
        for b in np.array_split(it, max(1, len(it) // 512)): step(X[b], P[b], mask[b])
        v = float(loss(X[va], P[va], mask[va]))
        if v < best - 1e-5: best = v; bw = m.get_weights(); bad = 0
        else:
            bad += 1
            if bad > 8: break
    m.set_weights(bw)
    def apply(F, known):
        k = np.zeros([len(F), 3], np.float32); k[known == 0, 2] = -1e9
        return tf.nn.softmax(m((F - mu) / sd) + k).numpy()
    return apply
