# libcifg for one machine. `make native` of the checkout builds and tests it.
#   make -f build.mk OUT=build CXX=aarch64-linux-gnu-g++
HERE := $(dir $(abspath $(lastword $(MAKEFILE_LIST))))
OUT := build
CXX := g++
FUZZ := model
FUZZ_SECONDS := 600
HEADERS := $(wildcard $(HERE)cifg/*.h) $(HERE)cifg.h
# No contraction: with it, machines that multiply and add at once would compute other bits.
CXXFLAGS := -std=c++17 -Os -Wall -Wextra -ffp-contract=off -fno-rtti -fvisibility=hidden \
	-fvisibility-inlines-hidden -ffunction-sections -fdata-sections -pthread
LDFLAGS := -shared -s -Wl,--gc-sections -Wl,-z,noseparate-code -Wl,--build-id=none -Wl,--version-script=$(HERE)cifg.map
SANITIZERS := -g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
ONE := bytes sha256 inflate json flatbuffer model_file kernels network training unicode tokenizer \
	vocabulary ngram word_cache keyboard

$(OUT)/libcifg.so: $(HERE)cifg.cc $(HEADERS) $(HERE)cifg.map
	@mkdir -p $(OUT)
	$(CXX) $(CXXFLAGS) -fPIC $(LDFLAGS) $< -o $@

# The library as one header, for who takes it along in source.
$(OUT)/cifg.hpp: $(HEADERS)
	@mkdir -p $(OUT)
	(echo '#pragma once'; cat $(ONE:%=$(HERE)cifg/%.h) | grep -v -e '^#pragma once' -e '^#include "') > $@

# Types words of a file and prints strips, on whatever machine: the same lines everywhere.
$(OUT)/strips: $(HERE)tests/strips.cc $(HERE)cifg.cc $(HEADERS)
	@mkdir -p $(OUT)
	$(CXX) $(CXXFLAGS) $(STATIC) $(HERE)tests/strips.cc $(HERE)cifg.cc -o $@

# Trains on lines of text, and says what memory that took.
$(OUT)/train: $(HERE)tests/train.cc $(HERE)cifg.cc $(HEADERS)
	@mkdir -p $(OUT)
	$(CXX) $(CXXFLAGS) $(STATIC) $(HERE)tests/train.cc $(HERE)cifg.cc -o $@

$(OUT)/strips_checked: $(HERE)tests/strips.cc $(HERE)cifg.cc $(HEADERS)
	@mkdir -p $(OUT)
	$(CXX) -std=c++17 -pthread $(SANITIZERS) $(HERE)tests/strips.cc $(HERE)cifg.cc -o $@

# Eight threads with one keyboard.
$(OUT)/threads: $(HERE)tests/threads.cc $(HERE)cifg.cc $(HEADERS)
	@mkdir -p $(OUT)
	$(CXX) $(CXXFLAGS) $(STATIC) $(HERE)tests/threads.cc $(HERE)cifg.cc -o $@

$(OUT)/threads_checked: $(HERE)tests/threads.cc $(HERE)cifg.cc $(HEADERS)
	@mkdir -p $(OUT)
	$(CXX) -std=c++17 -g -O1 -pthread -fsanitize=thread $(HERE)tests/threads.cc $(HERE)cifg.cc -o $@

$(OUT)/libcifg_jni.so: $(HERE)jni/cifg_jni.cc $(HERE)cifg.cc $(HEADERS)
	@mkdir -p $(OUT)
	$(CXX) $(CXXFLAGS) -fPIC -shared -s -I$(JAVA_HOME)/include -I$(JAVA_HOME)/include/linux \
	  $(HERE)jni/cifg_jni.cc $(HERE)cifg.cc -o $@

# The page of `play` without a server. Debian: clang lld wasi-libc libc++-dev-wasm32
# libclang-rt-dev-wasm32. MODEL is an export's `.tflite`; any web server may serve $(OUT)/page.
MODEL := $(HERE)../models/messages/keyboard.tflite
SERVER_PAGE := $(HERE)../tff_keyboard_app/keyboard/server/page
WASM_EXPORTS := malloc free cifg_open_files cifg_strip cifg_tokens cifg_id_of cifg_learn cifg_forget cifg_cache
$(OUT)/page/cifg.wasm: $(HERE)page/wasm.cc $(HERE)cifg.cc $(HEADERS)
	@mkdir -p $(OUT)/page
	clang++ --target=wasm32-wasi -mexec-model=reactor -std=c++17 -O2 -msimd128 -ffp-contract=off \
	  -fno-exceptions -fno-rtti -fvisibility=hidden -DCIFG_NO_FILES -DCIFG_NO_THREADS -Wl,--strip-all \
	  $(WASM_EXPORTS:%=-Wl,--export=%) $(HERE)page/wasm.cc $(HERE)cifg.cc -o $@
$(OUT)/page/index.html: $(OUT)/page/cifg.wasm $(wildcard $(HERE)page/*.js $(SERVER_PAGE)/*)
	cp $(SERVER_PAGE)/* $(HERE)page/*.js $(MODEL:.tflite=).* $(OUT)/page/
	cp $(HERE)../tff_keyboard_app/keyboard/blocklists/en.txt $(OUT)/page/blocklist.txt
	sed -i -e 's|<script src="keyboard.js"|<script src="offline.js" type="module"></script>\n  &|' $@

# clang only; FUZZ is a function of tests/fuzz.cc. Seeds and finds: $(OUT)/seeds/$(FUZZ).
$(OUT)/fuzz_$(FUZZ): $(HERE)tests/fuzz.cc $(HEADERS)
	@mkdir -p $(OUT)/seeds/$(FUZZ)
	clang++ -std=c++17 $(SANITIZERS) -fsanitize=fuzzer -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION \
	  -DREADER=$(FUZZ) $< -o $@
fuzz: $(OUT)/fuzz_$(FUZZ)
	$< -max_total_time=$(FUZZ_SECONDS) -max_len=60000 -timeout=60 -artifact_prefix=$(OUT)/ $(OUT)/seeds/$(FUZZ)
.PHONY: fuzz
