from tff_keyboard.privacy.accounting.accounting import (
    calibrate_noise_multiplier,
    fixed_size_gaussian,
    tree_gaussian,
    unsampled_gaussian,
)
from tff_keyboard.privacy.accounting.guarantee import Guarantee
from tff_keyboard.privacy.claims.planning import Plan, Schedule, plan
from tff_keyboard.privacy.claims.statement import privacy_statement

__all__ = [
    "Guarantee",
    "Plan",
    "Schedule",
    "calibrate_noise_multiplier",
    "fixed_size_gaussian",
    "plan",
    "privacy_statement",
    "tree_gaussian",
    "unsampled_gaussian",
]
