package org.cifg;

import java.nio.charset.StandardCharsets;
import java.text.Normalizer;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * An export of tff-keyboard as a keyboard; a thin layer over cifg.h, which explains each call.
 *
 * <p>Several threads may use it. Their calls take turns, also with `close`: a later call throws an
 * IllegalStateException.
 */
public final class Cifg implements AutoCloseable {
  /** A word, and its probability behind the context. */
  public record Suggestion(String word, double probability) {}

  static {
    System.loadLibrary("cifg_jni");
  }

  // As tff_keyboard_app/keyboard/sentences.py and predictors/hybrid/word_cache.py of tff-keyboard.
  private static final Pattern SENTENCE_END =
      Pattern.compile(
          "\n|(?:(?<![.!?\u2026])\\.|(?<!\\.)[!?]+(?!\\.))[\"'\u2019\u201d)\\]]*"
              + "[\\s\u0085\\p{Z}]");
  private static final Pattern WHITE_SPACE = Pattern.compile("[\\s\u0085\\p{Z}]+");
  private static final Pattern DIGIT = Pattern.compile("\\p{N}");

  private long keyboard;

  /** Opens the contents of an export's files; `ngram` and `tail` may be null. */
  public Cifg(byte[] model, byte[] vocabulary, byte[] manifest, byte[] ngram, byte[] tail) {
    keyboard = open(model, vocabulary, manifest, ngram, tail);
  }

  /** The best `count` words for text before the cursor, best first; none for a count below one. */
  public synchronized Suggestion[] strip(String text, int count) {
    double[] probabilities = new double[Math.max(count, 0)];
    String words = text(strip(held(), utf8(text), probabilities));
    String[] found = words.isEmpty() ? new String[0] : words.split("\n");
    Suggestion[] suggestions = new Suggestion[found.length];
    for (int i = 0; i < found.length; ++i) {
      suggestions[i] = new Suggestion(found[i], probabilities[i]);
    }
    return suggestions;
  }

  /** Words of a text, normalised. */
  public synchronized String[] tokens(String text) {
    String words = text(tokens(held(), utf8(text)));
    return words.isEmpty() ? new String[0] : words.split("\n");
  }

  /** Learns a message that can no longer be taken back; never one of a field for passwords. */
  public synchronized void learn(String message) {
    for (String sentence : SENTENCE_END.split(message)) {
      List<String> words = new ArrayList<>();
      for (String run : WHITE_SPACE.split(sentence)) {
        boolean hasDigit = DIGIT.matcher(run).find(); // what is glued to one is a gap
        for (String word : tokens(run)) words.add(hasDigit ? "" : word);
      }
      if (!words.isEmpty()) learn(held(), utf8(String.join("\n", words)));
    }
  }

  /** As if a word, as shown or typed, had never been typed; all words for null. */
  public synchronized void forget(String word) {
    if (word == null) forget(held(), null);
    else for (String token : tokens(word)) forget(held(), utf8(token));
  }

  /** The owner's words, to be kept in a file that only the app can read. */
  public synchronized byte[] cache() {
    return cache(held());
  }

  public synchronized void setCache(byte[] cache) {
    setCache(held(), cache);
  }

  /** One step of SGD on a message, of an export with --trainable; the loss before it. */
  public synchronized float train(String message, float learningRate) {
    return train(held(), utf8(String.join("\n", tokens(message))), learningRate);
  }

  @Override
  public synchronized void close() {
    if (keyboard != 0) close(keyboard);
    keyboard = 0;
  }

  private long held() {
    if (keyboard == 0) throw new IllegalStateException("the keyboard is closed");
    return keyboard;
  }

  // Java's own "modified UTF-8" knows no emoji, so bytes are exchanged, which end with a zero.
  private static byte[] utf8(String text) {
    return (text.replace('\0', ' ') + "\0").getBytes(StandardCharsets.UTF_8);
  }

  private static String text(byte[] utf8) {
    return new String(utf8, StandardCharsets.UTF_8);
  }

  /** Called by the library for text that is not ASCII: a shrinker must keep it. */
  static byte[] nfkc(byte[] utf8) {
    return Normalizer.normalize(text(utf8), Normalizer.Form.NFKC).getBytes(StandardCharsets.UTF_8);
  }

  private static native long open(
      byte[] model, byte[] vocabulary, byte[] manifest, byte[] ngram, byte[] tail);

  private static native byte[] strip(long keyboard, byte[] text, double[] probabilities);

  private static native byte[] tokens(long keyboard, byte[] text);

  private static native void learn(long keyboard, byte[] words);

  private static native void forget(long keyboard, byte[] word);

  private static native byte[] cache(long keyboard);

  private static native void setCache(long keyboard, byte[] cache);

  private static native float train(long keyboard, byte[] words, float learningRate);

  private static native void close(long keyboard);
}
