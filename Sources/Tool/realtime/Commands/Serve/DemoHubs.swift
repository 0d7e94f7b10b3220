import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import SignalRServer

/// The hubs of `serve signalr` and of the demo.
enum DemoHubs {
    static let paths = ["/chat", "/clock", "/echo"]

    static func add(to server: SignalRServer) {
        let chat = server.hub(self.paths[0])
        chat.on("Send") { (caller, user: String, text: String) in
            try await caller.clients.all.send("Receive", user, text)
        }

        let clock = server.hub(self.paths[1])
        clock.on("Now") { _ in Ticks.now }
        clock.stream("Ticks") { (_, seconds: Double) in
            guard (0.01...3600).contains(seconds) else { throw HubException("The interval must be from 0.01 to 3600 seconds.") }
            return Ticks(interval: .milliseconds(Int64(seconds * 1000)))
        }

        let echo = server.hub(self.paths[2])
        echo.on("Echo") { (_, value: AnyHubValue) in value }
        echo.on("Add") { (_, first: Int, second: Int) in
            let (sum, overflow) = first.addingReportingOverflow(second)
            if overflow { throw HubException("The sum is too large.") }
            return sum
        }
        echo.on("Fail") { (_, message: String) in throw HubException(message) }
        echo.stream("Count") { (_, last: Int) in
            AsyncStream { continuation in
                for number in 1...min(max(1, last), 1000) { continuation.yield(number) }
                continuation.finish()
            }
        }
        echo.stream("EchoStream") { (_, items: HubStream<AnyHubValue>) in items }
    }
}

/// A value that a hub returns as it is, in the format of the client.
private enum AnyHubValue: Codable, Sendable {
    case json(JSONValue)
    case messagePack(MessagePackValue)

    init(from decoder: any Decoder) throws {
        self = decoder.isMessagePackDecoder ? .messagePack(try MessagePackValue(from: decoder)) : .json(try JSONValue(from: decoder))
    }

    func encode(to encoder: any Encoder) throws {
        switch self {
        case .json(let value): try value.encode(to: encoder)
        case .messagePack(let value): try value.encode(to: encoder)
        }
    }
}

/// The time, now and then at an interval, without end.
private struct Ticks: AsyncSequence, Sendable {
    struct AsyncIterator: AsyncIteratorProtocol {
        let interval: Duration
        private var next: ContinuousClock.Instant?

        init(interval: Duration) {
            self.interval = interval
        }

        mutating func next() async throws -> String? {
            if let next { try await Task.sleep(until: next) }
            self.next = (self.next ?? .now).advanced(by: self.interval)
            return Ticks.now
        }
    }

    let interval: Duration

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(interval: self.interval) }

    /// The time in ISO 8601, in whole milliseconds.
    static var now: String {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        let nanoseconds = UInt32(time.tv_nsec) / 1_000_000 * 1_000_000
        return MessagePackTimestamp(seconds: Int64(time.tv_sec), nanoseconds: nanoseconds).iso8601 ?? ""
    }
}
