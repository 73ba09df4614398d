// What WebAssembly lacks of the C interface: a callback for NFKC, which is the page's.
#include "../cifg.h"

extern "C" {

__attribute__((import_module("page"), import_name("nfkc"))) int32_t page_nfkc(
    const char* text, size_t size, char* out, size_t capacity);

static int64_t nfkc(void*, const char* text, size_t size, char* out, size_t capacity) {
  return page_nfkc(text, size, out, capacity);
}

__attribute__((export_name("use_page_nfkc"))) void use_page_nfkc(cifg_keyboard* keyboard) {
  cifg_set_nfkc(keyboard, nfkc, nullptr);
}

}  // extern "C"
