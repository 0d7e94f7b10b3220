import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@Suite struct ResponseBufferTests {
    private static let endpoint = Endpoint(scheme: "http", host: "example.org", port: 80)
    private static let head = HTTPResponseHead(status: 200)

    /// One call, with the result it must have.
    enum Step: Sendable {
        case head(Int)
        case bytes(Range<UInt8>)
        /// The piece pauses the transport.
        case pausingBytes(Range<UInt8>)
        case end(TransportError.Code?)
        case cancel
        case readHead(Int?)
        case read(ResponseBuffer.Piece)
        case readFails(TransportError.Code)
        case readHeadFails(TransportError.Code)
        case resumes(Bool)
    }

    struct Scenario: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var limit = Int.max
        var steps: [Step]
    }

    private static func bytes(_ range: Range<UInt8>) -> ResponseBuffer.Piece { .bytes(Array(range)) }

    static let scenarios: [Scenario] = [
        Scenario(
            testDescription: "a complete response is read once",
            steps: [
                .head(200), .bytes(0..<7), .end(nil), .readHead(200), .read(bytes(0..<7)), .read(.end), .read(.end),
            ]),
        Scenario(
            testDescription: "pieces are joined in order",
            steps: [.head(200), .bytes(0..<3), .bytes(3..<9), .end(nil), .read(bytes(0..<9)), .read(.end)]),
        Scenario(
            testDescription: "a failure follows what arrived before it",
            steps: [
                .head(200), .bytes(0..<3), .end(.reset), .readHead(200), .read(bytes(0..<3)), .readFails(.reset),
                .readFails(.reset), .readHead(200),
            ]),
        Scenario(
            testDescription: "a failure before the head fails both reads",
            steps: [.end(.refused), .readHeadFails(.refused), .readFails(.refused)]),
        Scenario(
            testDescription: "an end before the head is a failure",
            steps: [.end(nil), .readHeadFails(.closed), .readFails(.closed)]),
        Scenario(
            testDescription: "only the first end counts",
            steps: [
                .head(200), .end(nil), .end(.reset), .bytes(0..<3), .head(201), .readHead(200), .read(.end),
            ]),
        Scenario(
            testDescription: "cancelling discards what arrived",
            steps: [
                .head(200), .bytes(0..<3), .cancel, .readHeadFails(.cancelled), .readFails(.cancelled), .end(.reset),
                .readFails(.cancelled),
            ]),
        Scenario(
            testDescription: "cancelling overrides an earlier end",
            steps: [.head(200), .bytes(0..<3), .end(nil), .cancel, .readHeadFails(.cancelled), .readFails(.cancelled)]),
        Scenario(
            testDescription: "the transport pauses once above the limit and resumes when everything is read", limit: 10,
            steps: [
                .head(200), .bytes(0..<10), .pausingBytes(10..<11), .bytes(11..<40), .resumes(false),
                .read(bytes(0..<40)), .resumes(true), .resumes(false), .pausingBytes(40..<51),
            ]),
        Scenario(
            testDescription: "bytes delivered after the pause delay the resumption", limit: 4,
            steps: [
                .head(200), .pausingBytes(0..<5), .read(bytes(0..<5)), .bytes(5..<20), .resumes(false),
                .read(bytes(5..<20)), .resumes(true),
            ]),
        Scenario(
            testDescription: "an end during a pause leaves what arrived to the reader", limit: 4,
            steps: [.head(200), .pausingBytes(0..<5), .end(nil), .read(bytes(0..<5)), .read(.end)]),
    ]

    @Test(arguments: Self.scenarios)
    func `each step of a response has the expected result`(_ scenario: Scenario) throws {
        var buffer = ResponseBuffer(from: Self.endpoint, limit: scenario.limit)
        for (index, step) in scenario.steps.enumerated() {
            let comment: Comment = "step \(index)"
            switch step {
            case .head(let status): buffer.receiveHead(HTTPResponseHead(status: status))
            case .bytes(let range):
                let pauses = buffer.receive(Array(range))
                #expect(!pauses, comment)
            case .pausingBytes(let range):
                let pauses = buffer.receive(Array(range))
                #expect(pauses, comment)
            case .end(let code): buffer.end(code.map { TransportError($0, "the end") })
            case .cancel: buffer.cancel(TransportError(.cancelled, "cancelled"))
            case .readHead(let status):
                let head = try buffer.readHead()
                #expect(head?.status == status, comment)
            case .read(let piece):
                let result = try buffer.readBody()
                #expect(result == piece, comment)
            case .readFails(let code): #expect(Self.code { () throws(TransportError) in _ = try buffer.readBody() } == code, comment)
            case .readHeadFails(let code): #expect(Self.code { () throws(TransportError) in _ = try buffer.readHead() } == code, comment)
            case .resumes(let expected):
                let result = buffer.takeResume()
                #expect(result == expected, comment)
            }
        }
    }

    private static func code(_ body: () throws(TransportError) -> Void) -> TransportError.Code? {
        do throws(TransportError) {
            try body()
            return nil
        } catch {
            return error.code
        }
    }

    @Test func `errors name the origin of the response`() throws {
        var buffer = ResponseBuffer(from: Endpoint(scheme: "http", host: "example.org", port: 80, target: "/path?token=secret"))
        buffer.end(nil)
        let error = try #require(throws: TransportError.self) { try buffer.readHead() }
        expectEqual(error.message, "http://example.org closed the connection without sending a response.")
    }

    // MARK: The suspended task

    /// The reaction of the buffer to a task that has found nothing to read.
    enum Arrival: Sendable, CaseIterable {
        case nothing, head, body, end, failure, cancellation

        func arrive(at buffer: inout ResponseBuffer) {
            switch self {
            case .nothing: break
            case .head: buffer.receiveHead(HTTPResponseHead(status: 200))
            case .body: _ = buffer.receive([1])
            case .end: buffer.end(nil)
            case .failure: buffer.end(TransportError(.reset, "reset"))
            case .cancellation: buffer.cancel(TransportError(.cancelled, "cancelled"))
            }
        }
    }

    /// Suspends in a buffer, and returns whether it was resumed by `arrive`. Otherwise it is resumed afterwards.
    private func isResumed(_ buffer: borrowing Lock<ResponseBuffer>, by arrive: @Sendable (inout ResponseBuffer) -> Void) async -> Bool {
        let isResumed = Lock(false)
        await withUnsafeContinuation { (wakeUp: WakeUp) in
            let (waits, ready) = buffer.withLock { buffer -> (Bool, WakeUp?) in
                let waits = buffer.suspend(wakeUp)
                arrive(&buffer)
                return (waits, buffer.takeReadyReader())
            }
            isResumed.withLock { $0 = ready != nil }
            (ready ?? wakeUp).resume()
            expect(waits)
        }
        return isResumed.withLock { $0 }
    }

    @Test(arguments: Arrival.allCases)
    func `a task waiting for the head is resumed by the head and by the end`(_ arrival: Arrival) async throws {
        let buffer = Lock(ResponseBuffer(from: Self.endpoint))
        try expectNil(buffer.withLock { try $0.readHead() })
        let expected = [.head, .end, .failure, .cancellation].contains(arrival)
        await expectEqual(self.isResumed(buffer) { arrival.arrive(at: &$0) }, expected)
    }

    @Test(arguments: Arrival.allCases)
    func `a task waiting for the body is resumed by bytes and by the end`(_ arrival: Arrival) async throws {
        let buffer = Lock(ResponseBuffer(from: Self.endpoint))
        buffer.withLock { $0.receiveHead(Self.head) }
        try expectEqual(buffer.withLock { try $0.readBody() }, .pending)
        let expected = [.body, .end, .failure, .cancellation].contains(arrival)
        await expectEqual(self.isResumed(buffer) { arrival.arrive(at: &$0) }, expected)
    }

    @Test func `data that arrives before the task suspends is read immediately`() async throws {
        let buffer = Lock(ResponseBuffer(from: Self.endpoint))
        try expectNil(buffer.withLock { try $0.readHead() })
        buffer.withLock { $0.receiveHead(Self.head) }
        await withUnsafeContinuation { (wakeUp: WakeUp) in
            expectNil(buffer.withLock { $0.takeReadyReader() })
            expect(!buffer.withLock { $0.suspend(wakeUp) })
            wakeUp.resume()
        }
        try expectEqual(buffer.withLock { try $0.readHead() }?.status, 200)
    }

    @Test func `a second reading task is rejected and the first one continues`() throws {
        var buffer = ResponseBuffer(from: Self.endpoint)
        buffer.receiveHead(Self.head)
        try expectEqual(buffer.readBody(), .pending)
        expectEqual(Self.code { () throws(TransportError) in _ = try buffer.readBody() }, .unsupported)
        _ = buffer.receive([1])
        expectEqual(Self.code { () throws(TransportError) in _ = try buffer.readBody() }, .unsupported)
    }
}
