import CEcgfed

/// Classifies one lead while it is recorded. Research use only, not for diagnosis. Use it from one thread.
public final class Ecgfed {
    /// Why a window is of poor quality, in the order of the bits.
    public static let reasons = ["gap", "flat", "rail", "spike", "noise", "baseline"]

    /// A beat, given twice: as it is classified, and within 13 s of its R peak with what the monitor says (`watched`).
    public struct Beat {
        /// Sample number of the R peak.
        public let sample: Int64
        public let watched: Bool
        /// Its class, or "unclassified".
        public let name: String
        public let probability: Float
        /// Do not count on the class.
        public let isUncertain: Bool
        /// Unlike any training beat.
        public let isUnlike: Bool
        /// Why the signal is poor.
        public let poor: [String]
        /// Probability that it follows a pacing spike, if assessed.
        public let paced: Float?
    }

    private let phone: OpaquePointer

    /// - Parameter railMv: the converter's limit in millivolt, 0 if unknown.
    public init?(railMv: Float = 0) {
        guard let phone = ecgfed_phone_create(railMv) else { return nil }
        self.phone = phone
    }

    deinit {
        ecgfed_phone_destroy(phone)
    }

    /// Samples a second that `push` expects.
    public var rate: Int { Int(ecgfed_phone_rate()) }

    /// The counts so far, as bytes for a server or a file (docs/microcontroller.md).
    public var counters: [UInt8] {
        var bytes = [UInt8](repeating: 0, count: ecgfed_phone_counters_bytes())
        ecgfed_phone_counters(phone, &bytes)
        return bytes
    }

    /// Take samples in millivolt, NaN where none was recorded; return the beats that have become known.
    public func push(_ samplesMv: [Float]) -> [Beat] {
        ecgfed_phone_push(phone, samplesMv, samplesMv.count)
        return beats()
    }

    /// End the recording and return its last beats.
    public func finish() -> [Beat] {
        ecgfed_phone_finish(phone)
        return beats()
    }

    private func beats() -> [Beat] {
        var given: [Beat] = []
        var beat = ecgfed_phone_beat()
        while ecgfed_phone_next(phone, &beat) != 0 {
            let bits = beat.reasons
            given.append(
                Beat(
                    sample: beat.sample,
                    watched: beat.watched != 0,
                    name: String(cString: ecgfed_phone_class(beat.label)),
                    probability: beat.probability,
                    isUncertain: beat.uncertain != 0,
                    isUnlike: beat.far != 0,
                    poor: Ecgfed.reasons.enumerated().filter { bits >> $0.offset & 1 != 0 }.map { $0.element },
                    paced: beat.paced >= 0 ? beat.paced : nil
                ))
        }
        return given
    }
}
