// The C interface over the header.
#include "cifg.h"

#include <cstdio>
#include <memory>
#include <new>

#include "cifg/keyboard.h"

struct cifg_keyboard {
  cifg::Keyboard keyboard;
  const char* error = "";  // of those that need no memory
  std::string text;
  std::vector<cifg::Suggestion> suggestions;
};

namespace {

constexpr const char* kNoMemory = "there is not enough memory";

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

int set_error(cifg_keyboard* k, const char* error) {
  k->error = error ? error : "";
  return error ? -1 : 0;
}

template <typename Work>
int guarded(cifg_keyboard* k, Work work) {
  bool is_through = false;
  const char* error = caught([&] {
    const char* found = work();
    is_through = true;
    return found;
  });
  if (!is_through) k->keyboard.reset();
  return set_error(k, error);
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

int give(cifg_keyboard* k, cifg_suggestion* out) {
  for (size_t i = 0; i < k->suggestions.size(); ++i) {
    out[i] = {k->suggestions[i].word.c_str(), k->suggestions[i].probability};
  }
  return static_cast<int>(k->suggestions.size());
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
  const int status = guarded(k, [&] { return k->text = k->keyboard.open(parts), nullptr; });
  if (status == 0 && k->text.empty()) return k;
  tell(status < 0 ? k->error : k->text.c_str(), error, error_size);
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

const char* cifg_error(const cifg_keyboard* k) { return k->error; }

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
  const int status = guarded(k, [&] {
    cifg::Strip strip = k->keyboard.strip(text, count);
    k->suggestions = std::move(strip.suggestions);
    k->text = std::move(strip.prefix);
    return nullptr;
  });
  if (prefix) *prefix = status == 0 ? k->text.c_str() : "";
  return status == 0 ? give(k, out) : status;
}

int cifg_predict(cifg_keyboard* k, const char* words, const char* prefix, int count, cifg_suggestion* out) {
  const int status = guarded(k, [&] {
    k->suggestions = k->keyboard.suggest(lines_of(words), prefix ? prefix : "", count);
    return nullptr;
  });
  return status == 0 ? give(k, out) : status;
}

const char* cifg_tokens(cifg_keyboard* k, const char* text) {
  const int status = guarded(k, [&] { return k->text = joined(k->keyboard.tokens(text)), nullptr; });
  return status == 0 ? k->text.c_str() : nullptr;
}

int32_t cifg_id_of(const cifg_keyboard* k, const char* word) { return k->keyboard.vocabulary().id_of(word); }

const char* cifg_word_of(cifg_keyboard* k, int32_t id) {
  const cifg::Vocabulary& vocabulary = k->keyboard.vocabulary();
  if (id < cifg::kNumSpecial || id >= vocabulary.size()) return set_error(k, "the id is no word's"), nullptr;
  const int status = guarded(k, [&] { return k->text = vocabulary.word(id), nullptr; });
  return status == 0 ? k->text.c_str() : nullptr;
}

int cifg_step(cifg_keyboard* k, int32_t token, float* c, float* h) {
  return guarded(k, [&]() -> const char* {
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
  return guarded(k, [&]() -> const char* {
    cifg::Network& network = k->keyboard.network();
    if (!are_finite(h, network.dim())) return "the state has a value that is not finite";
    network.logits(h, out);
    return nullptr;
  });
}

int cifg_train(cifg_keyboard* k, const int32_t* tokens, size_t count, float learning_rate, float* loss) {
  k->keyboard.reset();
  return guarded(k, [&]() -> const char* {
    if (!are_finite(&learning_rate, 1)) return "the learning rate is not finite";
    return cifg::Training(k->keyboard.network()).step(tokens, count, learning_rate, loss);
  });
}

int64_t cifg_weights(cifg_keyboard* k, const char* name, float* out, size_t size) {
  cifg::Network& network = k->keyboard.network();
  const std::vector<float>* found = network.is_trainable() ? network.weight(name) : nullptr;
  const int status = guarded(k, [&]() -> const char* {
    if (!found) return "the model has no such weights; it needs --trainable";
    return out && size < found->size() ? "there is too little room for the weights" : nullptr;
  });
  if (status < 0) return status;
  if (out) std::copy(found->begin(), found->end(), out);
  return static_cast<int64_t>(found->size());
}

int cifg_set_weights(cifg_keyboard* k, const char* name, const float* values, size_t size) {
  k->keyboard.reset();
  return guarded(k, [&]() -> const char* {
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
  return guarded(k, [&]() -> const char* {
    if (!k->keyboard.is_hybrid()) return "the model learns no words; it needs --ngram";
    k->keyboard.learn(lines_of(words), lines_of(kept));
    return nullptr;
  });
}

int cifg_forget(cifg_keyboard* k, const char* word) {
  return guarded(k, [&] {
    word ? k->keyboard.cache().forget(word) : k->keyboard.cache().forget_all();
    return nullptr;
  });
}

const char* cifg_cache(cifg_keyboard* k) {
  const int status = guarded(k, [&] { return k->text = k->keyboard.cache().write(), nullptr; });
  return status == 0 ? k->text.c_str() : nullptr;
}

int cifg_set_cache(cifg_keyboard* k, const void* data, size_t size) {
  return guarded(k, [&] { return k->keyboard.cache().read(bytes_of({data, size})); });
}
