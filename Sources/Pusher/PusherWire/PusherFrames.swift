package import RealtimeCoding
package import RealtimeCore

/// Encodes the protocol's frames.
package enum PusherFrames {
    // MARK: Client to server

    package static let ping = TransportMessage.text(#"{"event":"pusher:ping","data":{}}"#)
    package static let pong = TransportMessage.text(#"{"event":"pusher:pong","data":{}}"#)

    /// Returns a subscription request. `channelData` is sent byte for byte as authorized, because the signature covers it.
    package static func subscribe(
        _ channel: String, auth: String? = nil, channelData: String? = nil, filter: PusherFilter? = nil
    ) -> TransportMessage {
        self.frame(EventName.subscribe) { json in
            json.key("data")
            json.beginObject()
            json.key("channel")
            json.value(channel)
            if let auth {
                json.key("auth")
                json.value(auth)
            }
            if let channelData {
                json.key("channel_data")
                json.value(channelData)
            }
            if let filter {
                json.key("filter")
                filter.append(to: &json)
            }
            json.endObject()
        }
    }

    package static func unsubscribe(_ channel: String) -> TransportMessage {
        self.frame(EventName.unsubscribe) { json in
            json.key("data")
            json.beginObject()
            json.key("channel")
            json.value(channel)
            json.endObject()
        }
    }

    /// Returns a client event.
    ///
    /// - Parameter data: The data as JSON.
    package static func clientEvent(_ name: String, channel: String, data: [UInt8]) -> TransportMessage {
        var bytes = self.beginClientEvent(name, channel: channel, capacity: data.count)
        bytes += data
        return self.endClientEvent(&bytes)
    }

    /// Returns the start of a client event. The caller appends the data as JSON and calls ``endClientEvent(_:)``.
    ///
    /// - Parameter capacity: The number of bytes to reserve for the data.
    package static func beginClientEvent(_ name: String, channel: String, capacity: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(32 &+ name.utf8.count &+ channel.utf8.count &+ capacity)
        JSONWriter.append(literal: #"{"event":"#, to: &bytes)
        JSONWriter.append(name, to: &bytes)
        JSONWriter.append(literal: #","channel":"#, to: &bytes)
        JSONWriter.append(channel, to: &bytes)
        JSONWriter.append(literal: #","data":"#, to: &bytes)
        return bytes
    }

    /// Completes the message that ``beginClientEvent(_:channel:capacity:)`` started.
    package static func endClientEvent(_ bytes: inout [UInt8]) -> TransportMessage {
        bytes.append(UInt8(ascii: "}"))
        return TransportMessage(.text, bytes)
    }

    // MARK: Server to client

    /// Returns a ping of a server that sends its data in this form.
    package static func ping(_ form: PusherDataForm) -> TransportMessage { self.nested(EventName.ping, as: form) { _ in } }

    /// Returns a pong of a server that sends its data in this form.
    package static func pong(_ form: PusherDataForm) -> TransportMessage { self.nested(EventName.pong, as: form) { _ in } }

    package static func connectionEstablished(socketID: String, activityTimeout: Int) -> TransportMessage {
        self.nested(EventName.connectionEstablished) { data in
            data.key("socket_id")
            data.value(socketID)
            data.key("activity_timeout")
            data.value(activityTimeout)
        }
    }

    package static func error(
        _ code: Int?, _ message: String, channel: String? = nil, omitsMissingCode: Bool = false, as form: PusherDataForm = .json
    ) -> TransportMessage {
        self.nested(EventName.error, channel: channel, as: form) { data in
            if code != nil || !omitsMissingCode {
                data.key("code")
                if let code { data.value(code) } else { data.null() }
            }
            data.key("message")
            data.value(message)
        }
    }

    package static func subscriptionSucceeded(_ channel: String, as form: PusherDataForm = .string) -> TransportMessage {
        self.nested(EventName.subscriptionSucceeded, channel: channel, as: form) { _ in }
    }

    /// Returns the confirmation of a subscription to a presence channel.
    ///
    /// - Parameters:
    ///   - listsIDs: Whether the IDs of the members have a list of their own.
    ///   - hasNumericIDs: Whether IDs that are integers are sent as numbers.
    package static func subscriptionSucceeded(
        _ channel: String, members: [(id: String, info: JSONValue?)], listsIDs: Bool = true, hasNumericIDs: Bool = false
    ) -> TransportMessage {
        self.nested(EventName.subscriptionSucceeded, channel: channel) { data in
            data.key("presence")
            data.beginObject()
            if listsIDs {
                data.key("ids")
                data.beginArray()
                for member in members { self.append(userID: member.id, isNumeric: hasNumericIDs, to: &data) }
                data.endArray()
            }
            data.key("hash")
            data.beginObject()
            for member in members {
                data.key(member.id)
                data.value(member.info ?? .null)
            }
            data.endObject()
            data.key("count")
            data.value(members.count)
            data.endObject()
        }
    }

    package static func memberAdded(
        _ channel: String, id: String, info: JSONValue?, hasNumericIDs: Bool = false, as form: PusherDataForm = .string
    ) -> TransportMessage {
        self.member(EventName.memberAdded, channel, id: id, info: info, hasNumericIDs, form)
    }

    package static func memberRemoved(
        _ channel: String, id: String, info: JSONValue? = nil, hasNumericIDs: Bool = false, as form: PusherDataForm = .string
    ) -> TransportMessage {
        self.member(EventName.memberRemoved, channel, id: id, info: info, hasNumericIDs, form)
    }

    private static func member(
        _ event: String, _ channel: String, id: String, info: JSONValue?, _ hasNumericIDs: Bool, _ form: PusherDataForm
    ) -> TransportMessage {
        self.nested(event, channel: channel, as: form) { data in
            data.key("user_id")
            self.append(userID: id, isNumeric: hasNumericIDs, to: &data)
            if let info {
                data.key("user_info")
                data.value(info)
            }
        }
    }

    /// Writes the ID of a user, as a number if the server sends numbers and it is one.
    static func append(userID: String, isNumeric: Bool, to json: inout JSONWriter) {
        if isNumeric, let number = Int(userID), "\(number)" == userID { json.value(number) } else { json.value(userID) }
    }

    /// Returns an event of the application, whose data is a string.
    package static func event(
        _ name: String, channel: String, data: String, userID: String? = nil, hasNumericIDs: Bool = false
    ) -> TransportMessage {
        self.frame(name, channel: channel) { json in
            json.key("data")
            json.value(data)
            if let userID {
                json.key("user_id")
                self.append(userID: userID, isNumeric: hasNumericIDs, to: &json)
            }
        }
    }

    @inline(__always)
    static func frame(
        _ event: String, channel: String? = nil, _ appendMembers: (inout JSONWriter) -> Void
    ) -> TransportMessage {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(48 + event.utf8.count)
        var json = JSONWriter(bytes)
        json.beginObject()
        json.key("event")
        json.value(event)
        if let channel {
            json.key("channel")
            json.value(channel)
        }
        appendMembers(&json)
        json.endObject()
        return TransportMessage(.text, json.bytes)
    }

    /// Returns an event whose data is a JSON object, or a string that contains one, as the service sends most events.
    static func nested(
        _ event: String, channel: String? = nil, as form: PusherDataForm = .string, _ appendMembers: (inout JSONWriter) -> Void
    ) -> TransportMessage {
        self.frame(event, channel: channel) { json in
            switch form {
            case .omitted: return
            case .json:
                json.key("data")
                json.beginObject()
                appendMembers(&json)
                json.endObject()
            case .string:
                var data = JSONWriter()
                data.beginObject()
                appendMembers(&data)
                data.endObject()
                json.key("data")
                data.bytes.withUnsafeBytes { json.string($0) }
            }
        }
    }
}
