import RealtimeEncoding

/// A document in JSON.
final class JSONDocument: CodingDocument {
    let settings: JSONValueDecoder

    init(bytes: [UInt8], nodes: [CodingNode], settings: JSONValueDecoder, basePath: [any CodingKey] = []) {
        self.settings = settings
        let rules = KeyRules(convertsFromSnakeCase: settings.keys == .convertFromSnakeCase)
        super.init(bytes: bytes, nodes: nodes, basePath: basePath, keyRules: rules)
    }

    override var userInfo: [CodingUserInfoKey: Any] { self.settings.userInfo }

    override func makeDocument(bytes: [UInt8], nodes: [CodingNode], basePath: [any CodingKey]) -> CodingDocument {
        JSONDocument(bytes: bytes, nodes: nodes, settings: self.settings, basePath: basePath)
    }

    override func escapedString(at index: Int) throws -> String {
        let node = self.nodes[index]
        if self.settings.rejectsLoneSurrogates, self.text(node, { JSONText.loneSurrogate($0) }) != nil {
            throw self.corrupted("The string contains a lone surrogate.", at: index)
        }
        return self.escapedKey(at: index)
    }

    override func escapedKey(at index: Int) -> String { self.text(self.nodes[index]) { JSONText.string($0, isEscaped: true) } }

    override func isSpecial(_ type: Any.Type) -> Bool {
        type == JSONValue.self || FoundationType(type) != nil || (self.settings.acceptsNodeBuffers && type == [UInt8].self)
    }

    override func specialValue<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value? {
        if type == JSONValue.self { return self.tree(at: index) as? Value }
        if type == [UInt8].self { return self.nodeBuffer(at: index) as? Value }
        switch FoundationType(type) {
        case .date: return try self.date(type, at: index)
        case .data: return try self.data(type, at: index)
        case .url: return try self.foundationURL(type, self.string(at: index), at: index)
        case .decimal: return try self.decimal(type, at: index)
        case nil: return nil
        }
    }

    /// Converts a node and its nested values.
    func tree(at index: Int) -> JSONValue {
        self.bytes.withUnsafeBytes { bytes in
            self.nodes.withUnsafeBufferPointer { JSONTape.value($0, index, bytes) }
        }
    }

    private func date<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
        let seconds: Double
        switch self.settings.dates {
        case .deferredToDate: seconds = try self.double(at: index)
        case .secondsSince1970: seconds = try self.double(at: index) - referenceDateOffset
        case .millisecondsSince1970: seconds = try self.double(at: index) / 1000 - referenceDateOffset
        case .iso8601:
            guard let value = ISO8601.secondsSince2001(try self.string(at: index), assumesUTC: self.settings.assumesUTC) else {
                throw self.corrupted("Expected an ISO 8601 date such as 2026-01-31T12:00:00Z.", at: index)
            }
            seconds = value
        }
        return try self.foundationDate(type, secondsSinceReferenceDate: seconds)
    }

    private func data<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
        if let bytes = self.nodeBuffer(at: index) { return try self.foundationData(type, bytes) }
        guard self.settings.data == .base64 else { return try Value(from: NodeDecoder(document: self, index: index)) }
        guard let bytes = Base64.decode(try self.string(at: index), ignoresPadBits: true) else {
            throw self.corrupted("The string is not valid Base64.", at: index)
        }
        return try self.foundationData(type, bytes)
    }

    /// The bytes of `{"type":"Buffer","data":[1,2,3]}`, if the settings accept that; `nil` for other values.
    private func nodeBuffer(at index: Int) -> [UInt8]? {
        guard self.settings.acceptsNodeBuffers, self.nodes[index].kind == .object, self.nodes[index].length == 2,
            let type = self.member("type", of: index), let data = self.member("data", of: index),
            (try? self.string(at: type)) == "Buffer", self.nodes[data].kind == .array
        else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Int(self.nodes[data].length))
        // Numbers are single nodes.
        for element in data + 1..<Int(self.nodes[data].end) {
            guard let byte = try? self.integer(UInt8.self, at: element) else { return nil }
            bytes.append(byte)
        }
        return bytes
    }

    private func member(_ name: StaticString, of index: Int) -> Int? {
        name.withUTF8Buffer { self.find($0, in: index) }
    }

    private func decimal<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
        let node = self.nodes[index]
        guard node.kind.isNumber else { throw self.mismatch(type, at: index) }
        guard let digits = self.text(node, { DecimalDigits($0) }) else { throw self.unrepresentable(type, at: index) }
        return try self.foundationDecimal(type, digits)
    }
}
