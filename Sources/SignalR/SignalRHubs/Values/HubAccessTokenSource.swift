/// Where the access tokens of a client come from, in the words of the application's user, for messages.
package enum HubAccessTokenSource: Hashable, Sendable {
    /// A closure with this name.
    case closure(String)
    /// A value with this name, such as an option of a command.
    case value(String)

    /// The advice for a server that requires a token, if there is none.
    var adviceIfMissing: String {
        switch self {
        case .closure(let name): "Set \(name)."
        case .value(let name): "Specify the access token with \(name)."
        }
    }

    /// The advice for a server that rejects the token.
    var adviceIfRejected: String {
        switch self {
        case .closure(let name): "Check the token that \(name) returns."
        case .value(let name): "Check the access token of \(name)."
        }
    }

    /// The message about a token that can't be sent.
    var invalidTokenMessage: String {
        let content = "a space, a control character or a non-ASCII character."
        return switch self {
        case .closure(let name): "\(name) returned a token with \(content) Return the token alone."
        case .value(let name): "The access token of \(name) contains \(content) Specify the token alone."
        }
    }

    /// The message about an error that was thrown in place of a token.
    func message(about error: any Error) -> String {
        switch self {
        case .closure(let name), .value(let name): "\(name) threw an error of the type \(type(of: error))."
        }
    }
}
