"""Client stores by name, so that each node of a cluster opens its own copy."""

import dataclasses

from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.program.cluster import node_facts
from tff_keyboard.storage import names
from tff_keyboard.storage.errors import DataError


@dataclasses.dataclass(frozen=True)
class StoreReference:
    """A client store."""

    place: str
    card_hash: str

    @classmethod
    def of(cls, store: ClientStore) -> "StoreReference":
        return cls(str(store.directory.absolute()), store.card_hash)

    def open(self) -> ClientStore:
        """The store, where it is on this machine."""
        store = ClientStore(node_facts.place_of(self.place))
        if store.card_hash != self.card_hash:
            raise DataError(
                f"{store.directory} is not the client store that the driver of the cluster has."
            )
        return store


def files_of(*stores: ClientStore | None) -> dict[str, str]:
    """The files that every node must have, as `node_facts.facts` takes them."""
    return {
        f"store {store.directory.name}": str(store.directory.absolute() / names.DATA_CARD)
        for store in stores
        if store is not None
    }
