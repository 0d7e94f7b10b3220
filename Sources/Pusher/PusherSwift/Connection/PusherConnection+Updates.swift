import Foundation
import NWWebSocket
import PusherChannels
import RealtimeCore
import RealtimeSystem
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// The updates of the engine, which are handled on the queue of the client.
extension PusherConnection {
    func handle(_ update: PusherUpdate) {
        switch update {
        case .event(let event):
            var frame: PusherEventJSON = ["event": event.name as AnyObject]
            frame["channel"] = event.channel.map { $0 as AnyObject }
            frame["data"] = event.data.map { $0 as AnyObject }
            frame["user_id"] = event.userID.map { $0 as AnyObject }
            if let name = event.channel, self.channels.find(name: name) != nil, let event = PusherEvent(frame) { self.pass(event) }
        case .subscription(let channel, .subscribed):
            let confirmation = self.state.mutate { state -> PusherEvent? in
                state.confirmed.insert(ByteString(channel))
                guard state.confirmation?.channelName == channel else { return nil }
                return state.confirmation.take()
            }
            if let confirmation, self.channels.find(name: channel) != nil { self.pass(confirmation) }
        case .subscription(let channel, _): _ = self.state.mutate { $0.confirmed.remove(ByteString(channel)) }
        case .attempt: self.attemptStarted()
        case .state(let state):
            switch state {
            case .connected:
                self.state.update { [now = self.transports.time.now] in $0.losses.connected(now: now) }
                self.setState(.connected)
                // Those that the application has added to the table itself.
                for channel in self.channels.all where self.engine.channel(channel.name) == nil {
                    self.subscribeEngine(channel)
                }
            case .disconnected(nil):
                self.setDisconnected()
                self.log(.intentionalDisconnection)
                self.state.update { $0.losses.ended() }
            case .disconnected, .failed:
                self.setDisconnected()
                // A loss after which the client doesn't reconnect was logged when it was reported.
                if !self.state.value.losses.isPending { self.logClose() }
                self.state.update { $0.losses.ended() }
            case .initialized, .connecting, .unavailable: break
            }
            self.phaseChanged(to: PusherConnectionPhase(state), socketID: self.socketId)
        case .connectingIn(let delay): self.notify(delay: delay)
        case .error(let error):
            // The error of a client that gives up repeats the loss.
            if error.code == .connectionLost, !self.lost() { return }
            if error.code == .invalidConfiguration || error.code == .failed { self.log(.unableToConnect(error.message)) }
            if let failure = error.cause as? PusherDecryptionFailure {
                let event = failure.event
                self.delegate?.notifyFailedToDecryptEvent(
                    eventName: event.name, channelName: event.channel ?? "", data: event.data)
                self.log(.undecryptable(event.channel ?? ""))
            } else if let channel = error.channel, !(error.cause is PusherAuthorizationRefusal) {
                switch error.code {
                case .authorizationFailed, .timedOut:
                    if let channel = self.channels.find(name: channel), !channel.subscribed {
                        self.subscriptionFailed(channel, AuthorizationFailure(error.message))
                    }
                case .subscriptionRejected:
                    guard let channel = self.channels.find(name: channel) else { break }
                    channel.subscribed = false
                    // Handlers have been called if the rejection was an event of the channel.
                    let isDelivered = self.state.mutate { $0.rejected.take() == channel.name }
                    self.subscriptionFailed(channel, AuthorizationFailure(error.message), isDelivered: isDelivered)
                default: break
                }
            }
            if error.channel == nil { self.notify(code: error.serverCode, message: error.message.namingOptions) }
        case .frame, .sentFrame, .user, .watchlist, .members, .gap, .subscriptionCount: break
        }
    }

    // MARK: State

    func setState(_ new: ConnectionState) {
        let old = self.state.update { state in
            defer { state.connectionState = new }
            return state.connectionState
        }
        if old != new { self.delegate?.notifyChangedConnectionState(from: old, to: new) }
    }

    private func setDisconnected() {
        self.setState(.disconnected)
        for channel in self.channels.all { channel.subscribed = false }
        self.socketId = nil
        self.state.update { ($0.socketConnected, $0.isEstablished) = (false, false) }
    }

    private func attemptStarted() {
        let isLost = self.state.update { state in
            defer {
                state.losses.isPending = false
                // It isn't the reason if this attempt fails without a close code.
                state.losses.close = nil
            }
            return state.losses.isPending && state.connectionState == .disconnected
        }
        if isLost { self.setState(.reconnecting) }
        self.setState(.connecting)
    }

    /// A connection was lost or an attempt failed.
    ///
    /// - Returns: `false` if the client is disconnected already. The error then isn't one of a loss of its own.
    private func lost() -> Bool {
        guard self.connectionState != .disconnected else { return false }
        self.state.update { [now = self.transports.time.now] in $0.losses.lost(now: now) }
        self.setDisconnected()
        self.logClose()
        return true
    }

    private func logClose() {
        guard let close = self.state.value.losses.close else { return }
        self.log(.disconnected(close.code, close.reason))
    }

    /// Decides whether and when to reconnect.
    func decide(_ context: PusherRetryContext, _ answer: @escaping @Sendable (Duration?) -> Void) {
        // A delegate or another thread may have connected or disconnected before it was this decision's turn. The answer is then ignored.
        guard self.engine.awaitsRetryDecision else { return answer(nil) }
        self.applySettings()
        let state = self.state.value
        // The codes of the Pusher protocol ask for a reconnect, whatever the options say.
        guard state.options.autoReconnect || state.losses.isPusherCode else { return answer(nil) }
        if let maximum = state.reconnectAttemptsMax, state.reconnectAttempts >= maximum {
            self.log(.attemptsExhausted)
            return answer(nil)
        }
        let fixed = state.losses.isImmediate ? nil : state.options.reconnectDelay
        var delay = state.losses.delay(attempts: fixed == nil ? state.reconnectAttempts : 0, maximum: state.maxReconnectGap)
        if let fixed { delay = max(delay, fixed) }
        if let interval = state.options.unavailableRetryInterval, state.phase == .unavailable {
            delay = max(interval, state.losses.minimumDelay)
        }
        guard self.delegate?.notifyConnectionWillReconnect(afterDelay: delay) ?? true, self.engine.awaitsRetryDecision else {
            return answer(nil)
        }
        self.setState(.reconnecting)
        self.log(
            .reconnecting(
                after: state.losses.isImmediate && delay == 0 ? nil : delay, attempt: state.reconnectAttempts + 1,
                of: state.reconnectAttemptsMax))
        self.state.update {
            $0.reconnectAttempts += 1
            $0.losses.close = nil
        }
        answer(.nanoseconds(Int64(min(delay, 1e9) * 1e9)))
    }

    // MARK: Frames

    /// Whether an event is decrypted, and then delivered, by the engine.
    private static func isEncrypted(_ event: String, on channel: String?) -> Bool {
        channel?.hasPrefix("private-encrypted-") == true && !event.hasPrefix("pusher:") && !event.hasPrefix("pusher_internal:")
    }

    /// - Parameter isFromEngine: Whether the frame arrived on a connection of the engine, which has handled it as well.
    func handle(frame text: String, isFromEngine: Bool) {
        if isFromEngine, let delegate = self.state.read({ $0.isDirect ? $0.delegate.value : nil }) {
            delegate.notifyDebugLog(message: LogText.received(text).text)
        }
        if let event = PusherEvent(scanning: text) { return self.handle(event, isFromEngine: isFromEngine) }
        guard let frame = FoundationJSON.object(text), let event = PusherEvent(frame) else { return self.log(.unhandled(text)) }
        guard event.eventName == "pusher:error" else { return self.handle(event, isFromEngine: isFromEngine) }
        guard let error = PusherError(jsonObject: frame) else { return self.log(.unhandledError(text)) }
        self.handleError(error: error)
        self.globalChannel?.handleGlobalError(frame)
    }

    private func handle(_ event: PusherEvent, isFromEngine: Bool) {
        let name = event.eventName
        if name == "pusher:pong" { return self.log(.pongReceived) }
        if let channel = event.channelName {
            // Events may arrive after the channel was unsubscribed.
            guard self.channels.find(name: channel) != nil else { return }
            if Self.isEncrypted(name, on: channel) {
                // Without a connection, there isn't a key.
                if !isFromEngine {
                    self.delegate?.notifyFailedToDecryptEvent(eventName: name, channelName: channel, data: event.data)
                    self.log(.undecryptable(channel))
                }
                return
            }
            if isFromEngine, name == "pusher_internal:subscription_succeeded" {
                let isConfirmed = self.state.mutate { state in
                    // The engine ignores the confirmation of a subscription that it has given up. Otherwise, it reports the subscription next.
                    let isConfirmed = state.confirmed.contains(ByteString(channel))
                    if !isConfirmed { state.confirmation = event }
                    return isConfirmed
                }
                guard isConfirmed else { return }
            }
            if isFromEngine, name == "pusher:subscription_error" || name == "pusher_internal:subscription_error" {
                self.state.set(\.rejected, to: channel)
            }
        }
        self.pass(event)
    }

    /// Passes an event to the method that subclasses override.
    private func pass(_ event: PusherEvent) {
        // Only a subclass can override the method of version 5, which calls the method of the other versions. Its argument takes time to
        // make.
        guard type(of: self) != PusherConnection.self else { return self.handleEvent(event: event) }
        (self as any FrameHandler).handleEvent(eventName: event.eventName, jsonObject: event.raw.mapValues { $0 as AnyObject })
    }

    func process(_ event: PusherEvent) {
        let channel = event.channelName.flatMap { self.channels.find(name: $0) }
        switch event.eventName {
        case "pusher:connection_established":
            guard let data = event.dataToJSONObject() as? [String: Any], let socketID = data["socket_id"] as? String else { return }
            self.log(.established(socketID))
            let activityTimeout = (data["activity_timeout"] as? NSNumber)?.doubleValue
            self.state.update { state in
                state.socketID = socketID
                state.reconnectAttempts = 0
                state.isEstablished = true
                if state.options.activityTimeout == nil, let activityTimeout { state.activityTimeout = activityTimeout }
            }
        case "pusher_internal:subscription_succeeded":
            guard let channel else { return }
            // First, so that other threads see the members of a channel that is subscribed.
            if let presence = (event.dataToJSONObject() as? [String: Any])?["presence"] as? [String: Any] {
                (channel as? PusherPresenceChannel)?.replaceMembers(with: presence)
            }
            channel.confirm()
            let succeeded = event.copy(withEventName: "pusher:subscription_succeeded")
            self.globalChannel?.handleGlobalEvent(event: succeeded)
            channel.handleEvent(event: succeeded)
            self.delegate?.notifySubscribedToChannel(name: channel.name)
            channel.sendUnsentEvents()
        case "pusher_internal:member_added":
            guard let data = event.dataToJSONObject() as? [String: Any], let member = PusherPresenceChannelMember(frame: data) else {
                return self.log(.memberNotAdded)
            }
            (channel as? PusherPresenceChannel)?.add(member)
            channel?.handleEvent(event: event.copy(withEventName: "pusher:member_added"))
        case "pusher_internal:member_removed":
            guard let data = event.dataToJSONObject() as? [String: Any], let id = PusherPresenceChannelMember.id(data["user_id"]) else {
                return self.log(.memberNotRemoved)
            }
            (channel as? PusherPresenceChannel)?.remove(userID: id)
            channel?.handleEvent(event: event.copy(withEventName: "pusher:member_removed"))
        case "pusher_internal:subscription_count":
            let data = event.dataToJSONObject() as? [String: Any]
            if let count = data?["subscription_count"] as? Int { channel?.setSubscriptionCount(count) }
            channel?.handleEvent(event: event.copy(withEventName: "pusher:subscription_count"))
        case "pusher_internal:subscription_error":
            let failed = event.copy(withEventName: "pusher:subscription_error")
            self.globalChannel?.handleGlobalEvent(event: failed)
            channel?.handleEvent(event: failed)
        default:
            self.globalChannel?.handleGlobalEvent(event: event)
            channel?.handleEvent(event: event)
        }
    }

    // MARK: Subscriptions

    /// Reports a subscription that failed, unless the channel was unsubscribed.
    ///
    /// - Parameter isDelivered: Whether handlers have been called with the failure.
    func subscriptionFailed(_ channel: PusherChannel, _ failure: AuthorizationFailure, isDelivered: Bool = false) {
        guard channel.isSame(as: self.channels.find(name: channel.name)) else { return }
        self.delegate?.notifyFailedToSubscribeToChannel(
            name: channel.name, response: failure.response, data: failure.data, error: failure.error)
        let frame = ["event": "pusher:subscription_error", "channel": channel.name, "data": failure.data ?? ""]
        if !isDelivered, let event = PusherEvent(frame) { self.pass(event) }
        if failure.isLocal { self.log(.unableToSubscribe(channel.name)) }
        if failure.isInvalidResponse { self.log(.invalidAuthorization(channel.name, failure.reason)) }
    }
}

/// The method of version 5. Called by the name of this protocol, it isn't deprecated.
private protocol FrameHandler { func handleEvent(eventName: String, jsonObject: PusherEventJSON) }

extension PusherConnection: FrameHandler {}

extension String {
    /// A message of the engine with the names of the options, which are those of the engine's settings.
    var namingOptions: String { self.replacingText("`PusherConfiguration.", with: "`PusherClientOptions.") }
}
