// The natives of org.cifg.Cifg. Errors of the library become IllegalArgumentException; what Java
// throws in between goes on to the caller.
#include <jni.h>

#include <cstring>
#include <string>
#include <vector>

#include "../cifg.h"

namespace {

cifg_keyboard* of(jlong keyboard) { return reinterpret_cast<cifg_keyboard*>(keyboard); }

void raise(JNIEnv* env, const char* message, const char* kind = "java/lang/IllegalArgumentException") {
  if (env->ExceptionCheck()) return;
  if (jclass found = env->FindClass(kind)) env->ThrowNew(found, message);
}

// Nothing of C++ may be thrown into the JVM, and only memory can be lacking here.
template <typename Work>
auto guarded(JNIEnv* env, Work work) -> decltype(work()) {
  try {
    return work();
  } catch (...) {
    raise(env, "libcifg", "java/lang/OutOfMemoryError");
  }
  return decltype(work())();
}

std::string content(JNIEnv* env, jbyteArray array) {
  if (!array) return {};
  std::string bytes(static_cast<size_t>(env->GetArrayLength(array)), '\0');
  env->GetByteArrayRegion(array, 0, static_cast<jsize>(bytes.size()), reinterpret_cast<jbyte*>(bytes.data()));
  return bytes;
}

// Null while something is thrown: with that pending, the JVM forbids to make anything.
jbyteArray array_of(JNIEnv* env, const char* bytes, size_t size) {
  if (env->ExceptionCheck()) return nullptr;
  jbyteArray array = env->NewByteArray(static_cast<jsize>(size));
  if (array) {
    env->SetByteArrayRegion(array, 0, static_cast<jsize>(size), reinterpret_cast<const jbyte*>(bytes));
  }
  return array;
}

jbyteArray text_or_error(JNIEnv* env, cifg_keyboard* keyboard, const char* text) {
  if (!text) return raise(env, cifg_error(keyboard)), nullptr;
  return array_of(env, text, std::strlen(text));
}

// What NFKC needs; an environment belongs to a thread.
struct Java {
  JavaVM* machine;
  jclass cifg;
  jmethodID nfkc;
};

int64_t nfkc(void* user, const char* text, size_t size, char* out, size_t capacity) {
  const Java& java = *static_cast<const Java*>(user);
  JNIEnv* env = nullptr;
  if (java.machine->GetEnv(reinterpret_cast<void**>(&env), JNI_VERSION_1_6) != JNI_OK) return -1;
  jbyteArray in = array_of(env, text, size);
  auto done = in ? static_cast<jbyteArray>(env->CallStaticObjectMethod(java.cifg, java.nfkc, in)) : nullptr;
  if (env->ExceptionCheck() || !done) return -1;
  const auto found = static_cast<size_t>(env->GetArrayLength(done));
  if (found <= capacity) {
    env->GetByteArrayRegion(done, 0, static_cast<jsize>(found), reinterpret_cast<jbyte*>(out));
  }
  env->DeleteLocalRef(done), env->DeleteLocalRef(in);
  return static_cast<int64_t>(found);
}

}  // namespace

extern "C" {

JNIEXPORT jlong JNICALL Java_org_cifg_Cifg_open(JNIEnv* env, jclass cifg, jbyteArray model,
                                                jbyteArray vocabulary, jbyteArray manifest,
                                                jbyteArray ngram, jbyteArray tail) {
  return guarded(env, [&]() -> jlong {
    // Missing where a shrinker has removed it: better known now than with the first accent.
    jmethodID method = env->GetStaticMethodID(cifg, "nfkc", "([B)[B");
    JavaVM* machine = nullptr;
    if (!method || env->GetJavaVM(&machine) != JNI_OK) return 0;
    static Java java = {machine, static_cast<jclass>(env->NewGlobalRef(cifg)), method};
    std::string parts[5];
    const jbyteArray arrays[] = {model, vocabulary, manifest, ngram, tail};
    for (int i = 0; i < 5; ++i) parts[i] = content(env, arrays[i]);
    const auto bytes = [&](int i) { return cifg_bytes{parts[i].data(), parts[i].size()}; };
    const cifg_files files = {bytes(0), bytes(1), bytes(2), bytes(3), bytes(4)};
    char error[300] = "";
    cifg_keyboard* keyboard = cifg_open_files(&files, error, sizeof error);
    if (!keyboard) return raise(env, error), 0;
    cifg_set_nfkc(keyboard, nfkc, &java);
    return reinterpret_cast<jlong>(keyboard);
  });
}

JNIEXPORT jbyteArray JNICALL Java_org_cifg_Cifg_strip(JNIEnv* env, jclass, jlong keyboard, jbyteArray text,
                                                      jdoubleArray probabilities) {
  return guarded(env, [&]() -> jbyteArray {
    const jsize count = env->GetArrayLength(probabilities);
    std::vector<cifg_suggestion> found(static_cast<size_t>(count));
    const int number = cifg_strip(of(keyboard), content(env, text).c_str(), count, found.data(), nullptr);
    if (number < 0) return raise(env, cifg_error(of(keyboard))), nullptr;
    if (env->ExceptionCheck()) return nullptr;
    std::string words;
    for (int i = 0; i < number; ++i) {
      words += (i ? "\n" : "") + std::string(found[i].word);
      env->SetDoubleArrayRegion(probabilities, i, 1, &found[i].probability);
    }
    return array_of(env, words.data(), words.size());
  });
}

JNIEXPORT jbyteArray JNICALL Java_org_cifg_Cifg_tokens(JNIEnv* env, jclass, jlong keyboard, jbyteArray text) {
  return guarded(env, [&] {
    return text_or_error(env, of(keyboard), cifg_tokens(of(keyboard), content(env, text).c_str()));
  });
}

JNIEXPORT void JNICALL Java_org_cifg_Cifg_learn(JNIEnv* env, jclass, jlong keyboard, jbyteArray words) {
  guarded(env, [&] {
    const std::string text = content(env, words);
    if (cifg_learn(of(keyboard), text.c_str(), nullptr) < 0) raise(env, cifg_error(of(keyboard)));
  });
}

JNIEXPORT void JNICALL Java_org_cifg_Cifg_forget(JNIEnv* env, jclass, jlong keyboard, jbyteArray word) {
  guarded(env, [&] {
    const std::string text = content(env, word);
    if (cifg_forget(of(keyboard), word ? text.c_str() : nullptr) < 0) raise(env, cifg_error(of(keyboard)));
  });
}

JNIEXPORT jbyteArray JNICALL Java_org_cifg_Cifg_cache(JNIEnv* env, jclass, jlong keyboard) {
  return text_or_error(env, of(keyboard), cifg_cache(of(keyboard)));
}

JNIEXPORT void JNICALL Java_org_cifg_Cifg_setCache(JNIEnv* env, jclass, jlong keyboard, jbyteArray cache) {
  guarded(env, [&] {
    const std::string bytes = content(env, cache);
    if (cifg_set_cache(of(keyboard), bytes.data(), bytes.size()) < 0) raise(env, cifg_error(of(keyboard)));
  });
}

JNIEXPORT jfloat JNICALL Java_org_cifg_Cifg_train(JNIEnv* env, jclass, jlong keyboard, jbyteArray words,
                                                  jfloat learning_rate) {
  return guarded(env, [&] {
    std::vector<int32_t> ids = {1};  // BOS
    std::string rest = content(env, words).c_str();
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      ids.push_back(cifg_id_of(of(keyboard), rest.substr(0, end).c_str()));
      rest.erase(0, end == std::string::npos ? end : end + 1);
    }
    ids.push_back(2);  // EOS
    float loss = 0;
    if (cifg_train(of(keyboard), ids.data(), ids.size(), learning_rate, &loss) < 0) {
      raise(env, cifg_error(of(keyboard)));
    }
    return loss;
  });
}

JNIEXPORT void JNICALL Java_org_cifg_Cifg_close(JNIEnv*, jclass, jlong keyboard) { cifg_close(of(keyboard)); }
}
