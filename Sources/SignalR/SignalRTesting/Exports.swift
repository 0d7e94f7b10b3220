// Re-exports what tests need beside the fixtures.
@_exported public import RealtimeTesting
@_exported public import SignalRHubs
@_exported public import SignalRServer
