import PusherWire
import RealtimeCore
import RealtimeCoding
import TestSupport
import Testing

@testable import PusherChannels

/// A Pusher session without a driver, sockets or a server, which describes its effects as lines of text.
///
/// The updates that consumer 1 receives come first, the commands follow. Log messages are left out.
struct SessionHarness: TextHarness {
    var trial: MachineTrial<PusherSession>
    var session: PusherSession { self.machine }

    init(logLevel: LogSink.Level = .error, _ change: (inout PusherConfiguration) -> Void = { _ in }) {
        var configuration = PusherConfiguration(key: "key", host: "host", useTLS: false)
        configuration.authorizer = .secret("unused: the tests finish the authorizations")
        change(&configuration)
        self.trial = MachineTrial(PusherSession(configuration, seed: 1), logLevel: logLevel) {
            $0.addConsumer($1, to: .updates(frames: false), &$2)
        }
    }

    /// A session that is connected as #1 with the socket ID 1.2, and has sent the subscriptions that need no authorization.
    static func connected(
        to channels: String..., configuration: (inout PusherConfiguration) -> Void = { _ in }
    ) -> SessionHarness {
        var harness = SessionHarness(configuration)
        for channel in channels { harness.subscribe(channel) }
        harness.start()
        harness.establish()
        return harness
    }

    // MARK: Inputs

    @discardableResult
    mutating func establish(_ data: String = #"{"socket_id":"1.2","activity_timeout":120}"#) -> [String] {
        self.opened(self.connection)
        return self.receive(#"{"event":"pusher:connection_established","data":\#(data)}"#)
    }

    @discardableResult
    mutating func subscribe(_ channel: String) -> [String] { self.step { _ = $0.subscribe(channel, now: $1, &$2) } }

    @discardableResult
    mutating func subscribe(_ channel: String, filter: PusherFilter?) -> [String] {
        self.step { _ = $0.subscribe(channel, filter: filter, now: $1, &$2) }
    }

    @discardableResult
    mutating func unsubscribe(_ channel: String) -> [String] { self.step { $0.unsubscribe(channel, now: $1, &$2) } }

    @discardableResult
    mutating func confirm(_ channel: String, data: String = "{}") -> [String] {
        self.receive(#"{"event":"pusher_internal:subscription_succeeded","channel":"\#(channel)","data":\#(data)}"#)
    }

    @discardableResult
    mutating func authorize(_ work: UInt64, channelData: String? = nil, sharedSecret: String? = nil) -> [String] {
        let authorization = PusherChannelAuthorization(auth: "key:\(work)", channelData: channelData, sharedSecret: sharedSecret)
        return self.finish(work, .channel(.success(authorization)))
    }

    @discardableResult
    mutating func failAuthorization(_ work: UInt64, status: Int? = nil) -> [String] {
        let cause = status == nil ? TransportError(.reset, "It failed.") : nil
        let error = PusherError.authorizationFailed("the channel", "", "it failed.", status: status, cause: cause)
        return self.finish(work, .channel(.failure(error)))
    }

    @discardableResult
    mutating func authenticate(_ work: UInt64, user: String) -> [String] {
        let authentication = PusherUserAuthentication(auth: "key:\(work)", userData: #"{"id":"\#(user)"}"#)
        return self.finish(work, .user(.success(authentication)))
    }

    @discardableResult
    mutating func failAuthentication(_ work: UInt64, status: Int? = nil) -> [String] {
        let error = PusherError.authenticationFailed("", "it failed.", status: status, cause: TransportError(.reset, "It failed."))
        return self.finish(work, .user(.failure(error)))
    }

    /// Answers a question to the policy for reconnects.
    @discardableResult
    mutating func decide(_ work: UInt64, _ delay: Duration?) -> [String] {
        self.finish(work, .retryDelay(delay))
    }

    /// Changes the settings.
    @discardableResult
    mutating func update(_ change: (inout PusherConfiguration) -> Void) -> [String] {
        self.step { session, now, effects in
            var configuration = session.latestSettings.configuration
            change(&configuration)
            let isChanged = session.setSettings(
                PusherSettings(configuration), replacing: session.latestSettings, now: now, &effects)
            expect(isChanged)
        }
    }

    /// Changes the settings and connects with them.
    @discardableResult
    mutating func switchServer(_ change: (inout PusherConfiguration) -> Void) -> [String] {
        self.update(change) + self.step { $0.switchServer(now: $1, &$2) }
    }

    @discardableResult
    mutating func signIn() -> [String] { self.step { $0.signIn(now: $1, &$2) } }

    /// Confirms the sign-in.
    @discardableResult
    mutating func confirmUser(_ user: String) -> [String] {
        self.receive(#"{"event":"pusher:signin_success","data":{"user_data":"{\"id\":\"\#(user)\"}"}}"#)
    }

    @discardableResult
    mutating func awaitSignedIn(_ waiter: UInt64) -> [String] {
        self.step { $0.awaitSignedIn(WaiterID(rawValue: waiter), &$2) }
    }

    mutating func trigger(_ event: String, on channel: String) -> [String] {
        let message = PusherFrames.clientEvent(event, channel: channel, data: Array("1".utf8))
        var result = Result<(ConnectionID, TransportMessage)?, PusherError>.success(nil)
        self.step { session, _, _ in
            result = Result { () throws(PusherError) in try session.trigger(message, channel: channel, id: .none) }
        }
        switch result {
        case .success(let (id, message)?): return self.lines(of: .send(id, message))
        case .success(nil): return ["queued"]
        case .failure(let error): return ["throws \(error.code)"]
        }
    }

    /// Triggers an event the way a client with a limit does.
    mutating func triggerLimited(_ event: String, on channel: String) -> [String] {
        let message = PusherFrames.clientEvent(event, channel: channel, data: Array("1".utf8))
        var failure: PusherError?
        let lines = self.step { session, now, effects in
            do throws(PusherError) {
                try session.trigger(message, channel: channel, id: .none, now: now, &effects)
            } catch {
                failure = error
            }
        }
        return lines + (failure.map { ["throws \($0.code)"] } ?? [])
    }

    mutating func awaitConnected(_ waiter: UInt64) -> [String] {
        self.step { $0.awaitConnected(WaiterID(rawValue: waiter), &$2) }
    }

    mutating func awaitEnd(_ waiter: UInt64) -> [String] { self.step { $0.awaitEnd(WaiterID(rawValue: waiter), &$2) } }

    mutating func awaitSubscribed(_ waiter: UInt64, _ channel: String) -> [String] {
        self.step { $0.awaitSubscribed(WaiterID(rawValue: waiter), channel: channel, &$2) }
    }

    @discardableResult
    mutating func addConsumer(_ id: UInt64, _ topic: PusherSession.Topic) -> [String] {
        self.step { $0.addConsumer(ConsumerID(rawValue: id), to: topic, &$2) }
    }

    // MARK: Descriptions

    func text(of update: PusherUpdate) -> String {
        switch update {
        case .event(let event): "event \(event)"
        // Attempts are tested separately, since every test would list them.
        case .attempt, .frame, .sentFrame: ""
        case .state(.failed(let error)): "state failed \(error.code)"
        case .state(.disconnected(let error?)): "state disconnected \(error.code)"
        case .state(let state): "state \(state.name)"
        case .connectingIn(let delay): delay < .seconds(1) ? "retry" : "retry after a second or more"
        case .error(let error): "error \(error.code)"
        case .subscription(let channel, .failed(let error)): "\(channel) failed \(error.code)"
        case .subscription(let channel, let state): "\(channel) \(state)"
        case .members(let channel, .subscribed(let members)): "\(channel) has \(members.map(\.id).joined(separator: ","))"
        case .members(let channel, .resubscribed(let members, let joined, let left)):
            "\(channel) has \(members.map(\.id).joined(separator: ",")), joined \(joined.map(\.id)), left \(left.map(\.id))"
        case .user(.signedIn(let user)): "signed in as \(user.id)"
        case .user(.failed(let error)): "sign-in failed \(error.code)"
        case .user(let state): "user \(state)"
        case .watchlist(let change): "watchlist \(change)"
        case .gap(let gap): "\(gap.channel) gap \(gap.duration)" + (gap.recoveryFailure.map { ", \($0)" } ?? "")
        case .subscriptionCount(let channel, let count): "\(channel) count \(count)"
        case .members(let channel, .joined(let member)): "\(channel) joined \(member.id)"
        case .members(let channel, .left(let member)): "\(channel) left \(member.id)"
        }
    }

    func text(of message: TransportMessage) -> String {
        let frame = try? JSONValue(parsing: message.bytes)
        let data = frame?["data"]
        let parts = [
            frame?["event"]?.string, (data?["channel"] ?? frame?["channel"])?.string, data?["auth"]?.string,
            data?["channel_data"]?.string, data?["channel_positions"]?.description,
            data?["filter"]?.description,
        ]
        return parts.compactMap { $0 }.joined(separator: " ")
    }

    func text(of work: PusherSession.Work, _ id: WorkID) -> String {
        switch work {
        case .channel(let request, _, _): "authorize \(id.rawValue) \(request.channel) \(request.socketID)"
        case .batch(let members, _, _):
            "authorize \(id.rawValue) with \(members.map { "\($0.work.rawValue) \($0.request.channel)" }.joined(separator: ", "))"
        case .user(let socketID, _, _): "authenticate \(id.rawValue) \(socketID)"
        case .retryDelay(let context, _): "ask \(id.rawValue) after \(context.retryCount) in \(context.elapsed)"
        }
    }

    func text(of result: PusherSession.WaiterResult) -> String {
        switch result {
        case .signedIn(let user): "as \(user.id)"
        case .connected(let socketID): socketID
        case .none: ""
        }
    }

    func text(of error: PusherError) -> String { "\(error.code)" }
}
