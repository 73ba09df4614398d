"""What every exported file offers, whichever way it was written.

    predict(tokens int32 [1, time])                     -> ids, probabilities, new_c, new_h
    step(token int32 [1], c [1, units], h [1, dim])     -> ids, probabilities, new_c, new_h
    logits(h [1, dim])                                  -> logits [1, vocabulary]

`ids` int32 [1, k] are the k most probable words, best first: special ids are never returned.
`probabilities` [1, k] are theirs, over the whole vocabulary. `predict` starts from zeros,
`step` goes on from a state; both read PAD as nothing and an id outside [0, vocabulary) as OOV.
`logits` scores all rows, special ones included, after state `h`: a prefix typed by the user picks
among them. All three share one copy of the weights. Batch is 1.
"""

DESCRIPTION = "next-word keyboard model"

PREDICT = "predict"
STEP = "step"
LOGITS = "logits"

INFERENCE_SIGNATURES = (PREDICT, STEP, LOGITS)

TRAIN = "train"
WEIGHTS = "weights"
SET_WEIGHTS = "set_weights"

WEIGHT_NAMES = ("embedding", "kernel", "recurrent_kernel", "bias", "projection")  # as trained

TRAINING_SIGNATURES = (TRAIN, WEIGHTS, SET_WEIGHTS)
