/* libcifg: an export of tff-keyboard as a keyboard, without any other library.
 *
 * Strings are UTF-8 and end with a NUL byte; lists of words are one string with a line feed between
 * words (no word contains one). A returned `const char*` stays valid until the next call of the same
 * thread with the same keyboard. No function throws or aborts: a function that fails returns NULL or
 * a number below 0, and `cifg_error` returns the reason in one line. If it is built with
 * -fno-exceptions, as for WebAssembly, it aborts when memory runs out.
 *
 * Threads: several threads may call the functions of one keyboard. The calls take turns: a call waits
 * until the call of another thread has returned. Each thread has its own results and its own error. A
 * keyboard keeps the last result of every thread that has called it. Call `cifg_close` when no other
 * call with the keyboard is running or will follow. If it is built with CIFG_NO_THREADS, as for
 * WebAssembly, a keyboard belongs to one thread.
 * docs/phone/integrate.md has examples; docs/phone/format.md explains what each call computes.
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

/* Files of an export. Files that the manifest does not name may be empty. They are copied. */
typedef struct {
  cifg_bytes model, vocabulary, manifest, ngram, tail;
} cifg_files;

typedef struct {
  int32_t vocabulary; /* rows of the word table, including four special ones */
  int32_t dim, units; /* columns of the states h and c */
  int32_t is_trainable, is_hybrid;
} cifg_sizes;

typedef struct {
  const char* word;
  double probability; /* after the context, without regard to the prefix */
} cifg_suggestion;

/* Opens `path`, a `.tflite` file, with the files next to it. Returns NULL and writes a line to `error`
 * if it fails.
 */
CIFG_API cifg_keyboard* cifg_open(const char* path, char* error, size_t error_size);
/* Opens an export in memory, likewise. */
CIFG_API cifg_keyboard* cifg_open_files(const cifg_files* files, char* error, size_t error_size);
CIFG_API void cifg_close(cifg_keyboard* keyboard);
/* Returns why the last call of this thread failed; "" if it did not. */
CIFG_API const char* cifg_error(const cifg_keyboard* keyboard);
CIFG_API cifg_sizes cifg_get_sizes(const cifg_keyboard* keyboard);

/* A function that writes the NFKC form of `text` to `out`, without a NUL byte, and returns its length.
 * If the length exceeds `capacity`, it is called again with a capacity of that length. A length below
 * 1, or above 64 `size` + 64, means failure: the text, which is never empty, stays unchanged.
 */
typedef int64_t (*cifg_nfkc)(void* user, const char* text, size_t size, char* out, size_t capacity);
CIFG_API void cifg_set_nfkc(cifg_keyboard* keyboard, cifg_nfkc nfkc, void* user);

/* --- strip */

/* Writes suggestions for the text before the cursor to `out`, best first, and returns their number, at
 * most `count`. They start with the unfinished word, which is written to `prefix` in normalised form.
 * If `count` is below 1, the result is 0 and `out` may be NULL. `prefix` may be NULL.
 */
CIFG_API int cifg_strip(cifg_keyboard* keyboard, const char* text, int count, cifg_suggestion* out,
                        const char** prefix);
/* Suggests, likewise, after normalised words of this sentence, one per line ("see\nyou"), and the
 * normalised start of the next.
 */
CIFG_API int cifg_predict(cifg_keyboard* keyboard, const char* words, const char* prefix, int count,
                          cifg_suggestion* out);

/* --- text */

/* Returns the normalised words of a text, one per line ("see\nyou"). */
CIFG_API const char* cifg_tokens(cifg_keyboard* keyboard, const char* text);
/* Return the id of a normalised word, 3 (OOV) if it is not in the table, and the word of an id, NULL if
 * it is not a word.
 */
CIFG_API int32_t cifg_id_of(const cifg_keyboard* keyboard, const char* word);
CIFG_API const char* cifg_word_of(cifg_keyboard* keyboard, int32_t id);

/* --- network: the signatures of the model file. Special ids: PAD 0, BOS 1, EOS 2, OOV 3. */

/* Reads a token: `c` [units] and `h` [dim] become the state after it. Start with zeros and BOS. */
CIFG_API int cifg_step(cifg_keyboard* keyboard, int32_t token, float* c, float* h);
/* Writes the scores of all rows after a state: [vocabulary]. */
CIFG_API int cifg_logits(cifg_keyboard* keyboard, const float* h, float* out);

/* --- training, of an export with --trainable */

/* Makes one step of SGD on BOS, words, EOS. Writes the mean loss before the step to `loss`. */
CIFG_API int cifg_train(cifg_keyboard* keyboard, const int32_t* tokens, size_t count,
                        float learning_rate, float* loss);
/* Writes a weight to `out`: "embedding" [vocabulary, dim], "kernel" or "recurrent_kernel" [dim, 3
 * units], "bias" [3 units], or "projection" [units, dim]. Returns its number of elements, also if `out`
 * is NULL.
 */
CIFG_API int64_t cifg_weights(cifg_keyboard* keyboard, const char* name, float* out, size_t size);
CIFG_API int cifg_set_weights(cifg_keyboard* keyboard, const char* name, const float* values, size_t size);

/* --- the user's own words, of an export with --ngram */

/* Learns a sentence that can no longer be taken back: normalised words, one per line; an empty line is a
 * gap. Words that are not UTF-8 are gaps, too. `kept` has its words whose correction was taken back, one
 * per line; it may be NULL.
 */
CIFG_API int cifg_learn(cifg_keyboard* keyboard, const char* words, const char* kept);
/* Forgets a normalised word, as if it had never been typed; all words if `word` is NULL. */
CIFG_API int cifg_forget(cifg_keyboard* keyboard, const char* word);
/* Return and replace the cache as a file, byte for byte the file of `tff-keyboard play --cache`. */
CIFG_API const char* cifg_cache(cifg_keyboard* keyboard);
CIFG_API int cifg_set_cache(cifg_keyboard* keyboard, const void* data, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* CIFG_H_ */
