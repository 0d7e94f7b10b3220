import RealtimeCore
import RealtimeSockets

/// The result of decoding a response and the bytes after it.
struct DecodedResponse: Equatable {
    var head: HTTPResponseHead?
    var body: [UInt8] = []
    var isComplete = false
    var switchedProtocol = false
    var leftover: [UInt8] = []
    var error: TransportError?
    var mayReuse = false
}

/// Decodes a response that arrives in pieces, optionally followed by the end of the connection.
func decodeResponse(
    _ pieces: [[UInt8]], method: String = "GET", ends: Bool = false, limits: HTTPLimits = .client
) -> DecodedResponse {
    var decoder = HTTPResponseDecoder(method: method, limits: limits)
    var response = DecodedResponse()
    do {
        for piece in pieces {
            if response.isComplete {
                response.leftover += piece
                continue
            }
            try piece.withUnsafeBytes { bytes in
                var input = bytes
                while true {
                    switch try decoder.next(&input) {
                    case .needsMore: return
                    case .head(let head): response.head = head
                    case .body(let bytes): response.body += bytes
                    case .end, .switchedProtocol:
                        response.isComplete = true
                    }
                    if response.isComplete {
                        response.leftover += input
                        return
                    }
                }
            }
        }
        if ends {
            try decoder.endOfStream()
            response.isComplete = true
        }
    } catch {
        response.error = error as? TransportError
    }
    response.mayReuse = decoder.mayReuseConnection
    return response
}

/// Decodes a response as the client does: the whole of each piece with one call.
///
/// - Returns: The result, whose `leftover` is empty.
func decodeReads(_ pieces: [[UInt8]], method: String = "GET", ends: Bool = false, limits: HTTPLimits = .client) -> DecodedResponse {
    var decoder = HTTPResponseDecoder(method: method, limits: limits)
    var response = DecodedResponse()
    do throws(TransportError) {
        for piece in pieces where !response.isComplete {
            let progress = piece.withUnsafeBytes { bytes in
                Result { () throws(TransportError) in try decoder.decode(bytes, &response.head) { response.body += $0 } }
            }
            if case .complete = try progress.get() { response.isComplete = true }
        }
        if ends {
            try decoder.endOfStream()
            response.isComplete = true
        }
    } catch {
        response.error = error
    }
    response.mayReuse = decoder.mayReuseConnection
    return response
}

func decodeResponse(_ text: String, method: String = "GET", ends: Bool = false, limits: HTTPLimits = .client) -> DecodedResponse {
    decodeResponse([Array(text.utf8)], method: method, ends: ends, limits: limits)
}

/// The result of decoding a request.
struct DecodedRequest: Equatable {
    var method: String
    var target: String
    var headers: HTTPHeaders
    var body: [UInt8] = []
    var isComplete = false
    var expectsContinue = false
    var keepsAlive = true
}

/// Decodes the requests of a connection, optionally followed by the end of the connection.
func decodeRequests(
    _ pieces: [[UInt8]], ends: Bool = false, limits: HTTPLimits = .server, bodyLimit: Int = 1 << 20
) -> (requests: [DecodedRequest], error: TransportError?) {
    var decoder = HTTPRequestDecoder(limits: limits, bodyLimit: bodyLimit)
    var found: [DecodedRequest] = []
    do {
        for piece in pieces {
            try piece.withUnsafeBytes { bytes in
                var input = bytes
                while true {
                    switch try decoder.next(&input) {
                    case .needsMore: return
                    case .head(let request):
                        found.append(
                            DecodedRequest(
                                method: request.head.method, target: request.head.target, headers: request.head.headers,
                                expectsContinue: request.expectsContinue, keepsAlive: request.keepsAlive))
                    case .body(let bytes): found[found.count - 1].body += bytes
                    case .end: found[found.count - 1].isComplete = true
                    }
                }
            }
        }
        if ends { try decoder.endOfStream() }
        return (found, nil)
    } catch {
        return (found, error as? TransportError)
    }
}

func decodeRequests(
    _ text: String, ends: Bool = false, limits: HTTPLimits = .server, bodyLimit: Int = 1 << 20
) -> (requests: [DecodedRequest], error: TransportError?) {
    decodeRequests([Array(text.utf8)], ends: ends, limits: limits, bodyLimit: bodyLimit)
}
