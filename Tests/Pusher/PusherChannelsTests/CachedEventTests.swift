import TestSupport
import Testing

@testable import PusherChannels

/// Whether the last event of a cache channel is delivered, which the server repeats without its position.
@Suite struct CachedEventTests {
    private func receive(_ event: inout CachedEvent, _ text: String = "e", mustWait: Bool = false) -> CachedEvent.Action {
        Array(text.utf8).withUnsafeBytes { event.received($0, mustWait: mustWait) }
    }

    @Test(arguments: [
        // A first confirmation, after which the event is new; one after a loss, when it was delivered; and one of another filter.
        (isMissing: true, isCache: true, isDelivered: false, action: CachedEvent.Action.deliver),
        (isMissing: false, isCache: true, isDelivered: false, action: .drop),
        (isMissing: false, isCache: false, isDelivered: false, action: .deliver),
        (isMissing: true, isCache: true, isDelivered: true, action: .drop),
    ])
    func `a repeated event is delivered once`(isMissing: Bool, isCache: Bool, isDelivered: Bool, action: CachedEvent.Action) {
        var event = CachedEvent(isMissing: isMissing)
        event.confirmed(isCache: isCache, isDelivered: isDelivered)
        expectEqual(self.receive(&event), action)
        // The next event without a position is another one.
        expectEqual(self.receive(&event), .deliver)
    }

    @Test func `an event waits for missed ones and is delivered first unless it was among them`() {
        var event = CachedEvent(isMissing: true)
        expect(self.receive(&event, "a", mustWait: true) == .hold && event.isHeld)
        expectEqual(self.receive(&event, "b", mustWait: true), .hold)
        var superseded = event
        superseded.superseded()
        expect(superseded.takeHeld() == nil && !superseded.isHeld)
        expect(event.takeHeld() == Array("b".utf8) && event.takeHeld() == nil)
    }

    @Test func `a cache miss and a loss end the expectation of a repeated event`() {
        var missed = CachedEvent(isMissing: false)
        missed.confirmed(isCache: true)
        var lost = missed
        missed.missed()
        expectEqual(self.receive(&missed), .deliver)
        _ = self.receive(&lost, mustWait: true)
        lost.lost()
        expect(!lost.isHeld && self.receive(&lost) == .deliver)
    }

    @Test func `another position makes the event new`() {
        var event = CachedEvent(isMissing: false)
        event.begun()
        event.confirmed(isCache: true)
        expectEqual(self.receive(&event), .deliver)
        event.confirmed(isCache: true)
        expectEqual(self.receive(&event), .drop)
    }
}
