import Foundation
import PusherWire
import RealtimeCore
import RealtimeCoding
import TestSupport
import Testing

/// Deltas in the format of Fossil, and the frames that contain them.
@Suite(.computes, .serialized) struct FossilDeltaTests {
    private static func apply(_ delta: String, to base: String, limit: Int = 1_000) throws(FossilDeltaError) -> String {
        String(decoding: try FossilDelta.apply(Array(delta.utf8), to: Array(base.utf8), limit: limit), as: UTF8.self)
    }

    // The checksums were computed with a program of its own in Python.
    @Test(arguments: [
        ("B\n5@0,6: world19x_VR;", "hello", "hello world"), ("B\nB:hello world19x_VR;", "", "hello world"), ("0\n0;", "hello", ""),
        ("5\n5@3,3NPMmh;", "___hello", "hello"),
        ("5\n2@3,0@0,0:3@0,3NPMmh;", "llohe", "hello"), ("005\n05@000,0003NPMmh;", "hello", "hello"),
        ("7\n7:GrüßeB4YYx;", "", "Grüße"),
        // The checksum exceeds the largest number with 31 bits.
        ("4\n4:ßß33cxEV;", "", "ßß"), ("4\n2@0,2@0,33cxEV;", "ß", "ßß"),
    ])
    func `instructions are carried out in order`(delta: String, base: String, result: String) throws {
        try expectEqual(Self.apply(delta, to: base), result)
    }

    @Test(arguments: [
        "", "B", "B\n", "\n", "B\n5", "B\n5@", "B\n5@0", "B\n5@0,", "B\n5@0,6: wor", "B\n5@0,6: world", "B\n5@0,6: world19x_VR",
        // An offset or a count outside of the base, also where their sum overflows.
        "B\n6@0,6: world19x_VR;", "B\n5@1,6: world19x_VR;", "5\n5@3~~~~~,3NPMmh;", "5\n3~~~~~@5,3NPMmh;",
        "5\n~~~~~~~~~~~~~~~@0,3NPMmh;", "~~~~~~~~~~\n5@0,3NPMmh;",
        // More or less than the size.
        "A\n5@0,6: world19x_VR;", "C\n5@0,6: world19x_VR;", "5\n5@0,5@0,3NPMmh;", "0\n1:x0;",
        // Unknown instructions, missing numbers, and bytes after the end.
        "B\n5@0,6? world19x_VR;", "B\n@0,6: world19x_VR;", "B\n5@,6: world19x_VR;", "B\n5@0,: world19x_VR;", "5\n5@0,;",
        "B 5@0,6: world19x_VR;",
        "B\n5@0;6: world19x_VR;", "B\n5@0,6: world19x_VR;\n", "B\n5@0,6: world19x_VR;19x_VR;", "-5\n5@0,3NPMmh;", "5\n5@0,3NPMmh;é",
    ])
    func `what isn't a delta is invalid`(delta: String) {
        #expect(throws: FossilDeltaError.invalidFormat) { try Self.apply(delta, to: "hello") }
    }

    @Test func `a result with another checksum is rejected`() {
        for delta in ["B\n5@0,6: world19x_VS;", "B\n5@0,6: world0;", "5\n5@0,3NPMmi;", "1\n1:x0;"] {
            #expect(throws: FossilDeltaError.wrongChecksum) { try Self.apply(delta, to: "hello") }
        }
        // The delta refers to another text.
        #expect(throws: FossilDeltaError.wrongChecksum) { try Self.apply("B\n5@0,6: world19x_VR;", to: "Hello") }
    }

    @Test func `the size of the result is limited before it is built`() throws {
        let delta = "B\n5@0,6: world19x_VR;"
        try expectEqual(Self.apply(delta, to: "hello", limit: 11), "hello world")
        #expect(throws: FossilDeltaError.tooLarge(10)) { try Self.apply(delta, to: "hello", limit: 10) }
        // It states 4 GiB, and has 400 bytes.
        let copies = String(repeating: "1_@0,", count: 4)
        #expect(throws: FossilDeltaError.tooLarge(1 << 20)) {
            try Self.apply("3~~~~~\n\(copies)0;", to: String(repeating: "x", count: 100), limit: 1 << 20)
        }
        #expect(throws: FossilDeltaError.invalidFormat) {
            try Self.apply("3~~~~~\n\(copies)0;", to: String(repeating: "x", count: 100), limit: .max)
        }
    }

    @Test func `a delta restores the text`() throws {
        let base = #"{"event":"price","channel":"market","data":"{\"symbol\":\"ACME\",\"value\":12.5}","serial":7}"#
        let texts: [String] = [
            base, "", "x", String(base.reversed()), base + base, String(base.dropFirst(20)), String(base.dropLast(20)),
            base.replacingOccurrences(of: "12.5", with: "13"), base.replacingOccurrences(of: "ACME", with: "ÄCME & Söhne 🎉"),
            "\(base.suffix(40))\(base.prefix(40))", String(repeating: base, count: 100), String(repeating: "a", count: 5_000),
        ]
        for text in texts {
            for base in texts {
                let delta = FossilDelta.make(Array(text.utf8), from: Array(base.utf8))
                try expectEqual(FossilDelta.apply(delta, to: Array(base.utf8), limit: text.utf8.count), Array(text.utf8))
            }
        }
        let changed = base.replacingOccurrences(of: "12.5", with: "13")
        expect(FossilDelta.make(Array(changed.utf8), from: Array(base.utf8)).count < base.utf8.count / 2)
        // Nothing in common: no more than the text and a few bytes.
        expect(FossilDelta.make(Array(repeating: 1, count: 10_000), from: Array(repeating: 2, count: 10_000)).count < 10_020)
    }

    @Test func `random changes are restored`() throws {
        for seed in seeds(200) {
            var generator = SplitMix64(seed: seed)
            let base = (0..<Int.random(in: 0...400, using: &generator)).map { _ in UInt8.random(in: 0...3, using: &generator) }
            var text = base
            for _ in 0..<Int.random(in: 0...5, using: &generator) {
                let bounds = [0, 0].map { _ in Int.random(in: 0...text.count, using: &generator) }.sorted()
                let part = Array(text[bounds[0]..<bounds[1]])
                if Bool.random(using: &generator) { text.removeSubrange(bounds[0]..<bounds[1]) }
                text.insert(contentsOf: part, at: Int.random(in: 0...text.count, using: &generator))
            }
            let delta = FossilDelta.make(text, from: base)
            try expectEqual(FossilDelta.apply(delta, to: base, limit: text.count), text, "\(replay(seed))")
        }
    }

    @Test func `a changed delta never restores another text without an error`() throws {
        let base = Array(#"{"event":"price","channel":"market","data":"12","serial":7}"#.utf8)
        let text = Array(#"{"event":"price","channel":"market","data":"13","serial":8}"#.utf8)
        let delta = FossilDelta.make(text, from: base)
        for index in delta.indices {
            for bit in 0..<8 {
                var changed = delta
                changed[index] ^= 1 << UInt8(bit)
                if let result = try? FossilDelta.apply(changed, to: base, limit: 1_000) {
                    expectEqual(result, text, "byte \(index), bit \(bit)")
                }
            }
            expectNil((try? FossilDelta.apply(Array(delta[..<index]), to: base, limit: 1_000)))
        }
    }

    // MARK: Frames

    private static func sequence(_ text: String) throws -> (number: Int, group: String?, text: String)? {
        try Array(text.utf8).withUnsafeBytes { bytes in
            FrameSequence(try PusherFrame(scanning: bytes)).map { ($0.number, $0.group, String(decoding: $0.text, as: UTF8.self)) }
        }
    }

    @Test func `the text that deltas refer to has neither the number nor the conflation key`() throws {
        let frames = [
            (#"{"event":"a","serial":1,"__delta_seq":12}"#, 12, nil, #"{"event":"a","serial":1}"#),
            (#"{"event":"a","__delta_seq":0,"__conflation_key":"x \"ü\" \u0041"}"#, 0, #"x "ü" A"#, #"{"event":"a"}"#),
            (#"{"event":"a","__conflation_key":"","data":"1","__delta_seq":3}"#, 3, "", #"{"event":"a","data":"1"}"#),
            (#"{"event":"a","__delta_seq":3,"data":"\"__delta_seq\":5"}"#, 3, nil, #"{"event":"a","data":"\"__delta_seq\":5"}"#),
        ]
        for (frame, number, group, text) in frames {
            let sequence = try #require(try Self.sequence(frame))
            expect(sequence.number == number && sequence.group == group && sequence.text == text, "\(frame)")
        }
        // No text of sockudo, whose members have no spaces between them.
        for frame in [
            #"{"event":"a"}"#, #"{"event":"a","__delta_seq":"1"}"#, #"{"event":"a","__delta_seq":1.5}"#,
            #"{"event":"a","__delta_seq":null}"#,
            #"{"event":"a","__delta_seq": 1}"#, #"{"event":"a", "__delta_seq":1}"#, #"{"__delta_seq":1,"event":"a"}"#,
            #"{"event":"a","__delta_seq" :1}"#, #"{"event":"a","\u005f_delta_seq":1}"#,
            #"{"event":"a","__delta_seq":1,"__conflation_key": "x"}"#,
            #"{"event":"a","__delta_seq":99999999999999999999}"#,
        ] {
            let isMissing = try Self.sequence(frame) == nil
            expect(isMissing, "\(frame)")
        }
    }

    @Test func `the texts that were used least recently are forgotten first`() {
        var bases = DeltaBases()
        func base(_ event: String, _ group: String? = nil, _ text: [UInt8]? = [1]) -> DeltaBases.Base {
            DeltaBases.Base(event, group: group, sequence: 1, text: text)
        }
        for number in 0..<DeltaBases.countLimit { bases.set(base("\(number)")) }
        bases.set(base("0"))
        bases.set(base("new"))
        expect(bases.base("0", group: nil) != nil && bases.base("1", group: nil) == nil && bases.base("2", group: nil) != nil)
        // The same event with another conflation key, or without one, is another one.
        bases.set(base("0", "x", [2]))
        expect(bases.base("0", group: nil)?.text == [1] && bases.base("0", group: "x")?.text == [2] && bases.base("0", group: "") == nil)
        bases.remove(group: "x")
        expect(bases.base("0", group: nil) != nil && bases.base("0", group: "x") == nil)

        bases.set(base("large", nil, Array(repeating: 0, count: DeltaBases.byteLimit - 1)))
        expect(bases.base("new", group: nil) != nil && bases.base("0", group: nil) == nil)
        bases.set(base("large", nil, nil))
        bases.set(base("other", nil, Array(repeating: 0, count: DeltaBases.byteLimit + 1)))
        expect(bases.base("other", group: nil)?.text != nil && bases.base("new", group: nil) == nil)
    }

    /// Compares with a list that is ordered by use.
    @Test func `the texts that are kept are those that were used last`() {
        typealias Entry = (event: Int, group: Int?, text: [UInt8]?)
        for seed in seeds(10) {
            var generator = SplitMix64(seed: seed)
            var bases = DeltaBases()
            var entries: [Entry] = []
            for number in 0..<4_000 {
                let event = Int.random(in: 0..<600, using: &generator)
                let group = Bool.random(using: &generator) ? nil : Int.random(in: 0..<3, using: &generator)
                if let group, Int.random(in: 0..<500, using: &generator) == 0 {
                    bases.remove(group: "\(group)")
                    entries.removeAll { $0.group == group }
                    continue
                }
                let size = Int.random(in: 0..<400, using: &generator) == 0 ? DeltaBases.byteLimit / 3 : number % 100
                let text = size == 7 ? nil : [UInt8](repeating: 1, count: size)
                bases.set(.init("\(event)", group: group.map { "\($0)" }, sequence: number, text: text))
                entries.removeAll { $0.event == event && $0.group == group }
                entries.append((event, group, text))
                while entries.count > DeltaBases.countLimit
                    || entries.count > 1 && entries.reduce(0, { $0 + ($1.text?.count ?? 0) }) > DeltaBases.byteLimit
                { entries.removeFirst() }
            }
            var kept = 0
            for group in [nil, 0, 1, 2] {
                for event in 0..<600 where bases.base("\(event)", group: group.map { "\($0)" }) != nil { kept += 1 }
            }
            expectEqual(kept, entries.count, "\(replay(seed))")
            for (event, group, text) in entries {
                expectEqual(bases.base("\(event)", group: group.map { "\($0)" })?.text?.count, text?.count, "\(replay(seed))")
            }
        }
    }

    @Test func `frames of deltas have the form of sockudo`() {
        func text(_ message: TransportMessage) -> String { String(decoding: PusherFrames.version2(message).bytes, as: UTF8.self) }
        let event = PusherFrames.event("a", channel: "c", data: "1")
        expectEqual(text(PusherFrames.sequenced(event, 3)), #"{"event":"a","channel":"c","data":"1","__delta_seq":3}"#)
        expectEqual(
            text(PusherFrames.delta("a", channel: "c", [1, 2], sequence: 3, base: 2)),
            #"{"event":"sockudo:delta","channel":"c","data":{"event":"a","delta":"AQI=","seq":3,"algorithm":"fossil","base_index":2}}"#)
        expectEqual(
            text(PusherFrames.deltaCompressionEnabled()),
            #"{"event":"sockudo:delta_compression_enabled","data":{"enabled":true,"algorithm":"fossil"}}"#)
        expect(text(PusherFrames.deltaSyncError("c")).hasSuffix(#":delta_sync_error","data":{"channel":"c"}}"#))
        if let tags = EventTags(["b": "2", "a": "\""]) {
            expectEqual(text(PusherFrames.tagged(event, tags)), #"{"event":"a","channel":"c","data":"1","tags":{"a":"\"","b":"2"}}"#)
        }
    }
}
