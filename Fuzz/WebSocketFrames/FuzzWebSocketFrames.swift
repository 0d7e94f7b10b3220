import RealtimeCore
import RealtimeSockets

struct DecodedFrames: Equatable {
    var messages: [TransportMessage] = []
    var end: FrameDecoder.End?
}

func decode(_ pieces: [UnsafeRawBufferPointer], _ role: WebSocketRole) -> DecodedFrames {
    var decoder = FrameDecoder(role: role, messageLimit: 300)
    var result = DecodedFrames()
    var batch = MessageBatch()
    for piece in pieces {
        batch.removeAll()
        let step = decoder.decode(piece, into: &batch)
        precondition(result.end == nil || (batch.entries.isEmpty && step.end == nil))
        result.messages += batch.messages
        result.end = result.end ?? step.end
        precondition(step.hasPing == batch.entries.contains { $0.kind == .ping })
    }
    for message in result.messages {
        switch message.kind {
        case .text: precondition(Array(String(decoding: message.bytes, as: UTF8.self).utf8) == message.bytes)
        case .binary: precondition(message.bytes.count <= 300)
        case .ping, .pong: precondition(message.bytes.count <= 125)
        }
    }
    return result
}

/// Encodes the messages and decodes the result, which must contain the same messages.
func checkRoundTrip(_ messages: [TransportMessage], _ role: WebSocketRole) {
    var output: [UInt8] = []
    for message in messages {
        FrameEncoder.append(message.kind, message.bytes, mask: role == .server ? 0x8040_2010 : nil, to: &output)
    }
    let again = output.withUnsafeBytes { decode([$0], role) }
    precondition(again == DecodedFrames(messages: messages))
}

/// Decodes frames as a whole, in two pieces and byte by byte, with the same result. The first byte of the input is the position of the
/// split and the role.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0 else { return 0 }
    let bytes = UnsafeRawBufferPointer(start: start + 1, count: count - 1)
    let split = bytes.isEmpty ? 0 : Int(start[0] >> 1) % bytes.count
    let role: WebSocketRole = start[0] & 1 == 0 ? .client : .server
    let halves = [UnsafeRawBufferPointer(rebasing: bytes[..<split]), UnsafeRawBufferPointer(rebasing: bytes[split...])]
    let whole = decode([bytes], role)
    precondition(decode(halves, role) == whole)
    precondition(decode(bytes.indices.map { UnsafeRawBufferPointer(rebasing: bytes[$0...$0]) }, role) == whole)
    checkRoundTrip(whole.messages, role)
    return 0
}
