import RealtimeEncoding

extension JSONEncodingBuffer {
    /// Appends a value of a Foundation type.
    func append<Value: Encodable>(_ type: FoundationType, _ value: Value, _ key: (any CodingKey)?) throws {
        switch type {
        case .date: try self.appendDate(value, key)
        case .data: try self.appendData(value)
        case .url: self.append(try JSONValueDecoder().decode(URLParts.self, from: Self.defaultEncoding(of: value)).text)
        case .decimal:
            let text = String(describing: value)
            guard text != "NaN" else { throw self.notFinite(value, key) }
            self.bytes.append(contentsOf: text.utf8)
        }
    }

    /// Returns what the type's own `encode(to:)` writes.
    private static func defaultEncoding<Value: Encodable>(of value: Value) throws -> [UInt8] {
        try JSONEncodingBuffer(JSONValueEncoder()).defaultEncoding(of: value)
    }

    private func appendDate<Value: Encodable>(_ value: Value, _ key: (any CodingKey)?) throws {
        let bytes: [UInt8]
        do {
            bytes = try Self.defaultEncoding(of: value)
        } catch {
            // The error must not contain the date: Foundation traps when it prints one that is not finite.
            throw self.invalid(Double.nan, "The date is not a finite number of seconds.", key)
        }
        if self.settings.dates == .deferredToDate { return self.bytes.append(contentsOf: bytes) }
        let secondsSince2001 = bytes.withUnsafeBytes { NumberText.double($0) }
        let seconds = secondsSince2001 + referenceDateOffset
        switch self.settings.dates {
        case .iso8601:
            guard let text = ISO8601.text(secondsSince2001: secondsSince2001, fractionDigits: self.settings.dateFractionDigits) else {
                throw self.invalid(seconds, "The date is out of range for ISO 8601.", key)
            }
            self.append(text)
        case .millisecondsSince1970: try self.append(seconds * 1000, key)
        default: try self.append(seconds, key)
        }
    }

    private func appendData<Value: Encodable>(_ value: Value) throws {
        if self.settings.writesNodeBuffers {
            self.bytes.append(contentsOf: #"{"type":"Buffer","data":"#.utf8)
            self.bytes.append(contentsOf: try Self.defaultEncoding(of: value))
            return self.bytes.append(UInt8(ascii: "}"))
        }
        guard self.settings.data == .base64 else { return self.bytes.append(contentsOf: try Self.defaultEncoding(of: value)) }
        self.append(base64: try Self.bytes(ofData: value))
    }

    /// Returns the bytes of a `Data`.
    fileprivate static func bytes<Value: Encodable>(ofData value: Value) throws -> [UInt8] {
        if let sequence = value as? any Sequence<UInt8> { return Array(sequence) }
        return try JSONValueDecoder().decode([UInt8].self, from: Self.defaultEncoding(of: value))
    }

    /// Appends bytes as a Base64 string.
    private func append(base64 bytes: [UInt8]) {
        self.bytes.append(UInt8(ascii: "\""))
        Base64.append(bytes, to: &self.bytes)
        self.bytes.append(UInt8(ascii: "\""))
    }
}

extension JSONValueEncoder {
    /// Returns the bytes of a value that is a `Data`; `nil` for values of other types.
    ///
    /// - Throws: An error thrown by the value's own `encode(to:)`.
    package static func bytes<Value: Encodable>(ofFoundationData value: Value) throws -> [UInt8]? {
        guard case .data? = FoundationType(Value.self) else { return nil }
        return try JSONEncodingBuffer.bytes(ofData: value)
    }
}
