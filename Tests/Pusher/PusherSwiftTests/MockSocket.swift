import Foundation
import NWWebSocket
import PusherSwift
import RealtimeSystem
import RealtimeTesting

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif
#if canImport(Network)
import Network
#endif

/// A socket that answers like a server, without a network, as the mocks of applications do.
final class MockSocket: NWWebSocket, @unchecked Sendable {
    let sent = EventRecorder<String>()
    let connects = EventRecorder<Void>()
    let disconnects = EventRecorder<NWProtocolWebSocket.CloseCode>()
    /// All calls, in order.
    let calls = EventRecorder<String>()
    private let settings = Lock(Settings())

    private struct Settings: Sendable {
        var answersConnect = true
        var socketID = 0
        var onCall: (@Sendable (_ call: String) -> Void)?
    }

    /// Called during each call, after it was recorded.
    var onCall: (@Sendable (_ call: String) -> Void)? {
        get { self.settings.withLock { $0.onCall } }
        set { self.settings.withLock { $0.onCall = newValue } }
    }

    private func record(_ call: String) {
        self.calls.record(call)
        self.onCall?(call)
    }

    /// Whether the socket connects as soon as it is asked to.
    var answersConnect: Bool {
        get { self.settings.withLock { $0.answersConnect } }
        set { self.settings.withLock { $0.answersConnect = newValue } }
    }

    init() { super.init(url: URL(string: "test")!) }

    override func connect() {
        self.connects.record(())
        self.record("connect")
        if self.answersConnect { self.succeed() }
    }

    override func disconnect(closeCode: NWProtocolWebSocket.CloseCode = .protocolCode(.normalClosure)) {
        self.disconnects.record(closeCode)
        self.record("disconnect")
        self.delegate?.webSocketDidDisconnect(connection: self, closeCode: closeCode, reason: nil)
    }

    override func send(string: String) {
        self.sent.record(string)
        self.record("send \(string)")
        guard let frame = (try? JSONSerialization.jsonObject(with: Data(string.utf8))) as? [String: Any],
            frame["event"] as? String == "pusher:subscribe", let data = frame["data"] as? [String: Any],
            let channel = data["channel"] as? String, !channel.hasSuffix("-pending")
        else { return }
        if channel.hasPrefix("presence-") {
            self.receive(
                #"{"event":"pusher_internal:subscription_succeeded","channel":"\#(channel)","data":"{\"presence\":{\"count\":1,\"ids\":[\"123\"],\"hash\":{\"123\":{\"name\":\"Anna\"}}}}"}"#
            )
        } else {
            self.receive(#"{"event":"pusher_internal:subscription_succeeded","channel":"\#(channel)","data":"{}"}"#)
        }
    }

    /// Reports the connection, in the order that mocks of applications use.
    func succeed() {
        let number = self.settings.withLock { settings in
            settings.socketID += 1
            return settings.socketID
        }
        self.receive(
            #"{"event":"pusher:connection_established","data":"{\"socket_id\":\"45481.\#(number)\",\"activity_timeout\":120}"}"#)
        self.delegate?.webSocketDidConnect(connection: self)
    }

    func receive(_ text: String) { self.delegate?.webSocketDidReceiveMessage(connection: self, string: text) }

    func close(_ code: NWProtocolWebSocket.CloseCode, _ reason: String? = nil) {
        self.delegate?.webSocketDidDisconnect(connection: self, closeCode: code, reason: reason.map { Data($0.utf8) })
    }
}

/// Records what a delegate is informed of.
final class RecordingDelegate: PusherDelegate {
    let calls = EventRecorder<String>()
    let logs = EventRecorder<String>()
    /// Called with each state, after it was recorded.
    var onState: ((ConnectionState) -> Void)?

    var states: [String] { self.calls.all.filter { $0.hasPrefix("state ") } }

    func debugLog(message: String) { self.logs.record(message) }
    func changedConnectionState(from old: ConnectionState, to new: ConnectionState) {
        self.calls.record("state \(old.stringValue()) → \(new.stringValue())")
        self.onState?(new)
    }
    func subscribedToChannel(name: String) { self.calls.record("subscribed \(name)") }
    func failedToSubscribeToChannel(name: String, response: URLResponse?, data: String?, error: NSError?) {
        let status = (response as? HTTPURLResponse).map { " \($0.statusCode)" } ?? ""
        self.calls.record("failed \(name)\(status)\(data.map { " \($0)" } ?? "")\(error == nil ? "" : " with an error")")
    }
    func failedToDecryptEvent(eventName: String, channelName: String, data: String?) {
        self.calls.record("undecryptable \(eventName) \(channelName)")
    }
    func receivedError(error: PusherError) { self.calls.record("error \(error.code.map(String.init) ?? "nil") \(error.message)") }
}
