"""Evaluates a model on the raw text of TFF client data, with intervals over clients."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tff_keyboard.data import client_data as client_data_lib
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.evaluation import run_evaluation
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.metrics.own_metrics import CountedMetric
from tff_keyboard.evaluation.results.result import Evaluation, ModelFacts

if TYPE_CHECKING:
    import tensorflow as tf


def evaluate_client_data(
    model: "tf.keras.Model",
    vocabulary: Vocabulary,
    client_data: client_data_lib.ClientData,
    *,
    feature: str,
    name: str = "held_out",
    max_length: int = 0,
    metrics: Sequence[CountedMetric] = (),
) -> Evaluation:
    """Evaluates a model on clients that it was not trained on.

        _, held_out, _ = tff.simulation.datasets.stackoverflow.load_data()
        evaluation = evaluate_client_data(model, vocabulary, held_out, feature="tokens")
        print(evaluation.metrics["recall_at_3_no_eos"])

    Args:
      model: A model of this package, or any Keras model that maps word ids [batch, time] to logits
        [batch, time, vocabulary]. Its current weights are used.
      vocabulary: Vocabulary that gives the rows of the model. Its rules split the text into words.
      client_data: The held-out clients. Their examples are mappings.
      feature: Name of the scalar string feature with a message. Messages without a word and clients
        without a message are left out.
      name: Name of the text in the evaluation.
      max_length: Maximum number of targets in a message; 0 means whole messages.
      metrics: Metrics of the user.

    Returns:
      The evaluation. `metrics` has every metric with its interval over the clients. Client ids are
      replaced by numbers.

    Raises:
      DivergedError: If the model's predictions are not finite.
      ValueError: If the model is not a next-word model, model and vocabulary differ in size, or no
        client typed a word.
    """
    from tff_keyboard.predictors.keras_predictor import KerasPredictor

    messages_of = client_data_lib.message_reader(vocabulary.rules, feature)
    messages = {
        client: messages_of(client_data.create_tf_dataset_for_client(client))
        for client in client_data.client_ids
    }
    messages = {client: texts for client, texts in messages.items() if texts}
    if not messages:
        raise ValueError(f"No client of `client_data` has a word in the feature {feature!r}.")
    predictor = KerasPredictor(model, vocabulary)
    return run_evaluation.evaluate_named(
        predictor,
        ModelFacts(name=predictor.model.name_in_registry),
        TypedText(name, tuple(messages), tuple(messages.values())),
        max_length=max_length,
        metrics=metrics,
    )
