import RealtimeCoding
package import RealtimeCore

/// The position of an event in the history that a server keeps of a channel, or of a subscriber who has received all events up to it.
package struct ChannelPosition: Hashable, Sendable {
    /// The ID of the history. Another one means that the server has begun to count again.
    package var streamID: String
    package var serial: UInt64

    package init(streamID: String, serial: UInt64) {
        self.streamID = streamID
        self.serial = serial
    }
}

/// The position that a frame contains, as slices of the received text.
package struct FramePosition {
    private static let keys = JSONKeys("serial", "stream_id")

    package let serial: UInt64
    private let stream: JSONSlice
    private let bytes: UnsafeRawBufferPointer

    /// Returns the position in a frame, or `nil` if it has none, or an invalid one.
    ///
    /// It scans the text a second time, so that the scan of clients without recovery doesn't look for its names.
    package init?(_ frame: PusherFrame) {
        guard let scan = try? JSONObjectScan(frame.bytes, keys: Self.keys, isUTF8: true), scan[0].kind.isNumber, scan[1].kind.isString,
            let serial = UInt64(String(decoding: UnsafeRawBufferPointer(rebasing: frame.bytes[scan[0].range]), as: UTF8.self))
        else { return nil }
        self.serial = serial
        self.stream = scan[1]
        self.bytes = frame.bytes
    }

    package var streamID: String { JSONText.string(self.stream, in: self.bytes) }

    package var position: ChannelPosition { ChannelPosition(streamID: self.streamID, serial: self.serial) }

    /// Whether the position is in this history. Usually, it compares without creating a string.
    package func isIn(_ streamID: String) -> Bool {
        JSONText.isEqual(self.stream, streamID, in: self.bytes) || self.streamID == streamID
    }
}

/// Frames of the recovery of events, and the names of version 2 of the protocol, which sockudo has added.
extension PusherFrames {
    /// Returns a request for the events of a channel after a position.
    package static func resume(_ channel: String, after position: ChannelPosition) -> TransportMessage {
        self.nested(EventName.resume, as: .json) { data in
            data.key("channel_positions")
            data.beginObject()
            data.key(channel)
            data.beginObject()
            data.key("serial")
            data.value(position.serial)
            data.key("stream_id")
            data.value(position.streamID)
            data.endObject()
            data.endObject()
        }
    }

    /// Returns the result of a request for events.
    ///
    /// - Parameters:
    ///   - recovered: The channels whose events have been sent, with their numbers and the positions that they lead to.
    ///   - failed: The channels whose events are not available.
    package static func resumeSucceeded(
        recovered: [(channel: String, replayed: Int, position: ChannelPosition)], failed: [ResumeFailure]
    ) -> TransportMessage {
        self.nested(EventName.resumeSucceeded) { data in
            data.key("recovered")
            data.beginArray()
            for (channel, replayed, position) in recovered {
                data.beginObject()
                data.key("channel")
                data.value(channel)
                data.key("replayed")
                data.value(replayed)
                data.key("position")
                if replayed == 0 {
                    data.null()
                } else {
                    data.beginObject()
                    data.key("stream_id")
                    data.value(position.streamID)
                    data.key("serial")
                    data.value(position.serial)
                    data.endObject()
                }
                data.key("source")
                data.value("hot")
                data.endObject()
            }
            data.endArray()
            data.key("failed")
            data.beginArray()
            for failure in failed {
                data.beginObject()
                data.key("channel")
                data.value(failure.channel)
                failure.append(to: &data)
                data.endObject()
            }
            data.endArray()
        }
    }

    /// Returns the notice that the events of a channel are not available.
    package static func resumeFailed(_ failure: ResumeFailure) -> TransportMessage {
        self.nested(EventName.resumeFailed, channel: failure.channel) { failure.append(to: &$0) }
    }

    /// Adds a position to a frame that an embedded server has encoded.
    package static func positioned(_ message: TransportMessage, at position: ChannelPosition) -> TransportMessage {
        var bytes = message.bytes
        bytes.removeLast()
        JSONWriter.append(literal: #","stream_id":"#, to: &bytes)
        JSONWriter.append(position.streamID, to: &bytes)
        JSONWriter.append(literal: #","serial":"#, to: &bytes)
        bytes += Array("\(position.serial)}".utf8)
        return TransportMessage(.text, bytes)
    }

    /// Returns a frame with the prefix that version 2 has, if its event is one of the protocol.
    ///
    /// A server calls it for each message to each client. For an event of the application, it allocates no memory.
    package static func version2(_ message: TransportMessage) -> TransportMessage {
        guard message.bytes.count > self.start.count, message.bytes.starts(with: self.start) else { return message }
        switch message.bytes[self.start.count] {
        case UInt8(ascii: ":"), UInt8(ascii: "_"):
            return TransportMessage(.text, self.startInVersion2 + message.bytes[self.start.count...])
        default: return message
        }
    }

    private static let start = Array(#"{"event":"pusher"#.utf8)
    private static let startInVersion2 = Array(#"{"event":"sockudo"#.utf8)
}

/// Why the events of a channel cannot be recovered, as a server reports it.
package struct ResumeFailure: Hashable, Sendable {
    package var channel: String
    package var code: String
    package var reason: String
    package var expectedStreamID: String?
    package var currentStreamID: String?

    package init(channel: String, code: String, reason: String, expectedStreamID: String?, currentStreamID: String?) {
        self.channel = channel
        self.code = code
        self.reason = reason
        self.expectedStreamID = expectedStreamID
        self.currentStreamID = currentStreamID
    }

    fileprivate func append(to data: inout JSONWriter) {
        data.key("code")
        data.value(self.code)
        data.key("reason")
        data.value(self.reason)
        for (key, value) in [("expected_stream_id", self.expectedStreamID), ("current_stream_id", self.currentStreamID)] {
            data.key(key)
            if let value { data.value(value) } else { data.null() }
        }
    }
}
