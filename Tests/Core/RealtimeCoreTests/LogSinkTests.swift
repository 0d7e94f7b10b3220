import RealtimeCore
import RealtimeTesting
import Testing

@Suite struct LogSinkTests {
    private static let levels: [LogSink.Level] = [.debug, .info, .warning, .error]

    @Test(arguments: levels)
    func `what is below the level is not even put into words`(minimum: LogSink.Level) {
        let (written, worded) = (EventRecorder<LogSink.Level>(), EventRecorder<LogSink.Level>())
        let log = LogSink(minimumLevel: minimum) { level, subsystem, message in
            #expect(subsystem == "test" && message == "\(level)")
            written.record(level)
        }
        for level in Self.levels {
            func words() -> String {
                worded.record(level)
                return "\(level)"
            }
            log.log(level, "test", words())
        }
        let wanted = Self.levels.filter { $0 >= minimum }
        #expect(written.all == wanted && worded.all == wanted)
    }

    @Test(arguments: levels)
    func `a machines messages are not put into words either`(minimum: LogSink.Level) {
        let worded = EventRecorder<LogSink.Level>()
        var effects = Effects<ToySession>(logLevel: minimum)
        for level in Self.levels {
            func words() -> String {
                worded.record(level)
                return ""
            }
            effects.log(level, words())
        }
        #expect(worded.all == Self.levels.filter { $0 >= minimum })
        #expect(effects.commands.count == worded.all.count)
    }

    @Test func `a drivers messages come in order with their subsystem`() {
        let lines = EventRecorder<String>()
        let toy = Toy(log: LogSink(minimumLevel: .debug) { lines.record("\($1) \($0): \($2)") })
        toy.driver.start()
        toy.driver.step { _, _, effects in
            effects.log(.info, "one")
            effects.log(.error, "two")
        }
        #expect(lines.all == ["toy debug: opening #1", "toy info: one", "toy error: two"])
    }

    @Test func `the levels are ordered by weight`() {
        #expect(Self.levels == Self.levels.sorted() && LogSink.Level.debug < .error)
        #expect(LogSink.standard.minimumLevel == .warning)
    }
}
