import RealtimeCore
import TestSupport
import Testing

@Suite
struct OutputGaugeTests {
    /// Accepts a number of bytes, or removes them if it is negative, and returns the changes.
    private static func add(_ count: Int, to gauge: inout OutputGauge) -> [Bool?] {
        if count < 0 { gauge.remove(-count) } else { _ = gauge.accept(count) }
        return [gauge.takeChange(), gauge.takeChange()]
    }

    @Test func `writing pauses above the mark and resumes when everything has been sent`() {
        var gauge = OutputGauge()
        expectEqual(Self.add(OutputGauge.mark, to: &gauge), [nil, nil])
        expectEqual(Self.add(1, to: &gauge), [true, nil])
        expectEqual(Self.add(-OutputGauge.mark, to: &gauge), [nil, nil])
        expectEqual(Self.add(OutputGauge.mark, to: &gauge), [nil, nil])
        expectEqual(Self.add(-OutputGauge.mark - 1, to: &gauge), [false, nil])
    }

    @Test func `a single message may exceed the limit, and no message is accepted above it`() {
        var gauge = OutputGauge(limit: 1000)
        let results = [gauge.accept(5000), gauge.accept(1)]
        expect(results == [true, false] && gauge.bytes == 5000)
        gauge.remove(4000)
        let isAccepted = gauge.accept(1)
        expect(isAccepted && gauge.mark == 1000)
        expect(gauge.error.code == .tooLarge && gauge.error.message.contains("1000 bytes"))
    }
}
