package import RealtimeCore

import PrimusWire

/// The heartbeat, in both directions, and the round-trip time.
///
/// Source: `heartbeat` in `primus.js` and `index.js` of Primus 8, and those of Primus 6.
extension PrimusSession {
    /// The time after which a connection counts as lost, if nothing else is known.
    private static let defaultSilence = Duration.seconds(45)
    private static let defaultProbe = Duration.seconds(20)

    var heartbeat: HeartbeatPolicy {
        var policy = HeartbeatPolicy(deadAfterSilence: self.silenceLimit)
        let limit = self.silenceLimit
        switch self.attempt.dialect.heartbeat {
        case .serverPings(_?)?: break
        case .clientPings(let timeout)?:
            let interval = self.clientPingInterval(timeout)
            (policy.probeAfterSilence, policy.pingAfterNotSending) = (interval < limit ? interval : limit * 2 / 3, interval)
        case .serverPings(nil)?, PrimusSpec.Heartbeat.none?: policy.probeAfterSilence = limit * 2 / 3
        case nil:
            // A server of either kind takes the question for its ID as life, and answers it.
            let interval = min(Self.defaultProbe, limit / 2)
            (policy.probeAfterSilence, policy.pingAfterNotSending) = (interval, interval)
        }
        if let handshake = self.attempt.handshake, case .engineIO(.v3, _) = self.attempt.framing {
            // The server waits for as long as both together. With an interval near zero, the client would send without a pause.
            let leastInterval = min(.seconds(1), Self.milliseconds(handshake.pingTimeout) / 2)
            let interval = max(Self.milliseconds(handshake.pingInterval), leastInterval)
            policy.pingAfterNotSending = min(policy.pingAfterNotSending ?? interval, interval)
            policy.probeAfterSilence = min(policy.probeAfterSilence ?? interval, interval)
            // Since engine.io 4, a server counts nothing but pings of a client of version 3 as life.
            policy.countsPingsOnly = true
        }
        if let interval = self.options.webSocketPingInterval {
            policy.pingAfterNotSending = min(policy.pingAfterNotSending ?? interval, interval)
        }
        return policy
    }

    /// The interval of the client's pings. The server's time limit must not expire in between.
    private func clientPingInterval(_ timeout: Double?) -> Duration {
        guard let timeout else { return self.options.pingInterval }
        let limit = Self.milliseconds(Int(min(timeout, 0x1p31)))
        return max(.milliseconds(10), min(self.options.pingInterval, max(limit - .seconds(10), limit / 2)))
    }

    private static func milliseconds(_ count: Int) -> Duration { .milliseconds(max(1, min(count, 1 << 31))) }

    /// The time without messages after which the connection counts as lost.
    var silenceLimit: Duration {
        if let limit = self.options.silenceLimit { return limit }
        var limit = Self.defaultSilence
        switch self.attempt.dialect.heartbeat {
        case .serverPings?:
            if let milliseconds = self.knowledge.spec?.silenceLimit { limit = Self.milliseconds(Int(min(milliseconds, 0x1p31))) }
        case .clientPings(let timeout)?: limit = self.clientPingInterval(timeout) + self.options.pongTimeout
        case PrimusSpec.Heartbeat.none?, nil: break
        }
        if let handshake = self.attempt.handshake {
            limit = min(limit, Self.milliseconds(handshake.pingInterval) + Self.milliseconds(handshake.pingTimeout))
        }
        return limit
    }

    package func ping(now: Instant) -> TransportMessage {
        switch self.attempt.dialect.heartbeat {
        case .clientPings? where !self.hasReceivedServerPing: return self.framed(.ping(self.timestamp(now)))
        case nil where !self.hasReceivedServerPing: return self.framed(.idRequest)
        default: break
        }
        if case .engineIO(.v3, _) = self.attempt.framing, let ping = self.attempt.framing.ping() { return ping }
        return TransportMessage(.ping, [])
    }

    package func probe(now: Instant) -> TransportMessage {
        if case .clientPings? = self.attempt.dialect.heartbeat { return self.ping(now: now) }
        if self.attempt.dialect.heartbeat == nil { return self.framed(.idRequest) }
        if case .engineIO(.v3, _) = self.attempt.framing, let ping = self.attempt.framing.ping() { return ping }
        // Each WebSocket answers a ping frame.
        return TransportMessage(.ping, [])
    }

    /// The milliseconds since 1970, as in the pings of Primus' own clients.
    private func timestamp(_ now: Instant) -> String { "\(self.epoch + now.nanoseconds / 1_000_000)" }

    package mutating func pinged(_ message: TransportMessage, now: Instant, _ effects: inout Effects<Self>) {
        self.pingSentAt = now
        if case .clientPings? = self.attempt.dialect.heartbeat, !self.hasReceivedServerPing, message.kind != .ping {
            let text = self.timestamp(now)
            self.trace(.outgoingPing(text), &effects)
        }
        self.trace(.sent, message.kind, message.bytes[...], &effects)
        let ping = self.secondPing
        guard self.attempt.dialect.heartbeat == nil, ping != message, let id = self.connection.connected else { return }
        effects.commands.append(.send(id, ping))
        self.trace(.sent, ping.kind, ping.bytes[...], &effects)
    }

    /// The message that accompanies the question for the ID, to a server whose heartbeat isn't known.
    private var secondPing: TransportMessage {
        // The server may be one that counts nothing but pings of engine.io as life.
        if case .engineIO(.v3, _) = self.attempt.framing, let ping = self.attempt.framing.ping() { return ping }
        // Primus 1 doesn't answer the question, but each WebSocket answers a ping frame, and each server over HTTP the request in its place.
        return TransportMessage(.ping, [])
    }

    /// Measures the round-trip time with the answer to a ping.
    mutating func measureLatency(now: Instant, _ effects: inout Effects<Self>) {
        guard let sent = self.pingSentAt.take() else { return }
        self.setLatency(sent.duration(to: now), &effects)
    }

    mutating func setLatency(_ latency: Duration, _ effects: inout Effects<Self>) {
        self.latency = latency
        self.publish(.latency(latency), &effects)
    }
}
