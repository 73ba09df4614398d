// What a keyboard shows for the texts of a file, a text a line, as one line each:
//
//   strips MODEL.tflite TEXTS [CACHE]
//
// "prefix: word probability, ..." with probabilities of nine digits; then, of the last text, some
// sums over the network, and of a trainable model the loss of three steps on it.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "../cifg.h"

namespace {

void train(cifg_keyboard* keyboard, const std::vector<int32_t>& ids) {
  for (int step = 0; step < 3; ++step) {
    float loss = 0;
    if (cifg_train(keyboard, ids.data(), ids.size(), 0.5f, &loss) < 0) return;
    std::printf("loss %.6g\n", loss);
  }
}

}  // namespace

int main(int argc, char** argv) {
  char error[300];
  if (argc < 3) return 2;
  cifg_keyboard* keyboard = cifg_open(argv[1], error, sizeof error);
  if (!keyboard) return std::fprintf(stderr, "%s\n", error), 1;
  if (argc > 3) {
    std::ifstream file(argv[3], std::ios::binary);
    std::stringstream cache;
    cache << file.rdbuf();
    if (cifg_set_cache(keyboard, cache.str().data(), cache.str().size()) < 0) {
      std::printf("cache: %s\n", cifg_error(keyboard));
    }
  }
  std::ifstream texts(argv[2]);
  std::string text, last;
  while (std::getline(texts, text)) {
    cifg_suggestion found[5];
    const char* prefix = "";
    const int count = cifg_strip(keyboard, text.c_str(), 5, found, &prefix);
    std::printf("%s:", prefix);
    for (int i = 0; i < count; ++i) std::printf(" %s %.9g,", found[i].word, found[i].probability);
    std::printf("\n");
    last = text;
  }
  const cifg_sizes sizes = cifg_get_sizes(keyboard);
  std::vector<float> c(sizes.units), h(sizes.dim), scores(sizes.vocabulary);
  std::vector<int32_t> ids = {1};
  std::stringstream words(cifg_tokens(keyboard, last.c_str()));
  for (std::string word; std::getline(words, word);) ids.push_back(cifg_id_of(keyboard, word.c_str()));
  ids.push_back(2);
  double sum = 0;
  for (int32_t id : ids) {
    cifg_step(keyboard, id, c.data(), h.data());
    cifg_logits(keyboard, h.data(), scores.data());
    for (float score : scores) sum += score;
  }
  std::printf("sum %.9g\n", sum);
  train(keyboard, ids);
  cifg_close(keyboard);
}
