// The C interface over the header.
#include "cifg.h"

#include <cstdio>
#include <forward_list>
#include <memory>
#include <new>
#ifndef CIFG_NO_THREADS
#include <thread>
#endif

#include "cifg/keyboard.h"

namespace {

constexpr const char* kNoMemory = "there is not enough memory";

#ifdef CIFG_NO_THREADS
using ThreadId = int;
ThreadId this_thread() { return 0; }
#else
using ThreadId = std::thread::id;
ThreadId this_thread() { return std::this_thread::get_id(); }
#endif

// What the last call of a thread returned. Another thread's call leaves it as it is.
struct Answer {
  ThreadId thread;
  const char* error = "";  // of those that need no memory
  std::string text;
  std::vector<cifg::Suggestion> suggestions;
};

}  // namespace

struct cifg_keyboard {
  cifg::Keyboard keyboard;
  std::forward_list<Answer> answers;  // of the threads that have called it, the newest first
  bool lacked_memory = false;  // for the answer of a thread
};

namespace {

void tell(const char* message, char* error, size_t size) {
  if (error && size) std::snprintf(error, size, "%s", message);
}

#if defined(__cpp_exceptions)
const char* what_was_thrown() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  } catch (...) {
    return "something was thrown that is not for lack of memory";
  }
}
#endif

// Runs `work`, which returns an error or null. Memory may run out anywhere in it, and a callback of
// the caller's may throw.
template <typename Work>
const char* caught(Work work) {
#if defined(__cpp_exceptions)
  try {
    return work();
  } catch (...) {
    return what_was_thrown();
  }
#else
  return work();
#endif
}

// Returns the answer of this thread, or null if it has made no call.
const Answer* answer_of(const cifg_keyboard* k) {
  const ThreadId thread = this_thread();
  for (const Answer& answer : k->answers) {
    if (answer.thread == thread) return &answer;
  }
  return nullptr;
}

using Call = const char* (*)(void* work, Answer& answer);

int run_guarded(cifg_keyboard* k, Call call, void* work) {
  const cifg::Guard guard(k->keyboard.mutex());
  Answer* answer = const_cast<Answer*>(answer_of(k));
  bool is_through = false;
  const char* error = caught([&] {
    if (!answer) answer = &k->answers.emplace_front(Answer{this_thread(), "", {}, {}});
    const char* found = call(work, *answer);
    is_through = true;
    return found;
  });
  if (!is_through) k->keyboard.reset();
  if (answer) answer->error = error ? error : "";
  if (!answer) k->lacked_memory = true;
  return error ? -1 : 0;
}

// Runs `work` with the answer of this thread while no other thread uses the keyboard. `work` returns
// an error or null. One function does this for all kinds of work, so that the library stays small.
template <typename Work>
int guarded(cifg_keyboard* k, Work work) {
  const Call call = [](void* found, Answer& answer) -> const char* {
    return (*static_cast<Work*>(found))(answer);
  };
  return run_guarded(k, call, &work);
}

// Returns the text that `make` makes, as the answer of this thread, or null if that fails.
template <typename Make>
const char* text_of(cifg_keyboard* k, Make make) {
  const char* text = nullptr;
  guarded(k, [&](Answer& answer) {
    answer.text = make();
    return text = answer.text.c_str(), nullptr;
  });
  return text;
}

cifg::Bytes bytes_of(const cifg_bytes& bytes) {
  return {static_cast<const uint8_t*>(bytes.data), bytes.data ? bytes.size : 0};
}

std::vector<std::string> lines_of(const char* text) {
  std::vector<std::string> lines;
  if (!text || !*text) return lines;
  std::string_view rest = text;
  for (;;) {
    const size_t end = rest.find('\n');
    lines.emplace_back(rest.substr(0, end));
    if (end == std::string_view::npos) return lines;
    rest.remove_prefix(end + 1);
  }
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : "\n") + word;
  return text;
}

bool are_finite(const float* values, size_t size) {
  float sum = 0;
  for (size_t i = 0; i < size; ++i) sum += values[i] * 0.0f;
  return sum == 0;
}

int give(const Answer& answer, cifg_suggestion* out) {
  for (size_t i = 0; i < answer.suggestions.size(); ++i) {
    out[i] = {answer.suggestions[i].word.c_str(), answer.suggestions[i].probability};
  }
  return static_cast<int>(answer.suggestions.size());
}

#ifndef CIFG_NO_FILES
bool read_file(const std::string& path, std::string& out) {
  static constexpr size_t kMostBytes = 1 << 28;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return false;
  char block[1 << 16];
  size_t count = 0;
  while ((count = std::fread(block, 1, sizeof block, file.get())) > 0 && out.size() <= kMostBytes) {
    out.append(block, count);
  }
  return !std::ferror(file.get()) && out.size() <= kMostBytes;
}

cifg_keyboard* open_path(std::string stem, char* error, size_t error_size) {
  std::string contents[5];
  const auto fail = [&](const std::string& message) {
    return tell(message.c_str(), error, error_size), nullptr;
  };
  if (stem.size() < 7 || stem.substr(stem.size() - 7) != ".tflite") {
    return fail("the model's name must end with .tflite");
  }
  if (!read_file(stem, contents[0])) return fail(stem + " cannot be read");
  stem.resize(stem.size() - 7);
  const char* endings[] = {".vocabulary", ".json", ".ngram", ".tail"};
  for (int i = 0; i < 4; ++i) {
    if (!read_file(stem + endings[i], contents[i + 1]) && i < 2) {
      return fail(stem + endings[i] + " cannot be read");
    }
  }
  const auto bytes = [&](int i) { return cifg_bytes{contents[i].data(), contents[i].size()}; };
  const cifg_files files = {bytes(0), bytes(1), bytes(2), bytes(3), bytes(4)};
  return cifg_open_files(&files, error, error_size);
}
#endif

}  // namespace

cifg_keyboard* cifg_open_files(const cifg_files* files, char* error, size_t error_size) {
  auto* k = new (std::nothrow) cifg_keyboard;
  if (!k) return tell(kNoMemory, error, error_size), nullptr;
  const cifg::Parts parts = {bytes_of(files->model), bytes_of(files->vocabulary),
                             bytes_of(files->manifest), bytes_of(files->ngram), bytes_of(files->tail)};
  std::string why;
  const int status = guarded(k, [&](Answer&) { return why = k->keyboard.open(parts), nullptr; });
  if (status == 0 && why.empty()) return k;
  tell(status < 0 ? cifg_error(k) : why.c_str(), error, error_size);
  delete k;
  return nullptr;
}

#ifndef CIFG_NO_FILES
cifg_keyboard* cifg_open(const char* path, char* error, size_t error_size) {
  cifg_keyboard* k = nullptr;
  const char* why = caught([&] { return k = open_path(path, error, error_size), nullptr; });
  if (why) tell(why, error, error_size);
  return k;
}
#endif

void cifg_close(cifg_keyboard* k) { delete k; }

const char* cifg_error(const cifg_keyboard* k) {
  const cifg::Guard guard(k->keyboard.mutex());
  if (const Answer* answer = answer_of(k)) return answer->error;
  return k->lacked_memory ? kNoMemory : "";  // "" if this thread has made no call
}

cifg_sizes cifg_get_sizes(const cifg_keyboard* k) {
  auto& network = const_cast<cifg_keyboard*>(k)->keyboard.network();
  return {network.vocabulary(), network.dim(), network.units(), network.is_trainable(),
          k->keyboard.is_hybrid()};
}

void cifg_set_nfkc(cifg_keyboard* k, cifg_nfkc nfkc, void* user) {
  if (!nfkc) return k->keyboard.set_nfkc(nullptr);
  k->keyboard.set_nfkc([nfkc, user](const std::string& text) {
    const int64_t most = 64 * int64_t(text.size()) + 64;
    std::string out(text.size() + 64, '\0');
    int64_t size = nfkc(user, text.data(), text.size(), out.data(), out.size());
    if (size > int64_t(out.size()) && size <= most) {
      out.resize(static_cast<size_t>(size));
      size = nfkc(user, text.data(), text.size(), out.data(), out.size());
    }
    if (size <= 0 || size > int64_t(out.size())) return text;
    out.resize(static_cast<size_t>(size));
    return out;
  });
}

int cifg_strip(cifg_keyboard* k, const char* text, int count, cifg_suggestion* out, const char** prefix) {
  int number = 0;
  if (prefix) *prefix = "";
  const int status = guarded(k, [&](Answer& answer) {
    cifg::Strip strip = k->keyboard.strip(text, count);
    answer.suggestions = std::move(strip.suggestions);
    answer.text = std::move(strip.prefix);
    if (prefix) *prefix = answer.text.c_str();
    return number = give(answer, out), nullptr;
  });
  return status == 0 ? number : status;
}

int cifg_predict(cifg_keyboard* k, const char* words, const char* prefix, int count, cifg_suggestion* out) {
  int number = 0;
  const int status = guarded(k, [&](Answer& answer) {
    answer.suggestions = k->keyboard.suggest(lines_of(words), prefix ? prefix : "", count);
    return number = give(answer, out), nullptr;
  });
  return status == 0 ? number : status;
}

const char* cifg_tokens(cifg_keyboard* k, const char* text) {
  return text_of(k, [&] { return joined(k->keyboard.tokens(text)); });
}

int32_t cifg_id_of(const cifg_keyboard* k, const char* word) { return k->keyboard.vocabulary().id_of(word); }

const char* cifg_word_of(cifg_keyboard* k, int32_t id) {
  const cifg::Vocabulary& vocabulary = k->keyboard.vocabulary();
  const char* word = nullptr;
  guarded(k, [&](Answer& answer) -> const char* {
    if (id < cifg::kNumSpecial || id >= vocabulary.size()) return "the id is no word's";
    answer.text = vocabulary.word(id);
    return word = answer.text.c_str(), nullptr;
  });
  return word;
}

int cifg_step(cifg_keyboard* k, int32_t token, float* c, float* h) {
  return guarded(k, [&](Answer&) -> const char* {
    cifg::Network& network = k->keyboard.network();
    cifg::State state = {{c, c + network.units()}, {h, h + network.dim()}};
    if (!state.is_finite()) return "the state has a value that is not finite";
    network.step(token, state);
    std::copy(state.c.begin(), state.c.end(), c);
    std::copy(state.h.begin(), state.h.end(), h);
    return nullptr;
  });
}

int cifg_logits(cifg_keyboard* k, const float* h, float* out) {
  return guarded(k, [&](Answer&) -> const char* {
    cifg::Network& network = k->keyboard.network();
    if (!are_finite(h, network.dim())) return "the state has a value that is not finite";
    network.logits(h, out);
    return nullptr;
  });
}

int cifg_train(cifg_keyboard* k, const int32_t* tokens, size_t count, float learning_rate, float* loss) {
  return guarded(k, [&](Answer&) -> const char* {
    k->keyboard.reset();
    if (!are_finite(&learning_rate, 1)) return "the learning rate is not finite";
    return cifg::Training(k->keyboard.network()).step(tokens, count, learning_rate, loss);
  });
}

int64_t cifg_weights(cifg_keyboard* k, const char* name, float* out, size_t size) {
  int64_t number = 0;
  const int status = guarded(k, [&](Answer&) -> const char* {
    cifg::Network& network = k->keyboard.network();
    const std::vector<float>* found = network.is_trainable() ? network.weight(name) : nullptr;
    if (!found) return "the model has no such weights; it needs --trainable";
    if (out && size < found->size()) return "there is too little room for the weights";
    if (out) std::copy(found->begin(), found->end(), out);
    return number = static_cast<int64_t>(found->size()), nullptr;
  });
  return status < 0 ? status : number;
}

int cifg_set_weights(cifg_keyboard* k, const char* name, const float* values, size_t size) {
  return guarded(k, [&](Answer&) -> const char* {
    k->keyboard.reset();
    cifg::Network& network = k->keyboard.network();
    std::vector<float>* found = network.is_trainable() ? network.weight(name) : nullptr;
    if (!found) return "the model has no such weights; it needs --trainable";
    if (size != found->size()) return "the weights have another size";
    if (!are_finite(values, size)) return "a weight is not finite";
    std::copy(values, values + size, found->begin());
    return nullptr;
  });
}

int cifg_learn(cifg_keyboard* k, const char* words, const char* kept) {
  return guarded(k, [&](Answer&) -> const char* {
    if (!k->keyboard.is_hybrid()) return "the model learns no words; it needs --ngram";
    k->keyboard.learn(lines_of(words), lines_of(kept));
    return nullptr;
  });
}

int cifg_forget(cifg_keyboard* k, const char* word) {
  return guarded(k, [&](Answer&) {
    word ? k->keyboard.cache().forget(word) : k->keyboard.cache().forget_all();
    return nullptr;
  });
}

const char* cifg_cache(cifg_keyboard* k) {
  return text_of(k, [&] { return k->keyboard.cache().write(); });
}

int cifg_set_cache(cifg_keyboard* k, const void* data, size_t size) {
  return guarded(k, [&](Answer&) { return k->keyboard.cache().read(bytes_of({data, size})); });
}
