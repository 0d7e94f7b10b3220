import CommandLineSupport
import RealtimeCore
import RealtimeSockets
import SignalRHubs
import SignalRWire

/// Calls of a hub's clients over long polling, which another client causes.
struct HubFanOut: FanOut {
    static let embedded = "delivery by long polling, embedded server"
    static let embeddedOptions = ["--signalr", "\(HubMessageBuffer.defaultByteLimit)"]
    static let peer = (name: "delivery by long polling, ASP.NET Core", program: "hub", arguments: ["aspnet"])

    private let publisher: HubClient

    init(port: Int) async throws(ToolFailure) {
        self.publisher = try await BenchFixture.hubClient("http://127.0.0.1:\(port)\(BenchHub.path)", .json)
    }

    func subscriber(_ deliveries: DeliveryCounter) -> any StreamEvents { PollingSubscriber(deliveries) }

    func publish() async throws(ToolFailure) {
        do throws(HubError) {
            try await self.publisher.invoke(BenchHub.broadcast, LoadHub.Method.price, LoadMessage.data)
        } catch {
            throw ToolFailure("A call failed: \(error)")
        }
    }

    func end() { self.publisher.stop() }
}

/// A connection over long polling, with one request at a time on one socket.
private final class PollingSubscriber: StreamEvents {
    private enum Stage {
        case negotiating
        /// The first poll, which the server answers immediately.
        case opening
        case sendingHandshake
        case awaitingHandshake
        case subscribed
    }

    private let deliveries: DeliveryCounter

    // `nonisolated(unsafe)`: only the loop's thread accesses these.
    nonisolated(unsafe) private var stage = Stage.negotiating
    nonisolated(unsafe) private var target = "\(BenchHub.path)/negotiate?negotiateVersion=1"
    nonisolated(unsafe) private var response = HTTPResponseDecoder(method: "POST")
    nonisolated(unsafe) private var body: [UInt8] = []

    init(_ deliveries: DeliveryCounter) {
        self.deliveries = deliveries
    }

    func opened(_ stream: SocketStream) { self.send("POST", stream) }

    private func send(_ method: String, _ stream: SocketStream, body: [UInt8] = []) {
        self.response = HTTPResponseDecoder(method: method)
        self.body.removeAll(keepingCapacity: true)
        let length = method == "POST" ? "Content-Length: \(body.count)\r\n" : ""
        stream.enqueue {
            $0 += "\(method) \(self.target) HTTP/1.1\r\nHost: 127.0.0.1\r\n\(length)\r\n".utf8
            $0 += body
        }
        stream.flush()
    }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        var head: HTTPResponseHead?
        guard let progress = try? self.response.decode(bytes, &head, { self.body += $0 }), head?.status ?? 200 == 200 else {
            return self.ended(stream, nil)
        }
        if case .complete = progress { self.answered(stream) }
    }

    /// Sends the next request.
    private func answered(_ stream: SocketStream) {
        switch self.stage {
        case .negotiating:
            guard case .connection(let connection)? = try? NegotiateResponse(parsing: self.body) else { return self.ended(stream, nil) }
            self.target = "\(BenchHub.path)?id=\(connection.token)"
            self.stage = .opening
            self.send("GET", stream)
        case .opening:
            self.stage = .sendingHandshake
            self.send("POST", stream, body: HubHandshake.request(.json, version: 1))
        case .sendingHandshake:
            self.stage = .awaitingHandshake
            self.send("GET", stream)
        case .awaitingHandshake, .subscribed:
            self.stage = .subscribed
            let count = self.body.count { $0 == HubHandshake.separator }
            self.send("GET", stream)
            self.deliveries.received(count)
        }
    }

    func drained(_ stream: SocketStream) {}

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        self.deliveries.lost()
        stream.close()
    }
}
