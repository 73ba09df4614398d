// Makes one step of plain SGD on a message: the signature `train` of a trainable export.
//
// Gradients are those of `loss_and_gradients` in tflite_export/graphs/trainable.py:
// back-propagation through time over the values that the forward pass saved. The table is read
// twice, by lookup and as the output layer.
#pragma once

#include "network.h"

namespace cifg {

class Training {
 public:
  explicit Training(Network& network) : net_(network) {}

  // Makes the step and computes the loss before it: the mean of -log p(target) over targets other
  // than PAD; 0 if there are none. `tokens` are BOS, words, EOS, then PAD if any.
  Error step(const int32_t* tokens, size_t count, float learning_rate, float* loss) {
    if (!net_.is_trainable()) return "the model was not exported with --trainable";
    if (count > kMostTokens) return "a message has 10,000 tokens at most";
    ids_.clear();
    for (size_t i = 0; i < count; ++i) ids_.push_back(net_.known(tokens[i]));
    ids_.push_back(kPad);
    time_ = static_cast<int>(ids_.size()) - 1;
    num_targets_ = 0;
    for (int t = 1; t <= time_; ++t) num_targets_ += ids_[t] != kPad;
    run_forth();
    *loss = output_gradients();
    run_back();
    apply(net_.embedding, d_embedding_, learning_rate);
    apply(net_.kernel, d_kernel_, learning_rate);
    apply(net_.recurrent_kernel, d_recurrent_, learning_rate);
    apply(net_.bias, d_bias_, learning_rate);
    apply(net_.projection, d_projection_, learning_rate);
    return nullptr;
  }

 private:
  static constexpr size_t kMostTokens = 10'000;

  float* row(std::vector<float>& array, int t, int width) { return &array[size_t(t) * width]; }

  // gates [time, 3 units], cells [1 + time, units], hidden [1 + time, dim]; row 0 is the initial
  // state.
  void run_forth() {
    const int units = net_.units(), dim = net_.dim(), width = 3 * units;
    gates_.assign(size_t(time_) * width, 0);
    cells_.assign(size_t(time_ + 1) * units, 0);
    hidden_.assign(size_t(time_ + 1) * dim, 0);
    for (int t = 0; t < time_; ++t) {
      float* z = row(gates_, t, width);
      const float* x = &net_.embedding[size_t(ids_[t]) * dim];
      const float *h = row(hidden_, t, dim), *c = row(cells_, t, units);
      for (int d = 0; d < dim; ++d) {
        add_scaled(x[d], &net_.kernel[size_t(d) * width], width, z);
        add_scaled(h[d], &net_.recurrent_kernel[size_t(d) * width], width, z);
      }
      float *new_h = row(hidden_, t + 1, dim), *new_c = row(cells_, t + 1, units);
      for (int u = 0; u < units; ++u) {
        const float i = z[u] = logistic_of(z[u] + net_.bias[u]);
        const float g = z[units + u] = tanh_of(z[units + u] + net_.bias[units + u]);
        const float o = z[2 * units + u] = logistic_of(z[2 * units + u] + net_.bias[2 * units + u]);
        new_c[u] = c[u] + i * (g - c[u]);
        add_scaled(o * tanh_of(new_c[u]), &net_.projection[size_t(u) * dim], dim, new_h);
      }
    }
  }

  // Computes the loss, d_hidden [time, dim], and the output layer's part of d_embedding.
  float output_gradients() {
    const int vocabulary = net_.vocabulary(), dim = net_.dim();
    d_embedding_.assign(net_.embedding.size(), 0);
    d_hidden_.assign(size_t(time_) * dim, 0);
    const float share = 1.0f / float(num_targets_ ? num_targets_ : 1);
    double loss = 0;
    std::vector<float> scores(vocabulary);
    for (int t = 0; t < time_; ++t) {
      const int32_t target = ids_[t + 1];
      if (target == kPad) continue;
      const float* h = row(hidden_, t + 1, dim);
      net_.logits(h, scores.data());
      softmax(scores.data(), vocabulary);
      loss -= std::log(double(scores[target]) > 1e-38 ? double(scores[target]) : 1e-38) * share;
      scores[target] -= 1.0f;
      for (int v = 0; v < vocabulary; ++v) {
        const float d = scores[v] * share;
        add_scaled(d, &net_.embedding[size_t(v) * dim], dim, row(d_hidden_, t, dim));
        add_scaled(d, h, dim, row(d_embedding_, v, dim));
      }
    }
    return static_cast<float>(loss);
  }

  void run_back() {
    const int units = net_.units(), dim = net_.dim(), width = 3 * units;
    d_kernel_.assign(net_.kernel.size(), 0);
    d_recurrent_.assign(net_.recurrent_kernel.size(), 0);
    d_bias_.assign(width, 0);
    d_projection_.assign(net_.projection.size(), 0);
    std::vector<float> d_c(units), d_h(dim), d_pre(width);
    for (int t = time_ - 1; t >= 0; --t) {
      const float *z = row(gates_, t, width), *before = row(cells_, t, units);
      add_scaled(1, row(d_hidden_, t, dim), dim, d_h.data());
      for (int u = 0; u < units; ++u) {
        const float i = z[u], g = z[units + u], o = z[2 * units + u];
        const float tanh_c = tanh_of(row(cells_, t + 1, units)[u]);
        const float d_m = dot_floats(d_h.data(), &net_.projection[size_t(u) * dim], dim);
        add_scaled(o * tanh_c, d_h.data(), dim, &d_projection_[size_t(u) * dim]);
        d_c[u] += d_m * o * (1.0f - tanh_c * tanh_c);
        d_pre[u] = d_c[u] * (g - before[u]) * i * (1.0f - i);
        d_pre[units + u] = d_c[u] * i * (1.0f - g * g);
        d_pre[2 * units + u] = d_m * tanh_c * o * (1.0f - o);
        d_c[u] *= 1.0f - i;
      }
      add_scaled(1, d_pre.data(), width, d_bias_.data());
      const float* x = &net_.embedding[size_t(ids_[t]) * dim];
      const float* h = row(hidden_, t, dim);
      float* d_x = &d_embedding_[size_t(ids_[t]) * dim];
      for (int d = 0; d < dim; ++d) {
        add_scaled(x[d], d_pre.data(), width, &d_kernel_[size_t(d) * width]);
        add_scaled(h[d], d_pre.data(), width, &d_recurrent_[size_t(d) * width]);
        d_x[d] += dot_floats(d_pre.data(), &net_.kernel[size_t(d) * width], width);
        d_h[d] = dot_floats(d_pre.data(), &net_.recurrent_kernel[size_t(d) * width], width);
      }
    }
  }

  static void apply(std::vector<float>& weights, const std::vector<float>& gradient, float rate) {
    add_scaled(-rate, gradient.data(), static_cast<int>(weights.size()), weights.data());
  }

  Network& net_;
  std::vector<int32_t> ids_;
  int time_ = 0, num_targets_ = 0;
  std::vector<float> gates_, cells_, hidden_, d_hidden_;
  std::vector<float> d_embedding_, d_kernel_, d_recurrent_, d_bias_, d_projection_;
};

}  // namespace cifg
