public import Foundation

extension SignalRError: LocalizedError {
    /// The same as ``description``.
    public var errorDescription: String? { self.description }
}

// On Apple platforms, `SignalRHubs` has this conformance. On Linux, that module doesn't use Foundation.
#if !canImport(Darwin)
public import SignalRHubs

extension HubError: LocalizedError {
    /// The message.
    public var errorDescription: String? { self.message }
}
#endif
