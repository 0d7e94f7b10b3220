internal import RealtimeJSON
internal import RealtimeCore

/// One line of output, for people and for programs.
package struct Line: Sendable, Equatable {
    package enum Style: Sendable, Equatable { case plain, faint, name, good, warning, bad }

    package struct Span: Sendable, Equatable, ExpressibleByStringLiteral {
        package var text: String
        package var style: Style

        package init(_ text: String, _ style: Style = .plain) {
            self.text = text
            self.style = style
        }

        package init(stringLiteral value: String) { self.init(value) }
    }

    package enum Value: Sendable, Equatable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
        case string(String)
        case integer(Int)
        case number(Double)
        case bool(Bool)
        case strings([String])

        package init(stringLiteral value: String) { self = .string(value) }
        package init(integerLiteral value: Int) { self = .integer(value) }
        package init(booleanLiteral value: Bool) { self = .bool(value) }
    }

    package struct Member: Sendable, Equatable {
        package var name: String
        package var value: Value

        package init(name: String, value: Value) {
            self.name = name
            self.value = value
        }
    }

    /// What a terminal shows; the spans follow each other without spaces.
    package var words: [Span]
    /// What the JSON object holds, in this order.
    package var members: [Member]

    /// Members without a value are left out.
    package init(_ words: [Span], _ members: KeyValuePairs<String, Value?>) {
        self.words = words
        self.members = members.compactMap { name, value in value.map { Member(name: name, value: $0) } }
    }
}

extension Line {
    /// The connection's state; `detail` says why or what for.
    package static func state(_ state: String, detail: String? = nil, style: Style = .faint) -> Line {
        let why = detail.map { [Span(": " + $0, .faint)] } ?? []
        return Line([Span(state, style)] + why, ["type": "state", "state": .string(state), "detail": detail.map(Value.string)])
    }

    package static func subscribed(_ channel: String) -> Line {
        Line([Span("subscribed", .good), " to ", Span(channel, .name)], ["type": "subscribed", "channel": .string(channel)])
    }

    /// - Parameter data: the string as it was delivered.
    package static func event(channel: String, event: String, data: String, userID: String? = nil) -> Line {
        let sender = userID.map { [Span(" from " + $0, .faint)] } ?? []
        return Line(
            [Span(channel, .name), " ", Span(event, .good)] + sender + [Span(" " + data)],
            [
                "type": "event", "channel": .string(channel), "event": .string(event), "data": .string(data),
                "user_id": userID.map(Value.string),
            ])
    }

    /// Something went wrong that does not end the command, or why it ends.
    package static func error(_ message: String, channel: String? = nil, code: Int? = nil) -> Line {
        let place: [Span] = channel.map { [" on ", Span($0, .name)] } ?? []
        return Line(
            [Span("error", .bad)] + place + [Span(": " + message)],
            ["type": "error", "channel": channel.map(Value.string), "code": code.map(Value.integer), "message": .string(message)])
    }
}

// MARK: As bytes

extension Line {
    /// With the escape codes of the colours or without, ending in a line feed.
    package func words(coloured: Bool) -> [UInt8] {
        var text = ""
        for span in self.words {
            let escaped = TerminalText.escaped(span.text)
            if coloured, let code = span.style.code {
                text += "\u{1B}[\(code)m\(escaped)\u{1B}[0m"
            } else {
                text += escaped
            }
        }
        return Array((text + "\n").utf8)
    }

    /// One JSON object, ending in a line feed.
    package var json: [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
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
            // What is no number, JSON has no word for.
            do throws(JSONError) { try writer.value(number) } catch { writer.null() }
        case .bool(let flag): writer.value(flag)
        case .strings(let texts):
            writer.beginArray()
            for text in texts { writer.value(text) }
            writer.endArray()
        }
    }
}

extension Line.Style {
    fileprivate var code: String? {
        switch self {
        case .plain: nil
        case .faint: "2"
        case .name: "36"
        case .good: "32"
        case .warning: "33"
        case .bad: "31"
        }
    }
}
