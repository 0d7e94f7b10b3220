import RealtimeCore
import RealtimeSockets

/// What one answer, with what follows it, came to.
struct Answer: Equatable {
    var head: HTTPResponseHead?
    var body: [UInt8] = []
    var isComplete = false
    var switchedProtocol = false
    var leftover: [UInt8] = []
    var error: TransportError?
    var mayReuse = false
}

/// Feeds the pieces, then, if asked to, the end of the connection.
func answer(
    _ pieces: [[UInt8]], method: String = "GET", ends: Bool = false, limits: HTTPLimits = .client
) -> Answer {
    var decoder = HTTPResponseDecoder(method: method, limits: limits)
    var answer = Answer()
    do {
        for piece in pieces {
            if answer.isComplete {
                answer.leftover += piece
                continue
            }
            try piece.withUnsafeBytes { bytes in
                var input = bytes
                while true {
                    switch try decoder.next(&input) {
                    case .needsMore: return
                    case .head(let head): answer.head = head
                    case .body(let bytes): answer.body += bytes
                    case .end, .switchedProtocol:
                        answer.isComplete = true
                    }
                    if answer.isComplete {
                        answer.leftover += input
                        return
                    }
                }
            }
        }
        if ends {
            try decoder.endOfStream()
            answer.isComplete = true
        }
    } catch {
        answer.error = error as? TransportError
    }
    answer.mayReuse = decoder.mayReuseConnection
    return answer
}

func answer(_ text: String, method: String = "GET", ends: Bool = false, limits: HTTPLimits = .client) -> Answer {
    answer([Array(text.utf8)], method: method, ends: ends, limits: limits)
}

/// What one request came to.
struct Asked: Equatable {
    var method: String
    var target: String
    var headers: HTTPHeaders
    var body: [UInt8] = []
    var isComplete = false
    var expectsContinue = false
    var keepsAlive = true
}

/// The requests on one connection, and what stopped it.
func requests(
    _ pieces: [[UInt8]], ends: Bool = false, limits: HTTPLimits = .server, bodyLimit: Int = 1 << 20
) -> (requests: [Asked], error: TransportError?) {
    var decoder = HTTPRequestDecoder(limits: limits, bodyLimit: bodyLimit)
    var found: [Asked] = []
    do {
        for piece in pieces {
            try piece.withUnsafeBytes { bytes in
                var input = bytes
                while true {
                    switch try decoder.next(&input) {
                    case .needsMore: return
                    case .head(let request):
                        found.append(
                            Asked(
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

func requests(
    _ text: String, ends: Bool = false, limits: HTTPLimits = .server, bodyLimit: Int = 1 << 20
) -> (requests: [Asked], error: TransportError?) {
    requests([Array(text.utf8)], ends: ends, limits: limits, bodyLimit: bodyLimit)
}
