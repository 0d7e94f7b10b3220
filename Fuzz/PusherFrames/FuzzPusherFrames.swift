import PusherWire
import RealtimeCore

/// Reads arbitrary text as a Pusher frame. Reading must not crash, and a frame must survive writing and reading.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzPusherFrames(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = UnsafeRawBufferPointer(start: start, count: count)
    // The transport rejects text that is not valid UTF-8.
    guard String(validating: input, as: UTF8.self) != nil else { return 0 }
    guard let frame = try? PusherFrame(scanning: input) else { return 0 }

    let (event, channel, data, user) = (frame.eventName, frame.channelName, frame.dataText, frame.user)
    precondition(frame.isReserved == EventName.isReserved(event), "the frame and its name disagree")
    precondition(data.map { Array($0.utf8) } ?? [] == frame.dataBytes, "the data's text and bytes disagree")
    interpret(frame)

    let written = PusherFrames.event(event, channel: channel ?? "", data: data ?? "", userID: user)
    written.bytes.withUnsafeBytes { bytes in
        guard let again = try? PusherFrame(scanning: bytes) else { preconditionFailure("the written frame cannot be read") }
        precondition(again.eventName == event, "the event name has changed")
        precondition(again.channelName == channel ?? "", "the channel name has changed")
        precondition(again.dataText == data ?? "", "the data has changed")
        precondition(again.user == user, "the user ID has changed")
    }
    return 0
}

/// Interprets the frame's data as that of all events of the protocol. Errors are ignored.
private func interpret(_ frame: PusherFrame) {
    guard let value = try? frame.dataValue() else { return }
    _ = try? ConnectionEstablished(value)
    _ = ServerError(frame)
    _ = try? PresenceUser(value)
    _ = try? PresenceUser.list(value)
    _ = ChannelName.validationError(frame.eventName)
    _ = EventName.validationError(frame.eventName)
}
