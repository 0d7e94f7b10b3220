import RealtimeCore
import RealtimeSockets

/// The decoded messages, in a form that does not depend on how the input is split.
struct DecodedMessages: Equatable {
    var parts: [String] = []
    var body: [UInt8] = []
    var error: TransportError?
}

func decodeRequests(_ pieces: [UnsafeRawBufferPointer]) -> DecodedMessages {
    var decoder = HTTPRequestDecoder(limits: HTTPLimits(lineBytes: 64, headBytes: 256, fields: 8, chunkLineBytes: 16), bodyLimit: 64)
    var result = DecodedMessages()
    do throws(TransportError) {
        for piece in pieces {
            var input = piece
            reading: while true {
                switch try decoder.next(&input) {
                case .needsMore: break reading
                case .head(let request):
                    result.parts.append("\(request.head.method) \(request.head.target) \(request.keepsAlive) \(request.expectsContinue)")
                    for field in request.head.headers { result.parts.append("\(field.name)=\(field.value)") }
                case .body(let bytes): result.body += bytes
                case .end: result.parts.append("end")
                }
            }
        }
        try decoder.endOfStream()
    } catch {
        result.error = error
        // How much of a body is decoded before the error depends on the pieces.
        result.body = []
    }
    return result
}

func decodeResponse(_ pieces: [UnsafeRawBufferPointer], method: String) -> DecodedMessages {
    var decoder = HTTPResponseDecoder(
        method: method, limits: HTTPLimits(lineBytes: 64, headBytes: 256, fields: 8, chunkLineBytes: 16, informational: 2))
    var result = DecodedMessages()
    do throws(TransportError) {
        for piece in pieces {
            var input = piece
            reading: while true {
                switch try decoder.next(&input) {
                case .needsMore, .end, .switchedProtocol: break reading
                case .head(let head):
                    result.parts.append("\(head.status) \(head.reason)")
                    for field in head.headers { result.parts.append("\(field.name)=\(field.value)") }
                case .body(let bytes): result.body += bytes
                }
            }
        }
        try decoder.endOfStream()
    } catch {
        result.error = error
        result.body = []
    }
    return result
}

/// Decodes requests and responses as a whole, in two pieces and byte by byte, with the same result. The first byte of the input is the
/// position of the split.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0 else { return 0 }
    let bytes = UnsafeRawBufferPointer(start: start + 1, count: count - 1)
    let split = bytes.isEmpty ? 0 : Int(start[0]) % bytes.count
    let halves = [UnsafeRawBufferPointer(rebasing: bytes[..<split]), UnsafeRawBufferPointer(rebasing: bytes[split...])]
    let single = bytes.indices.map { UnsafeRawBufferPointer(rebasing: bytes[$0...$0]) }
    let request = decodeRequests([bytes])
    precondition(decodeRequests(halves) == request)
    precondition(decodeRequests(single) == request)
    for method in ["GET", "HEAD"] {
        let response = decodeResponse([bytes], method: method)
        precondition(decodeResponse(halves, method: method) == response)
        precondition(decodeResponse(single, method: method) == response)
    }
    return 0
}
