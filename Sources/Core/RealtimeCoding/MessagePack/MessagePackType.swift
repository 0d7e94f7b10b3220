import RealtimeSystem

/// The kinds of types that the coders of MessagePack distinguish.
enum MessagePackType {
    /// A type that is coded by its own conformance to `Codable`.
    case plain
    case foundation(FoundationType)
    /// An array of bytes, which is a binary value instead of an array of numbers.
    case bytes
    /// A dictionary, whose keys aren't names of properties.
    case dictionary
    /// A dictionary with keys of the type `Int`.
    case integerDictionary

    private static let known = Lock<[ObjectIdentifier: MessagePackType]>([:])

    init(_ type: Any.Type) {
        let identifier = ObjectIdentifier(type)
        if let known = Self.known.withLock({ $0[identifier] }) {
            self = known
            return
        }
        let found = Self.find(type)
        Self.known.withLock { $0[identifier] = found }
        self = found
    }

    private static func find(_ type: Any.Type) -> MessagePackType {
        if let type = FoundationType(type) { return .foundation(type) }
        if type == [UInt8].self || type == ContiguousArray<UInt8>.self { return .bytes }
        guard let dictionary = type as? any AnyDictionary.Type else { return .plain }
        return dictionary.keyType == Int.self ? .integerDictionary : .dictionary
    }
}

private protocol AnyDictionary {
    static var keyType: Any.Type { get }
}

extension Dictionary: AnyDictionary {
    static var keyType: Any.Type { Key.self }
}
