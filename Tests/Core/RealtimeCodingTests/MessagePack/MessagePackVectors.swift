import Foundation
import TestSupport

/// A value with the bytes that another implementation writes for it.
struct MessagePackVector {
    var kind: String
    var text: String
    var bytes: [UInt8]

    /// The lines of a file in Tests/Vectors/messagepack.
    static func read(_ name: String) throws -> [MessagePackVector] {
        let content = String(decoding: try Data(contentsOf: URL(fileURLWithPath: Vectors.path("messagepack/\(name).txt"))), as: UTF8.self)
        return content.split(separator: "\n").map { line in
            let fields = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
            return MessagePackVector(kind: fields[0], text: fields[1], bytes: Self.bytes(fields[2]))
        }
    }

    /// Bytes in hexadecimal. `61*32` means 32 bytes of 61.
    static func bytes(_ text: String) -> [UInt8] {
        text.split(separator: " ").flatMap { part -> [UInt8] in
            let factors = part.split(separator: "*")
            let digits = Array(factors[0].utf8)
            let bytes = stride(from: 0, to: digits.count, by: 2).map {
                UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16) ?? 0
            }
            return factors.count == 1 ? bytes : Array(repeating: bytes[0], count: Int(factors[1]) ?? 0)
        }
    }

    /// The element and the number of a description such as `a*32`.
    var count: Int { Int(self.text.split(separator: "*").last ?? "") ?? 0 }

    /// The seconds and nanoseconds of a description such as `-1.999999999`: the sign is that of the seconds, and the fraction counts upwards.
    var timestamp: (seconds: Int64, nanoseconds: UInt32) {
        let parts = self.text.split(separator: ".")
        return (Int64(parts[0]) ?? 0, UInt32(parts[1]) ?? 0)
    }
}
