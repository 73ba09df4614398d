"""The clients of a benchmark: clients of a store, or random words."""

import numpy as np

from tff_keyboard_lab.benchmarks.round.step import make_batches


def store_clients(store, num_clients, messages, batch_size, longest, seed):
    """Returns batches of the first clients by id that have at least `messages` messages.

    The largest come first, so that no core waits long for the last. Every contestant gets this
    order.
    """
    from tff_keyboard.data import batches

    counts = zip(store.client_ids("train"), store.num_messages("train"), strict=True)
    selected = [client for client, count in counts if count >= messages][:num_clients]
    if len(selected) < num_clients:
        raise SystemExit(f"{len(selected)} clients have {messages} messages, not {num_clients}.")
    clients = [
        batches.client_batches(
            store.messages("train", client),
            batch_size=batch_size,
            max_length=longest,
            max_examples=messages,
            epochs=1,
            seed=(seed, index),
        )
        for index, client in enumerate(selected)
    ]
    return sorted(clients, key=lambda client: -num_tokens([client]))


def synthetic_clients(num_clients, messages, batch_size, longest, seed):
    """Returns clients like `store_clients`, but with random words.

    Batches have at most `batch_size` messages.
    """
    batch_size = min(batch_size, messages)
    return [
        make_batches(messages // batch_size, batch_size, longest, [seed, n], False)
        for n in range(num_clients)
    ]


def num_tokens(clients):
    return sum(int(np.count_nonzero(batch[:, 1:])) for client in clients for batch in client)
