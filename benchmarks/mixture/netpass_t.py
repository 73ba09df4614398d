import sys, numpy as np, time
from tff_keyboard.data.store.client_store import ClientStore
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor
from tff_keyboard.predictors.hybrid.hybrid_predictor import rows_in
s = ClientStore(sys.argv[1]); net = KeyboardPredictor(sys.argv[2]); msgs = s.all_examples("train")
inv = rows_in(s.vocabulary, net.vocabulary)  # row of the net for each row of the store
inv = np.arange(len(s.vocabulary)) if inv is None else inv
lp = []; t = time.time()
for i in range(0, len(msgs), 64):
    ms = msgs[i:i + 64]; L = max(map(len, ms)) + 1; ids = np.zeros([len(ms), L], np.int32); tg = np.zeros_like(ids)
    for k, m in enumerate(ms): m = inv[m]; ids[k, 0] = 1; ids[k, 1:len(m) + 1] = m; tg[k, :len(m)] = m; tg[k, len(m)] = 2
    sc = net.log_probabilities(ids); lp.append(sc[np.arange(len(sc)), tg[ids != 0]])
    if i // 64 % 40 == 0: print(i, len(msgs), time.time() - t, flush=True)
lp = np.concatenate(lp); np.savez(sys.argv[3], lp=lp.astype(np.float32), top=lp); print(-lp.mean())
