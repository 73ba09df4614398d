// A decimal number of JSON as the double nearest to it, ties to even. `strtod` reads another number
// where the process's locale writes a decimal comma, and not every C++17 library has `from_chars`.
#pragma once

#include <cmath>

#include "bytes.h"

namespace cifg {

// A whole number of at most 2,048 bits: 399 digits, or 5^729, and a bit to shift.
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

// `text` is a number of JSON (RFC 8259) of 400 characters at most.
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
  const int kept = exponent >= -1022 ? 53 : 1075 + exponent;  // bits that the double has
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

}  // namespace cifg
