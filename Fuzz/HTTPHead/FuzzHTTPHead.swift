import RealtimeCore
import RealtimeSockets

/// What came out, in a form that does not depend on how the bytes were cut.
struct Outcome: Equatable {
    var words: [String] = []
    var body: [UInt8] = []
    var error: TransportError?
}

func readRequests(_ pieces: [UnsafeRawBufferPointer]) -> Outcome {
    var decoder = HTTPRequestDecoder(limits: HTTPLimits(lineBytes: 64, headBytes: 256, fields: 8, chunkLineBytes: 16), bodyLimit: 64)
    var outcome = Outcome()
    do throws(TransportError) {
        for piece in pieces {
            var input = piece
            reading: while true {
                switch try decoder.next(&input) {
                case .needsMore: break reading
                case .head(let request):
                    outcome.words.append("\(request.head.method) \(request.head.target) \(request.keepsAlive) \(request.expectsContinue)")
                    for field in request.head.headers { outcome.words.append("\(field.name)=\(field.value)") }
                case .body(let bytes): outcome.body += bytes
                case .end: outcome.words.append("end")
                }
            }
        }
        try decoder.endOfStream()
    } catch {
        outcome.error = error
        // How much of a body came before the error depends on the pieces.
        outcome.body = []
    }
    return outcome
}

func readResponse(_ pieces: [UnsafeRawBufferPointer], method: String) -> Outcome {
    var decoder = HTTPResponseDecoder(
        method: method, limits: HTTPLimits(lineBytes: 64, headBytes: 256, fields: 8, chunkLineBytes: 16, informational: 2))
    var outcome = Outcome()
    do throws(TransportError) {
        for piece in pieces {
            var input = piece
            reading: while true {
                switch try decoder.next(&input) {
                case .needsMore, .end, .switchedProtocol: break reading
                case .head(let head):
                    outcome.words.append("\(head.status) \(head.reason)")
                    for field in head.headers { outcome.words.append("\(field.name)=\(field.value)") }
                case .body(let bytes): outcome.body += bytes
                }
            }
        }
        try decoder.endOfStream()
    } catch {
        outcome.error = error
        outcome.body = []
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
    let request = readRequests([bytes])
    precondition(readRequests(halves) == request)
    precondition(readRequests(single) == request)
    for method in ["GET", "HEAD"] {
        let response = readResponse([bytes], method: method)
        precondition(readResponse(halves, method: method) == response)
        precondition(readResponse(single, method: method) == response)
    }
    return 0
}
