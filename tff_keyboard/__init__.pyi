from collections.abc import Callable, Mapping
from typing import Any

from tff_keyboard import aggregators as aggregators
from tff_keyboard import algorithms as algorithms
from tff_keyboard import data as data
from tff_keyboard import evaluation as evaluation
from tff_keyboard import export as export
from tff_keyboard import metrics as metrics
from tff_keyboard import models as models
from tff_keyboard import privacy as privacy
from tff_keyboard import runtime as runtime
from tff_keyboard import training as training

__version__: str
SURFACE: Mapping[str, Mapping[str, str]]

def public_names(module: str) -> Mapping[str, str]: ...
def lazy(module_name: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]: ...
