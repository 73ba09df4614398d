"""Sums of integer vectors that a server learns without learning any of them.

UNAUDITED: nobody but its authors has checked it, and NumPy and Python leave secrets in memory.

Each device adds masks that cancel in the sum: one with each neighbour, agreed by X25519, and one of
its own. Secrets are shared among neighbours, so that masks of devices that drop out can be removed;
of one device either the own mask is recovered, if it reported, or the pairwise ones, if it did not,
never both.

    1 advertise   keys, signed                     Advert      -> each: its neighbours' adverts
    2 share       secrets, encrypted, in shares    Envelope s  -> each: the envelopes for it
    3 report      vector plus masks, mod 2^bits    bytes       -> each: who reported, who did not
    4 unmask      one share a neighbour            Reveal s    -> the sum

The server relays and is trusted to pass on keys of real devices; what it may see follows from what
devices refuse (`device.py`). Every secret is for one round.

Sources: Bonawitz et al. 2017, https://eprint.iacr.org/2017/281; the graph of neighbours: Bell et
al. 2020, https://eprint.iacr.org/2020/704.
"""
