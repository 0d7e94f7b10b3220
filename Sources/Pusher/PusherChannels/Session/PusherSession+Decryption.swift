import PusherWire
import RealtimeCore

/// The events of encrypted channels.
extension PusherSession {
    /// Decrypts and delivers an event, or lets it wait for a new key.
    mutating func deliverEncrypted(
        _ id: ChannelID, _ frame: PusherFrame, now: Instant, _ writer: inout EventWriter, _ effects: inout Effects<Self>
    ) {
        guard let names = self.channels[id]?.eventNames(of: frame) else { return }
        let event = ChannelDecryption.WaitingEvent(names: names, data: frame.dataBytes)
        switch self.channels[id]?.decryption?.received(event, now: now) {
        case .deliver(let text): self.deliver(text, names, on: id, &writer, &effects)
        case .fail(let reason): self.failDecryption(event, reason, on: id, &effects)
        // Events of a channel without a key belong to a subscription that is no longer wanted.
        case nil: effects.counters.messagesIgnored += 1
        case .wait: break
        case .reload:
            // A subscription that has failed gets no key.
            if case .failed = self.channels[id]?.machine.state { return self.keyFailed(id, nil, now: now, &effects) }
            self.reloadKey(id, now: now, &effects)
            self.sendBatches(&effects)
        }
    }

    /// Requests another authorization of the channel, whose only use is the key.
    mutating func reloadKey(_ id: ChannelID, now: Instant, _ effects: inout Effects<Self>) {
        guard let record = self.channels[id], record.machine.state == .subscribed, case .reloading(nil) = record.decryption?.state,
            let socketID
        else { return }
        guard let authorizer = self.configuration.authorizer else {
            let message = "Loading a new key for \(record.name) requires authorization: set the authorizer of the configuration."
            return self.keyFailed(id, PusherError(.authorizationMissing, message, channel: record.name), now: now, &effects)
        }
        guard let work = self.authorizations.start(id, isBatched: authorizer.isBatched) else { return }
        effects.log(.info, "loading a new key for \(record.name)")
        self.channels[id]?.decryption?.started(work)
        if !authorizer.isBatched {
            let request = PusherAuthorizationRequest(channel: record.name, socketID: socketID)
            effects.commands.append(.work(work, .channel(request, authorizer, self.configuration)))
        }
        self.subscriptionDeadlines.set(id, now.advanced(by: self.configuration.subscriptionTimeout))
    }

    /// Whether an authorization loads the key of a subscribed channel.
    func isReloading(_ id: ChannelID, _ work: WorkID) -> Bool { self.channels[id]?.decryption?.state == .reloading(work) }

    /// Handles the result of ``reloadKey(_:now:_:)``.
    mutating func keyReloaded(
        _ id: ChannelID, _ result: Result<PusherChannelAuthorization, PusherError>, now: Instant, _ effects: inout Effects<Self>
    ) {
        self.subscriptionDeadlines.set(id, nil)
        guard let name = self.channels[id]?.name else { return }
        switch result {
        case .failure(let error): self.keyFailed(id, error, now: now, &effects)
        case .success(let authorization):
            do throws(PusherError) {
                self.setKey(id, try Self.key(in: authorization, of: name), now: now, &effects)
            } catch {
                self.keyFailed(id, error, now: now, &effects)
            }
        }
    }

    /// Fails the events that wait for a key.
    ///
    /// - Parameter error: The reason to report, or `nil` if it is reported already.
    mutating func keyFailed(_ id: ChannelID, _ error: PusherError?, now: Instant, _ effects: inout Effects<Self>) {
        let backoff = self.configuration.backoff
        var draws = self.generator
        let events = self.channels[id]?.decryption?.failed(now: now) { backoff.delay(failures: $0, minimum: .zero, using: &draws) } ?? []
        self.generator = draws
        if let error {
            effects.log(.warning, error.message)
            self.publish(.error(error), to: self.clientRoutes.errors, &effects)
        }
        for event in events { self.failDecryption(event, .keyUnavailable, on: id, &effects) }
    }

    /// Forgets the keys of all channels, and fails the events that wait for one: the app that encrypted them isn't that of the next connection.
    mutating func forgetKeys(now: Instant, _ effects: inout Effects<Self>) {
        for id in self.channels.ids where self.channels.kind(of: id)?.isEncrypted == true {
            self.cancelReload(id, &effects)
            self.keyFailed(id, nil, now: now, &effects)
            self.channels[id]?.decryption = nil
        }
    }

    /// Sets the key of a channel, and delivers the events that waited for it.
    mutating func setKey(_ id: ChannelID, _ key: EncryptionKey, now: Instant, _ effects: inout Effects<Self>) {
        guard self.channels[id]?.decryption != nil else {
            self.channels[id]?.decryption = ChannelDecryption(key: key)
            return
        }
        let backoff = self.configuration.backoff
        var draws = self.generator
        let results =
            self.channels[id]?.decryption?.loaded(key, now: now) { backoff.delay(failures: $0, minimum: .zero, using: &draws) } ?? []
        self.generator = draws
        guard !results.isEmpty else { return }
        var writer = EventWriter(atMost: results.reduce(0) { $0 + $1.0.data.count })
        for (event, result) in results {
            switch result {
            case .success(let text): self.deliver(text, event.names, on: id, &writer, &effects)
            case .failure(let reason): self.failDecryption(event, reason, on: id, &effects)
            }
        }
    }

    /// Returns the key that an authorization contains.
    static func key(in authorization: PusherChannelAuthorization, of channel: String) throws(PusherError) -> EncryptionKey {
        func invalid(_ reason: String) -> PusherError {
            .authorizationFailed(channel, "", "the \"shared_secret\" of an encrypted channel \(reason).")
        }
        guard let secret = authorization.sharedSecret else { throw invalid("is missing") }
        do throws(EncryptionError) {
            return try EncryptionKey(base64: secret)
        } catch {
            throw invalid("is invalid: \(error)")
        }
    }

    private mutating func deliver(
        _ text: String, _ names: EventNames, on id: ChannelID, _ writer: inout EventWriter, _ effects: inout Effects<Self>
    ) {
        guard let route = self.channels[id]?.events.routeInPlace(names.event) else { return }
        let routes = [route, self.clientRoutes.events?.route(names.event) ?? EventRoutes.none]
        guard routes.contains(where: { !effects.routes.isEmpty($0) }) else { return }
        var text = text
        let event = text.withUTF8 { writer.event(names, data: UnsafeRawBufferPointer($0), isEscaped: false) }
        for route in routes { effects.deliver(.event(event), on: route) }
    }

    private func failDecryption(
        _ event: ChannelDecryption.WaitingEvent, _ reason: PusherDecryptionFailure.Reason, on id: ChannelID, _ effects: inout Effects<Self>
    ) {
        let data = String(decoding: event.data, as: UTF8.self)
        let failure = PusherDecryptionFailure(
            event: PusherEvent(name: event.names.event, channel: event.names.channel, data: data), reason: reason)
        let error = PusherError.decryptionFailed(failure)
        effects.counters.decodingFailures += 1
        effects.log(.warning, error.message)
        self.publish(.error(error), to: self.clientRoutes.errors, &effects)
    }
}
