import PusherWire
import RealtimeCore

/// Any text through the reader of Pusher frames: nothing in it brings the reader down, and a frame that was read is read
/// the same after it was written.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzPusherFrames(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = UnsafeRawBufferPointer(start: start, count: count)
    // The transport has refused everything else by then.
    guard String(validating: input, as: UTF8.self) != nil else { return 0 }
    guard let frame = try? PusherFrame(scanning: input) else { return 0 }

    let (event, channel, data, user) = (frame.eventName, frame.channelName, frame.dataText, frame.user)
    precondition(frame.isReserved == EventName.isReserved(event), "the frame and its name disagree")
    precondition(data.map { Array($0.utf8) } ?? [] == frame.dataBytes, "the data's text and bytes disagree")
    readMeaning(frame)

    let written = PusherFrames.event(event, channel: channel ?? "", data: data ?? "", userID: user)
    written.bytes.withUnsafeBytes { bytes in
        guard let again = try? PusherFrame(scanning: bytes) else { preconditionFailure("what was written cannot be read") }
        precondition(again.eventName == event, "the event's name has changed")
        precondition(again.channelName == channel ?? "", "the channel's name has changed")
        precondition(again.dataText == data ?? "", "the data has changed")
        precondition(again.user == user, "the user's ID has changed")
    }
    return 0
}

/// Everything that looks at the data of the protocol's own events. That it throws is fine.
private func readMeaning(_ frame: PusherFrame) {
    guard let value = try? frame.dataValue() else { return }
    _ = try? ConnectionEstablished(value)
    _ = ServerError(frame)
    _ = try? PresenceUser(value)
    _ = try? PresenceUser.list(value)
    _ = ChannelName.validationError(frame.eventName)
    _ = EventName.validationError(frame.eventName)
}
