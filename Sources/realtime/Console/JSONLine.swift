/// Writes the one flat object of an output line.
struct JSONLine {
    private var bytes: [UInt8] = []

    mutating func add(_ name: String, _ value: Line.Value) {
        self.bytes.append(UInt8(ascii: self.bytes.isEmpty ? "{" : ","))
        self.append(name)
        self.bytes.append(UInt8(ascii: ":"))
        switch value {
        case .string(let text): self.append(text)
        case .integer(let number): self.bytes += Array(String(number).utf8)
        case .number(let number): self.bytes += Array((number.isFinite ? "\(number)" : "null").utf8)
        case .bool(let flag): self.bytes += Array((flag ? "true" : "false").utf8)
        case .strings(let texts):
            self.bytes.append(UInt8(ascii: "["))
            for (index, text) in texts.enumerated() {
                if index > 0 { self.bytes.append(UInt8(ascii: ",")) }
                self.append(text)
            }
            self.bytes.append(UInt8(ascii: "]"))
        }
    }

    /// The object and a line feed.
    var finished: [UInt8] { (self.bytes.isEmpty ? [UInt8(ascii: "{")] : self.bytes) + [UInt8(ascii: "}"), UInt8(ascii: "\n")] }

    private mutating func append(_ text: String) {
        self.bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): self.bytes += [UInt8(ascii: "\\"), byte]
            case 0x0A: self.bytes += [UInt8(ascii: "\\"), UInt8(ascii: "n")]
            case 0x0D: self.bytes += [UInt8(ascii: "\\"), UInt8(ascii: "r")]
            case 0x09: self.bytes += [UInt8(ascii: "\\"), UInt8(ascii: "t")]
            case 0..<0x20:
                let digits = String(byte, radix: 16)
                self.bytes += Array(("\\u" + String(repeating: "0", count: 4 - digits.count) + digits).utf8)
            default: self.bytes.append(byte)
            }
        }
        self.bytes.append(UInt8(ascii: "\""))
    }
}
