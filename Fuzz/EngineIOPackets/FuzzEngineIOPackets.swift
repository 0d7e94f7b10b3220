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

    for framing in [PrimusFraming.engineIO(version, .client), .engineIO(version, .server)] {
        bytes.withUnsafeBytes { framing.read(.binary, $0) { _ in } }
    }
    guard String(validating: bytes, as: UTF8.self) != nil else { return 0 }
    for framing in [PrimusFraming.engineIO(version, .client), .engineIO(version, .server)] {
        bytes.withUnsafeBytes { framing.read(.text, $0) { _ in } }
    }
    if let packet = try? EngineIOPacket(WebSocketMessage(.text, bytes), version) {
        precondition(packet.webSocketMessage(version).bytes == bytes, "a packet changes")
    }
    if let handshake = try? EngineIOHandshake(parsing: bytes) {
        precondition((try? EngineIOHandshake(parsing: handshake.json.bytes)) == handshake, "a handshake changes")
    }
    let (packets, _) = EngineIOPayload.decode(bytes, version)
    guard !packets.isEmpty else { return 0 }
    let (body, taken) = EngineIOPayload.encode(packets[...], version)
    let again = EngineIOPayload.decode(body, version)
    precondition(taken == packets.count && again.packets == packets && again.error == nil, "packets change")
    return 0
}
