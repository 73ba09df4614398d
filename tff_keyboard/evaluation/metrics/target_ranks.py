"""The rank of each target among all words, from which recall, MRR and keystrokes are computed.

    rank = number of ids with a higher score, or an equal score and a lower id

Rank 0 is the first suggestion, and a hit@k is rank < k. Ties go to the lower id, that is, to the
more frequent word, as in `tf.math.top_k`. One pass of comparisons serves every k and every choice
of masked ids.
"""

import dataclasses

import numpy as np

from tff_keyboard.data.vocabulary import EOS, NUM_SPECIAL


@dataclasses.dataclass(frozen=True)
class TargetRanks:
    """Ranks of n targets, each [n] int64."""

    # Special ids masked: the position on the strip. No meaning if the target is special.
    words: np.ndarray
    words_or_eos: np.ndarray  # PAD, BOS and OOV masked: a strip that may offer to send the message
    all_ids: np.ndarray  # ranks with nothing masked

    def with_last(self, which: np.ndarray, rank: int) -> "TargetRanks":
        """Returns the ranks with `rank` at the positions `which` [n] bool, which no strip shows."""
        ranks = (self.words, self.words_or_eos, self.all_ids)
        return TargetRanks(*(np.where(which, rank, each) for each in ranks))


def target_ranks(scores: np.ndarray, targets: np.ndarray) -> TargetRanks:
    """Returns the ranks of one target [n] in each row of `scores` [n, V].

    The scores are any monotone function of the probability.
    """
    rows = np.arange(len(targets))
    target_scores = scores[rows, targets][:, np.newaxis]
    above = np.count_nonzero(scores > target_scores, axis=1)
    equal = np.count_nonzero(scores == target_scores, axis=1)  # including the target itself
    tied = np.flatnonzero(equal > 1)
    if len(tied):
        lower_id = np.arange(scores.shape[1]) < targets[tied, np.newaxis]
        above[tied] += np.count_nonzero((scores[tied] == target_scores[tied]) & lower_id, axis=1)
    special = scores[:, :NUM_SPECIAL]
    special_ahead = (special > target_scores) | (
        (special == target_scores) & (np.arange(NUM_SPECIAL) < targets[:, np.newaxis])
    )
    words = above - np.count_nonzero(special_ahead, axis=1)
    return TargetRanks(
        words=words, words_or_eos=words + special_ahead[:, EOS].astype(np.int64), all_ids=above
    )
