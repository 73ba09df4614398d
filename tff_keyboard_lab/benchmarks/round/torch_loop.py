"""The federated round of `tff_keyboard_lab/benchmarks/round/round.py` as a plain PyTorch loop.

It runs in its own Python with torch and NumPy, and imports nothing of this project. It reads one
line from stdin for each round, and answers with a line of JSON: seconds, loss after the round.
It is the fastest plain form we know: the products with the inputs are hoisted out of the loop over
time, logits are computed at real targets only, the loss is the fused `cross_entropy`, and only the
weights are copied between clients.
"""

import argparse
import json
import sys
import time

import numpy as np
import torch
from torch.nn import functional


def hidden_at_targets(weights, batch):
    """Returns `(hidden [n, dim], targets [n])` of a [rows, time + 1] batch."""
    embedding, kernel, recurrent_kernel, bias, projection = weights
    ids, targets = batch[:, :-1], batch[:, 1:]
    units, dim = projection.shape
    pre = functional.embedding(ids, embedding) @ kernel + bias
    r = torch.zeros(len(ids), dim)
    c = torch.zeros(len(ids), units)
    outputs = []
    for step in pre.unbind(1):
        i, g, o = (step + r @ recurrent_kernel).chunk(3, dim=1)
        i = torch.sigmoid(i)
        c = (1.0 - i) * c + i * torch.tanh(g)
        r = (torch.sigmoid(o) * torch.tanh(c)) @ projection
        outputs.append(r)
    real = targets != 0
    return torch.stack(outputs, dim=1)[real], targets[real]


def loss_of(weights, batch, reduction="mean"):
    hidden, targets = hidden_at_targets(weights, batch)
    return functional.cross_entropy(hidden @ weights[0].T, targets, reduction=reduction)


def train(weights, batches, learning_rate):
    """Trains with plain SGD, one step a batch, and returns the new weights."""
    weights = [w.clone().requires_grad_() for w in weights]
    for batch in batches:
        gradients = torch.autograd.grad(loss_of(weights, batch), weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.sub_(gradient, alpha=learning_rate)
    return [w.detach() for w in weights]


def add_clients(sums, weights, clients, learning_rate):
    """Trains all `clients` from `weights` and adds their weights, times messages, to `sums`."""
    for batches in clients:
        messages = sum(len(batch) for batch in batches)
        for part, new in zip(sums, train(weights, batches, learning_rate), strict=True):
            part.add_(new, alpha=messages)


class FederatedRound:
    """A round of FedAvg. Clients weigh by their messages.

    Args:
      clients: The batches of each client.
      learning_rate: Of plain SGD.
      processes: Number of processes that train every n-th client each. Weights and sums lie in
        memory that all of them share.
    """

    def __init__(self, weights, clients, learning_rate, processes=1):
        self._learning_rate = learning_rate
        self._messages = sum(len(batch) for batches in clients for batch in batches)
        self._weights = [w.clone().share_memory_() for w in weights]
        self._workers = []
        for number in range(1, processes):
            sums = [torch.zeros_like(w).share_memory_() for w in weights]
            here, there = torch.multiprocessing.Pipe()
            part = clients[number::processes]
            worker = torch.multiprocessing.get_context("fork").Process(
                target=self._work, args=(there, sums, part), daemon=True
            )
            worker.start()
            self._workers.append((here, sums))
        self._clients_here = clients[::processes]

    def _work(self, questions, sums, clients):
        while True:
            questions.recv()
            for part in sums:
                part.zero_()
            add_clients(sums, self._weights, clients, self._learning_rate)
            questions.send(None)

    def __call__(self, weights):
        """Returns the weights after a round that starts from `weights`."""
        for shared, new in zip(self._weights, weights, strict=True):
            shared.copy_(new)
        for worker, _ in self._workers:
            worker.send(None)
        sums = [torch.zeros_like(w) for w in weights]
        add_clients(sums, self._weights, self._clients_here, self._learning_rate)
        for worker, sums_of_worker in self._workers:
            worker.recv()
            sums = [ours + theirs for ours, theirs in zip(sums, sums_of_worker, strict=True)]
        return [part / self._messages for part in sums]


def load(path):
    """Returns `(weights, clients, learning rate)` of the file that `round.py` wrote."""
    with np.load(path) as file:
        weights = [torch.from_numpy(file[f"weight_{n}"]) for n in range(5)]
        clients = [
            [
                torch.from_numpy(file[f"batch_{client}_{n}"]).long()
                for n in range(int(file["batches_of_client"][client]))
            ]
            for client in range(len(file["batches_of_client"]))
        ]
        return weights, clients, float(file["learning_rate"])


@torch.no_grad()
def mean_loss(weights, clients):
    """Returns nats a real target, over all batches."""
    batches = [batch for client in clients for batch in client]
    total = sum(float(loss_of(weights, batch, "sum")) for batch in batches)
    return total / sum(int((batch[:, 1:] != 0).sum()) for batch in batches)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help=".npz with weights and batches, from round.py")
    parser.add_argument(
        "--threads", type=int, help="threads of an operation; default: torch's choice"
    )
    parser.add_argument("--processes", type=int, default=1, help="they share a round's clients")
    flags = parser.parse_args()
    if flags.threads:
        torch.set_num_threads(flags.threads)
    weights, clients, learning_rate = load(flags.file)
    federated_round = FederatedRound(weights, clients, learning_rate, flags.processes)
    after = federated_round(weights)  # warm
    loss = None
    for _ in sys.stdin:
        start = time.perf_counter()
        after = federated_round(weights)
        seconds = time.perf_counter() - start
        loss = mean_loss(after, clients) if loss is None else loss
        answer = {
            "seconds": seconds,
            "loss": loss,
            "threads": torch.get_num_threads(),
            "version": torch.__version__,
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
