import PrimusWire
import RealtimeCoding
import RealtimeCore

/// Decodes arbitrary bytes as a packet. The first byte chooses the parser.
///
/// Decoding must not crash, a decoded value must be the same after encoding and decoding, and recognizing messages of Primus must agree with
/// decoding.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzPrimusParsers(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    guard count >= 1, let start else { return 0 }
    let coding: PrimusCoding = [.json, .ejson, .messagePack, .binary][Int(start[0] & 3)]
    let bytes = Array(UnsafeBufferPointer(start: start + 1, count: count - 1))
    let kind = coding.messageKind ?? .binary
    // A text message of a WebSocket is valid UTF-8.
    if kind == .text, String(validating: bytes, as: UTF8.self) == nil { return 0 }
    let packet = TransportMessage(kind, bytes)

    let message = bytes.withUnsafeBytes { PrimusProtocolMessage($0, kind, coding) }
    _ = try? PrimusSpec(parsing: bytes)
    _ = try? coding.decode(Sample.self, of: packet)
    guard let value = try? coding.value(of: packet, limits: CodingLimits(depth: 64)) else {
        precondition(message == nil, "a message of Primus that can't be decoded")
        return 0
    }
    precondition(message == value.string.flatMap { PrimusProtocolMessage(text: $0) }, "a message of Primus isn't recognized")

    // Some values have no form in another packet: infinite numbers that JSON writes as large ones, and dates beyond the range of JavaScript.
    guard let again = try? coding.message(value, sendsBytes: false), let decoded = try? coding.value(of: again) else { return 0 }
    precondition(same(decoded, value), "a value changes")
    _ = try? value.decode(as: Sample.self)
    return 0
}

/// Whether two values are equal, where a number that isn't one equals itself.
private func same(_ lhs: PrimusValue, _ rhs: PrimusValue) -> Bool {
    switch (lhs, rhs) {
    case (.double(let lhs), .double(let rhs)): lhs == rhs || lhs.isNaN && rhs.isNaN
    // The precision of the number that a parser writes.
    case (.int(let lhs), .double(let rhs)): Double(lhs) == rhs
    case (.double(let lhs), .int(let rhs)): lhs == Double(rhs)
    case (.int(let lhs), .int(let rhs)): lhs == rhs || Double(lhs) == Double(rhs)
    case (.date(let lhs), .date(let rhs)): abs(lhs.milliseconds - rhs.milliseconds) < 1 || lhs.milliseconds.isNaN
    case (.array(let lhs), .array(let rhs)): lhs.count == rhs.count && zip(lhs, rhs).allSatisfy { same($0, $1) }
    case (.object(let lhs), .object(let rhs)):
        lhs.count == rhs.count && zip(lhs.members, rhs.members).allSatisfy { $0.key == $1.key && same($0.value, $1.value) }
    case (.typed(let name, let lhs), .typed(let other, let rhs)): name == other && same(lhs, rhs)
    default: lhs == rhs
    }
}

/// A type whose decoding reads values of all kinds.
private struct Sample: Codable {
    var name: String?
    var at: PrimusDate?
    var bytes: [UInt8]?
    var any: PrimusValue?
    var nested: [String: [Sample]]?
}
