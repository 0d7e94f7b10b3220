import RealtimeCore
import RealtimeSystem
import SignalRWire
import TestSupport
import Testing

@testable import SignalRServer

/// A command of the machine in comparable form.
enum HubCommand: Equatable {
    /// A text without its separator. Several messages are several commands.
    case send(Int, String)
    case close(Int, CloseCode)
    case abandon(Int)
    /// The user's code for a method, or `connected` or `disconnected`.
    case start(String)
    case cancel([String])
    case reading(Int, paused: Bool)
    case resume(Int, String)
}

/// The machine without a driver: every input returns the commands that it caused. The user's code ends when the test says so.
struct HubMachineUnderTest: MachineHarness {
    var trial: MachineTrial<SignalRServerMachine>
    /// The calls that were started and haven't ended, oldest first.
    private(set) var calls: [HubCall] = []
    let hub: HubID

    init(_ change: (inout SignalRServerConfiguration) -> Void = { _ in }) {
        var configuration = SignalRServerConfiguration()
        change(&configuration)
        var machine = SignalRServerMachine(configuration, seed: 7)
        self.hub = machine.addHub("/hub")
        self.trial = MachineTrial(machine, logLevel: .info) { machine, consumer, effects in
            effects.routes.add(consumer, to: &machine.eventRoute)
        }
    }

    mutating func lines(of command: Effects<SignalRServerMachine>.Command) -> [HubCommand] {
        switch command {
        case .send(let id, let message):
            let texts = message.bytes.split(separator: 0x1E, omittingEmptySubsequences: true)
            return texts.map { .send(Int(id.rawValue), String(decoding: $0, as: UTF8.self)) }
        case .close(let id, let code, _): return [.close(Int(id.rawValue), code)]
        case .abandon(let id): return [.abandon(Int(id.rawValue))]
        case .work(_, .start(let call)):
            self.calls.append(call)
            return [.start(Self.name(call))]
        case .work(_, .cancel(let calls)): return [.cancel(calls.map(Self.name))]
        case .reading(let id, let isPaused): return [.reading(Int(id.rawValue), paused: isPaused)]
        case .resume(let waiter, let result): return [.resume(Int(waiter.rawValue), Self.text(result))]
        case .log, .release: return []
        case .open, .cancel, .awaitAnswer, .ignored, .endConsumers, .finish:
            Issue.record("unexpected command \(command)")
            return []
        }
    }

    static func name(_ call: HubCall) -> String {
        switch call.operation {
        case .connected: "connected"
        case .disconnected(let error): "disconnected\(error.map { ": \($0)" } ?? "")"
        case .invocation(let invocation, _): invocation.target
        }
    }

    private static func text(_ result: Result<SignalRServerMachine.WaiterResult, SignalRServerMachine.Failure>) -> String {
        switch result {
        case .success(.items(let items, let end)):
            (items.map { String(decoding: $0.bytes, as: UTF8.self) } + (end.map { ["\($0)"] } ?? [])).joined(separator: " ")
        case .success(.result(let payload)): payload.map { String(decoding: $0.bytes, as: UTF8.self) } ?? "void"
        case .success(.writable): "writable"
        case .failure(let failure): "\(failure)"
        }
    }

    // MARK: Inputs

    @discardableResult
    mutating func accept(_ number: Int, userID: String? = nil, target: String = "/hub") -> Bool {
        let admission = self.admission(userID: userID, target: target)
        var isAccepted = false
        self.step { machine, now, effects in
            guard machine.admit(admission) == nil else { return }
            isAccepted = machine.connected(admission, ConnectionID(rawValue: UInt64(number)), now: now, &effects)
        }
        return isAccepted
    }

    func admission(token: String? = nil, userID: String? = nil, target: String = "/hub") -> SignalRServerMachine.Admission {
        let request = HTTPRequestHead(method: "GET", target: token.map { "/hub?id=\($0)" } ?? target)
        return SignalRServerMachine.Admission(request: request, hub: self.hub, token: token, userID: userID)
    }

    /// Decides about an upgrade.
    ///
    /// - Returns: The status of the rejection; `nil` if it is accepted.
    mutating func admit(_ admission: SignalRServerMachine.Admission) -> Int? {
        var status: Int?
        self.step { machine, _, _ in status = machine.admit(admission)?.status }
        return status
    }

    /// The listener has no connection for an upgrade that was accepted.
    mutating func abandon(_ admission: SignalRServerMachine.Admission) { self.step { machine, _, _ in machine.abandoned(admission) } }

    /// Accepts a connection and completes its handshake and its first call.
    mutating func connect(_ number: Int, userID: String? = nil) {
        self.accept(number, userID: userID)
        self.receive(number, #"{"protocol":"json","version":1}"#)
        self.end("connected")
    }

    /// Receives messages, each in a WebSocket message of its own.
    @discardableResult
    mutating func receive(_ number: Int, _ texts: String...) -> [HubCommand] {
        self.receiveRaw(number, texts.map { $0 + "\u{1E}" })
    }

    @discardableResult
    mutating func receiveRaw(_ number: Int, _ texts: [String]) -> [HubCommand] {
        self.received(ConnectionID(rawValue: UInt64(number)), texts.map { .text($0) })
    }

    /// The user's code of the oldest call with this name returns.
    @discardableResult
    mutating func end(_ name: String, _ completion: HubCompletion = .void) -> [HubCommand] {
        guard let index = self.calls.firstIndex(where: { Self.name($0) == name }) else {
            Issue.record("no call \(name) is running")
            return []
        }
        let call = self.calls.remove(at: index)
        return self.step { machine, now, effects in machine.ended(call, completion, now: now, &effects) }
    }

    @discardableResult
    mutating func closed(_ number: Int, _ reason: CloseReason = .peer(.normal, "")) -> [HubCommand] {
        self.closed(ConnectionID(rawValue: UInt64(number)), reason)
    }

    func connectionID(_ number: Int) -> String {
        self.machine.connections[ConnectionID(rawValue: UInt64(number))]?.connectionID ?? "none"
    }

    // MARK: Callers

    /// A method waits for items of a stream.
    @discardableResult
    mutating func read(_ stream: String, of number: Int, waiter: Int) -> [HubCommand] {
        self.step { machine, now, effects in
            machine.readItems(
                of: ByteString(stream), ConnectionID(rawValue: UInt64(number)), WaiterID(rawValue: UInt64(waiter)), now: now, &effects)
        }
    }

    /// A method of a client is called.
    @discardableResult
    mutating func invoke(_ method: String, on number: Int, waiter: Int) -> [HubCommand] {
        let (hub, id) = (self.hub, self.connectionID(number))
        return self.step { machine, now, effects in
            machine.invoke(
                method, HubPayload(.json, Array("[]".utf8)), on: id, of: hub, WaiterID(rawValue: UInt64(waiter)), now: now, &effects)
        }
    }

    @discardableResult
    mutating func cancelWait(_ waiter: Int) -> [HubCommand] { self.cancel(waiter: UInt64(waiter)) }

    mutating func join(_ number: Int, _ group: String) {
        let (hub, id) = (self.hub, self.connectionID(number))
        self.step { machine, _, _ in machine.add(id, to: group, of: hub) }
    }

    /// - Returns: The numbers of the connections that receive a message.
    mutating func recipients(_ target: HubTarget) -> [Int] {
        let hub = self.hub
        let commands = self.step { machine, now, effects in
            machine.send([.json: .text("x\u{1E}")], to: target, of: hub, now: now, &effects)
        }
        return commands.compactMap { if case .send(let number, "x") = $0 { number } else { nil } }
    }

    // MARK: Negotiations

    mutating func negotiate(usesToken: Bool = true, wantsResuming: Bool = false) -> (id: String, token: String?)? {
        var result: (id: String, token: String?)?
        let hub = self.hub
        self.step { machine, now, effects in
            if case .connection(let connection) = machine.negotiate(
                hub, usesToken: usesToken, wantsResuming: wantsResuming, now: now, &effects)
            {
                result = (connection.id, connection.token)
            }
        }
        return result
    }

    /// Connects with stateful reconnect, and completes the handshake and the first call.
    ///
    /// - Returns: The token.
    mutating func connectResumable(_ number: Int, version: Int = 2) -> String {
        let token = self.negotiate(wantsResuming: true)?.token ?? "none"
        _ = self.upgrade(number, token: token)
        self.receive(number, #"{"protocol":"json","version":\#(version)}"#)
        self.end("connected")
        return token
    }

    /// The socket of a connection is lost.
    @discardableResult
    mutating func lose(_ number: Int) -> [HubCommand] { self.closed(number, .transport(TransportError(.reset, "lost"))) }

    /// Another socket resumes a connection.
    ///
    /// - Returns: The commands, or `nil` if the socket is refused.
    mutating func resume(_ number: Int, token: String) -> [HubCommand]? {
        var status: Int?
        let commands = self.upgrade(number, token: token, &status)
        return status == nil ? commands : nil
    }

    /// - Returns: The status of the rejection; `nil` if the connection is accepted.
    mutating func upgrade(_ number: Int, token: String) -> Int? {
        var status: Int?
        _ = self.upgrade(number, token: token, &status)
        return status
    }

    private mutating func upgrade(_ number: Int, token: String, _ status: inout Int?) -> [HubCommand] {
        let admission = self.admission(token: token)
        return self.step { machine, now, effects in
            status = machine.admit(admission)?.status
            guard status == nil else { return }
            let isAccepted = machine.connected(admission, ConnectionID(rawValue: UInt64(number)), now: now, &effects)
            expect(isAccepted)
        }
    }
}
