// The arithmetic: products with int8 rows, and the functions of the gates.
//
// Products are TFLite's hybrid FULLY_CONNECTED (`asymmetricQuantizeInputs`): the input is rounded to
// int8 with one scale and zero point, summed in int32, and scaled once. Integer sums have no order,
// so every machine computes the same bits; build with -ffp-contract=off to keep it so. The functions
// are those of Moshier's Cephes, https://www.netlib.org/cephes: 2 units in the last place. TFLite
// has others (Eigen's), so states differ in their last bits, as they do between its own builds.
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
// The few loops that time is spent in, in a library that is otherwise built to be small.
#if defined(__GNUC__) && !defined(__clang__)
#define CIFG_FAST __attribute__((optimize("O3")))
#else
#define CIFG_FAST
#endif

namespace cifg {

constexpr int kLanes = 32;  // columns of a matrix are filled up to a multiple of it

inline int padded(int columns) { return (columns + kLanes - 1) / kLanes * kLanes; }

// [rows, columns] int8, each row filled up with zeros.
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

CIFG_FAST inline void round_to_int8(const float* x, int size, Rounded& out) {
  out.q.assign(padded(size), 0);
  float low = 0, high = 0;
  for (int i = 0; i < size; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  out.scale = 1, out.offset = 0;
  if (low == high) return;
  const double scale = (double(high) - double(low)) / 255.0;
  const double from_low = -128.0 - low / scale, from_high = 127.0 - high / scale;
  const bool low_is_exact = 128.0 + std::fabs(low / scale) < 127.0 + std::fabs(high / scale);
  const double zero = std::round(low_is_exact ? from_low : from_high);
  out.scale = static_cast<float>(scale);
  out.offset = zero > -128 ? (zero < 127 ? static_cast<int32_t>(zero) : 127) : -128;
  const float inverse = 1.0f / out.scale;
  for (int i = 0; i < size; ++i) {
    const float at = float(out.offset) + x[i] * inverse;
    // Halves away from zero, as std::round; the cast is defined for whatever a state may hold.
    const float clipped = at < -128.0f ? -128.0f : at > 127.0f ? 127.0f : at == at ? at : 0.0f;
    out.q[i] = static_cast<int16_t>(clipped + (clipped < 0 ? -0.5f : 0.5f));
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

CIFG_INLINE float exp_of(float x) {
  x = x > -87.3f ? (x < 88.3f ? x : 88.3f) : -87.3f;  // NaN, too, so that the cast is defined
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

CIFG_INLINE float logistic_of(float x) { return 1.0f / (1.0f + exp_of(-x)); }

CIFG_INLINE float tanh_of(float x) {
  const float size = std::fabs(x);
  const float far = 1.0f - 2.0f / (exp_of(2.0f * size) + 1.0f);
  const float s = x * x;
  float p = -5.70498872745e-3f;
  p = p * s + 2.06390887954e-2f;
  p = p * s - 5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s - 3.33332819422e-1f;
  const float near = p * s * x + x;
  const float signed_far = x < 0 ? -far : far;
  return size < 0.625f ? near : signed_far;
}

// c' = c + i (g - c) and m = o tanh(c'), of z = (z_i, z_g, z_o), each [units]; c and m may be one.
CIFG_INLINE void gate_loop(const float* z, int units, float* c, float* m) {
  const float *zi = z, *zg = z + units, *zo = z + 2 * units;
  for (int u = 0; u < units; ++u) {
    const float cell = c[u] + logistic_of(zi[u]) * (tanh_of(zg[u]) - c[u]);
    c[u] = cell;
    m[u] = logistic_of(zo[u]) * tanh_of(cell);
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

// Scores become probabilities, in place.
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
