// JSON (RFC 8259) as the files have it: strict, and small enough whatever somebody sends.
#pragma once

#include <utility>

#include "number.h"

namespace cifg {

struct Json {
  enum Kind { kNull, kBool, kNumber, kString, kList, kObject };
  Kind kind = kNull;
  bool truth = false;
  double number = 0;
  std::string text;  // of a string; of a number as it was written
  std::vector<Json> items;
  std::vector<std::pair<std::string, Json>> fields;

  bool is_integer(double least, double most) const {
    return kind == kNumber && text.find_first_of(".eE") == std::string::npos && number >= least &&
           number <= most;
  }
  // The last field of that name, as readers of JSON take it; null where there is none.
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
  // False where the text is no JSON, nests too deep or has too many values.
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

// A string as Python's json writes it with ensure_ascii=False.
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
