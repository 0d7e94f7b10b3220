import PusherWire
import TestSupport
import Testing

@testable import PusherChannels

/// Which events are delivered, dropped, or wait for missed ones.
@Suite struct ChannelRecoveryTests {
    /// The machine, with events that are only their serials.
    private struct Machine {
        var recovery: ChannelRecovery

        static func text(_ serial: UInt64, stream: String = "s", size: Int = 0) -> [UInt8] {
            let data = String(repeating: "x", count: size)
            return Array(#"{"event":"a","channel":"c","data":"\#(data)","stream_id":"\#(stream)","serial":\#(serial)}"#.utf8)
        }

        private static func serials(_ events: [[UInt8]]) -> [UInt64] {
            events.map { text in
                text.withUnsafeBytes { bytes in (try? PusherFrame(scanning: bytes)).flatMap { FramePosition($0) }?.serial ?? 0 }
            }
        }

        /// Receives events, and returns what happens to each.
        mutating func receive(_ serials: UInt64..., stream: String = "s", size: Int = 0, isSubscribing: Bool = true) -> [String] {
            serials.map { serial in
                Self.text(serial, stream: stream, size: size).withUnsafeBytes { bytes in
                    guard let frame = try? PusherFrame(scanning: bytes), let position = FramePosition(frame) else { return "invalid" }
                    switch self.recovery.received(position, bytes, isSubscribing: isSubscribing) {
                    case .deliver: return "deliver"
                    case .drop: return "drop"
                    case .hold: return "hold"
                    case .giveUp(let events): return "give up \(Self.serials(events).count), last \(Self.serials(events).last ?? 0)"
                    }
                }
            }
        }

        mutating func receiveCachedEvent() -> String {
            let text = Array(#"{"event":"a","channel":"cache-c"}"#.utf8)
            return text.withUnsafeBytes { "\(self.recovery.receivedCachedEvent($0, isSubscribing: true))" }
        }

        mutating func confirm(_ serial: UInt64, stream: String = "s", isCache: Bool = false) -> String {
            switch self.recovery.confirmed(at: ChannelPosition(streamID: stream, serial: serial), isCache: isCache) {
            case .complete(let events): "complete \(Self.serials(events))"
            case .resume(let position): "resume after \(position.serial) in \(position.streamID)"
            case .reset(let events): "reset \(Self.serials(events))"
            }
        }

        mutating func succeed(_ serial: UInt64? = nil, isCache: Bool = false) -> [UInt64] {
            let position = serial.map { ChannelPosition(streamID: "s", serial: $0) }
            return Self.serials(self.recovery.succeeded(at: position, isCache: isCache))
        }

        mutating func fail() -> [UInt64] { Self.serials(self.recovery.failed()) }

        /// The channel was confirmed at a position, and its connection is lost.
        static func lost(at serial: UInt64) -> Machine {
            var machine = Machine(at: serial)
            _ = machine.receive(serial)
            machine.recovery.lost()
            return machine
        }

        init(at serial: UInt64) { self.recovery = ChannelRecovery(confirmed: ChannelPosition(streamID: "s", serial: serial)) }
    }

    @Test func `live events are delivered if their serials are larger than those before`() {
        var machine = Machine(at: 0)
        expectEqual(machine.receive(1, 2, 2, 1, 7, 3, 8), ["deliver", "deliver", "drop", "drop", "deliver", "drop", "deliver"])
        expectEqual(machine.recovery.position.serial, 8)
    }

    @Test func `the event with the serial of the first confirmation can arrive after it`() {
        var machine = Machine(at: 5)
        expectEqual(machine.receive(5, 5, 6), ["deliver", "drop", "deliver"])
    }

    @Test func `nothing was missed if the position is the same`() {
        var machine = Machine.lost(at: 5)
        expectEqual(machine.confirm(5), "complete []")
        expectEqual(machine.receive(5, 6), ["drop", "deliver"])
    }

    @Test func `events before the confirmation wait for it`() {
        var machine = Machine.lost(at: 5)
        expectEqual(machine.receive(5, 7, 6), ["drop", "hold", "hold"])
        expectEqual(machine.confirm(5), "complete [6, 7]")
        expectEqual(machine.receive(7, 8), ["drop", "deliver"])
    }

    @Test func `missed events come before newer ones, which wait, and each is delivered once`() {
        var machine = Machine.lost(at: 5)
        expectEqual(machine.receive(8), ["hold"])
        expectEqual(machine.confirm(7), "resume after 5 in s")
        expectEqual(machine.receive(9, 6, 6, 7, 8, 9, 9), ["hold", "deliver", "drop", "deliver", "deliver", "deliver", "drop"])
        expectEqual(machine.succeed(9), [])
        expectEqual(machine.receive(9, 10), ["drop", "deliver"])
    }

    @Test func `missed events without consecutive serials are sorted when all have arrived`() {
        var machine = Machine.lost(at: 5)
        expectEqual(machine.confirm(9), "resume after 5 in s")
        expectEqual(machine.receive(10, 9, 7, 7), ["hold", "hold", "hold", "drop"])
        expectEqual(machine.succeed(), [7, 9, 10])
        expect(machine.recovery.position.serial == 10 && machine.recovery.state == .live)
    }

    @Test func `a connection that is lost again continues after the last delivered event`() {
        var machine = Machine.lost(at: 5)
        expectEqual(machine.confirm(9), "resume after 5 in s")
        expectEqual(machine.receive(6, 9), ["deliver", "hold"])
        machine.recovery.lost()
        expectEqual(machine.confirm(9), "resume after 6 in s")
        expectEqual(machine.receive(7, 8, 9), ["deliver", "deliver", "deliver"])
        expectEqual(machine.succeed(9), [])
    }

    @Test func `the position follows the server's if there was nothing to recover`() {
        var machine = Machine.lost(at: 5)
        expectEqual(machine.confirm(9), "resume after 5 in s")
        expectEqual(machine.succeed(), [])
        machine.recovery.lost()
        expectEqual(machine.confirm(9), "complete []")
    }

    @Test func `after a failure, the events that waited are delivered, and later ones as usual`() {
        var machine = Machine.lost(at: 5)
        expectEqual(machine.confirm(9), "resume after 5 in s")
        expectEqual(machine.receive(11, 10), ["hold", "hold"])
        expectEqual(machine.fail(), [10, 11])
        expectEqual(machine.receive(11, 12), ["drop", "deliver"])
        machine.recovery.lost()
        expectEqual(machine.confirm(12), "complete []")
    }

    @Test(arguments: [("s", 3), ("t", 3), ("t", 5), ("t", 9)] as [(String, UInt64)])
    func `a server that counts again is a reset`(stream: String, serial: UInt64) {
        var machine = Machine.lost(at: 5)
        expectEqual(machine.confirm(serial, stream: stream), "reset []")
        expectEqual(machine.recovery.position, ChannelPosition(streamID: stream, serial: serial))
        expectEqual(machine.receive(serial + 1, stream: stream), ["deliver"])
    }

    @Test func `events of another stream wait for the confirmation and are delivered after the reset`() {
        var machine = Machine.lost(at: 5)
        expectEqual(machine.receive(2, 1, stream: "t"), ["hold", "hold"])
        expectEqual(machine.confirm(2, stream: "t"), "reset [1, 2]")
        expectEqual(machine.receive(2, 3, stream: "t"), ["drop", "deliver"])
    }

    @Test func `a stream that changes while the channel is subscribed continues`() {
        var machine = Machine(at: 5)
        expectEqual(machine.receive(6), ["deliver"])
        expectEqual(machine.receive(1, 1, 2, stream: "t"), ["deliver", "drop", "deliver"])
        expectEqual(machine.recovery.position, ChannelPosition(streamID: "t", serial: 2))
    }

    @Test func `an event of a subscription that was given up is delivered, and those that waited are forgotten`() {
        var machine = Machine.lost(at: 5)
        expectEqual(machine.receive(8), ["hold"])
        expectEqual(machine.receive(9, isSubscribing: false), ["deliver"])
        expectEqual(machine.confirm(9), "complete []")
    }

    @Test func `too many waiting events are delivered without the missed ones`() {
        var machine = Machine.lost(at: 1)
        expectEqual(machine.confirm(9), "resume after 1 in s")
        for serial in 0..<UInt64(ChannelRecovery.countLimit) { expectEqual(machine.receive(20 + serial), ["hold"]) }
        expectEqual(machine.receive(10), ["give up 1001, last 1019"])
        expect(machine.recovery.state == .live && machine.receive(1019, 1020) == ["drop", "deliver"])

        machine = Machine.lost(at: 1)
        expectEqual(machine.receive(3, size: ChannelRecovery.byteLimit / 2), ["hold"])
        expectEqual(machine.receive(4, size: ChannelRecovery.byteLimit / 2), ["give up 2, last 4"])
    }

    @Test func `the last event of a cache channel isn't delivered again`() {
        var machine = Machine.lost(at: 5)
        expectEqual(machine.confirm(5, isCache: true), "complete []")
        expect(machine.receiveCachedEvent() == "drop" && machine.receiveCachedEvent() == "deliver")
        machine.recovery.lost()
        expectEqual(machine.confirm(5, isCache: true), "complete []")
        machine.recovery.cacheMissed()
        expectEqual(machine.receiveCachedEvent(), "deliver")

        machine.recovery.lost()
        expectEqual(machine.confirm(7, isCache: true), "resume after 5 in s")
        expectEqual(machine.receiveCachedEvent(), "hold")
        expectEqual(machine.receive(6, 7), ["deliver", "deliver"])
        expectEqual(machine.succeed(7, isCache: true), [])
    }

    @Test func `the last event of a cache channel is delivered if the missed ones aren't available`() {
        var machine = Machine.lost(at: 5)
        expectEqual(machine.confirm(7, isCache: true), "resume after 5 in s")
        expectEqual(machine.receiveCachedEvent(), "hold")
        expectEqual(machine.receive(8), ["hold"])
        expectEqual(machine.fail(), [0, 8])
    }

    @Test func `the last event of a cache channel is delivered if it hadn't arrived before the loss`() {
        // After the first confirmation, after one of another stream, and after a failure.
        var machine = Machine(at: 5)
        machine.recovery.lost()
        expectEqual(machine.confirm(5, isCache: true), "complete []")
        machine.recovery.lost()
        expectEqual(machine.confirm(3, stream: "t", isCache: true), "reset []")
        machine.recovery.lost()
        expectEqual(machine.confirm(9, stream: "t", isCache: true), "resume after 3 in t")
        expectEqual(machine.fail(), [])
        machine.recovery.lost()
        expectEqual(machine.confirm(9, stream: "t", isCache: true), "complete []")
        expectEqual(machine.receiveCachedEvent(), "deliver")
        machine.recovery.lost()
        expectEqual(machine.confirm(9, stream: "t", isCache: true), "complete []")
        expectEqual(machine.receiveCachedEvent(), "drop")

        // Nothing was recovered, and the event has arrived meanwhile or arrives later.
        for isHeld in [true, false] {
            machine = Machine(at: 5)
            machine.recovery.lost()
            expectEqual(machine.confirm(9, isCache: true), "resume after 5 in s")
            if isHeld {
                expect(machine.receiveCachedEvent() == "hold" && machine.receive(10) == ["hold"])
                expectEqual(machine.succeed(isCache: true), [0, 10])
            } else {
                expect(machine.succeed(isCache: true) == [] && machine.receiveCachedEvent() == "deliver")
            }
        }
    }

    @Test func `a newer event replaces the last one of a cache channel that hadn't arrived`() {
        var machine = Machine(at: 5)
        expectEqual(machine.receive(6), ["deliver"])
        machine.recovery.lost()
        expect(machine.confirm(6, isCache: true) == "complete []" && machine.receiveCachedEvent() == "drop")

        machine = Machine(at: 5)
        machine.recovery.lost()
        expectEqual(machine.receive(6), ["hold"])
        expect(machine.confirm(5, isCache: true) == "complete [6]" && machine.receiveCachedEvent() == "drop")

        // All missed events have arrived, but the server's answer is that they aren't available.
        machine = Machine.lost(at: 5)
        expect(machine.confirm(7, isCache: true) == "resume after 5 in s" && machine.receiveCachedEvent() == "hold")
        expect(machine.receive(6, 7) == ["deliver", "deliver"] && machine.fail() == [])
    }

    // MARK: Frames

    @Test(
        arguments: [
            (#""stream_id":"s","serial":7"#, 7), (#""serial":18446744073709551615,"stream_id":"s""#, UInt64.max),
            (#""stream_id":"s\u0020","serial":0"#, 0), (#""stream_id":"s","serial":-1"#, nil), (#""stream_id":"s","serial":1.5"#, nil),
            (#""stream_id":"s","serial":"7""#, nil), (#""stream_id":"s""#, nil), (#""serial":7"#, nil), (#""stream_id":5,"serial":7"#, nil),
            (#""stream_id":null,"serial":7"#, nil), (#""stream_id":"s","serial":18446744073709551616"#, nil),
        ] as [(String, UInt64?)])
    func `a position has a serial and the ID of a stream`(members: String, serial: UInt64?) throws {
        try Array(#"{"event":"a","channel":"c",\#(members)}"#.utf8).withUnsafeBytes { bytes in
            let position = FramePosition(try PusherFrame(scanning: bytes))
            expectEqual(position?.serial, serial)
            expect(position.map { $0.isIn($0.streamID) && !$0.isIn("other") } != false)
        }
    }

    @Test(
        arguments: [
            (#"{"event":"pusher:pong"}"#, #"{"event":"sockudo:pong"}"#),
            (#"{"event":"pusher_internal:member_added","data":"pusher:"}"#, #"{"event":"sockudo_internal:member_added","data":"pusher:"}"#),
            (#"{"event":"pusher-news","channel":"a"}"#, nil), (#"{"event":"news","channel":"pusher:"}"#, nil), (#"{"event":"pusher"#, nil),
            ("", nil),
        ] as [(String, String?)])
    func `only events of the protocol have another prefix in version 2`(frame: String, version2: String?) {
        expectEqual(PusherFrames.version2(.text(frame)).bytes, Array((version2 ?? frame).utf8))
    }

    @Test func `events of version 2 have the names of version 7`() {
        expectEqual(EventName.version7("sockudo:error"), "pusher:error")
        expectEqual(EventName.version7("sockudo_internal:member_added"), "pusher_internal:member_added")
        for name in ["pusher:error", "sockudo", "sockudo_error", "client-sockudo:", "tick", ""] {
            expectEqual(EventName.version7(name), name)
        }
    }
}
