// What a Kotlin keyboard does with org.cifg.Cifg. CifgTest.java makes the same calls and is run by
// the tests; this text was not compiled.
package org.cifg

import android.content.Context
import java.io.File

class Strip(context: Context) : AutoCloseable {
    private val file = File(context.filesDir, "words.cache") // only the app can read it
    private val keyboard: Cifg

    init {
        fun asset(name: String) = context.assets.open(name).use { it.readBytes() }
        keyboard = Cifg(
            asset("keyboard.tflite"), asset("keyboard.vocabulary"), asset("keyboard.json"),
            asset("keyboard.ngram"), asset("keyboard.tail"),
        )
        if (file.exists()) runCatching { keyboard.setCache(file.readBytes()) }
    }

    /** After each key: the best three words, the best one to be shown in the centre. */
    fun words(beforeCursor: String): List<String> =
        keyboard.strip(beforeCursor, 3).map { it.word }

    /** When a message is sent; not in password fields, nor where the field says not to learn. */
    fun sent(message: String) {
        keyboard.learn(message)
        file.writeBytes(keyboard.cache())
    }

    override fun close() = keyboard.close()
}
