// Reads untrusted bytes, and UTF-8 in them: every read is checked against the bounds first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace cifg {

// The result of a function that can fail: null on success, else one line with the reason. No
// function throws.
using Error = const char*;

// A part of memory, which it does not own.
struct Bytes {
  const uint8_t* data = nullptr;
  size_t size = 0;

  bool empty() const { return size == 0; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data), size}; }
  // Returns `length` bytes from `start`; no bytes if there are fewer.
  Bytes part(uint64_t start, uint64_t length) const {
    if (start > size || length > size - start) return {};
    return {data + start, static_cast<size_t>(length)};
  }
  Bytes from(uint64_t start) const { return start > size ? Bytes{} : part(start, size - start); }
};

inline Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Reads the line that ends at the first line feed, and moves `rest` past it.
inline bool take_line(Bytes& rest, size_t longest, std::string_view& line) {
  const size_t limit = rest.size < longest ? rest.size : longest;
  const void* end = limit ? std::memchr(rest.data, '\n', limit) : nullptr;
  if (!end) return false;
  const size_t length = static_cast<size_t>(static_cast<const uint8_t*>(end) - rest.data);
  line = rest.part(0, length).text();
  rest = rest.from(length + 1);
  return true;
}

// Returns the code point at `at`, and moves `at` past it. If the bytes are not UTF-8 (RFC 3629:
// shortest form, no surrogates), returns -1 and moves `at` by one byte.
inline int32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(at);
  if (first < 0x80) return ++at, first;
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  static constexpr int32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  int32_t code = first & (0x3F >> more);
  const bool is_start = first >= 0xC2 && first <= 0xF4 && text.size() - at > size_t(more);
  for (int i = 1; is_start && i <= more; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return ++at, -1;
    code = code << 6 | (byte(at + i) & 0x3F);
  }
  if (!is_start || code < kLeast[more] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    return ++at, -1;
  }
  at += more + 1;
  return code;
}

inline bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (next_code_point(text, at) < 0) return false;
  }
  return true;
}

inline void append_utf8(std::string& text, char32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static constexpr int kStart[] = {0, 0xC0, 0xE0, 0xF0};
  text += static_cast<char>(kStart[more] | code >> (6 * more));
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (code >> (6 * i) & 0x3F));
}

// Returns code points. A byte that is not UTF-8 becomes "?".
inline std::u32string decode_utf8(std::string_view text) {
  std::u32string codes;
  codes.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const int32_t code = next_code_point(text, at);
    codes += code < 0 ? U'?' : static_cast<char32_t>(code);
  }
  return codes;
}

inline std::string encode_utf8(std::u32string_view codes) {
  std::string text;
  text.reserve(codes.size());
  for (char32_t code : codes) append_utf8(text, code);
  return text;
}

// Returns the number of code points of a text that is UTF-8.
inline size_t count_code_points(std::string_view text) {
  size_t count = 0;
  for (char c : text) count += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  return count;
}

inline bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

}  // namespace cifg
