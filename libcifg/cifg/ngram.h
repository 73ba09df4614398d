// The n-gram of an export with --ngram: a trie of contexts, interpolated from long to short.
//
//   line 1    tff-keyboard n-gram 1
//   line 2    JSON: sizes of all parts
//   then      parts, each a zlib stream
//               0         one byte for each unigram, then the words, each followed by a line feed
//               n - 1     order n >= 2: one bit for each row of order n - 1, whether it has children;
//                         the number of children less one of each context; words; one byte for each
//                         probability
//   last 32   SHA-256 of all bytes before
//
// Numbers are stored in planes: all lowest bytes, then all higher ones. Words of a context are the
// first id and then differences. A byte of a probability is one of 256 values with equally spaced
// logarithms. The weight of the shorter context is 1 minus the sum of the children's probabilities.
// Source: tff_keyboard/predictors/ngram/ngram_file.py, compact_ngram.py.
#pragma once

#include "vocabulary.h"

namespace cifg {

class NGram {
 public:
  // `vocabulary` is the model's. The n-gram must have the same words, in any order.
  Error read(Bytes data, const Vocabulary& vocabulary) {
    static constexpr std::string_view kFormat = "tff-keyboard n-gram 1";
    std::string_view line;
    Bytes rest = data;
    if (!take_line(rest, 100, line) || line != kFormat) return "its first line is another";
    if (data.size < kFormat.size() + 1 + 32) return "it is cut short";
    if (!has_digest(data)) return "its checksum does not fit: it is cut short or damaged";
    rest = rest.part(0, rest.size - 32);
    Json json;
    if (!take_line(rest, 1 << 16, line) || !JsonReader::read(line, json)) return "it has no header";
    Header header;
    Error error = header.read(json, rest.size);
    if (error) return error;
    uint64_t at = 0;
    error = read_unigram(rest.part(at, header.part_bytes[0]), header, json, vocabulary);
    uint64_t rows_before = header.size;
    for (size_t n = 0; n < header.rows.size() && !error; ++n) {
      at += header.part_bytes[n];
      error = read_order(rest.part(at, header.part_bytes[n + 1]), header, n, rows_before);
      rows_before = header.rows[n];
    }
    return error;
  }

  size_t order() const { return orders_.size() + 1; }

  // Indices of the contexts that end at one position: the last word, the last two, ...; -1 if the
  // n-gram knows no next word.
  using Contexts = std::vector<int32_t>;

  Contexts start() const { return Contexts(orders_.size(), -1); }

  // Returns the contexts after one more word. `id` is the model's.
  Contexts step(const Contexts& before, int32_t id) const {
    const int32_t own = own_id_[id];
    Contexts found;
    int64_t row = own;
    for (size_t n = 0; n < orders_.size(); ++n) {
      found.push_back(row < 0 ? -1 : place_in(orders_[n].contexts, row));
      row = -1;
      // The children of the last order are not contexts.
      const int32_t number = n + 1 < orders_.size() ? before[n] : -1;
      if (number >= 0) row = child(orders_[n], number, own);
    }
    return found;
  }

  // Returns the length in words of the longest known context.
  static int matched(const Contexts& contexts) {
    for (size_t n = contexts.size(); n > 0; --n) {
      if (contexts[n - 1] >= 0) return static_cast<int>(n);
    }
    return 0;
  }

  // Computes the probabilities of the next word: [V], in the model's ids.
  CIFG_FAST void distribution(const Contexts& contexts, std::vector<float>& out) const {
    float weight = 1;
    for (size_t n = orders_.size(); n > 0; --n) {
      if (contexts[n - 1] >= 0) weight *= orders_[n - 1].gamma[contexts[n - 1]];
    }
    out.resize(unigram_.size());
    for (size_t v = 0; v < unigram_.size(); ++v) out[v] = unigram_[v] * weight;
    weight = 1;
    for (size_t n = orders_.size(); n > 0; --n) {
      const Order& order = orders_[n - 1];
      const int32_t number = contexts[n - 1];
      if (number < 0) continue;
      for (uint32_t r = order.starts[number]; r < order.starts[number + 1]; ++r) {
        out[model_id_[order.words[r]]] += weight * order.values[order.codes[r]];
      }
      weight *= order.gamma[number];
    }
  }

 private:
  struct Header {
    uint64_t size = 0, word_bytes = 0;
    std::vector<uint64_t> rows, contexts, part_bytes;
    std::vector<std::pair<double, double>> log_ranges;

    Error read(const Json& json, uint64_t stored_bytes) {
      static constexpr uint64_t kMostRows = 1 << 24, kMostBytes = 1 << 28;
      if (!integer(json.field("size"), kNumSpecial + 1, 1 << 20, size) ||
          !integer(json.field("word_bytes"), 0, 64e6, word_bytes) ||
          !integers(json.field("rows"), kMostRows, rows) ||
          !integers(json.field("contexts"), kMostRows, contexts) ||
          !integers(json.field("part_bytes"), kMostBytes, part_bytes)) {
        return "a field of its header is of another kind";
      }
      const Json* ranges = json.field("log_ranges");
      if (!ranges || ranges->items.size() != rows.size() + 1 || rows.size() > 15 ||
          contexts.size() != rows.size() || part_bytes.size() != rows.size() + 1) {
        return "the lists of its header have other lengths";
      }
      for (const Json& pair : ranges->items) {
        if (pair.items.size() != 2) return "a range of probabilities is none";
        const double low = pair.items[0].number, high = pair.items[1].number;
        if (!(low >= -80 && low <= high && high <= 0)) return "a range of probabilities is none";
        log_ranges.emplace_back(low, high);
      }
      uint64_t before = size, total = 0, all_rows = 0;
      for (size_t n = 0; n < rows.size(); ++n) {
        if (contexts[n] > std::min(before, rows[n])) return "the numbers of its n-grams disagree";
        before = rows[n];
        all_rows += rows[n];
      }
      if (all_rows > kMostRows) return "it has too many n-grams";
      for (uint64_t bytes : part_bytes) total += bytes;
      return total == stored_bytes ? nullptr : "its parts are longer or shorter than the file";
    }

    static bool integer(const Json* json, double least, double most, uint64_t& out) {
      if (!json || !json->is_integer(least, most)) return false;
      out = static_cast<uint64_t>(json->number);
      return true;
    }
    static bool integers(const Json* json, double most, std::vector<uint64_t>& out) {
      if (!json || json->kind != Json::kList) return false;
      for (const Json& item : json->items) {
        if (!integer(&item, 0, most, out.emplace_back())) return false;
      }
      return true;
    }
  };

  // One order n >= 2. Children of context c are rows starts[c] to starts[c + 1].
  struct Order {
    std::vector<uint32_t> contexts;  // ascending: rows of the order before (ids, for n = 2)
    std::vector<uint32_t> starts, words;
    std::vector<uint8_t> codes;
    std::vector<float> values, gamma;
  };

  static bool has_digest(Bytes data) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    return true;
#else
    Sha256 hash;
    hash.add(data.part(0, data.size - 32));
    return std::memcmp(hash.digest().data(), data.data + data.size - 32, 32) == 0;
#endif
  }

  // Unpacks a part, which must have exactly `size` bytes.
  static bool inflated(Bytes part, uint64_t size, std::string& out) {
    static constexpr uint64_t kMostOfAByte = 1032;  // largest number of bytes from one deflated byte
    return size <= kMostOfAByte * part.size && Inflater::inflate(part, size, out) && out.size() == size;
  }

  static std::vector<float> values_of(std::pair<double, double> logs) {
    std::vector<float> values;
    const double step = (logs.second - logs.first) / 255;
    for (int i = 0; i < 256; ++i) {
      values.push_back(static_cast<float>(std::exp(i < 255 ? i * step + logs.first : logs.second)));
    }
    return values;
  }

  Error read_unigram(Bytes part, const Header& header, const Json& json, const Vocabulary& vocabulary) {
    std::string data, canonical;
    if (header.size != uint64_t(vocabulary.size())) return "it has another number of words";
    if (!inflated(part, header.size + header.word_bytes, data)) return "its first part is damaged";
    Rules rules;
    Error error = read_rules(json.field("rules"), rules, canonical);
    if (error) return error;
    if (rules.lowercase != vocabulary.rules().lowercase ||
        rules.has_two_i != vocabulary.rules().has_two_i ||
        rules.splits_at_whitespace_only != vocabulary.rules().splits_at_whitespace_only) {
      return "its rules are not the model's";
    }
    Fingerprint print(canonical);
    model_id_.assign(header.size, 0);
    own_id_.assign(header.size, -1);
    for (int32_t id = 0; id < kNumSpecial; ++id) model_id_[id] = own_id_[id] = id;
    size_t at = header.size;
    for (uint64_t own = kNumSpecial; own < header.size; ++own) {
      const size_t end = data.find('\n', at);
      if (end == std::string::npos) return "it holds fewer words than its header says";
      const std::string_view word = std::string_view(data).substr(at, end - at);
      const int32_t id = vocabulary.id_of(word);
      if (id == kOov || own_id_[id] >= 0) return "its words are not the model's";
      own_id_[id] = static_cast<int32_t>(own);
      model_id_[own] = id;
      print.add(word);
      at = end + 1;
    }
    if (at != data.size()) return "it holds more words than its header says";
    if (!print.is(json.field("fingerprint"))) return "its fingerprint differs from its header";
    const std::vector<float> values = values_of(header.log_ranges[0]);
    double total = 0;
    for (uint64_t own = kEos; own < header.size; ++own) total += values[uint8_t(data[own])];
    unigram_.assign(header.size, 0);  // PAD and BOS are never typed
    for (uint64_t own = kEos; own < header.size; ++own) {
      unigram_[model_id_[own]] = static_cast<float>(double(values[uint8_t(data[own])]) / total);
    }
    return nullptr;
  }

  Error read_order(Bytes part, const Header& header, size_t n, uint64_t rows_before) {
    const uint64_t rows = header.rows[n], contexts = header.contexts[n];
    int planes = 0;
    for (uint64_t left = header.size - 1; left; left >>= 8) ++planes;
    const uint64_t bitmap_bytes = (rows_before + 7) / 8;
    std::string data;
    if (!inflated(part, bitmap_bytes + planes * (contexts + rows) + rows, data)) {
      return "a part is longer or shorter than its header says";
    }
    const auto byte = [&](uint64_t at) { return static_cast<uint8_t>(data[at]); };
    const auto number = [&](uint64_t start, uint64_t count, uint64_t i) {
      uint64_t value = 0;
      for (int p = 0; p < planes; ++p) value |= uint64_t(byte(start + p * count + i)) << (8 * p);
      return value;
    };
    Order order;
    for (uint64_t row = 0; row < rows_before; ++row) {
      if (byte(row / 8) >> (7 - row % 8) & 1) order.contexts.push_back(static_cast<uint32_t>(row));
    }
    if (order.contexts.size() != contexts) return "its contexts do not add up";
    order.starts.assign(1, 0);
    uint64_t end = 0;
    for (uint64_t c = 0; c < contexts; ++c) {
      end += number(bitmap_bytes, contexts, c) + 1;
      if (end > rows) return "the children of its contexts do not add up";
      order.starts.push_back(static_cast<uint32_t>(end));
    }
    if (end != rows) return "the children of its contexts do not add up";
    const uint64_t words_at = bitmap_bytes + planes * contexts;
    order.values = values_of(header.log_ranges[n + 1]);
    for (uint64_t c = 0; c < contexts; ++c) {
      uint64_t word = 0;
      double sum = 0;
      for (uint32_t r = order.starts[c]; r < order.starts[c + 1]; ++r) {
        const uint64_t difference = number(words_at, rows, r);
        if (difference == 0 && r > order.starts[c]) return "a word stands twice behind a context";
        word += difference;
        if (word < kEos || word >= header.size) return "an id is out of its vocabulary";
        order.words.push_back(static_cast<uint32_t>(word));
        order.codes.push_back(byte(words_at + planes * rows + r));
        sum += order.values[order.codes.back()];
      }
      if (1 - sum < 1e-6) return "the probabilities behind a context add up to more than one";
      order.gamma.push_back(static_cast<float>(1 - sum));
    }
    orders_.push_back(std::move(order));
    return nullptr;
  }

  static int32_t place_in(const std::vector<uint32_t>& ascending, int64_t value) {
    const auto found = std::lower_bound(ascending.begin(), ascending.end(), uint32_t(value));
    return found != ascending.end() && *found == value
               ? static_cast<int32_t>(found - ascending.begin())
               : -1;
  }

  static int64_t child(const Order& order, int32_t number, int32_t word) {
    const auto first = order.words.begin() + order.starts[number];
    const auto end = order.words.begin() + order.starts[number + 1];
    const auto found = std::lower_bound(first, end, uint32_t(word));
    return found != end && *found == uint32_t(word) ? found - order.words.begin() : -1;
  }

  std::vector<int32_t> own_id_, model_id_;  // model's id -> own id, and own id -> model's id
  std::vector<float> unigram_;              // [V], in the model's ids
  std::vector<Order> orders_;
};

}  // namespace cifg
