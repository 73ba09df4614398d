// An export as a keyboard: text in, words out. The network alone, or mixed with n-gram and cache:
//
//   p(w) = lambda_1 p_network(w) + lambda_2 p_ngram(w) + lambda_3 p_cache(w)
//
// The manifest has weights for each number of context words that the n-gram knows, and for each
// state of the cache's knowledge of the previous word. After the first letter, words of the tail
// lexicon share the models' probability of OOV. The rules are those of tflite_export/runtime/
// hybrid_keyboard.py and keyboard_predictor.py. A keyboard adds capitals, corrections and a
// blocklist.
#pragma once

#include <memory>
#ifndef CIFG_NO_THREADS
#include <mutex>
#endif

#include "ngram.h"
#include "training.h"
#include "word_cache.h"

namespace cifg {

// CIFG_NO_THREADS is for machines without threads, such as WebAssembly.
#ifdef CIFG_NO_THREADS
struct Mutex {};
struct Guard {
  explicit Guard(Mutex&) {}
};
#else
using Mutex = std::recursive_mutex;
using Guard = std::lock_guard<Mutex>;
#endif

struct Suggestion {
  std::string word;
  double probability = 0;
};

struct Strip {
  std::string prefix;  // normalised characters of the word being typed, "" between words
  std::vector<Suggestion> suggestions;  // best first
};

// The parts of an export. `ngram` and `tail` may be empty if the manifest names none.
struct Parts {
  Bytes model, vocabulary, manifest, ngram, tail;
};

// Several threads may call a keyboard after `open`: its methods take turns. Whoever uses what
// `network` and `cache` return holds the lock: `const Guard guard(keyboard.mutex())`.
class Keyboard {
 public:
  static constexpr int kMostSuggestions = 1000;

  // Returns "" or a line that says which part cannot be used and why.
  std::string open(const Parts& parts) {
    Json manifest;
    if (!JsonReader::read(parts.manifest.text(), manifest)) return "manifest: it is no JSON";
    if (Error error = read_manifest(manifest, parts)) return std::string("manifest: ") + error;
    if (Error error = network_.open(parts.model)) return std::string("model: ") + error;
    if (Error error = vocabulary_.read(parts.vocabulary)) return std::string("vocabulary: ") + error;
    if (vocabulary_.size() != network_.vocabulary()) return "vocabulary: of another model";
    tokenizer_ = Tokenizer(vocabulary_.rules());
    Error error = is_hybrid_ ? ngram_.read(parts.ngram, vocabulary_) : nullptr;
    if (error) return std::string("n-gram: ") + error;
    error = has_tail_ ? tail_.read(parts.tail, vocabulary_) : nullptr;
    if (error) return std::string("tail lexicon: ") + error;
    reset();
    return "";
  }

  Mutex& mutex() const { return mutex_; }
  Network& network() { return network_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }
  WordCache& cache() { return cache_; }
  bool is_hybrid() const { return is_hybrid_; }
  void set_nfkc(Tokenizer::Nfkc nfkc) {
    const Guard guard(mutex_);
    tokenizer_.set_nfkc(std::move(nfkc));
  }

  // Forgets the states of the last text. Call it after the weights have changed.
  void reset() {
    const Guard guard(mutex_);
    ids_.clear(), states_.clear(), probabilities_.clear(), scored_ = false;
  }

  std::vector<std::string> tokens(std::string_view text) const {
    const Guard guard(mutex_);
    return tokenizer_.tokens(decode_utf8(text));
  }

  // Returns the finished words of a text, and the normalised start of the unfinished word. A word
  // is unfinished if one more letter would still belong to it. Only the end of a long text is read.
  std::vector<std::string> context_and_prefix(std::string_view text, std::string& prefix) const {
    const Guard guard(mutex_);
    std::u32string end = end_of(decode_utf8(text));
    end += U'x';
    std::vector<std::string> words = tokenizer_.tokens(std::move(end));
    prefix.clear();
    if (words.empty()) return words;  // the caller's NFKC function returned no word
    prefix = std::move(words.back());
    words.pop_back();
    if (!prefix.empty() && prefix.back() == 'x') prefix.pop_back();
    return words;
  }

  Strip strip(std::string_view text, int count) {
    const Guard guard(mutex_);
    Strip found;
    const std::vector<std::string> context = context_and_prefix(text, found.prefix);
    found.suggestions = suggest(context, found.prefix, count);
    return found;
  }

  // Returns the `count` most probable words that start with `prefix`, best first, ties by lower id;
  // none if `count` is below 1.
  std::vector<Suggestion> suggest(const std::vector<std::string>& context, std::string_view prefix,
                                  int count) {
    if (count < 1) return {};
    const Guard guard(mutex_);
    count = std::min(count, kMostSuggestions);
    score(context);
    const PlaceRange range = vocabulary_.words().range(prefix);
    std::vector<Suggestion> ranked;
    for (int32_t id : best_ids(range, count)) {
      ranked.push_back({std::string(vocabulary_.word(id)), scores_[id]});
    }
    if (is_hybrid_) {
      const size_t size = static_cast<size_t>(vocabulary_.size());
      for (size_t e = 0; e < extras_.size(); ++e) {
        if (starts_with(extras_[e], prefix)) ranked.push_back({extras_[e], scores_[size + e]});
      }
    }
    complete(ranked, prefix, count);
    std::stable_sort(ranked.begin(), ranked.end(), [](const Suggestion& a, const Suggestion& b) {
      return a.probability > b.probability;
    });
    if (ranked.size() > size_t(count)) ranked.resize(count);
    return ranked;
  }

  // Learns a message that was sent, except words that must not be remembered. Words are normalised;
  // "" is a gap, and so is a word that is not UTF-8, because a cache file cannot hold it. Hybrids
  // only.
  void learn(std::vector<std::string> words, const std::vector<std::string>& kept) {
    const Guard guard(mutex_);
    for (std::string& word : words) {
      if (!is_utf8(word) || !may_be_learnt(word)) word.clear();
    }
    cache_.observe(words, kept);
  }

 private:
  static constexpr size_t kWindow = 500;  // characters
  static constexpr size_t kStatesKept = 64;
  static constexpr int kOrderGroups = 3, kFamiliarities = 4, kBuckets = kOrderGroups * kFamiliarities;

  // --- the manifest

  Error read_manifest(const Json& manifest, const Parts& parts) {
    const Json* format = manifest.field("format");
    if (!format || format->text != "tff-keyboard export 1") return "its format is another";
    const auto is_described = [&](const char* name, Bytes data) {
      const Json* facts = manifest.field(name);
      const Json* sha256 = facts ? facts->field("sha256") : nullptr;
      return sha256 && has_sha256(data, sha256->text);
    };
    const auto is_named = [&](const char* name) {
      const Json* facts = manifest.field(name);
      return facts && facts->kind == Json::kObject;
    };
    const Json* facts = manifest.field("model");
    const Json* name = facts ? facts->field("name") : nullptr;
    if (!name || name->text != "cifg") return "the model is not a CIFG, the only one that libcifg runs";
    if (!is_described("model", parts.model)) return "the model is not the one it describes";
    if (!is_described("vocabulary", parts.vocabulary)) return "the vocabulary is not the one it describes";
    const Json* length = manifest.field("model")->field("training_length");
    training_length_ = 0;
    if (length && length->kind != Json::kNull) {
      if (!length->is_integer(2, 999'999)) return "model.training_length is out of range";
      training_length_ = static_cast<size_t>(length->number);
    }
    is_hybrid_ = is_named("ngram");
    has_tail_ = is_named("tail");
    if (is_hybrid_ && !is_described("ngram", parts.ngram)) return "the n-gram is not the one it describes";
    if (has_tail_ && !is_described("tail", parts.tail)) return "the lexicon is not the one it describes";
    return is_hybrid_ ? read_mixture(manifest.field("mixture")) : nullptr;
  }

  Error read_mixture(const Json* mixture) {
    const Json* rows = mixture ? mixture->field("weights") : nullptr;
    if (!rows || rows->items.size() != kBuckets) return "mixture.weights has not 12 rows";
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      const std::vector<Json>& row = rows->items[bucket].items;
      double total = 0;
      for (const Json& weight : row) {
        if (weight.kind != Json::kNumber || !(weight.number >= 0 && weight.number <= 1)) return kWeights;
        total += weight.number;
      }
      // Rounded weights need not add up to one; with an empty cache, the sum is 0.
      if (row.size() != 3 || !(total > 0.5)) return kWeights;
      if (bucket % kFamiliarities == 0 && row[2].number > 0) return kWeights;
      for (int i = 0; i < 3; ++i) lambdas_[bucket][i] = row[i].number / total;
    }
    return nullptr;
  }

  static constexpr const char* kWeights = "mixture.weights has a row that is none";

  // --- text

  static bool is_space(char32_t c) {  // as Python's str.isspace
    return (c >= 0x1C && c <= 0x1F) || (c != 0 && is_in(kWhitespaceRanges, c));
  }

  // Returns the last 500 to 1,000 characters, with a start that stays the same while the user types
  // on. A word that the start cuts in two is left out, unless there is no other word.
  static std::u32string end_of(std::u32string text) {
    const size_t windows = text.size() / kWindow;
    if (windows < 2) return text;
    text.erase(0, (windows - 1) * kWindow);
    for (size_t i = 0; i < kWindow && i < text.size(); ++i) {
      if (is_space(text[i])) return text.substr(i);
    }
    return text;
  }

  // --- the network, which keeps the states of the last text

  // Returns the last of BOS and the words, at most as many as training sequences had; they are read
  // from a zero state. The first one is at a multiple of half that length, so that it stays the
  // same for several words.
  std::vector<int32_t> ids_of(const std::vector<std::string>& context) const {
    std::vector<int32_t> ids = {kBos};
    for (const std::string& word : context) ids.push_back(vocabulary_.id_of(word));
    if (training_length_ && ids.size() > training_length_) {
      const size_t step = training_length_ / 2;
      const size_t start = (ids.size() - training_length_ + step - 1) / step * step;
      ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(start));
    }
    return ids;
  }

  // Computes the probabilities [V] after a context. Returns false if they are those of the last
  // call.
  bool read(const std::vector<int32_t>& ids) {
    size_t known = 0;
    while (known < ids.size() && known < ids_.size() && ids[known] == ids_[known]) ++known;
    if (known == ids.size() && known == ids_.size() && !probabilities_.empty()) return false;
    while (known && states_[known - 1].c.empty()) --known;
    ids_.resize(known), states_.resize(known);
    for (size_t i = known; i < ids.size(); ++i) {
      State state = i ? states_[i - 1] : network_.zero_state();
      network_.step(ids[i], state);
      ids_.push_back(ids[i]);
      states_.push_back(std::move(state));
      if (i >= kStatesKept) states_[i - kStatesKept] = State();
    }
    probabilities_.resize(static_cast<size_t>(network_.vocabulary()));
    network_.logits(states_.back().h.data(), probabilities_.data());
    softmax(probabilities_.data(), network_.vocabulary());
    return true;
  }

  // --- the mixture

  // Fills `scores_` and `p_oov_`.
  void score(const std::vector<std::string>& context) {
    const bool is_new = read(ids_of(context));
    if (!is_hybrid_) {
      if (is_new || !scored_) scores_ = probabilities_;
      scored_ = true;
      p_oov_ = scores_[kOov];
      return;
    }
    if (!is_new && scored_ && context == scored_context_ && changes_ == cache_.changes()) return;
    follow_cache();
    NGram::Contexts contexts = ngram_.start();
    if (context.size() + 1 < ngram_.order()) contexts = ngram_.step(contexts, kBos);
    const size_t first = context.size() - std::min(context.size(), ngram_.order() - 1);
    for (size_t i = first; i < context.size(); ++i) {
      contexts = ngram_.step(contexts, vocabulary_.id_of(context[i]));
    }
    const std::string_view previous = context.empty() ? WordCache::kEdge : context.back();
    const double followed = cache_.followed(previous);
    const int familiarity = cache_.total() <= 0 ? 0 : 1 + (followed > 0) + (followed > 3);
    const int group = std::min(std::max(NGram::matched(contexts) - 1, 0), kOrderGroups - 1);
    const double* lambda = lambdas_[group * kFamiliarities + familiarity];
    const size_t size = probabilities_.size();
    scores_.assign(size + extras_.size(), 0);
    ngram_.distribution(contexts, from_ngram_);
    const float of_network = static_cast<float>(lambda[0]), of_ngram = static_cast<float>(lambda[1]);
    for (size_t v = 0; v < size; ++v) {
      const float network = probabilities_[v] * of_network;
      scores_[v] = network + of_ngram * from_ngram_[v];
    }
    p_oov_ = scores_[kOov];  // of network and n-gram
    if (lambda[2] > 0) add_cache(previous, followed, lambda[2]);
    scored_ = true;
    scored_context_ = context;
  }

  // The cache by ids. Words outside the table that may be suggested have the ids V, V + 1, ...
  void follow_cache() {
    if (changes_ == cache_.changes() && scored_) return;
    changes_ = cache_.changes();
    extras_.clear();
    for (const auto& [word, uses] : cache_.uses()) {
      const bool is_offered = uses >= kOfferedFrom || cache_.kept().count(word);
      if (is_offered && vocabulary_.id_of(word) == kOov) extras_.push_back(word);
    }
    int64_t total = 0;
    for (const auto& [word, count] : cache_.words()) total += count;
    cached_ = row_of(cache_.words(), total > 1 ? double(total) : 1.0);
  }

  static constexpr int64_t kOfferedFrom = 2;  // uses; a word typed once may be a slip

  int32_t id_in_cache(std::string_view word) const {
    if (word == WordCache::kEdge) return kEos;
    const auto found = std::lower_bound(extras_.begin(), extras_.end(), word);
    if (found != extras_.end() && *found == word) {
      return vocabulary_.size() + static_cast<int32_t>(found - extras_.begin());
    }
    return vocabulary_.id_of(word);
  }

  std::map<int32_t, double> row_of(const WordCache::Counts& counts, double unit) const {
    std::map<int32_t, int64_t> by_id;
    for (const auto& [word, count] : counts) by_id[id_in_cache(word)] += count;
    std::map<int32_t, double> row;
    for (const auto& [id, count] : by_id) row[id] = double(count) / unit;
    return row;
  }

  void add_cache(std::string_view previous, double followed, double weight) {
    const double of_words = weight * WordCache::kKappa / (followed + WordCache::kKappa);
    for (const auto& [id, share] : cached_) {
      scores_[id] = static_cast<float>(double(scores_[id]) + of_words * share);
    }
    if (followed <= 0) return;
    const double of_pairs = weight / (followed + WordCache::kKappa);
    for (const auto& [id, count] : row_of(cache_.pairs().find(previous)->second, WordCache::kUnit)) {
      scores_[id] = static_cast<float>(double(scores_[id]) + of_pairs * count);
    }
  }

  // --- the best of many

  // Returns the ids of the `count` best words of a range, best first, ties by lower id.
  std::vector<int32_t> best_ids(PlaceRange range, int count) const {
    std::vector<int32_t> best;
    for (size_t place = range.first; place < range.end; ++place) {
      const int32_t id = static_cast<int32_t>(place) + kNumSpecial;
      if (is_hybrid_ && !(scores_[id] > 0)) continue;
      if (best.size() == size_t(count) && !(scores_[id] > scores_[best.back()])) continue;
      if (best.size() == size_t(count)) best.pop_back();
      size_t at = best.size();
      while (at > 0 && scores_[id] > scores_[best[at - 1]]) --at;
      best.insert(best.begin() + static_cast<ptrdiff_t>(at), id);
    }
    return best;
  }

  // Adds words of the lexicon that continue a prefix. A word that is ranked already gets the sum of
  // both probabilities.
  void complete(std::vector<Suggestion>& ranked, std::string_view prefix, int count) const {
    if (!has_tail_ || prefix.empty()) return;
    for (Suggestion& found : ranked) found.probability += p_oov_ * tail_.share_of(found.word);
    const size_t wanted = size_t(count) + ranked.size(), num_ranked = ranked.size();
    const PlaceRange range = tail_.words().range(prefix);
    std::vector<size_t> places;
    for (size_t place = range.first; place < range.end; ++place) places.push_back(place);
    const auto is_better = [&](size_t a, size_t b) {
      const float share_a = tail_.shares()[a], share_b = tail_.shares()[b];
      return share_a != share_b ? share_a > share_b : a < b;
    };
    const size_t taken = std::min(wanted, places.size());
    std::partial_sort(places.begin(), places.begin() + static_cast<ptrdiff_t>(taken), places.end(), is_better);
    for (size_t i = 0; i < taken; ++i) {
      const std::string_view word = tail_.words()[places[i]];
      bool is_ranked = false;
      for (size_t r = 0; r < num_ranked; ++r) is_ranked |= ranked[r].word == word;
      if (!is_ranked) ranked.push_back({std::string(word), p_oov_ * tail_.shares()[places[i]]});
    }
  }

  mutable Mutex mutex_;
  Network network_;
  Vocabulary vocabulary_;
  Tokenizer tokenizer_;
  NGram ngram_;
  TailLexicon tail_;
  WordCache cache_;
  bool is_hybrid_ = false, has_tail_ = false;
  size_t training_length_ = 0;  // 0 if not known
  double lambdas_[kBuckets][3] = {};

  std::vector<int32_t> ids_;   // ids that were read last
  std::vector<State> states_;  // the state after each id; empty if it is not kept
  std::vector<float> probabilities_, from_ngram_, scores_;
  double p_oov_ = 0;
  bool scored_ = false;
  std::vector<std::string> scored_context_;
  uint64_t changes_ = 0;  // number of changes of the cache when the following were computed
  std::vector<std::string> extras_;
  std::map<int32_t, double> cached_;
};

}  // namespace cifg
