// Eight threads with one keyboard:
//
//   threads MODEL.tflite TEXTS
//
// Each thread asks for the strips and tokens of a file, a text a line, and compares them with those
// of one thread. Then words are learnt and forgotten and a trainable model is trained, while other
// threads ask for strips. Prints "all right", or the first difference.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "../cifg.h"

namespace {

constexpr int kThreads = 8, kRounds = 5, kWords = 3;

struct Result {
  std::string prefix, tokens;
  std::vector<std::string> words;
  std::vector<double> probabilities;
};

Result result_of(cifg_keyboard* keyboard, const std::string& text) {
  Result result;
  cifg_suggestion found[kWords];
  const char* prefix = "";
  const int count = cifg_strip(keyboard, text.c_str(), kWords, found, &prefix);
  if (count < 0) return result.prefix = cifg_error(keyboard), result;
  std::this_thread::yield();  // other threads call meanwhile; the strings belong to this one
  result.prefix = prefix;
  for (int i = 0; i < count; ++i) {
    result.words.push_back(found[i].word);
    result.probabilities.push_back(found[i].probability);
  }
  const char* tokens = cifg_tokens(keyboard, text.c_str());
  std::this_thread::yield();
  result.tokens = tokens;
  return result;
}

bool are_equal(const Result& a, const Result& b) {
  if (a.prefix != b.prefix || a.tokens != b.tokens || a.words != b.words) return false;
  for (size_t i = 0; i < a.probabilities.size(); ++i) {
    if (std::fabs(a.probabilities[i] - b.probabilities[i]) > 1e-6) return false;
  }
  return true;
}

template <typename Work>
void in_threads(Work work) {
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) threads.emplace_back(work, number);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  char error[300];
  if (argc != 3) return 2;
  cifg_keyboard* keyboard = cifg_open(argv[1], error, sizeof error);
  if (!keyboard) return std::fprintf(stderr, "%s\n", error), 1;
  std::ifstream file(argv[2]);
  std::vector<std::string> texts;
  for (std::string text; std::getline(file, text);) texts.push_back(text);
  std::vector<Result> alone;
  for (const std::string& text : texts) alone.push_back(result_of(keyboard, text));

  std::atomic<int> wrong{0};
  in_threads([&](int number) {
    for (size_t i = 0; i < kRounds * texts.size(); ++i) {
      const size_t place = (i * (2 * number + 1) + number) % texts.size();
      if (!are_equal(result_of(keyboard, texts[place]), alone[place])) ++wrong;
      // Each thread has its own error.
      if (number % 2 && (cifg_word_of(keyboard, 0) || !*cifg_error(keyboard))) ++wrong;
      if (number % 2 == 0 && *cifg_error(keyboard)) ++wrong;
    }
  });
  if (wrong) return std::printf("%d results differ\n", wrong.load()), 1;

  const cifg_sizes sizes = cifg_get_sizes(keyboard);
  in_threads([&](int number) {
    std::vector<float> c(sizes.units), h(sizes.dim), scores(sizes.vocabulary), weights;
    for (int i = 0; i < 20; ++i) {
      if (number == 0 && sizes.is_hybrid) {
        if (cifg_learn(keyboard, "see\nyou\nat\nthe\nquayside", nullptr) < 0) ++wrong;
      } else if (number == 1 && sizes.is_hybrid) {
        if (cifg_forget(keyboard, i % 5 ? "you" : nullptr) < 0) ++wrong;
      } else if (number == 2 && sizes.is_trainable) {
        const int32_t ids[] = {1, 5, 6, 2};
        float loss = 0;
        if (cifg_train(keyboard, ids, 4, 0.1f, &loss) < 0 || !std::isfinite(loss)) ++wrong;
      } else if (number == 3) {
        if (cifg_step(keyboard, i ? 5 : 1, c.data(), h.data()) < 0) ++wrong;
        if (cifg_logits(keyboard, h.data(), scores.data()) < 0) ++wrong;
      } else if (number == 4 && sizes.is_trainable) {
        weights.resize(static_cast<size_t>(cifg_weights(keyboard, "kernel", nullptr, 0)));
        if (cifg_weights(keyboard, "kernel", weights.data(), weights.size()) < 0) ++wrong;
        if (cifg_set_weights(keyboard, "kernel", weights.data(), weights.size()) < 0) ++wrong;
      } else if (number == 5) {
        const char* cache = cifg_cache(keyboard);
        std::this_thread::yield();
        if (!cache || std::strncmp(cache, "tff-keyboard", 12)) ++wrong;
      } else {
        result_of(keyboard, texts[size_t(number + i) % texts.size()]);
      }
    }
  });
  cifg_close(keyboard);
  if (wrong) return std::printf("%d calls failed\n", wrong.load()), 1;
  std::puts("all right");
}
