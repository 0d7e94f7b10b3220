import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@Suite struct LogSinkTests {
    private static let levels: [LogSink.Level] = [.trace, .debug, .info, .warning, .error]

    @Test(arguments: levels)
    func `a message below the minimum level is not evaluated`(minimum: LogSink.Level) {
        let (written, evaluated) = (EventRecorder<LogSink.Level>(), EventRecorder<LogSink.Level>())
        let log = LogSink(minimumLevel: minimum) { level, subsystem, message in
            expect(subsystem == "test" && message == "\(level)")
            written.record(level)
        }
        for level in Self.levels {
            func message() -> String {
                evaluated.record(level)
                return "\(level)"
            }
            log.log(level, "test", message())
        }
        let expected = Self.levels.filter { $0 >= minimum }
        expect(written.all == expected && evaluated.all == expected)
    }

    @Test(arguments: levels)
    func `a machine's message below the minimum level is not evaluated`(minimum: LogSink.Level) {
        let evaluated = EventRecorder<LogSink.Level>()
        var effects = Effects<ToySession>(logLevel: minimum)
        for level in Self.levels {
            func message() -> String {
                evaluated.record(level)
                return ""
            }
            effects.log(level, message())
        }
        expectEqual(evaluated.all, Self.levels.filter { $0 >= minimum })
        expectEqual(effects.commands.count, evaluated.all.count)
    }

    @Test func `a driver's messages keep their order and carry its subsystem`() {
        let lines = EventRecorder<String>()
        let toy = Toy(log: LogSink(minimumLevel: .debug) { lines.record("\($1) \($0): \($2)") })
        toy.driver.start()
        toy.driver.step { _, _, effects in
            effects.log(.info, "one")
            effects.log(.error, "two")
        }
        expectEqual(lines.all, ["toy debug: opening #1", "toy info: one", "toy error: two"])
    }

    @Test func `levels are ordered by severity`() {
        expect(Self.levels == Self.levels.sorted() && LogSink.Level.trace < .error)
        expectEqual(LogSink.standard.minimumLevel, .warning)
    }
}
