import PusherWire
import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import TestSupport
import Testing

@testable import PusherChannels

/// The events of encrypted channels in a session.
@Suite struct ChannelDecryptionTests {
    private static func key(_ byte: UInt8) -> EncryptionKey {
        do {
            return try EncryptionKey([UInt8](repeating: byte, count: 32))
        } catch {
            preconditionFailure("\(error)")
        }
    }

    private let channel = "private-encrypted-a"

    /// A frame whose data was encrypted with a key.
    private func frame(_ text: String, _ key: UInt8) throws -> String {
        let nonce = [UInt8](repeating: key, count: 24)
        let data = JSONValue.string(try EncryptedPayload(encrypting: text, key: Self.key(key), nonce: nonce).json)
        return #"{"event":"a","channel":"\#(self.channel)","data":\#(data)}"#
    }

    private func secret(_ key: UInt8) -> String { Self.key(key).base64 }

    /// A session that is subscribed to the encrypted channel with the key 1, and to a public one.
    private func subscribed(configuration: (inout PusherConfiguration) -> Void = { _ in }) -> SessionHarness {
        var harness = SessionHarness(configuration)
        harness.subscribe(self.channel)
        harness.subscribe("one")
        harness.start()
        harness.establish()
        harness.authorize(1, sharedSecret: self.secret(1))
        harness.confirm(self.channel)
        harness.confirm("one")
        return harness
    }

    private static let failure = "error decryptionFailed"

    @Test func `events are decrypted with the key of the authorization`() throws {
        var harness = self.subscribed()
        let frames = [try self.frame("first", 1), #"{"event":"b","channel":"one","data":"2"}"#, try self.frame("{\"x\":\"\u{e9}\"}", 1)]
        expectEqual(
            harness.receive(frames[0], frames[1], frames[2]),
            ["event \(self.channel) a first", "event one b 2", "event \(self.channel) a {\"x\":\"\u{e9}\"}"])
    }

    @Test(arguments: [nil, "", "AAAA", "not Base64", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"])
    func `an authorization without a valid key fails the subscription`(secret: String?) {
        var harness = SessionHarness()
        harness.subscribe(self.channel)
        harness.start()
        harness.establish()
        expectEqual(
            harness.authorize(1, sharedSecret: secret), ["\(self.channel) failed authorizationFailed", "error authorizationFailed"])
    }

    @Test func `events wait in order for a new key, and those of other channels don't`() throws {
        var harness = self.subscribed()
        expectEqual(harness.receive(try self.frame("1", 2)), ["authorize 2 \(self.channel) 1.2"])
        // Also an event with the old key, which would otherwise overtake the first one.
        expectEqual(
            harness.receive(try self.frame("2", 2), #"{"event":"b","channel":"one","data":"2"}"#, try self.frame("3", 2)),
            [
                "event one b 2"
            ])
        expectEqual(
            harness.authorize(2, sharedSecret: self.secret(2)),
            ["event \(self.channel) a 1", "event \(self.channel) a 2", "event \(self.channel) a 3"])
        expectEqual(harness.receive(try self.frame("4", 2)), ["event \(self.channel) a 4"])
    }

    @Test func `a malformed event fails alone, without another key`() throws {
        var harness = self.subscribed()
        let malformed = [
            "", #","data":"text""#, #","data":{}"#, #","data":{"nonce":"AA==","ciphertext":"AA=="}"#,
            #","data":{"nonce":1,"ciphertext":"AA=="}"#,
        ]
        for data in malformed {
            let frame = #"{"event":"a","channel":"\#(self.channel)"\#(data)}"#
            expectEqual(harness.receive(frame, try self.frame("1", 1)), [Self.failure, "event \(self.channel) a 1"])
        }
    }

    @Test func `keys that never fit are loaded with growing delays, and events with the known key arrive meanwhile`() throws {
        var harness = self.subscribed { $0.backoff = Backoff(base: .seconds(4), cap: .seconds(60)) }
        for (round, delay) in [4, 8, 16, 32, 60, 60].enumerated() {
            let work = UInt64(round + 2)
            expectEqual(harness.receive(try self.frame("1", 9)), ["authorize \(work) \(self.channel) 1.2"])
            expectEqual(harness.receive(try self.frame("2", 1)), [])
            expectEqual(harness.authorize(work, sharedSecret: self.secret(1)), [Self.failure, "event \(self.channel) a 2"])
            expectEqual(harness.receive(try self.frame("3", 9), try self.frame("4", 9)), [Self.failure, Self.failure])
            harness.advance(by: .seconds(delay))
        }
        // A key that fits ends the delays.
        expectEqual(harness.receive(try self.frame("5", 9)), ["authorize 8 \(self.channel) 1.2"])
        expectEqual(harness.authorize(8, sharedSecret: self.secret(9)), ["event \(self.channel) a 5"])
        expectEqual(harness.receive(try self.frame("6", 2)), ["authorize 9 \(self.channel) 1.2"])
    }

    @Test func `events with the previous key are decrypted for ten minutes after a change of the key`() throws {
        var harness = self.subscribed()
        harness.receive(try self.frame("1", 2), try self.frame("2", 1))
        expectEqual(harness.authorize(2, sharedSecret: self.secret(2)), ["event \(self.channel) a 1", "event \(self.channel) a 2"])
        // The same key again isn't a change.
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        harness.establish()
        harness.authorize(3, sharedSecret: self.secret(2))
        harness.confirm(self.channel)
        for _ in 1...599 {
            harness.advance(by: .seconds(1))
            harness.receive(#"{"event":"pusher:pong","data":{}}"#)
        }
        expectEqual(
            harness.receive(try self.frame("3", 1), try self.frame("4", 2)), ["event \(self.channel) a 3", "event \(self.channel) a 4"])
        harness.advance(by: .seconds(1))
        expectEqual(harness.receive(try self.frame("5", 1)), ["authorize 4 \(self.channel) 1.2"])
    }

    @Test func `only the key before the current one is known`() throws {
        var harness = self.subscribed()
        harness.receive(try self.frame("1", 2))
        harness.authorize(2, sharedSecret: self.secret(2))
        harness.receive(try self.frame("2", 3))
        expectEqual(harness.authorize(3, sharedSecret: self.secret(3)), ["event \(self.channel) a 2"])
        expectEqual(harness.receive(try self.frame("3", 2)), ["event \(self.channel) a 3"])
        expectEqual(harness.receive(try self.frame("4", 1)), ["authorize 4 \(self.channel) 1.2"])
    }

    @Test func `events with two keys in turn don't load a key each`() throws {
        var harness = self.subscribed()
        harness.receive(try self.frame("1", 9))
        harness.authorize(2, sharedSecret: self.secret(1))
        for _ in 0..<3 {
            expectEqual(harness.receive(try self.frame("2", 1), try self.frame("3", 9)), ["event \(self.channel) a 2", Self.failure])
        }
        harness.advance(by: .seconds(1))
        expectEqual(harness.receive(try self.frame("4", 9)), ["authorize 3 \(self.channel) 1.2"])
    }

    @Test func `the events that wait fail if no new key can be loaded`() throws {
        var harness = self.subscribed()
        harness.receive(try self.frame("1", 2), try self.frame("2", 1))
        expectEqual(harness.failAuthorization(2, status: 403), ["error authorizationFailed", Self.failure, Self.failure])
        harness.advance(by: .seconds(60))
        harness.receive(try self.frame("1", 2))
        expectEqual(harness.authorize(3), ["error authorizationFailed", Self.failure])
        harness.advance(by: .seconds(60))
        harness.receive(try self.frame("1", 2))
        expectEqual(harness.advance(by: .seconds(30)), ["error timedOut", Self.failure, "cancel 4"])
        expectEqual(harness.receive(try self.frame("3", 1)), ["event \(self.channel) a 3"])
    }

    @Test func `events that wait when the connection is lost are decrypted with the key of the next subscription`() throws {
        var harness = self.subscribed()
        harness.receive(try self.frame("1", 2))
        expect(harness.close(.peer(CloseCode(rawValue: 4200), "")).contains("cancel 2"))
        harness.establish()
        harness.authorize(3, sharedSecret: self.secret(2))
        let lines = harness.confirm(self.channel)
        expectEqual(lines, ["\(self.channel) subscribed", "\(self.channel) gap 0.0 seconds"])
    }

    @Test func `the events that wait fail when the client disconnects`() throws {
        var harness = self.subscribed()
        harness.receive(try self.frame("1", 2))
        expect(harness.stop().contains(Self.failure))
        harness.start()
        harness.establish()
        expect(!harness.authorize(3, sharedSecret: self.secret(2)).contains("event \(self.channel) a 1"))
    }

    @Test func `the events that wait fail when the client switches to another app, whose keys don't decrypt them`() throws {
        let changes: [(inout PusherConfiguration) -> Void] = [{ $0.key = "other" }, { $0.host = "other" }]
        for change in changes {
            let reset = CloseReason.transport(TransportError(.reset, "reset"))
            let switches: [(inout SessionHarness) -> [String]] = [
                { $0.switchServer(change) },
                // The settings change with the loss, and after it.
                { $0.update(change) + $0.close(.peer(CloseCode(rawValue: 4200), "")) },
                { $0.close(reset) + $0.update(change) + $0.advance(by: .seconds(1)) },
            ]
            for perform in switches {
                var harness = self.subscribed()
                harness.receive(try self.frame("1", 2))
                let lines = perform(&harness)
                expect(lines.contains(Self.failure) && lines.contains("cancel 2"), "\(lines)")
                harness.establish()
                expectEqual(harness.authorize(3, sharedSecret: self.secret(2)), ["#2 pusher:subscribe \(self.channel) key:3"])
                harness.confirm(self.channel)
                expectEqual(harness.receive(try self.frame("2", 2)), ["event \(self.channel) a 2"])
                // The failure of the old app delays no key of the new one.
                expectEqual(harness.receive(try self.frame("3", 3)), ["authorize 4 \(self.channel) 1.2"])
            }
        }
    }

    @Test func `the events that wait stay when other settings change`() throws {
        var harness = self.subscribed()
        harness.receive(try self.frame("1", 2))
        expect(!harness.switchServer { $0.pongTimeout = .seconds(5) }.contains(Self.failure))
        harness.establish()
        expect(harness.authorize(3, sharedSecret: self.secret(2)).contains("event \(self.channel) a 1"))
    }

    @Test func `an event with another key before the confirmation loads a key after it`() throws {
        var harness = SessionHarness()
        harness.subscribe(self.channel)
        harness.start()
        harness.establish()
        harness.authorize(1, sharedSecret: self.secret(1))
        expectEqual(harness.receive(try self.frame("1", 2)), [])
        expectEqual(harness.confirm(self.channel).last, "authorize 2 \(self.channel) 1.2")
        expectEqual(harness.authorize(2, sharedSecret: self.secret(2)), ["event \(self.channel) a 1"])
    }

    @Test func `an event with another key fails if the subscription has failed`() throws {
        var harness = self.subscribed()
        harness.receive(#"{"event":"pusher:subscription_error","channel":"\#(self.channel)","data":{"status":403}}"#)
        expectEqual(harness.receive(try self.frame("1", 2)), ["\(self.channel) gap 0.0 seconds", Self.failure])
    }

    @Test func `unsubscribing cancels the loading of a key`() throws {
        var harness = self.subscribed()
        harness.receive(try self.frame("1", 2))
        expectEqual(
            harness.unsubscribe(self.channel), ["\(self.channel) unsubscribed", "#1 pusher:unsubscribe \(self.channel)", "cancel 2"])
        expectEqual(harness.authorize(2, sharedSecret: self.secret(2)), [])
    }

    @Test func `the number and the size of the events that wait are limited`() throws {
        var harness = self.subscribed()
        harness.receive(try self.frame("0", 2))
        for _ in 1..<ChannelDecryption.countLimit { expectEqual(harness.receive(try self.frame("1", 2)), []) }
        expectEqual(harness.receive(try self.frame("1", 2)), [Self.failure])
        expectEqual(harness.authorize(2, sharedSecret: self.secret(2)).count, ChannelDecryption.countLimit)
        harness.receive(try self.frame("0", 3))
        let large = try self.frame(String(repeating: "x", count: 300_000), 3)
        expect(harness.receive(large) == [] && harness.receive(large) == [])
        expectEqual(harness.receive(large), [Self.failure])
    }

    /// A session that is subscribed to twelve encrypted channels, and the frame of an event with a new key on each.
    private func subscribedToTwelve() throws -> (harness: SessionHarness, frames: [String]) {
        var harness = SessionHarness()
        let names = (1...12).map { "private-encrypted-\($0)" }
        for name in names { harness.subscribe(name) }
        harness.start()
        harness.establish()
        for work in 1...12 { harness.authorize(UInt64(work), sharedSecret: self.secret(1)) }
        for name in names { harness.confirm(name) }
        return (harness, try names.map { try self.frame("1", 2).replacingText(self.channel, with: $0) })
    }

    @Test func `at most ten keys and authorizations are loaded at the same time`() throws {
        let (subscribed, frames) = try self.subscribedToTwelve()
        var harness = subscribed
        expectEqual(frames.map { harness.receive($0).count }, Array(repeating: 1, count: 10) + [0, 0])
        let lines = harness.authorize(13, sharedSecret: self.secret(2))
        expectEqual(lines, ["event private-encrypted-1 a 1", "authorize 23 private-encrypted-11 1.2"])
    }

    @Test func `a key begins to load when loading another one times out`() throws {
        let (subscribed, frames) = try self.subscribedToTwelve()
        var harness = subscribed
        for frame in frames { harness.receive(frame) }
        let lines = harness.advance(by: .seconds(30))
        expect(lines.contains("authorize 23 private-encrypted-11 1.2") && lines.contains("authorize 24 private-encrypted-12 1.2"))
    }

    @Test func `a rejected subscription doesn't begin again when its key could be loaded`() throws {
        let (subscribed, frames) = try self.subscribedToTwelve()
        var harness = subscribed
        for frame in frames { harness.receive(frame) }
        harness.receive(#"{"event":"pusher:subscription_error","channel":"private-encrypted-11","data":{"status":403}}"#)
        let lines = harness.authorize(13, sharedSecret: self.secret(2))
        expectEqual(lines, ["event private-encrypted-1 a 1", "authorize 23 private-encrypted-12 1.2"])
    }
}
