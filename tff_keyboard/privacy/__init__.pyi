from tff_keyboard.config.sections.privacy_config import BltConfig as Blt
from tff_keyboard.config.sections.privacy_config import GaussianAdaptiveConfig as GaussianAdaptive
from tff_keyboard.config.sections.privacy_config import GaussianConfig as Gaussian
from tff_keyboard.config.sections.privacy_config import TreeConfig as Tree
from tff_keyboard.privacy.accounting.accounting import (
    Guarantee,
    calibrate_noise_multiplier,
    fixed_size_gaussian,
    tree_gaussian,
    unsampled_gaussian,
)
from tff_keyboard.privacy.claims.planning import Plan, Schedule, plan
from tff_keyboard.privacy.claims.statement import privacy_statement

__all__ = [
    "Blt",
    "Gaussian",
    "GaussianAdaptive",
    "Guarantee",
    "Plan",
    "Schedule",
    "Tree",
    "calibrate_noise_multiplier",
    "fixed_size_gaussian",
    "plan",
    "privacy_statement",
    "tree_gaussian",
    "unsampled_gaussian",
]
