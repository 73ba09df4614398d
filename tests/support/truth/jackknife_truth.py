"""The jackknife's interval, written out: what tests hold the library's to."""

import math

import numpy as np
from scipy import stats


def reach(without, weights, level=0.95):
    """Half the width, of a statistic without each person.

    Args:
      without: [people] the statistic without each.
      weights: [people] words that each typed.
      level: Level of the interval.
    """
    people = len(without)
    gaps = [value - sum(without) / people for value in without]
    squares = sum(gap**2 for gap in gaps)
    freedom = sum(weights) ** 2 / sum(weight**2 for weight in weights) - 1
    if squares:
        excess = people * sum(gap**4 for gap in gaps) / squares**2 - 3
        freedom = min(freedom, people / excess) if excess > 0 else freedom
    error = math.sqrt((people - 1) / people * squares)
    return stats.t(max(freedom, 1)).interval(level)[1] * error


def reach_with_seeds(of_people, of_seeds):
    """Half the width for other people and other seeds, from that for other people."""
    seeds = len(of_seeds)
    error = np.sqrt(np.square(of_seeds - np.mean(of_seeds)).sum() / (seeds - 1) / seeds)
    return np.sqrt(of_people**2 + (stats.t(seeds - 1).ppf(0.975) * error) ** 2)
