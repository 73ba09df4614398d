"""Client stores by name, so that each node of a cluster opens its own copy."""

import dataclasses

from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.execution.cluster import node_facts
from tff_keyboard.storage import names
from tff_keyboard.storage.errors import DataError


@dataclasses.dataclass(frozen=True)
class StoreReference:
    """Path and card hash of a client store."""

    place: str
    card_hash: str

    @classmethod
    def of(cls, store: ClientStore) -> "StoreReference":
        return cls(str(store.directory.absolute()), store.card_hash)

    def open(self) -> ClientStore:
        """Opens this machine's copy of the store."""
        store = ClientStore(node_facts.place_of(self.place))
        if store.card_hash != self.card_hash:
            raise DataError(f"{store.directory} differs from the client store of the driver.")
        return store


def files_of(*stores: ClientStore | None) -> dict[str, str]:
    """Returns the required files of every node, as `node_facts.facts` takes them."""
    return {
        f"store {store.directory.name}": str(store.directory.absolute() / names.DATA_CARD)
        for store in stores
        if store is not None
    }
