import Foundation
import RealtimeCore

/// A generator of small documents with many edge cases.
struct JSONRandom {
    var random: SplitMix64

    init(seed: UInt64) {
        self.random = SplitMix64(seed: seed)
    }

    mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self.random) < percent }

    mutating func pick<Element>(_ elements: [Element]) -> Element {
        elements[Int.random(in: 0..<elements.count, using: &self.random)]
    }

    mutating func space() -> String {
        self.chance(85) ? "" : self.pick([" ", "\n", "\t", "\r\n", "  "])
    }

    mutating func number() -> String {
        switch Int.random(in: 0..<8, using: &self.random) {
        case 0, 1: return "\(Int.random(in: -100...100, using: &self.random))"
        case 2: return "\(Int64(bitPattern: self.random.next()))"
        case 3: return "\(self.random.next())"
        case 4: return "\(Double.random(in: -1000...1000, using: &self.random))"
        case 5:
            let double = Double(bitPattern: self.random.next())
            return double.isFinite ? "\(double)" : "0"
        case 6:
            return self.pick([
                "0", "-0", "0.0", "-0.0", "1e5", "1E+5", "1e-5", "0e10", "1.0", "1.10", "100e-2", "123456789012345678901234567890", "0.1e1",
            ])
        default:
            let digits = String((0..<Int.random(in: 1...25, using: &self.random)).map { _ in self.pick(Array("0123456789")) })
            return "\(Int.random(in: 0...9, using: &self.random)).\(digits)e\(Int.random(in: -30...30, using: &self.random))"
        }
    }

    mutating func string(surrogates: Bool = false) -> String {
        var text = "\""
        for _ in 0..<(self.chance(20) ? Int.random(in: 0...30, using: &self.random) : Int.random(in: 0...6, using: &self.random)) {
            switch Int.random(in: 0..<10, using: &self.random) {
            case 0: text += self.pick([#"\n"#, #"\t"#, #"\""#, #"\\"#, #"\/"#, #"\b"#, #"\f"#, #"\r"#])
            case 1: text += self.pick([#"\u0041"#, #"\u00e9"#, #"\u20AC"#, #"\ud83d\ude00"#, #"\u0000"#, #"\uFFFD"#, #"\u001f"#])
            case 2: text += self.pick(["é", "日", "😀", "\u{7F}", "\u{80}", "\u{FFFF}", "\u{10FFFF}", "\u{301}"])
            case 3: text += self.pick([" ", "'", "{", "[", ":", ",", "/", "}"])
            default: text += self.pick(["a", "b", "c", "x", "0", "_", "Z"])
            }
        }
        return text + "\""
    }

    mutating func document(depth: Int = 3) -> String {
        let space = self.space()
        switch Int.random(in: 0..<(depth > 0 ? 10 : 6), using: &self.random) {
        case 0: return space + self.pick(["null", "true", "false"]) + self.space()
        case 1, 2: return space + self.number() + self.space()
        case 3, 4, 5: return space + self.string() + self.space()
        case 6, 7:
            let elements = (0..<Int.random(in: 0...3, using: &self.random)).map { _ in self.document(depth: depth - 1) }
            return space + "[" + elements.joined(separator: ",") + (elements.isEmpty ? self.space() : "") + "]"
        default:
            let members = (0..<Int.random(in: 0...3, using: &self.random)).map { index in
                // The keys are unique, because the two parsers differ in which value of a repeated key they use.
                self.space() + "\"\(index)" + self.string().dropFirst() + self.space() + ":" + self.document(depth: depth - 1)
            }
            return space + "{" + members.joined(separator: ",") + (members.isEmpty ? self.space() : "") + "}"
        }
    }

    /// The document with one or two bytes changed, added, or removed.
    mutating func mutated(_ document: String) -> [UInt8] {
        var bytes = Array(document.utf8)
        for _ in 0...(self.chance(30) ? 1 : 0) {
            let position = Int.random(in: 0...bytes.count, using: &self.random)
            let byte =
                self.chance(80) ? self.pick(Array(#"{}[]":,\u0123eE+-.truefalsn "#.utf8)) : UInt8(truncatingIfNeeded: self.random.next())
            switch Int.random(in: 0..<3, using: &self.random) {
            case 0: bytes.insert(byte, at: position)
            case 1: if position < bytes.count { bytes[position] = byte }
            default: if position < bytes.count { bytes.remove(at: position) }
            }
        }
        return bytes
    }
}
