// Reads the vocabulary next to a model, and the tail lexicon in the same layout.
//
//   line 1    the format's name
//   line 2    SHA-256, in hex, of all bytes that follow
//   line 3    JSON
//   then      zlib: one byte a word, the number of characters it shares with the previous word; in a
//             lexicon, one byte a word, -8 times the logarithm of its share; then the rest of each
//             word and a line feed. Words are sorted by code points, which is the order of their UTF-8
//             bytes.
//
// Source: tflite_export/format/vocabulary_file.py, tail_file.py.
#pragma once

#include <algorithm>
#include <cmath>

#include "inflate.h"
#include "json.h"
#include "network.h"
#include "sha256.h"
#include "tokenizer.h"

namespace cifg {

// Indices [first, end) of a sorted list.
struct PlaceRange {
  size_t first, end;
};

// Words in ascending order, in one block of memory.
class SortedWords {
 public:
  size_t size() const { return starts_.empty() ? 0 : starts_.size() - 1; }
  std::string_view operator[](size_t place) const {
    return std::string_view(text_).substr(starts_[place], starts_[place + 1] - starts_[place]);
  }

  // Returns the index of a word; `size()` if it is missing.
  size_t place_of(std::string_view word) const {
    const size_t place = lower_bound(word);
    return place < size() && (*this)[place] == word ? place : size();
  }

  // Returns the indices of the words that start with a prefix.
  PlaceRange range(std::string_view prefix) const {
    size_t low = lower_bound(prefix);
    const size_t first = low;
    for (size_t high = size(); low < high;) {
      const size_t middle = (low + high) / 2;
      starts_with((*this)[middle], prefix) ? low = middle + 1 : high = middle;
    }
    return {first, low};
  }

  // Unpacks the third part of a file. `further` gets `bytes_a_word` bytes for each word.
  Error unpack(Bytes packed, size_t count, size_t bytes_a_word, std::string& further) {
    static constexpr size_t kMostPacked = 16'000'000, kMostText = 64'000'000;
    std::string data;
    const size_t start = count * (1 + bytes_a_word);
    if (!Inflater::inflate(packed, kMostPacked, data) || start > data.size()) {
      return "its packed part is cut, too long or of another size";
    }
    further = data.substr(count, count * bytes_a_word);
    if (!is_utf8(std::string_view(data).substr(start))) return "its words are not UTF-8";
    starts_.assign(1, 0);
    text_.clear();
    size_t at = start;
    for (size_t i = 0; i < count; ++i) {
      const size_t end = data.find('\n', at);
      if (end == std::string::npos) return "it holds fewer words than its header says";
      const std::string_view before = i ? (*this)[i - 1] : std::string_view();
      const size_t shared = bytes_of_characters(before, static_cast<uint8_t>(data[i]));
      std::string word(before.substr(0, shared));
      word.append(data, at, end - at);
      at = end + 1;
      if (text_.size() + word.size() > kMostText) return "its words are too long";
      if (i && word <= before) return "its words are not in order";
      text_ += word;
      starts_.push_back(static_cast<uint32_t>(text_.size()));
    }
    return at == data.size() ? nullptr : "it holds more words than its header says";
  }

 private:
  size_t lower_bound(std::string_view word) const {
    size_t low = 0;
    for (size_t high = size(); low < high;) {
      const size_t middle = (low + high) / 2;
      (*this)[middle] < word ? low = middle + 1 : high = middle;
    }
    return low;
  }

  static size_t bytes_of_characters(std::string_view text, int characters) {
    size_t at = 0;
    while (at < text.size() && characters-- > 0) next_code_point(text, at);
    return at;
  }

  std::string text_;
  std::vector<uint32_t> starts_;
};

// Returns whether a token is a mask, such as <#>, <url> or <unk>, and not a word.
inline bool is_mask(std::string_view word) {
  return word.size() >= 2 && word.front() == '<' && word.back() == '>' &&
         word.substr(1, word.size() - 2).find_first_of("<>") == std::string_view::npos;
}

inline bool may_be_a_row(std::string_view word) {
  for (size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    const bool is_next_line = c == '\xC2' && i + 1 < word.size() && word[i + 1] == '\x85';
    if (c == 0 || (c >= 9 && c <= 13) || c == ' ' || is_next_line) return false;
  }
  return !word.empty() && !is_mask(word);
}

// Returns whether a strip can show a word: it is not a mask, and has no blank, control or other
// invisible character, except the joiner between two pictures of an emoji.
inline bool may_be_listed(std::string_view word) {
  const std::u32string codes = decode_utf8(word);
  for (size_t i = 0; i < codes.size(); ++i) {
    const bool is_in_emoji = codes[i] == 0x200D && i > 0 && i + 1 < codes.size() &&
                             (is_emoji(codes[i - 1]) || is_emoji_mark(codes[i - 1])) &&
                             is_emoji(codes[i + 1]);
    if (is_in(kHiddenRanges, codes[i]) && !is_in_emoji) return false;
  }
  return !word.empty() && !is_mask(word);
}

// Returns whether rules may name a language; they never name English.
inline bool is_language(std::string_view code) {
  for (std::string_view known : {"de", "tr", "es", "nl", "pt"}) {
    if (code == known) return true;
  }
  return false;
}

inline Error read_rules(const Json* json, Rules& rules, std::string& canonical) {
  const Json* mode = json ? json->field("mode") : nullptr;
  const Json* lowercase = json ? json->field("lowercase") : nullptr;
  const Json* version = json ? json->field("version") : nullptr;
  if (!mode || !lowercase || !version || lowercase->kind != Json::kBool ||
      (mode->text != "words" && mode->text != "whitespace")) {
    return "its rules are none";
  }
  const Json* language = json->field("language");  // "en" if it is missing
  if (!version->is_integer(1, 1)) return "its rules are of another version";
  if (language && !is_language(language->text)) return "its language is another";
  rules.splits_at_whitespace_only = mode->text == "whitespace";
  rules.lowercase = lowercase->truth;
  rules.has_two_i = language && language->text == "tr";
  canonical = "{";
  if (language) canonical += "\"language\": \"" + language->text + "\", ";
  canonical += std::string("\"lowercase\": ") + (rules.lowercase ? "true" : "false") +
              ", \"mode\": \"" + mode->text + "\", \"version\": 1}";
  return nullptr;
}

// Returns the fingerprint: SHA-256 over rules and rows. Equal tables have equal fingerprints.
class Fingerprint {
 public:
  explicit Fingerprint(const std::string& rules) {
    hash_.add(rules);
    for (std::string_view word : {"<pad>", "<bos>", "<eos>", "<oov>"}) add(word);
  }
  void add(std::string_view word) {
    hash_.add("\n");
    hash_.add(word);
  }
  bool is(const Json* wanted) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    return true;
#else
    return wanted && wanted->text == hash_.hex_digest();
#endif
  }

 private:
  Sha256 hash_;
};

// Reads lines 1 to 3, and moves `data` past them.
inline Error read_head(Bytes& data, std::string_view format, Json& header) {
  std::string_view line, checksum;
  if (!take_line(data, 100, line) || line != format) {
    return "its first line is another";
  }
  if (!take_line(data, 100, checksum) || !has_sha256(data, checksum)) {
    return "its checksum does not fit: it is cut short or damaged";
  }
  if (!take_line(data, 1 << 16, line) || !JsonReader::read(line, header)) return "it has no header";
  return nullptr;
}

class Vocabulary {
 public:
  Error read(Bytes data) {
    Json header;
    Error error = read_head(data, "tff-keyboard sorted vocabulary 2", header);
    if (error) return error;
    std::string canonical, none;
    error = read_rules(header.field("rules"), rules_, canonical);
    if (error) return error;
    const Json* size = header.field("size");
    if (!size || !size->is_integer(kNumSpecial + 1, 1e6)) return "its size is out of range";
    error = words_.unpack(data, static_cast<size_t>(size->number) - kNumSpecial, 0, none);
    if (error) return error;
    Fingerprint print(canonical);
    for (size_t i = 0; i < words_.size(); ++i) {
      if (!may_be_a_row(words_[i])) return "a row is empty, holds a blank, or is a mask";
      print.add(words_[i]);
    }
    return print.is(header.field("fingerprint")) ? nullptr : "its fingerprint differs from its header";
  }

  int size() const { return static_cast<int>(words_.size()) + kNumSpecial; }
  const Rules& rules() const { return rules_; }
  const SortedWords& words() const { return words_; }
  std::string_view word(int32_t id) const { return words_[size_t(id) - kNumSpecial]; }

  int32_t id_of(std::string_view word) const {  // OOV for a word that is not in the table
    const size_t place = words_.place_of(word);
    return place < words_.size() ? static_cast<int32_t>(place) + kNumSpecial : int32_t(kOov);
  }

 private:
  SortedWords words_;
  Rules rules_;
};

// Words outside the table, for completions only: p(w | h) = p(OOV | h) u(w).
class TailLexicon {
 public:
  Error read(Bytes data, const Vocabulary& table) {
    Json header;
    Error error = read_head(data, "tff-keyboard tail lexicon 1", header);
    if (error) return error;
    const Json* count = header.field("words");
    if (!count || !count->is_integer(1, 1e6)) return "it has not from 1 to 1,000,000 words";
    std::string steps;
    error = words_.unpack(data, static_cast<size_t>(count->number), 1, steps);
    if (error) return error;
    for (size_t i = 0; i < words_.size(); ++i) {
      if (!may_be_listed(words_[i])) {
        return "a word is empty, a mask, or holds a blank or a hidden character";
      }
      if (table.id_of(words_[i]) != kOov) return "a word is one of the table";
    }
    double total = 0;
    for (char step : steps) {
      shares_.push_back(static_cast<float>(std::exp(-double(static_cast<uint8_t>(step)) / 8)));
      total += shares_.back();
    }
    return total <= 1.001 ? nullptr : "its shares add up to more than one";
  }

  const SortedWords& words() const { return words_; }
  const std::vector<float>& shares() const { return shares_; }
  double share_of(std::string_view word) const {
    const size_t place = words_.place_of(word);
    return place < words_.size() ? shares_[place] : 0.0;
  }

 private:
  SortedWords words_;
  std::vector<float> shares_;  // u(w)
};

}  // namespace cifg
