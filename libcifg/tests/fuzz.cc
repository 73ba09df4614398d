// libFuzzer target for one reader, named by -DREADER: what it accepts is then used.
//
//   make -f build.mk fuzz FUZZ=model
//
// `ngram`, `tail` and `manifest` take what else they need of an export, at the path in KEYBOARD less its
// ending. libcifg/tests/fuzz_seeds.py writes such an export, and first cases.
// Checksums and fingerprints are taken as right in this build, or no damaged byte would pass them.
#include <cstdio>
#include <cstdlib>

#include "../cifg/keyboard.h"

namespace {

[[maybe_unused]] std::string part(const char* ending) {
  const char* keyboard = std::getenv("KEYBOARD");
  std::string text;
  if (std::FILE* in = std::fopen((std::string(keyboard ? keyboard : "") + ending).c_str(), "rb")) {
    for (int c; (c = std::fgetc(in)) != EOF;) text += static_cast<char>(c);
    std::fclose(in);
  }
  if (text.empty()) std::abort();
  return text;
}

[[maybe_unused]] const cifg::Vocabulary& table() {
  static const std::string bytes = part(".vocabulary");
  static cifg::Vocabulary words;
  static const cifg::Error error = words.read(cifg::bytes_of(bytes));
  if (error) std::abort();
  return words;
}

[[maybe_unused]] void model(cifg::Bytes data) {
  cifg::Network network;
  if (network.open(data)) return;
  cifg::State state = network.zero_state();
  std::vector<float> scores(network.vocabulary());
  for (int32_t token : {1, 4, -1, 1 << 30, 0}) network.step(token, state);
  network.logits(state.h.data(), scores.data());
  const int32_t tokens[] = {1, 4, 3, 2, 0};
  float loss = 0;
  cifg::Training(network).step(tokens, 5, 0.5f, &loss);
}

[[maybe_unused]] void vocabulary(cifg::Bytes data) {
  cifg::Vocabulary words;
  if (words.read(data)) return;
  for (std::string_view prefix : {"", "a", "th", "\xC3"}) {
    const cifg::PlaceRange range = words.words().range(prefix);
    if (range.first < range.end) words.id_of(words.words()[range.first]);
  }
}

[[maybe_unused]] void ngram(cifg::Bytes data) {
  const cifg::Vocabulary& words = table();
  cifg::NGram found;
  if (found.read(data, words)) return;
  cifg::NGram::Contexts contexts = found.start();
  std::vector<float> probabilities;
  for (int32_t id = 1; id < words.size(); ++id) {
    contexts = found.step(contexts, id);
    found.distribution(contexts, probabilities);
  }
}

[[maybe_unused]] void tail(cifg::Bytes data) {
  cifg::TailLexicon lexicon;
  if (lexicon.read(data, table())) return;
  lexicon.share_of("a");
  lexicon.words().range("th");
}

[[maybe_unused]] void cache(cifg::Bytes data) {
  cifg::WordCache words;
  if (words.read(data)) return;
  words.observe({"so", "", "there", "so"}, {"there"});
  words.forget("so");
  const std::string written = words.write();
  if (words.read(cifg::bytes_of(written))) std::abort();  // what is written can be read
}

[[maybe_unused]] void text(cifg::Bytes data) {
  std::string prefix;
  cifg::Keyboard().context_and_prefix(data.text(), prefix);
  for (int rules = 0; rules < 8; ++rules) {
    const cifg::Tokenizer tokenizer(cifg::Rules{(rules & 1) > 0, (rules & 2) > 0, (rules & 4) > 0});
    for (const std::string& token : tokenizer.tokens(cifg::decode_utf8(data.text()))) {
      cifg::may_be_learnt(token);
    }
  }
}

[[maybe_unused]] void manifest(cifg::Bytes data) {
  static const std::string model = part(".tflite"), vocabulary = part(".vocabulary"),
                           ngram = part(".ngram"), tail = part(".tail");
  cifg::Keyboard keyboard;
  if (!keyboard.open({cifg::bytes_of(model), cifg::bytes_of(vocabulary), data,
                      cifg::bytes_of(ngram), cifg::bytes_of(tail)}).empty()) {
    return;
  }
  keyboard.learn({"see", "johann", "johann"}, {"johann"});
  for (int words = 0; words < 40; ++words) {
    std::string text;
    for (int i = 0; i < words; ++i) text += i % 3 ? "johann " : "see you ";
    keyboard.strip(text, words);
    keyboard.strip(text + "to", 3);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  READER({data, size});
  return 0;
}
