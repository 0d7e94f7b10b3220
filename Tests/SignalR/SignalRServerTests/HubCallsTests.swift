import RealtimeCore
import RealtimeSystem
import SignalRWire
import TestSupport
import Testing

@testable import SignalRServer

/// The calls of one connection, without a machine.
@Suite struct HubCallsTests {
    private static let info = HubConnectionInfo(
        id: ConnectionID(rawValue: 1), hub: HubID(rawValue: 0), connectionID: "c", userID: nil,
        request: HTTPRequestHead(method: "GET", target: "/hub"), format: .json)

    private var calls = HubCalls()

    init() { self.calls.becomeReady() }

    private static func pending(_ number: UInt64, isStreaming: Bool = false, streams: [String] = [], size: Int = 2) -> PendingCall {
        let arguments = HubPayload(.json, Array(repeating: UInt8(ascii: " "), count: size))
        var invocation = HubInvocation(id: "i\(number)", target: "M\(number)", arguments: arguments)
        invocation.streamIDs = streams
        let call = HubCall(number, of: Self.info, .invocation(invocation, isStreaming: isStreaming))
        return PendingCall(call: call, invocation: invocation, isStreaming: isStreaming)
    }

    /// Starts the calls that can start.
    ///
    /// - Returns: Their numbers.
    private mutating func start(slots: Int = 1) -> [UInt64] {
        var numbers: [UInt64] = []
        while let next = self.calls.startNext(slots: slots) { numbers.append(next.call.number) }
        return numbers
    }

    @Test mutating func `nothing starts before the handler of the beginning has returned`() {
        self.calls = HubCalls()
        self.calls.append(Self.pending(1))
        expectEqual(self.start(), [])
        self.calls.becomeReady()
        expectEqual(self.start(), [1])
    }

    @Test mutating func `calls start in order, as many as there are slots`() {
        for number in 1...4 { self.calls.append(Self.pending(UInt64(number))) }
        expect(self.start(slots: 2) == [1, 2] && self.calls.queuedCount == 2)
        expect(self.calls.ended(2)?.target == "M2" && self.calls.ended(2) == nil)
        expectEqual(self.start(slots: 2), [3])
        expect(self.calls.runningCalls.map(\.number) == [1, 3] && self.calls.isRunning(3) && !self.calls.isRunning(4))
    }

    @Test mutating func `a call with a stream needs no slot, but waits for its turn`() {
        self.calls.append(Self.pending(1))
        self.calls.append(Self.pending(2, isStreaming: true))
        self.calls.append(Self.pending(3, streams: ["s"]))
        self.calls.append(Self.pending(4))
        self.calls.append(Self.pending(5, isStreaming: true))
        expectEqual(self.calls.streamingCount, 2)
        expectEqual(self.start(), [1, 2, 3])
        _ = self.calls.ended(1)
        expectEqual(self.start(), [4, 5])
        _ = self.calls.ended(2)
        expectEqual(self.calls.streamingCount, 1)
    }

    @Test mutating func `the bytes of calls that wait are counted`() {
        self.calls.append(Self.pending(1, size: 10))
        self.calls.append(Self.pending(2, size: 20))
        let overhead = SignalRServerMachine.itemOverhead
        expectEqual(self.calls.queuedBytes, 30 + 2 * overhead)
        _ = self.start()
        expectEqual(self.calls.queuedBytes, 20 + overhead)
        self.calls.removeWaiting()
        expect(self.calls.queuedBytes == 0 && !self.calls.isEmpty)
        _ = self.calls.ended(1)
        expect(self.calls.isEmpty)
    }

    @Test mutating func `a call is cancelled by the ID of its invocation, which can be used again when it has ended`() {
        self.calls.append(Self.pending(1))
        self.calls.append(Self.pending(2, isStreaming: true))
        expect(self.calls.isInUse(ByteString("i1")) && self.calls.isInUse(ByteString("i2")) && !self.calls.isInUse(ByteString("i3")))
        let second = self.calls.cancel(ByteString("i2"))
        let isSecond = if case .waiting(let waiting) = second { waiting.call.number == 2 } else { false }
        expect(isSecond)
        expect(!self.calls.isInUse(ByteString("i2")) && self.calls.streamingCount == 0)
        expectEqual(self.start(), [1])
        let first = self.calls.cancel(ByteString("i1"))
        let isFirst = if case .running(let call) = first { call.number == 1 } else { false }
        expect(isFirst)
        expect(self.calls.isRunning(1))
        _ = self.calls.ended(1)
        expectNil(self.calls.cancel(ByteString("i1")))
    }

    @Test mutating func `calls that wait are removed by a condition`() {
        self.calls.append(Self.pending(1))
        self.calls.append(Self.pending(2, isStreaming: true))
        self.calls.append(Self.pending(3))
        self.calls.removeWaiting { $0.isConcurrent }
        expect(self.start(slots: 5) == [1, 3] && !self.calls.isInUse(ByteString("i2")))
    }
}
