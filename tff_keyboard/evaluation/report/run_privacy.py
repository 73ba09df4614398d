"""Reads the privacy ledgers of runs for the page: the statement, and epsilon over rounds."""

from collections.abc import Sequence

from tff_keyboard.evaluation.report import charts
from tff_keyboard.evaluation.report.run_records import RunRecord
from tff_keyboard.evaluation.report.sections import Section
from tff_keyboard.privacy.ledger.ledger import read_ledger
from tff_keyboard.privacy.ledger.ledger_header import LedgerHeader

_POINTS = 12  # points of the curve; tree accounting takes a second for each


def of_runs(runs: Sequence[RunRecord]) -> list[Section]:
    """Returns a section for each run with a ledger.

    Raises `RunDirectoryError` if a ledger is damaged.
    """
    sections = []
    for record in runs:
        if record.ledger_path is None:
            continue
        header, rounds = read_ledger(record.ledger_path)
        try:
            from tff_keyboard.privacy.claims.statement import privacy_statement
        except ModuleNotFoundError as error:
            lacks = f"{error.name} is not installed (pip install 'tff-keyboard[privacy]')."
            statement, curve = f"The statement is missing because {lacks}", ""
        else:
            statement = privacy_statement(record.ledger_path)
            curve = "" if "NO CLAIM" in statement else _curve(header, len(rounds))
        sections.append(Section(f"Privacy of {record.name}", figure=curve, text=statement))
    return sections


def _curve(header: LedgerHeader, num_rounds: int) -> str:
    """Returns epsilon over rounds as SVG; "" if there is nothing to draw.

    It includes the earlier runs and the vocabulary, as the statement's epsilon does.
    """
    if header.noise_multiplier <= 0 or num_rounds < 2:
        return ""
    from tff_keyboard.privacy.claims.guarantee import total_guarantee

    marks = sorted({max(1, num_rounds * i // _POINTS) for i in range(_POINTS + 1)})
    totals = [total for mark in marks if (total := total_guarantee(header, mark)) is not None]
    if not totals:
        return ""
    epsilons, delta = [total.epsilon for total in totals], totals[-1].delta
    projection = bool(header.noise_cohort_size)
    return charts.epsilon_curve(marks, epsilons, delta, projection=projection)
