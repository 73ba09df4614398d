"""The clients of a benchmark: people of a store, or random words."""

import numpy as np

from benchmarks.round.step import make_batches


def store_clients(store, num_clients, messages, batch_size, longest, seed):
    """Batches of each client: the first clients by id that have at least so many messages.

    In the order in which training hands them out; every contestant gets it.
    """
    from tff_keyboard.data import batches
    from tff_keyboard.federated.learning.client_delivery import largest_first

    counts = zip(store.client_ids("train"), store.num_examples("train"), strict=True)
    chosen = [client for client, count in counts if count >= messages][:num_clients]
    if len(chosen) < num_clients:
        raise SystemExit(f"{len(chosen)} clients have {messages} messages, not {num_clients}.")
    clients = [
        batches.client_batches(
            store.examples("train", client),
            batch_size=batch_size,
            max_length=longest,
            max_examples=messages,
            epochs=1,
            seed=(seed, index),
        )
        for index, client in enumerate(chosen)
    ]
    order = largest_first([num_tokens([client]) for client in clients], 1)
    return [clients[position] for position in order]


def synthetic_clients(num_clients, messages, batch_size, longest, seed):
    """Like `store_clients`, but random words, in batches of `batch_size` at most."""
    batch_size = min(batch_size, messages)
    return [
        make_batches(messages // batch_size, batch_size, longest, [seed, n], False)
        for n in range(num_clients)
    ]


def num_tokens(clients):
    return sum(int(np.count_nonzero(batch[:, 1:])) for client in clients for batch in client)
