extension EncodingBuffer {
    /// Appends a member's name.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - isInteger: Whether the name is the text of an integer.
    ///   - isKept: Whether the name is data, and not converted.
    func appendMessagePackName(_ name: String, isInteger: Bool, isKept: Bool) {
        if isInteger, let number = Int64(name) {
            MessagePackWriter.append(number, to: &self.bytes)
        } else if self.form.usesPascalCase, !isKept {
            self.appendPascalCase(name)
        } else {
            MessagePackWriter.append(name, to: &self.bytes)
        }
    }

    private func appendPascalCase(_ name: String) {
        guard let first = name.utf8.first, first < 0x80 else {
            return MessagePackWriter.append(KeyNames.toPascalCase(name), to: &self.bytes)
        }
        MessagePackWriter.append(name, to: &self.bytes)
        guard (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(first) else { return }
        // The case of an ASCII letter is a single bit.
        self.bytes[self.bytes.count - name.utf8.count] = first & ~0x20
    }

    /// Appends a value of a type that is not encoded by its own conformance, and returns whether it is.
    func append<Value: Encodable>(_ type: MessagePackType, _ value: Value, _ key: (any CodingKey)?) throws -> Bool {
        switch type {
        case .foundation(.date): try self.appendTimestamp(value, key)
        case .foundation(.data), .bytes:
            guard let sequence = value as? any Sequence<UInt8> else { return false }
            self.appendBinary(sequence)
        case .foundation(.decimal):
            let text = String(describing: value)
            guard text != "NaN" else { throw self.invalid(text, "MessagePack cannot represent a Decimal that is not a number.", key) }
            self.append(text)
        case .foundation(.url): try self.append(.url, value, key)
        case .plain, .dictionary, .integerDictionary: return false
        }
        return true
    }

    private func appendBinary(_ sequence: some Sequence<UInt8>) {
        let isContiguous: Void? = sequence.withContiguousStorageIfAvailable {
            MessagePackWriter.append(binary: UnsafeRawBufferPointer($0), to: &self.bytes)
        }
        if isContiguous != nil { return }
        Array(sequence).withUnsafeBytes { MessagePackWriter.append(binary: $0, to: &self.bytes) }
    }

    /// Appends a `Date`, which encodes itself as the seconds since 2001.
    private func appendTimestamp<Value: Encodable>(_ value: Value, _ key: (any CodingKey)?) throws {
        let mark = self.bytes.count
        try self.appendDefault(value, .plain, key)
        let seconds: Double? = self.bytes.withUnsafeBytes { bytes in
            guard bytes.count == mark + 9, bytes[mark] == 0xCB else { return nil }
            return Double(bitPattern: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: mark + 1, as: UInt64.self)))
        }
        self.bytes.removeLast(self.bytes.count - mark)
        // The error must not contain the date: Foundation traps when it prints one that is not finite.
        guard let timestamp = MessagePackTimestamp(secondsSinceReferenceDate: seconds ?? .nan) else {
            throw self.invalid(seconds ?? .nan, "The date is not a finite number of seconds in the range of a timestamp.", key)
        }
        MessagePackWriter.append(timestamp, to: &self.bytes)
    }
}
