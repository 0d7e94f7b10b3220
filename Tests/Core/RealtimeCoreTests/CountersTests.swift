import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@Suite struct CountersTests {
    @Test func `initial counters are zero`() {
        let counters = Counters()
        expect(counters.messagesReceived == 0 && counters.bytesReceived == 0 && counters.messagesSent == 0 && counters.bytesSent == 0)
        expect(counters.reconnects == 0 && counters.eventsDropped == 0 && counters.messagesIgnored == 0 && counters.lastRoundTrip == nil)
        expectEqual(counters.decodingFailures, 0)
    }

    @Test func `sent and received messages and bytes are counted`() {
        let toy = Toy()
        let connection = toy.connect()
        var expected = toy.driver.counters
        expect(expected.messagesReceived == 1 && expected.bytesReceived == 5)
        connection.receive("@ news ä", "nonsense")
        toy.driver.step { machine, _, effects in machine.send("four", &effects) }
        expected.messagesReceived += 2
        expected.bytesReceived += 9 + 8
        expected.messagesSent += 1
        expected.bytesSent += 4
        expected.messagesIgnored += 1
        expectEqual(toy.driver.counters, expected)
    }

    @Test func `counters add up over all attempts`() {
        let toy = Toy()
        toy.connect().end(.transport(TransportError(.reset, "reset")))
        let before = toy.driver.counters
        toy.clock.advance(by: .seconds(1))
        toy.connection.connect()
        expectEqual(toy.driver.counters.messagesReceived, before.messagesReceived + 1)
        toy.driver.stop()
        expectEqual(toy.driver.counters.messagesReceived, before.messagesReceived + 1)
    }

    @Test func `dropped events are counted per sequence and in total`() {
        let toy = Toy()
        let connection = toy.connect()
        let (one, two) = (toy.events("news", .dropNewest(1)), toy.events("news", .dropOldest(2)))
        connection.receive("@ news 1", "@ news 2", "@ news 3")
        connection.receive("@ news 4")
        expect(one.dropped == 3 && two.dropped == 2)
        expectEqual(toy.driver.counters.eventsDropped, 5)
    }
}
