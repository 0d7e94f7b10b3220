import CommandLineSupport
import PusherWire
import RealtimeCore
import RealtimeCoding
import RealtimeSystem

/// Reports every frame of a Pusher server, without signatures, and with the socket ID of its connection.
final class PusherFrameTrace: Sendable {
    private let socketIDs = Lock<[ConnectionID: String]>([:])
    /// Called on the listener's threads and without a lock. It must not wait.
    private let report: @Sendable (Line) -> Void

    init(_ report: @escaping @Sendable (Line) -> Void) {
        self.report = report
    }

    func trace(_ id: ConnectionID, _ action: ConnectionAction) {
        switch action {
        case .sent(let kind, let payload):
            // The first frame assigns the socket ID.
            if self.socketID(id) == nil, let socketID = Self.socketID(in: kind, payload) {
                self.socketIDs.withLock { $0[id] = socketID }
            }
            self.report(.frame(FrameTrace().text(kind, payload), from: .server, socketID: self.socketID(id)))
        case .received(let kind, let payload):
            self.report(.frame(FrameTrace().text(kind, payload), from: .client, socketID: self.socketID(id)))
        case .abandoned, .receivedClose, .ended: self.socketIDs.withLock { $0[id] = nil }
        case .opened, .sentClose: break
        }
    }

    private func socketID(_ id: ConnectionID) -> String? { self.socketIDs.withLock { $0[id] } }

    private static func socketID(in kind: TransportMessage.Kind, _ payload: ArraySlice<UInt8>) -> String? {
        guard kind == .text, let frame = try? JSONValue(parsing: Array(payload)),
            frame["event"]?.string == EventName.connectionEstablished, let data = frame["data"]?.string
        else { return nil }
        return (try? JSONValue(parsing: data))?["socket_id"]?.string
    }
}
