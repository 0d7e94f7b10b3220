/// Changes what is sent and received on the connections of a driver, for example to inject faults into them.
///
/// All methods are called under the driver's lock.
package protocol ConnectionInterceptor: AnyObject, Sendable {
    /// Returns the connection that the driver uses instead of another one, which may be open already.
    func intercept(_ connection: any MessageConnection, id: ConnectionID) -> any MessageConnection
    /// Returns whether the received messages of a connection are ignored.
    func ignoresMessages(of id: ConnectionID) -> Bool
    /// A connection has ended, or it is about to be abandoned.
    func ended(_ id: ConnectionID)
}
