@testable import RealtimeCore
import TestSupport
import Testing

@Suite struct UnansweredMessagesTests {
    private let http = ConnectionID(rawValue: 1)
    private let webSocket = ConnectionID(rawValue: 2)

    private func waiters(_ numbers: UInt64...) -> [WaiterID] { numbers.map { WaiterID(rawValue: $0) } }

    @Test func `callers wait for what was sent before their calls, and are resumed in order`() {
        var messages = UnansweredMessages()
        messages.add(self.http)
        // Nothing was sent.
        expect(!messages.addWaiter(WaiterID(rawValue: 1), on: self.http))
        messages.sent(on: self.http)
        expect(messages.addWaiter(WaiterID(rawValue: 2), on: self.http))
        for _ in 0..<2 { messages.sent(on: self.http) }
        expect(messages.addWaiter(WaiterID(rawValue: 3), on: self.http) && messages.addWaiter(WaiterID(rawValue: 4), on: self.http))
        messages.sent(on: self.http)
        expect(messages.addWaiter(WaiterID(rawValue: 5), on: self.http))
        expectEqual(messages.answered(2, on: self.http), self.waiters(2))
        expectEqual(messages.answered(1, on: self.http), self.waiters(3, 4))
        expectEqual(messages.answered(1, on: self.http), self.waiters(5))
        expect(!messages.addWaiter(WaiterID(rawValue: 6), on: self.http))
    }

    @Test func `on a WebSocket and after the end, no caller waits`() {
        var messages = UnansweredMessages()
        messages.sent(on: self.webSocket)
        expect(!messages.addWaiter(WaiterID(rawValue: 1), on: self.webSocket))
        messages.add(self.http)
        messages.sent(on: self.http)
        messages.sent(on: self.webSocket)
        expect(!messages.addWaiter(WaiterID(rawValue: 1), on: self.webSocket))
        expect(messages.addWaiter(WaiterID(rawValue: 1), on: self.http) && messages.contains(WaiterID(rawValue: 1)))
        expectEqual(messages.remove(self.http), self.waiters(1))
        expect(messages.answered(1, on: self.http).isEmpty && !messages.addWaiter(WaiterID(rawValue: 2), on: self.http))
    }
}
