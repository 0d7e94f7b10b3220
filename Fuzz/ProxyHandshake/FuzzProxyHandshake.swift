import RealtimeCore
import RealtimeSockets

/// The result of a handshake, in a form that doesn't depend on how the input is split.
struct Outcome: Equatable {
    var sent: [UInt8] = []
    /// The number of bytes that belong to the tunnel, if it is open.
    var rest: Int?
    var error: TransportError?
}

func run(_ proxy: ProxyServer, _ pieces: [UnsafeRawBufferPointer]) -> Outcome {
    var outcome = Outcome()
    do throws(TransportError) {
        var handshake = try ProxyHandshake(ProxyTunnel(proxy: proxy, host: "server.test", port: 443), output: &outcome.sent)
        for piece in pieces {
            if let rest = outcome.rest {
                outcome.rest = rest + piece.count
                continue
            }
            var input = piece
            if try handshake.receive(&input, output: &outcome.sent) { outcome.rest = input.count } else { precondition(input.isEmpty) }
        }
    } catch {
        outcome.error = error
    }
    return outcome
}

/// Runs handshakes with both kinds of proxies, with and without credentials, as a whole, in two pieces and byte by byte, with the same
/// result. The first byte of the input is the position of the split.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0 else { return 0 }
    let bytes = UnsafeRawBufferPointer(start: start + 1, count: count - 1)
    let split = bytes.isEmpty ? 0 : Int(start[0]) % bytes.count
    let halves = [UnsafeRawBufferPointer(rebasing: bytes[..<split]), UnsafeRawBufferPointer(rebasing: bytes[split...])]
    let single = bytes.indices.map { UnsafeRawBufferPointer(rebasing: bytes[$0...$0]) }
    for kind in [ProxyServer.Kind.http, .socks5] {
        for credentials in [nil, ProxyConfiguration.Credentials(username: "anna", password: "secret")] {
            let proxy = ProxyServer(kind: kind, host: "proxy.test", port: 1080, credentials: credentials)
            let outcome = run(proxy, [bytes])
            precondition(run(proxy, halves) == outcome)
            precondition(run(proxy, single) == outcome)
        }
    }
    return 0
}
