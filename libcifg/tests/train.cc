// What a native device takes: trains on messages of stdin, one a line, and prints the mean loss of
// the steps, a sum over the weights, and the peak of resident memory in kB.
//   train keyboard.tflite 0.05 < messages
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "../cifg.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  char error[300];
  cifg_keyboard* keyboard = cifg_open(argv[1], error, sizeof error);
  if (!keyboard) return std::fprintf(stderr, "%s\n", error), 3;
  double total = 0;
  int steps = 0;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(cifg_tokens(keyboard, line.c_str()));
    std::vector<int32_t> ids = {1};  // BOS
    for (std::string word; std::getline(words, word);) {
      ids.push_back(cifg_id_of(keyboard, word.c_str()));
    }
    ids.push_back(2);  // EOS
    if (ids.size() > 21) ids.resize(21);
    float loss;
    if (cifg_train(keyboard, ids.data(), ids.size(), std::strtof(argv[2], nullptr), &loss) < 0) {
      return std::fprintf(stderr, "%s\n", cifg_error(keyboard)), 3;
    }
    total += loss;
    ++steps;
  }
  double sum = 0;
  for (const char* name : {"embedding", "kernel", "recurrent_kernel", "bias", "projection"}) {
    std::vector<float> values(cifg_weights(keyboard, name, nullptr, 0));
    cifg_weights(keyboard, name, values.data(), values.size());
    for (float value : values) sum += value;
  }
  cifg_close(keyboard);
  // Not `getrusage`: its peak counts that of the process before `exec`.
  long kilobytes = 0;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") status >> kilobytes;
  }
  std::printf("%d steps, loss %.6f, weights %.3f, %ld kB\n", steps, steps ? total / steps : 0.0, sum,
              kilobytes);
}
