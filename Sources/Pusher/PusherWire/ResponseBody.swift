package import RealtimeCoding

/// The body of a response that should be JSON.
package struct ResponseBody: Sendable {
    private let bytes: ArraySlice<UInt8>

    /// Creates a body. A byte order mark at its start, which some editors add to files in PHP, isn't part of it.
    package init(_ bytes: [UInt8]) {
        self.bytes = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes[3...] : bytes[...]
    }

    /// Whether it begins like a page of HTML.
    package var isPage: Bool { self.firstCharacter == UInt8(ascii: "<") }

    private var firstCharacter: UInt8? { self.bytes.first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) } }

    /// Parses the body.
    package func json() throws(JSONError) -> JSONValue { try JSONValue(parsing: Array(self.bytes)) }

    /// Describes what the body is if it isn't an object with certain strings, without its content, which may contain a token.
    ///
    /// - Parameter names: The names of the strings that it should have.
    /// - Returns: The end of a sentence whose subject is the response, or `nil` if the body has the strings.
    package func problem(strings names: [String]) -> String? {
        guard let json = try? self.json() else {
            if self.firstCharacter == nil { return "it is empty" }
            return self.isPage ? "it is a page of HTML" : "it isn't JSON"
        }
        guard let object = json.object else { return json.string == nil ? "it is other JSON" : "it is a string" }
        guard let missing = names.first(where: { object[$0]?.string == nil }) else { return nil }
        if object[missing] != nil { return "\"\(missing)\" isn't a string" }
        let wrapper = object.first { $0.value.object?[missing]?.string != nil }?.key
        return wrapper.map { "\"\(missing)\" is inside another object, \"\($0)\"" } ?? "it has no \"\(missing)\""
    }
}
