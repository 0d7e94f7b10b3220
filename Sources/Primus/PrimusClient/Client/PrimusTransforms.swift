import PrimusWire
import RealtimeCore
import RealtimeSystem

/// The transforms of a client, and their tasks: one for each direction that has transforms. A task reads one sequence, and so keeps the order.
final class PrimusTransforms: Sendable {
    private struct State: Sendable {
        var incoming: [PrimusTransform.Body] = []
        var outgoing: [PrimusTransform.Body] = []
        var tasks: [Task<Void, Never>] = []
        var isRunning: Set<PrimusTransform.Direction> = []
    }

    private let state = Lock(State())
    private let driver: SessionDriver<PrimusSession>
    private let limit: PrimusBufferLimit

    init(_ configuration: PrimusConfiguration, _ driver: SessionDriver<PrimusSession>) {
        (self.driver, self.limit) = (driver, configuration.messageBuffer)
        // The packets of plugins are read from decoded messages, because a parser of the application isn't called under a lock.
        if configuration.customParser != nil, !PrimusPluginSet(configuration.plugins).isEmpty { self.add(.incoming { _ in true }) }
        // The hooks of plugins are next to the connection.
        for plugin in configuration.plugins where plugin.hooks.contains(.incoming) {
            self.add(.incoming { try await plugin.incoming(&$0) })
        }
        for transform in configuration.transforms { self.add(transform) }
        for plugin in configuration.plugins where plugin.hooks.contains(.outgoing) {
            self.add(.outgoing { try await plugin.outgoing(&$0) })
        }
    }

    func add(_ transform: PrimusTransform) {
        let starts = self.state.withLock { state in
            switch transform.direction {
            case .incoming: state.incoming.append(transform.body)
            case .outgoing: state.outgoing.append(transform.body)
            }
            return state.isRunning.insert(transform.direction).inserted
        }
        guard starts else { return }
        let task = transform.direction == .incoming ? self.transformIncoming() : self.transformOutgoing()
        self.state.withLock { $0.tasks.append(task) }
    }

    /// Cancels the tasks. The sequences that they read have finished.
    func end() { for task in self.state.withLock({ $0.tasks }) { task.cancel() } }

    private func transformIncoming() -> Task<Void, Never> {
        let limit = ByteLimit<PrimusIncoming>(self.limit.bytes) { $0.message.raw.bytes.count }
        let messages = self.driver.makeSequence(.pauseReading(self.limit.count), byteLimit: limit, lifetime: .client) {
            (events: ArraySlice<PrimusEvent>, output: inout [PrimusIncoming]) in
            for case .untransformed(let item) in events { output.append(item) }
        } register: { session, consumer, effects in
            session.observeUntransformed(consumer, &effects)
        }
        // Transforms are asynchronous and need a task. It doesn't refer to the client, and ends when that is released, which ends the sequence.
        return Task { [self] in
            for await item in messages {
                let result: Result<(PrimusMessage, PrimusValue)?, PrimusError>
                do throws(PrimusError) {
                    let message = item.message
                    let value = try await self.apply(self.state.withLock { $0.incoming }, to: try message.value)
                    result = .success(value.map { (PrimusMessage(message.raw, message.coding, transformed: $0), $0) })
                } catch {
                    result = .failure(error)
                }
                self.driver.step { session, now, effects in session.transformed(item, result, now: now, &effects) }
            }
        }
    }

    private func transformOutgoing() -> Task<Void, Never> {
        // The session limits the number of values.
        let values = self.driver.makeSequence(.dropNewest(.max), lifetime: .client) {
            (events: ArraySlice<PrimusEvent>, output: inout [PrimusOutgoing]) in
            for case .outgoing(let value) in events { output.append(value) }
        } register: { session, consumer, effects in
            session.observeOutgoing(consumer, &effects)
        }
        // As above.
        return Task { [self] in
            for await item in values {
                guard self.driver.read({ $0.isTransforming(item) }) else { continue }
                let result: Result<PrimusContent?, PrimusError>
                do throws(PrimusError) {
                    let value = try await self.apply(self.state.withLock { $0.outgoing }, to: item.value)
                    result = .success(try value.map { value throws(PrimusError) in try self.content(value) })
                } catch {
                    result = .failure(error)
                }
                self.driver.step { session, now, effects in session.transformed(item, result, now: now, &effects) }
            }
        }
    }

    private func content(_ value: PrimusValue) throws(PrimusError) -> PrimusContent {
        guard let coding = self.driver.read({ $0.coding }) else { return .value(value) }
        do {
            return .packet(try coding.message(value), coding)
        } catch {
            throw .encoding(error)
        }
    }

    private func apply(_ transforms: [PrimusTransform.Body], to value: PrimusValue) async throws(PrimusError) -> PrimusValue? {
        var value = value
        for transform in transforms {
            do {
                guard try await transform(&value) else { return nil }
            } catch {
                let message = "A transform threw an error of the type \(type(of: error)), so the message was discarded."
                throw PrimusError(.transformFailed, message, cause: error)
            }
        }
        return value
    }
}

extension PrimusPluginHooks {
    /// Calls the hooks of plugins in the life of the connections, in order, in one task.
    static func start(_ plugins: [any PrimusPlugin], _ driver: SessionDriver<PrimusSession>) -> Task<Void, Never>? {
        let plugins = plugins.filter { !$0.hooks.isDisjoint(with: [.opened, .ended]) }
        guard !plugins.isEmpty else { return nil }
        let updates = driver.makeSequence(.standard, lifetime: .client, convert: eachElement { (event: PrimusEvent) in event.update }) {
            session, consumer, effects in
            session.observeUpdates(consumer, &effects)
        }
        // Hooks are asynchronous and need a task. It doesn't refer to the client, and ends when that is released, which ends the sequence.
        return Task {
            var hasOpened = false
            for await update in updates {
                switch update {
                case .state(.open):
                    for plugin in plugins where plugin.hooks.contains(.opened) { await plugin.opened(isReconnect: hasOpened) }
                    hasOpened = true
                case .ended:
                    hasOpened = false
                    for plugin in plugins where plugin.hooks.contains(.ended) { await plugin.ended() }
                default: break
                }
            }
        }
    }
}
