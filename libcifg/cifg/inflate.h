// Unpacks a zlib stream (RFC 1950, 1951) and limits the memory of the result.
#pragma once

#include <algorithm>

#include "bytes.h"

namespace cifg {

class Inflater {
 public:
  // Fails if the stream is damaged, is followed by other bytes, or unpacks to more than `most`
  // bytes.
  static bool inflate(Bytes packed, size_t most, std::string& out) {
    out.clear();
    if (packed.size < 6) return false;
    const unsigned header = packed.data[0] << 8 | packed.data[1];
    const bool is_zlib = (header >> 8 & 15) == 8 && header >> 12 <= 7 && header % 31 == 0;
    if (!is_zlib || header & 0x20) return false;
    Inflater self(packed.from(2), most, out);
    return self.run() && self.is_whole();
  }

 private:
  // A Huffman code: the number of codes of each length, and symbols in the order of their codes.
  struct Code {
    uint16_t counts[16];
    uint16_t symbols[288];
  };

  Inflater(Bytes in, size_t most, std::string& out) : in_(in), most_(most), out_(out) {}

  bool run() {
    for (bool is_last = false; !is_last;) {
      is_last = bits(1);
      const unsigned kind = bits(2);
      if (failed_ || kind == 3) return false;
      if (!(kind == 0 ? stored() : kind == 1 ? fixed() : dynamic())) return false;
    }
    return true;
  }

  bool is_whole() const {  // the right checksum follows, and no other bytes
    uint32_t a = 1, b = 0;
    for (char c : out_) {
      a = (a + static_cast<uint8_t>(c)) % 65521;
      b = (b + a) % 65521;
    }
    const Bytes end = in_.from(at_);
    if (end.size != 4) return false;
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    return true;
#else
    const uint32_t sum = uint32_t(end.data[0]) << 24 | uint32_t(end.data[1]) << 16 |
                         uint32_t(end.data[2]) << 8 | end.data[3];
    return sum == (b << 16 | a);
#endif
  }

  unsigned bits(int count) {
    while (held_ < count) {
      if (at_ >= in_.size) return failed_ = true, 0;
      buffer_ |= uint32_t(in_.data[at_++]) << held_;
      held_ += 8;
    }
    const unsigned value = buffer_ & ((1u << count) - 1);
    buffer_ >>= count;
    held_ -= count;
    return value;
  }

  bool stored() {
    buffer_ = 0, held_ = 0;
    const Bytes sizes = in_.part(at_, 4);
    if (sizes.empty()) return false;
    const unsigned length = sizes.data[0] | sizes.data[1] << 8;
    const unsigned inverse = sizes.data[2] | sizes.data[3] << 8;
    if ((length ^ inverse) != 0xFFFF || length > most_ - out_.size()) return false;
    const Bytes bytes = in_.part(at_ + 4, length);
    if (bytes.size != length) return false;
    out_.append(bytes.text());
    at_ += 4 + length;
    return true;
  }

  bool fixed() {
    uint8_t lengths[288 + 30];
    for (int i = 0; i < 288; ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    std::fill(lengths + 288, lengths + 288 + 30, 5);
    Code literals, distances;
    build(literals, lengths, 288);
    build(distances, lengths + 288, 30);
    return codes(literals, distances);
  }

  bool dynamic() {
    static constexpr uint8_t kOrder[19] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                           11, 4,  12, 3, 13, 2, 14, 1, 15};
    const int num_literals = 257 + bits(5), num_distances = 1 + bits(5), num_lengths = 4 + bits(4);
    if (failed_ || num_literals > 286 || num_distances > 30) return false;
    uint8_t lengths[286 + 30] = {};
    for (int i = 0; i < num_lengths; ++i) lengths[kOrder[i]] = static_cast<uint8_t>(bits(3));
    Code code;
    if (build(code, lengths, 19) != 0) return false;
    std::fill(lengths, lengths + 19, 0);
    for (int at = 0; at < num_literals + num_distances;) {
      const int symbol = decode(code);
      if (failed_ || symbol < 0) return false;
      if (symbol < 16) {
        lengths[at++] = static_cast<uint8_t>(symbol);
        continue;
      }
      if (symbol == 16 && at == 0) return false;
      const uint8_t value = symbol == 16 ? lengths[at - 1] : 0;
      const int repeats = symbol == 16 ? 3 + bits(2) : symbol == 17 ? 3 + bits(3) : 11 + bits(7);
      if (failed_ || repeats > num_literals + num_distances - at) return false;
      std::fill(lengths + at, lengths + at + repeats, value);
      at += repeats;
    }
    if (lengths[256] == 0) return false;  // the code has no end symbol
    Code literals, distances;
    // A code may be incomplete only if it has a single symbol.
    const int left = build(literals, lengths, num_literals);
    if (left < 0 || (left > 0 && num_literals - literals.counts[0] != 1)) return false;
    const int rest = build(distances, lengths + num_literals, num_distances);
    if (rest < 0 || (rest > 0 && num_distances - distances.counts[0] > 1)) return false;
    return codes(literals, distances);
  }

  // Number of unused codes: 0 for a complete code, below 0 for an impossible one.
  static int build(Code& code, const uint8_t* lengths, int count) {
    std::fill(code.counts, code.counts + 16, 0);
    for (int i = 0; i < count; ++i) ++code.counts[lengths[i]];
    if (code.counts[0] == count) return 0;
    int left = 1;
    uint16_t starts[16] = {};
    for (int length = 1; length < 16; ++length) {
      left = 2 * left - code.counts[length];
      if (left < 0) return left;
      if (length < 15) starts[length + 1] = starts[length] + code.counts[length];
    }
    for (int i = 0; i < count; ++i) {
      if (lengths[i]) code.symbols[starts[lengths[i]]++] = static_cast<uint16_t>(i);
    }
    return left;
  }

  int decode(const Code& code) {
    int value = 0, first = 0, place = 0;
    for (int length = 1; length < 16; ++length) {
      value |= bits(1);
      if (failed_) return -1;
      const int count = code.counts[length];
      if (value - count < first) return code.symbols[place + value - first];
      place += count;
      first = (first + count) << 1;
      value <<= 1;
    }
    return -1;
  }

  bool codes(const Code& literals, const Code& distances) {
    static constexpr uint16_t kLengths[29] = {3,  4,  5,  6,  7,  8,  9,  10,  11,  13,
                                              15, 17, 19, 23, 27, 31, 35, 43,  51,  59,
                                              67, 83, 99, 115, 131, 163, 195, 227, 258};
    static constexpr uint8_t kLengthBits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    static constexpr uint16_t kDistances[30] = {
        1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
        193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    for (;;) {
      const int symbol = decode(literals);
      if (failed_ || symbol < 0) return false;
      if (symbol == 256) return true;
      if (symbol < 256) {
        if (out_.size() >= most_) return false;
        out_ += static_cast<char>(symbol);
        continue;
      }
      if (symbol - 257 >= 29) return false;
      const size_t length = kLengths[symbol - 257] + bits(kLengthBits[symbol - 257]);
      const int far = decode(distances);
      if (failed_ || far < 0 || far >= 30) return false;
      const size_t distance = kDistances[far] + bits(far < 2 ? 0 : far / 2 - 1);
      if (failed_ || distance > out_.size() || length > most_ - out_.size()) return false;
      for (size_t i = 0; i < length; ++i) out_ += out_[out_.size() - distance];
    }
  }

  Bytes in_;
  size_t most_;
  std::string& out_;
  size_t at_ = 0;
  uint32_t buffer_ = 0;
  int held_ = 0;
  bool failed_ = false;
};

}  // namespace cifg
