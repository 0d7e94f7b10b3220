import RealtimeCore
import SignalRWire
import SimulationSupport

@testable import SignalRHubs

/// The work of the client, in tasks of the simulation.
extension HubSimulation {
    static func perform(
        _ work: HubSession.Work, _ id: WorkID, _ driver: SimulatedClient<HubSession>.Driver, _ coder: HubValueCoder,
        on network: VirtualNetwork
    ) -> (@Sendable () -> Void)? {
        let simulation = network.simulation
        return simulation.work {
            switch work {
            case .accessToken:
                await simulation.sleep(in: 0...3_000)
                let isFailure = network.conditions.failedRequests > 0 && simulation.chance(5)
                driver.workFinished(id, .accessToken(isFailure ? .failure(HubError(.tokenFailed, "not today")) : .success("token")))
            case .negotiate(let request):
                do throws(TransportError) {
                    driver.workFinished(id, .negotiated(.success(try await network.http.send(request))))
                } catch {
                    driver.workFinished(id, .negotiated(.failure(error)))
                }
            case .retryDelay:
                await simulation.sleep(in: 0...8_000)
                driver.workFinished(id, .retryDelay(simulation.choose([.success(.seconds(1)), .success(.zero), .success(nil)])))
            case .upload(let stream, let upload):
                driver.workFinished(id, .uploaded(error: await Self.perform(upload, stream, driver, coder)))
            }
        }
    }

    /// A result of work that was cancelled too late.
    static func lateResult(_ work: HubSession.Work) -> HubSession.WorkResult {
        switch work {
        case .accessToken: .accessToken(.success("late"))
        case .negotiate: .negotiated(.failure(TransportError(.reset, "late")))
        case .retryDelay: .retryDelay(.success(.zero))
        case .upload: .uploaded(error: "late")
        }
    }

    /// Runs a stream to the server in place of the client's driver, and inspects the machine.
    private static func perform(
        _ upload: HubUpload, _ id: UInt64, _ driver: SimulatedClient<HubSession>.Driver, _ coder: HubValueCoder
    ) async -> String? {
        do {
            try await upload.run(coder) { item in
                while true {
                    if Task.isCancelled { throw HubError.cancelled }
                    var result = Result<ConnectionID?, HubError>.success(nil)
                    driver.step { machine, now, effects in
                        machine.step(&effects) { session, effects in
                            result = Result { () throws(HubError) in try session.connectionForItem(of: id, now: now) }
                            guard case .success(let connection?) = result else { return }
                            let message = HubMessageWriter.message(.streamItem(id: "\(id)", item), coder.format)
                            session.sendCounted(message, on: connection, &effects)
                        }
                    }
                    if try result.get() != nil { return }
                    _ = try await driver.awaitResult { machine, waiter, _, effects in
                        machine.step(&effects) { $0.awaitWriting(waiter, &$1) }
                    }
                }
            }
            return nil
        } catch {
            return HubError.text(forServer: error, from: "The stream")
        }
    }
}

/// The invariants of the protocol, in addition to those of every protocol.
extension HubSimulation {
    func check(_ event: HubEvent) {
        guard case .update(let update, _) = event else { return }
        let simulation = self.simulation
        switch update {
        case .state(let state):
            switch state {
            case .connected:
                simulation.require(!self.isConnected, "connected twice")
                (self.isConnected, self.hasConnected) = (true, true)
                self.connects += 1
            case .reconnecting:
                simulation.require(self.isConnected, "reconnecting without a connection")
                self.isConnected = false
            case .connecting: simulation.require(!self.isConnected && !self.hasConnected, "a start while connected")
            case .stopped: self.isConnected = false
            }
        case .reconnecting:
            self.reportedLosses += 1
            simulation.require(!self.isConnected, "the loss of a connection was reported while it is connected")
            simulation.require(self.reportedLosses == 1, "a loss was reported \(self.reportedLosses) times")
        case .reconnected:
            simulation.require(self.isConnected && self.reportedLosses == 1, "a reconnect without a reported loss")
            self.reportedLosses = 0
        case .closed:
            self.closings += 1
            simulation.require(self.hasConnected && !self.isConnected, "a close without a connection")
            (self.hasConnected, self.reportedLosses) = (false, 0)
        case .error(let error): simulation.require(error.code != .invalidMessage, "a message of the server is invalid: \(error)")
        case .resumed:
            self.resumes += 1
            simulation.require(self.isConnected, "a connection was resumed that had been reported as lost")
        case .transport, .connectingIn, .authenticationRefreshed, .authenticationRefreshFailed: break
        }
    }
}
