import TestSupport
import Testing

@testable import RealtimeCoding

/// Readers of bytes that are not, or only partly, MessagePack, and the reader of messages.
@Suite(.computes, .serialized) struct MessagePackReaderTests {
    private func error(_ bytes: [UInt8], limits: CodingLimits = CodingLimits()) -> MessagePackError? {
        var error: MessagePackError?
        do throws(MessagePackError) { _ = try MessagePackValue(parsing: bytes, limits: limits) } catch let thrown { error = thrown }
        return error
    }

    private func skipError(_ bytes: [UInt8]) -> MessagePackError? {
        bytes.withUnsafeBytes { bytes in
            var reader = MessagePackReader(bytes)
            do throws(MessagePackError) {
                try reader.skip()
                try reader.finish()
                return nil
            } catch {
                return error
            }
        }
    }

    /// A value of each format byte, with data of zeros.
    private func value(_ format: UInt8) -> [UInt8] {
        let size: Int =
            switch format {
            case 0x80...0x8F: 2 * Int(format & 0x0F)
            case 0x90...0x9F: Int(format & 0x0F)
            case 0xA0...0xBF: Int(format & 0x1F)
            case 0xC4, 0xCC, 0xD0, 0xD9: 1
            case 0xC5, 0xC7, 0xCD, 0xD1, 0xD4, 0xDA, 0xDC, 0xDE: 2
            case 0xC8, 0xD5: 3
            case 0xC6, 0xCA, 0xCE, 0xD2, 0xDB, 0xDD, 0xDF: 4
            case 0xC9, 0xD6: 5
            case 0xCB, 0xCF, 0xD3: 8
            case 0xD7: 9
            case 0xD8: 17
            default: 0
            }
        return [format] + [UInt8](repeating: 0, count: size)
    }

    @Test func `each format byte has its length`() throws {
        for format in UInt8.min...UInt8.max where format != 0xC1 {
            let bytes = self.value(format)
            expectNil(self.error(bytes), "\(format)")
            expectNil(self.skipError(bytes), "\(format)")
            expectEqual(self.error(bytes + [0]), MessagePackError(.trailingContent, at: bytes.count), "\(format)")
            for count in 0..<bytes.count {
                expectEqual(self.error(Array(bytes[..<count]))?.code, .unexpectedEnd, "\(format)")
                expectEqual(self.skipError(Array(bytes[..<count]))?.code, .unexpectedEnd, "\(format)")
            }
        }
        expectEqual(self.error([0xC1]), MessagePackError(.invalidFormat, at: 0))
        expectEqual(self.error([0x92, 0xC0, 0xC1]), MessagePackError(.invalidFormat, at: 2))
        expectEqual(self.skipError([0x92, 0xC0, 0xC1]), MessagePackError(.invalidFormat, at: 2))
    }

    @Test func `a document that is cut at any byte is incomplete`() throws {
        for vector in try MessagePackVector.read("python-msgpack-1.2.4") where vector.kind == "document" {
            for count in 0..<vector.bytes.count {
                let bytes = Array(vector.bytes[..<count])
                expectEqual(self.error(bytes)?.code, .unexpectedEnd, "\(vector.text): \(count)")
                expectEqual(self.skipError(bytes)?.code, .unexpectedEnd, "\(vector.text): \(count)")
            }
        }
    }

    @Test(arguments: ["dd", "df", "db", "c6"])
    func `a length beyond the end is rejected without reserving memory`(_ format: String) {
        for length in ["ffffffff", "80000000", "00000010"] {
            let bytes = MessagePackVector.bytes(format + length + "c0c0")
            expectEqual(self.error(bytes), MessagePackError(.unexpectedEnd, at: 0))
            expectEqual(self.skipError(bytes), MessagePackError(.unexpectedEnd, at: 0))
        }
        expectEqual(self.error(MessagePackVector.bytes("c9ffffffff01")), MessagePackError(.unexpectedEnd, at: 0))
        // Within an array, the offset is that of the value.
        expectEqual(self.error(MessagePackVector.bytes("92c0" + format + "ffffffff")), MessagePackError(.unexpectedEnd, at: 2))
    }

    @Test func `nested arrays that announce more elements than there are bytes are rejected`() {
        // Each of the headers is plausible on its own.
        let bytes = MessagePackVector.bytes("9f9f9f9f9f9f9f9fc0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0")
        expectEqual(self.error(bytes)?.code, .unexpectedEnd)
        expectEqual(self.skipError(bytes)?.code, .unexpectedEnd)
    }

    @Test func `depth is limited`() throws {
        func nested(_ depth: Int, _ header: [UInt8] = [0x91]) -> [UInt8] {
            Array(repeatElement(header, count: depth).joined()) + [0xC0]
        }
        expectNil(self.error(nested(512)))
        expectEqual(self.error(nested(513)), MessagePackError(.tooDeep, at: 512))
        // A key can be nested as well as a value.
        expectNil(self.error(nested(512, [0x81, 0xA0])))
        expectEqual(self.error(nested(513, [0x81, 0xA0])), MessagePackError(.tooDeep, at: 1024))
        expectEqual(self.error(Array(repeating: 0x81, count: 600) + Array(repeating: 0xC0, count: 601))?.code, .tooDeep)
        expectEqual(self.error([0x90], limits: CodingLimits(depth: 0)), MessagePackError(.tooDeep, at: 0))
        expectNil(self.error([0xC0], limits: CodingLimits(depth: 0)))
        // Skipping takes no stack, whatever the depth.
        expectNil(self.skipError(nested(1_000_000)))
        expectEqual(self.error(nested(1_000_000))?.code, .tooDeep)
    }

    @Test func `size is limited`() {
        expectNil(self.error([0x92, 1, 2], limits: CodingLimits(size: 3)))
        expectEqual(self.error([0x92, 1, 2], limits: CodingLimits(size: 2)), MessagePackError(.tooLarge, at: 2))
    }

    @Test func `invalid UTF-8 is replaced or rejected`() throws {
        let bytes: [UInt8] = [0x92, 0xA1, 0x61, 0xA2, 0x62, 0xFF]
        try expectEqual(MessagePackDecoder().decode([String].self, from: bytes), ["a", "b\u{FFFD}"])
        var strict = MessagePackDecoder()
        strict.rejectsInvalidUTF8 = true
        #expect(throws: MessagePackError(.invalidUTF8, at: 3)) { try strict.decode([String].self, from: bytes) }
        try expectEqual(strict.decode([String].self, from: [0x91, 0xA2, 0xC3, 0xA9]), ["é"])
        for (text, isValid) in [("c3", false), ("e282ac", true), ("e282", false), ("eda080", false), ("f09f9880", true), ("c080", false)] {
            let long = MessagePackVector.bytes("6161616161616161" + text)
            expectEqual(long.withUnsafeBytes { ByteWords.isUTF8($0) }, isValid, "\(text)")
        }
    }

    @Test func `the parts of a message are read one after the other`() throws {
        // An invocation of SignalR with the arguments 42 and ["é"].
        let bytes = MessagePackVector.bytes("96 01 80 c0 a6 6d6574686f64 92 2a 91 a2 c3a9 90")
        try bytes.withUnsafeBytes { bytes in
            var reader = MessagePackReader(bytes)
            try expectEqual(reader.arrayHeader(), 6)
            try expectEqual(reader.integer(), 1)
            try expectEqual(reader.mapHeader(), 0)
            try expectNil(reader.stringOrNil())
            try expectEqual(reader.stringOrNil(), "method")
            let arguments = try reader.skip()
            expectEqual(arguments, 11..<17)
            expect(!reader.isAtEnd)
            #expect(throws: MessagePackError(.trailingContent, at: 17)) { try reader.finish() }
            try expectEqual(reader.arrayHeader(), 0)
            expect(reader.isAtEnd)
            try reader.finish()
            var inner = MessagePackReader(bytes, in: arguments)
            try expectEqual(inner.arrayHeader(), 2)
            try expectEqual(inner.skip(), 12..<13)
            try expectEqual(inner.skip(), 13..<17)
            try inner.finish()
        }
        try expectEqual(MessagePackDecoder().decode([String].self, from: bytes[13..<17]), ["é"])
        try expectEqual(MessagePackDecoder().decode(Int.self, from: bytes[12..<13]), 42)
        #expect(throws: MessagePackError.self) { try MessagePackDecoder().decode(Int.self, from: bytes[12..<17]) }
    }

    @Test func `a value of another type is unexpected`() {
        let bytes: [UInt8] = [0xC3, 0xC0, 0xCF, 0xFF, 0, 0, 0, 0, 0, 0, 0]
        bytes.withUnsafeBytes { bytes in
            func check<Value>(_ start: Int, _ read: (inout MessagePackReader) throws -> Value) {
                #expect(throws: MessagePackError(.unexpectedType, at: start)) {
                    var reader = MessagePackReader(bytes, in: start..<bytes.count)
                    _ = try read(&reader)
                }
            }
            check(0) { try $0.arrayHeader() }
            check(0) { try $0.mapHeader() }
            check(0) { try $0.string() }
            check(0) { try $0.stringOrNil() }
            check(0) { try $0.integer() }
            check(1) { try $0.bool() }
            check(1) { try $0.string() }
            check(2) { try $0.integer() }
            var reader = MessagePackReader(bytes)
            let results = [reader.takeNil(), (try? reader.bool()) == true, reader.takeNil(), reader.takeNil()]
            expectEqual(results, [false, true, true, false])
        }
    }

    @Test func `the writer writes what the reader reads`() throws {
        var writer = MessagePackWriter([0x2A])
        writer.arrayHeader(11)
        writer.value(1)
        writer.mapHeader(1)
        writer.value("k")
        writer.value(Int64.min)
        writer.null()
        writer.value(true)
        writer.value(1.5)
        writer.value(Float(2.5))
        writer.value(UInt64.max)
        writer.binary([1, 2])
        writer.ext(3, [4])
        writer.raw([0xC0])
        writer.raw([0xC2, 0xC3][1...])
        let value: MessagePackValue = [
            1, ["k": .int(.min)], nil, true, 1.5, .float(2.5), .uint(.max), .binary([1, 2]), .ext(3, [4]), nil, true,
        ]
        expectEqual(writer.bytes.first, 0x2A)
        try expectEqual(MessagePackValue(parsing: Array(writer.bytes.dropFirst())), value)
        expectEqual(value.bytes, Array(writer.bytes.dropFirst()))
    }

    @Test func `errors describe the position and not the content`() {
        let error = MessagePackError(.unexpectedEnd, at: 7)
        expectEqual(error.message, "invalid MessagePack at byte 7: unexpected end of the bytes")
        expectEqual("\(error)", error.message)
        expectEqual("\(error.code)", "unexpectedEnd")
    }
}
