// SHA-256 (FIPS 180-4), for the checksums of the files.
#pragma once

#include <array>

#include "bytes.h"

namespace cifg {

class Sha256 {
 public:
  void add(std::string_view text) { add(bytes_of(text)); }
  void add(Bytes bytes) {
    for (size_t i = 0; i < bytes.size; ++i) {
      block_[length_++ % 64] = bytes.data[i];
      if (length_ % 64 == 0) mix();
    }
  }

  std::array<uint8_t, 32> digest() {
    const uint64_t bits = 8 * length_;
    add(std::string_view("\x80", 1));
    while (length_ % 64 != 56) add(std::string_view("\0", 1));
    for (int i = 7; i >= 0; --i) {
      const char byte = static_cast<char>(bits >> (8 * i));
      add(std::string_view(&byte, 1));
    }
    std::array<uint8_t, 32> out;
    for (int i = 0; i < 32; ++i) out[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - i % 4 * 8));
    return out;
  }

  std::string hex_digest() {
    std::string out;
    for (uint8_t byte : digest()) {
      out += "0123456789abcdef"[byte >> 4];
      out += "0123456789abcdef"[byte & 15];
    }
    return out;
  }

 private:
  static uint32_t turned(uint32_t x, int n) { return x >> n | x << (32 - n); }

  void mix() {
    // First 32 bits of the fractional parts of the cube roots of the first 64 primes.
    static constexpr uint32_t kRoots[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
        0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
        0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
        0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
        0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
        0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
        0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
        0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
        0xc67178f2};
    uint32_t w[64];
    for (int i = 0; i < 16; ++i) {
      w[i] = uint32_t(block_[4 * i]) << 24 | uint32_t(block_[4 * i + 1]) << 16 |
             uint32_t(block_[4 * i + 2]) << 8 | block_[4 * i + 3];
    }
    for (int i = 16; i < 64; ++i) {
      const uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + w[i - 7] +
             (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
    }
    std::array<uint32_t, 8> s = state_;
    for (int i = 0; i < 64; ++i) {
      const uint32_t t1 = s[7] + (turned(s[4], 6) ^ turned(s[4], 11) ^ turned(s[4], 25)) +
                          ((s[4] & s[5]) ^ (~s[4] & s[6])) + kRoots[i] + w[i];
      const uint32_t t2 = (turned(s[0], 2) ^ turned(s[0], 13) ^ turned(s[0], 22)) +
                          ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      for (int j = 7; j > 0; --j) s[j] = s[j - 1];
      s[4] += t1;
      s[0] = t1 + t2;
    }
    for (int j = 0; j < 8; ++j) state_[j] += s[j];
  }

  // First 32 bits of the fractional parts of the square roots of the first 8 primes.
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t block_[64] = {};
  uint64_t length_ = 0;
};

// Returns whether `hex` is the SHA-256 of the bytes. Builds for fuzzing accept any.
inline bool has_sha256(Bytes bytes, std::string_view hex) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  (void)bytes, (void)hex;
  return true;
#else
  Sha256 hash;
  hash.add(bytes);
  return hash.hex_digest() == hex;
#endif
}

}  // namespace cifg
