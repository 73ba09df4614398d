// The CIFG-LSTM of an export: the signatures `step` and `logits`, and the weights of a trainable
// one.
//
//   z = x W + h R + b,   i, g, o = sigma(z_i), tanh(z_g), sigma(z_o)
//   c' = c + i (g - c),  h' = (o tanh c') P,  logits = h' E^T,  x = row of E
//
// Source: Hard et al. 2018, https://arxiv.org/abs/1811.03604, section 4; tflite_export/format/
// signatures.py describes the signatures.
#pragma once

#include "kernels.h"
#include "model_file.h"

namespace cifg {

// Rows of the word table that are not words.
enum SpecialId : int32_t { kPad = 0, kBos = 1, kEos = 2, kOov = 3, kNumSpecial = 4 };

struct State {
  std::vector<float> c, h;  // [units], [dim]; zeros at the start of a message

  bool is_finite() const {
    float sum = 0;  // NaN and infinity propagate to it
    for (float x : c) sum += x * 0.0f;
    for (float x : h) sum += x * 0.0f;
    return sum == 0;
  }
};

class Network {
 public:
  Error open(Bytes model) {
    ModelWeights weights;
    Error error = ModelFile::read(model, weights);
    if (error) return error;
    vocabulary_ = weights.vocabulary, dim_ = weights.dim, units_ = weights.units;
    if (vocabulary_ <= kNumSpecial) return "the word table has no words";
    is_trainable_ = weights.is_trainable;
    if (is_trainable_) {
      embedding = std::move(weights.embedding), kernel = std::move(weights.kernel);
      recurrent_kernel = std::move(weights.recurrent_kernel), bias = std::move(weights.bias);
      projection = std::move(weights.projection_kernel);
      return nullptr;
    }
    const auto take = [](const Int8Matrix& from, Matrix& to, float scale) {
      to.set(from.rows, from.columns, scale, from.values);
    };
    take(weights.table, table_, 1);
    for (int8_t code : weights.table.codes) row_scales_.push_back(float(code) * weights.table.scale);
    for (int gate = 0; gate < 3; ++gate) {
      take(weights.kernels[gate], kernels_[gate], weights.kernels[gate].scale);
      take(weights.recurrent[gate], recurrent_[gate], weights.recurrent[gate].scale);
      biases_[gate] = std::move(weights.biases[gate]);
    }
    take(weights.projection, projection_, weights.projection.scale);
    return nullptr;
  }

  int vocabulary() const { return vocabulary_; }
  int dim() const { return dim_; }
  int units() const { return units_; }
  bool is_trainable() const { return is_trainable_; }

  State zero_state() const { return {std::vector<float>(units_), std::vector<float>(dim_)}; }

  // Replaces ids that are not rows of the table by OOV.
  int32_t known(int32_t id) const { return id >= 0 && id < vocabulary_ ? id : int32_t(kOov); }

  // Returns the state after a token. PAD leaves it unchanged.
  void step(int32_t token, State& state) {
    token = known(token);
    if (token == kPad) return;
    z_.assign(3 * size_t(units_), 0);
    x_.resize(dim_);
    is_trainable_ ? sum_floats(token, state) : sum_int8(token, state);
    m_.resize(units_);
    gates(z_.data(), units_, state.c.data(), m_.data());
    state.h.assign(dim_, 0);
    if (is_trainable_) {
      for (int u = 0; u < units_; ++u) {
        add_scaled(m_[u], &projection[size_t(u) * dim_], dim_, state.h.data());
      }
    } else {
      round_to_int8(m_.data(), units_, rounded_h_);
      add_product(projection_, rounded_h_, state.h.data());
    }
  }

  // Computes the scores [vocabulary] of all rows after a state h [dim].
  void logits(const float* h, float* out) {
    if (is_trainable_) {
      for (int v = 0; v < vocabulary_; ++v) {
        out[v] = dot_floats(h, &embedding[size_t(v) * dim_], dim_);
      }
      return;
    }
    round_to_int8(h, dim_, rounded_h_);
    std::fill(out, out + vocabulary_, 0.0f);
    add_product(table_, rounded_h_, out);
    for (int v = 0; v < vocabulary_; ++v) out[v] *= row_scales_[v];
  }

  // Weights of a trainable model in the layout of tff_keyboard/models/cifg.py, rows in file order.
  std::vector<float> embedding, kernel, recurrent_kernel, bias, projection;

  std::vector<float>* weight(std::string_view name) {
    if (name == "embedding") return &embedding;
    if (name == "kernel") return &kernel;
    if (name == "recurrent_kernel") return &recurrent_kernel;
    if (name == "bias") return &bias;
    return name == "projection" ? &projection : nullptr;
  }

 private:
  void sum_int8(int32_t token, const State& state) {
    const int8_t* row = &table_.values[size_t(token) * table_.stride];
    for (int d = 0; d < dim_; ++d) x_[d] = float(row[d]) * row_scales_[token];
    round_to_int8(x_.data(), dim_, rounded_x_);
    round_to_int8(state.h.data(), dim_, rounded_h_);
    part_.resize(units_);
    for (int gate = 0; gate < 3; ++gate) {
      float* z = &z_[size_t(gate) * units_];
      std::copy(biases_[gate].begin(), biases_[gate].end(), z);
      add_product(kernels_[gate], rounded_x_, z);
      part_.assign(units_, 0);
      add_product(recurrent_[gate], rounded_h_, part_.data());
      for (int u = 0; u < units_; ++u) z[u] += part_[u];
    }
  }

  void sum_floats(int32_t token, const State& state) {
    const float* x = &embedding[size_t(token) * dim_];
    const int width = 3 * units_;
    for (int d = 0; d < dim_; ++d) {
      add_scaled(x[d], &kernel[size_t(d) * width], width, z_.data());
      add_scaled(state.h[d], &recurrent_kernel[size_t(d) * width], width, z_.data());
    }
    add_scaled(1, bias.data(), width, z_.data());
  }

  int vocabulary_ = 0, dim_ = 0, units_ = 0;
  bool is_trainable_ = false;
  Matrix table_, kernels_[3], recurrent_[3], projection_;
  std::vector<float> biases_[3], row_scales_;
  std::vector<float> x_, z_, m_, part_;  // buffers of the last step, reused to avoid allocations
  Rounded rounded_x_, rounded_h_;
};

}  // namespace cifg
