import RealtimeCoding

/// A hub message in JSON, as slices of the received text.
///
/// The order of the members is free, and unknown members are ignored. `null` means a missing member, except as an item or a result.
struct JSONHubMessage {
    /// The members of invocations, completions and pings.
    private static let callKeys = JSONKeys(
        "type", "invocationId", "target", "arguments", "streamIds", "headers", "result", "error")
    /// The members of the other messages. The first two are at the same positions as above.
    private static let otherKeys = JSONKeys("type", "invocationId", "item", "error", "allowReconnect", "sequenceId")

    private let bytes: UnsafeRawBufferPointer
    private let scan: JSONObjectScan
    private let type: Int

    /// Reads one message, without its separator.
    static func read(_ bytes: UnsafeRawBufferPointer, isUTF8: Bool) -> HubMessageReader.Output {
        do throws(HubMessageError) {
            // A text has at most eight keys to search for. Most peers write the type first, which avoids a second scan.
            var usesCallKeys = !Self.beginsWithOtherType(bytes)
            var message = try Self(bytes, usesCallKeys ? Self.callKeys : Self.otherKeys, isUTF8: isUTF8)
            if let hasCallKeys = Self.hasCallKeys(message.type), hasCallKeys != usesCallKeys {
                usesCallKeys = hasCallKeys
                message = try Self(bytes, usesCallKeys ? Self.callKeys : Self.otherKeys, isUTF8: true)
            }
            return try message.message().map { HubMessageReader.Output.message($0) } ?? .unknown(type: message.type)
        } catch {
            return .invalid(error)
        }
    }

    private init(_ bytes: UnsafeRawBufferPointer, _ keys: JSONKeys, isUTF8: Bool) throws(HubMessageError) {
        let scan: JSONObjectScan
        do throws(JSONError) {
            // The scanner doesn't recurse, so any depth is safe. The limit applies where values are decoded: if it applied here, the ID
            // of an invocation with a result that is nested too deeply would be unknown.
            scan = try JSONObjectScan(bytes, keys: keys, isUTF8: isUTF8, limits: CodingLimits(depth: .max))
        } catch {
            let (type, id) = Self.beginning(of: bytes)
            throw HubMessageError(error.message, type: type, invocationID: id)
        }
        let id = Self.text(scan[1], in: bytes)
        guard scan[0].kind != .missing else { throw HubMessageError("missing \"type\"", invocationID: id) }
        guard scan[0].kind.isNumber, let type = JSONText.integer(scan[0], in: bytes).flatMap({ Int(exactly: $0) }) else {
            throw HubMessageError("\"type\" must be an integer", invocationID: id)
        }
        self.bytes = bytes
        self.scan = scan
        self.type = type
    }

    private static func beginsWithOtherType(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let start: StaticString = #"{"type":"#
        guard bytes.count > start.utf8CodeUnitCount, start.withUTF8Buffer({ $0.elementsEqual(bytes.prefix($0.count)) }) else {
            return false
        }
        switch bytes[start.utf8CodeUnitCount] {
        case UInt8(ascii: "2"), UInt8(ascii: "7"), UInt8(ascii: "8"), UInt8(ascii: "9"): return true
        default: return false
        }
    }

    /// Whether a message of this type has the members of calls. `nil` if the type is unknown, or has no members but those that both have.
    private static func hasCallKeys(_ type: Int) -> Bool? {
        switch type {
        case 1, 3, 4: true
        case 2, 7, 8, 9: false
        default: nil
        }
    }

    /// Returns the message, or `nil` if its type is unknown.
    private func message() throws(HubMessageError) -> HubMessage? {
        switch self.type {
        case 1: return .invocation(try self.invocation(id: self.optionalID()))
        case 2:
            let id = try self.id()
            guard let item = self.payload(self.scan[2]) else { throw self.invalid("missing \"item\"") }
            return .streamItem(id: id, item)
        case 3: return .completion(id: try self.id(), try self.completion())
        case 4: return .streamInvocation(try self.invocation(id: self.id()))
        case 5: return .cancelInvocation(id: try self.id())
        case 6: return .ping
        case 7:
            let error = try self.string(self.scan[3], "error")
            switch self.scan[4].kind {
            case .missing, .null, .false: return .close(error: error, allowReconnect: false)
            case .true: return .close(error: error, allowReconnect: true)
            default: throw self.invalid("\"allowReconnect\" must be a Boolean value")
            }
        case 8: return .ack(sequenceID: try self.sequenceID())
        case 9: return .sequence(sequenceID: try self.sequenceID())
        default: return nil
        }
    }

    private func invocation(id: String?) throws(HubMessageError) -> HubInvocation {
        guard let target = try self.string(self.scan[2], "target"), !target.isEmpty else { throw self.invalid("missing \"target\"") }
        let arguments = self.scan[3]
        switch arguments.kind {
        case .array: break
        case .missing: throw self.invalid("missing \"arguments\"")
        default: throw self.invalid("\"arguments\" must be an array")
        }
        return HubInvocation(
            id: id, target: target, arguments: HubPayload(.json, Array(self.bytes[arguments.range])), streamIDs: try self.streamIDs(),
            headers: try self.headers())
    }

    private func completion() throws(HubMessageError) -> HubCompletion {
        let result = self.scan[6]
        if let error = try self.string(self.scan[7], "error") {
            guard result.kind == .missing || result.kind == .null else { throw self.invalid("\"result\" and \"error\" exclude each other") }
            return .error(error)
        }
        return self.payload(result).map { HubCompletion.result($0) } ?? .void
    }

    private func streamIDs() throws(HubMessageError) -> [String] {
        let slice = self.scan[4]
        switch slice.kind {
        case .missing, .null: return []
        case .array:
            // Most peers send an empty array.
            if slice.length == 2 { return [] }
            let elements = self.value(slice)?.array
            let ids = elements?.compactMap(\.string) ?? []
            guard ids.count == elements?.count else { throw self.invalid("\"streamIds\" must contain strings") }
            return ids
        default: throw self.invalid("\"streamIds\" must be an array")
        }
    }

    private func headers() throws(HubMessageError) -> [String: String] {
        let slice = self.scan[5]
        switch slice.kind {
        case .missing, .null: return [:]
        case .object:
            if slice.length == 2 { return [:] }
            var headers: [String: String] = [:]
            let members = self.value(slice)?.object
            for (name, value) in members ?? [:] { headers[name] = value.string }
            guard members?.allSatisfy({ $0.value.string != nil }) == true else {
                throw self.invalid("the values of \"headers\" must be strings")
            }
            return headers
        default: throw self.invalid("\"headers\" must be an object")
        }
    }

    private func sequenceID() throws(HubMessageError) -> UInt64 {
        let slice = self.scan[5]
        guard slice.kind != .missing else { throw self.invalid("missing \"sequenceId\"") }
        guard slice.kind.isNumber, let id = JSONText.integer(slice, in: self.bytes).flatMap({ UInt64(exactly: $0) }) else {
            throw self.invalid("\"sequenceId\" must be an integer that isn't negative")
        }
        return id
    }

    private func id() throws(HubMessageError) -> String {
        guard let id = try self.optionalID() else { throw self.invalid("missing \"invocationId\"") }
        return id
    }

    /// An empty ID is the same as none.
    private func optionalID() throws(HubMessageError) -> String? {
        let id = try self.string(self.scan[1], "invocationId")
        return id == "" ? nil : id
    }

    private func string(_ slice: JSONSlice, _ name: String) throws(HubMessageError) -> String? {
        switch slice.kind {
        case .missing, .null: return nil
        case .string, .escapedString: return JSONText.string(slice, in: self.bytes)
        default: throw self.invalid("\"\(name)\" must be a string")
        }
    }

    /// A copy of a value, or `nil` if there is none.
    private func payload(_ slice: JSONSlice) -> HubPayload? {
        switch slice.kind {
        case .missing: nil
        // The slice of a string excludes its quotes.
        case .string, .escapedString: HubPayload(.json, Array(self.bytes[slice.offset - 1...slice.offset + slice.length]))
        default: HubPayload(.json, Array(self.bytes[slice.range]))
        }
    }

    /// Parses a part of the text, which the scan has validated. `nil` if it is nested too deeply.
    private func value(_ slice: JSONSlice) -> JSONValue? {
        try? JSONValue(parsing: UnsafeRawBufferPointer(rebasing: self.bytes[slice.range]), isUTF8: true)
    }

    /// Returns an ID, also one that is a number, although it must be a text.
    private static func text(_ slice: JSONSlice, in bytes: UnsafeRawBufferPointer) -> String? {
        if slice.kind.isNumber { return JSONText.integer(slice, in: bytes).map { "\($0)" } }
        guard slice.kind.isString, slice.length > 0 else { return nil }
        return JSONText.string(slice, in: bytes)
    }

    /// Returns the type and the ID of a message that isn't valid JSON, if it begins with these members, as the messages of all servers do: the
    /// call whose answer it is must end.
    private static func beginning(of bytes: UnsafeRawBufferPointer) -> (type: Int?, id: String?) {
        var text = bytes.prefix(256)[...]
        var (type, id): (Int?, String?) = (nil, nil)
        func skip(_ literal: StaticString) -> Bool {
            let matches = literal.withUTF8Buffer { text.starts(with: $0) }
            if matches { text = text.dropFirst(literal.utf8CodeUnitCount) }
            return matches
        }
        func take(while condition: (UInt8) -> Bool) -> String {
            let part = text.prefix(while: condition)
            text = text[part.endIndex...]
            return String(decoding: part, as: UTF8.self)
        }
        guard skip("{") else { return (nil, nil) }
        repeat {
            if skip("\"type\":") {
                type = Int(take { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") })
            } else if skip("\"invocationId\":") {
                let isText = skip("\"")
                id = take { $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: ",") && $0 != UInt8(ascii: "\\") && $0 != UInt8(ascii: "}") }
                if isText, !skip("\"") { return (type, nil) }
            } else {
                break
            }
        } while skip(",")
        return (type, id == "" ? nil : id)
    }

    private func invalid(_ problem: String) -> HubMessageError {
        HubMessageError(problem, type: self.type, invocationID: Self.text(self.scan[1], in: self.bytes))
    }
}

extension JSONHubMessage {
    /// Appends a message, without its separator.
    static func append(_ message: HubMessage, to bytes: inout [UInt8]) {
        switch message {
        case .invocation(let invocation): self.append(invocation, type: "1", to: &bytes)
        case .streamInvocation(let invocation): self.append(invocation, type: "4", to: &bytes)
        case .streamItem(let id, let item):
            self.append(type: "2", id: id, to: &bytes)
            JSONWriter.append(literal: #","item":"#, to: &bytes)
            self.append(item, to: &bytes)
        case .completion(let id, let completion):
            self.append(type: "3", id: id, to: &bytes)
            switch completion {
            case .void: break
            case .result(let result):
                JSONWriter.append(literal: #","result":"#, to: &bytes)
                self.append(result, to: &bytes)
            case .error(let error):
                JSONWriter.append(literal: #","error":"#, to: &bytes)
                JSONWriter.append(error, to: &bytes)
            }
        case .cancelInvocation(let id): self.append(type: "5", id: id, to: &bytes)
        case .ping: self.append(type: "6", id: nil, to: &bytes)
        case .close(let error, let allowReconnect):
            self.append(type: "7", id: nil, to: &bytes)
            if let error {
                JSONWriter.append(literal: #","error":"#, to: &bytes)
                JSONWriter.append(error, to: &bytes)
            }
            if allowReconnect { JSONWriter.append(literal: #","allowReconnect":true"#, to: &bytes) }
        case .ack(let id): self.append(type: "8", sequenceID: id, to: &bytes)
        case .sequence(let id): self.append(type: "9", sequenceID: id, to: &bytes)
        }
        bytes.append(UInt8(ascii: "}"))
    }

    /// Appends an invocation without streams, and without its separator.
    ///
    /// - Parameter arguments: Appends the arguments as an array.
    static func appendInvocation(
        of target: String, id: String?, to bytes: inout [UInt8], _ arguments: (inout [UInt8]) throws -> Void
    ) rethrows {
        if let id {
            self.append(type: "1", id: id, to: &bytes)
            JSONWriter.append(literal: #","target":"#, to: &bytes)
        } else {
            JSONWriter.append(literal: #"{"type":1,"target":"#, to: &bytes)
        }
        JSONWriter.append(target, to: &bytes)
        JSONWriter.append(literal: #","arguments":"#, to: &bytes)
        try arguments(&bytes)
        bytes.append(UInt8(ascii: "}"))
    }

    private static func append(_ invocation: HubInvocation, type: StaticString, to bytes: inout [UInt8]) {
        self.append(type: type, id: invocation.id, to: &bytes)
        if !invocation.headers.isEmpty {
            JSONWriter.append(literal: #","headers":"#, to: &bytes)
            var separator = UInt8(ascii: "{")
            for (name, value) in invocation.headers.sorted(by: { $0.key < $1.key }) {
                bytes.append(separator)
                JSONWriter.append(name, to: &bytes)
                bytes.append(UInt8(ascii: ":"))
                JSONWriter.append(value, to: &bytes)
                separator = UInt8(ascii: ",")
            }
            bytes.append(UInt8(ascii: "}"))
        }
        JSONWriter.append(literal: #","target":"#, to: &bytes)
        JSONWriter.append(invocation.target, to: &bytes)
        JSONWriter.append(literal: #","arguments":"#, to: &bytes)
        self.append(invocation.arguments, to: &bytes)
        guard !invocation.streamIDs.isEmpty else { return }
        JSONWriter.append(literal: #","streamIds":"#, to: &bytes)
        var separator = UInt8(ascii: "[")
        for id in invocation.streamIDs {
            bytes.append(separator)
            JSONWriter.append(id, to: &bytes)
            separator = UInt8(ascii: ",")
        }
        bytes.append(UInt8(ascii: "]"))
    }

    private static func append(type: StaticString, id: String?, to bytes: inout [UInt8]) {
        JSONWriter.append(literal: #"{"type":"#, to: &bytes)
        JSONWriter.append(literal: type, to: &bytes)
        guard let id else { return }
        JSONWriter.append(literal: #","invocationId":"#, to: &bytes)
        JSONWriter.append(id, to: &bytes)
    }

    private static func append(type: StaticString, sequenceID: UInt64, to bytes: inout [UInt8]) {
        self.append(type: type, id: nil, to: &bytes)
        JSONWriter.append(literal: #","sequenceId":"#, to: &bytes)
        bytes.append(contentsOf: String(sequenceID).utf8)
    }

    private static func append(_ payload: HubPayload, to bytes: inout [UInt8]) {
        precondition(payload.format == .json, "a MessagePack value in a JSON message")
        bytes.append(contentsOf: payload.bytes)
    }
}
