// Reads FlatBuffers (https://flatbuffers.dev/internals) without generated code and without trust:
// a read outside of the file gives zero and marks the file as damaged.
#pragma once

#include "bytes.h"

namespace cifg {

class FlatFile {
 public:
  explicit FlatFile(Bytes bytes) : bytes_(bytes) {}

  bool is_damaged() const { return damaged_; }
  void set_damaged() const { damaged_ = true; }
  uint64_t size() const { return bytes_.size; }

  template <typename T>
  T read(uint64_t at) const {  // FlatBuffers and all supported machines are little-endian
    T value = 0;
    const Bytes found = bytes_.part(at, sizeof(T));
    if (found.empty()) {
      damaged_ = true;
    } else {
      std::memcpy(&value, found.data, sizeof(T));
    }
    return value;
  }

  Bytes part(uint64_t at, uint64_t length) const {
    const Bytes found = bytes_.part(at, length);
    if (found.size != length) damaged_ = true;
    return found;
  }

 private:
  Bytes bytes_;
  mutable bool damaged_ = false;
};

// A vector: `length` elements of `element` bytes, all inside of the file.
struct FlatVector {
  const FlatFile* file = nullptr;
  uint64_t start = 0;
  uint32_t length = 0;

  template <typename T>
  T at(uint32_t i) const {
    if (i >= length) return file->set_damaged(), T(0);
    return file->read<T>(start + uint64_t(i) * sizeof(T));
  }
};

class FlatTable {
 public:
  FlatTable() = default;
  FlatTable(const FlatFile* file, uint64_t at) : file_(file), at_(at) {}

  static FlatTable root(const FlatFile& file) { return {&file, file.read<uint32_t>(0)}; }

  explicit operator bool() const { return at_ != 0; }

  template <typename T>
  T scalar(int field, T missing = 0) const {
    const uint64_t place = place_of(field);
    return place ? file_->read<T>(place) : missing;
  }

  FlatTable table(int field) const {
    const uint64_t place = place_of(field);
    return place ? FlatTable(file_, place + file_->read<uint32_t>(place)) : FlatTable();
  }

  FlatVector vector(int field, int element) const {
    const uint64_t place = place_of(field);
    if (!place) return {file_, 0, 0};
    const uint64_t start = place + file_->read<uint32_t>(place);
    const uint64_t length = file_->read<uint32_t>(start);
    if (start + 4 + length * element > file_->size()) return file_->set_damaged(), FlatVector{file_};
    return {file_, start + 4, static_cast<uint32_t>(length)};
  }

  Bytes bytes(int field) const {
    const FlatVector found = vector(field, 1);
    return found.length ? file_->part(found.start, found.length) : Bytes{};
  }

  std::string_view text(int field) const { return bytes(field).text(); }

  // Table number i of a vector of tables.
  FlatTable table(int field, uint32_t i) const {
    const FlatVector found = vector(field, 4);
    if (i >= found.length) return file_->set_damaged(), FlatTable();
    const uint64_t place = found.start + 4 * uint64_t(i);
    return {file_, place + file_->read<uint32_t>(place)};
  }

  const FlatFile* file() const { return file_; }

 private:
  // Returns the position of a field's value; 0 if the table lacks the field.
  uint64_t place_of(int field) const {
    if (!at_) return 0;
    const int64_t vtable = int64_t(at_) - file_->read<int32_t>(at_);
    if (vtable < 0) return file_->set_damaged(), 0;
    const uint64_t slot = 4 + 2 * uint64_t(field);
    if (slot + 2 > file_->read<uint16_t>(uint64_t(vtable))) return 0;
    const uint16_t offset = file_->read<uint16_t>(uint64_t(vtable) + slot);
    return offset ? at_ + offset : 0;
  }

  const FlatFile* file_ = nullptr;
  uint64_t at_ = 0;
};

}  // namespace cifg
