// Arithmetic: products with int8 rows, and the functions of the gates.
//
// Products are TFLite's hybrid FULLY_CONNECTED (`asymmetricQuantizeInputs`): the input is rounded
// to int8 with one scale and zero point, summed in int32, and scaled once. Integer sums do not
// depend on their order. So every machine computes the same bits, as long as no product and sum are
// fused, which is forbidden below: for clang by the standard's pragma, for gcc, which ignores it,
// by its own. The gates' functions equal those of LiteRT 2.3 on x86-64 bit by bit, which are
// Eigen's (https://gitlab.com/libeigen/eigen): the last bit can decide to which step of int8 an
// input is rounded, and so change a strip. TFLite of TensorFlow 2.14 has other functions.
#pragma once

#include <cmath>

#include "bytes.h"

#if (defined(__x86_64__) || defined(__i386__)) && (defined(__GNUC__) || defined(__clang__))
#define CIFG_X86 1
#include <immintrin.h>
#define CIFG_AVX2 CIFG_FAST __attribute__((target("avx2")))
#else
#define CIFG_X86 0
#endif
#define CIFG_INLINE inline __attribute__((always_inline))
// Optimises for speed the few loops that take the time; the rest of the library is built to be
// small.
#if defined(__GNUC__) && !defined(__clang__)
#define CIFG_FAST __attribute__((optimize("O3")))
#else
#define CIFG_FAST
#endif

#if defined(__FAST_MATH__)
#error "-ffast-math would change strips: build without it"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__) && defined(__FP_FAST_FMAF)
#pragma GCC optimize("fp-contract=off")
#endif

namespace cifg {

constexpr int kLanes = 32;  // columns of a matrix are padded to a multiple of it

inline int padded(int columns) { return (columns + kLanes - 1) / kLanes * kLanes; }

// [rows, columns] int8, each row padded with zeros.
struct Matrix {
  int rows = 0, columns = 0, stride = 0;
  float scale = 1;
  std::vector<int8_t> values;
  std::vector<int32_t> sums;  // of each row

  void set(int num_rows, int num_columns, float its_scale, const std::vector<int8_t>& from) {
    rows = num_rows, columns = num_columns, stride = padded(num_columns), scale = its_scale;
    values.assign(size_t(rows) * stride, 0);
    sums.assign(rows, 0);
    for (size_t r = 0; r < size_t(rows); ++r) {
      for (size_t c = 0; c < size_t(columns); ++c) {
        const int8_t value = from[r * columns + c];
        values[r * stride + c] = value;
        sums[r] += value;
      }
    }
  }
};

// A vector rounded to int8: value = scale * (q - offset).
struct Rounded {
  std::vector<int16_t> q;  // padded with zeros
  float scale = 1;
  int32_t offset = 0;
};

// Returns `offset` plus the nearest whole number, halves away from zero, in [-128, 127]; `offset`
// for NaN.
CIFG_INLINE int16_t nearest_int8(float x, int32_t offset) {
  const float bounded = x < -512.0f ? -512.0f : x > 512.0f ? 512.0f : x == x ? x : 0.0f;
  const int32_t whole = static_cast<int32_t>(bounded);
  const float rest = bounded - float(whole);
  const int32_t q = whole + (rest >= 0.5f) - (rest <= -0.5f) + offset;
  return static_cast<int16_t>(q < -128 ? -128 : q > 127 ? 127 : q);
}

CIFG_FAST inline void round_to_int8(const float* x, int size, Rounded& out) {
  out.q.assign(padded(size), 0);
  float low = 0, high = 0;
  for (int i = 0; i < size; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  out.scale = 1, out.offset = 0;
  if (low == high) return;
  const double scale = double(high - low) / 255.0;  // a float difference, as in TFLite
  const double from_low = -128.0 - low / scale, from_high = 127.0 - high / scale;
  const bool low_is_exact = 128.0 + std::fabs(low / scale) < 127.0 + std::fabs(high / scale);
  const double zero = std::round(low_is_exact ? from_low : from_high);
  out.scale = static_cast<float>(scale);
  out.offset = zero > -128 ? (zero < 127 ? static_cast<int32_t>(zero) : 127) : -128;
  const float inverse = 1.0f / out.scale;
  for (int i = 0; i < size; ++i) {
    out.q[i] = nearest_int8(x[i] * inverse, out.offset);
  }
}

#if CIFG_X86
CIFG_AVX2 inline int32_t dot_avx2(const int8_t* w, const int16_t* x, int size) {
  __m256i total = _mm256_setzero_si256();
  for (int i = 0; i < size; i += 16) {
    const __m256i row = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w + i)));
    const __m256i in = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    total = _mm256_add_epi32(total, _mm256_madd_epi16(row, in));
  }
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
  return _mm_cvtsi128_si32(four);
}

inline bool has_avx2() {
  static const bool found = __builtin_cpu_supports("avx2");
  return found;
}
#endif

CIFG_FAST inline int32_t dot_plain(const int8_t* w, const int16_t* x, int size) {
  int32_t total = 0;
  for (int i = 0; i < size; ++i) total += int32_t(w[i]) * x[i];
  return total;
}

// result[r] += matrix[r] . x
template <int32_t (*dot)(const int8_t*, const int16_t*, int)>
CIFG_INLINE void add_product_with(const Matrix& matrix, const Rounded& x, float* result) {
  const float scale = x.scale * matrix.scale;
  for (int r = 0; r < matrix.rows; ++r) {
    const int32_t sum = dot(&matrix.values[size_t(r) * matrix.stride], x.q.data(), matrix.stride);
    result[r] += float(sum - x.offset * matrix.sums[r]) * scale;
  }
}

#if CIFG_X86
CIFG_AVX2 inline void add_product_avx2(const Matrix& matrix, const Rounded& x, float* result) {
  const float scale = x.scale * matrix.scale;
  for (int r = 0; r < matrix.rows; ++r) {
    const int32_t sum = dot_avx2(&matrix.values[size_t(r) * matrix.stride], x.q.data(), matrix.stride);
    result[r] += float(sum - x.offset * matrix.sums[r]) * scale;
  }
}
#endif

CIFG_FAST inline void add_product(const Matrix& matrix, const Rounded& x, float* result) {
#if CIFG_X86
  if (has_avx2()) return add_product_avx2(matrix, x, result);
#endif
  add_product_with<dot_plain>(matrix, x, result);
}

// --- functions, written so that a compiler makes vectors of a loop over them

// e^x for the softmax, from Moshier's Cephes, https://www.netlib.org/cephes.
CIFG_INLINE float exp_of(float x) {
  x = x > -87.3f ? (x < 88.3f ? x : 88.3f) : -87.3f;  // bounds NaN, too, so that the cast is defined
  const float turns = x * 1.44269504088896341f;
  const int32_t n = static_cast<int32_t>(turns + (turns < 0 ? -0.5f : 0.5f));
  const float k = static_cast<float>(n);
  const float r = x - k * 0.693359375f + k * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float fraction = p * r * r + r + 1.0f;
  const int32_t bits = (n + 127) * (1 << 23);
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return fraction * power;
}

// e^x / (1 + e^x), with e^x = (2^n e^r)^2 of x / 2 = n ln 2 + r.
CIFG_INLINE float logistic_of(float x) {
  const float clipped = x > -104.0f ? (x < 16.6355324f ? x : 16.6355324f) : -104.0f;
  const float half = clipped * 0.5f;
  const float turns = half * 1.44269504088896341f + 0.5f;
  int32_t n = static_cast<int32_t>(turns);
  n -= float(n) > turns;
  const float k = static_cast<float>(n);
  float r = k * -0.693359375f + half;
  r = k * 2.12194440e-4f + r;
  const float r2 = r * r;
  const float even = r2 * 4.1898667812347412109375e-2f + 0.49999141693115234375f;
  const float odd = r2 * 8.33471305668354034423828125e-3f + 0.16666877269744873046875f;
  const float p = r2 * (r * odd + even) + (r + 1.0f);
  const int32_t bits = (n + 127) * (1 << 23);
  float power;
  std::memcpy(&power, &bits, sizeof power);
  const float root = p * power;
  const float e = root * root;
  return x < -104.0f ? 0.0f : e / (1.0f + e);
}

// A quotient of polynomials, which is 1 beyond the bound.
CIFG_INLINE float tanh_of(float x) {
  constexpr float kOne = 7.90738964080810547f;
  x = x > -kOne ? (x < kOne ? x : kOne) : -kOne;
  const float s = x * x;
  float p = 1.394553628e-8f;
  p = p * s + 2.102733560e-5f;
  p = p * s + 3.520756727e-3f;
  p = p * s + 1.340216100e-1f;
  float q = 8.015776984e-7f;
  q = q * s + 3.326951409e-4f;
  q = q * s + 2.597254514e-2f;
  q = q * s + 4.673548340e-1f;
  q = q * s + 1.0f;
  return (s * x * p + x) / q;
}

// The same for the rest of a vector, which LiteRT processes in groups of four.
inline float logistic_of_rest(float x) {
  const float e = static_cast<float>(std::exp(double(x < 16.6355324f ? x : 16.6355324f)));
  return e / (1.0f + e);
}

// c' = c + i (g - c) and m = o tanh(c'), of z = (z_i, z_g, z_o), each [units].
CIFG_INLINE void gate_loop(const float* z, int units, float* c, float* m) {
  const float *zi = z, *zg = z + units, *zo = z + 2 * units;
  const int whole = units / 4 * 4;
  for (int u = 0; u < whole; ++u) {
    const float cell = c[u] + logistic_of(zi[u]) * (tanh_of(zg[u]) - c[u]);
    c[u] = cell;
    m[u] = logistic_of(zo[u]) * tanh_of(cell);
  }
  for (int u = whole; u < units; ++u) {
    const float cell = c[u] + logistic_of_rest(zi[u]) * (tanh_of(zg[u]) - c[u]);
    c[u] = cell;
    m[u] = logistic_of_rest(zo[u]) * tanh_of(cell);
  }
}

CIFG_INLINE void softmax_loop(float* x, int size, float largest) {
  for (int i = 0; i < size; ++i) x[i] = exp_of(x[i] - largest);
}

#if CIFG_X86
CIFG_AVX2 inline void gates_avx2(const float* z, int units, float* c, float* m) {
  gate_loop(z, units, c, m);
}
CIFG_AVX2 inline void softmax_avx2(float* x, int size, float largest) {
  softmax_loop(x, size, largest);
}
#endif

CIFG_FAST inline void gates(const float* z, int units, float* c, float* m) {
#if CIFG_X86
  if (has_avx2()) return gates_avx2(z, units, c, m);
#endif
  gate_loop(z, units, c, m);
}

// Turns scores into probabilities, in place.
CIFG_FAST inline void softmax(float* x, int size) {
  float largest = x[0];
  for (int i = 1; i < size; ++i) largest = x[i] > largest ? x[i] : largest;
#if CIFG_X86
  if (has_avx2()) {
    softmax_avx2(x, size, largest);
  } else {
    softmax_loop(x, size, largest);
  }
#else
  softmax_loop(x, size, largest);
#endif
  double total = 0;
  for (int i = 0; i < size; ++i) total += x[i];
  const float inverse = static_cast<float>(1.0 / total);
  for (int i = 0; i < size; ++i) x[i] *= inverse;
}

// --- float32, of a trainable model; eight sums at a time, in one order everywhere

CIFG_FAST inline float dot_floats(const float* a, const float* b, int size) {
  float sums[8] = {};
  int i = 0;
  for (; i + 8 <= size; i += 8) {
    for (int j = 0; j < 8; ++j) sums[j] += a[i + j] * b[i + j];
  }
  float rest = 0;
  for (; i < size; ++i) rest += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7])) +
         rest;
}

// y += factor x
CIFG_FAST inline void add_scaled(float factor, const float* x, int size, float* y) {
  for (int i = 0; i < size; ++i) y[i] += factor * x[i];
}

}  // namespace cifg
