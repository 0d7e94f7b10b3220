import PrimusWire
import RealtimeCore

/// Reads arbitrary text as frames of SockJS, and as messages of its clients.
///
/// Reading must not crash, must not report a part of an invalid message, and messages must be the same after encoding and reading.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzSockJSFrames(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    guard let start else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: start, count: count))
    guard String(validating: bytes, as: UTF8.self) != nil else { return 0 }

    for side in [PrimusFraming.Side.client, .server] {
        let (packets, problems) = read(.sockJS(side), bytes)
        precondition(packets.isEmpty || problems == 0, "a part of an invalid message is reported")
        guard !packets.isEmpty else { continue }
        let other: PrimusFraming = side == .client ? .sockJS(.server) : .sockJS(.client)
        let written = other.messages(packets.map { TransportMessage(.text, $0) })
        precondition(written.count == 1 && read(.sockJS(side), written[0].bytes) == (packets, 0), "packets change")
    }
    if let frame = try? bytes.withUnsafeBufferPointer({ try SockJSFrame(parsing: UnsafeRawBufferPointer($0)) }) {
        let again = try? frame.bytes.withUnsafeBufferPointer { try SockJSFrame(parsing: UnsafeRawBufferPointer($0)) }
        precondition(again == frame, "a frame changes")
    }
    _ = try? SockJSInfo(parsing: bytes)
    return 0
}

private func read(_ framing: PrimusFraming, _ bytes: [UInt8]) -> (packets: [[UInt8]], problems: Int) {
    var packets: [[UInt8]] = []
    var problems = 0
    bytes.withUnsafeBytes { bytes in
        framing.read(.text, bytes) { event in
            switch event {
            case .packet(_, let packet): packets.append(Array(packet))
            case .invalid, .fatal: problems += 1
            case .opened, .ping, .pong, .closed: break
            }
        }
    }
    return (packets, problems)
}
