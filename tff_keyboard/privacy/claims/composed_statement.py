"""The joint privacy statement of several runs about the clients that they share."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from tff_keyboard.privacy.claims.epsilon_text import epsilon_in_words
from tff_keyboard.privacy.claims.guarantee import (
    composed,
    distinct,
    history,
    is_less_real,
    unclaimed,
)
from tff_keyboard.privacy.claims.own_rehearsal import rehearsed_own_clients
from tff_keyboard.privacy.claims.statement import unchecked_caveats
from tff_keyboard.privacy.ledger import client_digests
from tff_keyboard.privacy.ledger.client_digests import ClientDigests
from tff_keyboard.privacy.ledger.ledger import contents, read_ledger
from tff_keyboard.privacy.ledger.ledger_header import CHECK_IN, Ancestor, LedgerHeader
from tff_keyboard.privacy.ledger.lineage import ancestors, rehearses, validates
from tff_keyboard.storage.errors import printable
from tff_keyboard.storage.run_directory import RunDirectory


@dataclasses.dataclass(frozen=True)
class LedgerAndClients:
    """The facts about a run that composition needs."""

    header: LedgerHeader
    rounds: int
    # Clients whose text it was trained on; None if the file with their digests is missing
    clients: ClientDigests | None
    contents: tuple[str, ...] = ()  # tags of the data of its rounds (`ledger.contents`)
    rehearses: bool = False  # rehearses a corpus, without noise for its clients
    rehearsed: ClientDigests | None = None  # the clients of that corpus; None if unknown
    rehearsed_own: bool = False  # whether its own clients are among them (`own_rehearsal.py`)
    store_sha256: str = ""  # hash of its client store; "" if it is unknown
    # Whether metrics of its validation clients chose its model, and these clients; None if unknown
    validates: bool = False
    validated: ClientDigests | None = None

    @classmethod
    def of_run(cls, path: pathlib.Path) -> "LedgerAndClients":
        """Reads the ledger and the clients of a run directory.

        Raises `RunDirectoryError` if it has no ledger, or a damaged one.
        """
        run = RunDirectory(path)
        header, rounds = read_ledger(run.privacy_ledger)
        return cls(
            header,
            len(rounds),
            client_digests.read(run.client_digests),
            contents=contents(rounds),
            rehearses=rehearses(run),
            rehearsed=client_digests.read(run.rehearsed_client_digests),
            rehearsed_own=bool(rehearsed_own_clients(run, header)),
            store_sha256=run.store_sha256,
            validates=run.exists() and validates(run),
            validated=client_digests.read(run.validation_client_digests),
        )

    def shares(self, other: "LedgerAndClients") -> bool:
        """Checks if some clients may be in both runs. Counts an unknown overlap as shared.

        The clients of a run on whose text the model of the other run depends count, too: through an
        earlier run, or because their text chose it.
        """
        if self.store_sha256 and self.store_sha256 == other.store_sha256:
            return True
        if self.clients is None or other.clients is None:
            return True
        return self.clients.overlap(other.clients) != client_digests.NONE or any(
            one.ancestors_of_others(another) or one.may_have_validated_on(another)
            for one, another in ((self, other), (other, self))
        )

    def ancestors_of_others(self, other: "LedgerAndClients") -> list[Ancestor]:
        """Returns ancestors without clients of this run that may have clients of another run.

        Their cost is not part of this run's statement, so no joint statement can be made.
        """
        without_own_clients = [
            ancestor for ancestor in self.header.ancestors if not ancestor.shares_clients
        ]
        if not without_own_clients or other.clients is None:
            return without_own_clients
        ancestors_for_other = ancestors(
            self.header.initial_model,
            ours=[other.clients],
            store_sha256=other.store_sha256,
        )
        without_others_clients = {
            (ancestor.run_id, ancestor.model)
            for ancestor in ancestors_for_other
            if not ancestor.shares_clients
        }
        return [
            ancestor
            for ancestor in without_own_clients
            if (ancestor.run_id, ancestor.model) not in without_others_clients
        ]

    def may_have_rehearsed(self, other: "LedgerAndClients") -> bool:
        """Checks if clients of another run may be in the general corpus of this one."""
        if not self.rehearses or self.rehearsed is None or other.clients is None:
            return self.rehearses
        rehearsed = other.rehearsed.digests if other.rehearsed else frozenset()
        users = dataclasses.replace(other.clients, digests=other.clients.digests - rehearsed)
        return self.rehearsed.overlap(users) != client_digests.NONE

    def may_have_validated_on(self, other: "LedgerAndClients") -> bool:
        """Checks if the text of train clients of another run may have chosen this run's model.

        Clients of one store are clients of training or of validation. Two ledgers with the id of
        one run, such as the ledger of a lost directory and its restored backup, have one store.
        A server validates on its own store. As in the statement of each run with devices, this
        store is not covered, and it is not text of devices that joined another run.
        """
        is_same_store = self.store_sha256 and self.store_sha256 == other.store_sha256
        is_same_run = self.header.run_id and self.header.run_id == other.header.run_id
        are_both_of_devices = self.header.sampling == other.header.sampling == CHECK_IN
        if not self.validates or is_same_store or is_same_run or are_both_of_devices:
            return False
        if self.validated is None or other.clients is None:
            return True
        return self.validated.overlap(other.clients) != client_digests.NONE


def composed_statement(ledgers: Mapping[str, LedgerAndClients]) -> str:
    """Returns the joint guarantees of several runs, one for each shared population, or "".

    Runs whose clients cannot be compared are treated as runs on one population.
    """
    texts = []
    for group in _populations(ledgers):
        if len(group) < 2:
            continue
        listed = [ledgers[name] for name in group]
        problems = {one.model for part in listed for one in unclaimed(part.header)}
        problems |= {
            name
            for name, part in zip(group, listed, strict=True)
            if part.rehearsed_own
            or part.header.changes_client_work
            or any(
                part.may_have_rehearsed(other)
                or part.may_have_validated_on(other)
                or is_less_real(part.header, other.header)
                for other in listed
                if other is not part
            )
        }
        problems |= {
            ancestor.model
            for part in listed
            for other in listed
            if other is not part
            for ancestor in part.ancestors_of_others(other)
        }
        names_text = _in_one_line(group)
        if problems:
            texts.append(
                f"NO CLAIM for {names_text} together: {_in_one_line(sorted(problems))} was, or may "
                "have been, trained or chosen on some of their clients without a claim about them."
            )
            continue
        releases = distinct(
            [r for part in listed for r in history(part.header, part.rounds, part.contents)]
        )
        guarantee = composed(releases)
        texts.append(
            f"Together, {names_text} are {len(releases)} releases for one population: epsilon "
            f"{epsilon_in_words(guarantee.epsilon)}, delta {guarantee.delta:g} "
            f"({guarantee.adjacency}; {guarantee.method})."
        )
        caveats = [one for part in listed for one in unchecked_caveats(part.header)]
        if any(part.validates for part in listed):
            caveats.append("Not covered: the clients of validation, whose text chose a model.")
        texts += [f"* {caveat}" for caveat in dict.fromkeys(caveats)]
    return "\n".join(texts)


def _populations(ledgers: Mapping[str, LedgerAndClients]) -> list[list[str]]:
    """Groups the names of runs that share clients, or may, directly or indirectly."""
    groups: list[list[str]] = []
    for name, part in ledgers.items():
        near = [group for group in groups if any(part.shares(ledgers[other]) for other in group)]
        merged = [other for group in near for other in group] + [name]
        groups = [group for group in groups if group not in near] + [merged]
    return groups


def _in_one_line(paths: Sequence[str]) -> str:
    return printable(", ".join(paths), max_characters=None)
