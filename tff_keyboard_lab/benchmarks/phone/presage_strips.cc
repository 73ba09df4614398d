// Reads texts, one a line, and writes the words that presage suggests after each, separated by tabs.
//
//   g++ -O2 -std=c++14 presage_strips.cc -lpresage -o presage_strips
//
// Debian: presage, libpresage-dev. The configuration is Debian's, except that nothing is learnt and
// that a suggestion that was not taken is offered again.

#include <presage.h>

#include <iostream>
#include <string>

class Text : public PresageCallback {
 public:
  std::string before;
  std::string get_past_stream() const override { return before; }
  std::string get_future_stream() const override { return ""; }
};

int main() {
  Text text;
  Presage presage(&text);
  presage.config("Presage.ContextTracker.ONLINE_LEARNING", "no");
  presage.config("Presage.Selector.REPEAT_SUGGESTIONS", "yes");
  presage.config("Presage.Selector.SUGGESTIONS", "3");
  while (std::getline(std::cin, text.before)) {
    const char* separator = "";
    for (const std::string& word : presage.predict()) {
      std::cout << separator << word;
      separator = "\t";
    }
    std::cout << std::endl;
  }
}
