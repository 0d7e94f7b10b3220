// The typed API: `HubClient` and what belongs to it.
@_exported public import SignalRHubs
