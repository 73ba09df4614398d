// Cuts text into tokens, by the rules of tff_keyboard/data/text/python_tokenizer.py (version 1).
//
// `mode: words`
//   1. Apostrophes and hyphens of all shapes become ' and -.
//   2. Characters other than word characters, ASCII, emoji and joiners become spaces.
//   3. NFKC, lower case, NFKC. The caller provides NFKC, which every platform has (Kotlin: java.text.
//      Normalizer; Swift: precomposedStringWithCompatibilityMapping; JavaScript: normalize). It is only
//      called for text that is not ASCII. Without it, composed text is still read correctly.
//   4. From the left, the first of these that matches is a token: web address (becomes <url>), mask,
//      number, word, emoji, flag. All other characters separate tokens.
// `mode: whitespace`: text is cut at white space, and lower-cased if asked for.
#pragma once

#include <algorithm>
#include <functional>

#include "bytes.h"
#include "unicode.h"

namespace cifg {

struct Rules {
  bool splits_at_whitespace_only = false, lowercase = true;
  bool has_two_i = false;  // Turkish: I is the capital of a dotless i, and a dotted I that of i
};

inline uint32_t last_of(const Range& range) { return range.last; }
inline uint32_t last_of(const ShortRange& range) { return range.first + range.more; }

template <class Any, size_t n>
bool is_in(const Any (&ranges)[n], char32_t code) {
  const Any* after = std::upper_bound(
      ranges, ranges + n, code, [](char32_t c, const Any& range) { return c < range.first; });
  return after != ranges && code <= last_of(after[-1]);
}

inline bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
inline bool is_ascii_letter(char32_t c) { return (c | 32) >= 'a' && (c | 32) <= 'z' && c < 128; }
inline bool is_word(char32_t c) {
  return c < 128 ? is_digit(c) || is_ascii_letter(c) : is_in(kWordRanges, c);
}
inline bool is_emoji(char32_t c) { return c >= 0x231A && is_in(kEmojiRanges, c); }
inline bool is_flag(char32_t c) { return c >= 0x1F1E6 && c <= 0x1F1FF; }
inline bool is_emoji_mark(char32_t c) {  // variation selector (text or picture), or skin tone
  return c == 0xFE0E || c == 0xFE0F || (c >= 0x1F3FB && c <= 0x1F3FF);
}
inline bool is_joiner(char32_t c) { return c == 0x200C || c == 0x200D; }

inline char32_t lower_of(char32_t code) {
  const auto* after = std::upper_bound(
      std::begin(kLowered), std::end(kLowered), code,
      [](char32_t c, const Lowered& run) { return c < run.first; });
  if (after == std::begin(kLowered)) return code;
  const Lowered& run = *(after - 1);
  const uint32_t place = code - run.first;
  const bool is_upper = place % run.step == 0 && place / run.step < run.count;
  return is_upper ? static_cast<char32_t>(int32_t(code) + run.difference) : code;
}

class Tokenizer {
 public:
  // The caller's NFKC function for UTF-8 text.
  using Nfkc = std::function<std::string(const std::string&)>;

  Tokenizer() = default;
  explicit Tokenizer(Rules rules) : rules_(rules) {}
  void set_nfkc(Nfkc nfkc) { nfkc_ = std::move(nfkc); }

  std::vector<std::string> tokens(std::u32string text) const {
    return rules_.splits_at_whitespace_only ? split(std::move(text)) : words(std::move(text));
  }

 private:
  static constexpr size_t kLongestRun = 1000;  // NFKC takes quadratic time in one long run

  std::vector<std::string> split(std::u32string text) const {
    if (rules_.lowercase) lower(text);
    std::vector<std::string> found;
    for (size_t at = 0; at < text.size();) {
      size_t end = at;
      while (end < text.size() && !is_in(kWhitespaceRanges, text[end])) ++end;
      if (end > at) add(std::u32string_view(text).substr(at, end - at), found);
      at = end + 1;
    }
    return found;
  }

  std::vector<std::string> words(std::u32string text) const {
    cut_long_runs(text);
    bool is_ascii = true;
    for (char32_t& c : text) {
      c = as_text(c);
      is_ascii &= c < 128;
    }
    if (!is_ascii) normalise(text);
    if (rules_.lowercase) {
      lower(text);
      if (!is_ascii) normalise(text);
    }
    std::vector<std::string> found;
    for (size_t at = 0; at < text.size();) {
      if (const size_t end = url_end(text, at)) {
        found.push_back("<url>");
        at = end;
      } else if (const size_t stop = token_end(text, at)) {
        add(std::u32string_view(text).substr(at, stop - at), found);
        at = stop;
      } else {
        ++at;
      }
    }
    return found;
  }

  // Rules 1 and 2.
  static char32_t as_text(char32_t c) {
    switch (c) {
      case '`': case 0xB4: case 0x2018: case 0x2019: case 0x201B: case 0x2BC: case 0x2032: case 0xFF07:
        return '\'';
      case 0x2010: case 0x2011: case 0xFE63: case 0xFF0D:
        return '-';
      default:
        break;
    }
    const bool is_text = c < 128 ? c >= 0x20 && c <= 0x7E
                                 : is_in(kWordRanges, c) || is_emoji(c) || is_flag(c) ||
                                       is_emoji_mark(c) || is_joiner(c);
    return is_text ? c : U' ';
  }

  static void cut_long_runs(std::u32string& text) {
    if (text.size() <= kLongestRun) return;
    std::u32string cut;
    size_t run = 0;
    for (char32_t c : text) {
      const bool is_space = c == ' ' || (c >= 9 && c <= 13);
      if (!is_space && run > 0 && run % kLongestRun == 0) cut += U' ';
      run = is_space ? 0 : run + 1;
      cut += c;
    }
    text = std::move(cut);
  }

  void normalise(std::u32string& text) const {
    if (nfkc_) text = decode_utf8(nfkc_(encode_utf8(text)));
  }

  void lower(std::u32string& text) const {
    std::u32string lowered;
    for (char32_t c : text) {
      if (rules_.has_two_i && (c == 'I' || c == 0x130)) {
        lowered += c == 'I' ? U'\x131' : U'i';
      } else if (c == 0x130) {  // elsewhere a dotted capital I is two characters
        lowered += U"i\u0307";
      } else {
        lowered += lower_of(c);
      }
    }
    text = std::move(lowered);
  }

  void add(std::u32string_view token, std::vector<std::string>& found) const {
    std::string text = encode_utf8(token);
    if (rules_.lowercase && token.back() == 0x3C3) {  // a sigma at the end of a word
      text.resize(text.size() - 2);
      append_utf8(text, 0x3C2);
    }
    found.push_back(std::move(text));
  }

  // Functions that return the end of a token that begins at `at`; 0 if there is none.

  static size_t url_end(std::u32string_view text, size_t at) {
    const auto has = [&](std::u32string_view start) {
      for (size_t i = 0; i < start.size(); ++i) {
        if (at + i >= text.size()) return false;
        const char32_t c = text[at + i];
        if ((is_ascii_letter(c) ? c | 32 : c) != start[i]) return false;
      }
      return true;
    };
    const size_t length = has(U"https://") ? 8 : has(U"http://") ? 7 : has(U"www.") ? 4 : 0;
    size_t end = at + length;
    while (length && end < text.size() && text[end] != ' ') ++end;
    return end > at + length ? end : 0;
  }

  size_t token_end(std::u32string_view text, size_t at) const {
    const char32_t first = text[at];
    if (first == '<') return mask_end(text, at);
    if (is_digit(first)) {
      const size_t end = number_end(text, at);
      if (end) return end;
    }
    if (is_word(first)) return word_end(text, at);
    if (is_emoji(first)) return emoji_end(text, at);
    return is_flag(first) && at + 1 < text.size() && is_flag(text[at + 1]) ? at + 2 : 0;
  }

  size_t mask_end(std::u32string_view text, size_t at) const {  // <#>, <TIME>
    size_t end = at + 1;
    if (end < text.size() && text[end] == '#') {
      ++end;
    } else {
      const auto is_name = [&](char32_t c) {  // <TIME> has a dotless i in Turkish
        return is_ascii_letter(c) || c == '_' || (rules_.has_two_i && c == 0x131);
      };
      while (end < text.size() && end <= at + 20 && is_name(text[end])) ++end;
      if (end == at + 1) return 0;
    }
    return end < text.size() && text[end] == '>' ? end + 1 : 0;
  }

  static size_t number_end(std::u32string_view text, size_t at) {  // digits, then [.,:] and digits
    const auto digits = [&](size_t from) {
      while (from < text.size() && is_digit(text[from])) ++from;
      return from;
    };
    size_t end = digits(at);
    const size_t whole = end;
    while (end + 1 < text.size() && (text[end] == '.' || text[end] == ',' || text[end] == ':') &&
           is_digit(text[end + 1])) {
      end = digits(end + 1);
    }
    return end > whole ? end : 0;
  }

  static size_t word_end(std::u32string_view text, size_t at) {
    const auto run = [&](size_t from) {
      while (from < text.size() && is_word(text[from])) ++from;
      return from;
    };
    size_t end = run(at);
    while (end + 1 < text.size() &&
           (text[end] == '\'' || text[end] == '-' || is_joiner(text[end])) && is_word(text[end + 1])) {
      end = run(end + 1);
    }
    return end;
  }

  static size_t emoji_end(std::u32string_view text, size_t at) {
    const auto one = [&](size_t from) {
      size_t end = from + 1;
      while (end < text.size() && end <= from + 2 && is_emoji_mark(text[end])) ++end;
      return end;
    };
    size_t end = one(at);
    while (end + 1 < text.size() && text[end] == 0x200D && is_emoji(text[end + 1])) end = one(end + 1);
    return end;
  }

  Rules rules_;
  Nfkc nfkc_;
};

// Returns whether a word, or text between white space, may be learnt: it has no digit of any
// script, and no digits written as ideographs. Source: tff_keyboard/predictors/hybrid/word_cache.py.
inline bool may_be_learnt(std::string_view text) {
  bool is_all_numerals = true;
  for (char32_t code : decode_utf8(text)) {
    if (is_in(kNumberRanges, code)) return false;
    is_all_numerals &= is_in(kNumeralRanges, code);
  }
  return !is_all_numerals;
}

}  // namespace cifg
