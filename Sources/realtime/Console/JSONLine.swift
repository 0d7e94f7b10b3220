internal import RealtimeCore

/// Writes the one flat object of an output line.
struct JSONLine {
    private var writer = JSONWriter()

    init() {
        self.writer.beginObject()
    }

    mutating func add(_ name: String, _ value: Line.Value) {
        self.writer.key(name)
        switch value {
        case .string(let text): self.writer.value(text)
        case .integer(let number): self.writer.value(number)
        case .number(let number):
            do throws(JSONError) {
                try self.writer.value(number)
            } catch {
                // JSON has no word for what is not finite.
                self.writer.null()
            }
        case .bool(let flag): self.writer.value(flag)
        case .strings(let texts):
            self.writer.beginArray()
            for text in texts { self.writer.value(text) }
            self.writer.endArray()
        }
    }

    /// The object and a line feed.
    var finished: [UInt8] {
        var writer = self.writer
        writer.endObject()
        return writer.bytes + [UInt8(ascii: "\n")]
    }
}
