extension EncodingBuffer {
    /// Appends a value of a Foundation type.
    func append<Value: Encodable>(_ type: FoundationType, _ value: Value, _ key: (any CodingKey)?) throws {
        switch type {
        case .date: try self.appendDate(value, key)
        case .data: try self.appendData(value)
        case .url: try self.appendURL(value)
        case .decimal:
            let text = String(describing: value)
            guard text != "NaN" else { throw self.notFinite(value, key) }
            self.appendRaw(Array(text.utf8))
        }
    }

    /// Returns what the type's own `encode(to:)` writes.
    private func defaultEncoding<Value: Encodable>(of value: Value) throws -> [UInt8] {
        let buffer = EncodingBuffer(settings: JSONValueEncoder())
        buffer.start(.value)
        try value.encode(to: buffer.outermostEncoder)
        buffer.finish()
        return buffer.bytes
    }

    private func appendDate<Value: Encodable>(_ value: Value, _ key: (any CodingKey)?) throws {
        let bytes: [UInt8]
        do {
            bytes = try self.defaultEncoding(of: value)
        } catch {
            // The error must not contain the date: Foundation traps when it prints one that is not finite.
            throw self.invalid(Double.nan, "The date is not a finite number of seconds.", key)
        }
        if self.settings.dates == .deferredToDate { return self.appendRaw(bytes) }
        let secondsSince2001 = bytes.withUnsafeBytes { JSONText.double($0) }
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
        guard self.settings.data == .base64 else { return self.appendRaw(try self.defaultEncoding(of: value)) }
        if let sequence = value as? any Sequence<UInt8> {
            self.append(base64: Array(sequence))
        } else {
            self.append(base64: try JSONValueDecoder().decode([UInt8].self, from: self.defaultEncoding(of: value)))
        }
    }

    private func appendURL<Value: Encodable>(_ value: Value) throws {
        let encoding = try JSONValue(parsing: self.defaultEncoding(of: value))
        let relative = encoding["relative"]?.string ?? ""
        self.append(encoding["base"]?.string.map { RelativeURL.resolve(relative, against: $0) } ?? relative)
    }
}

/// Resolution of a URL reference against a base URL (RFC 3986 section 5.2).
enum RelativeURL {
    private struct Parts {
        var scheme: Substring?
        var authority: Substring?
        var path: Substring
        var query: Substring?
        var fragment: Substring?

        init(_ text: String) {
            var rest = text[...]
            if let mark = rest.firstIndex(of: "#") {
                self.fragment = rest[rest.index(after: mark)...]
                rest = rest[..<mark]
            }
            if let mark = rest.firstIndex(of: "?") {
                self.query = rest[rest.index(after: mark)...]
                rest = rest[..<mark]
            }
            if let mark = rest.firstIndex(where: { $0 == ":" || $0 == "/" }), rest[mark] == ":", mark != rest.startIndex {
                self.scheme = rest[..<mark]
                rest = rest[rest.index(after: mark)...]
            }
            if rest.hasPrefix("//") {
                rest = rest.dropFirst(2)
                let end = rest.firstIndex(of: "/") ?? rest.endIndex
                self.authority = rest[..<end]
                rest = rest[end...]
            }
            self.path = rest
        }
    }

    static func resolve(_ reference: String, against base: String) -> String {
        let relative = Parts(reference)
        let base = Parts(base)
        if relative.scheme != nil { return reference }
        var path: String
        var query = relative.query
        let authority = relative.authority ?? base.authority
        if relative.authority != nil {
            path = self.removingDotSegments(relative.path)
        } else if relative.path.isEmpty {
            path = String(base.path)
            query = query ?? base.query
        } else if relative.path.hasPrefix("/") {
            path = self.removingDotSegments(relative.path)
        } else {
            let folder = base.path.lastIndex(of: "/").map { base.path[...$0] } ?? (base.authority != nil && base.path.isEmpty ? "/" : "")
            path = self.removingDotSegments(folder + relative.path)
        }
        var result = ""
        if let scheme = base.scheme { result += scheme + ":" }
        if let authority { result += "//" + authority }
        result += path
        if let query { result += "?" + query }
        if let fragment = relative.fragment { result += "#" + fragment }
        return result
    }

    /// Resolves `.` and `..` (RFC 3986 section 5.2.4).
    private static func removingDotSegments(_ path: Substring) -> String {
        var kept: [Substring] = []
        let segments = path.split(separator: "/", omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            let isLast = index == segments.count - 1
            switch segment {
            case ".": if isLast { kept.append("") }
            case "..":
                if kept.count > 1 || (kept.count == 1 && !kept[0].isEmpty) { kept.removeLast() }
                if isLast { kept.append("") }
            default: kept.append(segment)
            }
        }
        return kept.joined(separator: "/")
    }
}
