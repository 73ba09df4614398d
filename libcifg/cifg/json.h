// Reads the JSON (RFC 8259) of the files, strictly, and limits the memory for hostile input.
#pragma once

#include <cmath>
#include <utility>

#include "bytes.h"

namespace cifg {

// A whole number of at most 2,048 bits: enough for 399 digits, or 5^729, and one more bit for
// shifts.
class Whole {
 public:
  explicit Whole(uint32_t value) : words_{value}, size_(value != 0) {}

  void multiply_add(uint32_t factor, uint32_t more) {
    uint64_t carry = more;
    for (int i = 0; i < size_; ++i) {
      carry += uint64_t(words_[i]) * factor;
      words_[i] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry) words_[size_++] = static_cast<uint32_t>(carry);
  }
  void multiply_by_power_of_5(int exponent) {
    for (; exponent >= 13; exponent -= 13) multiply_add(1'220'703'125, 0);
    while (exponent-- > 0) multiply_add(5, 0);
  }
  void shift_left(int bits) {
    for (; bits >= 31; bits -= 31) multiply_add(1u << 31, 0);
    multiply_add(1u << bits, 0);
  }
  int bits() const {
    int top = 0;
    while (size_ && top < 32 && words_[size_ - 1] >> top) ++top;
    return size_ ? 32 * (size_ - 1) + top : 0;
  }
  int compare(const Whole& other) const {
    if (size_ != other.size_) return size_ < other.size_ ? -1 : 1;
    for (int i = size_ - 1; i >= 0; --i) {
      if (words_[i] != other.words_[i]) return words_[i] < other.words_[i] ? -1 : 1;
    }
    return 0;
  }
  void subtract(const Whole& smaller) {
    int64_t borrow = 0;
    for (int i = 0; i < size_; ++i) {
      borrow += int64_t(words_[i]) - (i < smaller.size_ ? smaller.words_[i] : 0);
      words_[i] = static_cast<uint32_t>(borrow);
      borrow >>= 32;
    }
    while (size_ && !words_[size_ - 1]) --size_;
  }

 private:
  uint32_t words_[64];
  int size_;
};

// Returns the double nearest to `text`, a JSON number of at most 400 characters, ties to even.
// `strtod` reads another number if the process's locale has a decimal comma, and not every C++17
// library has `from_chars`.
inline double nearest_double(std::string_view text) {
  Whole over(0), under(1);
  int digits = 0, exponent = 0, written = 0;  // without leading zeros
  uint64_t small = 0;
  size_t at = text[0] == '-';
  for (bool is_behind_point = false; at < text.size() && (text[at] | 32) != 'e'; ++at) {
    if (text[at] == '.') {
      is_behind_point = true;
      continue;
    }
    exponent -= is_behind_point;
    digits += digits || text[at] != '0';
    if (digits <= 15) small = small * 10 + uint64_t(text[at] - '0');
    over.multiply_add(10, uint32_t(text[at] - '0'));
  }
  if (at < text.size()) {
    const bool is_below = text[++at] == '-';
    for (at += is_below || text[at] == '+'; at < text.size(); ++at) {
      if (written < 100'000) written = written * 10 + (text[at] - '0');
    }
    exponent += is_below ? -written : written;
  }
  const double sign = text[0] == '-' ? -1 : 1;
  if (digits <= 15 && exponent == 0) return sign * double(small);
  if (digits == 0 || digits + exponent < -330) return sign * 0.0;
  if (digits + exponent > 310) return sign * HUGE_VAL;
  over.multiply_by_power_of_5(exponent);
  under.multiply_by_power_of_5(-exponent);
  // over / under * 2^exponent, with 1 <= over / under < 2.
  const int shift = under.bits() - over.bits();
  over.shift_left(shift > 0 ? shift : 0), under.shift_left(shift < 0 ? -shift : 0);
  exponent -= shift;
  if (over.compare(under) < 0) over.shift_left(1), --exponent;
  const int kept = exponent >= -1022 ? 53 : 1075 + exponent;  // bits of the double's fraction
  if (kept < 0) return sign * 0.0;
  uint64_t bits = 0;
  for (int i = 0; i < kept; ++i) {
    const bool is_one = over.compare(under) >= 0;
    if (is_one) over.subtract(under);
    over.shift_left(1);
    bits = bits << 1 | is_one;
  }
  const int rest = over.compare(under);
  bits += rest > 0 || (rest == 0 && bits % 2);
  return sign * std::ldexp(double(bits), exponent - kept + 1);
}

struct Json {
  enum Kind { kNull, kBool, kNumber, kString, kList, kObject };
  Kind kind = kNull;
  bool truth = false;
  double number = 0;
  std::string text;  // of a string, or of a number as written
  std::vector<Json> items;
  std::vector<std::pair<std::string, Json>> fields;

  bool is_integer(double least, double most) const {
    return kind == kNumber && text.find_first_of(".eE") == std::string::npos && number >= least &&
           number <= most;
  }
  // Returns the last field of that name, as other JSON readers do; null if there is none.
  const Json* field(std::string_view name) const {
    const Json* found = nullptr;
    for (const auto& [key, value] : fields) {
      if (key == name) found = &value;
    }
    return found;
  }
};

class JsonReader {
 public:
  // Returns false if the text is not JSON, is nested too deeply or has too many values.
  static bool read(std::string_view text, Json& out) {
    JsonReader self(text);
    return self.value(out, 0) && (self.skip_space(), self.at_ == text.size());
  }

 private:
  static constexpr int kDeepest = 32;
  static constexpr size_t kMostValues = 1'000'000;

  explicit JsonReader(std::string_view text) : text_(text) {}

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' ||
                                  text_[at_] == '\t')) {
      ++at_;
    }
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (!starts_with(text_.substr(at_), word)) return false;
    at_ += word.size();
    return true;
  }

  bool value(Json& out, int depth) {
    skip_space();
    if (depth > kDeepest || ++values_ > kMostValues || at_ >= text_.size()) return false;
    switch (text_[at_]) {
      case '{': return object(out, depth);
      case '[': return list(out, depth);
      case '"': out.kind = Json::kString; return string(out.text);
      case 't': out.kind = Json::kBool; return out.truth = true, take("true");
      case 'f': out.kind = Json::kBool; return take("false");
      case 'n': return take("null");
      default: return number(out);
    }
  }

  bool object(Json& out, int depth) {
    out.kind = Json::kObject;
    ++at_;
    if (take('}')) return true;
    do {
      skip_space();
      out.fields.emplace_back();
      if (at_ >= text_.size() || text_[at_] != '"' || !string(out.fields.back().first)) return false;
      if (!take(':') || !value(out.fields.back().second, depth + 1)) return false;
    } while (take(','));
    return take('}');
  }

  bool list(Json& out, int depth) {
    out.kind = Json::kList;
    ++at_;
    if (take(']')) return true;
    do {
      out.items.emplace_back();
      if (!value(out.items.back(), depth + 1)) return false;
    } while (take(','));
    return take(']');
  }

  bool number(Json& out) {
    const size_t start = at_;
    const auto digits = [&] {
      const size_t first = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      return at_ > first;
    };
    if (at_ < text_.size() && text_[at_] == '-') ++at_;
    const bool starts_with_zero = at_ < text_.size() && text_[at_] == '0';
    if (starts_with_zero ? (++at_, false) : !digits()) return false;
    if (at_ < text_.size() && text_[at_] == '.' && (++at_, !digits())) return false;
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
      if (!digits()) return false;
    }
    if (at_ - start > 400) return false;
    out.kind = Json::kNumber;
    out.text = std::string(text_.substr(start, at_ - start));
    out.number = nearest_double(out.text);
    return true;
  }

  bool hex4(uint32_t& code) {
    if (text_.size() - at_ < 4) return false;
    code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = text_[at_++];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return false;
      code = code << 4 | static_cast<uint32_t>(digit);
    }
    return true;
  }

  bool string(std::string& out) {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      const char c = text_[at_++];
      if (static_cast<uint8_t>(c) < 0x20) return false;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (at_ >= text_.size()) return false;
      const char escape = text_[at_++];
      static constexpr std::string_view kNames = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
      const size_t place = kNames.find(escape);
      if (place != std::string_view::npos) {
        out += kMeant[place];
      } else {
        uint32_t code = 0, low = 0;
        if (escape != 'u' || !hex4(code)) return false;
        if (code >= 0xD800 && code < 0xDC00) {  // a pair of surrogates is one character
          if (!take("\\u") || !hex4(low) || low < 0xDC00 || low > 0xDFFF) return false;
          code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        } else if (code >= 0xDC00 && code <= 0xDFFF) {
          return false;
        }
        append_utf8(out, code);
      }
    }
    return at_ < text_.size() && (++at_, is_utf8(out));
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t values_ = 0;
};

// Writes a string as Python's json does with ensure_ascii=False.
inline std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    static constexpr std::string_view kMeant = "\"\\\b\f\n\r\t", kNames = "\"\\bfnrt";
    const size_t place = kMeant.find(c);
    if (place != std::string_view::npos) {
      out += '\\';
      out += kNames[place];
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out += std::string("\\u00") + "0123456789abcdef"[c >> 4] + "0123456789abcdef"[c & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace cifg
