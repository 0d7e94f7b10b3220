import RealtimeCore
import Testing

@testable import RealtimeSockets

/// The stream's decisions, without a socket.
@Suite
struct StreamStateTests {
    private func open() -> StreamState {
        var state = StreamState()
        state.stage = .connecting
        _ = state.connected(7, nil)
        _ = state.nextStep()
        return state
    }

    private func at(_ nanoseconds: Int64) -> Instant { Instant(nanoseconds: nanoseconds) }

    private func send(_ state: inout StreamState, _ count: Int, at now: Int64 = 0) -> String {
        state.append { $0 += [UInt8](repeating: 1, count: count) }
        return self.name(state.flush(turnLimit: 100, now: self.at(now)))
    }

    private func name(_ step: StreamState.SendStep) -> String {
        switch step {
        case .write(let write): "write \(write.bytes.count - write.start)"
        case .requestService: "call"
        case .requestServiceAt(let instant): "call at \(instant.nanoseconds)"
        case .none: "none"
        }
    }

    private func name(_ step: StreamState.LoopStep) -> String {
        switch step {
        case .write(let write): "write \(write.bytes.count - write.start)"
        case .read: "read"
        case .drained: "drained"
        case .finish(let descriptor, _): "finish \(descriptor)"
        case .readRestAndFail: "read rest"
        case .fail: "fail"
        case .tearDown: "tear down"
        case .rest(let interest): "rest\(interest.contains(.read) ? " read" : "")\(interest.contains(.write) ? " write" : "")"
        }
    }

    @Test func `the first send is written and the next ones gather`() {
        var state = self.open()
        #expect(self.send(&state, 10) == "write 10")
        #expect(self.name(state.wrote(.done(10))) == "none")
        #expect(self.send(&state, 20, at: 99) == "call")
        #expect(self.send(&state, 30, at: 500) == "none")
        #expect(self.name(state.nextStep()) == "write 50")
        #expect(self.name(state.wrote(.done(50))) == "none")
        #expect(self.name(state.nextStep()) == "rest read")
        #expect(self.send(&state, 1) == "write 1")
    }

    @Test func `the turn ends by the clock or by a read`() {
        var state = self.open()
        #expect(self.send(&state, 10) == "write 10")
        _ = state.wrote(.done(10))
        #expect(self.send(&state, 10, at: 100) == "write 10")
        _ = state.wrote(.done(10))
        #expect(state.received() == true)
        #expect(self.send(&state, 10, at: 101) == "write 10")
    }

    /// A turn with a direct write and so many sends that gather; the loop then writes those.
    private func turn(_ state: inout StreamState, gathering count: Int, at now: Int64) -> [String] {
        var steps = [self.send(&state, 10, at: now)]
        _ = state.wrote(.done(10))
        for _ in 0..<count { steps.append(self.send(&state, 10, at: now + 1)) }
        if case .write(let write) = state.nextStep() {
            steps.append("loop writes \(write.bytes.count)")
            _ = state.wrote(.done(write.bytes.count))
        }
        return steps
    }

    @Test func `a sender of bursts is left to it until the turn ends`() {
        let quiet = Array(repeating: "none", count: 62)
        var state = self.open()
        #expect(self.turn(&state, gathering: 63, at: 0) == ["write 10", "call"] + quiet + ["loop writes 630"])
        #expect(self.turn(&state, gathering: 63, at: 1000) == ["write 10", "call at 1100"] + quiet + ["loop writes 630"])
        #expect(self.turn(&state, gathering: 63, at: 2000) == ["write 10", "call at 2100"] + quiet + ["loop writes 630"])
    }

    @Test(arguments: [1, 7])
    func `for a few sends the loop is called at once`(_ few: Int) {
        let quiet = Array(repeating: "none", count: few - 1)
        var state = self.open()
        #expect(self.turn(&state, gathering: few, at: 0)[1] == "call")
        #expect(self.turn(&state, gathering: few, at: 1000) == ["write 10", "call"] + quiet + ["loop writes \(few * 10)"])
    }

    @Test func `one turn without a burst ends the patience`() {
        var state = self.open()
        _ = self.turn(&state, gathering: 8, at: 0)
        #expect(self.turn(&state, gathering: 1, at: 1000)[1] == "call at 1100")
        #expect(self.turn(&state, gathering: 1, at: 2000)[1] == "call")
    }

    @Test func `what is urgent does not wait for the end of the turn`() {
        var state = self.open()
        _ = self.turn(&state, gathering: 8, at: 0)
        #expect(self.send(&state, 10, at: 1000) == "write 10")
        _ = state.wrote(.done(10))
        #expect(self.send(&state, 20, at: 1001) == "call at 1100")
        #expect(self.name(state.finish()) == "call")
        #expect(self.name(state.nextStep()) == "write 20")
    }

    @Test func `while one thread writes the others leave it theirs`() {
        var state = self.open()
        #expect(self.send(&state, 10) == "write 10")
        #expect(self.send(&state, 20) == "none")
        #expect(self.name(state.nextStep()) == "rest read")
        #expect(self.name(state.wrote(.done(10))) == "write 20")
        #expect(self.name(state.wrote(.done(20))) == "none")
        #expect(state.bufferedBytes == 0)
    }

    @Test func `a short write waits for the socket`() {
        var state = self.open()
        #expect(self.send(&state, 10) == "write 10")
        #expect(self.name(state.wrote(.done(4))) == "call")
        #expect(self.send(&state, 5) == "none")
        #expect(self.name(state.nextStep()) == "rest read write")
        state.unblock(.read)
        #expect(self.name(state.nextStep()) == "rest read write")
        state.unblock(.write)
        #expect(self.name(state.nextStep()) == "write 6")
        // What was flushed while it was blocked follows: nobody will flush it again.
        #expect(self.name(state.wrote(.done(6))) == "write 5")
        #expect(self.name(state.wrote(.done(5))) == "none")
        #expect(state.bufferedBytes == 0)
    }

    @Test func `nothing is sent before it is connected`() {
        var state = StreamState()
        state.stage = .connecting
        #expect(self.send(&state, 10) == "none")
        #expect(state.connected(7, nil) == true)
        #expect(self.name(state.nextStep()) == "write 10")
    }

    @Test func `closing waits for the write that is going on`() {
        var state = self.open()
        #expect(self.send(&state, 10) == "write 10")
        #expect(self.name(state.close()) == "call")
        #expect(state.isWriting)
        #expect(self.name(state.nextStep()) == "tear down")
        #expect(self.name(state.wrote(.done(10))) == "call")
        #expect(!state.isWriting && state.bufferedBytes == 0)
        #expect(self.name(state.close()) == "none")
        #expect(self.send(&state, 10) == "none")
        #expect([state.received(), state.inputEnded(), state.fail()] == [false, false, false])
    }

    @Test func `finishing comes after the bytes and closes when the peer is done too`() {
        var state = self.open()
        state.append { $0 += [1, 2, 3] }
        #expect(self.name(state.finish()) == "call")
        state.append { $0 += [4] }
        #expect(self.name(state.nextStep()) == "write 3")
        _ = state.wrote(.done(3))
        #expect(self.name(state.nextStep()) == "finish 7")
        #expect(self.name(state.nextStep()) == "rest read")
        #expect(state.inputEnded() == true)
        #expect(self.name(state.nextStep()) == "tear down")
    }

    @Test(arguments: [(false, "read rest"), (true, "fail")])
    func `a failed write ends the stream after what may still be read`(_ isPaused: Bool, _ expected: String) {
        var state = self.open()
        state.isInputPaused = isPaused
        #expect(self.send(&state, 10) == "write 10")
        #expect(self.name(state.wrote(.failed(.lost(32)))) == "call")
        #expect(self.send(&state, 10) == "none")
        #expect(self.name(state.nextStep()) == expected)
    }

    @Test func `a paused stream is called only when it was parked`() {
        var state = self.open()
        state.isInputPaused = true
        #expect(self.name(state.resumeInput()) == "none")
        state.isInputPaused = true
        #expect(self.name(state.nextStep()) == "rest")
        #expect(self.name(state.resumeInput()) == "call")
        #expect(self.name(state.nextStep()) == "rest read")
    }

    @Test func `over the high water mark the end of the backlog is told`() {
        var state = self.open()
        #expect(self.send(&state, StreamState.highWater + 1) == "write \(StreamState.highWater + 1)")
        #expect(self.name(state.wrote(.done(StreamState.highWater))) == "call")
        #expect(self.name(state.nextStep()) == "rest read write")
        state.unblock(.write)
        #expect(self.name(state.nextStep()) == "write 1")
        #expect(self.name(state.wrote(.done(1))) == "call")
        #expect(self.name(state.nextStep()) == "drained")
        #expect(self.name(state.nextStep()) == "rest read")
    }
}
