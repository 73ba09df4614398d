"""No mechanism."""

import dataclasses
from typing import Literal

from tff_keyboard.parts.privacy_mechanism import PrivacyOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoPrivacy(PrivacyOptions):
    """Trains without differential privacy: there is no noise, no guarantee and no ledger."""

    type: Literal["none"] = "none"
