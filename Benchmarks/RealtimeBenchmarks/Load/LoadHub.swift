import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import SignalRWire

/// The hub of the load generator on one connection, for the calls of the benchmarks.
struct LoadHub: Sendable {
    /// The names of the methods.
    enum Method {
        /// Calls `price` a number of times, with 6 or 2 arguments.
        static let burst = "Burst"
        /// The client's method that `burst` calls.
        static let price = "Price"
        /// Returns its argument.
        static let echo = "Echo"
        /// Returns a number of items as a stream.
        static let items = "Items"
        /// Receives a stream, and returns when it ends.
        static let upload = "Upload"
        /// Doesn't return.
        static let hold = "Hold"
    }

    /// The items of a stream, and its end, in the framing of the transport.
    struct Items: Sendable {
        var frame: [UInt8]
        var count: Int
        var end: [UInt8]
    }

    private let transport: HubTransport
    private var reader: HubMessageReader?
    private(set) var format = HubFormat.json
    /// The invocations that receive a stream, by the ID of the stream.
    private var uploads: [String: String] = [:]

    init(_ transport: HubTransport) {
        self.transport = transport
    }

    /// The last argument of the calls.
    static let note = "a note of the exchange, 56 characters with a \"quote\"!!!"

    /// Returns an invocation of the client as a frame.
    ///
    /// - Parameter arguments: The number of its arguments.
    static func call(_ format: HubFormat, arguments: Int) -> [UInt8] {
        var hub = LoadHub(.webSockets)
        hub.format = format
        return hub.invocation(arguments: arguments)
    }

    /// Returns an invocation of the client.
    ///
    /// - Parameter arguments: The number of its arguments.
    private func invocation(arguments: Int) -> [UInt8] {
        let coder = HubValueCoder(self.format)
        let payload =
            arguments == 6
            ? try? coder.arguments("ACME", 1234.56, 98765, true, 1_712_345_678_901, Self.note) : try? coder.arguments(98765, Self.note)
        let empty = HubPayload(self.format, [])
        return self.frame(.invocation(HubInvocation(id: nil, target: Method.price, arguments: payload ?? empty)))
    }

    private func frame(_ message: HubMessage) -> [UInt8] { self.frame(HubMessageWriter.message(message, self.format)) }

    /// Returns a message as it is sent: as a frame, or as an event in a chunk of its own.
    private func frame(_ message: TransportMessage) -> [UInt8] {
        switch self.transport {
        case .webSockets: Self.frame(message, mask: nil)
        case .serverSentEvents: LoadHTTP.event(message.bytes)
        case .longPolling: message.bytes
        }
    }

    static func frame(_ message: TransportMessage, mask: UInt32?) -> [UInt8] {
        var frame: [UInt8] = []
        FrameEncoder.append(message.kind, message.bytes, mask: mask, to: &frame)
        return frame
    }

    /// Handles a WebSocket message or the body of a request, and appends the replies as they are sent.
    ///
    /// - Returns: The items that the client asks for.
    mutating func receive(_ message: TransportMessage, _ output: inout [UInt8]) -> Items? {
        guard [.text, .binary].contains(message.kind) else { return nil }
        guard self.reader != nil else {
            let request = message.bytes.withUnsafeBytes { try? HubHandshake.parseRequest($0) }
            self.format = request.flatMap { HubFormat(protocolName: $0.protocolName) } ?? .json
            self.reader = HubMessageReader(self.format, messageLimit: 1 << 20)
            let response = TransportMessage(self.format.messageKind, HubHandshake.response(error: nil))
            output += self.frame(response)
            return nil
        }
        var messages: [HubMessage] = []
        try? message.bytes.withUnsafeBytes { bytes in
            try self.reader?.read(bytes, isUTF8: true) { if case .message(let message) = $0 { messages.append(message) } }
        }
        var items: Items?
        for message in messages { items = self.receive(message, &output) ?? items }
        return items
    }

    private mutating func receive(_ message: HubMessage, _ output: inout [UInt8]) -> Items? {
        switch message {
        case .invocation(let invocation) where invocation.target == Method.burst:
            guard let numbers = self.numbers(invocation), numbers.count == 2 else { return nil }
            return Items(frame: self.invocation(arguments: numbers[1]), count: numbers[0], end: [])
        case .invocation(let invocation):
            guard let id = invocation.id, invocation.target != Method.hold else { return nil }
            if let stream = invocation.streamIDs.first {
                self.uploads[stream] = id
            } else {
                output += self.frame(.completion(id: id, .result(Self.firstArgument(invocation))))
            }
        case .streamInvocation(let invocation):
            guard let id = invocation.id, let count = self.numbers(invocation)?.first,
                let item = try? HubValueCoder(self.format).payload(1234.56)
            else { return nil }
            return Items(frame: self.frame(.streamItem(id: id, item)), count: count, end: self.frame(.completion(id: id, .void)))
        case .completion(let stream, _):
            if let id = self.uploads.removeValue(forKey: stream) { output += self.frame(.completion(id: id, .void)) }
        case .ping: output += self.frame(.ping)
        case .streamItem, .cancelInvocation, .close, .ack, .sequence: break
        }
        return nil
    }

    private func numbers(_ invocation: HubInvocation) -> [Int]? {
        try? HubValueCoder(self.format).decode([Int].self, from: invocation.arguments)
    }

    private static func firstArgument(_ invocation: HubInvocation) -> HubPayload {
        let arguments = invocation.arguments
        switch arguments.format {
        case .json:
            let first = arguments.bytes.withUnsafeBytes { try? JSONText.elements(ofArray: $0).first }
            return HubPayload(.json, first.map { Array(arguments.bytes[$0]) } ?? Array("null".utf8))
        case .messagePack:
            let first = arguments.bytes.withUnsafeBytes { bytes in
                var reader = MessagePackReader(bytes)
                return (try? reader.arrayHeader()).flatMap { $0 == 0 ? nil : try? reader.skip() }
            }
            return HubPayload(.messagePack, first.map { Array(arguments.bytes[$0]) } ?? [0xC0])
        }
    }
}

/// Reads the messages of a hub, which copies the target and the arguments.
struct BareInvocations: BareMessages {
    static let target = "/hub"
    private let format: HubFormat
    private var reader: HubMessageReader?
    private var bytes = 0

    init(_ format: HubFormat) {
        self.format = format
    }

    var hello: [UInt8] {
        LoadHub.frame(TransportMessage(self.format.messageKind, HubHandshake.request(self.format, version: 1)), mask: 0x1234_5678)
    }

    mutating func read(_ message: UnsafeRawBufferPointer) -> Int? {
        guard self.reader != nil else {
            self.reader = HubMessageReader(self.format, messageLimit: 1 << 20)
            return nil
        }
        var (count, bytes) = (0, 0)
        try? self.reader?.read(message, isUTF8: true) { output in
            switch output {
            case .message(.invocation(let invocation)): bytes += invocation.arguments.bytes.count
            case .message(.streamItem(_, let item)): bytes += item.bytes.count
            default: return
            }
            count += 1
        }
        self.bytes += bytes
        return count
    }
}
