package import RealtimeCoding

/// One line of output, as text and as a JSON object.
package struct Line: Sendable, Equatable {
    package enum Style: Sendable, Equatable { case plain, faint, name, success, warning, error }

    /// A piece of text in one style.
    package struct Span: Sendable, Equatable, ExpressibleByStringLiteral {
        let text: String
        let style: Style

        package init(_ text: String, _ style: Style = .plain) {
            self.text = text
            self.style = style
        }

        package init(stringLiteral value: String) { self.init(value) }
    }

    /// The value of a member of the JSON object.
    package enum Value: Sendable, Equatable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
        case string(String)
        case integer(Int)
        case number(Double)
        case bool(Bool)
        case strings([String])
        case json(JSONValue)

        package init(stringLiteral value: String) { self = .string(value) }
        package init(integerLiteral value: Int) { self = .integer(value) }
        package init(booleanLiteral value: Bool) { self = .bool(value) }
    }

    struct Member: Sendable, Equatable {
        let name: String
        let value: Value
    }

    private let spans: [Span]
    private var members: [Member]
    /// The time that precedes the text and is the first member of the JSON object; `nil` for none.
    var time: String?

    /// Creates a line.
    ///
    /// - Parameters:
    ///   - spans: The text, joined without separators.
    ///   - members: The members of the JSON object, in order. Members whose value is `nil` are omitted.
    package init(_ spans: [Span], _ members: KeyValuePairs<String, Value?>) {
        self.spans = spans
        self.members = members.compactMap { name, value in value.map { Member(name: name, value: $0) } }
    }

    /// Creates a line about a connection.
    ///
    /// - Parameters:
    ///   - spans: The text, joined without separators.
    ///   - type: The first member of the JSON object.
    ///   - socketID: The second member, if any.
    ///   - members: The other members. Members whose value is `nil` are omitted.
    package init(_ spans: [Span], type: String, socketID: String?, _ members: KeyValuePairs<String, Value?>) {
        let first = Line([], ["type": .string(type), "socket_id": socketID.map(Value.string)]).members
        self.init(spans, members)
        self.members.insert(contentsOf: first, at: 0)
    }

    /// Returns the line with another member, whose value also precedes the text.
    ///
    /// - Parameters:
    ///   - name: The name of the member.
    ///   - value: The value of the member.
    package func labeled(_ name: String, _ value: String) -> Line {
        var line = Line([Span("\(value): ", .name)] + self.spans, [:])
        line.members = self.members + [Member(name: name, value: .string(value))]
        return line
    }
}

extension Line {
    /// A change of the connection's state.
    ///
    /// - Parameters:
    ///   - state: The name of the state.
    ///   - socketID: The ID of the connection.
    ///   - detail: What else there is to say about the state.
    ///   - style: The style of the state's name.
    package static func state(_ state: String, socketID: String? = nil, detail: String? = nil, style: Style = .faint) -> Line {
        let suffix = (socketID.map { "socket ID \($0)" } ?? detail).map { [Span(": " + $0, .faint)] } ?? []
        return Line(
            [Span(state, style)] + suffix,
            [
                "type": "state", "state": .string(state), "socket_id": socketID.map(Value.string), "detail": detail.map(Value.string),
            ])
    }

    /// A successful subscription to a channel.
    package static func subscribed(_ channel: String) -> Line {
        Line([Span("subscribed", .success), " to ", Span(channel, .name)], ["type": "subscribed", "channel": .string(channel)])
    }

    /// An event on a channel.
    ///
    /// - Parameters:
    ///   - channel: The channel, if the event belongs to one.
    ///   - event: The name of the event.
    ///   - data: The data as it was delivered, if any.
    ///   - userID: The ID of the user who triggered it, for a client event on a presence channel.
    package static func event(channel: String?, event: String, data: String?, userID: String? = nil) -> Line {
        let sender = userID.map { [Span(" from " + $0, .faint)] } ?? []
        return Line(
            (channel.map { [Span($0, .name), " "] } ?? []) + [Span(event, .success)] + sender + (data.map { [Span(" " + $0)] } ?? []),
            [
                "type": "event", "channel": channel.map(Value.string), "event": .string(event), "data": data.map(Value.string),
                "user_id": userID.map(Value.string),
            ])
    }

    /// An error, whether or not it ends the command.
    ///
    /// - Parameters:
    ///   - message: What failed.
    ///   - code: The protocol's error code.
    package static func error(_ message: String, code: Int? = nil) -> Line {
        Line(
            [Span("error", .error), Span(": " + message)], ["type": "error", "code": code.map(Value.integer), "message": .string(message)])
    }
}

// MARK: - Encoding

extension Line {
    /// The line as text, with unsafe characters escaped, ending in a line feed.
    ///
    /// - Parameter isColored: Whether styles become escape sequences for colors.
    func text(isColored: Bool) -> [UInt8] {
        var text = ""
        for span in (self.time.map { [Span($0 + " ", .faint)] } ?? []) + self.spans {
            let escaped = TerminalText.escaped(span.text)
            if isColored, let code = span.style.code {
                text += "\u{1B}[\(code)m\(escaped)\u{1B}[0m"
            } else {
                text += escaped
            }
        }
        return Array((text + "\n").utf8)
    }

    /// The line as one JSON object, ending in a line feed.
    var json: [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        if let time {
            writer.key("time")
            writer.value(time)
        }
        for member in self.members {
            writer.key(member.name)
            member.value.write(to: &writer)
        }
        writer.endObject()
        return writer.bytes + [UInt8(ascii: "\n")]
    }
}

extension Line.Value {
    fileprivate func write(to writer: inout JSONWriter) {
        switch self {
        case .string(let text): writer.value(text)
        case .integer(let number): writer.value(number)
        case .number(let number):
            // JSON cannot represent NaN and infinity.
            do throws(JSONError) { try writer.value(number) } catch { writer.null() }
        case .bool(let flag): writer.value(flag)
        case .strings(let texts):
            writer.beginArray()
            for text in texts { writer.value(text) }
            writer.endArray()
        case .json(let value): writer.value(value)
        }
    }
}

extension Line.Style {
    /// The number of the escape sequence that selects the style.
    fileprivate var code: String? {
        switch self {
        case .plain: nil
        case .faint: "2"
        case .name: "36"
        case .success: "32"
        case .warning: "33"
        case .error: "31"
        }
    }
}
