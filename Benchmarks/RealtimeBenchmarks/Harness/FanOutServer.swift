import CommandLineSupport
import Processes
import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import RealtimeSystem

/// A protocol in which a server sends a message to many connections.
protocol FanOut: Sendable {
    /// The name of the embedded server's results.
    static var embedded: String { get }
    /// The options of `realtime bench-load` for the embedded server.
    static var embeddedOptions: [String] { get }
    /// The server that `REALTIME_PEERS` starts for comparison: the name of its results, its program, and the arguments of the command.
    static var peer: (name: String, program: String, arguments: [String]) { get }

    /// Creates the publisher of a server.
    init(port: Int) async throws(ToolFailure)

    /// Returns the events of a connection that subscribes. It counts one delivery when it has subscribed, and one for each message.
    func subscriber(_ deliveries: DeliveryCounter) -> any StreamEvents

    /// Sends a message to all subscribers.
    func publish() async throws(ToolFailure)

    /// Ends the publisher.
    func end()
}

/// A server in a process of its own, and its subscribers in this process.
final class FanOutServer<Messages: FanOut>: Sendable {
    /// The processes of the server.
    let tree: ProcessTree
    private let process: ChildProcess
    private let port: Int
    private let messages: Messages
    private let deliveries = DeliveryCounter()
    private let streams = Lock<[SocketStream]>([])

    /// Starts a server.
    ///
    /// - Parameter command: A command that prints `ready PORT`, or an object of JSON with `port`, and exits at the end of its input.
    init(_ command: [String]) async throws(ToolFailure) {
        self.process = try ChildProcess.start(command)
        let line = self.process.readLine() ?? ""
        guard let port = (try? JSONValue(parsing: line))?["port"]?.int ?? Int(line.dropFirst("ready ".count)),
            let tree = ProcessTree(self.process.id)
        else {
            self.process.end()
            throw ToolFailure("\(command[0]) did not start.")
        }
        (self.port, self.tree) = (port, tree)
        self.messages = try await Messages(port: port)
    }

    func end() {
        self.messages.end()
        for stream in self.streams.withLock({ $0 }) { stream.close() }
        self.process.end()
    }

    /// Subscribes connections.
    func subscribe(_ count: Int) async throws(ToolFailure) {
        for _ in 0..<count {
            // One at a time: the backlog of a server's socket is limited.
            let subscribed = self.deliveries.expect(1)
            let stream = SocketStream(events: self.messages.subscriber(self.deliveries))
            self.streams.withLock { $0.append(stream) }
            stream.connect(to: "127.0.0.1", port: self.port)
            guard await subscribed.value() else { throw .connectionLost }
        }
    }

    /// Publishes messages one after another, each when all subscribers have received the last one.
    ///
    /// - Returns: The processor time of the server per delivery, in nanoseconds.
    func publish(_ publications: Int) async throws(ToolFailure) -> Double {
        let count = self.streams.withLock { $0.count }
        let start = self.tree.time
        for _ in 0..<publications {
            let delivered = self.deliveries.expect(count)
            try await self.messages.publish()
            guard await delivered.value() else { throw .connectionLost }
        }
        guard let start, let end = self.tree.time else { throw ToolFailure("A server has ended.") }
        return (end - start) / Double(publications * count)
    }
}

/// Counts what the subscribers of a server receive.
final class DeliveryCounter: Sendable {
    private struct State: Sendable {
        var missing = 0
        var finished = Waiter<Bool>()
    }

    private let state = Lock(State())

    /// Returns a waiter that receives `true` after a number of messages, and `false` when a connection is lost before.
    func expect(_ count: Int) -> Waiter<Bool> {
        self.state.withLock { state in
            state = State(missing: count)
            return state.finished
        }
    }

    func received(_ count: Int) {
        let finished = self.state.withLock { state -> Waiter<Bool>? in
            state.missing -= count
            return state.missing == 0 ? state.finished : nil
        }
        finished?.fulfill(true)?.resume()
    }

    func lost() { self.state.withLock { $0.finished }.fulfill(false)?.resume() }
}
