import PusherWire
import RealtimeCore

/// Frames that depend on the app's profile.
extension PusherServerMachine {
    var profile: PusherServerProfile { self.app.profile }

    func errorFrame(_ code: Int?, _ message: String, channel: String? = nil) -> TransportMessage {
        PusherFrames.error(
            code, message, channel: self.profile.errorsNameChannel ? channel : nil, omitsMissingCode: self.profile.omitsMissingErrorCodes,
            as: self.profile.errorData)
    }

    /// Sends an error, and closes the connection with its code, as far as the app's profile does so.
    ///
    /// - Parameter reason: The reason in the close frame, if it isn't the message.
    func close(_ id: ConnectionID, _ code: CloseCode, _ message: String, reason: String? = nil, _ effects: inout Effects<Self>) {
        if self.profile.sendsErrorsBeforeClosing { effects.commands.append(.send(id, self.errorFrame(Int(code.rawValue), message))) }
        if self.profile.closesWithoutCode {
            effects.commands.append(.close(id, .noStatus, reason: ""))
        } else {
            effects.commands.append(.close(id, code, reason: reason ?? message))
        }
    }

    /// - Parameter channel: The name of the channel, or `nil` if it is too long to be repeated.
    func subscriptionErrorFrame(_ code: Int?, _ message: String, channel: String?) -> TransportMessage {
        switch (self.profile.subscriptionErrors, channel) {
        case (.subscriptionError, let channel?):
            let unauthorized = Int(PusherCloseCode.unauthorized.rawValue)
            return code == unauthorized
                ? PusherFrames.subscriptionError(channel, type: "AuthError", status: 401, message)
                : PusherFrames.subscriptionError(channel, type: "LimitReached", status: code ?? unauthorized, message)
        case (.internalSubscriptionError, let channel?): return PusherFrames.internalSubscriptionError(channel)
        case (.error, _), (_, nil): return self.errorFrame(code, message, channel: channel)
        }
    }
}
