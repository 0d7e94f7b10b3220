import RealtimeSystem

/// The connections of an embedded server: the driver of its machine, and the faults that the server injects.
///
/// The handler of the server's clients refers to this object and not to the server, because the listener retains the handler: releasing
/// the server must stop its listener.
///
/// While no fault was set, a connection costs nothing beyond the driver's own work. Setting the first fault decorates all connections, also
/// those that are open.
package final class ServedConnections<Machine: EmbeddedServerMachine>: Sendable {
    package let driver: SessionDriver<Machine>
    private let injector: FaultInjector
    private let hasShutDown = Lock(false)

    /// Creates a server's connections.
    ///
    /// - Parameters:
    ///   - machine: The machine of the server.
    ///   - dependencies: The environment of the driver.
    ///   - seed: The seed of the random numbers that decide which messages are dropped; `nil` for a random one.
    package init(_ machine: Machine, in dependencies: SessionDriver<Machine>.Dependencies, seed: UInt64?) {
        self.driver = SessionDriver(machine, in: dependencies)
        self.injector = FaultInjector(time: dependencies.time, seed: seed ?? .random(in: .min ... .max))
    }

    /// Whether the server was released. Its handler rejects everything then: the listener may not have stopped yet, or be shared.
    package var isShutDown: Bool { self.hasShutDown.withLock { $0 } }

    /// Closes all connections, because the server is released, and finishes the sequences of events.
    package func shutDown() {
        // First, so that no client connects again before the listener has stopped.
        self.hasShutDown.withLock { $0 = true }
        self.close()
    }

    private func close() {
        self.driver.step { machine, _, effects in machine.release(&effects) }
        self.driver.shutDown()
    }

    /// Takes over a connection that a listener accepted.
    ///
    /// - Parameters:
    ///   - connection: The connection.
    ///   - id: The ID of the connection.
    ///   - input: Steps the machine.
    /// - Returns: The object that receives the events of the connection.
    package func adopt(
        _ connection: any MessageConnection, id: ConnectionID, _ input: (inout Machine, Instant, inout Effects<Machine>) -> Void
    ) -> any MessageEvents {
        self.driver.adopt(connection, id: id, input) { machine, now in
            machine.setSilent(id, self.injector.ignoresMessages(of: id), now: now)
        }
        // The server may have been released since the upgrade was accepted.
        if self.isShutDown { self.close() }
        return self.driver
    }

    // MARK: Faults

    /// The faults of all connections. Changes take effect immediately.
    package var faults: ConnectionFaults { self.injector.faults }

    /// Sets the faults of all connections, including later ones.
    ///
    /// - Parameters:
    ///   - faults: The faults.
    ///   - input: Changes the machine in the same step.
    package func setFaults(_ faults: ConnectionFaults, _ input: (inout Machine) -> Void = { _ in }) {
        guard faults != ConnectionFaults() || self.faults != faults else { return self.driver.step { machine, _, _ in input(&machine) } }
        self.driver.intercept(self.injector) { machine, now, _ in
            input(&machine)
            self.injector.faults = faults
            for id in machine.acceptedConnections { machine.setSilent(id, self.injector.ignoresMessages(of: id), now: now) }
        }
    }

    /// Makes a connection silent, in addition to the faults of all connections, or ends its silence. Does nothing if no connection has the
    /// ID.
    package func silence(_ name: String, _ isSilent: Bool) {
        self.driver.intercept(self.injector) { machine, now, _ in
            guard let id = machine.connection(named: name) else { return }
            self.injector.silence(id, isSilent)
            machine.setSilent(id, self.injector.ignoresMessages(of: id), now: now)
        }
    }

    /// Sends a message regardless of faults. It overtakes delayed messages. Does nothing if no connection has the ID.
    package func sendUnaffected(_ message: TransportMessage, to name: String) {
        guard let connection = self.driver.connection({ $0.connection(named: name) }) else { return }
        let unaffected = (connection as? FaultyConnection)?.connection ?? connection
        unaffected.enqueue(message)
        unaffected.flush()
    }

    /// Drops a connection without a close frame. Does nothing if no connection has the ID.
    package func drop(_ name: String) {
        self.driver.step { machine, now, effects in machine.drop(name, now: now, &effects) }
    }
}
