import PrimusWire
import RealtimeCoding
import RealtimeCore

/// Reads arbitrary bytes as messages and bodies of engine.io. The first byte chooses the version.
///
/// Reading must not crash, and packets must be the same after encoding and decoding.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzEngineIOPackets(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    guard count >= 1, let start else { return 0 }
    let version = start[0] & 1 == 0 ? EngineIOVersion.v3 : .v4
    let bytes = Array(UnsafeBufferPointer(start: start + 1, count: count - 1))
    let format = version == .v3 && EngineIOPayload.isBytes(bytes) ? .bytes : EngineIOPayloadFormat(version)

    for framing in [PrimusFraming.engineIO(version, .client), .engineIO(version, .server)] {
        bytes.withUnsafeBytes { framing.read(.binary, $0) { _ in } }
    }
    // The body of a response may contain anything.
    let whole = read(bytes, format, pieces: .max)
    precondition(whole == read(bytes, format, pieces: 3), "a body that arrives in pieces is another one")
    if !whole.isEmpty {
        let (body, taken) = EngineIOPayload.encode(whole[...], format)
        precondition(taken == whole.count && read(body, format, pieces: .max) == whole, "packets change")
    }
    guard String(validating: bytes, as: UTF8.self) != nil else { return 0 }
    for framing in [PrimusFraming.engineIO(version, .client), .engineIO(version, .server)] {
        bytes.withUnsafeBytes { framing.read(.text, $0) { _ in } }
    }
    if let packet = try? EngineIOPacket(TransportMessage(.text, bytes), version) {
        precondition(packet.transportMessage(version).bytes == bytes, "a packet changes")
    }
    if let handshake = try? EngineIOHandshake(parsing: bytes) {
        precondition((try? EngineIOHandshake(parsing: handshake.json.bytes)) == handshake, "a handshake changes")
    }
    return 0
}

/// Reads a body in pieces, up to the first error.
private func read(_ body: [UInt8], _ format: EngineIOPayloadFormat, pieces: Int) -> [TransportMessage] {
    var reader = EngineIOPayloadReader(format == .separated ? .v4 : .v3, limit: 1 << 20)
    var batch = MessageBatch()
    do throws(EngineIOError) {
        var rest = body[...]
        while !rest.isEmpty {
            _ = try Array(rest.prefix(pieces)).withUnsafeBufferPointer { bytes throws(EngineIOError) in
                try reader.read(UnsafeRawBufferPointer(bytes), into: &batch)
            }
            rest = rest.dropFirst(pieces)
        }
        try reader.finish(into: &batch)
    } catch {}
    return batch.messages
}
