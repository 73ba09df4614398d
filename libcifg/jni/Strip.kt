// What a Kotlin keyboard does with org.cifg.Cifg. CifgTest.java makes the same calls and is run by
// the tests; this text was not compiled.
package org.cifg

import android.content.Context
import android.util.AtomicFile
import java.io.File
import java.io.IOException

class Strip(context: Context) : AutoCloseable {
    // Only the app can read it; a kill while it is written leaves the old one.
    private val file = AtomicFile(File(context.filesDir, "words.cache"))
    private val keyboard: Cifg

    init {
        fun asset(name: String) = context.assets.open(name).use { it.readBytes() }
        keyboard = Cifg(
            asset("keyboard.tflite"), asset("keyboard.vocabulary"), asset("keyboard.json"),
            asset("keyboard.ngram"), asset("keyboard.tail"),
        )
        runCatching { keyboard.setCache(file.readFully()) } // none yet, or a damaged one
    }

    /** After each key: the best three words, the best one to be shown in the centre. */
    fun words(beforeCursor: String): List<String> =
        keyboard.strip(beforeCursor, 3).map { it.word }

    /** When a message is sent; not in password fields, nor where the field says not to learn. */
    fun sent(message: String) {
        keyboard.learn(message)
        val stream = file.startWrite()
        try {
            stream.write(keyboard.cache())
            file.finishWrite(stream)
        } catch (error: IOException) {
            file.failWrite(stream)
            throw error
        }
    }

    override fun close() = keyboard.close()
}
