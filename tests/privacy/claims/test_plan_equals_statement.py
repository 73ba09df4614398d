"""The planned epsilon is the epsilon of the finished run's statement, for any config.

The run is opened and its rounds are recorded by the functions of a training, without training.
"""

import dataclasses
import functools
import pathlib
import tempfile

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.support.fakes import ledger_header
from tff_keyboard.config import loads, to_dict
from tff_keyboard.config.resume_policy import numerics_config
from tff_keyboard.privacy.accounting.accounting import epsilon_of_zcdp
from tff_keyboard.privacy.claims import plan_remarks, planning
from tff_keyboard.privacy.claims.epsilon_text import epsilon_in_words
from tff_keyboard.privacy.claims.guarantee import guarantee_of, total_guarantee
from tff_keyboard.privacy.claims.statement import privacy_statement
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger, read_ledger
from tff_keyboard.privacy.ledger.ledger_header import Ancestor
from tff_keyboard.storage.errors import UsageError
from tff_keyboard.training import run_privacy
from tff_keyboard.training.run_plan import planned_origin
from tff_keyboard.training.run_privacy import open_run_privacy

FIXED = "0123456789abcdef" * 2
WEIGHTS = [np.arange(6, dtype=np.float32)]
VOCABULARY = {"fingerprint": "v", "privacy": {"rho": 0.02, "delta_of_words": 5e-7}}
EARLIER = Ancestor(
    model="runs/earlier",
    people="same",
    rounds=7,
    header=ledger_header(noise_multiplier=3.0, key_id="earlier", uniform_sampling=False),
)
CHEAP = dataclasses.replace(
    EARLIER, header=dataclasses.replace(EARLIER.header, noise_multiplier=20.0)
)
UNPROTECTED = Ancestor(model="runs/open", people="unknown")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A config, and the circumstances of its run."""

    mechanism: str = "gaussian"
    multiplier: float = 4.0
    rounds: int = 5
    clients: int = 4
    over_selection: float = 1.0
    separation: int = 1
    population: int = 231
    delta: float = 1e-3
    fixed_nonce: bool = False
    noise_cohort_size: int = 0
    momentum: float = 0.9
    checks_in: bool = False
    vocabulary: bool = False
    ancestors: tuple[Ancestor, ...] = ()

    @functools.cached_property
    def config(self):
        """The run's config."""
        name, _, distribution = self.mechanism.partition(" ")
        privacy = {
            "type": f"'{name}'",
            "noise_multiplier": self.multiplier,
            "delta": self.delta,
            "noise_cohort_size": self.noise_cohort_size,
            "fixed_nonce": f"'{FIXED if self.fixed_nonce else ''}'",
        }
        if distribution:
            privacy["distribution"] = f"'{distribution}'"
        train = {
            "rounds": self.rounds,
            "clients_per_round": self.clients,
            "over_selection": self.over_selection,
            "min_separation_rounds": self.separation,
        }
        sections = {"aggregation.privacy": privacy, "train": train}
        overrides = [f"{a}.{key}={x}" for a, table in sections.items() for key, x in table.items()]
        more = ("aggregation.client_weighting=uniform", f"server.momentum={self.momentum}")
        return loads("", [*overrides, *more])

    @property
    def card(self):
        """Card of the store."""
        return {"store_sha256": "ab", "vocabulary": VOCABULARY if self.vocabulary else {}}

    @property
    def schedule(self):
        """The schedule of the plan, as `tff-keyboard privacy` reads it from the config."""
        train = self.config.train
        return planning.Schedule(
            rounds=train.rounds,
            cohort=train.clients_per_round,
            population=0 if self.checks_in else self.population,
            min_separation=train.min_separation_rounds,
            delta=self.config.aggregation.privacy.delta,
            over_selection=train.over_selection,
            checks_in=self.checks_in,
        )


def finished_statement(case: Case, path: pathlib.Path) -> tuple[str, pathlib.Path]:
    """The statement of the finished run, and its ledger."""
    train = case.config.train
    run = open_run_privacy(
        case.config.aggregation,
        train=train,
        momentum=case.config.server.momentum,
        initial_model="",
        config_facts=numerics_config(to_dict(case.config)),
        ledger_path=path / "privacy_ledger.jsonl",
        nonce_path=path / "noise_nonce",
        store_card=case.card,
        client_ids=None if case.checks_in else [str(n) for n in range(case.population)],
        initial_weights=WEIGHTS,
        selected_per_round=train.selected_per_round,
    )
    header = dataclasses.replace(run.header, ancestors=case.ancestors)
    ledger = PrivacyLedger(path / "privacy_ledger.jsonl", header)
    for round_num in range(1, train.rounds + 1):
        ledger.record(round_num, clip_norm=1.0)
    return privacy_statement(path / "privacy_ledger.jsonl"), path / "privacy_ledger.jsonl"


def planned_guarantee(case: Case):
    """The plan's guarantee with the noise of the config."""
    origin = run_privacy.origin_of(None, case.card, "", None, "") | {"ancestors": case.ancestors}
    header = planning.planned_header(
        case.config.aggregation, case.schedule, momentum=case.momentum, origin=origin
    )
    return planning.planned_guarantee(header, case.rounds)


def check_plan_equals_statement(case: Case) -> None:
    planned = planned_guarantee(case)
    with tempfile.TemporaryDirectory() as directory:
        text, ledger = finished_statement(case, pathlib.Path(directory))
        header, rounds = read_ledger(ledger)
    total = total_guarantee(header, len(rounds))
    if total is None:
        assert text.startswith("NO CLAIM")
        assert f"epsilon of this run alone  {epsilon_in_words(planned.epsilon)}" in text
        return
    assert planned == total
    rows = dict(
        line.split("  ", 1) for line in text.split("\n\n* ")[0].splitlines() if "  " in line
    )
    stated = next(value.strip() for name, value in rows.items() if name.startswith("epsilon"))
    assert stated == epsilon_in_words(planned.epsilon)
    assert rows["delta"].strip() == f"{planned.delta:g}"


@st.composite
def cases(draw):
    checks_in = draw(st.booleans())
    clients = draw(st.integers(1, 8))
    mechanisms = ["gaussian", "gaussian discrete", "gaussian_adaptive", "tree", "blt"]
    mechanism = draw(st.sampled_from(mechanisms))
    simulated = 0 if "adaptive" in mechanism else draw(st.sampled_from([0, 0, 50, 6500]))
    return Case(
        mechanism=mechanism,
        multiplier=draw(st.floats(0.3, 9)),
        rounds=draw(st.integers(1, 12)),
        clients=clients,
        over_selection=draw(st.sampled_from([1.0, 1.1, 1.3, 2.0])),
        separation=draw(st.sampled_from([1, 1, 2, 5])),
        population=draw(st.integers(80, 3000)),
        delta=draw(st.sampled_from([1e-9, 1e-5, 1e-3, 0.4])),
        fixed_nonce=draw(st.booleans()),
        noise_cohort_size=simulated,
        momentum=draw(st.sampled_from([0.0, 0.9])),
        checks_in=checks_in,
        vocabulary=draw(st.booleans()),
        ancestors=draw(st.sampled_from([(), (), (EARLIER,), (UNPROTECTED,)])),
    )


@settings(max_examples=20, deadline=None)
@given(cases())
@example(Case(clients=20, over_selection=2.0, rounds=10, multiplier=1.874))  # F5
def test_planned_epsilon_is_that_of_the_finished_runs_statement(case):
    assume(case.checks_in or case.schedule.selected * case.separation <= case.population)
    check_plan_equals_statement(case)


@pytest.mark.parametrize("mechanism", ["gaussian", "gaussian_adaptive", "tree", "blt"])
def test_every_mechanism_with_everything_that_a_header_has(mechanism):
    check_plan_equals_statement(
        Case(
            mechanism=mechanism,
            over_selection=1.3,
            separation=2,
            vocabulary=True,
            ancestors=(EARLIER,),
            noise_cohort_size=0 if "adaptive" in mechanism else 40,
        )
    )


def test_a_plan_for_a_target_counts_the_selected_clients(tmp_path):
    """Without over-selection, the plan for epsilon 3 had multiplier 1.874 and the run 5.65."""
    case = Case(clients=20, over_selection=2.0, rounds=10)
    plan = planning.plan_config(case.config.aggregation, case.schedule, target_epsilon=3.0)
    assert plan.noise_multiplier > 2.9
    run = dataclasses.replace(case, multiplier=float(f"{plan.noise_multiplier:.4g}"))
    text, _ = finished_statement(run, tmp_path)
    assert "40 of 231 clients per round" in text
    assert f"{plan.guarantee.epsilon:.2f}" in text
    assert 2.98 < planned_guarantee(run).epsilon <= 3.0
    # The mean is divided by the report goal, not by the selected clients.
    assert plan.error == pytest.approx(plan.noise_multiplier * np.sqrt(5.5) / 20)


def test_what_adds_to_epsilon_needs_more_noise():
    noises = [
        planning.plan_config(
            case.config.aggregation, case.schedule, target_epsilon=3.0, origin=origin
        ).noise_multiplier
        for case, origin in (
            (Case(mechanism="tree"), {}),
            (Case(mechanism="tree"), {"vocabulary_rho": 0.1, "vocabulary_delta": 1e-9}),
            (Case(mechanism="tree"), {"ancestors": (CHEAP,)}),
        )
    ]
    assert noises[0] < min(noises[1:])


def test_a_target_below_the_cost_of_earlier_runs_is_not_reachable():
    case = Case(mechanism="tree")
    with pytest.raises(
        planning.UnreachableTargetError, match=r"earlier runs.* alone cost more"
    ) as e:
        planning.plan_config(
            case.config.aggregation,
            case.schedule,
            target_epsilon=3.0,
            origin={"ancestors": (EARLIER,)},
        )
    alone = guarantee_of(EARLIER.header, EARLIER.rounds)
    assert alone.rho == 7 / (2 * 3.0**2)
    expected = epsilon_of_zcdp(alone.rho, 1e-6, method="RDP conversion")  # the smaller delta
    assert e.value.smallest_epsilon == pytest.approx(expected, rel=1e-4)


def test_a_resumed_run_is_planned_with_the_mechanism_of_its_ledger(tmp_path):
    """A BLT for 5 rounds costs more over 12 rounds than a BLT for 12 rounds does."""
    case = Case(mechanism="blt", separation=2, rounds=5)
    _, ledger = finished_statement(case, tmp_path)
    longer = PrivacyLedger(ledger, read_ledger(ledger)[0])
    promised = plan_remarks.resumed_line(ledger, 12)
    for round_num in range(6, 13):
        longer.record(round_num, clip_norm=1.0)
    header, rounds = read_ledger(ledger)
    epsilon = total_guarantee(header, len(rounds)).epsilon
    assert promised.startswith(f"Resumed with `train.rounds` = 12: epsilon {epsilon:.2f}, delta")
    assert f"  {epsilon:.2f}\n" in privacy_statement(ledger)
    new = dataclasses.replace(case, rounds=12)
    assert planned_guarantee(new).epsilon < epsilon
    with pytest.raises(UsageError, match="--rounds must be >= 12"):
        plan_remarks.resumed_line(ledger, 5)


def test_without_a_store_every_earlier_model_counts(tmp_path):
    origin = planned_origin(str(tmp_path / "none"), str(tmp_path / "model"))
    [ancestor] = origin["ancestors"]
    assert ancestor.shares_clients
    assert ancestor.header is None
    case = Case()
    header = planning.planned_header(case.config.aggregation, case.schedule, origin=origin)
    remarks = "\n".join(plan_remarks.plan_remarks(header))
    assert remarks.startswith("* NO CLAIM: the initial model")
    assert "Not included: the vocabulary. `data.store` does not exist yet." in remarks
