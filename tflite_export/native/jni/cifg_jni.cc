// The natives of org.cifg.Cifg. Errors of the library become IllegalArgumentException.
#include <jni.h>

#include <string>
#include <vector>

#include "../cifg.h"

namespace {

cifg_keyboard* of(jlong keyboard) { return reinterpret_cast<cifg_keyboard*>(keyboard); }

void raise(JNIEnv* env, const char* message) {
  if (jclass kind = env->FindClass("java/lang/IllegalArgumentException")) env->ThrowNew(kind, message);
}

std::string content(JNIEnv* env, jbyteArray array) {
  if (!array) return {};
  std::string bytes(static_cast<size_t>(env->GetArrayLength(array)), '\0');
  env->GetByteArrayRegion(array, 0, static_cast<jsize>(bytes.size()), reinterpret_cast<jbyte*>(bytes.data()));
  return bytes;
}

jbyteArray array_of(JNIEnv* env, const char* bytes, size_t size) {
  jbyteArray array = env->NewByteArray(static_cast<jsize>(size));
  if (array) {
    env->SetByteArrayRegion(array, 0, static_cast<jsize>(size), reinterpret_cast<const jbyte*>(bytes));
  }
  return array;
}

jbyteArray text_or_error(JNIEnv* env, cifg_keyboard* keyboard, const char* text) {
  if (!text) return raise(env, cifg_error(keyboard)), nullptr;
  return array_of(env, text, std::string(text).size());
}

// NFKC is the JVM's; `user` is the JavaVM, as the environment belongs to a thread.
int64_t nfkc(void* user, const char* text, size_t size, char* out, size_t capacity) {
  JNIEnv* env = nullptr;
  if (static_cast<JavaVM*>(user)->GetEnv(reinterpret_cast<void**>(&env), JNI_VERSION_1_6) != JNI_OK) return -1;
  jclass cifg = env->FindClass("org/cifg/Cifg");
  jmethodID method = cifg ? env->GetStaticMethodID(cifg, "nfkc", "([B)[B") : nullptr;
  jbyteArray in = method ? array_of(env, text, size) : nullptr;
  auto done = in ? static_cast<jbyteArray>(env->CallStaticObjectMethod(cifg, method, in)) : nullptr;
  if (env->ExceptionCheck() || !done) return env->ExceptionClear(), -1;
  const std::string found = content(env, done);
  env->DeleteLocalRef(done), env->DeleteLocalRef(in), env->DeleteLocalRef(cifg);
  if (found.size() <= capacity) found.copy(out, found.size());
  return static_cast<int64_t>(found.size());
}

}  // namespace

extern "C" {

JNIEXPORT jlong JNICALL Java_org_cifg_Cifg_open(JNIEnv* env, jclass, jbyteArray model, jbyteArray vocabulary,
                                                jbyteArray manifest, jbyteArray ngram, jbyteArray tail) {
  std::string parts[5];
  const jbyteArray arrays[] = {model, vocabulary, manifest, ngram, tail};
  for (int i = 0; i < 5; ++i) parts[i] = content(env, arrays[i]);
  const auto bytes = [&](int i) { return cifg_bytes{parts[i].data(), parts[i].size()}; };
  const cifg_files files = {bytes(0), bytes(1), bytes(2), bytes(3), bytes(4)};
  char error[300] = "";
  cifg_keyboard* keyboard = cifg_open_files(&files, error, sizeof error);
  JavaVM* machine = nullptr;
  if (!keyboard) return raise(env, error), 0;
  if (env->GetJavaVM(&machine) == JNI_OK) cifg_set_nfkc(keyboard, nfkc, machine);
  return reinterpret_cast<jlong>(keyboard);
}

JNIEXPORT jbyteArray JNICALL Java_org_cifg_Cifg_strip(JNIEnv* env, jclass, jlong keyboard, jbyteArray text,
                                                      jdoubleArray probabilities) {
  const jsize count = env->GetArrayLength(probabilities);
  std::vector<cifg_suggestion> found(static_cast<size_t>(count));
  const int number = cifg_strip(of(keyboard), content(env, text).c_str(), count, found.data(), nullptr);
  if (number < 0) return raise(env, cifg_error(of(keyboard))), nullptr;
  std::string words;
  for (int i = 0; i < number; ++i) {
    words += (i ? "\n" : "") + std::string(found[i].word);
    env->SetDoubleArrayRegion(probabilities, i, 1, &found[i].probability);
  }
  return array_of(env, words.data(), words.size());
}

JNIEXPORT jbyteArray JNICALL Java_org_cifg_Cifg_tokens(JNIEnv* env, jclass, jlong keyboard, jbyteArray text) {
  return text_or_error(env, of(keyboard), cifg_tokens(of(keyboard), content(env, text).c_str()));
}

JNIEXPORT void JNICALL Java_org_cifg_Cifg_learn(JNIEnv* env, jclass, jlong keyboard, jbyteArray words) {
  if (cifg_learn(of(keyboard), content(env, words).c_str(), nullptr) < 0) raise(env, cifg_error(of(keyboard)));
}

JNIEXPORT void JNICALL Java_org_cifg_Cifg_forget(JNIEnv* env, jclass, jlong keyboard, jbyteArray word) {
  cifg_forget(of(keyboard), word ? content(env, word).c_str() : nullptr);
}

JNIEXPORT jbyteArray JNICALL Java_org_cifg_Cifg_cache(JNIEnv* env, jclass, jlong keyboard) {
  return text_or_error(env, of(keyboard), cifg_cache(of(keyboard)));
}

JNIEXPORT void JNICALL Java_org_cifg_Cifg_setCache(JNIEnv* env, jclass, jlong keyboard, jbyteArray cache) {
  const std::string bytes = content(env, cache);
  if (cifg_set_cache(of(keyboard), bytes.data(), bytes.size()) < 0) raise(env, cifg_error(of(keyboard)));
}

JNIEXPORT jfloat JNICALL Java_org_cifg_Cifg_train(JNIEnv* env, jclass, jlong keyboard, jbyteArray words,
                                                  jfloat learning_rate) {
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
}

JNIEXPORT void JNICALL Java_org_cifg_Cifg_close(JNIEnv*, jclass, jlong keyboard) { cifg_close(of(keyboard)); }
}
