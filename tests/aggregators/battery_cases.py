"""What the battery goes over: every rule, mechanism and wrapper that a config can ask for."""

import collections
import copy
import dataclasses
import functools

import numpy as np

from tests.support.noise_fakes import noised
from tff_keyboard.aggregators.fedmed.accumulator import fedmed_weight_type
from tff_keyboard.aggregators.properties import (
    CLIENTS,
    SHAPES,
    VALUE_TYPE,
    WEIGHT_TYPE,
    AggregatorUnderTest,
)
from tff_keyboard.aggregators.row_correction import row_weight_type
from tff_keyboard.config.sections import aggregation_config
from tff_keyboard.config.sections.aggregation_config import AggregationConfig, NoClipping
from tff_keyboard.parts import tables
from tff_keyboard.parts.aggregator import AGGREGATORS
from tff_keyboard.parts.privacy_mechanism import PrivacyOptions
from tff_keyboard.privacy.registry.blt import BltConfig
from tff_keyboard.privacy.registry.gaussian import GaussianConfig
from tff_keyboard.training.aggregation import build_aggregator

_LITTLE = 1e-4  # of noise, in clip norms: the mean of five clients moves by 2e-5


@dataclasses.dataclass(frozen=True, eq=False)
class Case(AggregatorUnderTest):
    """One aggregator; compared and hashed by identity.

    Attributes:
      config: What is built.
      atol: Largest change of a delta on its way (rounding, noise), in weight units.
    """

    config: AggregationConfig
    atol: float = 1e-6

    @property
    def is_private(self):
        return self.config.is_private

    @property
    def is_noisy(self):
        return self.is_private and self.config.privacy.noise_multiplier > 0

    @property
    def weight_type(self):
        if self.config.rule.reported_loss:
            return fedmed_weight_type(len(SHAPES))
        if self.tells_words:
            return row_weight_type(SHAPES[0][0])
        return WEIGHT_TYPE

    @property
    def tells_words(self):
        return isinstance(self.config.row_correction, aggregation_config.FedSubAvgConfig)

    @functools.cached_property
    def bare(self):
        names = ("embedding", "bias", "scale")
        factory = build_aggregator(
            self.config, clients_per_round=CLIENTS, seed=3, variable_names=names
        )
        return factory.create(VALUE_TYPE, self.weight_type)

    @functools.cached_property
    def process(self):
        if not self.is_noisy:
            return self.bare
        privacy = self.config.privacy
        numbers = NOISE.get(type(privacy), {})
        if isinstance(privacy, GaussianConfig):
            numbers = {"is_discrete": privacy.is_discrete}
        return noised(self.bare, privacy.type, **numbers)

    @functools.cached_property
    def in_parts(self):
        in_parts = super().in_parts
        if not self.is_noisy:
            return in_parts
        noisy = copy.copy(self.process)  # the same noise around another form of the process
        noisy.process = in_parts
        return noisy

    def weigh(self, examples, loss, divergence):
        if self.weight_type == WEIGHT_TYPE:
            return np.float32(examples)
        if self.tells_words:  # every word, so that the mean stays what it is
            touched = np.full(SHAPES[0][0], examples > 0, np.float32)
            return collections.OrderedDict(num_examples=np.float32(examples), touched=touched)
        return collections.OrderedDict(
            num_examples=np.float32(examples),
            loss=np.float32(loss),
            divergence=np.float32(divergence),
        )


# What a delta does to fit: rounding, noise; where nothing is said, nothing.
# A step of four bits is half a root mean square of the delta; those of the battery have some 0.03.
TOLERANCES = {"uniform_quantization": 0.05, "normal": 1e-3}
OPTIONS = {aggregation_config.NormalClientNoise: {"scale": 1e-5}}
# What the noise of a mechanism is made with.
NOISE = {BltConfig: {"decays": (0.5,), "scales": (0.4,)}}


def variants(hint):
    """One of each class of a config's union or registry that does something, by its name."""
    for name, table in tables.variants(hint).items():
        if name not in ("none", "off"):
            yield name, table(**OPTIONS.get(table, {}))


def _rules():
    for name, options in AGGREGATORS.items():
        bare = {"rule": options(), "protection": NoClipping()}
        if options.required_privacy:
            bare |= {"privacy": GaussianConfig(), "client_weighting": "uniform"}
        yield f"rule {name}", Case(AggregationConfig(**bare))
    top_k = AGGREGATORS["fedmed"](top_fraction=0.6)
    yield "rule fedmed, topK", Case(AggregationConfig(rule=top_k, protection=NoClipping()))


def _mechanisms():
    """Each without noise, where only the clip is left, and with little of it; and two of a kind."""
    gaussian = GaussianConfig(noise_multiplier=_LITTLE)
    found = {
        "gaussian, discrete": dataclasses.replace(gaussian, distribution="discrete"),
        "gaussian, a projection": dataclasses.replace(gaussian, noise_cohort_size=10 * CLIENTS),
    }
    for name, mechanism in variants(PrivacyOptions):
        found[name] = mechanism
        found[f"{name}, noisy"] = dataclasses.replace(mechanism, noise_multiplier=_LITTLE)
    return found


def _wrappers():
    for name, mechanism in _mechanisms().items():
        config = AggregationConfig(privacy=mechanism, client_weighting="uniform")
        yield f"privacy {name}", Case(config, 10 * mechanism.noise_multiplier or 1e-6)
    for field, union in (
        ("protection", aggregation_config.Protection),
        ("compression", aggregation_config.Compression),
        ("client_noise", aggregation_config.ClientNoise),
        ("row_correction", aggregation_config.RowCorrection),
    ):
        for name, table in variants(union):
            config = AggregationConfig(**({"protection": NoClipping()} | {field: table}))
            yield f"{field} {name}", Case(config, TOLERANCES.get(name, 1e-6))


CASES = dict([*_rules(), *_wrappers()])
