"""The round of `round.py`, or with the GRU of `own_models.py`, in pfl-research and in Flower.

It uses the step of torch_loop.py and runs in its own Python with torch and one of the two. Like
torch_loop.py, it answers each line of stdin with a line of JSON. Every round starts from the same
weights; clients weigh by messages. pfl trains the clients one after the other in this process,
Flower one per core in Ray's actors.
"""

import argparse
import json
import os
import pathlib
import sys
import time
import traceback

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import torch_loop


def answer(seconds, loss, version):
    print(json.dumps({"seconds": seconds, "loss": loss, "version": version}), flush=True)


def pfl_rounds(model_name, weights, clients, learning_rate):
    """Runs a round of pfl's FederatedAveraging for each line of stdin, with all clients.

    Each answer is a line of JSON: seconds of the round, loss after it (nats per target), and the
    version of pfl. One round before the first answer is not timed.

    Args:
      model_name: A key of `torch_loop.LOGITS`.
      weights: The weights of this model.
      clients: For each client its batches, int64 [messages, time + 1].
      learning_rate: Learning rate of the clients' SGD; the server's is 1.
    """
    import importlib.metadata

    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByDatapoints
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Weighted
    from pfl.model.pytorch import PyTorchModel

    class Module(torch.nn.Module):
        """The model with the interface of pfl-research: loss and metrics of a batch."""

        def __init__(self):
            super().__init__()
            for number, weight in enumerate(weights):
                self.register_parameter(f"weight_{number}", torch.nn.Parameter(weight.clone()))

        def loss(self, batch):
            width = int((batch != 0).sum(1).max())
            ids = batch[:, :width].long()
            return torch_loop.loss_of(model_name, list(self.parameters()), ids)

        @torch.no_grad()
        def metrics(self, batch):
            return {"loss": Weighted(float(self.loss(batch)) * len(batch), len(batch))}

    longest = max(batch.shape[1] for client in clients for batch in client)
    batch_size = max(len(batch) for client in clients for batch in client)
    users = [
        torch.cat([torch.nn.functional.pad(b, (0, longest - b.shape[1])) for b in client])
        for client in clients
    ]
    remaining = iter(range(0))

    def next_user():
        nonlocal remaining
        user = next(remaining, None)
        if user is None:
            remaining = iter(range(len(users)))
            user = next(remaining)
        return user

    data = FederatedDataset(lambda user: Dataset(raw_data=(users[user],), user_id=user), next_user)
    module = Module()
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    algorithm = FederatedAveraging()
    backend = SimulatedBackend(data, data, postprocessors=[WeightByDatapoints()])
    parameters = NNAlgorithmParams(
        central_num_iterations=10**9,
        evaluation_frequency=10**9,
        train_cohort_size=len(users),
        val_cohort_size=None,
    )
    training = NNTrainHyperParams(
        local_num_epochs=1, local_learning_rate=learning_rate, local_batch_size=batch_size
    )

    def one_round():
        with torch.no_grad():
            for parameter, weight in zip(module.parameters(), weights, strict=True):
                parameter.copy_(weight)
        start = time.perf_counter()
        # Iteration 1: pfl would evaluate in iteration 0.
        contexts, _, _ = algorithm.get_next_central_contexts(model, 1, parameters, training)
        statistics, metrics = backend.gather_results(
            model=model, training_algorithm=algorithm, central_context=contexts[0]
        )
        algorithm.process_aggregated_statistics(contexts[0], metrics, model, statistics)
        return time.perf_counter() - start

    one_round()
    for _ in sys.stdin:
        seconds = one_round()
        after = [parameter.detach() for parameter in module.parameters()]
        loss = torch_loop.mean_loss(model_name, after, clients)
        answer(seconds, loss, importlib.metadata.version("pfl"))


def flower_rounds(model, weights, clients, learning_rate, file):
    """Serves stdin from a Flower server app, with a FedAvg round for each line."""
    import flwr
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    folder = str(pathlib.Path(__file__).parent)
    client_app, server_app = ClientApp(), ServerApp()

    @client_app.train()
    def train(message, context):
        """Trains the client of a Flower node, and returns its weights and number of messages."""
        import sys

        sys.path.insert(0, folder)
        import torch
        import torch_loop

        torch.set_num_threads(1)  # an actor has one core
        cache = vars(torch_loop).setdefault("clients_of_file", {})  # of the process
        if file not in cache:
            cache[file] = torch_loop.load(file)[2]
        mine = cache[file][int(context.node_config["partition-id"])]
        arrays = message.content["arrays"].to_numpy_ndarrays()
        before = [torch.from_numpy(array.copy()) for array in arrays]
        new = torch_loop.train(model, before, mine, learning_rate)
        content = RecordDict(
            {
                "arrays": ArrayRecord([w.numpy() for w in new]),
                "metrics": MetricRecord({"num-examples": sum(len(b) for b in mine)}),
            }
        )
        return Message(content=content, reply_to=message)

    @server_app.main()
    def main(grid, context):
        initial = ArrayRecord([w.numpy() for w in weights])

        def one_round():
            strategy = FedAvg(
                fraction_evaluate=0.0,
                min_train_nodes=len(clients),
                min_available_nodes=len(clients),
            )
            start = time.perf_counter()
            result = strategy.start(grid=grid, initial_arrays=initial, num_rounds=1)
            return time.perf_counter() - start, result

        one_round()
        for _ in sys.stdin:
            seconds, result = one_round()
            new = [torch.from_numpy(np.copy(a)) for a in result.arrays.to_numpy_ndarrays()]
            answer(seconds, torch_loop.mean_loss(model, new, clients), flwr.__version__)

    try:
        run_simulation(
            server_app,
            client_app,
            num_supernodes=len(clients),
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
        )
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # Flower's threads would wait forever, and so would the benchmark


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help=".npz with weights and batches, from round.py")
    parser.add_argument("simulator", choices=["pfl", "flower"])
    flags = parser.parse_args()
    model, weights, clients, learning_rate = torch_loop.load(flags.file)
    if flags.simulator == "pfl":
        pfl_rounds(model, weights, clients, learning_rate)
    else:
        flower_rounds(model, weights, clients, learning_rate, flags.file)


if __name__ == "__main__":
    main()
