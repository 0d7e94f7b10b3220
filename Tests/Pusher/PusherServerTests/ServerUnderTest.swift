import RealtimeCoding
@testable import PusherServer
import PusherWire
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// A command of the machine in comparable form.
enum ServerCommand: Equatable {
    case send(Int, String)
    case close(Int, CloseCode, String)
    case abandon(Int)
    case run(hook: UInt64, String)
    case cancel(hook: UInt64)

    static func send(_ connection: Int, _ message: TransportMessage) -> Self {
        .send(connection, String(decoding: message.bytes, as: UTF8.self))
    }

    /// A short form: the event's name, with the code of an error, or the command's name.
    var summary: String {
        switch self {
        case .send(_, let text):
            guard let frame = try? JSONValue(parsing: text), let event = frame["event"]?.string else { return "raw" }
            let name = event.split(separator: ":").last ?? ""
            guard EventName.version7(event) == EventName.error else { return String(name) }
            // The data is JSON or a string that contains it.
            let data = frame["data"]?.string.flatMap { try? JSONValue(parsing: $0) } ?? frame["data"]
            return "error \(data?["code"]?.int.map { "\($0)" } ?? "null")"
        case .close(_, let code, _): return "close \(code)"
        case .abandon: return "abandon"
        case .run(_, let what): return "run \(what)"
        case .cancel: return "cancel"
        }
    }
}

/// The machine without a driver: every input returns the commands that it caused.
struct ServerUnderTest: MachineHarness {
    var trial: MachineTrial<PusherServerMachine>
    /// The hooks that were started, oldest first.
    private(set) var hooks: [UInt64] = []

    /// - Parameter isRecording: Whether a consumer records the events of the server.
    init(
        hooks: PusherServerMachine.Hooks = .init(), isRecording: Bool = true, logLevel: LogSink.Level = .error,
        _ change: (inout PusherApp) -> Void = { _ in }
    ) {
        var app = PusherApp(id: "1", key: "key", secret: "secret")
        change(&app)
        self.trial = MachineTrial(PusherServerMachine(app, hooks: hooks, seed: 7), logLevel: logLevel) { machine, consumer, effects in
            if isRecording { effects.routes.add(consumer, to: &machine.eventRoute) }
        }
    }

    mutating func lines(of command: Effects<PusherServerMachine>.Command) -> [ServerCommand] {
        switch command {
        case .send(let id, let message): return [.send(Int(id.rawValue), message)]
        case .close(let id, let code, let reason): return [.close(Int(id.rawValue), code, reason)]
        case .abandon(let id): return [.abandon(Int(id.rawValue))]
        case .work(let id, let work):
            self.hooks.append(id.rawValue)
            return [.run(hook: id.rawValue, Self.describe(work))]
        case .cancel(let id): return [.cancel(hook: id.rawValue)]
        case .log, .release: return []
        case .open, .reading, .resume, .awaitAnswer, .ignored, .endConsumers, .finish:
            Issue.record("unexpected command \(command)")
            return []
        }
    }

    private static func describe(_ work: PusherServerMachine.Work) -> String {
        switch work {
        case .connection(let attempt): "connection \(attempt.request.target)"
        case .subscription(let attempt): "subscription \(attempt.channel)\(attempt.userID.map { " as \($0)" } ?? "")"
        case .clientEvent(let event): "client event \(event.name) on \(event.channel): \(event.data)"
        }
    }

    var messagesIgnored: Int { self.counters.messagesIgnored }

    func socketID(_ number: Int) -> String { self.machine.connections[ConnectionID(number)]?.socketID ?? "none" }

    // MARK: Inputs

    @discardableResult
    mutating func accepted(_ number: Int, _ target: String = "/app/key?protocol=7") -> [ServerCommand] {
        self.step { $0.accepted(ConnectionID(number), HTTPRequestHead(method: "GET", target: target), now: $1, &$2) }
    }

    /// Establishes a connection on a server without a connection hook.
    @discardableResult
    mutating func connect(_ number: Int, version: Int = 7) -> [ServerCommand] {
        self.accepted(number, "/app/key?protocol=\(version)") + self.opened(number)
    }

    @discardableResult
    mutating func opened(_ number: Int) -> [ServerCommand] { self.opened(ConnectionID(number)) }

    @discardableResult
    mutating func received(_ number: Int, _ messages: TransportMessage...) -> [ServerCommand] {
        self.received(ConnectionID(number), messages)
    }

    @discardableResult
    mutating func closed(_ number: Int) -> [ServerCommand] {
        self.closed(ConnectionID(number), .peer(.normal, ""))
    }

    @discardableResult
    mutating func decide(_ decision: PusherServerDecision, hook: UInt64? = nil) -> [ServerCommand] {
        self.finish(hook ?? self.hooks.last ?? 0, decision)
    }

    mutating func suspendHeartbeat(_ number: Int, _ isSuspended: Bool = true) {
        self.step { machine, now, _ in machine.setSilent(ConnectionID(number), isSuspended, now: now) }
    }

    mutating func pauseReading(_ number: Int, _ isPaused: Bool = true) {
        self.step { machine, now, _ in machine.reading(ConnectionID(number), paused: isPaused, now: now) }
    }

    func subscribers(of channel: String) -> [ConnectionID] {
        self.machine.channels[ByteString(channel)].map { Array($0.subscribers) } ?? []
    }

    @discardableResult
    mutating func publish(_ event: String, to channel: String, except socketID: String? = nil) -> [ServerCommand] {
        self.step { $0.publish(event, to: channel, data: "1", except: socketID, now: $1, &$2) }
    }

    /// A subscription request with a valid signature where the channel requires one.
    func subscription(_ number: Int, _ channel: String, user: String? = nil) -> TransportMessage {
        guard ChannelName.kind(of: channel).needsAuthorization else { return PusherFrames.subscribe(channel) }
        let data = user.map { #"{"user_id":"\#($0)"}"# }
        let auth = ChannelSignature.token(
            key: "key", secret: "secret", socketID: self.socketID(number), channel: channel, channelData: data)
        return PusherFrames.subscribe(channel, auth: auth, channelData: data)
    }

    @discardableResult
    mutating func subscribe(_ number: Int, _ channel: String, user: String? = nil) -> [ServerCommand] {
        self.received(number, self.subscription(number, channel, user: user))
    }

    /// A request to sign in with a valid signature.
    ///
    /// - Parameter rest: Members of the user's data after the ID, as JSON that starts with a comma.
    func signInRequest(_ number: Int, as userID: String, _ rest: String = "") -> TransportMessage {
        self.signInRequest(number, userData: #"{"id":"\#(userID)"\#(rest)}"#)
    }

    func signInRequest(_ number: Int, userData: String) -> TransportMessage {
        let auth = UserSignature.token(key: "key", secret: "secret", socketID: self.socketID(number), userData: userData)
        return PusherFrames.signIn(auth: auth, userData: userData)
    }

    @discardableResult
    mutating func signIn(_ number: Int, as userID: String, _ rest: String = "") -> [ServerCommand] {
        self.received(number, self.signInRequest(number, as: userID, rest))
    }

    @discardableResult
    mutating func unsubscribe(_ number: Int, _ channel: String) -> [ServerCommand] {
        self.received(number, PusherFrames.unsubscribe(channel))
    }

    @discardableResult
    mutating func clientEvent(_ number: Int, _ name: String, on channel: String, data: String = "1") -> [ServerCommand] {
        self.received(number, PusherFrames.clientEvent(name, channel: channel, data: Array(data.utf8)))
    }
}

extension ConnectionID {
    init(_ number: Int) { self.init(rawValue: UInt64(number)) }
}
