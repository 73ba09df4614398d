"""Facts about a run of a study: tokens, bytes sent, privacy, its curve, and its provenance."""

import dataclasses
import math
from collections.abc import Sequence

from tff_keyboard.privacy.claims import claim, statement
from tff_keyboard.privacy.ledger import ledger
from tff_keyboard.storage import metrics_rows
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard_lab.study.plan.plan import Run
from tff_keyboard_lab.study.plan.study_file import Study
from tff_keyboard_lab.study.results import communication, curve, provenance, reach, timings


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacyFacts:
    """The claims of a run's ledger."""

    noise_multiplier: float
    clip_norm: float
    epsilon: float | None  # None without a claim
    delta: float  # delta of the guarantee; without a claim, the delta of the config
    adjacency: str  # difference of two neighbouring data sets; "" without a claim
    accounting: str  # method for epsilon; contains "PROJECTION" or "no claim" if that applies
    labels: tuple[str, ...] = ()  # `statement.labels_of`: what limits the claim


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Facts about one finished run; None if a run does not have one."""

    rounds: int
    tokens: float | None  # None for a private run, whose exact counts are withheld
    # Bytes that clients sent, mean over rounds; 0 for a training on a server. None for a private
    # run, as the next two: they follow from exact counts of clients and messages.
    upload_bytes_per_round: float | None
    rehearsal_bytes: float | None  # bytes of general text that a client receives in a round
    total_bytes: float | None
    rejected_rounds: int
    best_validation_perplexity: float | None
    last_quarter_gain: float | None  # share by which the last quarter of the rounds lowered it
    flat: bool  # whether that gain is at most the study's `flat_within`
    rounds_to_target: int | None = None
    effective_clients: float | None = None  # mean over rounds, if the aggregator measures them
    adaptive_rounds: float | None = None  # share of rounds in which an adaptive aggregator adapted
    privacy: PrivacyFacts | None = None
    # CPU seconds of the median round after the first, of all threads; None if not measured,
    # and for a private run, whose timings are secret
    cpu_seconds_per_round: float | None = None
    reached: reach.Reached | None = None  # `study.reach_share` of the control's last validation
    origin: provenance.Origin

    def to_json(self, study: Study) -> dict[str, object]:
        """Returns plain values, without optional fields that the run or the study does not have."""
        content = dataclasses.asdict(self)
        origin = content.pop("origin")
        of_some = {"effective_clients", "adaptive_rounds", "privacy", "cpu_seconds_per_round"}
        if not study.target:
            of_some.add("rounds_to_target")
        if not study.reach_share:
            of_some.add("reached")
        content["reached"] = self.reached._asdict() if self.reached else None
        facts = {k: v for k, v in content.items() if v is not None or k not in of_some}
        return facts | origin


def facts_of(run: Run, study: Study) -> RunFacts:
    """Reads the facts from the files of a finished run."""
    directory = RunDirectory(run.path)
    rows, is_private = directory.all_rows(), directory.privacy_ledger.exists()
    sent = None if is_private else _sent(run, rows)
    unsent = None if is_private else 0.0
    values = curve.of_rows(rows)
    gain = curve.gain_of_last_quarter(values)
    return RunFacts(
        rounds=len(rows),
        tokens=None if is_private else math.fsum(float(row.get(curve.TOKENS, 0)) for row in rows),
        upload_bytes_per_round=sent.bytes_up / sent.rounds if sent else unsent,
        rehearsal_bytes=sent.rehearsal_bytes if sent else unsent,
        total_bytes=sent.total_bytes if sent else unsent,
        rejected_rounds=int(metrics_rows.total(rows, "rejected")),
        best_validation_perplexity=min(values.perplexities, default=None),
        last_quarter_gain=None if math.isnan(gain) else gain,
        flat=curve.is_flat(values, study.flat_within),
        rounds_to_target=curve.rounds_to(values, study.target) if study.target else None,
        effective_clients=None if is_private else _mean(rows, "effective_clients"),
        adaptive_rounds=None if is_private else _mean(rows, "adaptive"),
        privacy=_privacy(directory) if is_private else None,
        cpu_seconds_per_round=None if is_private else timings.cpu_seconds_per_round(run.path),
        origin=provenance.of_run(run),
    )


def progress_of(run: Run, study: Study) -> reach.Progress:
    """Reads the validations of a run for `study.reach_share`."""
    directory = RunDirectory(run.path)
    return reach.of_rows(
        directory.all_rows(),
        study.reach_metric,
        sends=run.task != "train-server",
        is_private=directory.privacy_ledger.exists(),
    )


def _sent(run: Run, rows: Sequence[metrics_rows.Row]) -> communication.Communication | None:
    """Returns the communication; None for a training on a server, which sends nothing."""
    if run.task == "train-server":
        return None
    return communication.account(rows, parameters=communication.num_parameters(run.path))


def _mean(rows: Sequence[metrics_rows.Row], name: str) -> float | None:
    """Returns the mean over the rounds that measured it, with any aggregator."""
    values = [float(v) for row in rows for k, v in row.items() if k.endswith(f"/{name}")]
    return math.fsum(values) / len(values) if values else None


def _privacy(directory: RunDirectory) -> PrivacyFacts:
    """Returns the claim of a private run; its epsilon is None without a claim."""
    header, rounds = ledger.read_ledger(directory.privacy_ledger)
    total = claim.claim_of(directory, header, len(rounds))
    claimed = total is not None and math.isfinite(total.epsilon)
    return PrivacyFacts(
        noise_multiplier=header.noise_multiplier,
        clip_norm=header.clip_norm,
        epsilon=total.epsilon if total is not None and claimed else None,
        delta=header.delta if total is None else total.delta,
        adjacency="" if total is None else total.adjacency,
        accounting="no claim" if total is None else total.method,
        labels=() if total is None else statement.labels_of(header),
    )
