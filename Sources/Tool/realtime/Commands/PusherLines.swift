import CommandLineSupport
import PusherChannels

extension Line {
    /// A state of a client's connection. The error of a final state isn't part of it: it is the failure of the command.
    static func state(_ state: PusherConnectionState) -> Line {
        switch state {
        case .connected(let socketID): .state(state.name, socketID: socketID, style: .success)
        case .failed, .disconnected(.some): .state(state.name, style: .error)
        case .unavailable: .state(state.name, detail: "still retrying", style: .warning)
        case .initialized, .connecting, .disconnected(nil): .state(state.name)
        }
    }

    /// An event that a client received.
    static func event(_ event: PusherEvent) -> Line {
        .event(channel: event.channel, event: event.name, data: event.data, userID: event.userID)
    }

    /// A change of the members of a presence channel.
    static func members(_ channel: String, _ change: PusherMemberChange) -> Line {
        switch change {
        case .subscribed(let members):
            Line(
                [
                    Span(channel, .name), Span(": \(members.count) member\(members.count == 1 ? "" : "s"): "),
                    Span(members.map(\.id).joined(separator: ", "), .name),
                ],
                [
                    "type": "members", "channel": .string(channel), "me": (members.me?.id).map(Value.string),
                    "members": .json(.array(members.map { .object($0.json) })),
                ])
        case .joined(let member): .member(member, "joined", channel, .success)
        case .left(let member): .member(member, "left", channel, .warning)
        }
    }

    private static func member(_ member: PusherMember, _ change: String, _ channel: String, _ style: Style) -> Line {
        Line(
            [.init(channel, .name), ": ", .init(member.id, .name), " ", .init(change, style)],
            [
                "type": .string(change), "channel": .string(channel), "user_id": .string(member.id),
                "user_info": member.visibleInfo.map(Value.json),
            ])
    }

    /// A frame that was received, without the signatures in it.
    ///
    /// - Parameters:
    ///   - frame: The text of the frame.
    ///   - socketID: The socket ID of the sender; `nil` for a frame of the server.
    static func frame(_ frame: String, from socketID: String? = nil) -> Line {
        let text = FrameText.redacted(frame)
        return Line(
            [Span((socketID.map { "\($0) sent " } ?? "received ") + text, .faint)],
            ["type": "frame", "socket_id": socketID.map(Value.string), "data": .string(text)])
    }
}

extension PusherMember {
    /// The member as in the protocol's events.
    fileprivate var json: JSONObject {
        var json: JSONObject = ["user_id": .string(self.id)]
        if let info = self.visibleInfo { json["user_info"] = info }
        return json
    }

    /// The information about the user, without the `null` that stands for none in lists of members.
    fileprivate var visibleInfo: JSONValue? { self.info == .null ? nil : self.info }
}

extension ToolFailure {
    init(_ error: PusherError) {
        self.init(error.message, code: error.serverCode)
    }
}

/// The text of frames, for output.
enum FrameText {
    /// Replaces the signatures in a frame of the protocol with an ellipsis. The events of an application are left unchanged.
    ///
    /// A signature has 64 hexadecimal digits. A server may quote a part of one in an error.
    static func redacted(_ frame: String) -> String {
        guard (try? JSONValue(parsing: frame))?["event"]?.string.map({ $0.hasPrefix("pusher") }) ?? true else { return frame }
        var result: [UInt8] = []
        var digits: [UInt8] = []
        for byte in frame.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x46, 0x61...0x66: digits.append(byte)
            default:
                result += digits.count < 32 ? digits : Array("…".utf8)
                result.append(byte)
                digits.removeAll(keepingCapacity: true)
            }
        }
        return String(decoding: result + (digits.count < 32 ? digits : Array("…".utf8)), as: UTF8.self)
    }
}
