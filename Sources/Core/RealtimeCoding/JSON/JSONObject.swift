import RealtimeSystem

/// A JSON object: an ordered collection of members with unique keys.
///
/// Keys are compared byte by byte, unlike `String`s: an "é" of one Unicode scalar and an "é" of two are different keys. If an input
/// repeats a key, its last value is kept, at the position of the first. Objects are equal if they have the same members, in any order.
public struct JSONObject: Sendable {
    /// A member of the object.
    public typealias Element = (key: String, value: JSONValue)

    private var members: [Element]
    /// The positions of the keys, if there are at least ``indexThreshold`` members. With fewer, a linear search is faster.
    private var positions: [ByteString: Int]?

    private static var indexThreshold: Int { 16 }

    /// Creates an empty object.
    public init() {
        self.members = []
    }

    /// Creates an object with the given members.
    ///
    /// - Parameter members: The members, in order. If a key is repeated, the last value is kept, at the position of the first.
    public init(_ members: some Sequence<Element>) {
        let members = Array(members)
        if members.count < Self.indexThreshold, !Self.hasDuplicates(members) {
            self.members = members
            return
        }
        var unique = Self()
        unique.members.reserveCapacity(members.count)
        for member in members { unique[member.key] = member.value }
        self = unique
    }

    private static func hasDuplicates(_ members: [Element]) -> Bool {
        members.indices.contains { index in members[..<index].contains { $0.key.hasBytes(of: members[index].key) } }
    }

    /// The value for a key, or `nil` if there is none.
    ///
    /// Setting a value replaces it or appends a member. Setting `nil` removes the member.
    public subscript(key: String) -> JSONValue? {
        get { self.position(of: key).map { self.members[$0].value } }
        set {
            let position = self.position(of: key)
            switch (position, newValue) {
            case (let position?, let value?): self.members[position].value = value
            case (let position?, nil):
                self.members.remove(at: position)
                self.reindex()
            case (nil, let value?):
                self.members.append((key, value))
                if self.positions != nil {
                    self.positions?[ByteString(key)] = self.members.count - 1
                } else if self.members.count >= Self.indexThreshold {
                    self.reindex()
                }
            case (nil, nil): break
            }
        }
    }

    /// The keys, in order.
    public var keys: [String] { self.members.map(\.key) }

    private func position(of key: String) -> Int? {
        if let positions = self.positions { return positions[ByteString(key)] }
        return self.members.firstIndex { $0.key.hasBytes(of: key) }
    }

    private mutating func reindex() {
        guard self.members.count >= Self.indexThreshold else {
            self.positions = nil
            return
        }
        self.positions = Dictionary(uniqueKeysWithValues: self.members.enumerated().map { (ByteString($0.element.key), $0.offset) })
    }
}

extension JSONObject: RandomAccessCollection {
    /// The position of the first member, which is always zero.
    public var startIndex: Int { 0 }
    /// The position after the last member.
    public var endIndex: Int { self.members.count }

    /// Accesses the member at a position.
    public subscript(position: Int) -> Element { self.members[position] }
}

extension JSONObject: Hashable {
    /// Returns whether two objects have the same members, in any order.
    public static func == (lhs: Self, rhs: Self) -> Bool {
        lhs.count == rhs.count && lhs.allSatisfy { rhs[$0.key] == $0.value }
    }

    /// Hashes the members independently of their order.
    public func hash(into hasher: inout Hasher) {
        var sum = 0
        for member in self.members {
            var memberHasher = Hasher()
            memberHasher.combine(ByteString(member.key))
            memberHasher.combine(member.value)
            sum &+= memberHasher.finalize()
        }
        hasher.combine(sum)
    }
}

extension JSONObject: ExpressibleByDictionaryLiteral {
    /// Creates an object from a dictionary literal, in order. If a key is repeated, the last value is kept.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        self.init(elements.map { (key: $0.0, value: $0.1) })
    }
}
