// Counts of one user's recent words and word pairs, which decay. Forgetting a word is exact.
//
//   p(w | v) = (c(v w) + kKappa c(w) / C) / (c(v) + kKappa)
//
// where an occurrence k words ago counts 2^(-k / half_life). Counts are integers, in 2^-20 of an
// occurrence. The file is two lines: the format's name, and JSON with sorted keys.
// Source: tff_keyboard/predictors/hybrid/word_cache.py, tff_keyboard_app/keyboard/cache_file.py.
#pragma once

#include <limits>
#include <set>

#include "vocabulary.h"

namespace cifg {

class WordCache {
 public:
  using Counts = std::map<std::string, int64_t, std::less<>>;
  using Rows = std::map<std::string, Counts, std::less<>>;
  static constexpr double kKappa = 1, kUnit = 1 << 20;
  // The edge of a message: before its first word, and after its last.
  static constexpr std::string_view kEdge = "";

  const Counts& words() const { return words_; }
  const Rows& pairs() const { return pairs_; }
  const Counts& uses() const { return uses_; }
  const std::set<std::string, std::less<>>& kept() const { return kept_; }
  uint64_t changes() const { return changes_; }

  double total() const { return double(sum_of(words_)) / kUnit; }  // in occurrences

  // Returns the number of occurrences of a word that are followed by a word or an edge.
  double followed(std::string_view word) const {
    const auto row = pairs_.find(word);
    return row == pairs_.end() ? 0 : double(sum_of(row->second)) / kUnit;
  }

  // Learns a message that was sent; an empty word is a gap. `kept` were typed against a correction.
  // The forms of words in a file (capitals) stay as they are: the library has lower-case words.
  void observe(const std::vector<std::string>& message, const std::vector<std::string>& kept) {
    const size_t count = message.size() + 1;  // including the end
    decay(count);
    const std::string edge(kEdge);
    const std::string* before = &edge;
    for (size_t i = 0; i < count; ++i) {
      const bool is_end = i + 1 == count;
      const bool is_gap = !is_end && !is_learnable(message[i]);
      const std::string& event = is_end ? edge : message[i];
      const int64_t weight = scaled(kUnit, factor(count - 1 - i));
      if (!is_gap && weight >= smallest()) {
        words_[event] += weight;
        if (!is_end) ++uses_[event];
        if (before) pairs_[*before][event] += weight;
      }
      before = is_gap ? nullptr : &event;
    }
    for (const std::string& word : kept) {
      const bool is_here = std::find(message.begin(), message.end(), word) != message.end();
      if (is_here && uses_.count(word)) kept_.insert(word);
    }
    ++changes_;
  }

  // Changes the counts as if this word had been a gap in every message.
  void forget(std::string_view word) {
    if (word == kEdge) return;
    erase(words_, word), erase(uses_, word), erase(kept_, word), erase(pairs_, word);
    erase(forms_, word);
    for (auto& [first, row] : pairs_) erase(row, word);
    drop_empty(pairs_);
    ++changes_;
  }

  void forget_all() {
    words_.clear(), pairs_.clear(), uses_.clear(), kept_.clear(), forms_.clear();
    ++changes_;
  }

  Error read(Bytes data) {
    std::string_view line;
    if (data.size > 24'000'000) return "it is larger than 24,000,000 bytes";
    if (!take_line(data, 100, line) || line != kFormat) return "its first line is another";
    Json json;
    if (!JsonReader::read(data.text(), json) || json.kind != Json::kObject) return "it is damaged";
    WordCache found;
    const Json *half_life = json.field("half_life"), *floor = json.field("floor");
    if (!half_life || !floor || !(half_life->number >= 1 && half_life->number <= 1e6) ||
        !(floor->number >= 1 / kUnit && floor->number < 1)) {
      return "its half life or floor is out of range";
    }
    found.half_life_ = half_life->number, found.half_life_text_ = half_life->text;
    found.floor_ = floor->number, found.floor_text_ = floor->text;
    const Json *pairs = json.field("pairs"), *kept = json.field("kept");
    const Json* forms = json.field("forms");
    if (!counts_of(json.field("words"), found.words_) || !counts_of(json.field("uses"), found.uses_) ||
        !rows_from(pairs, found.pairs_) || (forms && !rows_from(forms, found.forms_)) || !kept ||
        kept->kind != Json::kList) {
      return "a field is of another kind";
    }
    for (const Json& word : kept->items) {
      if (word.kind != Json::kString) return "a field is of another kind";
      found.kept_.insert(word.text);
    }
    const Error error = found.check();
    if (error) return error;
    std::vector<std::string> not_to_learn;
    for (const auto& [word, uses] : found.uses_) {
      if (!may_be_learnt(word)) not_to_learn.push_back(word);
    }
    for (const std::string& word : not_to_learn) found.forget(word);
    found.changes_ = changes_ + 1;
    *this = std::move(found);
    return nullptr;
  }

  std::string write() const {
    const std::string forms = forms_.empty() ? "" : ",\"forms\":" + rows_of(forms_);
    std::string kept = "[";
    for (const std::string& word : kept_) kept += (kept.size() > 1 ? "," : "") + json_string(word);
    return std::string(kFormat) + "\n{\"floor\":" + floor_text_ + forms + ",\"half_life\":" +
           half_life_text_ + ",\"kept\":" + kept + "],\"pairs\":" + rows_of(pairs_) +
           ",\"uses\":" + row_of(uses_) + ",\"words\":" + row_of(words_) + "}\n";
  }

 private:
  static constexpr std::string_view kFormat = "tff-keyboard word cache 2";
  static constexpr int kPrecision = 32;  // bits of the decay
  static constexpr size_t kLongestWord = 40;  // characters

  static bool is_learnable(std::string_view word) {
    return !word.empty() && count_code_points(word) <= kLongestWord && !is_mask(word);
  }

  static std::string row_of(const Counts& counts) {
    std::string text = "{";
    for (const auto& [word, count] : counts) {
      text += (text.size() > 1 ? "," : "") + json_string(word) + ":" + std::to_string(count);
    }
    return text + "}";
  }

  static std::string rows_of(const Rows& rows) {
    std::string text = "{";
    for (const auto& [word, row] : rows) {
      text += (text.size() > 1 ? "," : "") + json_string(word) + ":" + row_of(row);
    }
    return text + "}";
  }

  // Returns the sum, or the largest number if a file has counts whose sum is above it.
  static int64_t sum_of(const Counts& counts) {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    int64_t sum = 0;
    for (const auto& [word, count] : counts) sum = count > kMost - sum ? kMost : sum + count;
    return sum;
  }

  template <typename Container>
  static void erase(Container& from, std::string_view word) {
    const auto found = from.find(word);
    if (found != from.end()) from.erase(found);
  }

  int64_t smallest() const { return static_cast<int64_t>(kUnit * floor_); }

  // Returns 2^(-words / half_life) in units of 2^-32, rounded down.
  uint64_t factor(size_t num_words) const {
    return static_cast<uint64_t>(std::pow(2.0, kPrecision - double(num_words) / half_life_));
  }

  // Returns count * factor / 2^32, rounded down, in 64 bits. Counts are below 2^41.
  static int64_t scaled(int64_t count, uint64_t factor) {
    const uint64_t high = uint64_t(count) >> kPrecision, low = uint64_t(count) & 0xFFFFFFFF;
    return static_cast<int64_t>(high * factor + (low * factor >> kPrecision));
  }

  void decay(size_t num_words) {
    const uint64_t by = factor(num_words);
    const auto shrink = [&](Counts& row) {
      for (auto entry = row.begin(); entry != row.end();) {
        entry->second = scaled(entry->second, by);
        entry = entry->second >= smallest() ? std::next(entry) : row.erase(entry);
      }
    };
    shrink(words_);
    for (auto entry = uses_.begin(); entry != uses_.end();) {
      entry = words_.count(entry->first) ? std::next(entry) : uses_.erase(entry);
    }
    for (auto word = kept_.begin(); word != kept_.end();) {
      word = uses_.count(*word) ? std::next(word) : kept_.erase(word);
    }
    for (auto& [word, row] : forms_) {
      if (!uses_.count(word)) row.clear();
    }
    for (auto& [first, row] : pairs_) shrink(row);
    drop_empty(forms_), drop_empty(pairs_);
  }

  static void drop_empty(Rows& rows) {
    for (auto row = rows.begin(); row != rows.end();) {
      row = row->second.empty() ? rows.erase(row) : std::next(row);
    }
  }

  static bool counts_of(const Json* json, Counts& out) {
    if (!json || json->kind != Json::kObject) return false;
    for (const auto& [word, count] : json->fields) {
      if (!count.is_integer(1, 9e15)) return false;
      out[word] = static_cast<int64_t>(count.number);
    }
    return true;
  }

  static bool rows_from(const Json* json, Rows& out) {
    if (!json || json->kind != Json::kObject) return false;
    for (const auto& [word, row] : json->fields) {
      if (!counts_of(&row, out[word])) return false;
    }
    return true;
  }

  // Returns whether `observe` can produce these counts.
  Error check() const {
    const double most = kUnit / (1 - std::pow(2.0, -1 / half_life_));
    double all_words = 0, all_pairs = 0;
    for (const auto& [word, count] : words_) {
      all_words += double(count);
      if (count < smallest() || (word != kEdge && !is_learnable(word))) return kOutOfRange;
      if (word != kEdge && !uses_.count(word)) return "its words and their uses do not go together";
    }
    for (const auto& [first, row] : pairs_) {
      if (row.empty() || (first != kEdge && !is_learnable(first))) return kOutOfRange;
      for (const auto& [word, count] : row) {
        all_pairs += double(count);
        if (count < smallest() || !words_.count(word)) return kOutOfRange;
      }
    }
    for (const auto& [word, uses] : uses_) {
      if (word == kEdge || !words_.count(word)) return "its words and their uses do not go together";
    }
    for (const std::string& word : kept_) {
      if (!uses_.count(word)) return "its words and their uses do not go together";
    }
    for (const auto& [word, row] : forms_) {
      const auto uses = uses_.find(word);
      if (row.empty() || uses == uses_.end() || sum_of(row) > uses->second) return kOutOfRange;
      for (const auto& [form, count] : row) {
        if (count_code_points(form) != count_code_points(word)) return kOutOfRange;
        if (!may_be_learnt(form)) return kOutOfRange;
      }
    }
    return all_words <= most && all_pairs <= most ? nullptr : "it holds more than a cache can";
  }

  static constexpr const char* kOutOfRange = "a word or a count is out of range";

  double half_life_ = 300, floor_ = 0.02;
  std::string half_life_text_ = "300", floor_text_ = "0.02";  // as the file has them
  Counts words_;
  Rows pairs_, forms_;
  Counts uses_;
  std::set<std::string, std::less<>> kept_;
  uint64_t changes_ = 0;
};

}  // namespace cifg
