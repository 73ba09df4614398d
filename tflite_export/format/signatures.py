"""The TFLite signatures of every exported file.

    predict(tokens int32 [1, time])                     -> ids, probabilities, new_c, new_h
    step(token int32 [1], c [1, units], h [1, dim])     -> ids, probabilities, new_c, new_h
    logits(h [1, dim])                                  -> logits [1, vocabulary]

`ids` int32 [1, k] are the k most probable words, best first, without special ids.
`probabilities` [1, k] are their probabilities over the whole vocabulary. `predict` starts from a
zero state, `step` continues from the given state. Both skip PAD and read an id outside
[0, vocabulary) as OOV. `logits` scores all rows, including the special ones, after state `h`; a
keyboard uses it to choose among the words that continue a typed prefix. All three share one copy
of the weights. The batch size is 1.
"""

DESCRIPTION = "next-word keyboard model"

PREDICT = "predict"
STEP = "step"
LOGITS = "logits"

INFERENCE_SIGNATURES = (PREDICT, STEP, LOGITS)

TRAIN = "train"
WEIGHTS = "weights"
SET_WEIGHTS = "set_weights"

# In the order of the trained model's `trainable_variables`.
WEIGHT_NAMES = ("embedding", "kernel", "recurrent_kernel", "bias", "projection")

TRAINING_SIGNATURES = (TRAIN, WEIGHTS, SET_WEIGHTS)
