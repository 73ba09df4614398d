from tff_keyboard.data.batches import batches_dataset, client_batches, evaluation_batches
from tff_keyboard.data.client_data import client_data_batches, client_data_vocabulary
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.text.tokenizer import Tokenizer
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary

__all__ = [
    "ClientStore",
    "NormalisationRules",
    "Tokenizer",
    "Vocabulary",
    "batches_dataset",
    "client_batches",
    "client_data_batches",
    "client_data_vocabulary",
    "evaluation_batches",
]
