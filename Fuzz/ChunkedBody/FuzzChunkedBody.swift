import RealtimeCore
import RealtimeSockets

struct DecodedBody: Equatable {
    var body: [UInt8] = []
    var leftover = 0
    var isComplete = false
    var error: TransportError?
}

/// - Parameter takesChunks: Whether complete chunks are taken together, as in a client.
func decode(
    _ pieces: [UnsafeRawBufferPointer], _ framing: HTTPBodyFraming, _ requestLimit: Int?, takesChunks: Bool = false
) -> DecodedBody {
    let limits = HTTPLimits(lineBytes: 64, headBytes: 128, fields: 4, chunkLineBytes: 32)
    var decoder = HTTPBodyDecoder(framing, limits: limits, requestLimit: requestLimit)
    var result = DecodedBody()
    do throws(TransportError) {
        // The empty piece lets the decoder return the end of an empty body.
        for piece in pieces + [UnsafeRawBufferPointer(start: nil, count: 0)] {
            var input = piece
            reading: while true {
                if takesChunks { decoder.takeCompleteChunks(&input) { result.body += $0 } }
                switch try decoder.next(&input) {
                case .needsMore:
                    precondition(input.isEmpty)
                    break reading
                case .bytes(let bytes):
                    precondition(!bytes.isEmpty)
                    result.body += bytes
                case .end:
                    result.isComplete = true
                    result.leftover += input.count
                    break reading
                }
            }
        }
        try decoder.endOfStream()
    } catch {
        result.error = error
    }
    return result
}

/// Decodes a body as a whole, in two pieces and byte by byte, with the same result. The first byte of the input is the position of the
/// split.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0 else { return 0 }
    let bytes = UnsafeRawBufferPointer(start: start + 1, count: count - 1)
    let split = bytes.isEmpty ? 0 : Int(start[0]) % bytes.count
    let halves = [UnsafeRawBufferPointer(rebasing: bytes[..<split]), UnsafeRawBufferPointer(rebasing: bytes[split...])]
    let single = bytes.indices.map { UnsafeRawBufferPointer(rebasing: bytes[$0...$0]) }
    let framings: [(HTTPBodyFraming, requestLimit: Int?)] = [
        (.chunked, nil), (.chunked, 100), (.length(Int(start[0]) / 4), nil), (.untilClose, nil),
    ]
    for (framing, requestLimit) in framings {
        let whole = decode([bytes], framing, requestLimit)
        if let requestLimit { precondition(whole.body.count <= requestLimit) }
        precondition(decode(halves, framing, requestLimit) == whole)
        for pieces in [[bytes], halves, single] { precondition(decode(pieces, framing, requestLimit, takesChunks: true) == whole) }
        precondition(decode(single, framing, requestLimit) == whole)
    }
    return 0
}
