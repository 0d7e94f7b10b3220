import RealtimeCoding

/// A hub message in MessagePack: an array that begins with the type. Elements after the known ones are ignored.
struct MessagePackHubMessage {
    private let bytes: UnsafeRawBufferPointer
    private var reader: MessagePackReader
    /// The number of elements that haven't been read.
    private var remaining = 0
    private var type: Int?
    private var invocationID: String?

    /// Reads one message, without its length.
    static func read(_ bytes: UnsafeRawBufferPointer) -> HubMessageReader.Output {
        var message = Self(bytes)
        do throws(HubMessageError) {
            let type = try message.readType()
            guard let read = try message.read(type) else { return .unknown(type: type) }
            try message.finish()
            return .message(read)
        } catch {
            return .invalid(error)
        }
    }

    private init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
        self.reader = MessagePackReader(bytes)
    }

    private mutating func readType() throws(HubMessageError) -> Int {
        self.remaining = try self.value { reader throws(MessagePackError) in try reader.arrayHeader() }
        let number = try self.element("type") { reader throws(MessagePackError) in try reader.integer() }
        guard let type = Int(exactly: number) else { throw self.invalid("invalid type") }
        self.type = type
        return type
    }

    /// Returns the message, or `nil` if its type is unknown.
    private mutating func read(_ type: Int) throws(HubMessageError) -> HubMessage? {
        switch type {
        case 1: return .invocation(try self.invocation(requiresID: false))
        case 2:
            let id = try self.headersAndID()
            return .streamItem(id: id, try self.payload("item"))
        case 3:
            let id = try self.headersAndID()
            return .completion(id: id, try self.completion())
        case 4: return .streamInvocation(try self.invocation(requiresID: true))
        case 5: return .cancelInvocation(id: try self.headersAndID())
        case 6: return .ping
        case 7:
            let error = try self.remaining > 0 ? self.string("error") : nil
            let allowReconnect = try self.remaining > 0 ? self.bool("permission to reconnect") : false
            return .close(error: error, allowReconnect: allowReconnect)
        case 8: return .ack(sequenceID: try self.sequenceID())
        case 9: return .sequence(sequenceID: try self.sequenceID())
        default: return nil
        }
    }

    private mutating func invocation(requiresID: Bool) throws(HubMessageError) -> HubInvocation {
        let headers = try self.headers()
        let id = try self.id(isRequired: requiresID)
        guard let target = try self.string("target"), !target.isEmpty else { throw self.invalid("missing target") }
        var probe = self.reader
        guard self.remaining > 0 else { throw self.invalid("missing arguments") }
        guard (try? probe.arrayHeader()) != nil else { throw self.invalid("the arguments must be an array") }
        let arguments = try self.payload("arguments")
        // Old peers don't send streams.
        let streamIDs = try self.remaining > 0 ? self.streamIDs() : []
        return HubInvocation(id: id, target: target, arguments: arguments, streamIDs: streamIDs, headers: headers)
    }

    private mutating func completion() throws(HubMessageError) -> HubCompletion {
        switch try self.element("result kind", { reader throws(MessagePackError) in try reader.integer() }) {
        case 1:
            guard let error = try self.string("error") else { throw self.invalid("missing error") }
            return .error(error)
        case 2: return .void
        case 3: return .result(try self.payload("result"))
        case let kind: throw self.invalid("unknown result kind \(kind)")
        }
    }

    private mutating func headersAndID() throws(HubMessageError) -> String {
        _ = try self.element("headers") { reader throws(MessagePackError) in try reader.skip() }
        guard let id = try self.id(isRequired: true) else { throw self.invalid("missing invocation ID") }
        return id
    }

    private mutating func headers() throws(HubMessageError) -> [String: String] {
        try self.element("headers") { reader throws(MessagePackError) in
            var headers: [String: String] = [:]
            if reader.takeNil() { return headers }
            for _ in 0..<(try reader.mapHeader()) {
                let name = try reader.string()
                headers[name] = try reader.string()
            }
            return headers
        }
    }

    private mutating func streamIDs() throws(HubMessageError) -> [String] {
        try self.element("stream IDs") { reader throws(MessagePackError) in
            var ids: [String] = []
            if reader.takeNil() { return ids }
            for _ in 0..<(try reader.arrayHeader()) { ids.append(try reader.string()) }
            return ids
        }
    }

    /// An empty ID is the same as none.
    private mutating func id(isRequired: Bool) throws(HubMessageError) -> String? {
        let id = try self.string("invocation ID")
        if let id, !id.isEmpty { self.invocationID = id }
        if isRequired, self.invocationID == nil { throw self.invalid("missing invocation ID") }
        return self.invocationID
    }

    private mutating func sequenceID() throws(HubMessageError) -> UInt64 {
        let number = try self.element("sequence ID") { reader throws(MessagePackError) in try reader.integer() }
        guard let id = UInt64(exactly: number) else { throw self.invalid("the sequence ID must not be negative") }
        return id
    }

    private mutating func string(_ name: StaticString) throws(HubMessageError) -> String? {
        try self.element(name) { reader throws(MessagePackError) in try reader.stringOrNil() }
    }

    private mutating func bool(_ name: StaticString) throws(HubMessageError) -> Bool {
        try self.element(name) { reader throws(MessagePackError) in try reader.takeNil() ? false : reader.bool() }
    }

    /// A copy of the next value. Its nested values are validated but not decoded, and can be nested at any depth.
    private mutating func payload(_ name: StaticString) throws(HubMessageError) -> HubPayload {
        let range = try self.element(name) { reader throws(MessagePackError) in try reader.skip() }
        return HubPayload(.messagePack, Array(self.bytes[range]))
    }

    private mutating func finish() throws(HubMessageError) {
        // Doesn't call `payload(_:)`: in the optimized code of Swift 6.3, an array that isn't used was released before it was filled.
        while self.remaining > 0 {
            _ = try self.element("additional element") { reader throws(MessagePackError) in try reader.skip() }
        }
        try self.value { reader throws(MessagePackError) in try reader.finish() }
    }

    /// Reads the next element of the message with `body`.
    @inline(__always)
    private mutating func element<Value>(
        _ name: StaticString, _ body: (inout MessagePackReader) throws(MessagePackError) -> Value
    ) throws(HubMessageError) -> Value {
        guard self.remaining > 0 else { throw self.invalid("missing \(name)") }
        self.remaining -= 1
        do throws(MessagePackError) {
            return try body(&self.reader)
        } catch {
            throw self.invalid("invalid \(name): \(error.message)")
        }
    }

    @inline(__always)
    private mutating func value<Value>(
        _ body: (inout MessagePackReader) throws(MessagePackError) -> Value
    ) throws(HubMessageError) -> Value {
        do throws(MessagePackError) {
            return try body(&self.reader)
        } catch {
            throw self.invalid(error.message)
        }
    }

    private func invalid(_ problem: String) -> HubMessageError {
        HubMessageError(problem, type: self.type, invocationID: self.invocationID)
    }
}

extension MessagePackHubMessage {
    /// Appends a message with its length.
    static func append(_ message: HubMessage, to bytes: inout [UInt8]) {
        let start = HubLengthPrefix.begin(&bytes)
        var writer = MessagePackWriter()
        swap(&writer.bytes, &bytes)
        self.append(message, &writer)
        swap(&writer.bytes, &bytes)
        HubLengthPrefix.end(start, &bytes)
    }

    /// Appends an invocation with its length, without streams.
    ///
    /// - Parameter arguments: Appends the arguments as an array.
    static func appendInvocation(
        of target: String, id: String?, to bytes: inout [UInt8], _ arguments: (inout [UInt8]) throws -> Void
    ) rethrows {
        let start = HubLengthPrefix.begin(&bytes)
        var writer = MessagePackWriter()
        swap(&writer.bytes, &bytes)
        self.begin(6, type: 1, id: id, &writer)
        writer.value(target)
        try arguments(&writer.bytes)
        writer.arrayHeader(0)
        swap(&writer.bytes, &bytes)
        HubLengthPrefix.end(start, &bytes)
    }

    private static func append(_ message: HubMessage, _ writer: inout MessagePackWriter) {
        switch message {
        case .invocation(let invocation): self.append(invocation, type: 1, &writer)
        case .streamInvocation(let invocation): self.append(invocation, type: 4, &writer)
        case .streamItem(let id, let item):
            self.begin(4, type: 2, id: id, &writer)
            self.append(item, &writer)
        case .completion(let id, .error(let error)):
            self.begin(5, type: 3, id: id, &writer)
            writer.value(1)
            writer.value(error)
        case .completion(let id, .void):
            self.begin(4, type: 3, id: id, &writer)
            writer.value(2)
        case .completion(let id, .result(let result)):
            self.begin(5, type: 3, id: id, &writer)
            writer.value(3)
            self.append(result, &writer)
        case .cancelInvocation(let id): self.begin(3, type: 5, id: id, &writer)
        case .ping:
            writer.arrayHeader(1)
            writer.value(6)
        case .close(let error, let allowReconnect):
            writer.arrayHeader(allowReconnect ? 3 : 2)
            writer.value(7)
            self.append(error, &writer)
            if allowReconnect { writer.value(true) }
        case .ack(let id): self.append(type: 8, sequenceID: id, &writer)
        case .sequence(let id): self.append(type: 9, sequenceID: id, &writer)
        }
    }

    private static func append(_ invocation: HubInvocation, type: Int, _ writer: inout MessagePackWriter) {
        writer.arrayHeader(6)
        writer.value(type)
        writer.mapHeader(invocation.headers.count)
        for (name, value) in invocation.headers.sorted(by: { $0.key < $1.key }) {
            writer.value(name)
            writer.value(value)
        }
        self.append(invocation.id, &writer)
        writer.value(invocation.target)
        self.append(invocation.arguments, &writer)
        writer.arrayHeader(invocation.streamIDs.count)
        for id in invocation.streamIDs { writer.value(id) }
    }

    /// Begins a message with its number of elements, its type, no headers, and an ID.
    private static func begin(_ count: Int, type: Int, id: String?, _ writer: inout MessagePackWriter) {
        writer.arrayHeader(count)
        writer.value(type)
        writer.mapHeader(0)
        self.append(id, &writer)
    }

    private static func append(type: Int, sequenceID: UInt64, _ writer: inout MessagePackWriter) {
        writer.arrayHeader(2)
        writer.value(type)
        writer.value(sequenceID)
    }

    private static func append(_ text: String?, _ writer: inout MessagePackWriter) {
        if let text { writer.value(text) } else { writer.null() }
    }

    private static func append(_ payload: HubPayload, _ writer: inout MessagePackWriter) {
        precondition(payload.format == .messagePack, "a JSON value in a MessagePack message")
        writer.raw(payload.bytes)
    }
}
