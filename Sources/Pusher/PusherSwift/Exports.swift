// Re-exports the types of other modules that programs need when they use the public API. More types of PusherChannels would make names
// ambiguous that both modules declare.
@_exported public import class PusherChannels.PusherClient
@_exported public import struct RealtimeCore.Transports
// For `Transports.standard`.
@_exported public import RealtimeTransports
