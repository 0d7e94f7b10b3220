import CommandLineSupport
import PusherChannels
import PusherWire
import RealtimeSystem

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
        case .subscribed(let members), .resubscribed(let members, _, _):
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

    /// A notice that events of a channel may be missing.
    static func gap(_ gap: PusherGap) -> Line {
        Line(
            [Span(gap.channel, .name), Span(": events of the last \(gap.duration.inSeconds) may be missing", .warning)],
            ["type": "gap", "channel": .string(gap.channel), "seconds": .number(Double(gap.duration.nanoseconds) / 1e9)])
    }

    /// A user who is signed in.
    static func signedIn(_ userID: String) -> Line {
        Line(["signed in as ", Span(userID, .name)], ["type": "signed_in", "user_id": .string(userID)])
    }

    /// Users of the watchlist who came online or went offline.
    static func watchlist(_ change: PusherWatchlistChange) -> Line {
        let (type, ids, style): (String, [String], Style) =
            switch change {
            case .online(let ids): ("online", ids, .success)
            case .offline(let ids): ("offline", ids, .warning)
            }
        return Line(
            [Span(ids.joined(separator: ", "), .name), " ", Span(type, style)], ["type": .string(type), "user_ids": .strings(ids)])
    }

    /// The number of connections that are subscribed to a channel.
    static func subscriptionCount(_ channel: String, _ count: Int) -> Line {
        Line(
            [Span(channel, .name), Span(": \(count) connection\(count == 1 ? "" : "s")")],
            ["type": "subscription_count", "channel": .string(channel), "count": .integer(count)])
    }

    private static func member(_ member: PusherMember, _ change: String, _ channel: String, _ style: Style) -> Line {
        Line(
            [.init(channel, .name), ": ", .init(member.id, .name), " ", .init(change, style)],
            [
                "type": .string(change), "channel": .string(channel), "user_id": .string(member.id),
                "user_info": member.visibleInfo.map(Value.json),
            ])
    }

    /// A frame on a connection of a server, without the signatures in it.
    ///
    /// - Parameters:
    ///   - text: The text of the frame, as `FrameTrace` returns it.
    ///   - sender: Which side sent it.
    ///   - socketID: The socket ID of the connection; `nil` if the server doesn't accept it.
    static func frame(_ text: String, from sender: FrameSender, socketID: String?) -> Line {
        let verb = sender == .client ? "sent" : "received"
        return Line(
            [Span("\(socketID ?? "a client") \(verb) \(text)", .faint)], type: "frame", socketID: socketID,
            ["from": .string(sender.rawValue), "data": .string(text)])
    }

    /// A request to the HTTP API, without its signature.
    static func request(_ method: String, _ url: String, body: String) -> Line {
        Line(
            [Span("\(method) \(url) \(body)", .faint)],
            ["type": "request", "method": .string(method), "url": .string(url), "body": .string(body)])
    }

    /// A response of the HTTP API.
    static func response(_ status: Int, _ reason: String, body: String) -> Line {
        Line(
            [Span("\(status)\(reason.isEmpty ? "" : " \(reason)") \(body)", .faint)],
            ["type": "response", "status": .integer(status), "body": .string(body)])
    }

    /// A part of a response that arrives as a stream.
    static func responsePart(_ text: String) -> Line {
        Line([Span("received \(text)", .faint)], ["type": "response_part", "body": .string(text)])
    }

    /// A message of the client's log.
    static func log(_ level: LogSink.Level, _ message: String) -> Line {
        Line([Span(message, .faint)], ["type": "log", "level": .string(level.description), "message": .string(message)])
    }
}

/// The side of a connection that sent a frame.
enum FrameSender: String, Sendable { case client, server }

extension PusherMember {
    /// The member as in the protocol's events.
    fileprivate var json: JSONObject {
        var json: JSONObject = ["user_id": .string(self.id)]
        if let info = self.visibleInfo { json["user_info"] = info }
        return json
    }

    /// The information about the user, without the `null` that means none in lists of members.
    fileprivate var visibleInfo: JSONValue? { self.info == .null ? nil : self.info }
}

extension ToolFailure {
    init(_ error: PusherError) {
        self.init(error.messageOfTool, code: error.serverCode)
    }
}

extension PusherError {
    /// The message in the words of the tool, whose users have no configuration.
    var messageOfTool: String {
        let words = [
            ("`PusherConfiguration.path`", "the path of the URL"), ("`PusherConfiguration.headers`", "'--header'"),
            ("set `PusherConfiguration.validatesChannelNames` to false", "add '--any-channel-names'"),
            ("set `PusherPublisher.validatesChannelNames` to false", "add '--any-channel-names'"),
            ("`PusherConfiguration.eventDataLimit`", "'--event-data-limit'"), ("`PusherPublisher.eventDataLimit`", "'--event-data-limit'"),
        ]
        return words.reduce(self.message) { $0.replacingText($1.0, with: $1.1) }
    }
}
