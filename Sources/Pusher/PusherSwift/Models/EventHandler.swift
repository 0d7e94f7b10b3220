/// A handler that is bound to an event.
public struct EventHandler {
    let id: String
    let callback: (PusherEvent) -> Void
}

/// A client event that waits for the subscription of its channel.
public struct QueuedClientEvent {
    /// The name of the event.
    public let name: String
    /// The data of the event.
    public let data: Any
}
