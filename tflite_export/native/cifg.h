/* libcifg: an export of tff-keyboard as a keyboard, without any other library.
 *
 * Strings are UTF-8 and end with a NUL byte; lists of words are one string with a line feed between
 * words (no word holds one). What a function returns in `const char*` stays valid until the next
 * call with the same keyboard. A keyboard serves one thread at a time. Nothing throws or aborts: a
 * function that fails returns NULL or a number below 0, and `cifg_error` says why in one line. Built
 * with -fno-exceptions, as for WebAssembly, it aborts where memory runs out.
 * The page docs/phone/integrate.md explains each part.
 */
#ifndef CIFG_H_
#define CIFG_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define CIFG_API __attribute__((visibility("default")))
#else
#define CIFG_API
#endif

typedef struct cifg_keyboard cifg_keyboard;

typedef struct {
  const void* data;
  size_t size;
} cifg_bytes;

/* Files of an export; those that the manifest does not name may be empty. They are copied. */
typedef struct {
  cifg_bytes model, vocabulary, manifest, ngram, tail;
} cifg_files;

typedef struct {
  int32_t vocabulary; /* rows of the word table, four special ones among them */
  int32_t dim, units; /* columns of the states h and c */
  int32_t is_trainable, is_hybrid;
} cifg_sizes;

typedef struct {
  const char* word;
  double probability; /* behind the context, before the prefix narrowed the choice */
} cifg_suggestion;

/* Opens `path`, a `.tflite` file, and what lies beside it; NULL with a line in `error` if it cannot. */
CIFG_API cifg_keyboard* cifg_open(const char* path, char* error, size_t error_size);
/* The same from memory. */
CIFG_API cifg_keyboard* cifg_open_files(const cifg_files* files, char* error, size_t error_size);
CIFG_API void cifg_close(cifg_keyboard* keyboard);
/* Why the last call failed; "" where it did not. */
CIFG_API const char* cifg_error(const cifg_keyboard* keyboard);
CIFG_API cifg_sizes cifg_get_sizes(const cifg_keyboard* keyboard);

/* NFKC of `text`, written to `out` without a NUL byte. Returns its length, also where that is above
 * `capacity`: then it is called again with as much. Below 1, or above 64 `size` + 64: failed, the
 * text, which is never empty, stays as it is.
 */
typedef int64_t (*cifg_nfkc)(void* user, const char* text, size_t size, char* out, size_t capacity);
CIFG_API void cifg_set_nfkc(cifg_keyboard* keyboard, cifg_nfkc nfkc, void* user);

/* --- strip */

/* Suggestions for text before the cursor, best first: their number, at most `count` (0 for one below
 * 1, `out` may then be NULL), with words that start with the unfinished word, which `prefix` gets,
 * normalised. `prefix` may be NULL.
 */
CIFG_API int cifg_strip(cifg_keyboard* keyboard, const char* text, int count, cifg_suggestion* out,
                        const char** prefix);
/* The same for normalised words of this sentence, and the normalised start of the next. */
CIFG_API int cifg_predict(cifg_keyboard* keyboard, const char* words, const char* prefix, int count,
                          cifg_suggestion* out);

/* --- text */

CIFG_API const char* cifg_tokens(cifg_keyboard* keyboard, const char* text);
/* Id of a normalised word, 3 (OOV) where it is not in the table; and back, NULL for no word. */
CIFG_API int32_t cifg_id_of(const cifg_keyboard* keyboard, const char* word);
CIFG_API const char* cifg_word_of(cifg_keyboard* keyboard, int32_t id);

/* --- network: as the signatures of the model file. Special ids: PAD 0, BOS 1, EOS 2, OOV 3. */

/* Reads a token: `c` [units] and `h` [dim] become the state after it. Zeros, then BOS, begin. */
CIFG_API int cifg_step(cifg_keyboard* keyboard, int32_t token, float* c, float* h);
/* Scores of all rows after a state: [vocabulary]. */
CIFG_API int cifg_logits(cifg_keyboard* keyboard, const float* h, float* out);

/* --- training, of an export with --trainable */

/* One step of SGD on BOS, words, EOS; `loss` gets the mean loss before it. */
CIFG_API int cifg_train(cifg_keyboard* keyboard, const int32_t* tokens, size_t count,
                        float learning_rate, float* loss);
/* One of "embedding" [vocabulary, dim], "kernel" and "recurrent_kernel" [dim, 3 units], "bias" [3
 * units], "projection" [units, dim]. Returns its elements, also with `out` NULL.
 */
CIFG_API int64_t cifg_weights(cifg_keyboard* keyboard, const char* name, float* out, size_t size);
CIFG_API int cifg_set_weights(cifg_keyboard* keyboard, const char* name, const float* values, size_t size);

/* --- the owner's words, of an export with --ngram */

/* Learns a message that can no longer be taken back: normalised words, "" for a gap, as is what is
 * not UTF-8. `kept`: words of it whose correction was taken back; may be NULL.
 */
CIFG_API int cifg_learn(cifg_keyboard* keyboard, const char* words, const char* kept);
/* As if a normalised word had never been typed; all words for NULL. */
CIFG_API int cifg_forget(cifg_keyboard* keyboard, const char* word);
/* The cache as a file, byte for byte that of `tff-keyboard play --cache`; and back. */
CIFG_API const char* cifg_cache(cifg_keyboard* keyboard);
CIFG_API int cifg_set_cache(cifg_keyboard* keyboard, const void* data, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* CIFG_H_ */
