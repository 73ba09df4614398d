"""Positions of people under network, n-gram variants and cache; weight schemes; ceilings."""
import sys, pickle, json, time, numpy as np
from tff_keyboard.predictors.hybrid import mixture
from tff_keyboard.predictors.hybrid.hybrid_predictor import HybridPredictor
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.evaluation.counts import hybrid_stream, typed_text
from tff_keyboard.evaluation.counts.positions import longest_target
from tff_keyboard.evaluation.metrics.keystrokes import characters_typed
from tff_keyboard.predictors.prefix_index import PrefixIndex
from tff_keyboard.evaluation.statistics.jackknife import ratio_interval, difference_interval
from tff_keyboard.data.vocabulary import is_mask
E = ""

class Part:
    """All positions of some people."""
    def __init__(self, network, ngram, text, small_cache=True):
        hp = HybridPredictor(network, ngram, mixture.EQUAL); self.to = hp._to_ngram; self.vocab = network.vocabulary
        V = self.V = len(self.vocab); net = []; self.ids = []
        tg, asked, owner, known, cid, cval, crow, exs, exo, isw, ln, prevs = [], [], [], [], [], [], [], [], [], [], [], []
        row = 0; self.followed = []
        for m in hybrid_stream._replay(hp, text, 0, len(text.people), longest_target(0)):
            n = len(m.targets); net.append(m.network.copy()); tg.append(m.targets); owner.append(np.full(n, m.owner))
            self.ids.append(np.array([1, *m.targets[:-1]], np.int32))
            known.append(m.buckets % mixture.FAMILIARITIES)
            words = m.typed
            for i in range(n):
                a = int(m.targets[i]); w = words[i]
                f = m.table._followed(m.before[i]); self.followed.append(f)
                if m.table.total > 0:
                    sc = np.zeros(V + len(m.table.extras), np.float32); m.table.add_to(sc, m.before[i], 1.0)
                    nz = np.flatnonzero(sc[:V]); cid.append(nz.astype(np.int32)); cval.append(sc[nz]); crow.append(np.full(len(nz), row, np.int32))
                    ex = sc[V:]; exs.append(ex)
                    k = m.table.id_of(w) if w != E else a
                    if k >= V: a = k
                else: exs.append(np.zeros(0, np.float32))
                asked.append(a); isw.append(m.targets[i] != 2 and w != E); prevs.append(0 if i == 0 else int(m.targets[i - 1]))
                ln.append(0 if w == E or is_mask(w) else len(w)); row += 1
        self.net = np.concatenate(net); self.targets = np.concatenate(tg).astype(np.int64); self.asked = np.array(asked)
        self.owner = np.concatenate(owner); self.known = np.concatenate(known); self.n = row; self.prev = np.array(prevs)
        self.cid = np.concatenate(cid) if cid else np.zeros(0, np.int32); self.cval = np.concatenate(cval) if cval else np.zeros(0, np.float32); self.crow = np.concatenate(crow) if crow else np.zeros(0, np.int32)
        self.exs = exs; self.isw = np.array(isw); self.len = np.array(ln); self.followed = np.array(self.followed)
        self.words = np.bincount(self.owner, self.isw, len(text.people))
        self.cstart = np.searchsorted(self.crow, np.arange(row + 1))
        # what the cache gives each target (OOV as a class)
        self.pc = np.zeros(row)
        for i in range(row):
            a, b = self.cstart[i], self.cstart[i + 1]; t = self.targets[i]
            j = a + np.searchsorted(self.cid[a:b], t)
            if j < b and self.cid[j] == t: self.pc[i] = self.cval[j]
            if t == 3: self.pc[i] += self.exs[i].sum()
        r = np.arange(row); self.pn = self.net[r, self.targets].astype(np.float64)
        s = self.net[:, 4:]; self.top = s.max(1)
        self.ent = np.concatenate([-(x * np.log(x + 1e-30)).sum(1) for x in np.array_split(self.net, max(1, row // 2000))])
        self.arg = s.argmax(1) + 4

    def chunks(self, model):
        """(slice, ngram probs [n,V], orders)"""
        i = 0; r = 0
        while i < len(self.ids):
            j = i; tot = 0
            while j < len(self.ids) and tot < 2000: tot += len(self.ids[j]); j += 1
            T = max(len(x) for x in self.ids[i:j]); ids = np.zeros([j - i, T], np.int32)
            for k, x in enumerate(self.ids[i:j]): ids[k, :len(x)] = x
            gids = ids if self.to is None else self.to[ids]
            nodes = model.context_nodes(gids.astype(np.int64))[ids != 0]; pr = model.probabilities(nodes)
            yield slice(r, r + tot), pr if self.to is None else pr[:, self.to], mixture.matched_orders(nodes) if not hasattr(model, "_keys") else self._orders(model, nodes)
            r += tot; i = j
    @staticmethod
    def _orders(model, nodes):
        # KneserNey nodes may have no children: as a file would have it, only contexts with followers count
        res = np.zeros(len(nodes), np.int64)
        for m in range(nodes.shape[1]):
            ok = nodes[:, m] >= 0
            st = model.tables[m].starts; has = np.zeros(len(nodes), bool)
            has[ok] = st[nodes[ok, m] + 1] > st[nodes[ok, m]]
            res[has] = m + 1
        return res

    def stats(self, model):
        """first pass for a variant: p(target), order, top, p at the network's best."""
        pg = np.zeros(self.n); od = np.zeros(self.n, int); top = np.zeros(self.n); at = np.zeros(self.n); na = np.zeros(self.n); oov = np.zeros(self.n)
        for sl, p, o in self.chunks(model):
            r = np.arange(sl.stop - sl.start)
            pg[sl] = p[r, self.targets[sl]]; od[sl] = o; g = p[:, 4:].argmax(1) + 4
            top[sl] = p[r, g]; at[sl] = p[r, self.arg[sl]]; na[sl] = self.net[sl][r, g]; oov[sl] = p[r, 3]
        return dict(pg=pg, order=od, gtop=top, at=at, na=na, goov=oov)

    def cands(self, model, K=24):
        """Candidate words of each position with what each part gives them: ids [n, C], probs [n, C, 3]; the last column is the target's."""
        if not hasattr(self, "_netc"):
            self._netc = np.concatenate([np.argpartition(-x[:, 4:], K, axis=1)[:, :K] + 4 for x in np.array_split(self.net, max(1, self.n // 2000))]).astype(np.int32)
            self._cc = np.zeros([self.n, K], np.int32)
            for i in range(self.n):
                c, v = self.cid[self.cstart[i]:self.cstart[i + 1]], self.cval[self.cstart[i]:self.cstart[i + 1]]
                ok = c >= 4; c, v = c[ok], v[ok]
                if len(c) > K: c = c[np.argpartition(-v, K)[:K]]
                self._cc[i, :len(c)] = c
        n = self.n; ids = np.zeros([n, 3 * K + 1], np.int32); ids[:, :K] = self._netc; ids[:, 2 * K:3 * K] = self._cc
        ids[:, 3 * K] = np.where(self.asked < self.V, self.asked, 0); pr = np.zeros([n, 3 * K + 1, 3], np.float32)
        for sl, p, _ in self.chunks(model):
            ids[sl, K:2 * K] = np.argpartition(-p[:, 4:], K, axis=1)[:, :K] + 4
            r = np.arange(sl.stop - sl.start)[:, None]; c = ids[sl]
            pr[sl, :, 0] = self.net[sl][r, c]; pr[sl, :, 1] = p[r, c]
            z = np.zeros([sl.stop - sl.start, self.V], np.float32); x, y = self.cstart[sl.start], self.cstart[sl.stop]
            z[self.crow[x:y] - sl.start, self.cid[x:y]] = self.cval[x:y]; pr[sl, :, 2] = z[r, c]
        o = np.argsort(ids[:, :-1], axis=1, kind="stable"); sid = np.take_along_axis(ids[:, :-1], o, 1); dup = np.zeros_like(sid, bool); dup[:, 1:] = sid[:, 1:] == sid[:, :-1]; dup |= sid < 4
        isdup = np.zeros_like(dup); np.put_along_axis(isdup, o, dup, 1)
        pr[:, :-1][isdup] = -1; pr[:, :-1][ids[:, :-1] == ids[:, -1:]] = -1
        for i in np.flatnonzero(self.asked >= self.V): pr[i, -1] = [0, 0, self.exs[i][self.asked[i] - self.V]]
        M = 24; ex = np.full([n, M], -1, np.float32)  # extras of the cache compete as well
        for i in range(n):
            e = self.exs[i]
            if len(e):
                e = e.copy(); 
                if self.asked[i] >= self.V: e = np.delete(e, self.asked[i] - self.V)
                e = np.sort(e)[::-1][:M]; ex[i, :len(e)] = e
        return ids, pr, ex
    def rank_of(self, c, w):
        ids, pr, ex = c; w = w.astype(np.float32); sc = (pr * w[:, None, :]).sum(2); own = sc[:, -1:]; t = ids[:, -1:]
        lower = ids[:, :-1] < np.where(t > 0, t, 1 << 30)
        rk = ((sc[:, :-1] > own) | ((sc[:, :-1] == own) & lower)).sum(1) + ((ex * w[:, 2:]) > own).sum(1)
        rk[~(self.isw & (self.asked >= 4))] = 999
        return rk
    def typed_of(self, model, w):
        """characters typed; words of the cache beyond the table count only before the first letter."""
        index = PrefixIndex(self.vocab); typed = self.len.copy()
        for sl, p, _ in self.chunks(model):
            ww = w[sl].astype(np.float32); sc = self.net[sl] * ww[:, :1]; sc += p * ww[:, 1:2]; x, y = self.cstart[sl.start], self.cstart[sl.stop]; rr = self.crow[x:y] - sl.start
            sc[rr, self.cid[x:y]] += ww[rr, 2] * self.cval[x:y]; a = self.asked[sl]; ok = np.flatnonzero((a >= 4) & (a < self.V) & self.isw[sl])
            t = typed[sl]; t[ok] = np.minimum(characters_typed(sc[ok], a[ok], index, k=3), t[ok]); typed[sl] = t
        return typed

def em(P, bucket, nb, empty, prior=20., steps=200):
    P = P.copy(); P[empty[bucket], 2] = 0
    lam = np.full(3, 1 / 3)
    for _ in range(100):
        j = P * lam; s = j.sum(1, keepdims=True); lam = np.nanmean(np.where(s > 0, j / np.maximum(s, 1e-300), np.nan), 0)
    pull = np.tile(lam, [nb, 1]); pull[empty, 2] = 0; pull /= pull.sum(1, keepdims=True); t = pull.copy()
    for _ in range(steps):
        j = t[bucket] * P; j /= np.maximum(j.sum(1, keepdims=True), 1e-300)
        c = np.stack([np.bincount(bucket, j[:, i], nb) for i in range(3)], 1); t = c + prior * pull; t /= t.sum(1, keepdims=True)
    return t
