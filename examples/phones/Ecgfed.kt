package org.ecgfed

import java.io.Closeable

/** Why a window is of poor quality, in the order of the bits. */
val REASONS = listOf("gap", "flat", "rail", "spike", "noise", "baseline")

/**
 * A beat, given twice: as it is classified (`watched` false), and within 13 s of its R peak with what the monitor says.
 *
 * sample: of the R peak. name: its class, or "unclassified". isUncertain: do not count on the class. isUnlike: unlike any
 * training beat. poor: why the signal is poor. paced: probability that it follows a pacing spike, or null.
 */
data class Beat(
    val sample: Long,
    val watched: Boolean,
    val name: String,
    val probability: Float,
    val isUncertain: Boolean,
    val isUnlike: Boolean,
    val poor: List<String>,
    val paced: Float?
)

/** Classifies one lead while it is recorded. Research use only, not for diagnosis. Use it from one thread. */
class Ecgfed(railMv: Float = 0f) : Closeable {
    private var phone = EcgfedNative.create(railMv)

    init {
        check(phone != 0L) { "no memory" }
    }

    /** Samples a second that `push` expects. */
    val rate: Int get() = EcgfedNative.rate()

    /** The counts so far, as bytes for a server or a file (docs/microcontroller.md). */
    val counters: ByteArray get() = EcgfedNative.counters(open())

    /** Take samples in millivolt, NaN where none was recorded; return the beats that have become known. */
    fun push(samplesMv: FloatArray): List<Beat> {
        EcgfedNative.push(open(), samplesMv)
        return beats()
    }

    /** End the recording and return its last beats. */
    fun finish(): List<Beat> {
        EcgfedNative.finish(open())
        return beats()
    }

    override fun close() {
        EcgfedNative.destroy(phone)
        phone = 0L
    }

    private fun open(): Long = phone.also { check(it != 0L) { "closed" } }

    private fun beats(): List<Beat> = generateSequence { EcgfedNative.next(phone) }.map { row ->
        val reasons = row[7].toInt()
        Beat(
            sample = row[0].toLong(),
            watched = row[1] != 0.0,
            name = EcgfedNative.className(row[2].toInt()),
            probability = row[3].toFloat(),
            isUncertain = row[4] != 0.0,
            isUnlike = row[5] != 0.0,
            poor = REASONS.filterIndexed { bit, _ -> reasons shr bit and 1 != 0 },
            paced = row[8].toFloat().takeIf { it >= 0 }
        )
    }.toList()
}
