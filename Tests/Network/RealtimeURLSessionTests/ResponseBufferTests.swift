import RealtimeCore
import Testing

@testable import RealtimeURLSession

@Suite struct ResponseBufferTests {
    private let endpoint = Endpoint(scheme: "http", host: "example.org", port: 80)

    private func bytes(_ range: Range<Int>) -> [UInt8] { range.map { UInt8(truncatingIfNeeded: $0) } }

    private func begun(limit: Int) -> ResponseBuffer {
        var answer = ResponseBuffer(limit: limit)
        #expect(answer.answered(HTTPResponseHead(status: 200), from: self.endpoint) == .goOn)
        return answer
    }

    @Test func `the task is suspended once above the limit and resumed when all is read`() {
        var answer = self.begun(limit: 10)
        #expect(answer.received(self.bytes(0..<10)) == .goOn)
        #expect(answer.received(self.bytes(10..<11)) == .suspend)
        #expect(answer.received(self.bytes(11..<40)) == .goOn)
        #expect({ answer.resumes() }() == false)
        #expect(answer.take() == self.bytes(0..<40))
        #expect({ answer.resumes() }() == true)
        #expect({ answer.resumes() }() == false)
        #expect(answer.received(self.bytes(40..<51)) == .suspend)
    }

    @Test func `what comes after the suspension is kept in order and holds the resumption back`() {
        var answer = self.begun(limit: 4)
        #expect(answer.received(self.bytes(0..<5)) == .suspend)
        #expect(answer.take() == self.bytes(0..<5))
        // Received by the session before it was suspended, delivered between the reader's taking and the resumption.
        #expect(answer.received(self.bytes(5..<20)) == .goOn)
        #expect({ answer.resumes() }() == false)
        #expect(answer.take() == self.bytes(5..<20))
        #expect({ answer.resumes() }() == true)
    }

    @Test func `nothing is handed out twice`() {
        var answer = self.begun(limit: 100)
        _ = answer.received(self.bytes(0..<7))
        #expect(answer.take() == self.bytes(0..<7))
        #expect(answer.take() == [])
        #expect(answer.isEmpty)
    }

    @Test func `an answer that begins again after a suspension fails after what was good`() {
        var answer = self.begun(limit: 4)
        #expect(answer.received(self.bytes(0..<5)) == .suspend)
        #expect(answer.answered(HTTPResponseHead(status: 200), from: self.endpoint) == .cancel)
        #expect(answer.received(self.bytes(0..<5)) == .goOn)
        answer.ended(TransportError(.cancelled, "by the cancelling above"))
        #expect(answer.take() == self.bytes(0..<5))
        #expect(answer.hasEnded)
        #expect(answer.failure?.code == .reset)
    }

    @Test func `the head of a later part is not the answers`() {
        var answer = self.begun(limit: 4)
        #expect(answer.received(self.bytes(0..<4)) == .goOn)
        #expect(answer.answered(HTTPResponseHead(status: 206), from: self.endpoint) == .goOn)
        #expect(answer.head?.status == 200)
        #expect(!answer.hasEnded)
    }

    @Test func `an end while suspended leaves what was received to the reader`() {
        var answer = self.begun(limit: 4)
        #expect(answer.received(self.bytes(0..<5)) == .suspend)
        answer.ended(nil)
        #expect(answer.hasEnded)
        #expect(answer.failure == nil)
        #expect(answer.take() == self.bytes(0..<5))
    }
}
