"""run_ceil.py NAME STORE NETWORK NGPKL FILE_SIZE fitwords measwords [population of measure]"""
import sys, pickle, time, json
from positions import *
from gate import *
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.predictors.ngram.ngram_pruning import Pruner
from tff_keyboard.predictors.ngram import ngram_spec, ngram_file
from tff_keyboard.models.saved_model import load_model
name, store, network, pkl, fitw, measw, pop, perperson = sys.argv[1:9]; fitw, measw, perperson = int(fitw), int(measw), int(perperson)
extra = dict(a.split("=") for a in sys.argv[9:])  # variant=file.ngram
t0 = time.time(); say = lambda *a: print(f"[{time.time()-t0:.0f}]", *a, flush=True)
s = ClientStore(store); V = len(s.vocabulary)
if network.endswith(".tflite"):
    from tflite_export.runtime.keyboard_predictor import KeyboardPredictor
    net = KeyboardPredictor(network)
else: net = KerasPredictor(*load_model(network)[:2])
d = msgs = None
if "nomodel" not in extra: d = pickle.load(open(pkl, "rb")); msgs = s.all_examples("train")
variants = {}
import os
if "nomodel" not in extra:
    f = f"{name}_u2.pkl"
    if os.path.exists(f): variants["today"] = ngram_file.load(f"{name}_today.ngram")[0]; variants["unpruned2"] = pickle.load(open(f, "rb"))
    else:
        from tff_keyboard.predictors.ngram.ngram_pruning import _kept_part
        from tff_keyboard.predictors.ngram.kneser_ney import KneserNey
        if not os.path.exists(f"{name}_today.ngram"):
            pr = Pruner(d["model"], msgs, [p >= 2 for p in d["people"]]); open(f"{name}_today.ngram", "wb").write(ngram_spec.encode_within(pr, s.vocabulary, 500_000))
        variants["today"] = ngram_file.load(f"{name}_today.ngram")[0]
        tabs = []; ctx = np.arange(V)
        for t, p in zip(d["model"].tables, d["people"]): tabs.append(_kept_part(t, p >= 2, ctx)); ctx = np.flatnonzero(p >= 2)
        variants["unpruned2"] = KneserNey(d["model"].unigram, tabs); pickle.dump(variants["unpruned2"], open(f, "wb"), protocol=5)
    variants["unpruned1"] = d["model"]; say({k: v.num_ngrams for k, v in variants.items()})
extra.pop("nomodel", 0)
for k, f in extra.items():
    if k == "nomodel": continue
    if f.endswith(".ngram"): variants[k] = ngram_file.load(f)[0]
    else:
        variants[k] = pickle.load(open(f, "rb"))
        if isinstance(variants[k], dict): variants[k] = variants[k]["model"]
    say(k, variants[k].num_ngrams)
del d, msgs
def take(population, words, skip=None):
    t = typed_text.of_population(s, population)
    if skip is not None: t = typed_text.some_people(t, skip)
    return typed_text.first_people(typed_text.first_messages(t, perperson), max_words=words)
class TT(NGramPredictor): pass
some = NGramPredictor(next(iter(variants.values())), s.vocabulary)
half = slice(0, None, 2) if pop == "validation" else None
fit = Part(net, some, take("validation", fitw, half)); say("fit", fit.n)
mea = Part(net, some, take(pop, measw, slice(1, None, 2) if pop == "validation" else None)); say("measure", mea.n)
un0 = np.log(np.maximum(variants["today"].unigram if "today" in variants else next(iter(variants.values())).unigram, 1e-7))
un = un0 if fit.to is None else un0[fit.to]
res = {}
W = mea.words
def show(label, rk, typed=None, base=None):
    h = {k: np.bincount(mea.owner, rk < k, len(W)) for k in (1, 3)}
    line = label
    for k in (1, 3):
        line += f" top{k} {100*h[k].sum()/W.sum():.2f}"
        if base is not None:
            iv = difference_interval(h[k], W, base[k], W); line += f" ({100*iv.value:+.2f} [{100*iv.low:+.2f},{100*iv.high:+.2f}])"
    if typed is not None:
        ch = np.bincount(mea.owner, mea.len, len(W)); sv = np.bincount(mea.owner, mea.len - typed, len(W)); line += f" kss {100*sv.sum()/ch.sum():.2f}"; h["kss"] = sv
        if base is not None and "kss" in base:
            iv = difference_interval(sv, ch, base["kss"], ch); line += f" ({100*iv.value:+.2f} [{100*iv.low:+.2f},{100*iv.high:+.2f}])"
    say(line); return h
ones = lambda w: np.tile(np.array(w, float), [mea.n, 1])
first = True; ref = None
grid = [((1 - b) * (1 - c), b * (1 - c), c) for c in (0, .05, .1, .2, .35, .5, .7, .9) for b in (0, .05, .1, .2, .35, .5, .65, .8, .9, .97, 1)]
KSS = {} if os.environ.get('NOKSS') else {'today': ('buckets', 'buckets x conf', 'network', 'ngram alone')} if 'today' in variants else {}

GATES = os.environ.get('GATES', '').split(','); ORC = os.environ.get('ORC', '').split(',')
def quant(x, n): return np.quantile(x, np.arange(1, n) / n)
for k, model in variants.items():
    fs, ms = fit.stats(model), mea.stats(model)
    sch = {}
    for part, st, S in ((fit, fs, None), (mea, ms, None)):
        st["b0"] = np.minimum(np.maximum(st["order"] - 1, 0), 2) * 4 + part.known
    emp = lambda nb: (np.arange(nb) % 4) == 0
    P = np.stack([fit.pn, fs["pg"], fit.pc], 1)
    t = em(P, fs["b0"], 12, emp(12)); sch["buckets"] = t[ms["b0"]]
    # without cache: two parts
    P2 = P.copy(); P2[:, 2] = 0; t2 = em(P2, fs["b0"], 12, np.ones(12, bool)); sch["no cache"] = t2[ms["b0"]]
    for nm, fv, mv, nb in (("conf", fit.top, mea.top, 6), ("entropy", fit.ent, mea.ent, 6)):
        e = quant(fv, nb); bf = np.digitize(fv, e) * 12 + fs["b0"]; bm = np.digitize(mv, e) * 12 + ms["b0"]
        t = em(P, bf, 12 * nb, emp(12 * nb)); sch["buckets x " + nm] = t[bm]
    e1, e2 = quant(fit.top, 5), quant(fs["gtop"], 5)
    bf = (np.digitize(fit.top, e1) * 5 + np.digitize(fs["gtop"], e2)) * 12 + fs["b0"]; bm = (np.digitize(mea.top, e1) * 5 + np.digitize(ms["gtop"], e2)) * 12 + ms["b0"]
    sch["buckets x conf x ngram conf"] = em(P, bf, 300, emp(300))[bm]
    c = np.digitize(un[fit.prev], quant(un[fit.prev], 5)); cm = np.digitize(un[mea.prev], quant(un[fit.prev], 5))
    sch["buckets x conf x word class"] = em(P, (np.digitize(fit.top, e1) * 5 + c) * 12 + fs["b0"], 300, emp(300))[(np.digitize(mea.top, e1) * 5 + cm) * 12 + ms["b0"]]
    if k in GATES: g = fit_gate(features(fit, fs, un), P, fit.known, owner=fit.owner); sch["gate"] = g(features(mea, ms, un), mea.known)
    if pop != "validation" or True:
        Pm = np.stack([mea.pn, ms["pg"], mea.pc], 1)
        bm5 = np.digitize(mea.top, quant(fit.top, 6)) * 12 + ms["b0"]
        sch["buckets x conf, fitted on the measured"] = em(Pm, bm5, 72, emp(72), prior=1.)[bm5]
    if first: sch["network"] = ones([1, 0, 0])
    sch["ngram alone"] = ones([1e-9, 1, 0])
    nll = {n: -np.log(np.maximum((w * np.stack([mea.pn, ms["pg"], mea.pc], 1)).sum(1), 1e-12)).mean() for n, w in sch.items()}
    c = mea.cands(model); say("cands")
    for n in sch:
        ty = mea.typed_of(model, sch[n]) if n in KSS.get(k, ()) else None
        rk = mea.rank_of(c, sch[n]); h = show(f"{k} | {n} | ppl {np.exp(nll[n]):.2f}", rk, ty, base=ref)
        if first and n == "buckets": ref = h
    if k in ORC:
        orc = {1: np.zeros(mea.n, bool), 3: np.zeros(mea.n, bool)}
        for g in grid:
            w = ones(g); w[mea.known == 0, 2] = 0; rk = mea.rank_of(c, w); orc[1] |= rk < 1; orc[3] |= rk < 3
    if k in ORC: say(f"{k} | ORACLE of weights per position: top1 {100*orc[1].sum()/W.sum():.2f} top3 {100*orc[3].sum()/W.sum():.2f}")
    first = False
