// Reads the weights from a `.tflite` file of our export: int8-rows or trainable.
//
// It does not interpret the graph. The operators of `step` must be those that the exporter writes
// (tflite_export/graphs/row_scaled.py), in the same order, so that the position of each constant
// identifies its weight. A trainable file (graphs/trainable.py) names its five arrays in the
// signature `set_weights`; their initial values are in the subgraph that assigns them. Indices of
// fields are those of TFLite's schema.fbs, https://github.com/tensorflow/tensorflow.
#pragma once

#include <map>

#include "flatbuffer.h"

namespace cifg {

// Rows of int8, as in the file: weight = scale * value, or base * codes[row] * value.
struct Int8Matrix {
  int rows = 0, columns = 0;
  std::vector<int8_t> values;
  std::vector<int8_t> codes;  // one for each row; only the word table has them
  float scale = 1;            // or base
};

struct ModelWeights {
  int vocabulary = 0, dim = 0, units = 0;
  bool is_trainable = false;
  // Gates in the order i, g, o: [units, dim] each; the word table is [vocabulary, dim].
  Int8Matrix table, kernels[3], recurrent[3], projection;
  std::vector<float> biases[3];
  // Weights of a trainable file in the layout of tff_keyboard/models/cifg.py, gates in one matrix.
  std::vector<float> embedding, kernel, recurrent_kernel, bias, projection_kernel;
};

class ModelFile {
 public:
  static Error read(Bytes bytes, ModelWeights& out) {
    if (bytes.part(4, 4).text() != "TFL3") return "not a TFLite model";
    const FlatFile file(bytes);
    ModelFile self(file, out);
    Error error = self.is_trainable() ? self.read_trainable() : self.read_rows();
    if (file.is_damaged()) error = "the model is cut short or damaged";
    return error;
  }

 private:
  enum Type { kFloat32 = 0, kInt32 = 2, kInt8 = 9 };
  enum Op {
    kAdd = 0, kDequantize = 6, kFullyConnected = 9, kLogistic = 14, kMul = 18, kSoftmax = 25,
    kTanh = 28, kGather = 36, kSub = 41, kTopK = 48, kLess = 58, kGreaterEqual = 62, kSlice = 65,
    kNotEqual = 72, kLogicalAnd = 86, kSelect = 123, kVarHandle = 142, kAssignVariable = 144,
  };
  static constexpr int kMostSize = 1 << 20;
  // Limits for hostile files, which may refer to one object millions of times. Our files have five
  // inputs, fifteen values, and short names.
  static constexpr uint32_t kMostInputs = 64;
  static constexpr int kMostValues = 64;
  static constexpr size_t kLongestName = 256;

  struct Tensor {
    FlatTable table;
    std::vector<int> shape;
    int type = -1;
    Bytes data;
    float scale = 0;

    bool is(int wanted, std::initializer_list<int> sizes) const {
      return type == wanted && shape == std::vector<int>(sizes);
    }
  };

  ModelFile(const FlatFile& file, ModelWeights& out)
      : file_(file), model_(FlatTable::root(file)), out_(out) {}

  uint32_t count(const FlatTable& table, int field) const { return table.vector(field, 4).length; }

  FlatTable signature(std::string_view name) const {
    for (uint32_t i = 0; i < count(model_, 7) && !file_.is_damaged(); ++i) {
      const FlatTable found = model_.table(7, i);
      if (found.text(2) == name) return found;
    }
    return {};
  }

  FlatTable graph_of(const FlatTable& signature) const {
    return model_.table(2, signature.scalar<uint32_t>(4));
  }

  int operator_code(const FlatTable& node) const {
    const FlatTable code = model_.table(1, node.scalar<uint32_t>(0));
    const int8_t old = code.scalar<int8_t>(0);
    const int32_t now = code.scalar<int32_t>(3);
    return now > old ? now : old;
  }

  static int input(const FlatTable& node, uint32_t i) { return node.vector(1, 4).at<int32_t>(i); }
  static int output(const FlatTable& node) { return node.vector(2, 4).at<int32_t>(0); }

  Tensor tensor(const FlatTable& graph, int index) const {
    Tensor found;
    found.table = graph.table(0, static_cast<uint32_t>(index));
    const FlatVector shape = found.table.vector(0, 4);
    for (uint32_t i = 0; i < shape.length && i < 4; ++i) found.shape.push_back(shape.at<int32_t>(i));
    found.type = found.table.scalar<int8_t>(1);
    found.data = model_.table(4, found.table.scalar<uint32_t>(2)).bytes(0);
    const FlatVector scales = found.table.table(4).vector(2, 4);
    if (scales.length == 1) found.scale = scales.at<float>(0);
    return found;
  }

  // Checks that the sizes of a matrix are within a keyboard's limits, so that products cannot
  // overflow.
  static bool is_matrix(const Tensor& found) {
    return found.shape.size() == 2 && found.shape[0] > 0 && found.shape[0] <= kMostSize &&
           found.shape[1] > 0 && found.shape[1] <= kMostSize;
  }
  static uint64_t elements(const Tensor& found) {
    uint64_t product = 1;
    for (int size : found.shape) product *= static_cast<uint64_t>(size);
    return product;
  }

  static bool copy_floats(const Tensor& found, std::vector<float>& to) {
    if (found.type != kFloat32 || found.data.size != 4 * elements(found)) return false;
    to.resize(found.data.size / 4);
    std::memcpy(to.data(), found.data.data, found.data.size);
    return true;
  }
  static bool copy_int8(const Tensor& found, std::vector<int8_t>& to) {
    if (found.type != kInt8 || found.data.size != elements(found) || !is_usable(found.scale)) return false;
    to.resize(found.data.size);
    std::memcpy(to.data(), found.data.data, found.data.size);
    return true;
  }
  static bool is_usable(float scale) { return scale > 0 && scale < 1e6f; }

  bool copy_matrix(const FlatTable& graph, int index, int rows, int columns, Int8Matrix& to) const {
    const Tensor found = tensor(graph, index);
    to.rows = rows, to.columns = columns, to.scale = found.scale;
    return found.is(kInt8, {rows, columns}) && copy_int8(found, to.values);
  }

  bool is_trainable() const { return bool(signature("set_weights")); }

  // --- int8-rows

  Error read_rows() {
    const FlatTable step = signature("step");
    if (!step) return "the model has no signature `step`";
    const FlatTable graph = graph_of(step);
    static constexpr uint8_t kStep[] = {
        kGreaterEqual, kLess, kLogicalAnd, kSelect,                           // the known id
        kGather, kDequantize,                                                 // its row
        kGather, kDequantize, kMul,                                           // the row's scale
        kFullyConnected, kFullyConnected, kAdd, kFullyConnected, kFullyConnected, kAdd,
        kFullyConnected, kFullyConnected, kAdd,                               // i, g, o
        kLogistic, kTanh, kLogistic, kSub, kMul, kAdd, kTanh, kMul,           // the cell
        kFullyConnected, kNotEqual, kSelect, kSelect,                         // h, PAD
        kFullyConnected, kDequantize, kMul,                                   // logits
        kSoftmax, kSlice, kTopK, kAdd};
    bool is_ours = count(graph, 3) == sizeof(kStep);
    for (uint32_t i = 0; is_ours && i < sizeof(kStep); ++i) {
      is_ours = operator_code(graph.table(3, i)) == kStep[i];
    }
    if (!is_ours) return "the model is not one of int8-rows or trainable; export it so";
    const auto weights_of = [&](uint32_t place) { return input(graph.table(3, place), 1); };
    const Tensor table = tensor(graph, weights_of(30));
    if (!is_matrix(table) || table.shape[1] > 4096) return "the word table is none";
    const int vocabulary = out_.vocabulary = table.shape[0], dim = out_.dim = table.shape[1];
    const Tensor first_kernel = tensor(graph, weights_of(9));
    if (!is_matrix(first_kernel) || first_kernel.shape[0] > 65536) return "a kernel is none";
    const int units = out_.units = first_kernel.shape[0];
    const uint32_t places[3] = {9, 12, 15};
    for (int gate = 0; gate < 3; ++gate) {
      const uint32_t place = places[gate];
      const Tensor bias = tensor(graph, input(graph.table(3, place), 2));
      if (!copy_matrix(graph, weights_of(place), units, dim, out_.kernels[gate]) ||
          !copy_matrix(graph, weights_of(place + 1), units, dim, out_.recurrent[gate]) ||
          !bias.is(kFloat32, {units}) || !copy_floats(bias, out_.biases[gate])) {
        return "the weights of a gate have other sizes";
      }
    }
    if (!copy_matrix(graph, weights_of(26), dim, units, out_.projection)) {
      return "the projection has another size";
    }
    const Tensor codes = tensor(graph, input(graph.table(3, 31), 0));
    out_.table.rows = vocabulary, out_.table.columns = dim, out_.table.scale = codes.scale;
    if (!codes.is(kInt8, {1, vocabulary}) || !copy_int8(codes, out_.table.codes)) {
      return "the scales of the word table have another size";
    }
    return copy_int8(table, out_.table.values) ? nullptr : "the word table has another size";
  }

  // --- trainable

  Error read_trainable() {
    const FlatTable set = signature("set_weights");
    const FlatTable graph = graph_of(set);
    std::map<std::string_view, std::pair<std::vector<float>*, Tensor>> by_variable;
    const std::pair<std::string_view, std::vector<float>*> arrays[] = {
        {"embedding", &out_.embedding},
        {"kernel", &out_.kernel},
        {"recurrent_kernel", &out_.recurrent_kernel},
        {"bias", &out_.bias},
        {"projection", &out_.projection_kernel}};
    if (count(set, 0) > kMostInputs) return "`set_weights` takes more than weights";
    const auto assigned = assignments(graph);
    int values_left = kMostValues;
    for (uint32_t i = 0; i < count(set, 0) && !file_.is_damaged(); ++i) {
      const FlatTable entry = set.table(0, i);
      const int index = static_cast<int>(entry.scalar<uint32_t>(1));
      for (const auto& [name, array] : arrays) {
        if (entry.text(0) != name) continue;
        for (const auto& [variable, value] : assigned) {
          if (value != index || values_left-- <= 0) continue;
          by_variable[variable] = {array, tensor(graph, index)};
        }
      }
    }
    values_left = kMostValues;
    for (uint32_t i = 0; i < count(model_, 2) && i < 256 && !file_.is_damaged(); ++i) {
      const FlatTable initial = model_.table(2, i);
      for (const auto& [variable, value] : assignments(initial)) {
        const auto found = by_variable.find(variable);
        if (found == by_variable.end() || values_left-- <= 0) continue;
        read_initial(initial, value, *found->second.first);
      }
    }
    std::vector<int> shapes[5];
    int place = 0;
    for (const auto& [name, array] : arrays) {
      for (const auto& [variable, known] : by_variable) {
        if (known.first == array) shapes[place] = known.second.shape;
      }
      ++place;
    }
    for (const std::vector<int>& shape : {shapes[0], shapes[4]}) {
      if (shape.size() != 2 || shape[0] < 1 || shape[0] > kMostSize || shape[1] < 1 || shape[1] > 4096) {
        return "a weight of the trainable model has no size";
      }
    }
    const int vocabulary = out_.vocabulary = shapes[0][0], dim = out_.dim = shapes[0][1];
    const int units = out_.units = shapes[4][0];
    if (units > 65536) return "a weight of the trainable model is too large";
    const uint64_t sizes[] = {uint64_t(vocabulary) * dim, uint64_t(dim) * 3 * units,
                              uint64_t(dim) * 3 * units, uint64_t(3) * units, uint64_t(units) * dim};
    place = 0;
    for (const auto& [name, array] : arrays) {
      if (array->size() != sizes[place++]) return "a weight of the trainable model has another size";
    }
    out_.is_trainable = true;
    return nullptr;
  }

  // Returns (name of the variable, tensor assigned to it) in a subgraph.
  std::vector<std::pair<std::string_view, int>> assignments(const FlatTable& graph) const {
    std::map<int, std::string_view> handles;
    std::vector<std::pair<std::string_view, int>> found;
    const uint32_t num_nodes = count(graph, 3);
    for (uint32_t i = 0; i < num_nodes && i < 4096 && !file_.is_damaged(); ++i) {
      const FlatTable node = graph.table(3, i);
      const int code = operator_code(node);
      if (code == kVarHandle) {
        const std::string_view name = node.table(4).text(1);
        handles[output(node)] = name.size() <= kLongestName ? name : std::string_view();
      }
      if (code == kAssignVariable) found.emplace_back(handles[input(node, 0)], input(node, 1));
    }
    return found;
  }

  // Reads a tensor's value: a constant float array, or MUL(DEQUANTIZE(values), DEQUANTIZE(codes)).
  void read_initial(const FlatTable& graph, int index, std::vector<float>& to) const {
    if (!to.empty()) return;
    const Tensor constant = tensor(graph, index);
    if (!constant.data.empty()) {
      copy_floats(constant, to);
      return;
    }
    const auto source = [&](int wanted, int code) {
      const uint32_t num_nodes = count(graph, 3);
      for (uint32_t i = 0; i < num_nodes && i < 4096 && !file_.is_damaged(); ++i) {
        const FlatTable node = graph.table(3, i);
        if (operator_code(node) == code && output(node) == wanted) return node;
      }
      return FlatTable();
    };
    const FlatTable product = source(index, kMul);
    if (!product) return;
    const FlatTable left = source(input(product, 0), kDequantize);
    const FlatTable right = source(input(product, 1), kDequantize);
    if (!left || !right) return;
    const Tensor values = tensor(graph, input(left, 0)), codes = tensor(graph, input(right, 0));
    std::vector<int8_t> rows, scales;
    if (!is_matrix(values) || !copy_int8(values, rows) || !copy_int8(codes, scales)) return;
    if (scales.size() != size_t(values.shape[0])) return;
    to.resize(rows.size());
    const size_t columns = static_cast<size_t>(values.shape[1]);
    for (size_t i = 0; i < rows.size(); ++i) {
      to[i] = float(rows[i]) * values.scale * (codes.scale * float(scales[i / columns]));
    }
  }

  const FlatFile& file_;
  FlatTable model_;
  ModelWeights& out_;
};

}  // namespace cifg
