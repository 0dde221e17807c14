package org.ecgfed

/** Millivolts from standard input, one a line; a line for each beat, first classified, then watched; last the counts. */
fun main() {
    Ecgfed(railMv = 5.115f).use { ecgfed ->
        val print = { beat: Beat ->
            val words = listOf(beat.sample, beat.watched, beat.name, beat.isUncertain, beat.isUnlike, beat.poor.joinToString("+"), beat.paced)
            println(words.joinToString(","))
        }
        generateSequence(::readLine).chunked(ecgfed.rate).forEach { lines ->
            ecgfed.push(FloatArray(lines.size) { lines[it].toFloatOrNull() ?: Float.NaN }).forEach(print)
        }
        ecgfed.finish().forEach(print)
        println(ecgfed.counters.joinToString("") { "%02x".format(it) })
    }
}
