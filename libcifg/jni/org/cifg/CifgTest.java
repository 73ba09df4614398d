package org.cifg;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** Run by libcifg/tests: a model, used as an app would use it; its cache's file. */
final class CifgTest {
  public static void main(String[] arguments) throws Exception {
    String stem = arguments[0].replaceFirst("[.]tflite$", "");
    byte[] model = read(stem + ".tflite"), ngram = read(stem + ".ngram");
    byte[] vocabulary = read(stem + ".vocabulary"), manifest = read(stem + ".json");
    byte[] tail = read(stem + ".tail");
    try (Cifg keyboard = new Cifg(model, vocabulary, manifest, ngram, tail)) {
      check(words(keyboard, "i am on my w").startsWith("way "), "a strip");
      check(keyboard.strip("see you ", 3)[0].probability() > 0.01, "its probability");
      check(keyboard.strip("see you ", 0).length == 0, "no words");
      check(keyboard.strip("see you ", -1).length == 0, "fewer than none");
      String[] tokens = keyboard.tokens("cafe\u0301 \ufb01ne \ud83d\ude02 IT\u2019S");
      check(Arrays.equals(tokens, new String[] {"caf\u00e9", "fine", "\ud83d\ude02", "it's"}), "tokens");
      byte[] fresh = keyboard.cache();
      check(!words(keyboard, "see you at jo").contains("johann's"), "nothing learnt yet");
      for (int i = 0; i < 2; ++i) keyboard.learn("See you at Johann\u2019s");
      check(words(keyboard, "see you at jo").startsWith("johann's"), "a word that was learnt");
      for (int i = 0; i < 2; ++i) keyboard.learn("my zhqvx_2 pin. Xyzzq");
      check(!words(keyboard, "zhq").contains("zhqvx"), "what stands with a digit is not learnt");
      check(words(keyboard, "xyz").startsWith("xyzzq "), "what stands in another sentence is");
      byte[] learnt = keyboard.cache();
      Files.write(Path.of(arguments[1]), learnt);
      keyboard.forget("Johann\u2019s ");
      check(!words(keyboard, "see you at jo").contains("johann's"), "a word that was forgotten");
      keyboard.setCache(learnt);
      check(Arrays.equals(learnt, keyboard.cache()), "the cache comes back");
      keyboard.forget(null);
      check(Arrays.equals(fresh, keyboard.cache()), "all is forgotten");
      check(fails(() -> keyboard.train("see you", 0.5f)), "this model is not trainable");
      check(fails(() -> keyboard.setCache(new byte[] {1})), "a damaged cache");
    }
    check(fails(() -> new Cifg(vocabulary, vocabulary, manifest, ngram, tail)), "a damaged model");
    for (int i = 0; i < 20; ++i) closeInUse(new Cifg(model, vocabulary, manifest, ngram, tail));
    System.out.println("all right");
  }

  /** As an app whose service ends while other threads still ask for words. */
  private static void closeInUse(Cifg keyboard) throws Exception {
    List<Throwable> thrown = Collections.synchronizedList(new ArrayList<>());
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < 4; ++i) {
      String text = "see you at the station and then number " + i + " is ";
      Thread thread =
          new Thread(
              () -> {
                while (true) words(keyboard, text);
              });
      thread.setUncaughtExceptionHandler((which, error) -> thrown.add(error));
      threads.add(thread);
    }
    threads.add(new Thread(keyboard::close));
    for (Thread thread : threads) thread.start();
    keyboard.close();
    for (Thread thread : threads) thread.join();
    check(thrown.size() == 4, "threads that used it when it was closed");
    for (Throwable error : thrown) check(error instanceof IllegalStateException, "what they got");
  }

  private static byte[] read(String name) throws Exception {
    return Files.readAllBytes(Path.of(name));
  }

  private static String words(Cifg keyboard, String text) {
    StringBuilder words = new StringBuilder();
    for (Cifg.Suggestion found : keyboard.strip(text, 3)) words.append(found.word()).append(' ');
    return words.toString();
  }

  private static boolean fails(Runnable work) {
    try {
      work.run();
    } catch (IllegalArgumentException error) {
      return !error.getMessage().isEmpty();
    }
    return false;
  }

  private static void check(boolean is, String what) {
    if (!is) throw new AssertionError(what);
  }
}
