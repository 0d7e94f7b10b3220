import RealtimeCore
import RealtimeSockets

struct Outcome: Equatable {
    var messages: [WebSocketMessage] = []
    var end: FrameDecoder.End?
}

func read(_ pieces: [UnsafeRawBufferPointer], _ role: WebSocketRole) -> Outcome {
    var decoder = FrameDecoder(role: role, messageLimit: 300)
    var outcome = Outcome()
    var batch = MessageBatch()
    for piece in pieces {
        batch.removeAll()
        let result = decoder.decode(piece, into: &batch)
        precondition(outcome.end == nil || (batch.entries.isEmpty && result.end == nil))
        outcome.messages += batch.messages
        outcome.end = outcome.end ?? result.end
        if let ping = result.latestPing {
            precondition(batch.entries.last { $0.kind == .ping }?.range == ping)
        }
    }
    for message in outcome.messages {
        switch message.kind {
        case .text: precondition(Array(String(decoding: message.bytes, as: UTF8.self).utf8) == message.bytes)
        case .binary: precondition(message.bytes.count <= 300)
        case .ping, .pong: precondition(message.bytes.count <= 125)
        }
    }
    return outcome
}

/// What was decoded is encoded again and has to be decoded to the same.
func checkRoundTrip(_ messages: [WebSocketMessage], _ role: WebSocketRole) {
    var output: [UInt8] = []
    for message in messages {
        FrameEncoder.append(message.kind, message.bytes, mask: role == .server ? 0x8040_2010 : nil, to: &output)
    }
    let again = output.withUnsafeBytes { read([$0], role) }
    precondition(again == Outcome(messages: messages))
}

/// The first byte says where to cut, and for which side. Whole, cut once and byte by byte have to come to the same.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0 else { return 0 }
    let bytes = UnsafeRawBufferPointer(start: start + 1, count: count - 1)
    let cut = bytes.isEmpty ? 0 : Int(start[0] >> 1) % bytes.count
    let role: WebSocketRole = start[0] & 1 == 0 ? .client : .server
    let whole = read([bytes], role)
    precondition(read([UnsafeRawBufferPointer(rebasing: bytes[..<cut]), UnsafeRawBufferPointer(rebasing: bytes[cut...])], role) == whole)
    precondition(read(bytes.indices.map { UnsafeRawBufferPointer(rebasing: bytes[$0...$0]) }, role) == whole)
    checkRoundTrip(whole.messages, role)
    return 0
}
