public import Foundation
public import RealtimeCore

extension TransportError: LocalizedError {
    /// The message.
    public var errorDescription: String? { self.message }
}
