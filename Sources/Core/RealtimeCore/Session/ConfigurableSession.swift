/// Settings of a client that were changed while it exists.
package struct ChangedSettings<Options: Sendable>: Sendable {
    /// The number of changes.
    package var revision: UInt64
    /// The settings for the next attempt to connect, unless they are those in use.
    package var next: Options?
}

/// A session whose settings can be changed. A connection, and an attempt that is in progress, keep theirs.
package protocol ConfigurableSession: ReconnectingSession {
    associatedtype Options: Sendable

    /// The settings of the current connection or attempt and, if there is none, of the next one.
    var options: Options { get }
    /// The changes of the settings, since the first one.
    var settings: ChangedSettings<Options>? { get set }
    /// Replaces ``options``.
    mutating func use(_ options: Options)
}

extension ConfigurableSession {
    /// The settings that were set last, and the number of their changes.
    package var latestOptions: (options: Options, revision: UInt64) {
        (self.settings?.next ?? self.options, self.settings?.revision ?? 0)
    }

    /// Changes the settings. They apply now if there is neither a connection nor an attempt, and otherwise to the next attempt.
    ///
    /// - Returns: `false` if the settings were changed since this revision.
    package mutating func setOptions(_ options: Options, after revision: UInt64, _ effects: inout Effects<Self>) -> Bool {
        guard self.latestOptions.revision == revision else { return false }
        self.settings = ChangedSettings(revision: revision + 1, next: options)
        switch self.connection.state {
        case .opening, .handshaking, .connected, .resuming: break
        case .idle, .backingOff, .deciding, .closing, .closed: self.applyOptions(&effects)
        }
        return true
    }

    /// Applies the settings that were changed during the last connection or attempt.
    package mutating func applyOptions(_ effects: inout Effects<Self>) {
        guard let settings, let new = settings.next else { return }
        self.settings = ChangedSettings(revision: settings.revision)
        effects.commands.append(.release(self.options))
        self.use(new)
    }
}

extension SessionDriver where Machine: ConfigurableSession {
    /// Changes the settings of the session.
    ///
    /// - Parameter change: Returns the changed settings. It runs without a lock, and again if another thread has changed the settings
    ///   meanwhile, whose changes must not be lost.
    package func updateOptions<Failure: Error>(_ change: (Machine.Options) throws(Failure) -> Machine.Options) throws(Failure) {
        var isChanged = false
        while !isChanged {
            let (old, revision) = self.read { $0.latestOptions }
            let new = try change(old)
            self.step { session, _, effects in isChanged = session.setOptions(new, after: revision, &effects) }
        }
    }
}
