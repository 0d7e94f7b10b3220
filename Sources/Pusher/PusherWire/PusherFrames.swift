package import RealtimeJSON
package import RealtimeCore

/// Encodes the protocol's frames.
package enum PusherFrames {
    // MARK: Client to server

    package static let ping = WebSocketMessage.text(#"{"event":"pusher:ping","data":{}}"#)
    package static let pong = WebSocketMessage.text(#"{"event":"pusher:pong","data":{}}"#)

    /// Returns a subscription request. `channelData` is sent byte for byte as authorized, because the signature covers it.
    package static func subscribe(_ channel: String, auth: String? = nil, channelData: String? = nil) -> WebSocketMessage {
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
            json.endObject()
        }
    }

    package static func unsubscribe(_ channel: String) -> WebSocketMessage {
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
    package static func clientEvent(_ name: String, channel: String, data: [UInt8]) -> WebSocketMessage {
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
    package static func endClientEvent(_ bytes: inout [UInt8]) -> WebSocketMessage {
        bytes.append(UInt8(ascii: "}"))
        return WebSocketMessage(.text, bytes)
    }

    // MARK: Server to client

    package static func connectionEstablished(socketID: String, activityTimeout: Int) -> WebSocketMessage {
        self.nested(EventName.connectionEstablished) { data in
            data.key("socket_id")
            data.value(socketID)
            data.key("activity_timeout")
            data.value(activityTimeout)
        }
    }

    package static func error(_ code: Int?, _ message: String, channel: String? = nil) -> WebSocketMessage {
        self.frame(EventName.error, channel: channel) { json in
            json.key("data")
            json.beginObject()
            json.key("code")
            if let code { json.value(code) } else { json.null() }
            json.key("message")
            json.value(message)
            json.endObject()
        }
    }

    package static func subscriptionSucceeded(_ channel: String) -> WebSocketMessage {
        self.event(EventName.subscriptionSucceeded, channel: channel, data: "{}")
    }

    package static func subscriptionSucceeded(_ channel: String, members: [(id: String, info: JSONValue?)]) -> WebSocketMessage {
        self.nested(EventName.subscriptionSucceeded, channel: channel) { data in
            data.key("presence")
            data.beginObject()
            data.key("ids")
            data.beginArray()
            for member in members { data.value(member.id) }
            data.endArray()
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

    package static func memberAdded(_ channel: String, id: String, info: JSONValue?) -> WebSocketMessage {
        self.nested(EventName.memberAdded, channel: channel) { data in
            data.key("user_id")
            data.value(id)
            if let info {
                data.key("user_info")
                data.value(info)
            }
        }
    }

    package static func memberRemoved(_ channel: String, id: String) -> WebSocketMessage {
        self.nested(EventName.memberRemoved, channel: channel) { data in
            data.key("user_id")
            data.value(id)
        }
    }

    /// Returns an event of the application, whose data is a string.
    package static func event(_ name: String, channel: String, data: String, userID: String? = nil) -> WebSocketMessage {
        self.frame(name, channel: channel) { json in
            json.key("data")
            json.value(data)
            if let userID {
                json.key("user_id")
                json.value(userID)
            }
        }
    }

    @inline(__always)
    private static func frame(
        _ event: String, channel: String? = nil, _ appendMembers: (inout JSONWriter) -> Void
    ) -> WebSocketMessage {
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
        return WebSocketMessage(.text, json.bytes)
    }

    /// Returns an event whose data is a string that contains a JSON object, as the service sends most events.
    private static func nested(_ event: String, channel: String? = nil, _ appendMembers: (inout JSONWriter) -> Void) -> WebSocketMessage {
        var data = JSONWriter()
        data.beginObject()
        appendMembers(&data)
        data.endObject()
        return self.frame(event, channel: channel) { json in
            json.key("data")
            data.bytes.withUnsafeBytes { json.string($0) }
        }
    }
}
