import PusherWire
import TestSupport
import Testing

/// The number of bytes that a filter may compare.
@Suite struct FilterWorkTests {
    private static func tags(_ count: Int) -> EventTags? { EventTags(["a": String(repeating: "a", count: count), "b": "1"]) }

    @Test func `an event doesn't satisfy a filter that would compare too many bytes`() {
        let part = String(repeating: "a", count: 1_000) + "b"
        let other = PusherFilter.not(.contains("a", part))
        expect(PusherFilter.all([other, other]).matches(Self.tags(10_000)))
        let many = [PusherFilter](repeating: other, count: 90)
        expect(!PusherFilter.all(many).matches(Self.tags(10_000)))
        // Not even if the condition that isn't evaluated is negated.
        let any = PusherFilter.any([PusherFilter](repeating: .contains("a", part), count: 90))
        expect(!PusherFilter.not(any).matches(Self.tags(10_000)))
        expect(!PusherFilter.any([any, .exists("b")]).matches(Self.tags(10_000)))
    }

    @Test func `many conditions on short values are evaluated`() {
        let filter = PusherFilter.all([PusherFilter](repeating: .contains("a", "aa"), count: 125) + [.isAtLeast("b", 1)])
        expect(filter.matches(Self.tags(500)))
        expectNil(filter.validationError)
    }
}
