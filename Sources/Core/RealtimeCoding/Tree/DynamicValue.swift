import RealtimeEncoding

/// A type for values of any kind, which are decoded from formats other than its own, and from other libraries' decoders, as a
/// ``DynamicValue``.
protocol DynamicElement: Decodable {
    /// Creates a value, or returns `nil` if the type can't represent it.
    init?(_ value: DynamicValue<Self>)
}

/// A value of a kind that most formats have.
enum DynamicValue<Element: DynamicElement> {
    case null
    case bool(Bool)
    case signed(Int64)
    /// An integer above `Int64.max`.
    case unsigned(UInt64)
    case double(Double)
    case string(String)
    case array([Element])
    case object([(key: String, value: Element)])

    /// Decodes a value.
    ///
    /// A binary value of another format becomes a Base64 string, and a key that is a number or a Boolean value its text.
    ///
    /// - Throws: `DecodingError` if no case can contain the value, as for most extension values and for keys that have no name.
    static func decode(from decoder: any Decoder) throws -> Element {
        if let decoder = decoder as? NodeDecoder { return try Self.element(decoder.document, at: decoder.index) }
        if let element = Element(try Self(from: decoder)) { return element }
        let message = "The value cannot be represented as \(Element.self)."
        throw DecodingError.dataCorrupted(DecodingError.Context(codingPath: decoder.codingPath, debugDescription: message))
    }

    private static func element(_ document: CodingDocument, at index: Int) throws -> Element {
        if let element = Element(try Self(document, at: index)) { return element }
        throw document.unrepresentable(Element.self, at: index)
    }

    private init(from decoder: any Decoder) throws {
        if let container = try? decoder.container(keyedBy: ValueKey.self) {
            self = .object(try container.allKeys.map { ($0.stringValue, try container.decode(Element.self, forKey: $0)) })
            return
        }
        if var container = try? decoder.unkeyedContainer() {
            var elements: [Element] = []
            while !container.isAtEnd { elements.append(try container.decode(Element.self)) }
            self = .array(elements)
            return
        }
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Int64.self) {
            self = .signed(value)
        } else if let value = try? container.decode(UInt64.self) {
            self = .unsigned(value)
        } else if let value = try? container.decode(Double.self) {
            self = .double(value)
        } else {
            self = .string(try container.decode(String.self))
        }
    }

    private init(_ document: CodingDocument, at index: Int) throws {
        let node = document.nodes[index]
        switch node.kind {
        case .null, .missing: self = .null
        case .false: self = .bool(false)
        case .true: self = .bool(true)
        case .signed: self = .signed(Int64(bitPattern: node.bits))
        case .unsigned: self = .unsigned(node.bits)
        case .float, .single: self = .double(Double(bitPattern: node.bits))
        case .integer, .number:
            if let value = document.text(node, { NumberText.integer($0, node.kind, as: Int64.self) }) {
                self = .signed(value)
            } else if let value = document.text(node, { NumberText.integer($0, node.kind, as: UInt64.self) }) {
                self = .unsigned(value)
            } else {
                self = .double(try document.double(at: index))
            }
        case .string, .escapedString, .repairedString: self = .string(try document.string(at: index))
        case .binary: self = .string(document.text(node) { Base64.encode(Array($0)) })
        case .ext: self = .string(try document.extensionText(at: index, as: Element.self))
        case .array:
            var elements: [Element] = []
            elements.reserveCapacity(Int(node.length))
            var child = index + 1
            while child < Int(node.end) {
                elements.append(try Self.element(document, at: child))
                child = Int(document.nodes[child].end)
            }
            self = .array(elements)
        case .object:
            var members: [(key: String, value: Element)] = []
            members.reserveCapacity(Int(node.length))
            var child = index + 1
            while child < Int(node.end) {
                guard let name = document.rawKey(at: child) else { throw document.mismatch(String.self, at: child) }
                let value = Int(document.nodes[child].end)
                members.append((name, try Self.element(document, at: value)))
                child = Int(document.nodes[value].end)
            }
            self = .object(members)
        }
    }
}
