import PrimusWire
import RealtimeCore

/// Reads arbitrary bytes as a response of SockJS over HTTP that arrives in pieces. The first byte chooses their size, and the second one the limit.
///
/// Reading must not crash, and the frames, up to the first error, must not depend on the pieces.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzSockJSStream(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    guard count >= 2, let start else { return 0 }
    let (size, limit) = (Int(start[0] & 0x1F) + 1, 1 << Int(start[1] & 0x0F))
    let bytes = Array(UnsafeBufferPointer(start: start + 2, count: count - 2))

    let (whole, isValid) = read(bytes, limit, pieces: .max)
    let (pieces, isValidInPieces) = read(bytes, limit, pieces: size)
    precondition(isValid == isValidInPieces, "an error depends on the pieces")
    precondition(whole == pieces, "the frames depend on the pieces")
    for frame in whole {
        precondition(frame.kind == .text && !frame.bytes.contains(UInt8(ascii: "\n")), "a frame has more than a line")
        precondition(String(validating: frame.bytes, as: UTF8.self) != nil, "a frame isn't text")
        var packets = 0
        var problems = 0
        frame.bytes.withUnsafeBytes { bytes in
            PrimusFraming.sockJS(.client).read(.text, bytes) { event in
                switch event {
                case .packet: packets += 1
                case .invalid, .fatal: problems += 1
                case .opened, .ping, .pong, .closed: break
                }
            }
        }
        precondition(problems == 0 || packets == 0, "a part of an invalid frame is reported")
    }
    return 0
}

/// Reads a response in pieces, and whether all of it was read.
private func read(_ body: [UInt8], _ limit: Int, pieces: Int) -> ([TransportMessage], Bool) {
    var reader = SockJSFrameReader(limit: limit)
    var batch = MessageBatch()
    do throws(SockJSError) {
        var rest = body[...]
        while !rest.isEmpty {
            try Array(rest.prefix(pieces)).withUnsafeBufferPointer { bytes throws(SockJSError) in
                try reader.read(UnsafeRawBufferPointer(bytes), into: &batch)
            }
            rest = rest.dropFirst(pieces)
        }
    } catch {
        return (batch.messages, false)
    }
    return (batch.messages, true)
}
