import PusherWire
import RealtimeCoding
import RealtimeEncoding
import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@testable import PusherChannels

private let one = ChannelID(slot: 0, serial: 1), two = ChannelID(slot: 1, serial: 2)

/// The client events that wait, without a session.
@Suite struct ClientEventsTests {
    private func message(_ text: String) -> TransportMessage { .text(text) }

    private func texts(_ messages: [TransportMessage]) -> [String] { messages.map { String(decoding: $0.bytes, as: UTF8.self) } }

    private func at(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

    @Test func `events wait for the subscription of their channel up to a limit`() throws {
        var events = ClientEvents()
        try events.enqueue(self.message("1"), on: one, "one", limit: 2)
        try events.enqueue(self.message("2"), on: one, "one", limit: 2)
        try events.enqueue(self.message("3"), on: two, "two", limit: 2)
        let error = #expect(throws: PusherError.self) { try events.enqueue(self.message("4"), on: one, "one", limit: 2) }
        expect(error?.code == .queueFull && error?.channel == "one")
        expect(!events.wereSent)
        expectEqual(self.texts(events.subscribed(one, nil, now: self.at(0))), ["1", "2"])
        expect(events.sender == one && events.subscribed(one, nil, now: self.at(0)).isEmpty)
        _ = events.subscribed(two, nil, now: self.at(0))
        expectEqual(events.sender, .several)
    }

    @Test func `events that exceed the limit wait in order and a loss lets them wait for the subscription`() throws {
        var events = ClientEvents()
        let limit = PusherClientEventLimit(perSecond: 1)
        func admit(_ text: String, on id: ChannelID) throws(PusherError) -> Bool {
            try events.admit(self.message(text), on: id, "\(id.slot)", limit, queueLimit: 2, now: self.at(0))
        }
        try expect(admit("1", on: one))
        try expect(!admit("2", on: two) && !admit("3", on: one))
        #expect(throws: PusherError.self) { try admit("4", on: one) }
        expect(events.sender == one && events.nextDeadline != nil)
        expect(events.takeDue(limit, now: self.at(1)).isEmpty)
        expect(self.texts(events.takeDue(limit, now: self.at(2))) == ["2"] && events.sender == .several)
        events.ended()
        expect(events.nextDeadline == nil && events.sender == .none)
        expectEqual(self.texts(events.subscribed(one, limit, now: self.at(2))), ["3"])
    }

    @Test func `a dropped channel has no events`() throws {
        var events = ClientEvents()
        let limit = PusherClientEventLimit(perSecond: 1)
        try events.enqueue(self.message("1"), on: one, "one", limit: 9)
        _ = try events.admit(self.message("2"), on: two, "two", limit, queueLimit: 9, now: self.at(0))
        _ = try events.admit(self.message("3"), on: one, "one", limit, queueLimit: 9, now: self.at(0))
        events.drop(one)
        expect(events.nextDeadline == nil && events.subscribed(one, nil, now: self.at(0)).isEmpty)
    }

    @Test func `an event that may not wait is an error`() throws {
        var events = ClientEvents()
        let limit = PusherClientEventLimit(perSecond: 1, excess: .fail)
        _ = try events.admit(self.message("1"), on: one, "one", limit, queueLimit: 9, now: self.at(0))
        let error = #expect(throws: PusherError.self) {
            try events.admit(self.message("2"), on: one, "one", limit, queueLimit: 9, now: self.at(0))
        }
        expectEqual(error?.code, .rateLimited)
    }
}

/// The keys of encrypted channels, without a session.
@Suite struct ChannelKeysTests {
    private static let backoff = Backoff(base: .seconds(1), cap: .seconds(1))
    private let names = EventNames("a", channel: "private-encrypted-a")
    private let work = WorkID(rawValue: 1)

    private func key(_ byte: UInt8) throws -> EncryptionKey { try EncryptionKey([UInt8](repeating: byte, count: 32)) }

    private func data(_ text: String, _ key: UInt8) throws -> [UInt8] {
        Array(try EncryptedPayload(encrypting: text, key: self.key(key), nonce: [UInt8](repeating: key, count: 24)).json.utf8)
    }

    private func receive(
        _ text: String, _ key: UInt8, _ keys: inout ChannelKeys, at now: Instant = Instant(nanoseconds: 0)
    ) throws -> String {
        switch keys.received(self.names, try self.data(text, key), on: one, now: now) {
        case .deliver(let text): "deliver \(text)"
        case .fail(let error): "fail \(error.code)"
        case .wait: "wait"
        case .reload: "reload"
        case .ignore: "ignore"
        }
    }

    private func set(_ key: UInt8, _ keys: inout ChannelKeys) throws -> [String] {
        keys.set(try self.key(key), of: one, backoff: Self.backoff, now: Instant(nanoseconds: 0)).map {
            switch $0 {
            case .decrypted(_, let text): "deliver \(text)"
            case .failed(let error): "fail \(error.code)"
            }
        }
    }

    @Test func `events wait for a new key in order`() throws {
        var keys = ChannelKeys(seed: 1)
        try expectEqual(self.receive("0", 1, &keys), "ignore")
        try expect(self.set(1, &keys) == [] && !keys.mustReload(one))
        try expectEqual(self.receive("1", 1, &keys), "deliver 1")
        try expect(self.receive("2", 2, &keys) == "reload" && keys.mustReload(one))
        keys.started(one, self.work)
        expect(!keys.mustReload(one) && keys.isReloading(one, self.work) && !keys.isReloading(two, self.work))
        try expectEqual(self.receive("3", 1, &keys), "wait")
        try expectEqual(self.receive("4", 3, &keys), "wait")
        try expectEqual(self.set(2, &keys), ["deliver 2", "deliver 3", "fail decryptionFailed"])
    }

    @Test func `events that wait fail without a key and the next one doesn't reload immediately`() throws {
        var keys = ChannelKeys(seed: 1)
        _ = try self.set(1, &keys)
        _ = try self.receive("1", 2, &keys)
        expectEqual(keys.failed(one, backoff: Self.backoff, now: Instant(nanoseconds: 0)).map(\.code), [.decryptionFailed])
        try expectEqual(self.receive("2", 2, &keys), "fail decryptionFailed")
        try expectEqual(self.receive("3", 2, &keys, at: Instant(nanoseconds: 1_000_000_001)), "reload")
    }

    @Test func `an authorization is returned that isn't needed for its key`() throws {
        var keys = ChannelKeys(seed: 1)
        expect(keys.stopReloading(one) == nil && keys.removed(one) == nil)
        _ = try self.set(1, &keys)
        _ = try self.receive("1", 2, &keys)
        keys.started(one, self.work)
        expect(keys.stopReloading(one) == self.work && keys.mustReload(one))
        keys.started(one, self.work)
        expectEqual(keys.removed(one), self.work)
        try expectEqual(self.receive("2", 1, &keys), "ignore")
    }
}

/// The events that deltas refer to, without a session.
@Suite struct EventDeltasTests {
    private func delta(_ text: String, from base: String, sequence: Int, algorithm: String = "fossil") throws -> DeltaPayload {
        let delta = FossilDelta.make(Array(text.utf8), from: Array(base.utf8))
        return try DeltaPayload([
            "event": "a", "seq": .number(JSONNumber(sequence)), "base_index": .number(JSONNumber(sequence - 1)),
            "delta": .string(Base64.encode(delta)), "algorithm": .string(algorithm),
        ])
    }

    private func sync(_ text: String, sequence: Int) -> JSONValue {
        ["states": ["": [["seq": .number(JSONNumber(sequence)), "content": .string(text)]]]]
    }

    private static let first = #"{"event":"a","data":"1"}"#, second = #"{"event":"a","data":"2"}"#

    @Test func `an event is restored from the last one of the same owner`() throws {
        for owner in [EventDeltas.Owner.channel(one), .user] {
            var deltas = EventDeltas(isRequested: true)
            deltas.keep(self.sync(Self.first, sequence: 1), of: owner)
            let delta = try self.delta(Self.second, from: Self.first, sequence: 2)
            expectEqual(deltas.restore(delta, of: .channel(two), limit: 1_000), .failed(reason: "the event that it refers to is unknown"))
            expectEqual(deltas.restore(delta, of: owner, limit: 1_000), .restored(Array(Self.second.utf8)))
            // The base is the restored event now.
            expectEqual(deltas.restore(delta, of: owner, limit: 1_000), .failed(reason: "the event that it refers to is unknown"))
        }
    }

    @Test func `a complete event is requested once until one arrives`() throws {
        var deltas = EventDeltas(isRequested: true)
        let delta = try self.delta(Self.second, from: Self.first, sequence: 2)
        let requests = (1...2).map { _ in deltas.failed(delta, of: .channel(one)) }
        deltas.keep(self.sync(Self.first, sequence: 1), of: .channel(one))
        expect(requests == [true, false] && deltas.failed(delta, of: .channel(one)))
    }

    @Test func `an owner that ends has no events`() {
        var deltas = EventDeltas(isRequested: true)
        deltas.keep(self.sync(Self.first, sequence: 1), of: .channel(one))
        deltas.keep(self.sync(Self.first, sequence: 1), of: .user)
        deltas.userEnded()
        expect(deltas.hasBases(of: .channel(one)) && !deltas.hasBases(of: .user))
        deltas.ended(one)
        expect(!deltas.hasBases(of: .channel(one)))
    }

    @Test func `another algorithm is refused until the settings or the server change`() throws {
        var deltas = EventDeltas(isRequested: true)
        let delta = try self.delta(Self.second, from: Self.first, sequence: 2, algorithm: "xdelta3")
        expectEqual(deltas.restore(delta, of: .user, limit: 1_000), .unsupported(algorithm: "xdelta3"))
        expect(deltas.refuse("xdelta3").code == .deltaFailed && deltas.support == .refused)
        deltas.changed(isRequested: true, isOtherServer: false)
        expectEqual(deltas.support, .refused)
        deltas.changed(isRequested: true, isOtherServer: true)
        expectEqual(deltas.support, .on)
        deltas.changed(isRequested: false, isOtherServer: false)
        expectEqual(deltas.support, .off)
        expectNil(EventDeltas.unsupportedAlgorithm(in: ["algorithm": "fossil"]))
    }
}

/// The sign-in, without a session.
@Suite struct SignInTests {
    private static let userData: JSONValue = ["user_data": #"{"id":"anna"}"#]
    private static let transient = PusherError.authenticationFailed("", "it failed.", cause: TransportError(.reset, "It failed."))

    private static func harness() -> SessionPartHarness {
        SessionPartHarness { $0.userAuthenticator = .callback { _ in PusherUserAuthentication(auth: "", userData: "") } }
    }

    /// Signs in up to the confirmation.
    private static func signIn(_ user: inout UserSession, _ harness: inout SessionPartHarness) throws {
        harness.call { context, _, effects in user.signIn(context, &effects) }
        try harness.call { context, work, effects throws(PusherError) in try user.begin(context, &work, &effects) }
        guard case .authenticating(let work) = user.state else { return }
        let authentication = PusherUserAuthentication(auth: "key:1", userData: "{}")
        harness.call { context, _, effects in user.authenticated(work, authentication, context, &effects) }
    }

    @Test func `a sign-in is authenticated, sent and confirmed`() throws {
        var (user, harness) = (UserSession(seed: 1), Self.harness())
        user.wait(WaiterID(rawValue: 5), ended: nil, &harness.effects)
        try Self.signIn(&user, &harness)
        expectEqual(harness.take(), ["user pending", "authenticate 1 1.2", "#1 pusher:signin key:1"])
        expect(user.state == .signingIn && user.receivesWatchlist && user.nextDeadline != nil)
        let subscriptions = try harness.call { context, _, effects throws(PusherFrameError) in
            try user.confirmed(Self.userData, context, &effects)
        }
        expect(subscriptions.isEmpty && user.channel == "#server-to-user-anna" && user.isChannel("#server-to-user-anna"))
        expectEqual(harness.take(), ["signed in as anna", "#1 pusher:subscribe #server-to-user-anna", "resume 5 as anna"])
        expect(user.nextDeadline == nil && user.waiterCount == 0)
    }

    @Test func `nothing begins without a connection or before the application asks`() throws {
        var (user, harness) = (UserSession(seed: 1), Self.harness())
        try harness.call { context, work, effects throws(PusherError) in try user.begin(context, &work, &effects) }
        expectEqual(user.state, .idle)
        harness.isConnected = false
        try Self.signIn(&user, &harness)
        expect(user.state == .waiting && harness.take() == ["user pending"])
    }

    @Test func `a temporary failure is retried and a loss cancels the authentication`() throws {
        var (user, harness) = (UserSession(seed: 1), Self.harness())
        try Self.signIn(&user, &harness)
        _ = harness.call { context, _, effects in user.failed(Self.transient, context, &effects) }
        _ = harness.take()
        harness.now = try #require(user.nextDeadline)
        let timeout = harness.call { context, work, effects in user.timeout(context, &work, &effects) }
        guard case .retry = timeout else { return expect(false, "it is not retried") }
        try harness.call { context, work, effects throws(PusherError) in try user.begin(context, &work, &effects) }
        expectEqual(harness.take(), ["user pending", "authenticate 2 1.2"])
        harness.call { context, work, effects in user.ended(context, &work, &effects) }
        expect(harness.take() == ["cancel 2"] && user.state == .waiting && user.nextDeadline == nil)
    }

    @Test func `a presence channel takes its member from its data or from the user, and waits for a sign-in`() throws {
        let channel = NamedChannel(id: one, name: "presence-a", kind: ChannelName.kind(of: "presence-a"))
        let (none, work) = (PusherChannelAuthorization(auth: "key:1"), WorkID(rawValue: 9))
        let own = PusherChannelAuthorization(auth: "key:1", channelData: #"{"user_id":"own"}"#)
        var (user, harness) = (UserSession(seed: 1), Self.harness())
        try expectEqual(user.member(of: channel, work, own), "own")
        #expect(throws: PusherError.self) { try user.member(of: channel, work, none) }
        try Self.signIn(&user, &harness)
        try expectNil(user.member(of: channel, work, none))
        let subscriptions = try harness.call { context, _, effects throws(PusherFrameError) in
            try user.confirmed(Self.userData, context, &effects)
        }
        expectEqual(subscriptions, [.init(channel: channel, work: work, authorization: none)])
        try expectEqual(user.member(of: channel, work, none), "anna")
        _ = harness.call { context, _, effects in user.failed(Self.transient, context, &effects) }
        let error = #expect(throws: PusherError.self) { try user.member(of: channel, work, none) }
        expectEqual(error?.isTransient, true)
    }
}

/// Gaps and missed events, without a session.
@Suite struct EventRecoveryTests {
    private static let channel = NamedChannel(id: one, name: "one", kind: ChannelName.kind(of: "one"))

    private func frame<Result>(_ serial: Int?, _ body: (PusherFrame) throws -> Result) throws -> Result {
        let position = serial.map { #","stream_id":"s","serial":\#($0)"# } ?? ""
        return try Array(#"{"event":"a","channel":"one"\#(position)}"#.utf8).withUnsafeBytes { try body(try PusherFrame(scanning: $0)) }
    }

    private func confirm(
        _ serial: Int?, _ recovery: inout EventRecovery, _ harness: inout SessionPartHarness
    ) throws -> [String] {
        try self.frame(serial) { frame in
            _ = harness.call { context, _, effects in recovery.confirmed(Self.channel, frame, context, &effects) }
        }
        return harness.take()
    }

    private func receive(_ serial: Int, _ recovery: inout EventRecovery) throws -> EventRecovery.Reception {
        try self.frame(serial) { recovery.received($0, on: one, isCache: false, isSubscribing: true) }
    }

    @Test func `a gap lasts from the interruption to the next confirmation`() throws {
        var (recovery, harness) = (EventRecovery(isOn: false), SessionPartHarness())
        try expect(self.confirm(nil, &recovery, &harness) == [] && !recovery.isInterrupted(one))
        recovery.interrupted(one, since: harness.now)
        recovery.interrupted(one, since: harness.now.advanced(by: .seconds(1)))
        recovery.ended(one)
        harness.now = harness.now.advanced(by: .seconds(3))
        expect(recovery.isInterrupted(one))
        try expect(self.confirm(nil, &recovery, &harness) == ["one gap 3.0 seconds"] && !recovery.isInterrupted(one))
    }

    @Test func `missed events are requested, and newer ones wait for them`() throws {
        var (recovery, harness) = (EventRecovery(isOn: true), SessionPartHarness())
        try expectEqual(self.confirm(3, &recovery, &harness), [])
        recovery.interrupted(one, since: harness.now)
        recovery.ended(one)
        try expect(self.confirm(5, &recovery, &harness).count == 1 && recovery.oldestRequest == one)
        try expectEqual(self.receive(6, &recovery), .wait)
        try expectEqual(self.receive(4, &recovery), .deliver)
        try expectEqual(self.receive(4, &recovery), .drop)
        let position = ChannelPosition(streamID: "s", serial: 5)
        let events = harness.call { context, _, effects in recovery.answered(Self.channel, .recovered(position), context, &effects) }
        expect(events.count == 1 && !recovery.isInterrupted(one) && recovery.nextDeadline == nil && harness.take() == [])
        let late = harness.call { context, _, effects in recovery.answered(Self.channel, .failed(.timedOut), context, &effects) }
        expect(late.isEmpty && harness.take() == [])
    }

    @Test func `a request that fails or times out is a gap with the reason`() throws {
        for failure in [PusherRecoveryFailure.positionExpired, .timedOut] {
            var (recovery, harness) = (EventRecovery(isOn: true), SessionPartHarness())
            _ = try self.confirm(3, &recovery, &harness)
            recovery.interrupted(one, since: harness.now)
            recovery.ended(one)
            _ = try self.confirm(5, &recovery, &harness)
            let deadline = try #require(recovery.nextDeadline)
            expect(failure != .timedOut || recovery.popTimedOut(deadline) == one)
            _ = harness.call { context, _, effects in recovery.answered(Self.channel, .failed(failure), context, &effects) }
            expect(harness.take() == ["one gap 0.0 seconds, \(failure)"] && recovery.nextDeadline == nil)
        }
    }

    @Test func `a removed channel and a change of the settings end requests`() throws {
        var (recovery, harness) = (EventRecovery(isOn: true), SessionPartHarness())
        _ = try self.confirm(3, &recovery, &harness)
        harness.call { context, _, effects in recovery.dropped(Self.channel, context, &effects) }
        expectEqual(recovery.oldestRequest, one)
        var other = recovery
        _ = recovery.removed(one)
        other.changed(isOn: false)
        expect(recovery.oldestRequest == nil && other.oldestRequest == nil && !recovery.isInterrupted(one))
    }

    @Test func `events of a subscription that was given up are reported once`() throws {
        var (recovery, harness) = (EventRecovery(isOn: false), SessionPartHarness())
        recovery.interrupted(one, since: harness.now)
        for _ in 1...2 { harness.call { context, _, effects in recovery.receivedUnconfirmed(Self.channel, context, &effects) } }
        expect(harness.take() == ["one gap 0.0 seconds"] && recovery.isInterrupted(one))
        recovery.anySubscriptionConfirmed(one)
        recovery.replacing(one)
        harness.call { context, _, effects in recovery.receivedUnconfirmed(Self.channel, context, &effects) }
        expectEqual(harness.take(), [])
    }

    @Test func `the answers of the server name their channels`() throws {
        let data: JSONValue = [
            "recovered": [["channel": "a", "position": ["stream_id": "s", "serial": 4]], ["channel": "b"]],
            "failed": [["channel": "c", "code": "stream_reset"], ["channel": "d", "reason": "why"], [:]],
        ]
        let answers = try EventRecovery.answers(in: data) { "<\($0)>" }
        expectEqual(answers.map(\.channel), ["a", "b", "c", "d", nil])
        expect(answers[0].1 == .recovered(ChannelPosition(streamID: "s", serial: 4)) && answers[1].1 == .recovered(nil))
        expect(answers[3].1 == .failed(.other("<why>")) && answers[4].1 == .failed(.other("<the server gave no reason>")))
        #expect(throws: PusherFrameError.self) { try EventRecovery.answers(in: [:]) { $0 } }
    }
}
