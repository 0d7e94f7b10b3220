import RealtimeCore
import RealtimeSystem

/// The requests of one side that wait for a response.
///
/// The IDs have the form of a random UUID, as those of primus-responder. Their last twelve digits count the requests, so that a response is
/// found by its number.
///
/// - `Call` identifies who waits.
package struct ResponderCalls<Call: Sendable>: Sendable {
    private var calls = SequentialTable<Call>()
    private var lastNumber: UInt64 = 0
    /// The first 24 characters of each ID.
    private let prefix: String

    private static var countDigits: Int { 12 }

    /// - Parameter random: Makes the IDs of different connections different.
    package init(_ random: inout some RandomNumberGenerator) {
        // Version 4, variant 1.
        let high = random.next() & 0xFFFF_FFFF_FFFF_0FFF | 0x4000
        let low = random.next() & 0x3FFF | 0x8000
        let digits = Self.hexadecimal(high, 16) + Self.hexadecimal(low, 4)
        var prefix = ""
        for (index, digit) in digits.enumerated() {
            if index == 8 || index == 12 || index == 16 { prefix.append("-") }
            prefix.append(digit)
        }
        self.prefix = prefix + "-"
    }

    private static func hexadecimal(_ value: UInt64, _ count: Int) -> String {
        let digits = String(value, radix: 16)
        return String(repeating: "0", count: max(0, count - digits.utf8.count)) + digits
    }

    package var count: Int { self.calls.count }
    package var isEmpty: Bool { self.calls.isEmpty }

    /// Determines the number of the next request.
    package mutating func nextNumber() -> UInt64 {
        self.lastNumber += 1
        return self.lastNumber
    }

    /// The ID of a request.
    package func id(_ number: UInt64) -> String { self.prefix + Self.hexadecimal(number, Self.countDigits) }

    /// Begins to wait for a response.
    ///
    /// - Parameters:
    ///   - number: The number of the request, from ``nextNumber()``.
    ///   - call: Who waits.
    package mutating func begin(_ number: UInt64, _ call: Call) { self.calls[number] = call }

    /// Ends a wait because the caller has given up.
    package mutating func end(_ number: UInt64) -> Call? { self.calls.take(number) }

    /// Ends a wait with a response of the peer.
    ///
    /// - Throws: ``PrimusPluginError/unknown(plugin:_:)`` if no caller waits for the ID, such as after a second response.
    package mutating func responded(_ id: String) throws(PrimusPluginError) -> Call {
        if let digits = String(id.utf8.suffix(Self.countDigits)), let number = UInt64(digits, radix: 16),
            ByteString(self.id(number)) == ByteString(id), let call = self.calls.take(number)
        {
            return call
        }
        throw .unknown(plugin: "responder", "no caller waits for the response \(Excerpt.of(id, limit: 64))")
    }

    /// Ends all waits, for example because the connection was lost.
    ///
    /// - Returns: Who waits, in the order of the requests.
    package mutating func endAll() -> [Call] {
        guard !self.calls.isEmpty else { return [] }
        defer { self.calls = SequentialTable() }
        return self.calls.entries.map(\.value)
    }
}
