"""The federated round of `tff_keyboard_lab/benchmarks/round/round.py` as a plain PyTorch loop.

It runs in its own Python with torch and NumPy, and imports nothing of this project. It reads one
line from stdin for each round, and answers with a line of JSON: seconds, loss after the round.
It is the fastest plain form we know: the products with the inputs are hoisted out of the loop over
time, logits are computed at real targets only, the loss is the fused `cross_entropy`, and only the
weights are copied between clients. The GRU of `own_models.py` is PyTorch's own operation.
"""

import argparse
import json
import sys
import time

import numpy as np
import torch
from torch.nn import functional


def cifg_logits(weights, ids, is_real):
    """Returns the logits of the CIFG at the real targets, [n, vocabulary].

    Args:
      weights: Tensors in the order of the model's `weights`.
      ids: [rows, time].
      is_real: [rows, time] bool, false at padding; n of them are true.
    """
    embedding, kernel, recurrent_kernel, bias, projection = weights
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
    return torch.stack(outputs, dim=1)[is_real] @ embedding.T


def gru_logits(weights, ids, is_real):
    """Returns the logits of the GRU of `own_models.py` at the real targets, [n, vocabulary].

    Args:
      weights: Tensors in the order of Keras: embedding, three of the GRU, and two dense layers.
      ids: [rows, time].
      is_real: [rows, time] bool, false at padding; n of them are true.
    """
    embedding, *recurrent, narrow, narrow_bias, wide, wide_bias = weights
    state = torch.zeros(1, len(ids), recurrent[1].shape[1])
    inputs = functional.embedding(ids, embedding)
    gru_options = {"has_biases": True, "num_layers": 1, "dropout": 0.0, "train": True}
    gru_options |= {"bidirectional": False, "batch_first": True}
    outputs, _ = torch.gru(inputs, state, recurrent, **gru_options)
    return (outputs[is_real] @ narrow + narrow_bias) @ wide + wide_bias


def gru_weights_of_keras(weights):
    """Returns the weights of a Keras GRU, gates (z, r, h), in PyTorch's order (r, z, n)."""

    def of_torch(matrix):
        z, r, n = matrix.chunk(3, dim=-1)
        return torch.cat([r, z, n], dim=-1).t().contiguous()

    embedding, kernel, recurrent_kernel, bias, *dense = weights
    biases = (of_torch(one) for one in bias)
    return [embedding, of_torch(kernel), of_torch(recurrent_kernel), *biases, *dense]


LOGITS = {"cifg": cifg_logits, "gru": gru_logits}


def loss_of(model, weights, batch, reduction="mean"):
    """Returns the loss over the real targets of a [rows, time + 1] batch, in nats."""
    ids, targets = batch[:, :-1], batch[:, 1:]
    is_real = targets != 0
    logits = LOGITS[model](weights, ids, is_real)
    return functional.cross_entropy(logits, targets[is_real], reduction=reduction)


def train(model, weights, batches, learning_rate):
    """Trains with plain SGD, one step a batch, and returns the new weights."""
    weights = [w.clone().requires_grad_() for w in weights]
    for batch in batches:
        gradients = torch.autograd.grad(loss_of(model, weights, batch), weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.sub_(gradient, alpha=learning_rate)
    return [w.detach() for w in weights]


def add_clients(model, sums, weights, clients, learning_rate):
    """Trains all `clients` from `weights` and adds their weights, times messages, to `sums`."""
    for batches in clients:
        messages = sum(len(batch) for batch in batches)
        trained = train(model, weights, batches, learning_rate)
        for part, new in zip(sums, trained, strict=True):
            part.add_(new, alpha=messages)


class FederatedRound:
    """A round of FedAvg. Clients weigh by their messages.

    Args:
      model: A key of `LOGITS`.
      weights: The weights of the first round, for their shapes.
      clients: The batches of each client.
      learning_rate: Of plain SGD.
      processes: Number of processes that train every n-th client each. Weights and sums lie in
        memory that all of them share.
    """

    def __init__(self, model, weights, clients, learning_rate, processes=1):
        self._model = model
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
        """Runs in a child process. Each question adds its clients' weights to the shared sums."""
        while True:
            questions.recv()
            for part in sums:
                part.zero_()
            add_clients(self._model, sums, self._weights, clients, self._learning_rate)
            questions.send(None)

    def __call__(self, weights):
        """Returns the weights after a round that starts from `weights`."""
        for shared, new in zip(self._weights, weights, strict=True):
            shared.copy_(new)
        for worker, _ in self._workers:
            worker.send(None)
        sums = [torch.zeros_like(w) for w in weights]
        add_clients(self._model, sums, self._weights, self._clients_here, self._learning_rate)
        for worker, sums_of_worker in self._workers:
            worker.recv()
            sums = [ours + theirs for ours, theirs in zip(sums, sums_of_worker, strict=True)]
        return [part / self._messages for part in sums]


def load(path):
    """Returns `(model, weights, clients, learning rate)` of a file of `write_for_others`."""
    with np.load(path) as file:
        model = str(file["model"])
        num_weights = sum(name.startswith("weight_") for name in file)
        weights = [torch.from_numpy(file[f"weight_{n}"]) for n in range(num_weights)]
        if model == "gru":
            weights = gru_weights_of_keras(weights)
        clients = [
            [
                torch.from_numpy(file[f"batch_{client}_{n}"]).long()
                for n in range(int(file["batches_of_client"][client]))
            ]
            for client in range(len(file["batches_of_client"]))
        ]
        return model, weights, clients, float(file["learning_rate"])


@torch.no_grad()
def mean_loss(model, weights, clients):
    """Returns nats a real target, over all batches."""
    batches = [batch for client in clients for batch in client]
    total = sum(float(loss_of(model, weights, batch, "sum")) for batch in batches)
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
    model, weights, clients, learning_rate = load(flags.file)
    federated_round = FederatedRound(model, weights, clients, learning_rate, flags.processes)
    after = federated_round(weights)  # warm
    loss = None
    for _ in sys.stdin:
        start = time.perf_counter()
        after = federated_round(weights)
        seconds = time.perf_counter() - start
        loss = mean_loss(model, after, clients) if loss is None else loss
        answer = {
            "seconds": seconds,
            "loss": loss,
            "threads": torch.get_num_threads(),
            "version": torch.__version__,
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
