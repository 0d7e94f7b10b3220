import RealtimeCore
import TestSupport
import Testing

@Suite struct ConnectionTableTests {
    private final class Reference {}

    private struct Connection {
        var number = 0
        var reference = Reference()
    }

    private struct Refused: Error {}

    private static func id(_ number: UInt64) -> ConnectionID { ConnectionID(rawValue: number) }

    private var table = ConnectionTable<Connection>()

    init() {
        for number in [3, 1, 2] { self.table.insert(Connection(number: number), Self.id(UInt64(number))) }
    }

    @Test mutating func `connections are found by their IDs, which are listed in ascending order`() {
        expect(self.table.count == 3 && self.table.ids == [Self.id(1), Self.id(2), Self.id(3)])
        expect(self.table[Self.id(2)]?.number == 2 && self.table[Self.id(4)] == nil)
        expect(self.table.remove(Self.id(2))?.number == 2 && self.table.remove(Self.id(2)) == nil)
        expect(self.table.ids == [Self.id(1), Self.id(3)] && !self.table.isEmpty)
    }

    @Test mutating func `a connection is changed in place, without a copy`() {
        let isUnique = self.table.update(Self.id(1)) { connection -> Bool in
            connection.number += 10
            return isKnownUniquelyReferenced(&connection.reference)
        }
        expect(isUnique == true && self.table[Self.id(1)]?.number == 11)
    }

    @Test mutating func `the change of an unknown connection isn't called`() {
        var calls = 0
        let result: Void? = self.table.update(Self.id(4)) { _ in calls += 1 }
        expect(result == nil && calls == 0)
    }

    @Test mutating func `a result that may be nil isn't an optional of an optional`() {
        let number: Int? = self.table.update(Self.id(1)) { $0.number > 5 ? $0.number : nil }
        expectNil(number)
    }

    @Test mutating func `the error of a change is passed on, and what it changed before stays`() {
        #expect(throws: Refused.self) {
            try self.table.update(Self.id(1)) { connection throws(Refused) in
                connection.number = 7
                throw Refused()
            }
        }
        expectEqual(self.table[Self.id(1)]?.number, 7)
    }
}
