import PusherWire
import RealtimeCore
import RealtimeJSON
import Testing

@testable import PusherChannels

/// A session without a driver, sockets or a server, which describes its effects as lines of text.
///
/// The updates that consumer 1 receives come first, the commands follow. Log messages are left out.
struct SessionHarness {
    private static let consumer = ConsumerID(rawValue: 1)

    private(set) var session: PusherSession
    private var effects = Effects<PusherSession>()
    private(set) var now = Instant(nanoseconds: 0)
    /// The updates of all other consumers since the last call to ``take()``.
    private var received: [UInt64: [String]] = [:]

    init(_ change: (inout PusherConfiguration) -> Void = { _ in }) {
        var configuration = PusherConfiguration(key: "key", host: "host", useTLS: false)
        configuration.authorizer = .secret("unused: the tests finish the authorizations")
        change(&configuration)
        self.session = PusherSession(configuration, seed: 1)
        self.session.addConsumer(Self.consumer, to: .updates(frames: false), &self.effects)
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

    var connection: ConnectionID { self.session.connection.current ?? ConnectionID(rawValue: 0) }
    var counters: Counters { self.effects.counters }

    @discardableResult
    mutating func step(_ input: (inout PusherSession, Instant, inout Effects<PusherSession>) -> Void) -> [String] {
        input(&self.session, self.now, &self.effects)
        return self.takeLines()
    }

    // MARK: Inputs

    @discardableResult
    mutating func start() -> [String] { self.step { $0.start(now: $1, &$2) } }

    @discardableResult
    mutating func stop() -> [String] { self.step { $0.stop(now: $1, &$2) } }

    @discardableResult
    mutating func establish(_ data: String = #"{"socket_id":"1.2","activity_timeout":120}"#) -> [String] {
        let id = self.connection
        self.step { $0.opened(id, head: HTTPResponseHead(status: 101), now: $1, &$2) }
        return self.receive(#"{"event":"pusher:connection_established","data":\#(data)}"#)
    }

    @discardableResult
    mutating func receive(_ frames: String..., on id: ConnectionID? = nil) -> [String] {
        let id = id ?? self.connection
        return self.step { $0.received(id, MessageBatch(frames.map { .text($0) }), now: $1, &$2) }
    }

    @discardableResult
    mutating func close(_ reason: CloseReason) -> [String] {
        let id = self.connection
        return self.step { $0.closed(id, reason, now: $1, &$2) }
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
        return self.step { $0.workFinished(WorkID(rawValue: work), .channel(.success(authorization)), now: $1, &$2) }
    }

    @discardableResult
    mutating func failAuthorization(_ work: UInt64, status: Int? = nil) -> [String] {
        let cause = status == nil ? TransportError(.reset, "It failed.") : nil
        let error = PusherError.authorizationFailed("the channel", "", "it failed.", status: status, cause: cause)
        return self.step { $0.workFinished(WorkID(rawValue: work), .channel(.failure(error)), now: $1, &$2) }
    }

    @discardableResult
    mutating func authenticate(_ work: UInt64, user: String) -> [String] {
        let authentication = PusherUserAuthentication(auth: "key:\(work)", userData: #"{"id":"\#(user)"}"#)
        return self.step { $0.workFinished(WorkID(rawValue: work), .user(.success(authentication)), now: $1, &$2) }
    }

    @discardableResult
    mutating func failAuthentication(_ work: UInt64, status: Int? = nil) -> [String] {
        let error = PusherError.authenticationFailed("", "it failed.", status: status, cause: TransportError(.reset, "It failed."))
        return self.step { $0.workFinished(WorkID(rawValue: work), .user(.failure(error)), now: $1, &$2) }
    }

    /// Answers a question to the policy for reconnects.
    @discardableResult
    mutating func decide(_ work: UInt64, _ delay: Duration?) -> [String] {
        self.step { $0.workFinished(WorkID(rawValue: work), .retryDelay(delay), now: $1, &$2) }
    }

    /// Changes the settings.
    @discardableResult
    mutating func update(_ change: (inout PusherConfiguration) -> Void) -> [String] {
        self.step { session, now, effects in
            var configuration = session.latestConfiguration
            change(&configuration)
            let isChanged = session.setConfiguration(
                configuration, replacing: session.latestConfiguration, now: now, &effects)
            #expect(isChanged)
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

    /// Moves the clock, and handles the deadlines on the way.
    @discardableResult
    mutating func advance(by duration: Duration) -> [String] {
        let end = self.now.advanced(by: duration)
        var lines: [String] = []
        while let deadline = self.session.nextDeadline, deadline <= end {
            self.now = max(self.now, deadline)
            lines += self.step { $0.timeout(now: $1, &$2) }
        }
        self.now = end
        return lines
    }

    mutating func trigger(_ event: String, on channel: String) -> [String] {
        let message = PusherFrames.clientEvent(event, channel: channel, data: Array("1".utf8))
        do throws(PusherError) {
            guard let (id, message) = try self.session.trigger(message, channel: channel, id: .none) else { return ["queued"] }
            return [Self.line(.send(id, message))]
        } catch {
            return ["throws \(error.code)"]
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

    /// Removes and returns the updates that consumers other than 1 received.
    mutating func take() -> [UInt64: [String]] {
        defer { self.received = [:] }
        return self.received
    }

    // MARK: Descriptions

    private mutating func takeLines() -> [String] {
        var lines: [String] = []
        var start = 0
        for run in self.effects.runs {
            let updates = self.effects.deliveries[start..<run.end].map(Self.line).filter { !$0.isEmpty }
            start = run.end
            for consumer in self.effects.routes[run.route] {
                if consumer == Self.consumer { lines += updates } else { self.received[consumer.rawValue, default: []] += updates }
            }
        }
        let commands = self.effects.commands
        self.effects.removeAll()
        self.effects.routes.removeRetired()
        for command in commands {
            // As the driver does.
            if case .endConsumers(let ids, _) = command { for id in ids { self.effects.routes.remove(id) } }
            let line = Self.line(command)
            if !line.isEmpty { lines.append(line) }
        }
        return lines
    }

    private static func line(_ update: PusherUpdate) -> String {
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

    private static func line(_ command: Effects<PusherSession>.Command) -> String {
        switch command {
        case .open(let id, let request): return "open \(id) \(request.endpoint)"
        case .send(let id, let message):
            let frame = try? JSONValue(parsing: message.bytes)
            let data = frame?["data"]
            let parts = [
                frame?["event"]?.string, (data?["channel"] ?? frame?["channel"])?.string, data?["auth"]?.string,
                data?["channel_data"]?.string, data?["channel_positions"]?.description,
                data?["filter"]?.description,
            ]
            return "\(id) " + parts.compactMap { $0 }.joined(separator: " ")
        case .close(let id, let code, _): return "close \(id) \(code)"
        case .abandon(let id): return "abandon \(id)"
        case .work(let id, .channel(let request, _, _)): return "authorize \(id.rawValue) \(request.channel) \(request.socketID)"
        case .work(let id, .batch(let members, _, _)):
            return "authorize \(id.rawValue) with \(members.map { "\($0.work.rawValue) \($0.request.channel)" }.joined(separator: ", "))"
        case .work(let id, .user(let socketID, _, _)): return "authenticate \(id.rawValue) \(socketID)"
        case .work(let id, .retryDelay(let context, _)): return "ask \(id.rawValue) after \(context.retryCount) in \(context.elapsed)"
        case .cancel(let id): return "cancel \(id.rawValue)"
        case .resume(let waiter, .success(.signedIn(let user))): return "resume \(waiter.rawValue) as \(user.id)"
        case .resume(let waiter, .success(.none)): return "resume \(waiter.rawValue)"
        case .resume(let waiter, .success(.connected(let socketID))): return "resume \(waiter.rawValue) \(socketID)"
        case .resume(let waiter, .failure(let error)): return "fail \(waiter.rawValue) \(error.code)"
        case .endConsumers(let ids, _): return ids.isEmpty ? "" : "end \(ids.map { "\($0.rawValue)" }.joined(separator: ","))"
        case .finish: return "finish"
        case .log: return ""
        }
    }
}

// MARK: The connection
