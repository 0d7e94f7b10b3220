import RealtimeCore
import RealtimeSockets

struct Outcome: Equatable {
    var body: [UInt8] = []
    var leftover = 0
    var isWhole = false
    var error: TransportError?
}

func read(_ pieces: [UnsafeRawBufferPointer], _ framing: HTTPBodyFraming) -> Outcome {
    var decoder = HTTPBodyDecoder(framing, limits: HTTPLimits(lineBytes: 64, headBytes: 128, fields: 4, chunkLineBytes: 32))
    var outcome = Outcome()
    do throws(TransportError) {
        // The empty piece asks for the end of a body that needs no bytes.
        for piece in pieces + [UnsafeRawBufferPointer(start: nil, count: 0)] {
            var input = piece
            reading: while true {
                switch try decoder.next(&input) {
                case .needsMore:
                    precondition(input.isEmpty)
                    break reading
                case .bytes(let bytes):
                    precondition(!bytes.isEmpty)
                    outcome.body += bytes
                case .end:
                    outcome.isWhole = true
                    outcome.leftover += input.count
                    break reading
                }
            }
        }
        try decoder.endOfStream()
    } catch {
        outcome.error = error
    }
    return outcome
}

/// The first byte says where to cut. Whole, cut once and byte by byte have to come to the same.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0 else { return 0 }
    let bytes = UnsafeRawBufferPointer(start: start + 1, count: count - 1)
    let cut = bytes.isEmpty ? 0 : Int(start[0]) % bytes.count
    let halves = [UnsafeRawBufferPointer(rebasing: bytes[..<cut]), UnsafeRawBufferPointer(rebasing: bytes[cut...])]
    let single = bytes.indices.map { UnsafeRawBufferPointer(rebasing: bytes[$0...$0]) }
    for framing in [.chunked, .length(Int(start[0]) / 4), .untilClose] as [HTTPBodyFraming] {
        let whole = read([bytes], framing)
        precondition(read(halves, framing) == whole)
        precondition(read(single, framing) == whole)
    }
    return 0
}
