/// An object's members in their order, found by name.
///
/// A name is there once: of names that come twice the last value counts, in the first one's place. Two objects are equal when
/// they have the same members, in whatever order.
public struct JSONObject: Sendable {
    /// A member.
    public typealias Element = (key: String, value: JSONValue)

    private var members: [Element]
    /// Only from ``indexed`` members on: below that, looking through them is faster.
    private var places: [String: Int]?

    private static var indexed: Int { 16 }

    /// No members.
    public init() {
        self.members = []
    }

    /// Members in this order; of a name that comes twice the last value counts. Names are the same when their strings are equal.
    public init(_ members: some Sequence<Element>) {
        let members = Array(members)
        if members.count < Self.indexed, !Self.hasTwins(members) {
            self.members = members
            return
        }
        var unique = Self()
        unique.members.reserveCapacity(members.count)
        for member in members { unique[member.key] = member.value }
        self = unique
    }

    private static func hasTwins(_ members: [Element]) -> Bool {
        for index in members.indices.dropFirst() where members[..<index].contains(where: { $0.key == members[index].key }) { return true }
        return false
    }

    /// The value of the member of this name. Setting `nil` removes the member; a new one goes to the end.
    public subscript(key: String) -> JSONValue? {
        get { self.place(key).map { self.members[$0].value } }
        set {
            let place = self.place(key)
            switch (place, newValue) {
            case (let place?, let value?): self.members[place].value = value
            case (let place?, nil):
                self.members.remove(at: place)
                self.reindex()
            case (nil, let value?):
                self.members.append((key, value))
                if self.places != nil {
                    self.places?[key] = self.members.count - 1
                } else if self.members.count >= Self.indexed {
                    self.reindex()
                }
            case (nil, nil): break
            }
        }
    }

    /// The names, in their order.
    public var keys: [String] { self.members.map(\.key) }

    private func place(_ key: String) -> Int? {
        if let places = self.places { return places[key] }
        return self.members.firstIndex { $0.key == key }
    }

    private mutating func reindex() {
        guard self.members.count >= Self.indexed else {
            self.places = nil
            return
        }
        self.places = Dictionary(uniqueKeysWithValues: self.members.enumerated().map { ($0.element.key, $0.offset) })
    }
}

extension JSONObject: RandomAccessCollection {
    /// Zero.
    public var startIndex: Int { 0 }
    /// How many members there are.
    public var endIndex: Int { self.members.count }

    /// The member at this place.
    public subscript(position: Int) -> Element { self.members[position] }
}

extension JSONObject: Hashable {
    /// Whether both have the same members, in whatever order.
    public static func == (lhs: Self, rhs: Self) -> Bool {
        lhs.count == rhs.count && lhs.allSatisfy { rhs[$0.key] == $0.value }
    }

    /// Hashes the members, in whatever order.
    public func hash(into hasher: inout Hasher) {
        var sum = 0
        for member in self.members {
            var own = Hasher()
            own.combine(member.key)
            own.combine(member.value)
            sum &+= own.finalize()
        }
        hasher.combine(sum)
    }
}

extension JSONObject: ExpressibleByDictionaryLiteral {
    /// Members in this order.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        self.init(elements.map { (key: $0.0, value: $0.1) })
    }
}
