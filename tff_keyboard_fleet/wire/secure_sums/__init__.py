"""Sums of integer vectors: the server learns the sum and none of the vectors.

UNAUDITED: only its authors have checked it, and NumPy and Python leave secrets in memory.

Each device adds masks that cancel in the sum: one with each neighbour, agreed by X25519, and one of
its own. Secrets are shared among neighbours, so that the masks of devices that drop out can be
removed. For each device the server recovers either its own mask, if the device reported, or the key
of its pairwise masks, if it did not, and never both.

    1 advertise   keys, signed                     Advert        -> each: its neighbours' adverts
    2 share       secrets, encrypted, in shares    Envelope s    -> each: the envelopes for it
    3 report      vector plus masks, mod 2^bits,   Report        -> each: which pairs reported, with
                  a signature for each pair                         their signatures, and which not
    4 confirm     a signature for each pair that   Confirmations -> each: `threshold` of its pairs'
                  reported                                          confirmations
    5 unmask      one share of each pair           Reveal        -> the sum

Step 4 is the consistency step. Without it the server could send each device another list of
dropouts and so unmask one device without any help. `neighbours.py` states and proves the protection
that devices have against a lying server if they follow these steps.

Sources: Bonawitz et al. 2017, https://eprint.iacr.org/2017/281, figure 4, whose round 3 is the
consistency step for a complete graph; Bell et al. 2020, https://eprint.iacr.org/2020/704: the graph
of neighbours, and in its protocol for a malicious server the two signatures for a sparse graph.
"""
