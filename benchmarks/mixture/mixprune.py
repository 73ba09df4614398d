"""mixprune.py STORE NGPKL PASS OUT: prunes by the loss of the mixture, to 500 kB. Writes OUT_A.ngram (as Stolcke reads h), OUT_B.ngram (twice iterated, longer contexts counted)."""
import sys, pickle, time, numpy as np
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.predictors.ngram import ngram_spec, ngram_file
from tff_keyboard.predictors.ngram.ngram_pruning import Pruner, _probabilities, _owners
store, pkl, passf, out = sys.argv[1:5]; BUD = int(sys.argv[6]) if len(sys.argv) > 6 else 500_000
LAM = [float(x) for x in (sys.argv[5] if len(sys.argv) > 5 else ".13,.21,.34,.36").split(",")]
t0 = time.time(); say = lambda *a: print(f"[{time.time()-t0:.0f}]", *a, flush=True)
s = ClientStore(store); d = pickle.load(open(pkl, "rb")); model = d["model"]; T = model.tables; rows_at = d["rows_at"]; tg = d["targets"]
z = np.load(passf); pn = np.exp(z["lp"].astype(np.float64)); seen = ~np.isnan(z["lp"]); say("sampled", seen.sum(), len(tg))
assert len(pn) == len(tg)
P, Q = _probabilities(model); allowed = [x >= 2 for x in d["people"]]; N = d["ctx_counts"][0].sum()
first = np.zeros(len(tg), bool); first[0] = True; first[1:] = tg[:-1] == 2  # target EOS ends a message
ctx = [np.where(first, 1, np.roll(tg, 1)).astype(np.int64)]
for m in range(1, len(T)): ctx.append(np.where(first, -1, np.roll(rows_at[m - 1], 1)).astype(np.int64))
class MP(Pruner):
    def __init__(self, scores):
        self._model = model; self.fewest = model.num_ngrams[0]
        scores = [np.where(a, x, -np.inf) for a, x in zip(allowed, scores)]
        for level in reversed(range(1, len(scores))):
            starts = T[level].starts; parents = np.flatnonzero(np.diff(starts))
            best = np.maximum.reduceat(scores[level], starts[parents]); scores[level - 1][parents] = np.maximum(scores[level - 1][parents], best)
        self._bounds = np.cumsum([0, *(len(v) for v in scores)]); levels = np.repeat(np.arange(len(scores)), np.diff(self._bounds))
        flat = np.concatenate(scores); self._ranking = np.lexsort((levels, -flat)); may = np.concatenate(allowed); self._ranking = self._ranking[may[self._ranking]]
        self.most = self.fewest + len(self._ranking)
def fallback(avg, cnt, p, q):
    b = np.clip(((np.log(p) + 16) * 2).astype(int), 0, 40) * 50 + np.clip(((np.log(np.maximum(q, 1e-9)) + 21) * 2).astype(int), 0, 49)
    k = cnt > 0; num = np.bincount(b[k], avg[k] * 1, 41 * 50); den = np.bincount(b[k], minlength=41 * 50); mean = np.where(den > 0, num / np.maximum(den, 1), 0)
    return np.where(k, avg, mean[b])
def smoothed(avg, cnt, p, q, w=1.0):
    f = fallback(np.where(cnt > 0, avg, 0), cnt, p, q); b = fallback(np.where(cnt > 0, avg, 0), np.zeros_like(cnt), p, q) if False else f
    return f
def scoresA():
    res = []
    for m, t in enumerate(T):
        ow = _owners(t); lam = LAM[m]; p, q = P[m], Q[m]; pp = p - t.discounted.astype(np.float64) * (1 - q)
        r = rows_at[m]; k = seen & (r >= 0); rr = r[k]
        v = np.log(lam * p[rr] + (1 - lam) * pn[k]) - np.log(lam * pp[rr] + (1 - lam) * pn[k])
        cnt = np.bincount(rr, minlength=len(p)); avg = np.bincount(rr, v, len(p)) / np.maximum(cnt, 1)
        avg = fallback(avg, cnt, p, q)
        res.append(d["ctx_counts"][m][ow] / N * (p * avg - lam * (p - pp)))
    return res
def kept_of(pr, num):
    keep = np.zeros(pr._bounds[-1], bool); keep[pr._ranking[: num - pr.fewest]] = True
    return [keep[a:b] for a, b in zip(pr._bounds[:-1], pr._bounds[1:])]
def scoresB(keep):
    """given what is kept: the loss of dropping (or not having) each row, in the model as it then is."""
    gam, haskids = [], []
    for t, kp in zip(T, keep):
        ow = _owners(t); n = len(t.gamma); kids = np.bincount(ow[kp], minlength=n) > 0
        gam.append(np.where(kids, t.gamma + np.bincount(ow[~kp], t.discounted[~kp], n), 1.0)); haskids.append(kids)
    G = np.ones(len(tg)); Gs = [None] * len(T); order = np.zeros(len(tg), int)
    for m in reversed(range(len(T))):
        Gs[m] = G; ok = ctx[m] >= 0; g = np.ones(len(tg)); g[ok] = gam[m][ctx[m][ok]]; hk = np.zeros(len(tg), bool); hk[ok] = haskids[m][ctx[m][ok]]
        order = np.where((order == 0) & hk, m + 1, order); G = G * g
    uni = model.unigram.astype(np.float64)[tg]; low = uni.copy(); qs = []  # pruned p of order m at target
    for m, t in enumerate(T):
        qs.append(low.copy()); ok = ctx[m] >= 0; r = rows_at[m]; dd = np.zeros(len(tg)); kk = r >= 0
        dd[kk] = np.where(keep[m][r[kk]], t.discounted[r[kk]], 0); g = np.ones(len(tg)); g[ok] = gam[m][ctx[m][ok]]; low = dd + g * low
    pg = low; lam = np.array([LAM[0], *LAM])[order]; mix = lam * pg + (1 - lam) * pn
    res = []
    for m, t in enumerate(T):
        ow = _owners(t); r = rows_at[m]; k = seen & (r >= 0); rr = r[k]; dsc = t.discounted.astype(np.float64)
        step = (lam[k] * Gs[m][k] * dsc[rr] * (1 - qs[m][k])); kp = keep[m][rr]
        v = np.where(kp, np.log(mix[k]) - np.log(np.maximum(mix[k] - step, 1e-12)), np.log(mix[k] + step) - np.log(mix[k]))
        cnt = np.bincount(rr, minlength=len(dsc)); avg = np.bincount(rr, v, len(dsc)) / np.maximum(cnt, 1); avg = fallback(avg, cnt, P[m], Q[m])
        ok = ctx[m] >= 0; reads = np.bincount(ctx[m][ok], (lam * Gs[m])[ok], len(t.gamma)); qrow = Q[m]
        res.append((d["ctx_counts"][m][ow] * P[m] * avg - reads[ow] * dsc * (1 - qrow)) / N)
    return res
def write(pr, tag):
    data = ngram_spec.encode_within(pr, s.vocabulary, BUD); open(f"{out}_{tag}.ngram", "wb").write(data); c = ngram_file.decode(data)[0]; say(tag, len(data), c.num_ngrams); return sum(c.num_ngrams)
prA = MP(scoresA()); n = write(prA, "A"); keep = kept_of(prA, n)
for i in range(3):
    pr = MP(scoresB(keep)); n = write(pr, "B"); k2 = kept_of(pr, n); say("changed", [int((a != b).sum()) for a, b in zip(keep, k2)]); keep = k2
