import CommandLineSupport
import PusherChannels

extension Line {
    /// A state of a client's connection.
    static func state(_ state: PusherConnectionState) -> Line {
        switch state {
        case .connected(let socketID): .state(state.name, detail: "socket ID \(socketID)", style: .success)
        case .failed(let error), .disconnected(let error?): .state(state.name, detail: error.message, style: .error)
        case .unavailable: .state(state.name, detail: "still retrying", style: .warning)
        case .initialized, .connecting, .disconnected(nil): .state(state.name)
        }
    }

    /// An event that a client received.
    static func event(_ event: PusherEvent) -> Line {
        .event(channel: event.channel ?? "", event: event.name, data: event.data ?? "", userID: event.userID)
    }
}
